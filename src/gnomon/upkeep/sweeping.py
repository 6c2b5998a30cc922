"""Removing blobs that no event names any more: mark, then sweep.

A blob is put before the event that names it. So what was put lately stays,
named or not: somebody may be about to write that event.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from datetime import timedelta

import msgspec

from gnomon._payload import blobs_named
from gnomon.contracts.storage import Storage, SupportsBlobs, read_events
from gnomon.errors import InvalidInput, StorageError
from gnomon.types.records import SessionRecord, utc_now
from gnomon.upkeep._side import side_by_side
from gnomon.upkeep._tally import Progress, Tally, silent
from gnomon.upkeep._walk import EVENTS_A_PAGE, sessions, tenants_of

__all__ = ["GRACE", "SHORTEST_GRACE", "SweepReport", "sweep"]

GRACE = timedelta(hours=24)
SHORTEST_GRACE = timedelta(hours=1)
"""Less is for a store that nobody writes to."""


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """How many blobs the events name, and how many others went."""

    named: int
    removed: int


async def sweep(
    store: Storage,
    *,
    grace: timedelta = GRACE,
    nobody_writes: bool = False,
    tenants: Sequence[str] | None = None,
    progress: Progress = silent,
) -> SweepReport:
    """Remove what no event names and was last put before the time of grace.

    An event that cannot be read ends it before anything is removed: what it names is not known.
    """
    if grace < SHORTEST_GRACE and not nobody_writes:
        hint = "stop everything that writes, and say nobody_writes=True"
        raise InvalidInput("a grace of less than an hour could take a blob from under an event", hint=hint)
    tally = Tally()
    named = removed = 0
    async with aclosing(tenants_of(store, tenants)) as names:
        async for tenant in names:
            tally.tenant = tenant
            view = store.scoped(tenant)
            if not isinstance(view, SupportsBlobs):
                raise StorageError("this store keeps no blobs, so there is nothing to sweep")
            # Taken before the marking: what is put while it goes on is younger than this.
            older_than = utc_now() - grace
            keep = await _marked(view, tally, progress)
            named += len(keep)
            removed += await view.sweep_blobs(keep, older_than)
    return SweepReport(named=named, removed=removed)


async def _marked(store: Storage, tally: Tally, progress: Progress) -> set[str]:
    """The digests that the events of all sessions name."""
    keep: set[str] = set()

    async def mark(session: SessionRecord) -> None:
        async with read_events(store, session.id, page_size=EVENTS_A_PAGE) as events:
            async for event in events:
                keep.update(blobs_named(event))
                tally.events += 1
                progress(tally)
        tally.sessions += 1

    await side_by_side(sessions(store), mark)
    return keep
