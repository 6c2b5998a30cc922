"""What is kept of a session around its run: its row, and its place among those that run here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from gnomon.engine.ledger import Ledger
from gnomon.engine.plan import has_work
from gnomon.types.records import SessionRecord

if TYPE_CHECKING:
    from gnomon.engine.loop import Loop
    from gnomon.session.runtime import Runtime

__all__ = ["Attending"]


class Attending:
    """Sees to one session while a loop runs it. `row` is that of a session which is new."""

    def __init__(self, runtime: Runtime, ledger: Ledger, row: SessionRecord | None) -> None:
        self._runtime = runtime
        self._ledger = ledger
        self._row = row
        self.loop: Loop | None = None

    async def opened(self) -> None:
        """Before the claim."""
        runtime, ledger = self._runtime, self._ledger
        await runtime.hold()
        if self.loop is not None:
            runtime.loops[ledger.session_id] = (self.loop, ledger)
            runtime.lookout.start()

    async def claiming(self, append: Awaitable[bool]) -> bool:
        """A new session gets its row in the same breath: two writes at once are one sync of the disk."""
        row, self._row = self._row, None
        if row is None:
            return await append
        _, is_appended = await asyncio.gather(self._ledger.create(row), append)
        return is_appended

    async def claimed(self) -> None:
        """The row says who runs it, for whoever looks for sessions that nobody runs."""
        runtime, ledger = self._runtime, self._ledger
        runtime.rows.forget(ledger)
        row = ledger.known_row
        is_said = row is not None and row.runnable and row.metadata.get("owner") == runtime.owner
        if not is_said:
            await ledger.project("running", runnable=True, owner=runtime.owner)

    async def closed(self) -> None:
        """After the end, whatever it was. The row is derived: it is written soon, and with others."""
        runtime, ledger = self._runtime, self._ledger
        held = runtime.loops.get(ledger.session_id)
        if held is None or held[0] is not self.loop:
            return
        del runtime.loops[ledger.session_id]
        if ledger.fold.owner is not None:
            return  # it is another's, or it could not be released: the row says the truth
        runtime.rows.settle(ledger)
        if has_work(ledger.fold, runtime.agent) and not runtime.is_closing:
            await runtime.wake(ledger.session_id, ledger.fold.seq)
