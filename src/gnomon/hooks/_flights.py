"""Asking once for what several want at the same time."""

from __future__ import annotations

import asyncio
from typing import Literal, TypeAlias
from weakref import WeakKeyDictionary

__all__ = ["Flight", "Flights", "Landed"]

Landed: TypeAlias = Literal["kept", "unkept", "failed"]
"""How it ended: it can be had now; it was an answer that is not kept; or nobody has an answer."""


class Flight:
    """One call that is under way, read by whoever began it. The others wait for its end."""

    def __init__(self) -> None:
        self.landed: Landed | None = None
        self._over = asyncio.Event()
        self.go_on()

    def go_on(self) -> None:
        """It is moving."""
        self.moved_at = asyncio.get_running_loop().time()

    def land(self, how: Landed) -> None:
        if self.landed is None:
            self.landed = how
            self._over.set()

    async def wait(self, patience_s: float) -> None:
        """Until it has ended, or has not moved for so long."""
        while self.landed is None and not self.is_stuck(patience_s):
            left_s = self.moved_at + patience_s - asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(left_s):
                    await self._over.wait()
            except TimeoutError:
                continue

    def is_stuck(self, patience_s: float) -> bool:
        """Whoever began it may have stopped reading."""
        return asyncio.get_running_loop().time() >= self.moved_at + patience_s


class Flights:
    """The calls that are under way on each event loop."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[bytes, Flight]] = WeakKeyDictionary()

    def find(self, key: bytes) -> Flight | None:
        """One to wait for."""
        flight = self._here().get(key)
        return None if flight is None or flight.is_stuck(self._patience_s) else flight

    def begin(self, key: bytes) -> Flight:
        flight = self._here()[key] = Flight()
        return flight

    def end(self, key: bytes, flight: Flight, how: Landed) -> None:
        if self._here().get(key) is flight:
            del self._here()[key]
        flight.land(how)

    async def wait_for(self, flight: Flight) -> Landed | None:
        """How it ended; `None` where it is stuck."""
        await flight.wait(self._patience_s)
        return flight.landed

    def _here(self) -> dict[bytes, Flight]:
        return self._of_loop.setdefault(asyncio.get_running_loop(), {})
