"""Steps for the suite of hooks: what the engine would show a hook, and the inside of a step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import UTC, datetime

import msgspec

from gnomon.contracts.hook import Hook, Step, SupportsAround
from gnomon.errors import GnomonError
from gnomon.stream import PullStream
from gnomon.types.events import Done, Error, RunEvent, TextDelta, ToolFinished, ToolProgress, UsageUpdate
from gnomon.types.messages import Message, Text, ToolCall, ToolResult
from gnomon.types.requests import Request, Response, Spent, Usage
from gnomon.types.steps import HookEvent

__all__ = [
    "SECRET",
    "Inside",
    "around",
    "drive",
    "ended",
    "model_events",
    "model_step",
    "steps",
    "tool_events",
    "tool_step",
    "wrapped",
]

SECRET = "sk-suite-0123456789abcdefghij"  # noqa: S105 - nobody's
_WHEN = datetime(2025, 1, 1, tzinfo=UTC)
_USAGE = Usage(input_tokens=7, output_tokens=5)


def model_step(number: int = 0, *, text: str = "") -> HookEvent:
    """A call of the model, unlike that of any other number."""
    asked = Message.user(text or f"When is high tide number {number}?")
    return HookEvent(
        kind="model",
        name="suite:model",
        session_id=f"session-{number}",
        turn_id=f"turn-{number}",
        request=Request(messages=(asked,), model="model", metadata={"number": str(number)}),
        started_at=_WHEN,
    )


def tool_step(number: int = 0, *, arguments: str = "") -> HookEvent:
    """A call of a tool, unlike that of any other number."""
    call = ToolCall(f"call-{number}", "tide", arguments or f'{{"number": {number}}}')
    return HookEvent(
        kind="tool",
        name="tide",
        session_id=f"session-{number}",
        turn_id=f"turn-{number}",
        tool_call=call,
        started_at=_WHEN,
    )


def steps(number: int = 0) -> tuple[HookEvent, ...]:
    """One of each kind."""
    session = HookEvent(kind="session", name="agent", session_id=f"session-{number}", started_at=_WHEN)
    turn = msgspec.structs.replace(session, kind="turn", turn_id=f"turn-{number}", notes={})
    return (session, turn, model_step(number), tool_step(number))


def model_events(number: int = 0, *, text: str = "") -> tuple[RunEvent, ...]:
    """What a model says to a step: `Done` is the last."""
    pieces = (text or f"High tide {number}", " is at noon.")
    response = Response(
        message=Message.assistant("".join(pieces)),
        stop_reason="end_turn",
        id=f"answer-{number}",
        provider="suite",
        model="model",
        usage=_USAGE,
        discarded=(Spent(input_tokens=3, output_tokens=1, provider="suite", model="model"),),
    )
    return (*(TextDelta(0, piece) for piece in pieces), UsageUpdate(_USAGE), Done(response))


def tool_events(number: int = 0, *, text: str = "") -> tuple[RunEvent, ...]:
    """What a tool gives: `ToolFinished` is the last."""
    said = (Text(text or f"noon {number}"),)
    progress = ToolProgress(f"turn-{number}", f"call-{number}", (Text("looking"),))
    return (progress, ToolFinished(f"turn-{number}", ToolResult(f"call-{number}", "tide", said)))


class Inside:
    """The step itself: hand it to `around` as `call`, and see what became of it.

    It gives these events and raises the error, if there is one: in place of a stream, where there are
    none. One that `hangs` gives them and then nothing more.
    """

    def __init__(
        self, events: Sequence[RunEvent] = (), *, error: Exception | None = None, hangs: bool = False
    ) -> None:
        self._events = events
        self._error = error
        self._hangs = hangs
        self._streams: list[_Watched] = []
        self.calls: list[HookEvent] = []

    async def __call__(self, event: HookEvent) -> PullStream[RunEvent]:
        self.calls.append(event)
        if self._hangs and not self._events:
            await asyncio.Event().wait()
        if self._error is not None and not self._events:
            raise self._error
        stream = _Watched(self)
        self._streams.append(stream)
        return stream

    @property
    def left_open(self) -> int:
        """Streams that were neither closed nor read to their end."""
        return sum(stream.is_open for stream in self._streams)

    async def produced(self) -> AsyncGenerator[RunEvent, None]:
        for event in self._events:
            yield event
        if self._error is not None:
            raise self._error
        if self._hangs:
            await asyncio.Event().wait()


class _Watched(PullStream[RunEvent]):
    def __init__(self, inside: Inside) -> None:
        self.is_open = True
        super().__init__(self._read(inside))

    async def _read(self, inside: Inside) -> AsyncGenerator[RunEvent, None]:
        try:
            async with aclosing(inside.produced()) as events:
                async for event in events:
                    yield event
        finally:
            self.is_open = False

    async def aclose(self) -> None:
        self.is_open = False
        await super().aclose()


# --- as the engine does it ------------------------------------------------------------


async def around(hook: Hook, event: HookEvent, call: Step) -> PullStream[RunEvent]:
    """The stream of a step with this hook around it, where it stands around steps."""
    return await (hook.around(event, call) if isinstance(hook, SupportsAround) else call(event))


def wrapped(hook: Hook, call: Step) -> Step:
    """A step with this hook around it, for a hook further out."""

    async def begin(event: HookEvent) -> PullStream[RunEvent]:
        return await around(hook, event, call)

    return begin


async def drive(hook: Hook, event: HookEvent, call: Step) -> list[RunEvent]:
    """The whole of a step: before, the events, after."""
    await hook.before(event)
    try:
        async with await around(hook, event, call) as stream:
            events = [each async for each in stream]
    except GnomonError as error:
        told = Error(error.code, error.message, error.retryable, error.hint)
        await hook.after(ended(event, error=told))
        raise
    await hook.after(ended(event, events[-1] if events else None))
    return events


def ended(event: HookEvent, last: RunEvent | None = None, *, error: Error | None = None) -> HookEvent:
    """The event as `after` gets it."""
    return msgspec.structs.replace(
        event,
        response=last.response if isinstance(last, Done) else None,
        result=last.result if isinstance(last, ToolFinished) else None,
        error=error,
        ended_at=_WHEN,
    )
