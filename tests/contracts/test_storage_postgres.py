"""PostgreSQL keeps what a store promises: a real server, that crashes when the suite wants it cut off."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager

import asyncpg

import schemas
import servers
from gnomon.contracts.storage import Storage
from gnomon.storage._audit import audit_row
from gnomon.storage.postgres import PostgresStorage
from gnomon.testing.storage import StorageContract
from gnomon.types.records import AuditLog


class TestPostgres(StorageContract):
    @classmethod
    def setup_class(cls) -> None:
        servers.shared("postgres")  # before the first check, which counts the sockets that are open

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Storage, None]:
        self.address = self.fresh_url()
        async with PostgresStorage(self.address) as storage:
            await storage.migrate()
            yield storage

    def url(self, storage: Storage) -> str:
        return self.address

    def fresh_url(self) -> str:
        """One server for all: a schema is as good as a database."""
        return f"{servers.shared('postgres').url}?schema=t{uuid.uuid4().hex}"

    def old_urls(self) -> Sequence[str]:
        return schemas.old_urls("postgres")

    def interrupt(self, storage: Storage) -> Awaitable[object]:
        return asyncio.to_thread(_crash)

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        row = audit_row(stored)
        where = f"{self._schema}.audit WHERE tenant = 'default' AND id = $1"
        async with self._by_hand() as connection:
            if forged is None:
                return await connection.execute(f"DELETE FROM {where}", row.id) == "DELETE 1"
            change = f"UPDATE {where.replace(' WHERE', ' SET body = $2 WHERE')}"
            return await connection.execute(change, row.id, audit_row(forged).body) == "UPDATE 1"

    async def make_newer(self, storage: Storage) -> bool:
        async with self._by_hand() as connection:
            await connection.execute(f"INSERT INTO {self._schema}.migrations VALUES (99, now())")
        return True

    @property
    def _schema(self) -> str:
        return self.address.rpartition("=")[2]

    @asynccontextmanager
    async def _by_hand(self) -> AsyncGenerator[asyncpg.Connection, None]:
        connection = await asyncpg.connect(servers.shared("postgres").url)
        try:
            yield connection
        finally:
            await connection.close()


def _crash() -> None:
    server = servers.shared("postgres")
    server.kill()
    server.start()
