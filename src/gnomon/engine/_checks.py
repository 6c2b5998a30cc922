"""A text or a call that is looked at whole, with what guardrails have against it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, cast

import msgspec

from gnomon.engine._plain_json import is_json, says_twice, unescaped
from gnomon.engine.answer import OUTPUT_TOOL
from gnomon.engine.guards import Guard, Guards, Tripped, checked
from gnomon.errors import GuardrailTripped
from gnomon.types.messages import ToolCall

__all__ = ["Checks"]


class Checks:
    """Of one answer. `trips` are what was found, by the call; of the answer as a whole, by no call."""

    def __init__(self, guards: Guards, output: Literal["native", "tool"] | None) -> None:
        self._guards = guards
        self._output = output
        self.trips: list[tuple[str, Tripped]] = []

    async def answer(self, text: str, where: str = "the answer") -> str:
        """What may be shown of a text of the answer."""
        return await self._checked(self._guards.output, text, where)

    async def answer_as_it_is(self, text: str, why: str) -> None:
        """The text passes, or it stops: it cannot be replaced any more."""
        if text and await self.answer(text) != text:
            raise self.trips[-1][1].error(f"the answer, {why}")

    def guards_of(self, name: str) -> Sequence[Guard]:
        """Who looks at the arguments of a call."""
        if self._output == "tool" and name == OUTPUT_TOOL:
            return tuple(dict.fromkeys((*self._guards.arguments, *self._guards.output)))
        return self._guards.arguments

    async def call(self, call: ToolCall) -> ToolCall:
        guards, where = self.guards_of(call.name), f"a call of {call.name!r}"
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
            named = self.trips[-1][1].guardrail
            raise GuardrailTripped(f"guardrail {named!r} gave arguments for {call.name!r} that are no JSON")
        is_same = text == plain and passed == given and not says_twice(call.arguments)
        return call if is_same else msgspec.structs.replace(call, arguments=text)

    async def _checked(self, guards: Sequence[Guard], text: str, where: str, call_id: str = "") -> str:
        passed, trips = await checked(guards, text)
        self.trips += [(call_id, trip) for trip in trips]
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
