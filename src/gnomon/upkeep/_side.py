"""Several at a time: most of the time of a walk goes into waiting for the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import TypeVar

__all__ = ["side_by_side"]

_AT_ONCE = 8

_T = TypeVar("_T")


async def side_by_side(items: AsyncGenerator[_T, None], work: Callable[[_T], Awaitable[None]]) -> None:
    """The work for each item, a few at a time; the first failure ends it and is raised."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(item: _T) -> None:
        try:
            await work(item)
        finally:
            places.release()

    try:
        async with aclosing(items), asyncio.TaskGroup() as group:
            async for item in items:
                await places.acquire()
                group.create_task(one(item))
    except ExceptionGroup as failures:
        first = failures.exceptions[0]
        raise first from first.__cause__
