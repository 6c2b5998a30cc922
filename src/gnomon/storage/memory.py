"""A store in this process's memory: for tests and for what need not last."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from gnomon.errors import ConfigError
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import READ_BYTES, SCHEMA, Found, Group, Row, Rows, Span

__all__ = ["MemoryStorage"]


class MemoryStorage(RecordStorage):
    """Everything is gone when the process ends: `MemoryStorage()`, or `memory://` as a URL."""

    def __init__(self, url: str = "memory://") -> None:
        if url.rstrip("/") != "memory:":
            raise ConfigError("the memory store has no address", hint="write memory://")
        super().__init__(MemoryTables())


class MemoryTables(Rows):
    """Dictionaries and sorted lists; one event loop step a call, so that nothing needs a lock."""

    name = "memory"
    poll_s = 60.0

    def __init__(self) -> None:
        super().__init__("in this process")
        self.durability = "everything is gone when the process ends"
        self.locks = _Held()
        self._rows: dict[tuple[str, str, str], Row] = {}
        self._order: dict[tuple[str, str, str, str], list[tuple[str, str]]] = {}
        self._logs: dict[tuple[str, str], list[Group]] = {}

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        stored = self._rows.get((tenant, row.kind, row.id))
        if expect is not None and (stored.revision if stored else 0) != expect:
            return False
        self._unlist(tenant, stored)
        self._rows[tenant, row.kind, row.id] = row
        for index, place in row.places.items():
            insort(self._order.setdefault((tenant, row.kind, index, place.part), []), (place.sort, row.id))
        return True

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        row = self._rows.get((tenant, kind, id))
        return None if row is None else Found(row.id, row.revision, row.body)

    async def find(self, tenant: str, span: Span) -> list[Found]:
        order = self._order.get((tenant, span.kind, span.index, span.part), [])
        low = bisect_right(order, (span.above, "\U0010ffff")) if span.above else 0
        high = bisect_left(order, (span.below, "")) if span.below else len(order)
        places = order[max(low, high - span.limit) : high][::-1] if span.descending else order[low:high]
        return [self._found(tenant, span.kind, id, sort) for sort, id in places[: span.limit]]

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        stored = self._rows.get((tenant, kind, id))
        if stored is None or (expect is not None and stored.revision != expect):
            return False
        self._unlist(tenant, stored)
        del self._rows[tenant, kind, id]
        return True

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        log = self._logs.get((tenant, session_id), [])
        if (log[-1].last if log else 0) != group.first - 1:
            return False
        self._logs.setdefault((tenant, session_id), log).append(group)
        return True

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        log = self._logs.get((tenant, session_id), [])
        groups: list[Group] = []
        size = 0
        for group in log[bisect_right(log, after_seq, key=_last) :]:
            if len(groups) == limit or size >= READ_BYTES:
                break
            groups.append(group)
            size += len(group.body)
        return groups

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        log = self._logs.get((tenant, session_id), [])
        end = len(log) if through is None else bisect_right(log, through, key=_last)
        removed = sum(group.last - group.first + 1 for group in log[:end])
        del log[:end]
        if not log:
            self._logs.pop((tenant, session_id), None)
        return removed

    async def version(self) -> int:
        return SCHEMA

    async def migrate(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def _found(self, tenant: str, kind: str, id: str, sort: str) -> Found:
        row = self._rows[tenant, kind, id]
        return Found(row.id, row.revision, row.body, sort)

    def _unlist(self, tenant: str, row: Row | None) -> None:
        for index, place in row.places.items() if row is not None else ():
            order = self._order[tenant, row.kind, index, place.part]  # pyright: ignore[reportOptionalMemberAccess]
            del order[bisect_left(order, (place.sort, row.id))]  # pyright: ignore[reportOptionalMemberAccess]


class _Held:
    """Names held in this process."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    @asynccontextmanager
    async def holding(self, name: str) -> AsyncGenerator[bool, None]:
        is_ours = name not in self._names
        self._names.add(name)
        try:
            yield is_ours
        finally:
            if is_ours:
                self._names.discard(name)

    async def is_held(self, name: str) -> bool:
        return name in self._names


def _last(group: Group) -> int:
    return group.last
