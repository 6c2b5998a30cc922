"""Some lines of a file, however large it is: never more of it is held than is shown."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from typing import NamedTuple

from gnomon.tools._file_text import Charset

__all__ = ["LONGEST_LINE", "Lines", "read_lines"]

LONGEST_LINE = 2_000
"""How many characters of a line are shown."""

_PIECE = 1 << 20
_WORTH_COUNTING = 256 << 20
"""In a file up to this size lines are counted to its end, which takes a moment."""


class Lines(NamedTuple):
    shown: list[str]
    lengths: list[int]
    """How long each is, also what is not shown of it."""

    first: int
    counted: int
    """How many lines there are as far as the file was read."""

    is_counted: bool
    """Whether it was read to its end."""

    has_crlf: bool


def read_lines(
    file: int,
    charset: Charset,
    *,
    first: int,
    most: int,
    most_chars: int,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Lines:
    """Lines from `first` on, counted from 1: at most so many, and so many characters of them together.

    It ends early once nobody waits for it: a file may have no end, or none that is reached in a day.
    """
    taking = _Taking(first, most, most_chars)
    decoder = codecs.getincrementaldecoder(charset.codec)("replace")
    os.lseek(file, len(charset.mark), os.SEEK_SET)
    is_counted = os.fstat(file).st_size <= _WORTH_COUNTING
    for text in _pieces(file, decoder):
        taking.add(text)
        if is_cancelled() or (taking.is_full and not is_counted):
            break
    else:
        taking.end()
        is_counted = True
    return Lines(taking.lines, taking.lengths, first, taking.passed, is_counted, taking.has_crlf)


def _pieces(file: int, decoder: codecs.IncrementalDecoder) -> Iterator[str]:
    while piece := os.read(file, _PIECE):
        yield decoder.decode(piece)
    if rest := decoder.decode(b"", True):
        yield rest


class _Taking:
    """Lines as pieces of text come by: those before are counted, those wanted kept, those after counted."""

    def __init__(self, first: int, most: int, most_chars: int) -> None:
        self._first = first
        self._most = most
        self._chars_left = most_chars
        self._begun = ""
        self._length = 0
        self._is_begun = False
        self.passed = 0
        self.lines: list[str] = []
        self.lengths: list[int] = []
        self.is_full = False
        self.has_crlf = False

    def add(self, text: str) -> None:
        at = self._skip(text)
        while at < len(text) and not self.is_full and self.passed >= self._first - 1:
            end = text.find("\n", at)
            self._go_on(text[at:end] if end >= 0 else text[at:])
            at = end + 1 if end >= 0 else len(text)
            if end >= 0:
                self._take()
        if at < len(text):
            self.passed += text.count("\n", at)
            self._is_begun = not text.endswith("\n")

    def end(self) -> None:
        """The last line may have no end."""
        if self._length and not self.is_full:
            self._take()
        elif self._is_begun:
            self.passed += 1

    def _skip(self, text: str) -> int:
        """Where in the text the first line begins that is wanted; its end, where that is not in it."""
        before = self._first - 1 - self.passed
        if before <= 0 or self.is_full:
            return 0
        if (count := text.count("\n")) < before:
            self.passed += count
            self._is_begun = not text.endswith("\n") if text else self._is_begun
            return len(text)
        self.passed += before
        self._is_begun = False
        return len(text) - len(text.split("\n", before)[before])

    def _go_on(self, text: str) -> None:
        if len(self._begun) <= LONGEST_LINE:
            self._begun += text[: LONGEST_LINE + 1]
        self._length += len(text)

    def _take(self) -> None:
        line, length = self._begun, self._length
        if line.endswith("\r") and length == len(line):
            line, length, self.has_crlf = line[:-1], length - 1, True
        self._begun, self._length = "", 0
        self.passed += 1
        self.lines.append(line[:LONGEST_LINE])
        self.lengths.append(length)
        self._chars_left -= min(length, LONGEST_LINE) + 8
        self.is_full = len(self.lines) >= self._most or self._chars_left <= 0
