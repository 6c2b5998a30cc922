"""What a service cannot take at once: parts by count and by size, some of them at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from gnomon.errors import ConfigError

__all__ = ["above_zero", "in_parallel", "parts"]

_T = TypeVar("_T")


def parts(sizes: Sequence[int], *, most: int, most_size: int) -> list[range]:
    """Runs of places, each of at most so many and of that size together. What is too large stands alone."""
    found: list[range] = []
    start = size = 0
    for at, one in enumerate(sizes):
        if at > start and (at - start == most or size + one > most_size):
            found.append(range(start, at))
            start, size = at, 0
        size += one
    return [*found, range(start, len(sizes))] if sizes else []


async def in_parallel(ask: Callable[[range], Awaitable[_T]], places: Sequence[range], most: int) -> list[_T]:
    """The answer to each part, in order, never more than so many asked for at once.

    When one fails the others are called off, and its error is the error.
    """
    if len(places) == 1:
        return [await ask(places[0])]
    waiting = enumerate(places)
    answers: dict[int, _T] = {}

    async def work() -> None:
        for at, place in waiting:
            answers[at] = await ask(place)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(most, len(places))):
                group.create_task(work())
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [answers[at] for at in range(len(places))]


def above_zero(**settings: int | None) -> None:
    """A clear error for a count that counts nothing."""
    for name, value in settings.items():
        if value is not None and value < 1:
            raise ConfigError(f"{name} is a whole number above zero, not {value!r}")
