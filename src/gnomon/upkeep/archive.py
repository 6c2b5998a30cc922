"""A store as a file of JSON lines, and back.

The first line names the format and its version, the last one has the number of
lines and their hash: a file that was cut off is noticed. Between them stand the
tenants, and for each the records of one session after another, oldest first, then
what belongs to no session, then memory. What belongs together is closed by its hash.

An archive is not trusted: its lines are bounded, ids and values are checked by the
store, blobs by their hash, audit rows by being appended anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import BinaryIO

import msgspec

from gnomon.contracts.storage import Storage
from gnomon.errors import InvalidInput
from gnomon.types.records import MemoryRecord, SessionRecord
from gnomon.upkeep._landing import SessionLanding
from gnomon.upkeep._lines import Begin, Entry, LineWriter, Seal, Tenant, lines_of
from gnomon.upkeep._reading import Blob, KnownBlobs, with_blobs
from gnomon.upkeep._recall import MemoryLanding
from gnomon.upkeep._tally import Progress, Tally, silent
from gnomon.upkeep._walk import memory, sessions, tenants_of
from gnomon.upkeep.hashes import Digest

__all__ = ["ArchiveReport", "check_archive", "export", "import_"]


class ArchiveReport(msgspec.Struct, frozen=True, kw_only=True):
    """What went into an archive, or came out of it: of what was there already, `sessions` alone tell."""

    tenants: int
    sessions: int
    events: int
    blobs: int
    memory: int
    bytes: int
    missing_blobs: int = 0


# --- out --------------------------------------------------------------------------


async def export(
    source: Storage,
    file: BinaryIO,
    *,
    tenants: Sequence[str] | None = None,
    progress: Progress = silent,
) -> ArchiveReport:
    """Write all tenants, or those that are named, to a file that is open for writing bytes."""
    tally = Tally()
    writer = LineWriter(file)
    await writer.begin()
    async with aclosing(tenants_of(source, tenants)) as names:
        async for tenant in names:
            tally.tenant = tenant
            tally.tenants += 1
            await writer.add(Tenant(tenant))
            await _Export(source.scoped(tenant), writer, tally, progress).run()
    await writer.finish()
    tally.bytes = writer.bytes
    return _report(tally)


class _Export:
    """The export of one tenant."""

    def __init__(self, source: Storage, writer: LineWriter, tally: Tally, progress: Progress) -> None:
        self._source = source
        self._writer = writer
        self._tally = tally
        self._progress = progress
        self._known = KnownBlobs()

    async def run(self) -> None:
        async with aclosing(sessions(self._source)) as rows:
            async for listed in rows:
                # Read anew, and first: what is read after it may have gone on, and not the other way round.
                row = await self._source.get_session(listed.id)
                if row is not None:
                    await self._session(row.id, row)
                    self._tally.sessions += 1
        await self._session("", None)
        await self._memory()

    async def _session(self, session_id: str, row: SessionRecord | None) -> None:
        digest = Digest()
        await self._writer.add(Begin(session_id))
        if row is not None:
            digest.add(row)
            await self._writer.add(row)
        async with aclosing(with_blobs(self._source, session_id, self._known, self._tally)) as records:
            async for record in records:
                if isinstance(record, Blob):
                    self._known.add(record.digest)
                else:
                    digest.add(record)
                await self._add(record)
        await self._writer.add(Seal(digest.hexdigest()))

    async def _memory(self) -> None:
        digest = Digest()
        await self._writer.add(Begin(None))
        async with aclosing(memory(self._source)) as records:
            async for record in records:
                digest.add(record)
                await self._add(record)
        await self._writer.add(Seal(digest.hexdigest()))

    async def _add(self, entry: Entry) -> None:
        await self._writer.add(entry)
        counted = _COUNTED.get(type(entry).__name__)
        if counted:
            setattr(self._tally, counted, getattr(self._tally, counted) + 1)
        self._tally.bytes = self._writer.bytes
        self._progress(self._tally)


_COUNTED = {"LedgerEvent": "events", "Blob": "blobs", "MemoryRecord": "memory"}


# --- in ---------------------------------------------------------------------------


async def import_(target: Storage, file: BinaryIO, *, progress: Progress = silent) -> ArchiveReport:
    """Bring an archive into a store that has its tables. Interrupted, it can be run again.

    A file is read to its end before anything is written; a pipe cannot be, and what
    came before the damage is there then, every listed session whole. `Conflict`
    where the store holds something else under the same id: nothing is written over.
    """
    if file.seekable():
        start = file.tell()
        await check_archive(file)
        file.seek(start)
    tally = Tally()
    importing = _Import(target, tally)
    try:
        async with aclosing(lines_of(file)) as lines:
            async for number, entry in lines:
                try:
                    await importing.take(entry)
                except InvalidInput as error:
                    raise InvalidInput(f"line {number}: {error.message}", hint=error.hint) from error
                progress(tally)
        importing.check_whole()
    finally:
        await importing.aclose()
    return _report(tally)


async def check_archive(file: BinaryIO) -> int:
    """How many lines a whole archive has; `InvalidInput` says where one is damaged."""
    last = 1
    async with aclosing(lines_of(file)) as lines:
        async for number, _ in lines:
            last = number
    return last + 1


class _Import:
    """Where one has come to in an archive."""

    def __init__(self, target: Storage, tally: Tally) -> None:
        self._target = target
        self._tally = tally
        self._view: Storage | None = None
        self._known = KnownBlobs()
        self._session: SessionLanding | None = None
        self._memory: MemoryLanding | None = None

    async def take(self, entry: Entry) -> None:
        match entry:
            case Tenant():
                self._begin_tenant(entry.name)
            case Begin():
                self._begin(entry.session_id)
            case Seal():
                await self._close(entry)
            case MemoryRecord():
                if self._memory is None:
                    raise InvalidInput("a memory record stands outside a tenant's memory")
                await self._memory.take(entry)
            case _:
                if self._session is None:
                    raise InvalidInput(f"a {type(entry).__name__} stands outside a session")
                await self._session.take(entry)

    def check_whole(self) -> None:
        self._check_closed()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.aclose()

    def _begin_tenant(self, name: str) -> None:
        self._check_closed()
        self._view = self._target.scoped(name)
        self._known = KnownBlobs()
        self._tally.tenant = name
        self._tally.tenants += 1

    def _begin(self, session_id: str | None) -> None:
        self._check_closed()
        if self._view is None:
            raise InvalidInput("a session stands outside a tenant")
        if session_id is None:
            self._memory = MemoryLanding(self._view, self._tally)
        else:
            self._session = SessionLanding(self._view, session_id, self._known, self._tally)
            self._tally.sessions += bool(session_id)

    async def _close(self, seal: Seal) -> None:
        open_one = self._session or self._memory
        if open_one is None:
            raise InvalidInput("something is closed that was not begun")
        if open_one.hash != seal.hash:
            raise InvalidInput("what is closed here is not what was exported: its hash is another one")
        await open_one.finish()
        await self.aclose()
        self._session = self._memory = None

    def _check_closed(self) -> None:
        if self._session is not None or self._memory is not None:
            raise InvalidInput("what was begun before was not closed")


def _report(tally: Tally) -> ArchiveReport:
    fields = {name: getattr(tally, name) for name in ArchiveReport.__struct_fields__}
    return msgspec.convert(fields, ArchiveReport)
