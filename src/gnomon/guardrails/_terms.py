"""Thousands of terms, looked for in one pass.

A text is cut into words, and a set says at once whether any of them is in a term. Only a text
that has one is read again, word by word, for where the whole term stands.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from operator import add
from typing import NamedTuple

from gnomon.guardrails._folding import GAP, HIDDEN, RUN, SPACED, WORD, Folded, closed_up, seen

__all__ = ["Place", "Shape", "Terms"]


class Place(NamedTuple):
    """Where a term stands, and which one."""

    start: int
    end: int
    number: int


class Shape(NamedTuple):
    """A term in the form in which it is compared: its words, and the signs before, between and after them."""

    words: tuple[str, ...]
    gaps: tuple[str, ...]

    @classmethod
    def of(cls, term: str) -> Shape:
        text = Folded(term).text.strip()
        before, *between = WORD.split(text)
        after = between.pop() if between else ""
        return cls(tuple(WORD.findall(text)), (before, *map(closed_up, between), after))

    @property
    def body(self) -> str:
        return "".join(map(add, self.words, (*self.gaps[1:-1], "")))

    @property
    def size(self) -> int:
        """The most characters that a text can use for it."""
        seen = "".join([self.gaps[0], self.body, self.gaps[-1]])
        return (len(seen) + (GAP - 1) * sum(map(str.isspace, seen))) * (1 + HIDDEN)


class Terms:
    """What is looked for, made ready."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        self._counts: dict[str, list[int]] = {}
        self._entries: dict[str, list[tuple[Shape, int]]] = {}
        words, pairs, singles, signs = set[str](), set[str](), set[str](), dict[str, int]()
        for number, shape in enumerate(shapes, 1):
            if not shape.words:
                signs.setdefault(shape.gaps[0], number)
                continue
            self._add(shape, number)
            spaced = [word for word in shape.words if SPACED.match(word)]
            if spaced:
                words.add(max(spaced, key=len))
            elif pair := _pair(shape):
                pairs.add(pair)
            else:
                singles.add(shape.words[0])
        self._words, self._pairs, self._singles = frozenset(words), frozenset(pairs), frozenset(singles)
        self._near = _either(pairs)
        self._signs = _Signs(signs) if signs else None
        between = (gap for shape in shapes for gap in shape.gaps[1:-1])
        self._apart = GAP + max(map(len, between), default=0)

    def _add(self, shape: Shape, number: int) -> None:
        counts = self._counts.setdefault(shape.words[0], [])
        if len(shape.words) not in counts:
            counts.append(len(shape.words))
            counts.sort(reverse=True)  # the longest term is found first
        self._entries.setdefault(shape.body, []).append((shape, number))

    # --- whether one may be there

    def may_be_in(self, text: str) -> bool:
        """Whether the text is to be read again: nearly always not. All of it is done in C."""
        if text.isascii():
            return self._may_be_in_plain(text)
        # No term needs more than what stands between two spaces to be suspected, and words come again.
        pieces = set(text.split())
        plain = set(filter(str.isascii, pieces))
        return self._may_be_in_plain(" ".join(plain)) or self._may_be_in_any(" ".join(pieces - plain))

    def _may_be_in_plain(self, text: str) -> bool:
        plain = text.translate(_ASCII)
        if len(plain) != len(text):  # there are control characters in it
            return self._may_be_in_any(text)
        return not self._words.isdisjoint(plain.split()) or self._has_sign(text)

    def _may_be_in_any(self, text: str) -> bool:
        folded = seen(text)
        return (
            folded is None
            or not self._words.isdisjoint(SPACED.findall(folded))
            or self._has_run(folded)
            or self._has_sign(folded)
        )

    def _has_run(self, folded: str) -> bool:
        if not (self._pairs or self._singles):
            return False
        run = "\n".join(RUN.findall(folded))
        if not self._singles.isdisjoint(run):
            return True
        return self._near.search(run) is not None and not self._pairs.isdisjoint(map(add, run, run[1:]))

    def _has_sign(self, folded: str) -> bool:
        return self._signs is not None and self._signs.may_be_in(folded)

    # --- where they are

    def places(self, text: str) -> Iterator[Place]:
        """Every term in the text, in order; none within another."""
        folded = Folded(text)
        found = self._phrases(folded)
        end = 0
        for place in sorted([*found, *self._signs.places(folded)]) if self._signs else found:
            if place.start >= end:
                end = place.end
                yield place

    def _phrases(self, folded: Folded) -> Iterator[Place]:
        words = [found.span() for found in WORD.finditer(folded.text)]
        at = 0
        while at < len(words):
            start, end = words[at]
            counts = self._counts.get(folded.text[start:end], ())
            found = next(filter(None, (self._phrase(folded, words[at : at + n], n) for n in counts)), None)
            if found is not None:
                yield found[0]
            at += found[1] if found is not None else 1

    def _phrase(
        self, folded: Folded, words: Sequence[tuple[int, int]], count: int
    ) -> tuple[Place, int] | None:
        """The term that these words are, and how many they are."""
        body = _body(folded.text, words, self._apart) if len(words) == count else ""
        for shape, number in self._entries.get(body, ()):
            if edges := _edges(folded.text, words[0][0], words[-1][1], shape):
                return Place(*folded.span(*edges), number), count
        return None


