"""The logs in MongoDB. Each has one document, its head, and every append is one change of it.

The change asks for the number that the last event had, so that of several
writers one is first, whoever reads, cuts or deletes the log at the same time.
The newest groups lie in the head itself; from time to time they are copied into
documents of their own, and then taken out of it. A reader looks at the head
first, so whatever it misses among the copies is in what it has read.

    head    _id: tenant, session   log, from, start, last, size, g: {first: {l, b}}
    groups  _id: tenant, session, log, last of the group   f, l, b

`log` tells a log from an earlier one of the same session, `from` is the first
event that was not cut off, `start` the first that is in the head. A head whose
`last` is 0 is a log that is being deleted, and `gone` how many events it had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from bson import ObjectId
from pymongo.asynchronous.cursor import AsyncCursor
from pymongo.errors import BulkWriteError, DuplicateKeyError

from gnomon.errors import Damaged, StorageError
from gnomon.storage._keys import joined, number_key
from gnomon.storage._mongo_aside import Aside
from gnomon.storage._mongo_link import Doc, Link
from gnomon.storage._rows import READ_BYTES, Group, Lost

__all__ = ["HEADS", "Logs"]

HEADS, _GROUPS = "logs", "groups"

_MOVED_EACH = 32
"""The head is emptied whenever so many events have come. The server writes it anew with each of them."""
_MOVED_BYTES = 64_000
_HEAD_BYTES = 11_000_000
"""A document has at most 16 MB, and one more group must fit."""
_LAST_OF_ALL = 10**20 - 1  # the highest that `number_key` writes
_TRIES, _PAUSE_S = 20, 0.01


class Logs:
    def __init__(self, link: Link, aside: Aside) -> None:
        self._link = link
        self._aside = aside
        self._heads = link.collection(HEADS)
        self._groups = link.collection(_GROUPS)

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        key = joined(tenant, session_id)
        stored = await self._aside.put(tenant, HEADS, key, group.body)
        entry: Doc = {"l": group.last, **stored}
        added = await (self._begin if group.first == 1 else self._extend)(tenant, key, group, entry)
        if not added:
            await self._aside.drop(tenant, entry)
        elif _is_due(group):
            # The append is done, whatever becomes of this; the next that is due moves these groups as well.
            with suppress(Lost, StorageError):
                await self._move(key)
        return added

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        for attempt in range(_TRIES):
            await asyncio.sleep(attempt * _PAUSE_S)
            newer = {"_id": joined(tenant, session_id), "last": {"$gt": after_seq}}
            head = await self._link.ask(self._heads.find_one(newer))
            if head is None:
                return []
            groups = await self._read(tenant, head, after_seq, limit)
            if groups is not None and _is_whole(groups, head, after_seq):
                return groups
        raise Damaged(
            f"the log of session {session_id!r} has a gap after event {after_seq} in {self._link.where}"
        )

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        key = joined(tenant, session_id)
        for attempt in range(_TRIES):
            await asyncio.sleep(attempt * _PAUSE_S)
            head = await self._link.ask(self._heads.find_one({"_id": key}))
            if head is None:
                return 0
            whole = through is None
            count = await (self._delete(tenant, head) if whole else self._shorten(tenant, head, through))
            if count is not None:
                return count
        raise Lost(f"the log of session {session_id!r} kept changing")

    async def names(self, entry: Doc) -> bool:
        """Whether a log names what was put aside; see `Aside.sweep`."""
        head = await self._link.ask(self._heads.find_one({"_id": entry["by"]}))
        if head is None:
            return False
        entries = [*head["g"].values(), *await self._put_aside(head)]
        return any(each.get("a") == entry["a"] for each in entries)

    # --- appending

    async def _begin(self, tenant: str, key: str, group: Group, entry: Doc) -> bool:
        head = {"_id": key, "log": str(ObjectId()), "from": 1, "start": 1, "last": group.last}
        head |= {"size": _weight(entry), "g": {"1": entry}}
        if await self._inserted(head):
            return True
        found = await self._link.ask(self._heads.find_one({"_id": key, "last": 0}))
        if found is None:
            return False
        await self._delete(tenant, found)  # whoever began to delete it has not come to the end
        return await self._inserted(head)

    async def _inserted(self, head: Doc) -> bool:
        try:
            await self._link.ask(self._heads.insert_one(head))
        except DuplicateKeyError:
            return False
        return True

    async def _extend(self, tenant: str, key: str, group: Group, entry: Doc) -> bool:
        tail = {"_id": key, "last": group.first - 1}
        if await self._pushed(tail, group, entry):
            return True
        is_full = await self._link.ask(self._heads.find_one(tail, {"_id": 1}))
        if not is_full:
            return False
        await self._move(key)
        return await self._pushed(tail, group, entry)

    async def _pushed(self, tail: Doc, group: Group, entry: Doc) -> bool:
        weight = _weight(entry)
        change = {"$set": {"last": group.last, f"g.{group.first}": entry}, "$inc": {"size": weight}}
        room = {"size": {"$lte": _HEAD_BYTES - weight}}
        return (await self._link.ask(self._heads.update_one(tail | room, change))).matched_count == 1

    async def _move(self, key: str) -> None:
        """Give the groups in the head documents of their own."""
        head = await self._link.ask(self._heads.find_one({"_id": key}))
        if head is None or not head["g"]:
            return
        documents: list[Doc] = [
            {"_id": _group_key(head, entry["l"]), "f": int(first), **entry}
            for first, entry in head["g"].items()
        ]
        with suppress(BulkWriteError):  # those that are there: another moves them as well, or broke off
            await self._link.ask(self._groups.insert_many(documents, ordered=False))
        if not await self._taken_out(head, max(entry["l"] for entry in head["g"].values())):
            await self._remove_stray(head, [document["_id"] for document in documents])

    async def _taken_out(self, head: Doc, through: int, **more: int) -> bool:
        """Take the groups up to that event out of the head, unless another has."""
        gone = {first: entry for first, entry in head["g"].items() if entry["l"] <= through}
        change: Doc = {"$set": {"start": max(head["start"], through + 1), **more}}
        if gone:
            change["$unset"] = {f"g.{first}": "" for first in gone}
            change["$inc"] = {"size": -sum(map(_weight, gone.values()))}
        seen = {"_id": head["_id"], "log": head["log"], "start": head["start"], "from": head["from"]}
        return (await self._link.ask(self._heads.update_one(seen, change))).matched_count == 1

    async def _remove_stray(self, head: Doc, keys: list[str]) -> None:
        """The log was deleted while its groups were copied: the copies are nobody's."""
        this = {"_id": head["_id"], "log": head["log"], "last": {"$gt": 0}}
        if not await self._link.ask(self._heads.find_one(this, {"_id": 1})):
            await self._link.ask(self._groups.delete_many({"_id": {"$in": keys}}))

    # --- reading

    async def _read(self, tenant: str, head: Doc, after_seq: int, limit: int) -> list[Group] | None:
        groups: list[Group] = []
        size = 0
        for entry in await self._entries(head, after_seq, limit):
            if len(groups) == limit or size >= READ_BYTES:
                break
            body = await self._aside.body(tenant, entry)
            if body is None:
                return None
            groups.append(Group(int(entry["f"]), int(entry["l"]), body))
            size += len(body)
        return groups

    async def _entries(self, head: Doc, after_seq: int, limit: int) -> list[Doc]:
        """The groups after an event: those that have documents of their own, and then those in the head."""
        entries = await self._moved(head, after_seq, limit) if after_seq + 1 < head["start"] else []
        after_seq = entries[-1]["l"] if entries else after_seq
        kept = [{"f": int(first), **entry} for first, entry in head["g"].items() if entry["l"] > after_seq]
        return entries + sorted(kept, key=_first)

    async def _moved(self, head: Doc, after_seq: int, limit: int) -> list[Doc]:
        low = _group_key(head, max(after_seq, head["from"] - 1))
        span = {"$gt": low, "$lt": _group_key(head, head["last"] + 1)}
        found = self._groups.find({"_id": span}).sort("_id", 1).limit(limit).batch_size(limit)
        return await self._link.ask(_taken(found))

    # --- cutting

    async def _shorten(self, tenant: str, head: Doc, through: int) -> int | None:
        """How many events were cut off; `None` when the log changed meanwhile."""
        end = await self._last_group_end(head, through)
        if end < head["from"]:
            await self._remove_groups(tenant, head, head["from"] - 1, ())  # what an earlier cut has left
            return 0
        if not await self._taken_out(head, end, **{"from": end + 1}):
            return None
        cut = [entry for entry in head["g"].values() if entry["l"] <= end]
        await self._remove_groups(tenant, head, end, cut)
        return end + 1 - head["from"]

    async def _last_group_end(self, head: Doc, through: int) -> int:
        """The end of the last group that ends there or before."""
        ends = [entry["l"] for entry in head["g"].values() if entry["l"] <= through]
        if ends or through >= head["start"]:
            return max(ends, default=head["start"] - 1)
        span = {"$gt": _group_key(head, head["from"] - 1), "$lte": _group_key(head, through)}
        found = await self._link.ask(self._groups.find_one({"_id": span}, {"l": 1}, sort=[("_id", -1)]))
        return 0 if found is None else found["l"]

    async def _delete(self, tenant: str, head: Doc) -> int | None:
        """Mark the log as deleted, remove its groups, and then the mark; `None` when it changed meanwhile."""
        seen = {name: head[name] for name in ("_id", "log", "last", "start", "from")}
        gone = head.get("gone") or head["last"] + 1 - head["from"]
        mark: Doc = {"$set": {"last": 0, "start": 0, "from": 1, "size": 0, "g": {}, "gone": gone}}
        if not (await self._link.ask(self._heads.update_one(seen, mark))).matched_count:
            return None
        await self._remove_groups(tenant, head, None, head["g"].values())
        await self._link.ask(self._heads.delete_one({"_id": head["_id"], "log": head["log"], "last": 0}))
        return gone

    async def _remove_groups(self, tenant: str, head: Doc, through: int | None, cut: Iterable[Doc]) -> None:
        """The groups that have documents of their own, and what they and those in the head have put aside."""
        aside = [*cut, *await self._put_aside(head, through)]
        await self._link.ask(self._groups.delete_many({"_id": _span(head, through)}))
        await self._aside.drop(tenant, *aside)

    async def _put_aside(self, head: Doc, through: int | None = None) -> list[Doc]:
        """The groups with documents of their own whose bodies were put aside."""
        found = self._groups.find({"_id": _span(head, through), "a": {"$gt": ""}}, {"a": 1})
        return await self._link.ask(found.to_list())


