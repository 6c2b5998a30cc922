"""What is kept of a session around its run: its row, and its place among those that run here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Ledger, Read
from gnomon.engine.plan import has_work, wakes_at
from gnomon.errors import Conflict, GnomonError
from gnomon.session._chores import concerns
from gnomon.session._family import Kin, report, tell_decided
from gnomon.types.messages import Message
from gnomon.types.records import SessionRecord

if TYPE_CHECKING:
    from gnomon.engine.loop import Loop
    from gnomon.session.runtime import Runtime

__all__ = ["Attending"]

log = logging.getLogger("gnomon.session")

_GRACE_S = 5.0
_NOTHING_DONE = 2
"""What a runner writes that does nothing: its claim, and that it lets go."""
_AGAIN_S = 1.0


class Attending:
    """Sees to one session while a loop runs it. `row` is that of a session which is new.

    A loop that `is_driven` is run again by the driver when it fails; another is handed over to it.
    """

    def __init__(
        self,
        runtime: Runtime,
        ledger: Ledger,
        row: SessionRecord | None,
        kin: Kin | None = None,
        *,
        is_driven: bool,
    ) -> None:
        self._runtime = runtime
        self._kin = kin
        self._ledger = ledger
        self._row = row
        self._creating: asyncio.Task[None] | None = None
        self._is_driven = is_driven
        self._reads: list[Read] = []
        """What has happened to the session while it was run here."""
        self._was_lost = False
        """Whether the runner before this one died, so that it may have left things undone."""
        self._following = ExitStack()
        self._began_at = 0
        """Where the ledger ended before."""
        self.loop: Loop | None = None

    async def opened(self) -> None:
        """Before the claim. One runner at a time: two of this process would pass for one owner."""
        runtime, ledger = self._runtime, self._ledger
        await runtime.hold()
        if ledger.session_id in runtime.loops:
            raise Conflict(f"session {ledger.session_id!r} is run here already")
        assert self.loop is not None
        runtime.loops[ledger.session_id] = (self.loop, ledger)
        self._was_lost, self._began_at = ledger.fold.owner is not None, ledger.fold.seq
        if runtime.chores.wanted:
            self._following.enter_context(ledger.following(self._note))
        runtime.lookout.start()

    def _note(self, read: Read) -> None:
        if concerns(read):
            self._reads.append(read)

    async def claiming(self, append: Awaitable[bool]) -> bool:
        """A new session gets its row in the same breath: two writes at once are one sync of the disk."""
        if self._row is None or self._creating is not None:
            return await append
        self._creating = asyncio.ensure_future(self._create(self._row))
        # A reader that leaves now breaks off the append, but not the row: what stands is to be found.
        appended = await asyncio.ensure_future(append)
        await self._row_written()
        return appended

    async def _create(self, row: SessionRecord) -> None:
        try:
            await self._ledger.create(row)
        except Conflict:
            pass  # somebody else began the session at the same time, and has written it
        except GnomonError as error:
            log.warning("the row of session %s is yet to be written: %s", row.id, error)

    async def _row_written(self) -> None:
        if self._creating is not None and not self._creating.done():
            await asyncio.wait({self._creating})

    async def claimed(self) -> None:
        """The row says who runs it, for whoever looks for sessions that nobody runs."""
        runtime, ledger = self._runtime, self._ledger
        await runtime.rows.forget(ledger)
        await self._row_written()
        row = ledger.known_row
        if row is None and (row := await ledger.row()) is None:
            row = self._row or runtime.new_row(ledger.session_id, _first(ledger.fold), is_run_here=True)
            await ledger.create(row)
        if not row.runnable or row.metadata.get("owner") != runtime.owner:
            await ledger.project("running", runnable=True, owner=runtime.owner)
        if self._kin is not None:
            await tell_decided(runtime, ledger, self._kin)

    async def closed(self) -> None:
        """After the end, whatever it was. The row is derived: it is written soon, and with others."""
        runtime, ledger = self._runtime, self._ledger
        try:
            await self._see_to_row()
        finally:
            del runtime.loops[ledger.session_id]
            self._following.close()
            if self._reads:
                runtime.chores.add(ledger, self._reads, self._kin, was_lost=self._was_lost)
        if ledger.fold.owner is not None or ledger.is_unsure:
            # It is another's, or it could not be released: the row says the truth.
            if not self._is_driven and ledger.fold.owner in (None, runtime.owner):
                await runtime.nudge(ledger.session_id)
            return
        if self._kin is not None:
            await report(runtime, ledger, self._kin)
        runtime.rows.settle(ledger)
        if runtime.is_closing or self._is_failed():
            return
        if has_work(ledger.fold, runtime.agent, runtime.clock.now()):
            if ledger.fold.seq - self._began_at <= _NOTHING_DONE:
                runtime.look_at(ledger.session_id, _AGAIN_S)  # nothing came of it: not as fast as it can
            else:
                await runtime.wake(ledger.session_id, ledger.fold.seq)
        elif (at := wakes_at(ledger.fold)) is not None:
            delay_s = (at - runtime.clock.now()).total_seconds()
            runtime.look_at(ledger.session_id, max(delay_s, 0.01))

    def _is_failed(self) -> bool:
        """Whether the driver runs it again, after a while: at once, it would fail as fast as it can."""
        return self._is_driven and self.loop is not None and self.loop.is_broken

    async def _see_to_row(self) -> None:
        """What was begun has a row, however it ended; nobody waits for ever for a store that hangs."""
        ledger, row = self._ledger, self._row
        if row is None or self._creating is None or (ledger.known_row is not None and self._creating.done()):
            return
        with suppress(TimeoutError, GnomonError):
            async with asyncio.timeout(_GRACE_S):
                await self._row_written()
                if (ledger.fold.seq or ledger.is_unsure) and await ledger.row() is None:
                    await ledger.create(row)
        self._creating.cancel()


def _first(fold: Fold) -> Message:
    """What the session began with, as far as it is still shown."""
    return next((message for message in fold.messages if message.role == "user"), Message.user(""))
