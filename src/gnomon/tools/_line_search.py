"""The process in which `grep` compares lines with an expression, so that it can be ended at any time.

An expression may take for ever, and Python cannot be interrupted meanwhile, nor can anything else run in a
process that has come to such a place. So this runs in a Python of its own, `python -I -S`, without a variable
or a file: an order and pieces of files come in, lines that fit go out. Only the standard library is imported.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress

MEMORY_BYTES = 512 << 20
"""More than that an expression does not get."""

Line = tuple[int, bool, str]
"""Its number, whether it fits or only stands near, and its text, which may be cut."""


class Order:
    """What is looked for, and how much of it is told."""

    def __init__(self, told: dict[str, object]) -> None:
        pattern = str(told["pattern"])
        self.is_literal = bool(told["literal"])
        self.context = int(str(told["context"]))
        self.width = int(str(told["width"]))
        self.longest = int(str(told["longest"]))
        self.counts_only = bool(told["counts_only"])
        self.left = int(str(told["most"]))
        """How many lines that fit may still be told, or how many files that have any."""
        flags = re.IGNORECASE if told["ignore_case"] else 0
        self.expression = re.compile(re.escape(pattern) if self.is_literal else pattern, flags)
        # A text without it has no line with it: that is much faster than to ask line by line.
        is_plain = self.is_literal or re.fullmatch(r"[\w\s\-=:;,<>/@#%&~'\"!`]*", pattern)
        self.needle = pattern if is_plain and not told["ignore_case"] else ""


class Reading:
    """One file, piece by piece. Its last line may go on in the next piece."""

    def __init__(self, order: Order, codec: str) -> None:
        self._order = order
        self._decoder = codecs.getincrementaldecoder(codec)("replace")
        self._rest = ""
        self._before: list[str] = []
        """The last lines, which may be wanted around one that comes."""
        self._number = 1
        """Of the first line that comes."""
        self._next = 1
        """What has been told goes as far as here."""
        self._until = 0
        """As far as this lines are wanted around one that was found."""
        self.found = 0
        self.is_cut = False
        """Whether a line was too long to be looked at as a whole."""

    def take(self, data: bytes, *, is_last: bool) -> list[Line]:
        text = self._rest + self._decoder.decode(data, is_last)
        lines = self._lines(text, is_last=is_last)
        hits = self._hits(text, lines)
        self.found += len(hits)
        told: list[Line] = []
        if not self._order.counts_only:
            hits = hits[: self._order.left]
            self._order.left -= len(hits)
            told = self._told(lines, [self._number + at for at in hits])
        self._number += len(lines)
        if self._order.context:
            self._before = [*self._before, *lines][-self._order.context :]
        return told

    def _lines(self, text: str, *, is_last: bool) -> list[str]:
        if "\r" in text:
            text = text.replace("\r\n", "\n")
        lines = text.split("\n")
        lines[0] = self._bounded(lines[0])
        self._rest = self._bounded(lines.pop()) if len(lines) > 1 else lines.pop()
        if is_last and self._rest:
            lines.append(self._rest.removesuffix("\r"))
        return lines

    def _bounded(self, line: str) -> str:
        """What is looked at of it. What comes after that is dropped as it comes."""
        self.is_cut = self.is_cut or len(line) > self._order.longest
        return line[: self._order.longest]

    def _hits(self, text: str, lines: list[str]) -> list[int]:
        needle, search = self._order.needle, self._order.expression.search
        if needle and needle not in text:
            return []
        return [at for at, line in enumerate(lines) if search(line)]

    def _told(self, lines: list[str], hits: Sequence[int]) -> list[Line]:
        """The lines with these numbers, and those around them that have not been told."""
        end, around = self._number + len(lines), self._order.context
        wanted = dict.fromkeys(range(self._next, min(self._until + 1, end)), False)
        for hit in hits:
            near = range(max(hit - around, self._next), min(hit + around + 1, end))
            wanted = {**dict.fromkeys(near, False), **wanted, hit: True}
            self._until = hit + around
        if wanted:
            self._next = max(wanted) + 1
        known = self._before + lines
        first = end - len(known)
        return [(n, wanted[n], self._cut(known[n - first], wanted[n])) for n in sorted(wanted)]

    def _cut(self, line: str, is_hit: bool) -> str:
        """No more of it than can be shown, around what was found."""
        width = self._order.width
        if len(line) <= width:
            return line
        found = self._order.expression.search(line) if is_hit else None
        start = max(0, min(found.start() - width // 4, len(line) - width)) if found else 0
        end = start + width
        return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


# --- the process ------------------------------------------------------------------


def serve(
    read_line: Callable[[], bytes], read: Callable[[int], bytes], tell: Callable[[object], None]
) -> None:
    """An order in a line; then for each piece a line about it, and the piece. Each piece is answered."""
    try:
        order = Order(json.loads(read_line()))
    except re.error as error:
        tell({"wrong": error.msg, "at": error.pos})
    except (RecursionError, OverflowError, MemoryError):
        tell({"wrong": "it is too large"})
    else:
        try:
            _search(order, read_line, read, tell)
        except MemoryError:
            tell({"lost": f"it takes more than {MEMORY_BYTES >> 20:,} MB of memory"})


def _search(
    order: Order, read_line: Callable[[], bytes], read: Callable[[int], bytes], tell: Callable[[object], None]
) -> None:
    reading: Reading | None = None
    while order.left > 0 and (header := read_line()):
        codec, size, ending = header.split()
        is_last = ending == b"last"
        reading = reading or Reading(order, codec.decode())
        lines = reading.take(read(int(size)), is_last=is_last)
        if is_last and order.counts_only:
            order.left -= reading.found > 0
        is_full = order.left <= 0
        counted = {"found": reading.found, "is_cut": reading.is_cut}
        tell({"lines": lines, "is_last": is_last, "is_full": is_full, **counted})
        reading = None if is_last else reading


def main(lifeline: int, seconds: int) -> None:
    _confine(lifeline, seconds)
    source = open(0, "rb", buffering=1 << 20)  # noqa: SIM115 - as long as the process
    target = open(1, "wb", buffering=1 << 16)  # noqa: SIM115

    def tell(answer: object) -> None:
        target.write(json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        target.flush()

    serve(source.readline, source.read, tell)


def _confine(lifeline: int, seconds: int) -> None:
    """End when nobody holds the other end of the lifeline any more, whatever is being done; and in any case
    after this time. The kernel sees to it, as no code of Python runs while an expression is compared."""
    import fcntl
    import resource
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGIO, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.alarm(seconds)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    for limit, value in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_AS, MEMORY_BYTES),
    ):
        with suppress(ValueError, OSError):  # there may be a lower one
            resource.setrlimit(limit, (value, value))
