"""How a waiting reader hears of an append: one bell a reader, rung by whoever has appended."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import AbstractAsyncContextManager, suppress

__all__ = ["Bell", "Bells"]


class Bell:
    """Rings once or more often between two waits; one wait hears it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """From any thread; a bell whose loop is over stays silent."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._rung.set)

    async def wait(self, limit_s: float) -> bool:
        """Whether it rang before the time was over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._rung.wait()
        rang = self._rung.is_set()
        self._rung.clear()
        return rang


class Bells:
    """The bells of all readers that wait, by what they wait for."""

    def __init__(self) -> None:
        self._bells: dict[Hashable, list[Bell]] = {}

    def __len__(self) -> int:
        return len(self._bells)

    def ring(self, key: Hashable) -> None:
        for bell in tuple(self._bells.get(key, ())):
            bell.ring()

    def ring_all(self) -> None:
        for key in tuple(self._bells):
            self.ring(key)

    def listening(self, key: Hashable) -> AbstractAsyncContextManager[Bell]:
        """A bell that hangs there until the block is left."""
        return _Listening(self._bells, key)


class _Listening:
    # A class, since a generator within a generator cannot be ended by a loop that ends both at once.
    def __init__(self, bells: dict[Hashable, list[Bell]], key: Hashable) -> None:
        self._bells = bells
        self._key = key
        self._bell = Bell()

    async def __aenter__(self) -> Bell:
        self._bells.setdefault(self._key, []).append(self._bell)
        return self._bell

    async def __aexit__(self, *_: object) -> None:
        hung = self._bells[self._key]
        hung.remove(self._bell)
        if not hung:
            del self._bells[self._key]
