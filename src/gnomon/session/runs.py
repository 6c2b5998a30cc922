"""A single run as a session of its own: read by whoever asked for it, or left to go on by itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing

from gnomon.engine.history import settled
from gnomon.engine.ids import new_id
from gnomon.engine.ledger import Ledger
from gnomon.engine.turn import TurnState
from gnomon.session._answered import Answered
from gnomon.session._reading import Reading
from gnomon.session.runtime import Runtime
from gnomon.types.codec import exception_of
from gnomon.types.events import CancelRequested, MessageReceived, RunEvent, TurnFailed
from gnomon.types.messages import Message

__all__ = ["Detached", "Durable"]


class Durable:
    """A new session whose one turn is run by the reader itself: nothing stands between it and the model."""

    def __init__(
        self,
        runtime: Callable[[], Runtime],
        session_id: str,
        turn_id: str,
        message: Message,
        earlier: Sequence[Message],
        metadata: Mapping[str, object],
        user_id: str = "",
    ) -> None:
        self._runtime = runtime
        self._session_id = session_id
        self._metadata = metadata
        self._user_id = user_id
        self._turn_id = turn_id
        self._message = message
        self._earlier = earlier
        self._ledger: Ledger | None = None

    def state(self) -> TurnState | None:
        return self._ledger.fold.turn if self._ledger is not None else None

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        runtime = self._runtime()
        ledger = self._ledger = await runtime.new_ledger(self._session_id)
        ledger.know_user(self._user_id)
        opening = received(self._message, self._earlier)
        runtime.chores.note_sender(opening[-1].message_id)
        loop = runtime.loop(
            ledger,
            opening=opening,
            turns=1,
            turn_id=self._turn_id,
            row=runtime.new_row(
                self._session_id,
                self._message,
                is_run_here=True,
                metadata=self._metadata,
                user_id=self._user_id,
            ),
        )
        async with aclosing(loop.events()) as events:
            async for event in events:
                yield event


class Detached:
    """A new session that the runtime runs: the reader may leave, and the turn goes on."""

    def __init__(
        self,
        runtime: Callable[[], Runtime],
        session_id: str,
        message: Message,
        earlier: Sequence[Message],
        metadata: Mapping[str, object],
        *,
        user_id: str = "",
        is_left: bool = False,
    ) -> None:
        self._runtime = runtime
        self._session_id = session_id
        self._metadata = metadata
        self._user_id = user_id
        self._is_left = is_left
        """Whether a reader that leaves ends the turn, and is raised what it failed with."""
        self._entries = received(message, earlier)
        self._message = message
        self._reading: Reading | None = None

    def state(self) -> TurnState | None:
        return self._reading.state() if self._reading is not None else None

    async def events(self) -> AsyncGenerator[RunEvent, None]:
        runtime, session_id = self._runtime(), self._session_id
        leave = self._leave if self._is_left else None
        self._reading = Reading(runtime, session_id, runtime.channel(session_id), self._begin, leave, 0)
        failed: TurnFailed | None = None
        async with aclosing(self._reading.events()) as events:
            async for event in events:
                if self._is_left and isinstance(event, TurnFailed):
                    failed = event
                else:
                    yield event
        if failed is not None:
            raise exception_of(failed.error)

    async def _leave(self, turn_id: str) -> None:
        runtime = self._runtime()
        ledger = await runtime.ledger(self._session_id)
        if ledger.fold.turn_id == turn_id:
            await ledger.receive(CancelRequested("now", "the reader left"))
            await runtime.family.wake(ledger)

    async def _begin(self, ledger: Ledger) -> Answered:
        runtime, session_id = self._runtime(), self._session_id
        row = runtime.new_row(session_id, self._message, metadata=self._metadata, user_id=self._user_id)
        await ledger.create(row)
        runtime.chores.note_sender(self._entries[-1].message_id)
        for entry in self._entries:
            runtime.want(session_id, entry.message_id)
        await ledger.receive(*self._entries)
        await runtime.wake(session_id, ledger.fold.seq)
        return Answered(self._entries[-1].message_id)


def received(message: Message, earlier: Sequence[Message]) -> list[MessageReceived]:
    """What is handed in together, in one turn."""
    before = [MessageReceived(new_id("msg"), each, joins_next=True) for each in settled(earlier)]
    return [*before, MessageReceived(new_id("msg"), message)]
