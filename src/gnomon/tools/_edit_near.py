"""The lines of a file that are most like a text that is not in it: a model sees where it went wrong."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice

from gnomon.tools._file_diff import cut

__all__ = ["nearest"]

_MOST_LINES = 100
"""How many lines of the text are looked for."""

_MOST_WORDS = 60
_MOST_RARE = 12
_MOST_PLACES = 200
_MOST_SHOWN = 12
_BEFORE = 3
_MOST_PAIRS = 10
_MOST_COMPARED = 200
"""How many characters of two lines are compared."""

_LIKE_ENOUGH = 0.5
_WORD = re.compile(r"\w+")


def nearest(text: str, wanted: str) -> str:
    """The lines with their numbers, from shortly before the first one that differs; or nothing."""
    lines = wanted.replace("\r\n", "\n").strip("\n").split("\n")[:_MOST_LINES]
    found = _first_line(text, lines)
    if found is None:
        return ""
    lines, first = lines[max(0, -found) :], max(0, found)
    there = _lines_of(text, first, len(lines))
    if _likeness(lines, there) < _LIKE_ENOUGH:
        return ""
    begin = max(0, _first_that_differs(lines, there) - _BEFORE)
    shown = enumerate(there[begin : begin + _MOST_SHOWN], first + begin + 1)
    return "\n".join(f"{number}\t{cut(line)}" for number, line in shown)


# --- where to look ------------------------------------------------------------


def _first_line(text: str, lines: Sequence[str]) -> int | None:
    """Where the text would begin, by where most of its words stand."""
    votes: defaultdict[int, float] = defaultdict(float)
    line = at = 0
    for place, wanted_line, weight in sorted(_seen(text, lines)):
        line += text.count("\n", at, place)
        at = place
        votes[line - wanted_line] += weight
    return max(votes, key=lambda first: (votes[first], -first)) if votes else None


def _seen(text: str, lines: Sequence[str]) -> Iterator[tuple[int, int, float]]:
    """Words of the text: where each stands in the file, in which line of the text, and how much that says.

    Long words and rare ones say more. Few of them are looked up, and a few places of each.
    """
    words: dict[str, int] = {}
    for number, line in enumerate(lines):
        for word in _WORD.findall(line):
            words.setdefault(word, number)
    longest = sorted(words, key=len, reverse=True)[:_MOST_WORDS]
    counts = {word: count for word in longest if (count := text.count(word))}
    for word in sorted(counts, key=counts.__getitem__)[:_MOST_RARE]:
        for place in islice(re.finditer(re.escape(word), text), _MOST_PLACES):
            yield place.start(), words[word], len(word) / counts[word]


def _lines_of(text: str, first: int, count: int) -> list[str]:
    pieces = text.split("\n", first + count)
    if not pieces[-1]:
        pieces.pop()
    return [line.removesuffix("\r") for line in pieces[first : first + count]]


# --- how like it is -----------------------------------------------------------


def _likeness(lines: Sequence[str], there: Sequence[str]) -> float:
    """By lines that are the same, wherever in the block; or line by line, for the first few."""
    alike = SequenceMatcher(None, [*map(str.strip, lines)], [*map(str.strip, there)], autojunk=False).ratio()
    pairs = [pair for pair in zip(lines, there, strict=False) if pair[0].strip()][:_MOST_PAIRS]
    ratios = [_likeness_of(*pair) for pair in pairs]
    return max(alike, sum(ratios) / len(ratios) if ratios else 0.0)


def _likeness_of(line: str, other: str) -> float:
    first, second = line.strip()[:_MOST_COMPARED], other.strip()[:_MOST_COMPARED]
    return SequenceMatcher(None, first, second, autojunk=False).ratio()


def _first_that_differs(lines: Sequence[str], there: Sequence[str]) -> int:
    pairs = enumerate(zip(lines, there, strict=False))
    return next((number for number, (line, other) in pairs if line.strip() != other.strip()), 0)
