"""The rows: an item each, and one more for each index in which the row has a place, written together."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from uuid import uuid4

import msgspec

from gnomon.errors import Damaged
from gnomon.storage._dynamo_bodies import INLINE_BYTES, Bodies
from gnomon.storage._dynamo_find import Stretch
from gnomon.storage._dynamo_items import (
    Large,
    Listed,
    StoredRow,
    entry_key,
    listed,
    packed,
    packed_places,
    partition,
    row_key,
    unpacked_places,
)
from gnomon.storage._dynamo_table import Action, Delete, Item, Key, Put, Table
from gnomon.storage._rows import INDEXES, Found, Lost, Row, Span

__all__ = ["RowItems"]

_WITHOUT_BODY = "pk, revision, mark, places"


class RowItems:
    def __init__(self, table: Table, bodies: Bodies) -> None:
        self._table = table
        self._bodies = bodies

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        if INDEXES[row.kind] or len(row.body) > INLINE_BYTES:
            return await _Writing(self._table, self._bodies, tenant, row, expect).done()
        alone = Put(_row_item(tenant, row, row.body), *_expecting(expect))
        if not await self._table.commit([alone]):
            return True
        # What is in the way may be the pieces of an earlier body, and they must be looked at.
        return expect != 0 and await _Writing(self._table, self._bodies, tenant, row, expect).done()

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        key = row_key(tenant, kind, id)
        found = await self._whole(tenant, key, await stored(self._table, key))
        return None if found is None else Found(id, found.revision, found.body)

    async def find(self, tenant: str, span: Span) -> list[Found]:
        stretch = Stretch(span)
        if stretch.is_empty:
            return []
        pk = partition(tenant, "i", span.kind, span.index, span.part)
        low, high = stretch.bounds
        start = None
        while not stretch.is_done:
            entries, start = await self._table.query(
                pk, low=low, high=high, descending=span.descending, limit=stretch.missing, start=start
            )
            ids = {str(entry["row_id"]) for entry in entries}
            stretch.take(await self._rows(tenant, span, ids))
            stretch.reach(str(entries[-1]["sk"]) if entries else "", is_end=start is None)
        return stretch.rows()

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None) -> bool:
        key = row_key(tenant, kind, id)
        while True:
            old = await stored(self._table, key)
            if old is None or (expect is not None and old.revision != expect):
                return False
            places, stale = unpacked_places(old)
            actions: list[Action] = [Delete(key, *_unchanged(old))]
            actions += [Delete(entry_key(tenant, kind, at)) for at in (*places, *stale)]
            actions += [self._bodies.leaving(tenant, old.large)] if old.large is not None else []
            if not await self._table.commit(actions):
                if old.large is not None:
                    await self._bodies.drop(tenant, old.large)
                return True

    async def _rows(self, tenant: str, span: Span, ids: set[str]) -> Mapping[str, StoredRow]:
        by_key = {row_key(tenant, span.kind, id).pk: id for id in ids}
        keys = [row_key(tenant, span.kind, id) for id in ids]
        items = await self._table.get_many(keys, "" if span.bodies else _WITHOUT_BODY) if keys else []
        rows = {by_key[str(item["pk"])]: self._table.read(StoredRow, item) for item in items}
        for id in [id for id, row in rows.items() if row.large is not None]:
            whole = await self._whole(tenant, row_key(tenant, span.kind, id), rows.pop(id))
            rows |= {} if whole is None else {id: whole}
        return rows

    async def _whole(self, tenant: str, key: Key, row: StoredRow | None) -> StoredRow | None:
        """The row with its body; where it was replaced or removed under our hands, the one after it."""
        while row is not None and row.large is not None:
            body = await self._bodies.get(tenant, row.large)
            if body is not None:
                return msgspec.structs.replace(row, body=body)
            now = await stored(self._table, key)
            if now is not None and now.large is not None and now.large.id == row.large.id:
                raise Damaged(f"{self._table.where}: a body of {row.large.size:,} bytes has lost pieces")
            row = now
        return row


class _Writing:
    """One write that must know what was there before: its places, and the pieces of its body."""

    def __init__(self, table: Table, bodies: Bodies, tenant: str, row: Row, expect: int | None) -> None:
        self._table = table
        self._bodies = bodies
        self._tenant = tenant
        self._row = row
        self._expect = expect
        self._digest = sha256(row.body).digest() if len(row.body) > INLINE_BYTES else b""
        self._written: Large | None = None
        """The pieces that this write has written, which are to be dropped if it comes to nothing."""

    async def done(self) -> bool:
        key = row_key(self._tenant, self._row.kind, self._row.id)
        while True:
            # A row that must not be there need not be read: if it is, the condition says so.
            old = None if self._expect == 0 else await stored(self._table, key)
            if self._expect is not None and self._expect != (old.revision if old is not None else 0):
                return await self._in_vain()
            body = await self._body(old)
            refused = await self._table.commit(self._actions(old, body))
            if not refused:
                await self._drop_earlier(old, body)
                return True
            if 0 not in refused:
                raise Lost("the body was swept before it was used")
            if self._expect == 0:
                return await self._in_vain()

    async def _body(self, old: StoredRow | None) -> bytes | Large:
        """What the item holds. A large body that is there already is not written again."""
        if not self._digest:
            return self._row.body
        earlier = old.large if old is not None else None
        if self._written is None and earlier is not None and earlier.digest == self._digest:
            return earlier
        if self._written is None:
            self._written = await self._bodies.put(self._tenant, self._row.body)
        return self._written

    def _actions(self, old: StoredRow | None, body: bytes | Large) -> list[Action]:
        tenant, kind, id = self._tenant, self._row.kind, self._row.id
        new = listed(self._row.places)
        was, stale = unpacked_places(old) if old is not None else ((), ())
        moved = tuple(at for at in was if at not in new and _is_moved(at, new))
        gone = [at for at in (*was, *stale) if at not in new and at not in moved]
        item = _row_item(tenant, self._row, body, moved)
        actions: list[Action] = [Put(item, *_unchanged(old))]
        actions += [self._bodies.keeping(body)] if isinstance(body, Large) and body is self._written else []
        actions += [Put({**entry_key(tenant, kind, at).item, "row_id": id}) for at in new if at not in was]
        actions += [Delete(entry_key(tenant, kind, at)) for at in gone]
        earlier = _earlier(old, body)
        return actions + ([self._bodies.leaving(tenant, earlier)] if earlier is not None else [])

    async def _drop_earlier(self, old: StoredRow | None, body: bytes | Large) -> None:
        earlier = _earlier(old, body)
        if earlier is not None:
            await self._bodies.drop(self._tenant, earlier)

    async def _in_vain(self) -> bool:
        if self._written is not None:
            await self._bodies.drop(self._tenant, self._written)
        return False


async def stored(table: Table, key: Key) -> StoredRow | None:
    found = await table.get(key)
    return None if found is None else table.read(StoredRow, found)


def _row_item(tenant: str, row: Row, body: bytes | Large, stale: tuple[Listed, ...] = ()) -> Item:
    return {
        **row_key(tenant, row.kind, row.id).item,
        "revision": row.revision,
        "mark": uuid4().hex,
        "places": packed_places(row.places, stale),
        **packed(body),
    }


def _expecting(expect: int | None) -> tuple[str, Item]:
    """The condition of a write that reads nothing first."""
    match expect:
        case None:
            return "attribute_not_exists(pieces)", {}
        case 0:
            return "attribute_not_exists(pk)", {}
        case _:
            return "revision = :expect AND attribute_not_exists(pieces)", {":expect": expect}


def _unchanged(old: StoredRow | None) -> tuple[str, Item]:
    return ("attribute_not_exists(pk)", {}) if old is None else ("mark = :mark", {":mark": old.mark})


def _is_moved(at: Listed, new: tuple[Listed, ...]) -> bool:
    """Whether the row is still in that part, in another place: then its entry stays until the next write."""
    return any((other.index, other.part) == (at.index, at.part) for other in new)


def _earlier(old: StoredRow | None, body: bytes | Large) -> Large | None:
    """The pieces that nobody names once the row is written."""
    before = old.large if old is not None else None
    return None if before is None or (isinstance(body, Large) and body.id == before.id) else before
