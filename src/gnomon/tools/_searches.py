"""What tools share that look for something in a folder: how long, where, and what that touches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from math import inf
from typing import TypeVar

from gnomon._descent import Refused, inside
from gnomon._threads import run_in_thread
from gnomon.contracts.tool import ToolContext, Touches
from gnomon.errors import InvalidArguments, ToolDenied
from gnomon.tools._files import Files, shown
from gnomon.tools._path_patterns import PathPattern

__all__ = [
    "Span",
    "bracketed",
    "counted",
    "folder_to_search",
    "in_thread",
    "pattern_below",
    "some",
    "touched_below",
]

_T = TypeVar("_T")

_MOST_TOLD = 5


class Span:
    """How long a search goes on: until its time is up, or until nobody waits for it any more."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until = inf

    def begin(self) -> None:
        self._until = min(self._until, time.monotonic() + self.seconds)

    def stop(self) -> None:
        self._until = -inf

    @property
    def left_s(self) -> float:
        return max(0.0, self._until - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._until


async def in_thread(work: Callable[[], _T], span: Span, call: ToolContext, name: str) -> _T:
    """What the work comes to, which takes from the span; it is told when nobody waits for it any more."""

    def timed() -> _T:
        span.begin()
        return work()

    call.hold_timer()
    try:
        return await run_in_thread(timed, name=name, on_start=call.start_timer)
    finally:
        span.stop()


def folder_to_search(files: Files, path: str) -> str:
    """The real path of a folder, once it has been opened."""
    place = files.place(path)
    if files.is_of_system(place):
        raise ToolDenied(f"{shown(path)} is not searched: it is a matter of the system")
    with files.entered(path):
        return place


def pattern_below(files: Files, place: str, text: str, argument: str) -> PathPattern:
    """A pattern as it counts from a folder. Models write whole paths too."""
    try:
        if text.startswith("/"):
            text = inside(text, [os.path.normpath(os.path.join(name, place)) for name in files.beneath.names])
        return PathPattern(text)
    except (Refused, ValueError) as error:
        raise InvalidArguments(f"{argument}: {shown(text)} cannot be used: {error}") from None


def touched_below(files: Files, path: str, text: str | None, argument: str) -> Touches:
    """All that lies where the pattern leads: as a folder with what is in it, so that a rule about some of
    that is a rule about this call. What is no file by now may be a folder when it is searched.
    """
    place = files.place(path)
    if files.is_file(place):
        return Touches(reads=(place,))
    starts = ["."] if text is None else pattern_below(files, place, text, argument).starts
    return Touches(reads=tuple(f"{os.path.normpath(os.path.join(place, start))}/" for start in starts))


# --- what is told -------------------------------------------------------------------


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def some(names: Iterable[str]) -> str:
    """A few of them, and how many there are beside."""
    told = list(names)
    if len(told) > _MOST_TOLD:
        told[_MOST_TOLD:] = [f"{len(told) - _MOST_TOLD:,} more"]
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def bracketed(told: str) -> str:
    return f"[{told}]"
