"""An answer whose events are held back, in order, until the guardrails have passed what stands in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.engine._checks import Checks
from gnomon.engine._plain_json import unescaped
from gnomon.engine.gates import Gates
from gnomon.engine.guards import Guards
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
from gnomon.types.messages import Message, Part, Text, Thinking, ToolCall

__all__ = ["HeldAnswer"]

_Delta: TypeAlias = type[TextDelta] | type[ThinkingDelta]


class HeldAnswer:
    """The events of an answer as far as they may be shown, and last a `Done` with what was shown.

    Whatever is no text waits behind the text that came before it. A guardrail that stops the answer ends
    the events with `GuardrailTripped`. Where the agent gives an output, `output` says how: as the text, or as
    the arguments of a tool, which are the answer then.
    """

    def __init__(
        self,
        answer: AbstractAsyncContextManager[PullStream[RunEvent]],
        guards: Guards,
        output: Literal["native", "tool"] | None = None,
    ) -> None:
        self._answer = answer
        self._guards = guards
        self._output: Literal["native", "tool"] | None = output
        self._shown: PullStream[RunEvent] | None = None
        self._fold = StreamFold()
        self.said = StreamFold()
        """All that the model has said, be it shown or not."""
        self._begin()

    def _begin(self) -> None:
        self._gates: dict[_Delta, Gates] = {}
        """All blocks of one kind are one text."""
        self._at: tuple[_Delta, int] | None = None
        """The block that is being said; what came before it holds nothing."""
        self._blocks: dict[tuple[_Delta, int], list[str]] = {}
        """What was shown of each."""
        self._is_mixed = False
        """Whether a block goes on after a later one began: then all waits for the end."""
        self._behind: list[RunEvent] = []
        """What waits behind text."""
        self._calls: dict[str, ToolCallStart] = {}
        self._checks = Checks(self._guards, self._output)

    def guarded(self, turn_id: str, message_id: str) -> list[Guarded]:
        """What the guardrails had against it."""
        texts = [("", trip) for gates in self._gates.values() for trip in gates.trips]
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
            for call_id, trip in (*texts, *self._checks.trips)
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
            kind = event.__class__
            if (kind is TextDelta or kind is ThinkingDelta) and self._goes_on(cast(TextDelta, event)):
                # More of the same, as nearly always: this is what a token passes through.
                self.said.add(event)
                for each in self._show(await self._gates[kind].feed(cast(TextDelta, event).text)):
                    self._fold.add(each)
                    yield each
                continue
            if kind is Done:
                is_told = cast(Done, event).response.message == self.said.message
                shown = self._finished(cast(Done, event), is_told=is_told)
            else:
                shown = self._through(event)
            self.said.add(event)
            async with aclosing(shown):
                async for each in shown:
                    self._fold.add(each)
                    yield each

    def _goes_on(self, delta: TextDelta | ThinkingDelta) -> bool:
        """Whether it is more of the block that is being said, and nothing waits behind that."""
        at = self._at
        if at is None or self._behind or self._is_mixed:
            return False
        return at[1] == delta.index and at[0] is delta.__class__

    async def _through(self, event: RunEvent) -> AsyncGenerator[RunEvent, None]:
        """What may be shown once that event has come."""
        match event:
            case TextDelta(index=index, text=text) | ThinkingDelta(index=index, text=text):
                if self._at != (event.__class__, index):
                    for each in await self._turned_to(event.__class__, index):
                        yield each
                if self._is_mixed:
                    self._behind.append(event)
                    return
                for each in self._show(await self._gates[event.__class__].feed(text)):
                    yield each
            case PartEnd(index=index, part=Text() | Thinking() as part) if not self._is_mixed:
                for each in await self._ended(index, part):
                    yield each
            case ToolCallStart() | ToolCallDelta() | ToolCallEnd():
                self._behind += await self._called(event)
            case AttemptDiscarded():
                self._begin()
                self._behind = [event]
            case _:
                self._behind.append(event)
        if self._behind and not self._holds and not self._is_mixed:
            for each in self._let_go():
                yield each

    @property
    def _holds(self) -> bool:
        return self._at is not None and self._gates[self._at[0]].holds

    def _let_go(self) -> Sequence[RunEvent]:
        waited, self._behind = self._behind, []
        return waited

    def _show(self, text: str) -> Sequence[RunEvent]:
        """More of the block that is being said."""
        if not text:
            return ()
        assert self._at is not None
        kind, index = self._at
        self._blocks[self._at].append(text)
        return (kind(index, text),)

    async def _turned_to(self, kind: _Delta, index: int) -> Sequence[RunEvent]:
        """Another block is being said: first comes the rest of the one before it, and what waited behind."""
        if self._is_mixed:
            return ()
        rest = [*await self._rest(), *self._let_go()]
        self._is_mixed = any(other is kind and at >= index for other, at in self._blocks)
        self._at = kind, index
        self._blocks.setdefault(self._at, [])
        if kind not in self._gates:
            self._gates[kind] = Gates(self._guards.output)
        return rest

    async def _rest(self) -> Sequence[RunEvent]:
        return self._show(await self._gates[self._at[0]].finish()) if self._at is not None else ()

    async def _ended(self, index: int, part: Text | Thinking) -> Sequence[RunEvent]:
        """A block is whole, and so is what may be shown of it."""
        kind: _Delta = TextDelta if isinstance(part, Text) else ThinkingDelta
        shown = list(await self._turned_to(kind, index)) if self._at != (kind, index) else []
        shown += await self._rest()
        self._behind.append(PartEnd(index, _with_text(part, "".join(self._blocks[kind, index]))))
        return shown

    async def _finished(self, done: Done, *, is_told: bool) -> AsyncGenerator[RunEvent, None]:
        """The rest. What a hook says at the end that its events did not tell is looked at, too."""
        response = done.response
        if self._is_mixed:
            await self._check_mixed(self.said.message)
        for each in (*await self._rest(), *self._let_go()):
            yield each
        if not is_told:
            message = await self._checked_message(response.message)
            response = msgspec.structs.replace(response, message=message)
        elif (shown := self._fold.message) != response.message:
            response = msgspec.structs.replace(response, message=shown)
        if self._output == "native":
            await self._check_output(response.message.text)
        yield Done(response)

    async def _checked_message(self, message: Message) -> Message:
        parts: list[Part] = []
        for part in message.content:
            if isinstance(part, Text | Thinking):
                part = _with_text(part, await self._checks.answer(part.text))
            elif isinstance(part, ToolCall):
                part = await self._checks.call(part)
            parts.append(part)
        return msgspec.structs.replace(message, content=tuple(parts))

    async def _check_mixed(self, said: Message) -> None:
        """What was said in turns is not replaced in part: as it reads and as it came, it passes or stops."""
        thoughts = "".join(part.text for part in said.content if isinstance(part, Thinking))
        came = [
            gates.released + "".join(event.text for event in self._behind if isinstance(event, kind))
            for kind, gates in self._gates.items()
        ]
        for text in (said.text, thoughts, *came):
            await self._checks.answer_as_it_is(text, "whose blocks are mixed")

    async def _check_output(self, text: str) -> None:
        """An output is read without its escapes, behind which something could hide."""
        if "\\" in text and (plain := unescaped(text)) != text:
            await self._checks.answer_as_it_is(plain, "whose output is hidden behind escapes")

    async def _called(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> Sequence[RunEvent]:
        """A call is shown when it is whole, with the arguments that were passed."""
        match event:
            case ToolCallStart(id=call_id, name=name) if self._checks.guards_of(name):
                self._calls[call_id] = event
                return ()
            case ToolCallDelta(id=call_id) if call_id in self._calls:
                return ()
            case ToolCallEnd(index=index, call=call) if self._checks.guards_of(call.name):
                started = self._calls.pop(call.id, ToolCallStart(index, call.id, call.name))
                passed = await self._checks.call(call)
                return (started, ToolCallDelta(index, call.id, passed.arguments), ToolCallEnd(index, passed))
            case _:
                return (event,)


def _with_text(part: Text | Thinking, text: str) -> Part:
    """The part with what was shown of it; a signature, and whatever a vendor adds, is of what was said."""
    if text == part.text:
        return part
    if isinstance(part, Text):
        return Text(text)
    return msgspec.structs.replace(part, text=text, signature=None, meta={})
