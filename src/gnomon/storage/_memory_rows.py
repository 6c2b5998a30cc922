"""The rows of what agents are to remember."""

from __future__ import annotations

from collections.abc import Mapping
from time import time_ns

import msgspec

from gnomon.contracts.storage import PAGE_SIZE
from gnomon.storage._keys import joined, past, time_key
from gnomon.storage._part import Part
from gnomon.storage._rows import Place, Row, Span
from gnomon.storage._values import checked_name, checked_time, encoded
from gnomon.types.records import MemoryRecord, Page

__all__ = ["MemoryRows"]


class MemoryRows(Part):
    async def put_memory(self, memory: MemoryRecord) -> None:
        row = _row(memory)
        await self._enrol()
        await self._rows.write(self._tenant, row, None)

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        key = checked_name("the key", key)
        latest: MemoryRecord | None = None
        span = _span(agent_id, user_id, above=joined(key), below=past(key))
        cursor: str | None = None
        while True:
            page = await self._page(
                "get_memory", span, MemoryRecord, 200, 0, cursor, _Wanted(agent_id, user_id)
            )
            for memory in page.items:
                if latest is None or memory.updated_at >= latest.updated_at:
                    latest = memory
            if page.next is None:
                return latest
            cursor = page.next

    async def list_memory(
        self,
        agent_id: str = "",
        kind: str = "",
        limit: int = PAGE_SIZE,
        offset: int = 0,
        *,
        user_id: str = "",
        cursor: str | None = None,
    ) -> Page[MemoryRecord]:
        wanted = _Wanted(agent_id, user_id, kind)
        span = _span(agent_id, user_id)
        return await self._page("list_memory", span, MemoryRecord, limit, offset, cursor, wanted)

    async def delete_memory(self, memory_id: str) -> bool:
        return await self._rows.delete(self._tenant, "memory", checked_name("the memory's id", memory_id))


class _Wanted:
    """Which records were asked for; an empty name is all of them."""

    def __init__(self, agent_id: str, user_id: str, kind: str = "") -> None:
        self._wanted = (
            checked_name("the agent's id", agent_id, empty=True),
            checked_name("the user's id", user_id, empty=True),
            checked_name("the kind", kind, empty=True),
        )

    def __call__(self, memory: MemoryRecord) -> bool:
        found = (memory.agent_id, memory.user_id, memory.kind)
        return all(not wanted or wanted == has for wanted, has in zip(self._wanted, found, strict=True))


def _span(agent_id: str, user_id: str, above: str = "", below: str = "") -> Span:
    """The shortest list that holds what is wanted: a user has few records, an agent may have those of all."""
    index, part = ("user", user_id) if user_id else ("agent", agent_id) if agent_id else ("all", "")
    return Span(kind="memory", index=index, part=part, above=above, below=below)


def _row(memory: MemoryRecord) -> Row:
    checked_name("the memory's id", memory.id)
    checked_name("the key", memory.key)
    for what, name in (("agent", memory.agent_id), ("user", memory.user_id), ("session", memory.session_id)):
        checked_name(f"the {what}'s id", name, empty=True)
    checked_name("the kind", memory.kind, empty=True)
    memory = msgspec.structs.replace(
        memory,
        created_at=checked_time("created_at", memory.created_at),
        updated_at=checked_time("updated_at", memory.updated_at),
    )
    return Row(
        kind="memory",
        id=memory.id,
        # When it was put, so that pruning removes just what it has seen.
        revision=time_ns() // 1000,
        body=encoded("memory", memory, "value"),
        places=_places(memory),
    )


def _places(memory: MemoryRecord) -> Mapping[str, Place]:
    sort = joined(memory.key, memory.id)
    touched = Place("", joined(time_key(memory.updated_at), memory.id))
    places = {"all": Place("", sort), "touched": touched}
    parts = {"agent": memory.agent_id, "user": memory.user_id, "session": memory.session_id}
    return places | {index: Place(part, sort) for index, part in parts.items() if part}
