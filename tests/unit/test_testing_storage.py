"""The suite of stores: a good one passes every check, and each check has a fault that turns it red."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import SkipTest

import pytest
import reference_file_store as files
from reference_store import Reference

from gnomon.contracts.storage import Storage
from gnomon.testing import Contract, StorageContract
from gnomon.types.records import AuditLog

RULES = Contract.__gnomon_contract__
CHECKS = sorted(name for name in dir(StorageContract) if name.startswith("test_"))


class Suite(StorageContract):
    """A suite that is not collected here, over whichever store."""

    __test__ = False
    appends = 6

    def __init__(self, kind: type[Reference] = Reference) -> None:
        self.kind = kind

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Storage]:
        storage = self.kind()
        await storage.migrate()
        try:
            yield storage
        finally:
            await storage.close()

    def interrupt(self, storage: Storage) -> Awaitable[object] | None:
        return interrupted(storage)

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        tables = storage.root.world.tenants[storage.tenant]
        chain = tables.audit[stored.session_id]
        at = chain.index(stored)
        chain[at : at + 1] = [] if forged is None else [forged]
        return True


async def interrupted(storage: Reference) -> None:
    storage.root.is_down = True
    await asyncio.sleep(0.03)
    storage.root.is_down = False


def _run(suite: StorageContract, check: str, limit_s: float = 20.0) -> None:
    RULES.run(getattr(suite, check), limit_s)


@pytest.mark.parametrize("check", CHECKS)
def test_a_good_store_passes(check: str) -> None:
    try:
        _run(Suite(), check)
    except SkipTest as skipped:
        assert "URL" in str(skipped) or "older versions" in str(skipped), skipped
