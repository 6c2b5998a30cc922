"""Work that was begun by hand: nearly all is done at once, and then needs neither a task nor a timer."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

__all__ = ["Begun"]


class Begun:
    """A coroutine, or a step of a generator, whose first step is done: awaited, it goes on from there."""

    def __init__(self, work: Any, waits_for: object) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[object, object, object]:
        waits_for = self._waits_for
        while True:
            try:
                told = yield waits_for
            except BaseException as error:  # noqa: BLE001 - it is passed on
                go_on, given = self._work.throw, error
            else:
                go_on, given = self._work.send, told
            try:
                waits_for = go_on(given)
            except StopIteration as found:
                return found.value
