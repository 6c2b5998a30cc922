"""All that a store keeps of a session, record by record, in the order in which it is moved.

What is written to meanwhile is still read as a state that it had: first the row,
then checkpoints, then the log, so that nothing points beyond the log's end.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from gnomon._payload import blobs_named
from gnomon.contracts.storage import Storage, SupportsBlobs, read_events
from gnomon.errors import Damaged
from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, SessionRecord, Trace
from gnomon.upkeep._tally import Tally
from gnomon.upkeep._walk import EVENTS_A_PAGE, chain, checkpoints, traces

__all__ = ["Blob", "Kept", "KnownBlobs", "content", "with_blobs"]


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that an event names; they come before it."""

    digest: str
    content: bytes


Kept: TypeAlias = SessionRecord | Checkpoint | LedgerEvent | AuditLog | Trace


async def content(store: Storage, session_id: str) -> AsyncGenerator[Kept, None]:
    """What there is of a session beside its row."""
    if session_id:
        async with aclosing(_checkpoints(store, session_id)) as found:
            async for checkpoint in found:
                yield checkpoint
        async with read_events(store, session_id, page_size=EVENTS_A_PAGE) as events:
            async for event in events:
                yield event
    async with aclosing(chain(store, session_id)) as rows:
        async for row in rows:
            yield row
    async with aclosing(traces(store, session_id)) as spans:
        async for span in spans:
            yield span


async def _checkpoints(store: Storage, session_id: str) -> AsyncGenerator[Checkpoint, None]:
    """In order, and the latest last: which it is among equals, the list need not tell."""
    latest = await store.get_latest_checkpoint(session_id)
    async with aclosing(checkpoints(store, session_id)) as found:
        async for checkpoint in found:
            if latest is None or checkpoint.id != latest.id:
                yield checkpoint
    if latest is not None:
        yield latest


# --- blobs ----------------------------------------------------------------------


class KnownBlobs:
    """The blobs that are known to have arrived; of very many the list begins anew."""

    _MOST = 100_000

    def __init__(self) -> None:
        self._digests: set[str] = set()

    def __contains__(self, digest: str) -> bool:
        return digest in self._digests

    def add(self, digest: str) -> None:
        if len(self._digests) >= self._MOST:
            self._digests.clear()
        self._digests.add(digest)


async def with_blobs(
    store: Storage, session_id: str, known: KnownBlobs, tally: Tally
) -> AsyncGenerator[Kept | Blob, None]:
    """The content, and each blob that is not known before the event that names it."""
    async with aclosing(content(store, session_id)) as records:
        async for record in records:
            if isinstance(record, LedgerEvent):
                for digest in _blobs_of(record):
                    blob = None if digest in known else await _blob(store, digest, tally)
                    if blob is not None:
                        yield blob
            yield record


def _blobs_of(event: LedgerEvent) -> tuple[str, ...]:
    """An event that cannot be read is moved as it is: `verify` tells of it, here and there."""
    try:
        return blobs_named(event)
    except Damaged:
        return ()


async def _blob(store: Storage, digest: str, tally: Tally) -> Blob | None:
    try:
        found = await store.get_blob(digest) if isinstance(store, SupportsBlobs) else None
    except Damaged:  # one that is damaged must not keep the others from being saved
        found = None
    if found is None:  # what is lost here is lost there too, and both can be told
        tally.missing_blobs += 1
        return None
    return Blob(digest=digest, content=found)
