"""Bodies that are too large for a document of MongoDB, which holds 16 MB, are put aside in pieces.

The pieces are written first, under a name nobody can guess; then the document
that names them; and they go after it went. What a crash in between leaves
behind is on the list of what was put aside, and `sweep` finds it there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from secrets import token_hex

from gnomon.errors import StorageError
from gnomon.storage._keys import joined, number_key, past
from gnomon.storage._mongo_link import Doc, Link
from gnomon.storage._rows import Lost

__all__ = ["PIECE_BYTES", "Aside"]

PIECE_BYTES = 4_000_000
"""Also the largest body that is not put aside: small enough to be sent in time over a slow line.

It belongs to the stored format: by it a reader knows how many pieces there are.
"""

_GRACE_S = 86_400
"""No write takes a day: what nobody names by then will not be named."""
_SWEPT = 200


class Aside:
    """A body is `{"b": bytes}` in its document, or `{"a": name, "n": size}` when it was put aside."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._pieces = link.collection("pieces")
        self._list = link.collection("aside")

    async def put(self, tenant: str, collection: str, key: str, body: bytes) -> Doc:
        """What to write into the document of that key, in the stead of the body."""
        if len(body) <= PIECE_BYTES:
            return {"b": body}
        name = token_hex(16)
        entry = {
            "_id": joined(tenant, name),
            "t": tenant,
            "a": name,
            "of": collection,
            "by": key,
            "at": await self._link.now_s(),
        }
        await self._link.ask(self._list.insert_one(entry))
        for number, start in enumerate(range(0, len(body), PIECE_BYTES)):
            piece = {"_id": joined(tenant, name, number_key(number)), "b": body[start : start + PIECE_BYTES]}
            await self._link.ask(self._pieces.insert_one(piece))
        return {"a": name, "n": len(body)}

    async def body(self, tenant: str, stored: Doc) -> bytes | None:
        """The body of a document; `None` when its pieces went while it was read: read the document again."""
        if "b" in stored:
            return stored["b"]
        pieces: list[bytes] = []
        for number in range(-(-stored["n"] // PIECE_BYTES)):
            key = joined(tenant, stored["a"], number_key(number))
            piece = await self._link.ask(self._pieces.find_one({"_id": key}))
            if piece is None:
                return None
            pieces.append(piece["b"])
        return b"".join(pieces)

    async def drop(self, tenant: str, *documents: Doc) -> None:
        """Remove what these documents, which are gone or never came to be, have put aside.

        What cannot be removed now is nobody's error: it is swept later.
        """
        for name in [document["a"] for document in documents if "a" in document]:
            span = {"$gt": joined(tenant, name), "$lt": past(tenant, name)}
            with suppress(Lost, StorageError):
                await self._link.ask(self._pieces.delete_many({"_id": span}))
                await self._link.ask(self._list.delete_one({"_id": joined(tenant, name)}))

    async def sweep(self, is_named: Callable[[Doc], Awaitable[bool]]) -> int:
        """Remove what no document names and is a day old, of those that were not looked at for longest."""
        now_s = await self._link.now_s()
        old = self._list.find({"at": {"$lt": now_s - _GRACE_S}}).sort("at", 1).limit(_SWEPT)
        removed = 0
        for entry in await self._link.ask(old.to_list()):
            if await is_named(entry):
                looked = {"$set": {"at": now_s}}
                await self._link.ask(self._list.update_one({"_id": entry["_id"]}, looked))
            else:
                await self.drop(entry["t"], entry)
                removed += 1
        return removed