async def _taken(found: AsyncCursor[Doc]) -> list[Doc]:
    """The groups that are found, until it is enough for one read."""
    entries: list[Doc] = []
    size = 0
    async with found:
        async for entry in found:
            entries.append(entry)
            size += entry.get("n") or len(entry["b"])
            if size >= READ_BYTES:
                break
    return entries


def _is_due(group: Group) -> bool:
    return group.last // _MOVED_EACH > (group.first - 1) // _MOVED_EACH or len(group.body) >= _MOVED_BYTES


def _is_whole(groups: list[Group], head: Doc, after_seq: int) -> bool:
    """Whether they follow one another, from where they should begin: a log may be cut while it is read."""
    due = max(after_seq + 1, head["from"])
    if not groups:
        return due > head["last"]
    ends = [group.last + 1 for group in groups[:-1]]
    return groups[0].first <= due and ends == [group.first for group in groups[1:]]


def _group_key(head: Doc, last: int) -> str:
    return head["_id"] + joined("", head["log"], number_key(last))


def _span(head: Doc, through: int | None) -> Doc:
    """The keys of all groups, or of those that end at that event or before."""
    return {
        "$gt": _group_key(head, 0),
        "$lte": _group_key(head, _LAST_OF_ALL if through is None else through),
    }


def _first(entry: Doc) -> int:
    return entry["f"]


def _weight(entry: Doc) -> int:
    """What a group takes in the head, with its name and numbers."""
    return len(entry.get("b", b"")) + 200
