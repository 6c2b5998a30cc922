"""Whether a store holds what it should: no gap in a log, nothing that cannot be read, no broken chain.

Nothing is changed. A store in use may be looked at: what seems wrong is looked at
twice, since it may have been written in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing

import msgspec

from gnomon.contracts.storage import Storage
from gnomon.errors import Damaged
from gnomon.types.records import SessionRecord
from gnomon.upkeep._reading import KnownBlobs
from gnomon.upkeep._session_check import Flaw, SessionCheck, audit_flaws
from gnomon.upkeep._side import side_by_side
from gnomon.upkeep._tally import Progress, Tally, silent
from gnomon.upkeep._walk import memory, sessions, tenants_of

__all__ = ["Finding", "Findings", "Flaw", "verify"]

_MOST = 1_000
"""Findings that are listed; the others are counted."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and where; the session "" stands for what belongs to none."""

    tenant: str
    session_id: str
    flaw: Flaw
    message: str


class Findings(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and what is wrong; `more` counts the findings that are not listed."""

    tenants: int
    sessions: int
    events: int
    found: tuple[Finding, ...] = ()
    more: int = 0

    @property
    def is_sound(self) -> bool:
        return not self.found


async def verify(
    store: Storage, *, tenants: Sequence[str] | None = None, progress: Progress = silent
) -> Findings:
    """Look through all tenants, or those that are named."""
    tally, found = Tally(), _Found()
    async with aclosing(tenants_of(store, tenants)) as names:
        async for tenant in names:
            tally.tenant = tenant
            tally.tenants += 1
            await _Look(store.scoped(tenant), tally, found, progress).run()
    return Findings(
        tenants=tally.tenants,
        sessions=tally.sessions,
        events=tally.events,
        found=tuple(found.listed),
        more=found.more,
    )


class _Found:
    def __init__(self) -> None:
        self.listed: list[Finding] = []
        self.more = 0

    def add(self, finding: Finding) -> None:
        if len(self.listed) < _MOST:
            self.listed.append(finding)
        else:
            self.more += 1


class _Look:
    """A look through the rows of one tenant."""

    def __init__(self, store: Storage, tally: Tally, found: _Found, progress: Progress) -> None:
        self._store = store
        self._tenant = tally.tenant
        self._tally = tally
        self._found = found
        self._progress = progress
        self._sound = KnownBlobs()

    async def run(self) -> None:
        try:
            await side_by_side(sessions(self._store), self._look_twice)
        except Damaged as error:
            # A list that cannot be read ends there: what comes after it is out of reach.
            self._add("", [("unreadable", f"the list of sessions: {error.message}")])
        self._add("", await audit_flaws(self._store, ""))
        try:
            async with aclosing(memory(self._store)) as records:
                async for _ in records:
                    pass
        except Damaged as error:
            self._add("", [("unreadable", f"the list of memory: {error.message}")])

    async def _look_twice(self, session: SessionRecord) -> None:
        if await self._check(session.id, self._count_event).flaws():
            again = self._check(session.id, _nothing)
            self._add(session.id, await again.flaws())
            self._found.more += again.more
        self._tally.sessions += 1
        self._progress(self._tally)

    def _check(self, session_id: str, on_event: Callable[[], None]) -> SessionCheck:
        return SessionCheck(self._store, session_id, self._sound, on_event)

    def _count_event(self) -> None:
        self._tally.events += 1
        self._progress(self._tally)

    def _add(self, session_id: str, flaws: Iterable[tuple[Flaw, str]]) -> None:
        for flaw, message in flaws:
            self._found.add(Finding(tenant=self._tenant, session_id=session_id, flaw=flaw, message=message))


def _nothing() -> None:
    """An event that is looked at again is not counted again."""
