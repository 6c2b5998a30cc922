"""An answer whose events are held back, in order, until the guardrails have passed what stands in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from types import TracebackType
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.engine._plain_json import is_json, says_twice, unescaped
from gnomon.engine.answer import OUTPUT_TOOL
from gnomon.engine.gates import Gates
from gnomon.engine.guards import Guard, Guards, Tripped, checked
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
        self._output = output
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
        self._trips: list[tuple[str, Tripped]] = []
        """Against the arguments of calls, by the call; and against the answer as a whole."""

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
            if event.__class__ is Done:
                is_told = cast(Done, event).response.message == self.said.message
                shown = self._finished(cast(Done, event), is_told=is_told)
            else:
                shown = self._through(event)
            self.said.add(event)
            async with aclosing(shown):
                async for each in shown:
                    self._fold.add(each)
                    yield each

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
        is_new = (kind, index) not in self._blocks
        shown = list(await self._turned_to(kind, index)) if self._at != (kind, index) else []
        if is_new:  # it came without deltas
            shown += self._show(await self._gates[kind].feed(part.text))
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
                part = _with_text(part, await self._checked(self._guards.output, part.text, "the answer"))
            elif isinstance(part, ToolCall):
                part = await self._passed(part)
            parts.append(part)
        return msgspec.structs.replace(message, content=tuple(parts))

    async def _check_mixed(self, said: Message) -> None:
        """What was said in turns cannot be replaced in part: it passes as it is, or it stops."""
        thoughts = "".join(part.text for part in said.content if isinstance(part, Thinking))
        for text in (said.text, thoughts):
            if text and await self._checked(self._guards.output, text, "the answer") != text:
                raise self._trips[-1][1].error("the answer, whose blocks are mixed")

    async def _check_output(self, text: str) -> None:
        """An output is read without its escapes, behind which something could hide."""
        if "\\" in text and (plain := unescaped(text)) != text:
            passed = await self._checked(self._guards.output, plain, "the output")
            if passed != plain:
                raise self._trips[-1][1].error("the output, which is shown already")

    def _guards_of(self, name: str) -> Sequence[Guard]:
        """Who looks at the arguments of a call."""
        if self._output == "tool" and name == OUTPUT_TOOL:
            return tuple(dict.fromkeys((*self._guards.arguments, *self._guards.output)))
        return self._guards.arguments

    async def _called(self, event: ToolCallStart | ToolCallDelta | ToolCallEnd) -> Sequence[RunEvent]:
        """A call is shown when it is whole, with the arguments that were passed."""
        match event:
            case ToolCallStart(id=call_id, name=name) if self._guards_of(name):
                self._calls[call_id] = event
                return ()
            case ToolCallDelta(id=call_id) if call_id in self._calls:
                return ()
            case ToolCallEnd(index=index, call=call) if self._guards_of(call.name):
                started = self._calls.pop(call.id, ToolCallStart(index, call.id, call.name))
                passed = await self._passed(call)
                return (started, ToolCallDelta(index, call.id, passed.arguments), ToolCallEnd(index, passed))
            case _:
                return (event,)

    async def _passed(self, call: ToolCall) -> ToolCall:
        guards, where = self._guards_of(call.name), f"a call of {call.name!r}"
        try:
            given: object = msgspec.json.decode(call.arguments)
        except (msgspec.DecodeError, ValueError, RecursionError):  # it is cut off, and never run
            plain = unescaped(call.arguments)
            text = await self._checked(guards, plain, where, call.id)
            return call if text == plain else msgspec.structs.replace(call, arguments=text)
        # Each text as a person reads it, since escapes could hide something; then all of them together.
        passed = await self._checked_texts(guards, call, given)
        plain = msgspec.json.encode(passed).decode()
        text = await self._checked(guards, plain, where, call.id)
        if text != plain and not is_json(text):
            named = self._trips[-1][1].guardrail
            raise GuardrailTripped(f"guardrail {named!r} gave arguments for {call.name!r} that are no JSON")
        is_same = text == plain and passed == given and not says_twice(call.arguments)
        return call if is_same else msgspec.structs.replace(call, arguments=text)

    async def _checked(self, guards: Sequence[Guard], text: str, where: str, call_id: str = "") -> str:
        passed, trips = await checked(guards, text)
        self._trips += [(call_id, trip) for trip in trips]
        for trip in trips:
            if trip.replacement is None:
                raise trip.error(where)
        return passed

    async def _checked_texts(self, guards: Sequence[Guard], call: ToolCall, value: object) -> object:
        match value:
            case str() if value:
                return await self._checked(guards, value, f"a call of {call.name!r}", call.id)
            case list():
                items = cast("list[object]", value)
                return [await self._checked_texts(guards, call, each) for each in items]
            case dict():
                plain = cast("dict[str, object]", value)
                return {key: await self._checked_texts(guards, call, each) for key, each in plain.items()}
            case _:
                return value


def _with_text(part: Text | Thinking, text: str) -> Part:
    """The part with what was shown of it; a signature, and whatever a vendor adds, is of what was said."""
    if text == part.text:
        return part
    if isinstance(part, Text):
        return Text(text)
    return msgspec.structs.replace(part, text=text, signature=None, meta={})
