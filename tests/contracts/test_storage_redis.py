"""Redis keeps what a store promises: a real server, that writes to disk before it answers."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager

import redis.asyncio

import schemas
import servers
from gnomon.contracts.storage import Storage
from gnomon.storage._audit import audit_row
from gnomon.storage.redis import RedisStorage
from gnomon.testing.storage import StorageContract
from gnomon.types.records import AuditLog


class TestRedis(StorageContract):
    @classmethod
    def setup_class(cls) -> None:
        servers.shared("redis")  # before the first check, which counts the sockets that are open

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Storage, None]:
        self.address = self.fresh_url()
        async with RedisStorage(self.address) as storage:
            await storage.migrate()
            yield storage

    def url(self, storage: Storage) -> str:
        return self.address

    def fresh_url(self) -> str:
        """One server for all: a prefix is as good as a database."""
        return f"{servers.shared('redis').url}?prefix=t{uuid.uuid4().hex}"

    def old_urls(self) -> Sequence[str]:
        return schemas.old_urls("redis")

    def interrupt(self, storage: Storage) -> Awaitable[object]:
        return self._disconnected()

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        row = audit_row(stored)
        key = f"{self._prefix}:{{7:default}}:row:{row.kind}:{row.id}"
        async with self._by_hand() as client:
            if forged is None:
                return await client.delete(key) == 1
            return await client.hset(key, "body", audit_row(forged).body) == 0

    async def make_newer(self, storage: Storage) -> bool:
        async with self._by_hand() as client:
            return bool(await client.set(f"{self._prefix}:schema", 99))

    async def _disconnected(self) -> None:
        async with self._by_hand() as client:
            await client.execute_command("CLIENT", "KILL", "TYPE", "normal")
            await client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")

    @property
    def _prefix(self) -> str:
        return self.address.rpartition("=")[2]

    def _by_hand(self) -> redis.asyncio.Redis:
        return redis.asyncio.Redis.from_url(servers.shared("redis").url)
