"""One search for lines: files are handed to a process that compares them, and what it finds is collected."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from gnomon.errors import InvalidArguments, InvalidInput
from gnomon.tools._file_text import SAMPLE_BYTES, charset_of
from gnomon.tools._files import Files, plainly, shown
from gnomon.tools._line_results import Results
from gnomon.tools._searches import Span, counted, some
from gnomon.tools._searching import Answer, OutOfTime, Searching

__all__ = ["Asked", "Grepping"]

MOST_FILES = 50_000
MOST_BYTES = 1 << 30
MOST_LINES = 200
MOST_COUNTED = 500
"""How many files are told with how many lines of them fit."""

LONGEST_LINE = 10_000_000
"""In characters. What comes after that is not looked at."""

_WIDTH = 300
"""How many characters of a line are shown."""

_PIECE = 1 << 18
_IS_STUCK = 0.25
"""When one piece has taken this part of all the time, it is the expression that takes so long."""


class Asked(NamedTuple):
    pattern: str
    is_literal: bool
    ignore_case: bool
    context: int
    counts_only: bool


class Grepping:
    """One search. Afterwards `ending` says why not all was searched that was there, where that is so."""

    def __init__(self, files: Files, asked: Asked, span: Span) -> None:
        self._files = files
        self._asked = asked
        self._span = span
        self._results = Results(counts_only=asked.counts_only, context=asked.context)
        self._pending: deque[str] = deque()
        """The file of each piece that no answer has come for."""
        self._waits_since = 0.0
        self._bytes_left = MOST_BYTES
        self._cut: list[str] = []
        self._secret: list[str] = []
        self._no_text: list[str] = []
        self._locked: list[str] = []
        self.searched = 0
        self.ending = ""
        self.is_broken_off = False
        """Whether it did not come to an end that could be foreseen."""

    @property
    def lines(self) -> list[str]:
        return self._results.lines

    def run(self, places: Iterable[str]) -> None:
        """Search the files with these real paths."""
        with Searching(self._order(), self._span) as searching:
            try:
                for place in places:
                    self._hand(searching, place)
                    self.ending = self.ending or self._too_much()
                    if self.ending:
                        break
                if not self._results.is_full:
                    self._take(searching.rest())
            except OutOfTime:
                self._break_off(self._out_of_time())
        if self._results.is_full:
            self.ending = self._there_is_more()
        elif self._pending and not self.is_broken_off:
            self._break_off(f"the search ended by itself at {shown(self._pending[0])}")

    def notes(self) -> list[str]:
        """What is there and was not searched, or not as a whole."""
        told = (
            (self._secret, "not searched, secret by name"),
            (self._no_text, "not searched, no text"),
            (self._locked, "not searched, cannot be opened"),
            (self._cut, f"searched in part, a line is longer than {LONGEST_LINE:,} characters"),
        )
        return [
            f"{counted(len(places), 'file')} {what}: {some(map(plainly, places))}"
            for places, what in told
            if places
        ]

    # --- handing out ----------------------------------------------------------------

    def _order(self) -> dict[str, object]:
        return {
            "pattern": self._asked.pattern,
            "literal": self._asked.is_literal,
            "ignore_case": self._asked.ignore_case,
            "context": self._asked.context,
            "counts_only": self._asked.counts_only,
            "most": MOST_COUNTED if self._asked.counts_only else MOST_LINES,
            "width": _WIDTH,
            "longest": LONGEST_LINE,
        }

    def _hand(self, searching: Searching, place: str) -> None:
        if self._files.is_secret(place):
            self._secret.append(place)
            return
        try:
            file = self._files.beneath.open(place, os.O_RDONLY, links=False)
        except (FileNotFoundError, NotADirectoryError):  # gone meanwhile
            return
        except (OSError, InvalidInput):
            self._locked.append(place)
            return
        try:
            self._hand_pieces(searching, place, file)
        finally:
            os.close(file)

    def _hand_pieces(self, searching: Searching, place: str, file: int) -> None:
        piece = self._read(file, place)
        charset = charset_of(piece[:SAMPLE_BYTES], is_whole=len(piece) < min(_PIECE, SAMPLE_BYTES))
        if charset is None:
            self._no_text.append(place)
            return
        self.searched += 1
        data, is_last = piece[len(charset.mark) :], False
        while not (is_last or self._results.is_full or self.is_broken_off):
            is_last = len(piece) < _PIECE or self._bytes_left <= 0
            if not self._pending:
                self._waits_since = time.monotonic()
            self._pending.append(place)
            searching.give(charset.codec, data, is_last=is_last)
            self._take(searching.answers())
            piece = data = b"" if is_last else self._read(file, place)

    def _read(self, file: int, place: str) -> bytes:
        try:
            piece = os.read(file, _PIECE)
        except OSError:
            self._locked.append(place)
            return b""
        self._bytes_left -= len(piece)
        return piece

    # --- what comes back --------------------------------------------------------------

    def _take(self, answers: Iterable[Answer]) -> None:
        for answer in answers:
            if answer.wrong is not None:
                at = "" if answer.at is None else f" at character {answer.at + 1}"
                raise InvalidArguments(f"pattern: it is no regular expression: {answer.wrong}{at}")
            if answer.lost is not None:
                self._break_off(f"ended at {shown(self._pending[0])}: {answer.lost}. {_OTHERWISE}")
                return
            place = self._pending.popleft()
            self._waits_since = time.monotonic()
            self._results.add(place, answer)
            if answer.is_last and answer.is_cut:
                self._cut.append(place)

    # --- how it ends ------------------------------------------------------------------

    def _too_much(self) -> str:
        if self._results.is_full:
            return self._there_is_more()
        if self._bytes_left <= 0:
            return f"ended after {MOST_BYTES >> 20:,} MB: {_NARROWER}"
        if self.searched >= MOST_FILES:
            return f"ended after {MOST_FILES:,} files: {_NARROWER}"
        return ""

    def _there_is_more(self) -> str:
        counting = "" if self._asked.counts_only else ", files_only=true counts it"
        return f"there may be more: a longer pattern, a path or a glob leads to it{counting}"

    def _out_of_time(self) -> str:
        ended = f"ended after {self._span.seconds:g} s"
        if not self._pending:
            return f"{ended}: {_NARROWER}"
        ended += f" at {shown(self._pending[0])}"
        if time.monotonic() - self._waits_since < _IS_STUCK * self._span.seconds:
            return f"{ended}: {_NARROWER}"
        return f"{ended}, where the expression takes too long. {_OTHERWISE}"

    def _break_off(self, ending: str) -> None:
        self.is_broken_off = True
        self.ending = ending


_NARROWER = "name a smaller folder in path, or fewer files with glob"
_OTHERWISE = (
    "Repetition within repetition, as in (a+)+ or (a|b*)*, can take for ever: write it otherwise, or look "
    "for plain text with literal=true"
)
