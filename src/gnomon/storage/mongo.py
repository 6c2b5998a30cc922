"""MongoDB: one collection a kind of record, and one document a row, which is written whole or not at all.

    MongoStorage("mongodb://host/database")
    MongoStorage("mongodb+srv://user:password@host/database?prefix=gnomon_")
    MongoStorage(client=an_async_mongo_client, database="database")

A write is acknowledged when a majority of the servers has it in its journal,
and only what a majority has is read, from the primary. Reading clients look for
new events a few times a second: change streams are not used. A row has a field
for each of its indexes, whose text begins with the tenant and the part, and
compares by its bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from pymongo import AsyncMongoClient, IndexModel
from pymongo.errors import DuplicateKeyError

from gnomon.errors import ConfigError, Damaged
from gnomon.storage._keys import joined, past
from gnomon.storage._mongo_aside import Aside
from gnomon.storage._mongo_link import Doc, Link
from gnomon.storage._mongo_log import HEADS, Logs
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import FIRST_INDEXES, INDEXES, Found, Group, Lost, Row, Rows, Span
from gnomon.storage._steady import PATIENCE_S

__all__ = ["MIGRATIONS", "MongoStorage"]

TIMEOUT_S = 10.0
"""How long one question to the server may take, the way there included."""

_INDEXING_S = 60.0
_TRIES, _PAUSE_S = 20, 0.01
_SCHEMA = "schema"


class MongoStorage(RecordStorage):
    """A store in a MongoDB database; it is connected to at the first call."""

    def __init__(
        self,
        url: str | None = None,
        *,
        client: AsyncMongoClient[Doc] | None = None,
        database: str = "",
        prefix: str = "gnomon_",
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        if timeout_s <= 0:
            raise ConfigError(f"timeout_s must be above 0; {timeout_s} was given")
        super().__init__(MongoRows(Link(url, client, database, prefix, timeout_s)), patience_s=patience_s)


class MongoRows(Rows):
    name = "mongo"
    is_of_one_loop = True
    poll_s = 0.25

    def __init__(self, link: Link) -> None:
        super().__init__(link.where)
        self.durability = "what was acknowledged is in the journal of a majority of the servers"
        self._link = link
        self._aside = Aside(link)
        self._logs = Logs(link, self._aside)

    # --- rows

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        key = joined(tenant, row.id)
        stored = await self._aside.put(tenant, row.kind, key, row.body)
        places = {index: joined(tenant, place.part, "") + place.sort for index, place in row.places.items()}
        fields = {"i": row.id, "r": row.revision, **stored, **places}
        if expect == 0:
            written = await self._inserted(row.kind, {"_id": key, **fields})
        else:
            written = await self._replaced(tenant, row.kind, key, fields, expect)
        if not written:
            await self._aside.drop(tenant, stored)
        return written

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        key = joined(tenant, id)
        for attempt in range(_TRIES):
            await asyncio.sleep(attempt * _PAUSE_S)
            document = await self._link.ask(self._link.collection(kind).find_one({"_id": key}))
            if document is None:
                return None
            body = await self._aside.body(tenant, document)
            if body is not None:
                return Found(document["i"], int(document["r"]), body)
        raise Damaged(f"the body of {kind} {id!r} is not whole in {self.where}")

    async def find(self, tenant: str, span: Span) -> list[Found]:
        for attempt in range(_TRIES):
            await asyncio.sleep(attempt * _PAUSE_S)
            found = await self._found(tenant, span)
            if found is not None:
                return found
        raise Damaged(f"the body of one of the {span.kind} is not whole in {self.where}")

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        key = joined(tenant, id)
        seen: Doc = {}
        for _ in range(_TRIES):
            chosen = _as_seen(key, expect, seen)
            done = await self._link.ask(self._link.collection(kind).delete_one(chosen))
            if done.deleted_count:
                await self._aside.drop(tenant, seen)
                return True
            found = await self._look(kind, key)
            if found is None or expect not in (None, found["r"]):
                return False
            seen = found
        raise Lost(f"{kind} {id!r} kept changing")

    # --- logs

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        return await self._logs.append(tenant, session_id, group)

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        return await self._logs.read(tenant, session_id, after_seq, limit)

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        return await self._logs.cut(tenant, session_id, through)

    # --- the store as a whole

    async def version(self) -> int:
        found = await self._link.ask(self._link.collection(_SCHEMA).find_one({"_id": "version"}))
        return 0 if found is None else int(found["v"])

    async def migrate(self) -> None:
        found = await self.version()
        for number, step in enumerate(MIGRATIONS[found:], found + 1):
            await step(self._link)
            await self._mark(number)
        await self._aside.sweep(self._is_named)

    async def close(self) -> None:
        await self._link.close()

    # --- inside

    async def _inserted(self, kind: str, document: Doc) -> bool:
        try:
            await self._link.ask(self._link.collection(kind).insert_one(document))
        except DuplicateKeyError:
            return False
        return True

    async def _replaced(self, tenant: str, kind: str, key: str, fields: Doc, expect: int | None) -> bool:
        """At first as if the stored row had put nothing aside, since hardly any has."""
        seen: Doc = {}
        for _ in range(_TRIES):
            if await self._changed(kind, _as_seen(key, expect, seen), fields, upsert=expect is None):
                await self._aside.drop(tenant, seen)
                return True
            found = await self._look(kind, key)
            if expect is not None and (found is None or found["r"] != expect):
                return False
            seen = found or {}
        raise Lost(f"{kind} {fields['i']!r} kept changing")

    async def _changed(self, kind: str, chosen: Doc, fields: Doc, *, upsert: bool) -> bool:
        gone = {field: "" for field in ("b", "a", "n", *INDEXES[kind]) if field not in fields}
        change = {"$set": fields, "$unset": gone}
        try:
            done = await self._link.ask(self._link.collection(kind).update_one(chosen, change, upsert=upsert))
        except DuplicateKeyError:  # another was first, or the stored row is not as it was seen
            return False
        return done.matched_count == 1 or done.upserted_id is not None

    async def _look(self, kind: str, key: str) -> Doc | None:
        return await self._link.ask(self._link.collection(kind).find_one({"_id": key}, {"r": 1, "a": 1}))

    async def _found(self, tenant: str, span: Span) -> list[Found] | None:
        """`None` when a body went while it was read."""
        start = joined(tenant, span.part, "")
        end = start + span.below if span.below else past(tenant, span.part)
        fields = {"i": 1, "r": 1, span.index: 1} | ({"b": 1, "a": 1, "n": 1} if span.bodies else {})
        between = {span.index: {"$gt": start + span.above, "$lt": end}}
        documents = self._link.collection(span.kind).find(between, fields, batch_size=span.limit)
        order = documents.sort(span.index, -1 if span.descending else 1).limit(span.limit)
        read = await self._link.ask(order.to_list())
        found: list[Found] = []
        for document in read:
            body = await self._aside.body(tenant, document) if span.bodies else b""
            if body is None:
                return None
            sort = document[span.index].removeprefix(start)
            found.append(Found(document["i"], int(document["r"]), body, sort))
        return found

    async def _mark(self, number: int) -> None:
        """The schema is now of that version, or another has brought it further."""
        older = {"_id": "version", "v": {"$lt": number}}
        mark = self._link.collection(_SCHEMA).update_one(older, {"$set": {"v": number}}, upsert=True)
        with suppress(DuplicateKeyError):
            await self._link.ask(mark)

    async def _is_named(self, entry: Doc) -> bool:
        if entry["of"] == HEADS:
            return await self._logs.names(entry)
        chosen = {"_id": entry["by"], "a": entry["a"]}
        return bool(await self._link.ask(self._link.collection(entry["of"]).find_one(chosen, {"_id": 1})))


def _as_seen(key: str, expect: int | None, seen: Doc) -> Doc:
    """Chooses a row only if it has put aside what we know of: whoever replaces it removes that as well."""
    chosen: Doc = {"_id": key, "a": seen.get("a", {"$exists": False})}
    return chosen if expect is None else chosen | {"r": expect}


async def _first_indexes(link: Link) -> None:
    for kind, indexes in FIRST_INDEXES.items():
        if indexes:
            models = [IndexModel([(index, 1)], name=index, sparse=True) for index in indexes]
            await link.ask(link.collection(kind).create_indexes(models), _INDEXING_S)


MIGRATIONS: tuple[Callable[[Link], Awaitable[None]], ...] = (_first_indexes,)
"""The way from each version of the schema to the next.

MongoDB has no lock that is let go when its holder dies. So a step must bear to
be run by several at once, and again from the start after it was broken off.
"""
