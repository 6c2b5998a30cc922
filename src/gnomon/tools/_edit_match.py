"""Where in a file the text stands that a model wants replaced, also where it was not copied to the letter.

First as it is; then looser, step by step. What is the same in the old text and in the new one is left as the
file has it, so that a loose match changes no more than it must.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import NamedTuple

from gnomon.tools._file_diff import Change, common_end, common_start

__all__ = ["MOST_REPLACED", "MOST_TOLD", "Found", "find"]

MOST_REPLACED = 100_000
"""How many places are changed at once."""

MOST_TOLD = 10
"""Of how many places the lines are told."""

_MOST_COMPARED = 100_000
"""So many lines are compared where it is not the same text; with more, no place is taken."""

_BLANKS = " \t\r"
_LETTERS = {
    "'": "\u2018\u2019\u201a\u201b\u2032",
    '"': "\u201c\u201d\u201e\u201f\u2033",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212",
    " ": "\u00a0\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
}
_NUMBERED = re.compile(r" {0,8}(\d{1,9})\t(.*)", re.DOTALL)


class Found(NamedTuple):
    """What is to be changed, and where it was found."""

    changes: list[Change]
    starts: list[int]
    """Where the places begin, also what stays of them."""

    total: int
    """How many places there are; where they are not sure, enough of them to know that they are several."""

    how: str = ""
    """How loosely it was found: nothing to say where it stands as it was given."""

    is_sure: bool = True
    """Whether it is the same text, so that several places may be changed at once."""


def find(text: str, old: str, new: str, *, every: bool = False) -> Found | None:
    """The places of the first step that finds any: some of them, unless `every` one is to be changed.

    `old` is not empty, and `new` is another text.
    """
    file = _File(text, every)
    if found := file.find(old, new):
        return found
    bare = _without_numbers(old)
    if bare is None or not bare.strip():
        return None
    bare_new = _without_numbers(new, is_copy=False)
    found = file.find(bare, new if bare_new is None else bare_new)
    if found is None:
        return None
    how = "without the line numbers that read_file shows"
    return found._replace(how=f"{how}, {found.how}" if found.how else how, is_sure=False)


class _File:
    """A text, and the forms of it that are compared."""

    def __init__(self, text: str, every: bool) -> None:
        self.text = text
        self._every = every
        self._most = MOST_REPLACED + 1 if every else MOST_TOLD
        self._has_crlf = "\r\n" in text

    def find(self, old: str, new: str) -> Found | None:
        if "\r" in old and old in self.text:
            return self._to_the_letter(old, new)
        plain_old, plain_new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
        if self._has_crlf or plain_old != old:
            new = plain_new
        found = (
            self._by_line_ends(old, plain_old, new)
            or self._by_lines(plain_old, plain_new, _without_end, "with other blanks at the ends of lines")
            or self._by_lines(plain_old, plain_new, _without_indentation, "indented differently")
        )
        if found or (old.isascii() and self.text.isascii()):
            return found
        return self._by_letters(plain_old, plain_new) or self._by_lines(
            plain_old, plain_new, _in_plain_letters, _BLANKS_AND_LETTERS
        )

    # --- as pieces of text ------------------------------------------------------

    def _to_the_letter(self, old: str, new: str) -> Found:
        """Whoever writes CR means it."""
        starts = self._places(self.text, old)
        changes = [Change(at, at + len(old), new) for at in starts]
        return Found(changes, starts, self._count(starts, self.text, old))

    def _by_line_ends(self, old: str, plain: str, new: str) -> Found | None:
        """In the text without CR, which is what a model has seen of it."""
        starts = self._places(self._folded, plain)
        if not starts:
            return None
        found = self._pieces(starts, plain, new)
        how = "" if self.text.startswith(old, found.starts[0]) else "with other line ends"
        return found._replace(total=self._count(starts, self._folded, plain), how=how)

    def _by_letters(self, old: str, new: str) -> Found | None:
        starts = self._places(_plain(self._folded), _plain(old))
        return self._pieces(starts, old, new)._replace(how=_LETTERS_TOLD, is_sure=False) if starts else None

    def _places(self, text: str, piece: str) -> list[int]:
        found = list(islice(_places(text, piece), self._most))
        if len(found) == 1 and not self._every and (other := text.find(piece, found[0] + 1)) >= 0:
            found.append(other)  # it overlaps the first one, and may be what is meant as well
        return found

    def _count(self, starts: list[int], text: str, piece: str) -> int:
        return len(starts) if len(starts) < self._most else text.count(piece)

    def _pieces(self, starts: list[int], old: str, new: str) -> Found:
        """What was found in the text without CR. What old and new have in common stays."""
        head = common_start(old, new)
        tail = common_end(old[head:], new[head:])
        middle = new[head : len(new) - tail]
        ends = len(old) - tail
        changes = [self._change(self._at(at + head), self._at(at + ends), middle) for at in starts]
        return Found(changes, [self._at(at) for at in starts], len(starts))

    @cached_property
    def _folded(self) -> str:
        return self.text.replace("\r\n", "\n") if self._has_crlf else self.text

    def _at(self, folded: int) -> int:
        """A place in the text without CR, as one in the text."""
        if not self._has_crlf:
            return folded
        line = bisect_right(self._folded_starts, folded) - 1
        return self._starts[line] + folded - self._folded_starts[line]

    def _change(self, start: int, end: int, new: str) -> Change:
        """With the line ends of the place."""
        if self._has_crlf and "\n" in new and self._ends_with_crlf(start):
            new = new.replace("\n", "\r\n")
        return Change(start, end, new)

    def _ends_with_crlf(self, at: int) -> bool:
        """Whether the line of this place does; for the last one, which may have no end, the one before it."""
        end = self.text.find("\n", at)
        if end < 0:
            end = self.text.rfind("\n", 0, at)
        return end > 0 and self.text[end - 1] == "\r"

    # --- as whole lines -----------------------------------------------------------

    def _by_lines(self, old: str, new: str, kind: Callable[[str], str], how: str) -> Found | None:
        block = _Block(old, new)
        longest = _plain(max(map(str.strip, block.old), key=len))
        if not longest or len(block.old) > _MOST_COMPARED or longest not in self._plain_text:
            return None
        changes: list[Change] = []
        starts: list[int] = []
        for tried, first in enumerate(self._blocks(block.old, kind)):
            if len(starts) > MOST_TOLD:
                break
            if tried > 1 and tried * len(block.old) > _MOST_COMPARED:
                return None
            moved = block.moved(_shift(block.old, self._lines[first : first + len(block.old)]))
            if moved is not None:
                starts.append(self._starts[first])
                changes.append(self._change_of_lines(first, block, moved))
        return Found(changes, starts, len(starts), how, is_sure=False) if changes else None

    def _blocks(self, old: Sequence[str], kind: Callable[[str], str]) -> Iterator[int]:
        """The first lines of the places where each line is of the same kind as that of the block.

        A line is written as one letter, so that blocks are found as words are, in one go.
        """
        letters = {each: chr(number) for number, each in enumerate(dict.fromkeys(map(kind, old)), 1)}
        word = "".join(letters[kind(line)] for line in old)
        written = "".join([letters.get(kind(line), "\0") for line in self._lines])
        at = written.find(word)
        while at >= 0:
            yield at
            at = written.find(word, at + 1)

    def _change_of_lines(self, first: int, block: _Block, moved: list[str]) -> Change:
        """All but the lines that stay. The end of the last line is part of it where the old text has one."""
        last = first + len(block.old) - block.tail - 1
        start, end = self._starts[first + block.head], self._starts[last] + len(self._lines[last])
        text = "\n".join(moved[block.head : len(moved) - block.tail])
        if block.is_ended and not block.tail and last + 1 < len(self._starts):
            return self._change(start, self._starts[last + 1], text + "\n" * block.is_new_ended)
        end -= self._lines[last].endswith("\r")
        return self._change(start, end, text + "\n" * (block.is_new_ended and not block.is_ended))

    @cached_property
    def _plain_text(self) -> str:
        return _plain(self.text)

    @cached_property
    def _lines(self) -> list[str]:
        """Without what comes after the last line end, if that is nothing."""
        lines = self.text.split("\n")
        return lines if lines[-1] else lines[:-1]

    @cached_property
    def _starts(self) -> list[int]:
        return _starts_of(self.text)

    @cached_property
    def _folded_starts(self) -> list[int]:
        return _starts_of(self._folded)


class _Block:
    """The old text and the new one as lines, and how many of them are the same at either end."""

    def __init__(self, old: str, new: str) -> None:
        self.is_ended, self.is_new_ended = old.endswith("\n"), new.endswith("\n")
        self.old = old.removesuffix("\n").split("\n")
        self.new = new.removesuffix("\n").split("\n")
        self.head, self.tail = self._in_common()

    def moved(self, shift: tuple[str, str] | None) -> list[str] | None:
        """The new lines, as much further in or out; `None` where one is not far enough in for that."""
        off, on = shift or ("", "")
        if shift is None or any(line.strip() and not line.startswith(off) for line in self.new):
            return None
        return [on + line[len(off) :] if line.strip() else line for line in self.new]

    def _in_common(self) -> tuple[int, int]:
        most = min(len(self.old), len(self.new)) - 1
        head = tail = 0
        while head < most and self.old[head] == self.new[head]:
            head += 1
        if self.is_ended == self.is_new_ended:
            while tail < most - head and self.old[-1 - tail] == self.new[-1 - tail]:
                tail += 1
        return head, tail


# --- what counts as the same ------------------------------------------------------

_LETTERS_TOLD = "with other quotes, dashes or blanks"
_BLANKS_AND_LETTERS = "indented differently, with other quotes, dashes or blanks"


def _places(text: str, piece: str) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + len(piece))


def _plain(text: str) -> str:
    """With the quotes, dashes and blanks of a keyboard; no place in it moves."""
    if not text.isascii():
        for plain, others in _LETTERS.items():
            for letter in others:
                text = text.replace(letter, plain)
    return text


def _without_end(line: str) -> str:
    return line.rstrip(_BLANKS)


def _without_indentation(line: str) -> str:
    return line.strip(_BLANKS)


def _in_plain_letters(line: str) -> str:
    return _plain(line).strip(_BLANKS)


def _shift(old: Sequence[str], lines: Sequence[str]) -> tuple[str, str] | None:
    """What is taken off the front of every line of the old text, and put there, to make it the file's."""
    found: tuple[str, str] | None = None
    for mine, theirs in zip(old, lines, strict=True):
        here, there = _indentation(mine), _indentation(theirs)
        if not mine.strip(_BLANKS):
            continue
        if there.endswith(here):
            shift = ("", there[: len(there) - len(here)])
        elif here.endswith(there):
            shift = (here[: len(here) - len(there)], "")
        else:
            return None
        if found not in (None, shift):
            return None
        found = shift
    return found


def _indentation(line: str) -> str:
    plain = _plain(line)
    return plain[: len(plain) - len(plain.lstrip(_BLANKS))]


def _without_numbers(text: str, *, is_copy: bool = True) -> str | None:
    """The text without the number and the tab before each line, as `read_file` shows them.

    In a copy they go up by one; a text that was made from it may have them in any order.
    """
    lines = text.split("\n")
    last = [lines.pop()] if lines[-1] == "" and len(lines) > 1 else []
    bare: list[str] = []
    numbers: list[int] = []
    for line in lines:
        found = _NUMBERED.fullmatch(line)
        if found is None:
            return None
        numbers.append(int(found[1]))
        bare.append(found[2])
    if is_copy and numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    return "\n".join((*bare, *last))


def _starts_of(text: str) -> list[int]:
    """Where each line begins."""
    ends = accumulate(len(line) + 1 for line in text.split("\n"))
    return [0, *ends][:-1]
