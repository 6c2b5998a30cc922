"""What `grep` has found, as a model reads it."""

from __future__ import annotations

from gnomon.tools._files import plainly
from gnomon.tools._searching import Answer

__all__ = ["MOST_CHARS", "Results"]

MOST_CHARS = 40_000


class Results:
    """Lines with their numbers below the path of their file; or each file with how many there are."""

    def __init__(self, *, counts_only: bool, context: int) -> None:
        self._counts_only = counts_only
        self._context = context
        self._place = ""
        self._last = 0
        self._room = MOST_CHARS
        self._has_more = False
        self.lines: list[str] = []

    @property
    def is_full(self) -> bool:
        return self._has_more or self._room <= 0

    def add(self, place: str, answer: Answer) -> None:
        if not self._counts_only:
            for number, is_hit, text in answer.lines:
                if not self.is_full:
                    sign = ":" if is_hit else "-"
                    self._add_line(place, number, f"{number}{sign}{text and ' '}{text}")
        elif answer.is_last and answer.found:
            self._add(f"{plainly(place)}: {answer.found:,}")
        self._has_more = self._has_more or answer.is_full

    def _add_line(self, place: str, number: int, text: str) -> None:
        if place != self._place:
            self._add(*([""] if self.lines else []), plainly(place))
        elif self._context and number != self._last + 1:
            self._add("--")
        self._place, self._last = place, number
        self._add(text)

    def _add(self, *lines: str) -> None:
        self.lines += lines
        self._room -= sum(map(len, lines)) + len(lines)
