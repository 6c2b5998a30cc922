"""An answer whose events are held back, in order, until the guardrails have passed what stands in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import TypeAlias, cast

import msgspec

from gnomon.engine.gates import Gates
from gnomon.engine.guards import Guards, Tripped, checked
from gnomon.errors import GuardrailTripped
from gnomon.stream import PullStream, StreamFold
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    Guarded,
    PartEnd,
    RunEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from gnomon.types.messages import Part, Text, Thinking, ToolCall

__all__ = ["HeldAnswer"]

_Delta: TypeAlias = type[TextDelta] | type[ThinkingDelta]


class HeldAnswer:
    """The events of an answer as far as they may be shown, and last a `Done` with what was shown.

    Whatever is no text waits behind the text that came before it. A guardrail that stops the answer ends
    the events with `GuardrailTripped`.
    """

    def __init__(self, answer: AbstractAsyncContextManager[PullStream[RunEvent]], guards: Guards) -> None:
        self._answer = answer
        self._guards = guards
        self._shown: PullStream[RunEvent] | None = None
        self._fold = StreamFold()
        self.said = StreamFold()
        """All that the model has said, be it shown or not."""
        self._trips: list[tuple[str, Tripped]] = []
        """Against the arguments of calls, by the call."""
        self._begin()

    def _begin(self) -> None:
        self._tracks: dict[tuple[_Delta, int], Gates] = {}
        self._behind: list[RunEvent] = []
        """What waits behind text."""
        self._calls: dict[str, ToolCallStart] = {}

    def guarded(self, turn_id: str, message_id: str) -> list[Guarded]:
        """What the guardrails had against it."""
        texts = [("", trip) for gates in self._tracks.values() for trip in gates.trips]
        return [
            Guarded(
                turn_id=turn_id,
                guardrail=trip.guardrail,
                position="tool_arguments" if call_id else "output",
                reason=trip.reason,
                message_id=message_id,
                call_id=call_id,
                replaced=trip.replacement is not None,
            )
            for call_id, trip in (*texts, *self._trips)
        ]

    async def __aenter__(self) -> PullStream[RunEvent]:
        self._shown = PullStream(self._released(await self._answer.__aenter__()))
        return self._shown

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._shown is not None:
                await self._shown.aclose()
        finally:
            await self._answer.__aexit__(kind, error, trace)

    async def _released(self, events: PullStream[RunEvent]) -> AsyncGenerator[RunEvent, None]:
        async for event in events:
            self.said.add(event)
            async with aclosing(self._through(event)) as shown:
                async for each in shown:
                    self._fold.add(each)
                    yield each

    async def _through(self, event: RunEvent) -> AsyncGenerator[RunEvent, None]:
        """What may be shown once that event has come."""
        match event:
            case TextDelta(index=index, text=text) | ThinkingDelta(index=index, text=text):
                kind = event.__class__
                if more := await self._track(kind, index).feed(text):
                    yield kind(index, more)
            case PartEnd(index=index, part=Text() | Thinking() as part):
                async for each in self._ended(index, part):
                    yield each
            case ToolCallStart() | ToolCallDelta() | ToolCallEnd() if self._guards.arguments:
                self._behind += await self._called(event)
            case AttemptDiscarded():
                self._begin()
                self._behind = [event]
            case Done():
                async for each in self._finished(event):
                    yield each
                return
            case _:
                self._behind.append(event)
        if self._behind and not any(gates.holds for gates in self._tracks.values()):
            for each in self._let_go():
                yield each

    def _let_go(self) -> Sequence[RunEvent]:
        waited, self._behind = self._behind, []
        return waited

    def _track(self, kind: _Delta, index: int) -> Gates:
        found = self._tracks.get((kind, index))
        if found is None:
            found = self._tracks[kind, index] = Gates(self._guards.output)
        return found

    async def _ended(self, index: int, part: Text | Thinking) -> AsyncGenerator[RunEvent, None]:
        """A block is whole, and so is what may be shown of it."""
        kind = TextDelta if isinstance(part, Text) else ThinkingDelta
        gates = self._track(kind, index)
        if more := await gates.finish():
            yield kind(index, more)
        self._behind.append(PartEnd(index, _with_text(part, gates.released)))

    async def _finished(self, done: Done) -> AsyncGenerator[RunEvent, None]:
        for (kind, index), gates in self._tracks.items():
            if more := await gates.finish():
                yield kind(index, more)
        for each in self._let_go():
            yield each
        is_changed = self._trips or any(gates.trips for gates in self._tracks.values())
        response = done.response
        if is_changed:
            response = msgspec.structs.replace(response, message=self._fold.message)
        yield Done(response)

    async def _called(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> Sequence[RunEvent]:
        """A call is shown when it is whole, with the arguments that were passed."""
        match event:
            case ToolCallStart(id=call_id):
                self._calls[call_id] = event
                return ()
            case ToolCallDelta():
                return ()
            case ToolCallEnd(index=index, call=call):
                started = self._calls.pop(call.id, ToolCallStart(index, call.id, call.name))
                passed = await self._passed(call)
                return (started, ToolCallDelta(index, call.id, passed.arguments), ToolCallEnd(index, passed))

    async def _passed(self, call: ToolCall) -> ToolCall:
        try:
            given: object = msgspec.json.decode(call.arguments)
        except (msgspec.DecodeError, ValueError, RecursionError):
            text = await self._checked(call, call.arguments)  # it is cut off, and never run
            return call if text == call.arguments else msgspec.structs.replace(call, arguments=text)
        # Each text as a person reads it, since escapes could hide something; then all of them together.
        passed = await self._checked_texts(call, given)
        plain = msgspec.json.encode(passed).decode()
        text = await self._checked(call, plain)
        if text != plain and not _is_json(text):
            named = self._trips[-1][1].guardrail
            raise GuardrailTripped(f"guardrail {named!r} gave arguments for {call.name!r} that are no JSON")
        is_same = text == plain and passed == given
        return call if is_same else msgspec.structs.replace(call, arguments=text)

    async def _checked(self, call: ToolCall, text: str) -> str:
        passed, trips = await checked(self._guards.arguments, text)
        self._trips += [(call.id, trip) for trip in trips]
        for trip in trips:
            if trip.replacement is None:
                raise trip.error(f"a call of {call.name!r}")
        return passed

    async def _checked_texts(self, call: ToolCall, value: object) -> object:
        match value:
            case str() if value:
                return await self._checked(call, value)
            case list():
                return [await self._checked_texts(call, each) for each in cast("list[object]", value)]
            case dict():
                plain = cast("dict[str, object]", value)
                return {key: await self._checked_texts(call, each) for key, each in plain.items()}
            case _:
                return value


def _with_text(part: Text | Thinking, text: str) -> Part:
    """The part with what was shown of it; a signature holds for what was said."""
    if text == part.text:
        return part
    if isinstance(part, Text):
        return Text(text, part.meta)
    return msgspec.structs.replace(part, text=text, signature=None)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True
