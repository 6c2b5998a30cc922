"""The logs: a group is an item under its first number, and the log's tail is an item of its own.

An append moves the tail and adds the group in one transaction, so that it holds only at the
tail that its writer saw. A condition on the group alone would not do: what a late writer should
collide with may have been pruned meanwhile.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise

from gnomon.errors import Damaged
from gnomon.storage._dynamo_bodies import INLINE_BYTES, Bodies
from gnomon.storage._dynamo_items import Head, Large, Tail, group_key, log_partition, packed, tail_key
from gnomon.storage._dynamo_sharing import Sharing
from gnomon.storage._dynamo_table import Action, Delete, Item, Key, Put, Table
from gnomon.storage._keys import number_key
from gnomon.storage._rows import READ_BYTES, Group, Lost

__all__ = ["Logs"]

_HEAD = "sk, last_seq, body_bytes, pieces"
_CUT_AT_ONCE = 50
_CUT_BYTES = 3_000_000
_READ_TRIES = 10
_PAUSE_S = 0.05


class Logs:
    def __init__(self, table: Table, bodies: Bodies) -> None:
        self._table = table
        self._bodies = bodies
        self._reads: Sharing[list[Group]] = Sharing()

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        pk, tail = log_partition(tenant, session_id), _moved(tail_key(tenant, session_id), group)
        if len(group.body) <= INLINE_BYTES:
            return not await self._table.commit([tail, _added(pk, group, group.body)])
        if await self._tail(tenant, session_id) != group.first - 1:
            return False  # before its body is sent
        large = await self._bodies.put(tenant, group.body)
        refused = await self._table.commit([tail, _added(pk, group, large), self._bodies.keeping(large)])
        if refused & {0, 1}:
            await self._bodies.drop(tenant, large)
        elif refused:
            raise Lost("the body was swept before it was used")
        return not refused

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        asked = (tenant, session_id, after_seq, limit)
        return [*await self._reads.ask(asked, lambda: self._read_gapless(*asked))]

    async def _read_gapless(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        pk = log_partition(tenant, session_id)
        for _ in range(_READ_TRIES):
            heads = await self._heads(pk, after_seq, limit)
            if _is_gapless(heads):
                groups = await self._groups(tenant, heads)
                if groups is not None:
                    return groups
            await asyncio.sleep(_PAUSE_S)  # it is being cut in this moment
        raise Damaged(f"{self._table.where}: the log of session {session_id!r} has a gap after {after_seq}")

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        if through is not None:
            return await self._cut(tenant, session_id, through)
        removed, is_gone = 0, False
        while not is_gone:  # what is appended meanwhile goes too; only then may the log begin anew
            tail = await self._tail(tenant, session_id)
            more = await self._cut(tenant, session_id, None)
            end = Delete(tail_key(tenant, session_id), "last_seq = :tail", {":tail": tail})
            is_gone = more == 0 if tail == 0 else not await self._table.commit([end])
            removed += more
        return removed

    async def _cut(self, tenant: str, session_id: str, through: int | None) -> int:
        """Oldest first and each batch at once, so that whatever stops it leaves a log without a gap."""
        pk = log_partition(tenant, session_id)
        removed = 0
        while heads := await self._oldest(pk, through):
            actions: list[Action] = [Delete(group_key(pk, head.first)) for head in heads]
            large = [head.large for head in heads if head.large is not None]
            await self._table.commit(actions + [self._bodies.leaving(tenant, body) for body in large])
            for body in large:
                await self._bodies.drop(tenant, body)
            removed += sum(head.last_seq - head.first + 1 for head in heads)
        return removed

    async def _tail(self, tenant: str, session_id: str) -> int:
        found = await self._table.get(tail_key(tenant, session_id))
        return self._table.read(Tail, found).last_seq if found is not None else 0

    async def _heads(self, pk: str, after_seq: int, limit: int) -> list[Head]:
        """The groups to read. The first may have begun earlier, and then is found from the other side."""
        heads = await self._heads_from(pk, after_seq, limit)
        if after_seq == 0 or (heads and heads[0].first == after_seq + 1):
            return heads
        # A reader that waits comes here again and again, so that the body is fetched only when it is wanted.
        found, _ = await self._table.query(
            pk, high=number_key(after_seq + 1), descending=True, limit=1, names=_HEAD
        )
        before = self._read(found)
        if not before or before[0].last_seq <= after_seq:
            return heads
        whole = await self._table.get(group_key(pk, before[0].first))
        return (self._read([whole] if whole is not None else []) + heads)[:limit]

    async def _heads_from(self, pk: str, after_seq: int, limit: int) -> list[Head]:
        heads: list[Head] = []
        size, start = 0, None
        while True:
            low = number_key(after_seq)
            found, start = await self._table.query(pk, low=low, limit=limit - len(heads), start=start)
            for head in self._read(found):
                if size >= READ_BYTES:
                    return heads
                heads.append(head)
                size += head.body_bytes
            if start is None or len(heads) >= limit:
                return heads

    async def _oldest(self, pk: str, through: int | None) -> list[Head]:
        high = "" if through is None else number_key(through + 1)
        found, _ = await self._table.query(pk, high=high, limit=_CUT_AT_ONCE, names=_HEAD)
        heads: list[Head] = []
        size = 0
        for head in self._read(found):
            size += head.body_bytes
            if (heads and size > _CUT_BYTES) or (through is not None and head.last_seq > through):
                break
            heads.append(head)
        return heads

    async def _groups(self, tenant: str, heads: list[Head]) -> list[Group] | None:
        """`None` when a body is gone, as that of a group that has just been cut."""
        groups: list[Group] = []
        for head in heads:
            body = head.body if head.large is None else await self._bodies.get(tenant, head.large)
            if body is None:
                return None
            groups.append(Group(head.first, head.last_seq, body))
        return groups

    def _read(self, found: list[Item]) -> list[Head]:
        return [self._table.read(Head, item) for item in found]


def _moved(key: Key, group: Group) -> Put:
    """The tail, from before the group to its end; a log that begins has none yet."""
    item = {**key.item, "last_seq": group.last}
    if group.first == 1:
        return Put(item, "attribute_not_exists(pk)")
    return Put(item, "last_seq = :before", {":before": group.first - 1})


def _added(pk: str, group: Group, body: bytes | Large) -> Put:
    item = {**group_key(pk, group.first).item, "last_seq": group.last, "body_bytes": len(group.body)}
    return Put({**item, **packed(body)}, "attribute_not_exists(pk)")


def _is_gapless(heads: list[Head]) -> bool:
    return all(head.first == before.last_seq + 1 for before, head in pairwise(heads))