class _Signs:
    """Terms without a word in them: `$$$`, a smiley."""

    def __init__(self, signs: dict[str, int]) -> None:
        longest = sorted(signs, key=len, reverse=True)
        self._numbers = [signs[sign] for sign in longest]
        self._whole = re.compile("|".join(f"({_spaced(sign)})" for sign in longest))
        parts = {max(sign.split(), key=len) for sign in signs}
        self._part = re.compile("|".join(map(re.escape, parts)))

    def may_be_in(self, folded: str) -> bool:
        return self._part.search(folded) is not None

    def places(self, folded: Folded) -> Iterator[Place]:
        for found in self._whole.finditer(folded.text):
            number = self._numbers[(found.lastindex or 1) - 1]
            yield Place(*folded.span(*found.span()), number)


_SPACES = re.compile(r"\s+")

_ASCII = {
    **{code: " " for code in range(128) if not chr(code).isalnum()},
    **{code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)},
    **dict.fromkeys([*range(9), *range(14, 28), 127]),
}


def _spaced(signs: str) -> str:
    """An expression for signs with any spaces in the place of theirs."""
    return f"[\\s_\\-]{{1,{GAP}}}".join(map(re.escape, _SPACES.split(signs)))


def _pair(shape: Shape) -> str | None:
    """Two characters that stand side by side, of a term in a script without spaces."""
    joined = "".join(map(add, shape.words, (*(gap and "\n" for gap in shape.gaps[1:-1]), "")))
    return next((first + second for first, second in pairwise(joined) if "\n" not in (first, second)), None)


def _either(pairs: Collection[str]) -> re.Pattern[str]:
    """Any first character of a pair before any second one: cheaper to look for than the pairs."""
    first, second = ("".join(map(re.escape, {pair[at] for pair in pairs})) for at in (0, 1))
    return re.compile(f"[{first}](?=[{second}])" if pairs else "(?!)")


def _body(text: str, words: Sequence[tuple[int, int]], apart: int) -> str:
    """The words and what stands between them; nothing, where they are too far apart."""
    pieces = [text[slice(*words[0])]]
    for (_, before), (start, end) in pairwise(words):
        between = closed_up(text[before:start]) if start - before <= apart else ""
        if start - before >= GAP + len(between):
            return ""
        pieces += [between, text[start:end]]
    return "".join(pieces)


def _edges(text: str, start: int, end: int, shape: Shape) -> tuple[int, int] | None:
    """From where to where it goes with the signs around it; `None` when they are not there."""
    if not shape.gaps[0] and not shape.gaps[-1]:
        return start, end
    before, after = map(_spaced, (shape.gaps[0], shape.gaps[-1]))
    first = re.compile(f"(?:{before})\\Z").search(text, max(start - shape.size, 0), start)
    last = re.compile(after).match(text, end)
    return (first.start(), last.end()) if first and last else None
