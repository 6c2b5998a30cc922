"""The stores that need no server keep what a store promises."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest

import schemas
from gnomon.contracts.storage import Storage
from gnomon.storage._audit import audit_row
from gnomon.storage.memory import MemoryStorage
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.testing.storage import StorageContract
from gnomon.types.records import AuditLog


class TestMemory(StorageContract):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Storage, None]:
        async with MemoryStorage() as storage:
            await storage.migrate()
            yield storage


class TestSQLite(StorageContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self._folder = tmp_path

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Storage, None]:
        self._address = self.fresh_url()
        async with SQLiteStorage(self._address) as storage:
            await storage.migrate()
            yield storage

    def url(self, storage: Storage) -> str:
        return self._address

    def fresh_url(self) -> str:
        self._path = Path(mkdtemp(dir=self._folder)) / "store.db"
        return f"sqlite:///{self._path}"

    def old_urls(self) -> Sequence[str]:
        return schemas.old_urls("sqlite", self._folder)

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        row = audit_row(stored)
        with sqlite3.connect(self._path) as connection:
            if forged is None:
                done = connection.execute("DELETE FROM audit WHERE id = ?", (row.id,))
            else:
                values = (audit_row(forged).body, row.id)
                done = connection.execute("UPDATE audit SET body = ? WHERE id = ?", values)
        connection.close()
        return done.rowcount == 1

    async def make_newer(self, storage: Storage) -> bool:
        with sqlite3.connect(self._path) as connection:
            connection.execute("PRAGMA user_version = 99")
        connection.close()
        return True
