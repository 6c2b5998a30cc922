"""Guardrails on the way in and out: each text is shown to those that stand in its place, in their order."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple, cast

import msgspec

from gnomon._begun import Overdue, within
from gnomon.contracts.guardrail import Guardrail, Position, SupportsView, View, Whole
from gnomon.errors import GuardrailTripped, scrub
from gnomon.types.events import Guarded
from gnomon.types.messages import Message, Part, Text, ToolResult
from gnomon.types.steps import GuardrailResult

__all__ = ["Guard", "Guards", "Tripped", "checked", "stopped_by"]

log = logging.getLogger("gnomon.guardrails")

LIMIT_S = 30.0
"""How long one check may take. What could not be checked does not pass."""


class Guard:
    """One guardrail, asked in a way that it cannot break."""

    def __init__(self, guardrail: Guardrail) -> None:
        self.name = guardrail.name
        self.positions = frozenset(guardrail.positions)
        self.view: View = guardrail.view if isinstance(guardrail, SupportsView) else Whole()
        self._guardrail = guardrail

    async def check(self, text: str) -> GuardrailResult:
        """What it says of the text; one that fails, hangs or talks nonsense says no."""
        try:
            result = cast(object, await within(self._guardrail.check(text), LIMIT_S))
        except Overdue:
            return _broken(f"it did not answer within {LIMIT_S:g} seconds")
        except Exception as error:
            log.exception("guardrail %r failed", self.name)
            return _broken(scrub(f"it failed: {type(error).__name__}: {error}"))
        if not isinstance(result, GuardrailResult):
            return _broken(f"it gave {type(result).__name__}, not a GuardrailResult")
        if not isinstance(cast(object, result.replacement), str | None):
            return _broken("it gave a replacement that is no text")
        return result


class Tripped(NamedTuple):
    """That a guardrail did not let a text pass; with no replacement, the turn is to end."""

    guardrail: str
    reason: str
    replacement: str | None

    @classmethod
    def of(cls, guard: Guard, result: GuardrailResult) -> Tripped:
        return cls(guard.name, result.reason or "no reason was given", result.replacement)

    def error(self, where: str) -> GuardrailTripped:
        return GuardrailTripped(f"guardrail {self.guardrail!r} stopped {where}: {self.reason}")


class Guards:
    """The guardrails of an agent, by where they stand."""

    def __init__(self, guardrails: Sequence[Guardrail]) -> None:
        guards = [Guard(guardrail) for guardrail in guardrails]
        self.input = _at(guards, "input")
        self.output = _at(guards, "output")
        self.arguments = _at(guards, "tool_arguments")
        self.results = _at(guards, "tool_results")
        self.answers = tuple(dict.fromkeys((*self.input, *self.results)))
        """Those that see what a person answers for a call: it is their input, and its result."""
        self.holds_answers = bool(self.output or self.arguments)

    async def message(self, message_id: str, message: Message) -> list[Guarded]:
        """What the guardrails of the input have against a message."""
        shown, trips = await _checked_parts(self.input, message.content)
        is_stopped = any(trip.replacement is None for trip in trips)
        return [
            Guarded(
                turn_id="",
                guardrail=trip.guardrail,
                position="input",
                reason=trip.reason,
                message_id=message_id,
                replaced=trip.replacement is not None,
                message=None if is_stopped else msgspec.structs.replace(message, content=shown),
            )
            for trip in trips
        ]

    async def result(
        self, turn_id: str, result: ToolResult, *, by_person: bool = False
    ) -> tuple[ToolResult, list[Guarded]]:
        """What may be known of a result, and what was against it."""
        shown, trips = await _checked_parts(self.answers if by_person else self.results, result.content)
        stop = next((trip for trip in trips if trip.replacement is None), None)
        if stop is not None:
            shown = (Text(f"withheld: guardrail {stop.guardrail!r} stopped it: {stop.reason}"),)
        found = [
            Guarded(
                turn_id=turn_id,
                guardrail=trip.guardrail,
                position="tool_results",
                reason=trip.reason,
                call_id=result.call_id,
                replaced=trip.replacement is not None,
            )
            for trip in trips
        ]
        return msgspec.structs.replace(result, content=shown) if trips else result, found


_WHERE = {
    "input": "the input",
    "output": "the answer",
    "tool_arguments": "the arguments of a call",
    "tool_results": "the result of a call",
}


def stopped_by(guarded: Sequence[Guarded]) -> GuardrailTripped | None:
    """The error of a turn that ends by one of these, if it does."""
    stop = next((each for each in guarded if not each.replaced), None)
    if stop is None:
        return None
    return Tripped(stop.guardrail, stop.reason, None).error(_WHERE[stop.position])


async def checked(guards: Sequence[Guard], text: str) -> tuple[str, list[Tripped]]:
    """The text as all of them let it pass, and what they had against it; the first that stops is the last."""
    trips: list[Tripped] = []
    for guard in guards:
        result = await guard.check(text)
        if result.passed:
            continue
        trips.append(Tripped.of(guard, result))
        if result.replacement is None:
            break
        text = result.replacement
    return text, trips


async def _checked_parts(
    guards: Sequence[Guard], content: Sequence[Part]
) -> tuple[tuple[Part, ...], list[Tripped]]:
    """Each text among the parts by itself."""
    shown: list[Part] = []
    trips: list[Tripped] = []
    for part in content:
        if isinstance(part, Text) and part.text:
            text, found = await checked(guards, part.text)
            trips += found
            part = part if text == part.text else Text(text, part.meta)
        shown.append(part)
    return tuple(shown), trips


def _broken(why: str) -> GuardrailResult:
    """What could not be checked may not pass."""
    return GuardrailResult(passed=False, reason=why)


def _at(guards: Sequence[Guard], position: Position) -> tuple[Guard, ...]:
    return tuple(guard for guard in guards if position in guard.positions)
