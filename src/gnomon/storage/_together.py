"""Many small calls of a store side by side: they share commits and round trips."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from itertools import islice
from typing import TypeVar

__all__ = ["total"]

_AT_ONCE = 32

_T = TypeVar("_T")


async def total(call: Callable[[_T], Coroutine[object, object, int]], items: Iterable[_T]) -> int:
    """The sum of what the call gives for each; the first failure ends them all."""
    left, found = iter(items), 0
    while some := list(islice(left, _AT_ONCE)):
        tasks = [asyncio.ensure_future(call(item)) for item in some]
        try:
            found += sum(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return found
