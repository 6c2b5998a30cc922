"""A provider that gives just the events it is told to, and a guardrail that looks for one word."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from gnomon import Agent, Turn
from gnomon.contracts.guardrail import Position, View
from gnomon.contracts.provider import Provider
from gnomon.stream import PullStream
from gnomon.types.events import (
    Done,
    Finish,
    Guarded,
    ProviderEvent,
    RunEvent,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from gnomon.types.messages import Message, ToolCall
from gnomon.types.requests import Request, Response, Usage
from gnomon.types.steps import GuardrailResult, HookEvent

__all__ = ["USED", "Answering", "Told", "Word", "calling", "ended", "read"]

USED = Usage(input_tokens=100, output_tokens=10)

Said = ProviderEvent | Callable[[], Awaitable[object]]


class Told(Provider):
    """One list of events an answer; a function among them is waited for."""

    name = "told"
    model = "m"

    def __init__(self, *answers: Sequence[Said]) -> None:
        self._answers = list(answers)
        self.requests: list[Request] = []

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append(request)
        for said in self._answers.pop(0):
            if callable(said):
                await said()
            else:
                yield said

    def was_shown(self, word: str) -> bool:
        return any(word in repr(request) for request in self.requests)


class Word:
    """Stops at a word, or puts another in its place."""

    name = "word"

    def __init__(
        self,
        word: str = "forbidden",
        *positions: Position,
        view: View | None = None,
        replacement: str | None = None,
    ) -> None:
        self.positions = frozenset(positions or ("output",))
        self._word, self._replacement = word, replacement
        if view is not None:
            self.view = view

    async def check(self, content: str) -> GuardrailResult:
        if self._word not in content:
            return GuardrailResult(passed=True)
        put_in = None if self._replacement is None else content.replace(self._word, self._replacement)
        return GuardrailResult(passed=False, reason="it is in there", replacement=put_in)


class Answering:
    """A hook that answers in the place of the model, with events of its own."""

    def __init__(self, text: str, *before: RunEvent) -> None:
        self._events = [*before, Done(Response(message=Message.assistant(text), stop_reason="end_turn"))]

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...

    async def around(self, event: HookEvent, call: object) -> PullStream[RunEvent]:
        return PullStream(self._given())

    async def _given(self) -> AsyncGenerator[RunEvent, None]:
        for event in self._events:
            yield event


def ended(usage: Usage | None = USED) -> Finish:
    return Finish(stop_reason="end_turn", usage=usage)


def calling(name: str, arguments: str, *, truncated: bool = False) -> list[ProviderEvent]:
    call = ToolCall("c1", name, arguments, 0, truncated=truncated)
    stop = "max_tokens" if truncated else "tool_use"
    return [
        ToolCallStart(0, "c1", name),
        ToolCallDelta(0, "c1", arguments),
        ToolCallEnd(0, call),
        Finish(stop_reason=stop, usage=USED),
    ]


async def read(agent: Agent, word: str = "forbidden") -> tuple[Turn, list[RunEvent]]:
    """The turn and its events, none of which has the word in it."""
    events: list[RunEvent] = []
    try:
        async with agent, agent.stream("Go on.") as run:
            async for event in run:
                events.append(event)
        return run.turn, events
    finally:
        assert [each for each in events if not isinstance(each, Guarded) and word in repr(each)] == []
