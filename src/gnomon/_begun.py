"""Work that is begun by hand: nearly all is done at once, and then needs neither a task nor a timer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from contextlib import suppress
from typing import Any, TypeVar, cast

__all__ = ["GRACE_S", "Begun", "Bounded", "BrokenOff", "Overdue", "is_meant_for_us", "within"]

GRACE_S = 1.0
"""How long work that was cancelled may take to let go of what it holds."""

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


def _cancelling() -> int:
    """How often the task that runs was asked to end, and has not taken that back."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


async def within(work: Awaitable[_T], limit_s: float | None) -> _T:
    """What the work gives; `Overdue` when it has not ended by then, and was cancelled.

    Work that does not end though it was cancelled is dropped.
    """
    timer: asyncio.Timeout | None = None
    try:
        if asyncio.iscoroutine(work):
            try:
                waits_for = work.send(None)
            except StopIteration as done:
                return cast(_T, done.value)
            work = cast("Awaitable[_T]", Bounded(work, waits_for))
        timer = asyncio.timeout(limit_s)
        async with timer:
            given = await work
        if isinstance(work, Bounded) and (ending := work.ending) is not None:
            raise ending  # it may keep that to itself; whoever waits for it is to end all the same
        return given
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


class Bounded(Begun):
    """The same of a coroutine that, once it was cancelled, is driven for `GRACE_S` more, and then dropped.

    A cancellation that is taken back, as by a timeout of the work's own, does not count.
    """

    _cancelled: BaseException | None = None
    _asked: int = 0
    """How often its task was asked to end by then."""
    _end: float = 0.0

    @property
    def ending(self) -> BaseException | None:
        """The cancellation that it is to end by."""
        if self._cancelled is not None and _cancelling() < self._asked:
            self._cancelled = None
        return self._cancelled

    def __await__(self) -> Generator[object, object, object]:
        waits_for = self._waits_for
        while True:
            try:
                told = yield from self._waited(waits_for)
            except BaseException as error:  # noqa: BLE001 - it is passed on
                if self.ending is None and isinstance(error, asyncio.CancelledError) and _cancelling():
                    self._cancelled, self._asked = error, _cancelling()
                    self._end = asyncio.get_running_loop().time() + GRACE_S
                go_on, given = self._work.throw, error
            else:
                if (ending := self.ending) is not None and asyncio.get_running_loop().time() >= self._end:
                    self._drop()
                    raise ending
                go_on, given = self._work.send, told
            try:
                waits_for = go_on(given)
            except StopIteration as found:
                return found.value

    def _waited(self, waits_for: Any) -> Generator[object, object, object]:
        """What the work waits for; in its time of grace no longer than that."""
        if self.ending is None or waits_for is None:
            return (yield waits_for)
        loop = asyncio.get_running_loop()
        rung: asyncio.Future[None] = loop.create_future()

        def ring(_: object = None) -> None:
            if not rung.done():
                rung.set_result(None)

        waits_for._asyncio_future_blocking = False  # it is not the task that waits for it
        waits_for.add_done_callback(ring)
        timer = loop.call_at(self._end, ring)
        try:
            yield from cast("Generator[object, object, object]", rung.__await__())
        except BaseException:
            waits_for.cancel()
            raise
        finally:
            timer.cancel()
            waits_for.remove_done_callback(ring)
        return None

    def _drop(self) -> None:
        with suppress(BaseException):  # it may not hear that either
            self._work.close()
