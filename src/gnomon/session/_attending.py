"""What is kept of a session around its run: its row, and its place among those that run here."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from gnomon.engine.ledger import Ledger
from gnomon.engine.plan import has_work
from gnomon.errors import StorageError
from gnomon.types.records import SessionRecord

if TYPE_CHECKING:
    from gnomon.engine.loop import Loop
    from gnomon.session.runtime import Runtime

__all__ = ["Attending"]

log = logging.getLogger("gnomon.session")


class Attending:
    """Sees to one session while a loop runs it. `row` is that of a session which is new."""

    def __init__(self, runtime: Runtime, ledger: Ledger, row: SessionRecord | None) -> None:
        self._runtime = runtime
        self._ledger = ledger
        self._row = row
        self.loop: Loop | None = None

    async def opened(self) -> None:
        """Before the claim: a new session has a row first, so that it is found whatever happens next."""
        runtime, ledger = self._runtime, self._ledger
        await runtime.hold()
        if self._row is not None:
            await ledger.create(self._row)
        if self.loop is not None:
            runtime.loops[ledger.session_id] = (self.loop, ledger)
            runtime.lookout.start()

    async def claimed(self) -> None:
        """The row says who runs it, for whoever looks for sessions that nobody runs."""
        if self._row is None:
            await self._ledger.project("running", runnable=True, owner=self._runtime.owner)

    async def closed(self) -> None:
        """After the end, whatever it was: the row is derived, so that its trouble is not the run's."""
        runtime, ledger = self._runtime, self._ledger
        held = runtime.loops.get(ledger.session_id)
        if held is None or held[0] is not self.loop:
            return
        del runtime.loops[ledger.session_id]
        if ledger.fold.owner is not None:
            return  # it is another's, or it could not be released: the row says the truth
        has_more = has_work(ledger.fold, runtime.agent)
        try:
            status = "waiting" if ledger.fold.open_turn is not None else "idle"
            await ledger.project(status, runnable=has_more)
            if has_more and not runtime.is_closing:
                await runtime.wake(ledger.session_id, ledger.fold.seq)
        except StorageError as error:
            log.warning("the row of session %s could not be written: %s", ledger.session_id, error)
