"""DynamoDB keeps what a store promises, by the real driver; the server is an emulator."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager

import pytest

import schemas
import servers
from gnomon.contracts.storage import Storage
from gnomon.storage._audit import audit_row
from gnomon.storage._dynamo_items import SCHEMA_KEY, row_key
from gnomon.storage._dynamo_table import Delete, Put, Table
from gnomon.storage.dynamo import DynamoRows, DynamoStorage
from gnomon.testing.storage import StorageContract
from gnomon.types.records import AuditLog


class TestDynamo(StorageContract):
    @classmethod
    def setup_class(cls) -> None:
        servers.shared("dynamo")  # before the first check, which counts the sockets that are open

    @pytest.fixture(autouse=True)
    def credentials(self, monkeypatch: pytest.MonkeyPatch) -> None:
        server = servers.shared("dynamo")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Storage, None]:
        self.address = self.fresh_url()
        async with DynamoStorage(self.address) as storage:
            await storage.migrate()
            yield storage

    def url(self, storage: Storage) -> str:
        return self.address

    def fresh_url(self) -> str:
        return f"dynamodb://us-east-1/t{uuid.uuid4().hex}?endpoint={servers.shared('dynamo').url}"

    def old_urls(self) -> Sequence[str]:
        return schemas.old_urls("dynamo")

    def interrupt(self, storage: Storage) -> Awaitable[object]:
        return asyncio.to_thread(_restart)

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        row = audit_row(stored)
        key, table = row_key("default", row.kind, row.id), _table(storage)
        if forged is None:
            return not await table.commit([Delete(key, "attribute_exists(pk)")])
        found = await table.get(key)
        assert found is not None
        return not await table.commit([Put({**found, "body": audit_row(forged).body})])

    async def make_newer(self, storage: Storage) -> bool:
        return not await _table(storage).commit([Put({**SCHEMA_KEY.item, "schema_version": 99})])


def _table(storage: Storage) -> Table:
    """The table itself, past everything that keeps order in it."""
    assert isinstance(storage, DynamoStorage)
    rows = storage._rows.rows
    assert isinstance(rows, DynamoRows)
    return rows._table


def _restart() -> None:
    server = servers.shared("dynamo")
    server.kill()
    server.start()
