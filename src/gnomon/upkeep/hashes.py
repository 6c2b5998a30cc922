"""One hash for all that a store keeps of a session, and one for what a tenant remembers.

Two stores that hold the same give the same hash, whatever database they are on:
how events were grouped, how long pages are and in which order checkpoints of one
number were saved makes no difference. Nothing but a page is held.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from collections.abc import Set as AbstractSet
from contextlib import aclosing
from hashlib import sha256

import msgspec

from gnomon.contracts.storage import Storage
from gnomon.types.records import Checkpoint, MemoryRecord, SessionRecord
from gnomon.upkeep._reading import Kept, content
from gnomon.upkeep._walk import memory

__all__ = ["Digest", "content_hash", "memory_hash", "session_hash"]

# A record is its JSON with the keys in order; fields that have their default are left out.
_encode = msgspec.json.Encoder(order="deterministic").encode


class Digest:
    """Grows by one record after another. The bytes of blobs are in it by the events that name them."""

    def __init__(self) -> None:
        self._hash = sha256()
        self._equals: list[bytes] = []
        self._equals_seq = -1

    def add(self, record: Kept | MemoryRecord) -> None:
        body = _encode(record)
        kind = type(record).__name__
        if isinstance(record, Checkpoint):
            if record.seq != self._equals_seq:
                self._close_equals()
            self._equals_seq = record.seq
            self._equals.append(sha256(body).digest())
        else:
            self._close_equals()
            self._update(kind, body)

    def hexdigest(self) -> str:
        self._close_equals()
        return self._hash.hexdigest()

    def _close_equals(self) -> None:
        """Checkpoints of one number have no order that every store keeps."""
        for digest in sorted(self._equals):
            self._update("Checkpoint", digest)
        self._equals = []

    def _update(self, kind: str, body: bytes) -> None:
        self._hash.update(f"{kind} {len(body)}\n".encode())
        self._hash.update(body)


async def session_hash(store: Storage, session_id: str) -> str:
    """The hash of a session's row, checkpoints, events, audit rows and traces.

    The session "" has what belongs to none: audit rows and traces.
    """
    row = await store.get_session(session_id) if session_id else None
    return await content_hash(store, session_id, row)


async def content_hash(store: Storage, session_id: str, row: SessionRecord | None) -> str:
    """The hash as it would be with this row."""
    digest = Digest()
    if row is not None:
        digest.add(row)
    async with aclosing(content(store, session_id)) as records:
        async for record in records:
            digest.add(record)
    return digest.hexdigest()


async def memory_hash(store: Storage, *, without: AbstractSet[str] = frozenset()) -> str:
    """The hash of a tenant's memory; records can be left out by their id."""
    digest = Digest()
    async with aclosing(_wanted(store, without)) as records:
        async for record in records:
            digest.add(record)
    return digest.hexdigest()


async def _wanted(store: Storage, without: AbstractSet[str]) -> AsyncGenerator[MemoryRecord, None]:
    async with aclosing(memory(store)) as records:
        async for record in records:
            if record.id not in without:
                yield record
