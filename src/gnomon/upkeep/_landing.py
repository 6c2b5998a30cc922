"""A session brought into a store: compared where it is there, written where it is not, checked at the end.

An earlier state of the same thing is brought forward. Anything else that differs is a `Conflict`.
What only grows comes first: where that differs, the session is another one, and the rest is not
touched. The row comes last: a session that is listed has all that belongs to it.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from gnomon.contracts.storage import Storage, SupportsBlobs
from gnomon.errors import Conflict, InvalidInput, StorageError
from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, SessionRecord, Trace
from gnomon.upkeep._appended import ChainLanding, LogLanding, held_back
from gnomon.upkeep._reading import Blob, Kept, KnownBlobs
from gnomon.upkeep._tally import Tally
from gnomon.upkeep.hashes import Digest, content_hash

__all__ = ["SessionLanding"]


_MOST_UPDATES = 100_000
"""A row is brought forward one update at a time; the number in an archive may be any."""


class SessionLanding:
    """Takes the records of one session in the order in which they are read; `finish` and `aclose` end it."""

    def __init__(self, store: Storage, session_id: str, known: KnownBlobs, tally: Tally) -> None:
        self._store = store
        self._session_id = session_id
        self._known = known
        self._tally = tally
        self._digest = Digest()
        self._row: SessionRecord | None = None
        self._checkpoints: list[Checkpoint] = []
        self._log = LogLanding(store, session_id, tally) if session_id else None
        self._chain = ChainLanding(store, session_id, tally)

    async def take(self, record: Kept | Blob) -> None:
        self._check_owner(record)
        if not isinstance(record, Blob):
            self._digest.add(record)
        match record:
            case Blob():
                await self._take_blob(record)
            case LedgerEvent() if self._log is not None:
                await self._log.take(record)
            case AuditLog():
                await self._close_log()
                await self._chain.take(record)
            case Trace():
                await self._close_log()
                await self._chain.finish()
                await self._take_trace(record)
            case Checkpoint():
                self._checkpoints.append(record)  # they come first, and are few and small
            case SessionRecord():
                await self._take_row(record)
            case _:
                raise InvalidInput(f"a {type(record).__name__} belongs to a session")

    @property
    def hash(self) -> str:
        """Of what came."""
        return self._digest.hexdigest()

    async def finish(self) -> None:
        """What is there now is what came."""
        if self._session_id and self._row is None:
            raise _no_row(self._session_id)
        await self._close_log()
        await self._chain.finish()
        for checkpoint in self._checkpoints:
            await self._take_checkpoint(checkpoint)
        await self._put_latest_last()
        if await content_hash(self._store, self._session_id, self._row) != self.hash:
            raise held_back(self._session_id, "has checkpoints or traces that the source has not")
        if self._row is not None:
            await self._write_row(self._row)

    async def aclose(self) -> None:
        if self._log is not None:
            await self._log.aclose()
        await self._chain.aclose()

    # --- one record

    async def _close_log(self) -> None:
        if self._log is not None:
            await self._log.finish()

    def _check_owner(self, record: Kept | Blob) -> None:
        match record:
            case Blob():
                return
            case SessionRecord():
                owner = record.id
            case _:
                owner = record.session_id
        if owner != self._session_id:
            raise InvalidInput(f"a record of session {owner!r} stands among those of {self._session_id!r}")
        if self._session_id and self._row is None and not isinstance(record, SessionRecord):
            raise _no_row(self._session_id)

    async def _take_blob(self, blob: Blob) -> None:
        if sha256(blob.content).hexdigest() != blob.digest:
            raise InvalidInput(f"blob {blob.digest[:12]}… does not have the bytes that its name says")
        if not isinstance(self._store, SupportsBlobs):
            raise StorageError("the target's store keeps no blobs, and the source has some")
        await self._store.put_blob(blob.content)
        self._known.add(blob.digest)
        self._tally.blobs += 1
        self._tally.bytes += len(blob.content)

    async def _take_checkpoint(self, checkpoint: Checkpoint) -> None:
        found = await self._store.get_checkpoint(checkpoint.id)
        if found == checkpoint:
            return
        if found is not None and not _is_earlier_checkpoint(found, checkpoint):
            raise held_back(self._session_id, f"has another checkpoint {checkpoint.id!r}")
        await self._store.save_checkpoint(checkpoint)
        self._tally.checkpoints += 1

    async def _put_latest_last(self) -> None:
        """Of several with one number, the one that was saved last is the latest."""
        if not self._checkpoints:
            return
        latest = self._checkpoints[-1]
        found = await self._store.get_latest_checkpoint(self._session_id)
        if found is not None and found.id != latest.id and found.seq == latest.seq:
            await self._store.save_checkpoint(latest)

    async def _take_trace(self, trace: Trace) -> None:
        found = await self._store.get_trace(trace.id)
        if found == trace:
            return
        if found is not None and (found.session_id, found.ended_at) != (trace.session_id, None):
            raise held_back(self._session_id, f"has another trace {trace.id!r}")
        await self._store.insert_trace(trace)
        self._tally.traces += 1

    # --- the row

    async def _take_row(self, row: SessionRecord) -> None:
        """Looked at first, so that a session which cannot be brought in is not begun."""
        if self._row is not None:
            raise InvalidInput(f"session {row.id!r} has two rows")
        self._row = row
        found = await self._store.get_session(row.id)
        if found is not None and found != row and not _is_earlier_row(found, row):
            raise held_back(row.id, f"has another row (revision {found.revision}, {row.revision} came)")
        if found is not None and row.revision - found.revision > _MOST_UPDATES:
            raise held_back(row.id, f"is more than {_MOST_UPDATES:,} revisions behind")

    async def _write_row(self, row: SessionRecord) -> None:
        found = await self._store.get_session(row.id)
        if found is None:
            await self._store.create_session(row)
        else:
            await self._bring_forward(found, row)
        if await self._store.get_session(row.id) != row:
            raise Conflict(f"session {row.id!r} was changed in the target while it was written")

    async def _bring_forward(self, found: SessionRecord, row: SessionRecord) -> None:
        """Each update counts the revision on by one, until it is the one that came."""
        while found.revision < row.revision:
            found = await self._store.update_session(msgspec.structs.replace(row, revision=found.revision))


def _no_row(session_id: str) -> InvalidInput:
    return InvalidInput(f"session {session_id!r} does not begin with its row: nobody would find it")


def _is_earlier_checkpoint(found: Checkpoint, came: Checkpoint) -> bool:
    is_same = found.session_id == came.session_id
    return is_same and (found.seq, found.created_at) <= (came.seq, came.created_at)


def _is_earlier_row(found: SessionRecord, came: SessionRecord) -> bool:
    is_same = (found.created_at, found.agent_id, found.user_id) == (
        came.created_at,
        came.agent_id,
        came.user_id,
    )
    return is_same and found.revision < came.revision and found.last_seq <= came.last_seq
