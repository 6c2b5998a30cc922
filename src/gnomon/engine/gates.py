"""Text on its way out, held back until a guardrail has passed it.

An answer may stand in several blocks, and whoever reads it reads them as one. So a block
that has ended is let go of, and still known: what begins in it and ends in the next is found.

A guardrail that needs `n` characters to see what it looks for is shown pieces that
overlap, and text is let go of when everything that could begin in it was seen. A piece
is cut anywhere, so what is found in one may be half a word: an alarm is looked into before
it counts, with all of the text, once enough of it has come in which nothing is found.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from gnomon.contracts.guardrail import Sentence, Window
from gnomon.engine.guards import Guard, Tripped
from gnomon.errors import GuardrailTripped

__all__ = ["Gate", "Gates"]

_SENTENCE_END = re.compile(r"[.!?…。！？](?=[\s\"'”’)\]]|$)[\"'”’)\]]*\s+|\n+")
_LONGEST_SENTENCE = 4_000
"""What has no end for so long is shown as it is."""

_KEPT = 4_096


class Gate(Protocol):
    """Where one guardrail holds one text back."""

    async def feed(self, text: str) -> str:
        """More of the text; what may be let go of now."""
        ...

    async def finish(self) -> str:
        """A block of the text is whole; the rest of it. More of the text may follow."""
        ...

    @property
    def holds(self) -> bool:
        """Whether there is text that it has not let go of."""
        ...


class Gates:
    """One text on its way past several guardrails, one after another: all blocks of one kind."""

    def __init__(self, guards: Sequence[Guard]) -> None:
        self.trips: list[Tripped] = []
        self._gates = [_gate(guard, self.trips) for guard in guards]
        self._released: list[str] = []

    @property
    def holds(self) -> bool:
        return any(gate.holds for gate in self._gates)

    @property
    def released(self) -> str:
        """All that was let go of."""
        return "".join(self._released)

    async def feed(self, text: str) -> str:
        return await self._through(text, self._gates)

    async def finish(self) -> str:
        out = ""
        for at, gate in enumerate(self._gates):
            out += await self._through(await gate.finish(), self._gates[at + 1 :])
        return out

    async def _through(self, text: str, gates: Sequence[Gate]) -> str:
        for gate in gates:
            if not text:
                break
            text = await gate.feed(text)
        if text:
            self._released.append(text)
        return text


def _gate(guard: Guard, trips: list[Tripped]) -> Gate:
    match guard.view:
        case Window(size=size):
            return _WindowGate(guard, size, trips)
        case Sentence():
            return _SentenceGate(guard, trips)
        case _:
            return _WholeGate(guard, trips)


async def _passed(guard: Guard, text: str, trips: list[Tripped]) -> str:
    """The text, or what takes its place."""
    result = await guard.check(text)
    if result.passed:
        return text
    trip = Tripped.of(guard, result)
    trips.append(trip)
    if trip.replacement is None:
        raise trip.error("the answer")
    return trip.replacement


def _after(shown: str, passed: str, guard: Guard) -> str:
    """What comes after that which was shown before."""
    if not passed.startswith(shown):
        raise GuardrailTripped(
            f"guardrail {guard.name!r} would change what was shown already",
            hint="what it looks for stands in several blocks, or is longer than its view",
        )
    return passed[len(shown) :]


class _WholeGate:
    def __init__(self, guard: Guard, trips: list[Tripped]) -> None:
        self._guard = guard
        self._trips = trips
        self._shown = ""
        self._pieces: list[str] = []

    @property
    def holds(self) -> bool:
        return bool(self._pieces)

    async def feed(self, text: str) -> str:
        self._pieces.append(text)
        return ""

    async def finish(self) -> str:
        text, self._pieces = "".join(self._pieces), []
        if not text:
            return ""
        shown = self._shown
        self._shown = await _passed(self._guard, shown + text, self._trips)
        return _after(shown, self._shown, self._guard)


class _SentenceGate:
    def __init__(self, guard: Guard, trips: list[Tripped]) -> None:
        self._guard = guard
        self._trips = trips
        self._shown = ""
        """How the sentence begins that was shown in part."""
        self._held = ""

    @property
    def holds(self) -> bool:
        return bool(self._held)

    async def feed(self, text: str) -> str:
        self._held += text
        out = ""
        while found := _SENTENCE_END.search(self._held):
            out += await self._let_go(found.end())
            self._shown = ""
        if len(self._held) > _LONGEST_SENTENCE:
            out += await self._let_go(self._held.rfind(" ") + 1 or len(self._held))
        return out

    async def finish(self) -> str:
        return await self._let_go(len(self._held)) if self._held else ""

    async def _let_go(self, end: int) -> str:
        shown, piece, self._held = self._shown, self._held[:end], self._held[end:]
        passed = await _passed(self._guard, shown + piece, self._trips)
        cut = max(len(passed) - _LONGEST_SENTENCE, 0)
        self._shown = passed[passed.find(" ", cut) + 1 if cut else 0 :]
        return _after(shown, passed, self._guard)


class _WindowGate:
    def __init__(self, guard: Guard, size: int, trips: list[Tripped]) -> None:
        self._guard = guard
        self._size = size
        self._trips = trips
        self._text = ""
        """What was let go of, and after it what is held."""
        self._released = 0
        self._alarm: int | None = None
        """How far the text went when something was found in it that is yet to be looked into."""

    @property
    def holds(self) -> bool:
        return self._released < len(self._text)

    async def feed(self, text: str) -> str:
        self._text += text
        if self._alarm is None:
            piece = self._from(self._released)
            if (await self._guard.check(piece)).passed:
                return self._let_go(len(self._text) - self._size + 1)
            self._alarm = len(self._text)
        tail = len(self._text) - self._size + 1
        if tail < self._alarm or not (await self._guard.check(self._from(tail))).passed:
            return ""  # what was found may go on
        return await self._look_into(tail)

    async def finish(self) -> str:
        if self._released == len(self._text):
            return ""
        if self._alarm is None and (await self._guard.check(self._from(self._released))).passed:
            return self._let_go(len(self._text))
        return await self._look_into(None)

    def _from(self, place: int) -> str:
        """All that could reach to that place or beyond it, from the start of a word."""
        start = max(place - self._size, 0)
        return self._text[max(self._text.rfind(" ", max(start - self._size, 0), start), 0) :]

    async def _look_into(self, tail: int | None) -> str:
        """What the guardrail has against the text, now that nothing is found in the tail of it."""
        passed = await _passed(self._guard, self._text, self._trips)
        _after(self._text[: self._released], passed, self._guard)
        self._alarm = None
        self._text = passed
        return self._let_go(len(passed) if tail is None else len(passed) - self._size + 1)

    def _let_go(self, end: int) -> str:
        start, end = self._released, max(end, self._released)
        self._released = end
        out = self._text[start:end]
        self._trim()
        return out

    def _trim(self) -> None:
        """What was let go of long ago is not kept; what is starts with a word."""
        spare = self._released - 8 * self._size
        if spare > _KEPT and (blank := self._text.rfind(" ", 0, spare)) > 0:
            self._text, self._released = self._text[blank:], self._released - blank
