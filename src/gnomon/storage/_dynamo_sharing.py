"""Readers of one process that ask the same in the same moment are answered by one request.

Each append wakes every reader of its log, and each would read the same. Who
asks after a request has begun is not answered by it: it may have looked too early.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["Sharing"]

_T = TypeVar("_T")


class Sharing(Generic[_T]):
    def __init__(self) -> None:
        self._not_begun: dict[Hashable, _Request[_T]] = {}

    async def ask(self, key: Hashable, call: Callable[[], Awaitable[_T]]) -> _T:
        request = self._not_begun.get(key)
        if request is None:
            request = self._not_begun[key] = _Request(asyncio.ensure_future(self._begun(key, call)))
        request.waiting += 1
        try:
            return await asyncio.shield(request.task)
        finally:
            request.waiting -= 1
            if not request.waiting and not request.task.done():
                await self._end(key, request)

    async def _begun(self, key: Hashable, call: Callable[[], Awaitable[_T]]) -> _T:
        """A task begins when all that was ready to run has run: so those who wake together ask together."""
        del self._not_begun[key]
        return await call()

    async def _end(self, key: Hashable, request: _Request[_T]) -> None:
        """Nobody waits for it any more, and nobody is to come."""
        if self._not_begun.get(key) is request:
            del self._not_begun[key]
        request.task.cancel()
        await asyncio.wait({request.task})


class _Request(Generic[_T]):
    def __init__(self, task: asyncio.Future[_T]) -> None:
        self.task = task
        self.waiting = 0
