"""Stores for the tests of memory: two that work, and some that do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gnomon import registry
from gnomon.contracts.storage import Storage
from gnomon.types.records import MemoryRecord, Page

START = datetime(2026, 3, 1, tzinfo=UTC)


class Ticking:
    """A clock that goes on by a second each time it is looked at."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncGenerator[Storage, None]:
    url = "memory://" if kind == "memory" else f"sqlite:///{folder}/kept.db"
    storage = registry.storage(url)
    await storage.migrate()
    try:
        yield storage
    finally:
        await storage.close()


class CountingStore:
    """In memory, in pages, counting what it is asked; it gives everybody's rows, whatever was asked for."""

    def __init__(self, rows: list[MemoryRecord] | None = None) -> None:
        self.rows = {row.id: row for row in rows or []}
        self.asked: list[str] = []

    async def put_memory(self, memory: MemoryRecord) -> None:
        self.asked.append("put")
        self.rows[memory.id] = memory

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        self.asked.append("get")
        found = [row for row in self.rows.values() if row.key == key]
        return max(found, key=lambda row: row.updated_at, default=None)

    async def list_memory(
        self,
        agent_id: str = "",
        kind: str = "",
        limit: int = 50,
        offset: int = 0,
        *,
        user_id: str = "",
        cursor: str | None = None,
    ) -> Page[MemoryRecord]:
        self.asked.append("list")
        rows = sorted(self.rows.values(), key=lambda row: (row.key, row.id))
        start = int(cursor or 0)
        end = start + limit
        return Page(tuple(rows[start:end]), str(end) if end < len(rows) else None)

    async def delete_memory(self, memory_id: str) -> bool:
        self.asked.append("delete")
        return self.rows.pop(memory_id, None) is not None


class FailingStore(CountingStore):
    """Each of its methods raises the same."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def put_memory(self, memory: MemoryRecord) -> None:
        raise self.error

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        raise self.error

    async def list_memory(self, *given: object, **named: object) -> Page[MemoryRecord]:  # type: ignore[override]
        raise self.error

    async def delete_memory(self, memory_id: str) -> bool:
        raise self.error


class HangingStore(CountingStore):
    """It never answers, says when somebody waits for it, and counts who has given up."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()
        self.stopped = 0

    async def _hang(self) -> None:
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped += 1

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        await self._hang()
        return None

    async def list_memory(self, *given: object, **named: object) -> Page[MemoryRecord]:  # type: ignore[override]
        await self._hang()
        return Page(())
