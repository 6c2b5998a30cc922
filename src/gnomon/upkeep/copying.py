"""Everything of one store into another, whatever databases they are on.

A copy that was interrupted is simply run again: what is there is compared, what
is missing is written, and each session is checked by its hash. The source may
be in use; what is written to it after a session was read comes with the next run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing

import msgspec

from gnomon.contracts.storage import Storage
from gnomon.errors import Damaged
from gnomon.types.records import SessionRecord
from gnomon.upkeep._landing import SessionLanding
from gnomon.upkeep._reading import KnownBlobs, with_blobs
from gnomon.upkeep._recall import MemoryLanding
from gnomon.upkeep._session_check import audit_flaws
from gnomon.upkeep._side import side_by_side
from gnomon.upkeep._tally import Progress, Tally, silent
from gnomon.upkeep._walk import memory, sessions, tenants_of
from gnomon.upkeep.hashes import session_hash

__all__ = ["CopyReport", "copy"]


class CopyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy has done. Every session in it has the same hash in both stores.

    `sessions` counts all of them, `skipped` those that were there already; the
    other numbers are what was written. `missing_blobs` are missing in the source.
    """

    tenants: int
    sessions: int
    skipped: int
    events: int
    blobs: int
    memory: int
    bytes: int
    missing_blobs: int = 0


async def copy(
    source: Storage,
    target: Storage,
    *,
    tenants: Sequence[str] | None = None,
    progress: Progress = silent,
) -> CopyReport:
    """All tenants, or those that are named; the target must have its tables.

    `Conflict` where the target holds something else under the same id: nothing is written over.
    """
    tally = Tally()
    async with aclosing(tenants_of(source, tenants)) as names:
        async for tenant in names:
            tally.tenant = tenant
            tally.tenants += 1
            await _Copy(source.scoped(tenant), target.scoped(tenant), tally, progress).run()
    fields = {name: getattr(tally, name) for name in CopyReport.__struct_fields__}
    return msgspec.convert(fields, CopyReport)


class _Copy:
    """The copy of one tenant."""

    def __init__(self, source: Storage, target: Storage, tally: Tally, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._tally = tally
        self._progress = progress
        self._known = KnownBlobs()

    async def run(self) -> None:
        await side_by_side(sessions(self._source), self._copy_session)
        await self._copy_records("", None)
        await self._copy_memory()
        self._progress(self._tally)

    async def _copy_session(self, row: SessionRecord) -> None:
        # Read anew: it may have gone on since it was listed, or be gone.
        session = await self._source.get_session(row.id)
        if session is not None:
            if await self._is_there(session):
                self._tally.skipped += 1
            else:
                await self._copy_records(session.id, session)
            self._tally.sessions += 1
        self._progress(self._tally)

    async def _is_there(self, session: SessionRecord) -> bool:
        if await self._target.get_session(session.id) != session:
            return False
        return await session_hash(self._source, session.id) == await session_hash(self._target, session.id)

    async def _copy_records(self, session_id: str, row: SessionRecord | None) -> None:
        await self._check_chain(session_id)
        landing = SessionLanding(self._target, session_id, self._known, self._tally)
        async with aclosing(landing):
            if row is not None:
                await landing.take(row)
            async with aclosing(with_blobs(self._source, session_id, self._known, self._tally)) as records:
                async for record in records:
                    await landing.take(record)
                    self._progress(self._tally)
            await landing.finish()

    async def _check_chain(self, session_id: str) -> None:
        """Appended anew, a row that was tampered with would get a hash that fits."""
        if await audit_flaws(self._source, session_id):
            message = f"the audit rows of session {session_id!r} are not what was once written"
            raise Damaged(message, hint="gnomon db verify tells more; a copy would hide it")

    async def _copy_memory(self) -> None:
        landing = MemoryLanding(self._target, self._tally)
        async with aclosing(memory(self._source)) as records:
            async for record in records:
                await landing.take(record)
                self._progress(self._tally)
        await landing.finish()
