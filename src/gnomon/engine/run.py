"""One turn as something to read: its events while it runs, and what it came to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Generic, cast

from gnomon.engine._partial import PartialJSON
from gnomon.engine.answer import OUTPUT_TOOL, Answer
from gnomon.engine.turn import Ended, TurnState
from gnomon.errors import ConfigError, InvalidOutput, TurnUnfinished
from gnomon.stream import PullStream
from gnomon.types.events import (
    AttemptDiscarded,
    ModelStarted,
    RunEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallStart,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStop,
)
from gnomon.types.records import utc_now
from gnomon.types.steps import Out, Turn

__all__ = ["Run", "check_not_waiting", "turn_of"]


class Run(PullStream[RunEvent], Generic[Out]):
    """A running turn. Read its events in order; `turn` is there when they have ended.

    Leaving the `async with` block before that cancels the turn, unless it was asked to go on.
    """

    def __init__(
        self,
        events: AsyncGenerator[RunEvent, None],
        state: Callable[[], TurnState | None],
        *,
        turn_id: str,
        session_id: str,
        answer: Answer | None = None,
    ) -> None:
        super().__init__(events)
        self._id = turn_id
        self.session_id = session_id
        self._state = state
        self._answer = answer
        self._turn: Turn[Out] | None = None

    @property
    def id(self) -> str:
        """The id of the turn. Of one that somebody else runs it is known when it begins, and empty before."""
        state = self._state() if not self._id else None
        return state.id if state is not None else self._id

    @property
    def turn(self) -> Turn[Out]:
        if self._turn is None:
            state = self._state()
            if state is None or state.ended is None:
                hint = f"answer with agent.session({self.session_id!r}).answer(…), or cancel the turn there"
                check_not_waiting(state, hint)
                raise RuntimeError("the turn is not over: read its events to the end first")
            self._turn = cast("Turn[Out]", turn_of(state, self.session_id, self._answer))
        return self._turn

    async def text(self) -> AsyncGenerator[str, None]:
        """Only the text, as it comes."""
        async for event in self:
            if type(event) is TextDelta:
                yield event.text

    async def partials(self) -> AsyncGenerator[object, None]:
        """The output so far, as plain data, each time there is more of it."""
        answer = self._answer
        if answer is None:
            raise ConfigError("this agent has no output type", hint="read text() instead")
        reader, call_id = PartialJSON(answer.opening), ""
        async for event in self:
            match event:
                case ModelStarted() | AttemptDiscarded():
                    reader, call_id = PartialJSON(answer.opening), ""
                    continue
                case ToolCallStart(id=started, name=name) if name == OUTPUT_TOOL and answer.mode == "tool":
                    reader, call_id = PartialJSON(answer.opening), started
                    continue
                case ToolCallDelta(id=fed, arguments=text) if fed == call_id:
                    pass
                case TextDelta(text=text) if not call_id:
                    pass
                case _:
                    continue
            if reader.feed(text):
                yield answer.partial(reader.snapshot())


def check_not_waiting(turn: TurnState | None, hint: str, *, is_held_back: bool = True) -> None:
    """`TurnUnfinished` for a turn that does not go on before a person acts; `hint` says how to answer.

    `is_held_back` is off where a turn that is paused goes on by itself.
    """
    if turn is None or turn.ended is not None:
        return
    requests = (*turn.open_requests, *turn.told_requests) if turn.is_waiting else ()
    if requests:
        calls = ", ".join(f"{each.call.name} ({each.approval_id})" for each in requests)
        hint = hint.replace(".answer(…)", ".approve(…) or .deny(…)")
        raise TurnUnfinished(f"the turn waits for leave to call {calls}", turn_id=turn.id, hint=hint)
    for asked in (*turn.open_questions, *turn.told_questions):
        raise TurnUnfinished(f"the turn waits for an answer: {asked.question}", turn_id=turn.id, hint=hint)
    if turn.is_paused and is_held_back:
        hint = "session.resume() goes on under the new definition"
        raise TurnUnfinished("the turn is paused: its agent was changed", turn_id=turn.id, hint=hint)


def turn_of(state: TurnState, session_id: str, answer: Answer | None) -> Turn[object]:
    """What a turn that has ended came to."""
    ended = state.ended
    assert ended is not None
    value, has_output = _value(state, answer) if isinstance(ended, TurnFinished) else (None, False)
    return Turn(
        id=state.id,
        session_id=session_id,
        messages=tuple(state.messages),
        stop=_stop(ended),
        rounds=state.rounds,
        usage=ended.usage,
        cost=ended.cost,
        started_at=state.started_at or utc_now(),
        ended_at=state.ended_at or utc_now(),
        error=ended.error if isinstance(ended, TurnFailed) else None,
        value=value,
        has_output=has_output,
    )


def _stop(ended: Ended) -> TurnStop:
    if isinstance(ended, TurnFinished):
        return ended.stop
    return "cancelled" if isinstance(ended, TurnCancelled) else "failed"


def _value(state: TurnState, answer: Answer | None) -> tuple[object, bool]:
    """The output, and whether there is one: it may be `None` where the type allows that."""
    if answer is None:
        spoken = (message.text for message in reversed(state.messages) if message.role == "assistant")
        return next(spoken, ""), True
    try:
        return answer.value(state.messages), True
    except InvalidOutput:
        return None, False
