"""What comes from outside on its way into a session's ledger: written, and the session woken for it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from gnomon.contracts.session import WhenBusy
from gnomon.engine.fold import Fold
from gnomon.engine.journal import TRIES, crowded
from gnomon.engine.ledger import Ledger
from gnomon.errors import Conflict, NotFound
from gnomon.session._brought import Brought
from gnomon.session._times import LOST_WAKE
from gnomon.types.events import CancelRequested, LedgerEntry, MessageReceived
from gnomon.types.messages import Message
from gnomon.types.records import SessionRecord

if TYPE_CHECKING:
    from gnomon.session.runtime import Runtime

__all__ = ["Sending", "not_theirs"]

_DOUBT_S = 2.0
"""After how long a session is looked at when a write was broken off, which may still be under way."""


class Sending:
    """For one session. `metadata` and `user_id` are kept in its row when that is made.

    `is_new` says that nobody can know of the session, so that there is nothing to read. With a `user_id`
    it is for that user's sessions alone.
    """

    def __init__(
        self,
        runtime: Runtime,
        session_id: str,
        metadata: Mapping[str, object],
        *,
        is_new: bool,
        user_id: str | None = None,
    ) -> None:
        self._runtime = runtime
        self._id = session_id
        self._metadata = metadata
        self.user_id = user_id
        self.is_new = is_new

    async def send(self, ledger: Ledger, received: MessageReceived, when_busy: WhenBusy) -> None:
        if not await self._lacks_row(ledger) or not await self._is_created(
            ledger, self._new_row(received.message)
        ):
            await self._announce(ledger)
        with self.writing(ledger), self._wanting(received.message_id):
            if when_busy in ("reject", "interrupt"):
                await self._send_by_state(ledger, received, when_busy)
            else:
                await ledger.receive(received)
        if ledger.known_row is None:  # others have run the session since, and their row may not know of this
            await self._announce(ledger)
        await self.wake(ledger)

    async def bring(
        self, ledger: Ledger, received: MessageReceived, when_busy: WhenBusy, news: asyncio.Event
    ) -> Brought | None:
        """Send what its sender waits for anyway: a session that rests is claimed in the same breath."""
        if when_busy in ("reject", "interrupt") or not self._runtime.adopts or not self._rests(ledger):
            await self.send(ledger, received, when_busy)
            return None
        row, is_new = None, self.is_new
        if not await self._lacks_row(ledger):
            await self._announce(ledger)
        elif self.user_id is None or is_new:
            row = self._new_row(received.message, is_run_here=True)
        elif not await self._is_created(ledger, self._new_row(received.message, is_run_here=True)):
            await self._announce(ledger)
        if not self._rests(ledger):  # others were quicker, and their turn may be a long one
            await self.send(ledger, received, when_busy)
            return None
        brought = Brought(received, row, news)
        self._runtime.begin(self._id, brought)
        return brought

    def _rests(self, ledger: Ledger) -> bool:
        """Whether nobody has anything to do with it, as far as is known here."""
        fold = ledger.fold
        is_idle = fold.open_turn is None and not fold.waiting and fold.owner is None
        return is_idle and not self._runtime.is_at_work_on(self._id)

    async def _send_by_state(self, ledger: Ledger, received: MessageReceived, when_busy: WhenBusy) -> None:
        """What is written depends on what is there, so both are looked at together."""
        for _ in range(TRIES):
            await ledger.refresh()
            fold = ledger.fold
            is_busy = fold.open_turn is not None or bool(fold.waiting)
            if received.message_id in fold.recent:
                return
            if is_busy and when_busy == "reject":
                raise Conflict(f"session {self._id!r} is busy", hint="wait, or send with another when_busy")
            entries: list[LedgerEntry] = [received]
            if is_busy:
                entries.insert(0, CancelRequested("now", "interrupted by a message"))
            if await ledger.try_receive(entries, fold.seq):
                return
        raise crowded(self._id)

    async def _lacks_row(self, ledger: Ledger) -> bool:
        if self.is_new:
            self.is_new = False
            return True
        row = ledger.known_row or await ledger.row()
        if row is not None or ledger.fold.seq:
            await self.admit(ledger)
        return row is None

    async def _is_created(self, ledger: Ledger, row: SessionRecord) -> bool:
        """Make the row, which says that there is something to do; unless somebody else was first."""
        try:
            await ledger.create(row)
        except Conflict:
            await self.admit(ledger)
            return False
        return True

    async def admit(self, ledger: Ledger) -> None:
        """Nothing of another user's session is shown, and nothing is written to it."""
        if self.user_id is not None and await ledger.whose() != self.user_id:
            raise not_theirs(self._id)

    def _new_row(self, message: Message, *, is_run_here: bool = False) -> SessionRecord:
        return self._runtime.new_row(
            self._id,
            message,
            is_run_here=is_run_here,
            metadata=self._metadata,
            user_id=self.user_id or "",
        )

    async def _announce(self, ledger: Ledger) -> None:
        """The row says that there will be something to do, before there is: a wake may get lost."""
        runtime = self._runtime
        await runtime.rows.forget(ledger)
        row = ledger.known_row or await ledger.row()
        if row is None:
            return
        if not row.runnable or row.metadata.get("owner") != runtime.owner:
            await ledger.announce(runtime.clock.now() + LOST_WAKE)

    async def announce_again(self, ledger: Ledger) -> None:
        """The same of a session that is there: what is to be done about its turn must not get lost."""
        await self._runtime.rows.forget(ledger)
        with suppress(NotFound):  # whoever runs it makes its row
            await ledger.row()
            await ledger.announce(self._runtime.clock.now() + LOST_WAKE)

    @contextmanager
    def writing(self, ledger: Ledger) -> Generator[None, None, None]:
        """What is broken off may stand all the same: then the session is looked at, and not left with it."""
        try:
            yield
        except BaseException:
            if ledger.is_unsure:
                self._runtime.look_at(self._id, _DOUBT_S)
            raise

    @contextmanager
    def _wanting(self, message_id: str) -> Generator[None, None, None]:
        """What is sent is to be answered; it is known before whoever runs the session may see it."""
        self._runtime.want(self._id, message_id)
        try:
            yield
        except Exception:
            self._runtime.asked.drop(self._id, message_id)
            raise

    def want_next(self, fold: Fold) -> None:
        """Where no turn is open, going on means to begin the next."""
        if fold.open_turn is None:
            for message_id in tuple(fold.waiting)[:1]:
                self._runtime.want(self._id, message_id)

    async def wake(self, ledger: Ledger) -> None:
        running = self._runtime.loops.get(self._id)
        if running is not None:
            running[0].look()
        else:
            await self._runtime.wake(self._id, ledger.fold.seq)


def not_theirs(session_id: str) -> Conflict:
    """To whoever asks as another user. Whose it is they are not told."""
    return Conflict(
        f"session {session_id!r} is not of the user that was given",
        hint="a session keeps the user that it began with: open it as that one, or choose another id",
    )
