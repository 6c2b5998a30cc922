"""Asking once for what several want at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from gnomon.errors import BadRequest, ContextTooLong
from gnomon.types.requests import Usage

__all__ = ["Flights", "Landed", "Wanted"]

Wanted: TypeAlias = Mapping[bytes, str]
"""Texts by key."""


class Landed(msgspec.Struct):
    """What came of one call. Its cost is told once, to the first who takes it."""

    vectors: dict[bytes, bytes]
    usage: Usage | None

    def take_usage(self) -> Usage | None:
        usage, self.usage = self.usage, None
        return usage


Fly: TypeAlias = Callable[[Wanted], Coroutine[None, None, Landed]]


class _Flight:
    """One call that is under way, in a task of its own: whoever began it may leave, and the others stay."""

    def __init__(self, wanted: Wanted, task: asyncio.Task[Landed]) -> None:
        self.wanted = wanted
        self.task = task
        self.waiting = 0

    def error(self) -> BaseException | None:
        return self.task.exception() if self.task.done() and not self.task.cancelled() else None


class Flights:
    """The calls that are under way on each event loop."""

    def __init__(self) -> None:
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bytes, _Flight]] = (
            WeakKeyDictionary()
        )

    async def landed(self, wanted: Wanted, fly: Fly) -> list[Landed]:
        """What is wanted: a part may come with calls of others, the rest is asked for in one call."""
        under_way = self._of_loop.setdefault(asyncio.get_running_loop(), {})
        joined = {id(flight): flight for key in wanted if (flight := under_way.get(key))}
        fresh = {key: text for key, text in wanted.items() if key not in under_way}
        own = [self._started(fresh, fly, under_way)] if fresh else []
        flights = [*own, *joined.values()]
        await self._wait_for(flights, wanted, under_way)
        # Where one failed for a text of somebody else's, ours are asked for again, still once for all.
        again = {
            key: text for flight in flights if _is_theirs(flight, wanted) for key, text in _of(flight, wanted)
        }
        done = [flight.task.result() for flight in flights if not _is_theirs(flight, wanted)]
        return [*done, *(await self.landed(again, fly) if again else [])]

    def _started(self, wanted: Wanted, fly: Fly, under_way: dict[bytes, _Flight]) -> _Flight:
        flight = _Flight(wanted, asyncio.get_running_loop().create_task(fly(wanted)))
        under_way.update(dict.fromkeys(wanted, flight))
        flight.task.add_done_callback(lambda _: _forget(flight, under_way))
        return flight

    async def _wait_for(
        self, flights: list[_Flight], wanted: Wanted, under_way: dict[bytes, _Flight]
    ) -> None:
        for flight in flights:
            flight.waiting += 1
        try:
            left = {flight.task for flight in flights}
            while left:
                _, left = await asyncio.wait(left, return_when=asyncio.FIRST_EXCEPTION)
                for flight in flights:
                    if flight.error() and not _is_theirs(flight, wanted):
                        flight.task.result()  # raises it
        finally:
            for flight in flights:
                flight.waiting -= 1
            await _called_off([flight for flight in flights if not flight.waiting], under_way)


async def _called_off(flights: Iterable[_Flight], under_way: dict[bytes, _Flight]) -> None:
    """Nobody wants them any more, and who wants the same from now on must not board them."""
    tasks = [flight.task for flight in flights if not flight.task.done()]
    for flight in flights:
        _forget(flight, under_way)
        flight.task.cancel()
    if tasks:
        await asyncio.wait(tasks)


def _forget(flight: _Flight, under_way: dict[bytes, _Flight]) -> None:
    for key in flight.wanted:
        if under_way.get(key) is flight:
            del under_way[key]
    flight.error()  # looked at: nobody may be left to whom it could be told


def _is_theirs(flight: _Flight, wanted: Wanted) -> bool:
    """Whether it failed for what it was asked, and that was not by us alone."""
    is_about_texts = isinstance(flight.error(), BadRequest | ContextTooLong)
    return is_about_texts and bool(flight.wanted.keys() - wanted.keys())


def _of(flight: _Flight, wanted: Wanted) -> list[tuple[bytes, str]]:
    return [(key, text) for key, text in wanted.items() if key in flight.wanted]
