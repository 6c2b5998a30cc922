"""What time it is. Tests put a clock of their own in its place."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Protocol

from gnomon.types.records import utc_now

__all__ = ["Clock", "SystemClock", "ageing"]

_BOOTTIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def boottime(self) -> float:
        """The same, which goes on while the machine is suspended, where the system has such a clock."""
        return time.monotonic() if _BOOTTIME is None else time.clock_gettime(_BOOTTIME)

    now = staticmethod(utc_now)


def ageing(clock: Clock) -> float:
    """By this time a proof grows old: others do not sleep when this machine does."""
    return clock.boottime() if isinstance(clock, SystemClock) else clock.monotonic()
