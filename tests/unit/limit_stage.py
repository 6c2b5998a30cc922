"""Steps as the engine makes them, and what stands inside of all hooks: a model, a tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from threading import Lock

from gnomon.contracts.hook import SupportsAround
from gnomon.stream import PullStream, Stream
from gnomon.types.events import Finish, ProviderEvent, RunEvent, TextDelta, ToolFinished, UsageUpdate
from gnomon.types.messages import Message, ToolCall, ToolResult
from gnomon.types.requests import Request, StopReason, Usage
from gnomon.types.steps import HookEvent

QUESTION = "When is high tide in Dover?"
ANSWER = ("High tide", " is at ", "noon.")

Answer = Callable[[], AsyncGenerator[ProviderEvent, None]]


def asked(text: str = QUESTION, **parameters: object) -> Request:
    return Request(messages=(Message.user(text),), **parameters)


def model_step(request: Request | None = None, *, name: str = "acme:tide", **fields: object) -> HookEvent:
    return HookEvent(kind="model", name=name, request=request or asked(), **fields)


def tool_step(
    arguments: str = '{"city": "Dover"}', *, name: str = "tide", call_id: str = "call_1"
) -> HookEvent:
    return HookEvent(kind="tool", name=name, turn_id="turn_1", tool_call=ToolCall(call_id, name, arguments))


def answer(
    *texts: str, used: Usage | None = None, stop: StopReason = "end_turn", pause_s: float = 0.0
) -> Answer:
    """A model that says this, chunk by chunk, with a pause before each."""

    async def events() -> AsyncGenerator[ProviderEvent, None]:
        if used is not None:
            yield UsageUpdate(used)
        for text in texts or ANSWER:
            await asyncio.sleep(pause_s)
            yield TextDelta(0, text)
        yield Finish(stop_reason=stop, id="resp_1", usage=used)

    return events


class Model:
    """What stands inside of all hooks: it answers each call by the next of its answers, or by the last.

    It fails a test that does not show it the request that it is to see.
    """

    def __init__(self, *answers: Answer, sees: HookEvent | None = None) -> None:
        self._answers = answers or (answer(),)
        self._sees = sees
        self.calls: list[HookEvent] = []
        self.open = 0
        self.most_open = 0
        self._lock = Lock()

    async def __call__(self, event: HookEvent) -> PullStream[RunEvent]:
        if self._sees is not None:
            assert (event.kind, event.name, event.request) == (
                self._sees.kind,
                self._sees.name,
                self._sees.request,
            )
        answer = self._answers[min(len(self.calls), len(self._answers) - 1)]
        self.calls.append(event)
        return Stream(self._counted(answer), provider="acme", model="tide")

    async def _counted(self, answer: Answer) -> AsyncGenerator[ProviderEvent, None]:
        with self._lock:
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        try:
            async for event in answer():
                yield event
        finally:
            with self._lock:
                self.open -= 1


class Tool:
    """What stands inside of all hooks around a tool."""

    def __init__(self, *results: ToolResult) -> None:
        self._results = results
        self.calls: list[ToolCall] = []

    async def __call__(self, event: HookEvent) -> PullStream[RunEvent]:
        assert event.tool_call is not None
        self.calls.append(event.tool_call)
        return PullStream(self._events(event))

    async def _events(self, event: HookEvent) -> AsyncGenerator[RunEvent, None]:
        assert event.tool_call is not None
        given = self._results[min(len(self.calls), len(self._results)) - 1]
        yield ToolFinished(
            event.turn_id, ToolResult.of(event.tool_call, given.text, status=given.status), 0.5
        )


async def read(hook: SupportsAround, event: HookEvent, call: Model | Tool) -> list[RunEvent]:
    """All events of a step through the hook."""
    async with await hook.around(event, call) as stream:
        return [each async for each in stream]


async def spin(times: int = 20) -> None:
    """Let everybody else come as far as they can."""
    for _ in range(times):
        await asyncio.sleep(0)


def texts(events: Sequence[RunEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]
