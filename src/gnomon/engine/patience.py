"""Waiting for somebody else's code: within a limit, and no longer, whatever that code does.

It gets a task of its own. So what it does to its task, it does to itself; and code that
does not end when it is told to is left alone after a moment, counted, and waited for by nobody.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

__all__ = ["GRACE_S", "Late", "Patience", "left_alone"]

log = logging.getLogger("gnomon.tools")

GRACE_S = 1.0
"""How long work that was told to end may take to let go of what it holds."""

_T = TypeVar("_T")
_left: set[asyncio.Task[Any]] = set()


def left_alone() -> int:
    """How many tasks go on though they were told to end."""
    return len(_left)


class Late(Exception):
    """The work did not end within its limit."""


class _Raised(NamedTuple):
    """An error on its way out of a task, which would take `SystemExit` for the end of the loop."""

    error: BaseException


class Patience:
    """How long one piece of work is waited for. The limit can be held while it waits for its place."""

    __slots__ = ("_limit_s", "_timer", "is_over")

    def __init__(self, limit_s: float | None) -> None:
        self._limit_s = limit_s
        self._timer = asyncio.timeout(limit_s)
        self.is_over = False

    def run_timer(self, running: bool) -> None:
        """Start the limit anew, or hold it."""
        if not self.is_over and self._limit_s is not None:
            self._timer.reschedule(asyncio.get_running_loop().time() + self._limit_s if running else None)

    @contextmanager
    def held(self) -> Generator[None, None, None]:
        """What is done meanwhile is not the work's: the rest of its time comes afterwards."""
        end, now = self._timer.when(), asyncio.get_running_loop().time
        if end is None or self._timer.expired():
            yield
            return
        left = end - now()
        self._timer.reschedule(None)
        try:
            yield
        finally:
            if not self.is_over:
                self._timer.reschedule(now() + left)

    async def wait_for(self, work: Coroutine[Any, Any, _T], name: str) -> _T:
        """What the work gives or raises; `Late` when it has not ended in time."""
        task = asyncio.create_task(_caught(work))
        try:
            async with self._timer:
                await asyncio.wait((task,))
        except TimeoutError:
            await self._give_up(task, name)
            raise Late from None
        except asyncio.CancelledError:
            await self._give_up(task, name)
            raise
        finally:
            self.is_over = True
        outcome = task.result()
        if isinstance(outcome, _Raised):
            raise outcome.error
        return outcome

    async def _give_up(self, task: asyncio.Task[Any], name: str) -> None:
        """End the work, or leave it alone; also when this is hurried."""
        self.is_over = True
        task.cancel()
        hurried = await _wait(task, GRACE_S)
        if not task.done():
            _left.add(task)
            task.add_done_callback(_left.discard)
            log.warning("%r goes on though it was told to end: nobody waits for it any longer", name)
        if hurried is not None:
            raise hurried


async def _caught(work: Coroutine[Any, Any, _T]) -> _T | _Raised:
    try:
        return await work
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise
    except GeneratorExit as error:  # of the work's own making: whoever waits must not take it for theirs
        wrapped = RuntimeError("GeneratorExit was raised")
        wrapped.__cause__ = error
        return _Raised(wrapped)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller gets it
        return _Raised(error)


async def _wait(task: asyncio.Task[Any], limit_s: float) -> asyncio.CancelledError | None:
    """Until the task has ended or the time is up; a cancellation on the way is given back."""
    loop = asyncio.get_running_loop()
    end, hurried = loop.time() + limit_s, None
    while not task.done() and (left := end - loop.time()) > 0:
        try:
            await asyncio.wait((task,), timeout=left)
        except asyncio.CancelledError as error:
            hurried = error
            task.cancel()  # who is told twice tells it twice: the work may hang in its own end
    return hurried
