"""Waiting that can be ended from outside, and told apart from a cancellation of the task that waits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

__all__ = ["Interrupt", "Interrupted"]

_T = TypeVar("_T")


class Interrupted(Exception):
    """The wait was ended from outside; the work it waited for has been cancelled."""


class Interrupt:
    """Ends whatever a runner waits for.

    A run may be read by any task, one after another, so the task is noted for each
    wait. While a reader has the turn, nothing is cancelled: the runner looks at
    `is_set` when it comes back.
    """

    is_set: bool = False
    task: asyncio.Task[object] | None = None
    """The task that waits now."""
    fired: asyncio.Task[object] | None = None
    """The task that was cancelled from here, until it has noticed."""

    def set(self) -> None:
        """End the wait that is under way, and all that follow."""
        self.is_set = True
        if self.task is not None and self.fired is None:
            self.fired = self.task
            self.task.cancel()

    async def wait(self, work: Awaitable[_T]) -> _T:
        """What the work gives; `Interrupted` when it was ended."""
        self.task = asyncio.current_task()
        try:
            return await work
        except asyncio.CancelledError:
            if self._is_ours():
                raise Interrupted from None
            raise
        finally:
            self._leave()

    async def next(self, events: AsyncIterator[_T]) -> _T | None:
        """The next of the events, `None` at their end; `Interrupted` when it was ended."""
        self.task = asyncio.current_task()
        try:
            return await events.__anext__()
        except StopAsyncIteration:
            return None
        except asyncio.CancelledError:
            if self._is_ours():
                raise Interrupted from None
            raise
        finally:
            self.task = None
            if self.fired is not None:
                self._leave()

    def _leave(self) -> None:
        """The wait is over. A cancel that came too late to end it is taken back."""
        self.task = None
        if self.fired is not None:
            self.fired.uncancel()
            self.fired = None

    def _is_ours(self) -> bool:
        """Whether the cancellation that was just caught is only the one that was set here."""
        fired, self.fired = self.fired, None
        return fired is not None and fired.uncancel() == 0
