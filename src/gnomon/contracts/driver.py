"""Who wakes a session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

__all__ = ["Cancelled", "Driver", "Idle", "Outcome", "RunSegment", "Suspended", "Yield"]


class Idle(msgspec.Struct, frozen=True, tag="idle"):
    """There is nothing to do until something is sent."""


class Suspended(msgspec.Struct, frozen=True, tag="suspended"):
    """It waits for an approval, a sub-agent or a timer; the answer comes with a wake."""


class Cancelled(msgspec.Struct, frozen=True, tag="cancelled"):
    """The turn was cancelled."""


class Yield(msgspec.Struct, frozen=True, tag="yield"):
    """Its slice of time is used up: wake it again."""


Outcome: TypeAlias = Idle | Suspended | Cancelled | Yield
RunSegment: TypeAlias = Callable[[str, str], Awaitable[Outcome]]
"""Runs the session of a tenant until it is idle, suspended, cancelled or out of its slice."""


@runtime_checkable
class Driver(Protocol):
    """Sees to it that sessions with something to do are run.

    Experimental.

    A driver wakes and does not remember: what a session is about is in its ledger,
    and the ledger, not the driver, makes sure that one runner acts at a time.

    - `wake` must return only when the wake cannot get lost any more, as far as the
      driver's own store reaches; with a `delay` the segment must not run earlier.
    - a wake must lead to at least one run of the segment; the same wake again, by
      `(tenant, session_id, reason_seq)`, must do nothing.
    - segments must run side by side, so that a long one holds up no other; even two of
      one session may, and the one that cannot claim it ends at once.
    - what is to run later must not be lost when `serve` ends and is called again.
    - `serve` must call `run_segment` for each wake until it is cancelled, and must
      call it again after `Yield`. When it is cancelled it must let running segments
      stop, and must leave no task.
    - a segment that raises must not stop `serve`; it must be woken again, later.
    - sessions whose runner died must be run again without being woken by anybody.
    - `close` must be safe to call twice.
    """

    async def wake(
        self, tenant: str, session_id: str, reason_seq: int, delay: timedelta | None = None
    ) -> None: ...

    async def serve(self, run_segment: RunSegment) -> None: ...

    async def close(self) -> None: ...
