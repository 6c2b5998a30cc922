"""What was changed in a file, as lines with `-` and `+`: never more than a model can use.

Only what lies around the changes is looked at, so that a large file takes no longer than a small one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple, TypeAlias

from gnomon.tools._file_text import sayable

__all__ = ["MOST_PLACES", "Change", "applied", "common_end", "common_start", "cut", "difference"]

MOST_PLACES = 50
"""How many changes are looked at."""

_CONTEXT = 3
_MOST_CHARS = 12_000
_MOST_IN_A_ROW = 60
_LAST_IN_A_ROW = 5
_MOST_COMPARED = 1_000
"""How many lines on a side are compared one by one; of more, only what is the same at either end is seen."""
_LONGEST_LINE = 300
_BEFORE_CUT = 100

_Code: TypeAlias = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]


class Change(NamedTuple):
    """A piece of a text, and what takes its place."""

    start: int
    end: int
    text: str


def applied(text: str, changes: Sequence[Change]) -> str:
    """The text with these changes, which are in order and apart."""
    pieces: list[str] = []
    at = 0
    for change in changes:
        pieces += (text[at : change.start], change.text)
        at = change.end
    return "".join((*pieces, text[at:]))


def difference(text: str, changes: Sequence[Change]) -> str:
    """The first of the changes as a unified diff without a head, with a few lines around each."""
    lines: list[str] = []
    size = line = at = moved = 0
    for group in _groups(text, changes[:MOST_PLACES]):
        start, end = _around(text, group)
        line += text.count("\n", at, start)
        at = start
        before = _lines(text[start:end])
        here = [Change(each.start - start, each.end - start, each.text) for each in group]
        after = _lines(applied(text[start:end], here))
        for each in _hunks(before, after, line, line + moved):
            size += len(each) + 1
            if size > _MOST_CHARS:
                return "\n".join((*lines, "[the rest of the difference is not shown]"))
            lines.append(each)
        moved += len(after) - len(before)
    if len(changes) > MOST_PLACES:
        lines.append(f"[and {len(changes) - MOST_PLACES:,} more places]")
    return "\n".join(lines)


# --- which lines are looked at ------------------------------------------------


def _groups(text: str, changes: Sequence[Change]) -> Iterator[list[Change]]:
    """Changes that are shown together, since the lines around them touch."""
    group: list[Change] = []
    end = -1
    for change in changes:
        if group and _up(text, change.start) > end:
            yield group
            group = []
        group.append(change)
        end = _down(text, change.end)
    if group:
        yield group


def _around(text: str, group: Sequence[Change]) -> tuple[int, int]:
    return _up(text, group[0].start), _down(text, group[-1].end)


def _up(text: str, at: int) -> int:
    """Where the line begins that is a few above the one of this place."""
    at = text.rfind("\n", 0, at) + 1
    for _ in range(_CONTEXT):
        at = text.rfind("\n", 0, max(at - 1, 0)) + 1
    return at


def _down(text: str, at: int) -> int:
    """Where the line ends that is a few below."""
    for _ in range(_CONTEXT + 1):
        end = text.find("\n", at)
        if end < 0:
            return len(text)
        at = end + 1
    return at


def _lines(text: str) -> list[str]:
    """Its lines with their ends, by which the last one may differ."""
    lines = text.split("\n")
    last = lines.pop()
    return [f"{line}\n" for line in lines] + ([last] if last else [])


# --- how they are shown -------------------------------------------------------


def _hunks(before: list[str], after: list[str], line: int, line_after: int) -> Iterator[str]:
    for codes in _Comparison(before, after).get_grouped_opcodes(_CONTEXT):
        first, last = codes[0], codes[-1]
        yield (
            f"@@ -{_range(line + first[1], line + last[2])} "
            f"+{_range(line_after + first[3], line_after + last[4])} @@"
        )
        for kind, start, end, start_after, end_after in codes:
            old, new = before[start:end], after[start_after:end_after]
            if kind == "equal":
                yield from _row(" ", old, [])
            else:
                yield from _row("-", old, new)
                yield from _row("+", new, old)


class _Comparison(SequenceMatcher[str]):
    """What is equal and what is not. Lines at either end that are the same are no matter of luck."""

    def __init__(self, before: list[str], after: list[str]) -> None:
        self._head = _in_common(before, after)
        self._tail = _in_common(before[self._head :][::-1], after[self._head :][::-1])
        self._ends = len(before) - self._tail, len(after) - self._tail
        old, new = before[self._head : self._ends[0]], after[self._head : self._ends[1]]
        self._is_short = max(len(old), len(new)) <= _MOST_COMPARED
        super().__init__(None, old if self._is_short else [], new if self._is_short else [])

    def get_opcodes(self) -> list[_Code]:
        head, (end, end_after) = self._head, self._ends
        between: list[_Code] = [("replace", head, end, head, end_after)]
        if self._is_short:
            found = super().get_opcodes()
            between = [(kind, a + head, b + head, c + head, d + head) for kind, a, b, c, d in found]
        above: _Code = ("equal", 0, head, 0, head)
        below: _Code = ("equal", end, end + self._tail, end_after, end_after + self._tail)
        return [*([above] if head else []), *between, *([below] if self._tail else [])]


def _in_common(before: Sequence[str], after: Sequence[str]) -> int:
    """How many lines they begin with alike."""
    pairs = enumerate(zip(before, after, strict=False))
    return next((number for number, (old, new) in pairs if old != new), min(len(before), len(after)))


def _range(start: int, end: int) -> str:
    """As programs that read this expect it: of no lines, the one before them is named."""
    count = end - start
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _row(sign: str, lines: Sequence[str], others: Sequence[str]) -> Iterator[str]:
    """Lines of one kind; of a long row, head and tail."""
    left = len(lines) - _MOST_IN_A_ROW
    for number, line in enumerate(lines):
        if left > 0 and _MOST_IN_A_ROW - _LAST_IN_A_ROW <= number < len(lines) - _LAST_IN_A_ROW:
            if number == _MOST_IN_A_ROW - _LAST_IN_A_ROW:
                yield f"[{left:,} more lines with {sign}]"
            continue
        other = others[number] if number < len(others) else ""
        yield sign + cut(line.rstrip("\r\n"), common_start(line, other) if len(line) > _LONGEST_LINE else 0)
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def cut(line: str, at: int = 0) -> str:
    """A line that may be shown: of a long one, what is around this place."""
    if len(line) <= _LONGEST_LINE:
        return sayable(line)
    start = max(0, min(at - _BEFORE_CUT, len(line) - _LONGEST_LINE))
    end = start + _LONGEST_LINE
    left = f"… [{len(line) - end:,} more characters in this line]" if end < len(line) else ""
    return sayable(f"{'…' if start else ''}{line[start:end]}{left}")


# --- what two texts have in common ----------------------------------------------


def common_start(first: str, second: str) -> int:
    """How many characters they begin with alike. Halved again and again, since slices are compared fast."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_end(first: str, second: str) -> int:
    """How many characters they end with alike."""
    low, high = 0, min(len(first), len(second))
    while low < high:
        middle = (low + high + 1) // 2
        if first[len(first) - middle : len(first) - low] == second[len(second) - middle : len(second) - low]:
            low = middle
        else:
            high = middle - 1
    return low
