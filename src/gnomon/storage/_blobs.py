"""Large bytes, kept once by their hash. One that is put again is touched again, and so outlives a sweep."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from datetime import datetime
from hashlib import sha256
from time import time_ns

from gnomon.errors import Damaged, InvalidInput
from gnomon.storage._keys import joined, time_key
from gnomon.storage._part import Part, moved
from gnomon.storage._rows import Found, Place, Row, Span
from gnomon.storage._together import total
from gnomon.storage._values import checked_name, checked_time
from gnomon.types.records import utc_now

__all__ = ["LARGEST_BLOB_BYTES", "Blobs"]

LARGEST_BLOB_BYTES = 100_000_000

_BATCH = 500


class Blobs(Part):
    async def put_blob(self, content: bytes) -> str:
        if not isinstance(content, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - others look like it
            raise InvalidInput(f"a blob is bytes, {type(content).__name__} was given")
        if len(content) > LARGEST_BLOB_BYTES:
            raise InvalidInput(
                f"a blob has at most {LARGEST_BLOB_BYTES:,} bytes; {len(content):,} were given"
            )
        digest = sha256(content).hexdigest()
        await self._enrol()
        # Its revision is when it was put, so that a sweep removes just what it has seen.
        touched = joined(time_key(utc_now()), digest)
        row = Row(
            kind="blobs",
            id=digest,
            body=content,
            revision=time_ns() // 1000,
            places={"touched": Place("", touched)},
        )
        await self._rows.write(self._tenant, row, None)
        return digest

    async def get_blob(self, digest: str) -> bytes | None:
        found = await self._rows.get(self._tenant, "blobs", checked_name("the digest", digest))
        if found is None:
            return None
        if sha256(found.body).hexdigest() != digest:
            raise Damaged(f"{self._rows.where}: blob {digest[:12]}… is not what was once stored")
        return found.body

    async def sweep_blobs(self, keep: AbstractSet[str], older_than: datetime) -> int:
        below = time_key(checked_time("older_than", older_than))
        span = Span(kind="blobs", index="touched", below=below, limit=_BATCH, bodies=False)
        removed = 0
        while found := await self._rows.find(self._tenant, span):
            removed += await total(self._remove, [row for row in found if row.id not in keep])
            span = moved(span, found[-1].sort)
        return removed

    async def _remove(self, row: Found) -> int:
        return await self._rows.delete(self._tenant, "blobs", row.id, row.revision)
