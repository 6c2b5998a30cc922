"""What time it is. Tests put a clock of their own in its place."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Protocol

from gnomon.types.records import utc_now

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    def monotonic(self) -> float: ...

    def now(self) -> datetime: ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def now(self) -> datetime:
        return utc_now()
