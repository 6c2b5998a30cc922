"""What long work has done so far, on stderr: a line that moves at a terminal, else a line now and then."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from gnomon.cli.problems import printable
from gnomon.upkeep import Tally

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["Meter", "amounts", "size"]

_FIRST_S = 1.0
_MOVES_S, _LINES_S = 0.25, 5.0


class Meter:
    """Called with the tally again and again, which costs next to nothing; it looks at it by its own clock."""

    def __init__(self, doing: str, *, quiet: bool, waiting_for: str = "the store") -> None:
        self._doing = doing
        self._waiting_for = waiting_for
        self._quiet = quiet
        self._tally: Tally | None = None
        self._next: asyncio.TimerHandle | None = None
        self._moving: Status | None = None
        self._moves = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def __call__(self, tally: Tally) -> None:
        self._tally = tally

    def __enter__(self) -> Self:
        if not self._quiet:
            self._next = asyncio.get_running_loop().call_later(_FIRST_S, self._show)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._next is not None:
            self._next.cancel()
        if self._moving is not None:
            self._moving.stop()

    def _show(self) -> None:
        counts = amounts(self._tally) if self._tally is not None else ""
        line = f"{self._doing}: {counts} so far" if counts else f"waiting for {self._waiting_for}"
        with suppress(OSError):  # nobody is left to read it, and the work goes on
            self._move(line) if self._moves else self._write(line)
        after = _MOVES_S if self._moves else _LINES_S
        self._next = asyncio.get_running_loop().call_later(after, self._show)

    def _move(self, line: str) -> None:
        from rich.console import Console
        from rich.status import Status
        from rich.text import Text

        text = Text(printable(line, 200))
        if self._moving is None:
            self._moving = Status(text, console=Console(stderr=True))
            self._moving.start()
        else:
            self._moving.update(text)

    def _write(self, line: str) -> None:
        sys.stderr.write(f"gnomon: {printable(line, 200)}\n")
        sys.stderr.flush()


def amounts(tally: Tally) -> str:
    """The counts that are not zero, in words."""
    counted = {
        "session": tally.sessions,
        "event": tally.events,
        "blob": tally.blobs,
        "memory record": tally.memory,
    }
    parts = [f"{number:,} {name}{'' if number == 1 else 's'}" for name, number in counted.items() if number]
    return ", ".join([*parts, size(tally.bytes)] if tally.bytes else parts)


def size(count: int) -> str:
    """Bytes as a person reads them."""
    amount = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "bytes" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1000
    raise AssertionError
