"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TypeAlias

__all__ = ["FakeClock"]

_SECOND_NS = 1_000_000_000

_Waiting: TypeAlias = "asyncio.Future[None]"


class FakeClock:
    """Give its `monotonic`, `now` and `sleep` to the code under test in place of the real ones.

        sleeper = asyncio.create_task(code_that_sleeps(clock.sleep))
        await clock.until_sleeping(1)
        clock.advance(30)
        await sleeper

    Time moves in one jump: whoever wakes up in `advance` sees the time after it.
    """

    def __init__(self, start: datetime = datetime(2025, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("the start of a FakeClock needs a time zone, such as datetime.UTC")
        self._start = start.astimezone(UTC)
        # Whole nanoseconds: in floats, three steps of 0.1 are not one of 0.3.
        self._elapsed_ns = 0
        self._order = count()
        self._sleepers: dict[_Waiting, tuple[int, int]] = {}
        self._fell_asleep = asyncio.Event()

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_ns / _SECOND_NS

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return self._start + timedelta(microseconds=self._elapsed_ns / 1000)

    @property
    def sleeping(self) -> int:
        """How many are asleep."""
        return len(self._sleepers)

    async def sleep(self, seconds: float) -> None:
        """Sleep until the clock was moved that far."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: _Waiting = asyncio.get_running_loop().create_future()
        self._sleepers[woken] = (self._elapsed_ns + _ns(seconds), next(self._order))
        self._fell_asleep.set()
        try:
            await woken
        finally:
            self._sleepers.pop(woken, None)

    def advance(self, seconds: float) -> None:
        """Move the clock, and wake whoever is due, the earliest deadline first."""
        if seconds < 0:
            raise ValueError(f"time does not run backwards: advance({seconds})")
        self._elapsed_ns += _ns(seconds)
        for woken, (deadline, _) in sorted(self._sleepers.items(), key=lambda sleeper: sleeper[1]):
            if deadline <= self._elapsed_ns:
                del self._sleepers[woken]
                if not woken.done():  # it may have been cancelled a moment ago
                    woken.set_result(None)

    async def until_sleeping(self, sleepers: int = 1) -> None:
        """Wait until that many are asleep."""
        while self.sleeping < sleepers:
            self._fell_asleep.clear()
            await self._fell_asleep.wait()


def _ns(seconds: float) -> int:
    return round(seconds * _SECOND_NS)
