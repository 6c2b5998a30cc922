"""One turn of a session for a reader of its own, whoever runs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator

from gnomon.engine.ledger import Ledger, Read
from gnomon.engine.live import Channel
from gnomon.engine.plan import is_held_back
from gnomon.engine.turn import TurnState
from gnomon.session._answered import Answered
from gnomon.session._reader import Reader
from gnomon.session._spoken import Spoken
from gnomon.session.runtime import Runtime
from gnomon.types.events import (
    ApprovalRequested,
    Claimed,
    Compacted,
    Error,
    Live,
    MessageCompleted,
    MessageReceived,
    QuestionAsked,
    Released,
    RunEvent,
    SessionEvent,
    ToolProgress,
    Unknown,
)
from gnomon.types.records import utc_now

__all__ = ["Reading"]

_CANCEL_S = 5.0
"""How long a reader that leaves waits for the end of the turn that it cancels."""


class _Told(Reader):
    """A reader who does not wait for what may not come any more."""

    failure: Exception | None = None

    def fail(self, error: Exception) -> None:
        self.failure = error
        self._channel.ring()

    def _check(self) -> None:
        if self.failure is not None:
            raise self.failure


class Reading:
    """Reads on until the turn has ended, or waits for a person.

    `begin` does what is to be done first, and says which turn is meant; `leave` ends that turn when the
    reader leaves it. `place` is from where it is read; without one, from where the ledger ends.
    """

    def __init__(
        self,
        runtime: Runtime,
        session_id: str,
        channel: Channel,
        begin: Callable[[Ledger], Awaitable[Answered]],
        leave: Callable[[str], Awaitable[None]] | None,
        place: int | None,
    ) -> None:
        self._runtime = runtime
        self._session_id = session_id
        self._channel = channel
        self._begin = begin
        self._leave = leave
        self._place = place
        self._answered: Answered | None = None
        self._ended: TurnState | None = None
        """The turn that the reader has left, once it has been ended for that."""
        self._spoken = Spoken()

    def state(self) -> TurnState | None:
        """The turn; before it has begun the one that is in its way, which may wait for a person."""
        answered = self._answered
        return self._ended if answered is None or self._ended else answered.turn or answered.open_turn

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        ledger = await self._ledger()
        place = ledger.fold.seq if self._place is None else self._place
        reader = _Told(self._ledger, self._channel, self._runtime.owner, place)
        with self._runtime.asked.waiting(self._session_id, reader.fail):
            answered = self._answered = await self._begin(ledger)
            try:
                if await self._is_held_up(answered):
                    return
                async with reader:
                    async for event in reader:
                        for shown in self._taken(answered, reader, event):
                            yield shown
                        if answered.is_over:
                            return
                        if _may_hold_up(event) and await self._is_held_up(answered):
                            return
            except (GeneratorExit, asyncio.CancelledError):
                await self._left(answered)
                raise

    def _taken(self, answered: Answered, reader: Reader, event: SessionEvent) -> Iterator[RunEvent]:
        """Take the event in; what of it is shown, when it is of the turn that is meant."""
        if not isinstance(event, Live | ToolProgress):
            answered.take(Read(reader.position, event, reader.at or utc_now()))
        if isinstance(event, Claimed | Released | MessageReceived | Error | Unknown):
            return
        if answered.turn is None and not self._is_before(answered, event):
            return
        if isinstance(event, MessageCompleted):
            yield from self._spoken.rest(event.message)
        shown = event.event if isinstance(event, Live) else event
        self._spoken.take(shown)
        yield shown

    def _is_before(self, answered: Answered, event: SessionEvent) -> bool:
        """Whether it was done for the turn that is about to begin: its view is made to fit."""
        return isinstance(event, Compacted) and answered.open_turn is None

    async def _is_held_up(self, answered: Answered) -> bool:
        """Whether nothing more comes before a person acts; looked up, since one may have acted by now."""
        read, agent = answered.open_turn, self._runtime.agent
        if read is None or not (read.is_waiting or is_held_back(read, agent)):
            return False  # what is waited for is yet to be read
        fold = (await self._ledger()).fold
        turn = fold.open_turn
        if turn is None or turn.id != read.id or fold.cancel is not None:
            return False
        if read.is_waiting and turn.is_waiting:  # what it waits for was shown
            return True
        return read.is_paused and is_held_back(turn, agent)

    async def _left(self, answered: Answered) -> None:
        """The turn is cancelled, be it by patience or not at all: a store may hang."""
        if self._leave is None or answered.is_over:
            return
        ending = asyncio.ensure_future(self._cancelled(answered, self._leave))
        try:
            await asyncio.wait({ending}, timeout=_CANCEL_S)
        finally:
            if not ending.done():
                ending.cancel()
            elif not ending.cancelled():
                ending.exception()  # what could not be written stays open, and is found by whoever comes next

    async def _cancelled(self, answered: Answered, leave: Callable[[str], Awaitable[None]]) -> None:
        """End the turn, also one that has begun without the reader having heard of it."""
        turn = answered.turn
        if turn is None:
            begun = (await self._ledger()).fold.open_turn
            turn = begun if begun is not None and answered.message_id in begun.started.inputs else None
        if turn is not None:
            await leave(turn.id)
            latest = (await self._runtime.ledger(self._session_id, refresh=False)).fold.turn
            self._ended = latest if latest is not None and latest.id == turn.id and latest.ended else None

    async def _ledger(self) -> Ledger:
        return await self._runtime.ledger(self._session_id)


def _may_hold_up(event: SessionEvent) -> bool:
    """A runner has let go, or a sub-agent waits for a person, which is told while nobody runs the turn."""
    if isinstance(event, ApprovalRequested | QuestionAsked):
        return bool(event.path)
    return isinstance(event, Released)
