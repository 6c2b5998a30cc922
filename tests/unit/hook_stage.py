"""A service that answers as it is told, for tests of hooks, and a clock that sleeps at once."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import TypeAlias

from gnomon.contracts.hook import Step, SupportsAround
from gnomon.stream import PullStream, Stream
from gnomon.types.events import Done, Finish, ProviderEvent, RunEvent, TextDelta, UsageUpdate
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response, Usage
from gnomon.types.steps import HookEvent

QUESTION = "When is high tide?"
PRICES: dict[str, dict[str, object]] = {"acme:large": {"input_price": 1.0, "output_price": 10.0}}
"""Dollars for a million tokens."""

Answer: TypeAlias = Sequence[ProviderEvent | Exception]


def question(*, session: str = "s1", turn: str = "t1", name: str = "acme:large") -> HookEvent:
    request = Request(messages=(Message.user(QUESTION),), model=name.partition(":")[2])
    return HookEvent(kind="model", name=name, session_id=session, turn_id=turn, request=request)


def used(sent: int | None = 100_000, said: int | None = 10_000) -> Usage:
    """Twenty cents, by `PRICES`."""
    return Usage(input_tokens=sent, output_tokens=said)


def answer(text: str = "At noon.", usage: Usage | None = None) -> Answer:
    return (
        *(TextDelta(0, piece) for piece in text.partition(" ") if piece),
        UsageUpdate(usage or used()),
        Finish(stop_reason="end_turn", usage=usage or used()),
    )


class Service:
    """Gives one answer after another; fails the test when it is asked something else, or too often."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[HookEvent] = []
        self.open = 0

    async def __call__(self, event: HookEvent) -> PullStream[RunEvent]:
        assert event.request is not None
        assert event.request.messages[-1].text == QUESTION
        assert self._answers, "it was asked once too often"
        self.asked.append(event)
        stream: PullStream[RunEvent] = Stream(  # type: ignore[assignment]
            self._play(self._answers.pop(0)), provider="acme", model="large"
        )
        return stream

    async def _play(self, events: Answer) -> AsyncGenerator[ProviderEvent, None]:
        self.open += 1
        try:
            for event in events:
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            self.open -= 1


class Clock:
    """Sleeps at once; `naps` are how long each sleep was."""

    def __init__(self) -> None:
        self.at = 1_000.0
        self.naps: list[float] = []

    def __call__(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.naps.append(seconds)
        self.at += seconds


async def read(hook: SupportsAround, event: HookEvent, call: Step) -> list[RunEvent]:
    async with await hook.around(event, call) as stream:
        return [each async for each in stream]


async def ask(hook: SupportsAround, event: HookEvent, call: Step) -> Response:
    """The answer of a whole step."""
    done = (await read(hook, event, call))[-1]
    assert isinstance(done, Done)
    return done.response


def inside(*hooks: SupportsAround, call: Step) -> Step:
    """The step with these hooks around it, the first one outermost."""
    for hook in reversed(hooks):
        call = _wrapped(hook, call)
    return call


def _wrapped(hook: SupportsAround, call: Step) -> Step:
    async def begin(event: HookEvent) -> PullStream[RunEvent]:
        return await hook.around(event, call)

    return begin
