"""Work that is begun by hand: nearly all is done at once, and then needs neither a task nor a timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar, cast

__all__ = ["Begun", "BrokenOff", "Overdue", "is_meant_for_us", "within"]

_T = TypeVar("_T")


class Overdue(Exception):
    """The work did not end in time."""


class BrokenOff(Exception):
    """The work ended itself in a way that would end whoever waits for it, too."""

    def __init__(self, error: BaseException) -> None:
        is_cancel = isinstance(error, asyncio.CancelledError)
        told = f"{type(error).__name__}: {error}"
        super().__init__("something that it waited for was cancelled" if is_cancel else told)


def is_meant_for_us(error: BaseException) -> bool:
    """Whether an error ends whoever waits, and is not one of the work that was waited for."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, KeyboardInterrupt | GeneratorExit)


async def within(work: Awaitable[_T], limit_s: float) -> _T:
    """What the work gives; `Overdue` when it has not ended by then, and was cancelled."""
    timer: asyncio.Timeout | None = None
    try:
        if asyncio.iscoroutine(work):
            try:
                waits_for = work.send(None)
            except StopIteration as done:
                return cast(_T, done.value)
            work = cast("Awaitable[_T]", Begun(work, waits_for))
        timer = asyncio.timeout(limit_s)
        async with timer:
            return await work
    except TimeoutError:
        if timer is not None and timer.expired():
            raise Overdue from None
        raise  # the work's own
    except Exception:
        raise
    except BaseException as error:
        if is_meant_for_us(error):
            raise
        raise BrokenOff(error) from error


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
