"""What a store promises, kept over MongoDB's wire by the real driver; the server is an emulator on SQLite."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager

import pymongo

import schemas
import servers
from gnomon.contracts.storage import Storage
from gnomon.storage._audit import audit_row
from gnomon.storage._keys import joined
from gnomon.storage.mongo import MongoStorage
from gnomon.testing.storage import StorageContract
from gnomon.types.records import AuditLog


class TestMongo(StorageContract):
    @classmethod
    def setup_class(cls) -> None:
        servers.shared("mongo")  # before the first check, which counts the sockets that are open

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Storage, None]:
        self.address = self.fresh_url()
        async with MongoStorage(self.address) as storage:
            await storage.migrate()
            yield storage

    def url(self, storage: Storage) -> str:
        return self.address

    def fresh_url(self) -> str:
        return f"{servers.shared('mongo').url}t{uuid.uuid4().hex}"

    def old_urls(self) -> Sequence[str]:
        return schemas.old_urls("mongo")

    def interrupt(self, storage: Storage) -> Awaitable[object]:
        return asyncio.to_thread(_restart)

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        async with self._by_hand() as client:
            rows = client[self.address.rpartition("/")[2]]["gnomon_audit"]
            this = {"_id": joined("default", audit_row(stored).id)}
            if forged is None:
                return (await rows.delete_one(this)).deleted_count == 1
            return (await rows.update_one(this, {"$set": {"b": audit_row(forged).body}})).matched_count == 1

    async def make_newer(self, storage: Storage) -> bool:
        async with self._by_hand() as client:
            schema = client[self.address.rpartition("/")[2]]["gnomon_schema"]
            return (await schema.update_one({"_id": "version"}, {"$set": {"v": 99}})).matched_count == 1

    def _by_hand(self) -> pymongo.AsyncMongoClient[dict[str, object]]:
        return pymongo.AsyncMongoClient(servers.shared("mongo").url)


def _restart() -> None:
    """The server has no way to close somebody's connections but to end."""
    server = servers.shared("mongo")
    server.kill()
    server.start()
