"""One turn as something to read: its events while it runs, and what it came to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

from gnomon.engine.clock import Clock, SystemClock
from gnomon.engine.definition import Definition
from gnomon.engine.history import History
from gnomon.engine.ids import new_id
from gnomon.engine.loop import run_turn
from gnomon.stream import PullStream
from gnomon.types.events import RunEvent, TextDelta, TurnFinished
from gnomon.types.messages import Message
from gnomon.types.steps import Turn

__all__ = ["Run"]


class Run(PullStream[RunEvent]):
    """A running turn. Read its events in order; `turn` is there when they have ended.

    Leaving the `async with` block before that cancels the turn.
    """

    def __init__(
        self, agent: Definition, message: Message, earlier: Sequence[Message] = (), clock: Clock | None = None
    ) -> None:
        self.id = new_id("turn")
        self._clock = clock or SystemClock()
        self._history = History(earlier)
        self._first = len(self._history.messages)
        self._turn: Turn | None = None
        super().__init__(
            run_turn(
                agent,
                self._history,
                message,
                turn_id=self.id,
                clock=self._clock,
                on_finished=self._finish,
            )
        )

    @property
    def turn(self) -> Turn:
        if self._turn is None:
            raise RuntimeError("the turn is not over: read its events to the end first")
        return self._turn

    async def text(self) -> AsyncGenerator[str, None]:
        """Only the text, as it comes."""
        async for event in self:
            if type(event) is TextDelta:
                yield event.text

    def _finish(self, event: TurnFinished, started_at: datetime) -> None:
        self._turn = Turn(
            id=self.id,
            messages=tuple(self._history.messages[self._first :]),
            stop=event.stop,
            rounds=event.rounds,
            usage=event.usage,
            cost=event.cost,
            started_at=started_at,
            ended_at=self._clock.now(),
        )
