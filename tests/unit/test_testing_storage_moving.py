"""The checks of what moving needs can fail: each planted bug turns one of them red."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import SkipTest
from uuid import uuid4

import msgspec
import pytest

from gnomon import registry
from gnomon.contracts.storage import Storage, StoreStatus
from gnomon.errors import GnomonError
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._storage_moving import StorageMoving
from gnomon.types.records import AuditLog, LedgerEvent, Page

CHECKS = [name for name in dir(StorageMoving) if name.startswith("test_")]


def suite(open_one: Callable[[], Storage], folder: Path | None = None) -> StorageMoving:
    class Planted(StorageMoving):
        @asynccontextmanager
        async def open(self) -> AsyncGenerator[Storage, None]:
            storage = open_one()
            await storage.migrate()
            yield storage
            await storage.close()

        def fresh_url(self) -> str | None:
            return f"sqlite:///{folder / uuid4().hex}" if folder is not None else None

    return Planted()


async def red(suite: StorageMoving) -> list[str]:
    failed: list[str] = []
    for name in CHECKS:
        try:
            await getattr(suite, name)()
        except SkipTest:
            pass
        except (AssertionError, GnomonError):
            failed.append(name)
    return failed


async def test_memory_and_sqlite_keep_all_of_it(tmp_path: Path) -> None:
    assert await red(suite(MemoryStorage)) == []
    in_files = suite(lambda: registry.storage(f"sqlite:///{tmp_path / uuid4().hex}"), tmp_path)
    assert await red(in_files) == []


class ForgetsTheLast(MemoryStorage):
    async def list_tenants(self, limit: int = 50, *, cursor: str | None = None) -> Page[str]:
        page = await super().list_tenants(limit, cursor=cursor)
        return page if page.next is not None else Page(page.items[:-1])


class OneLongPage(MemoryStorage):
    async def list_tenants(self, limit: int = 50, *, cursor: str | None = None) -> Page[str]:
        return await super().list_tenants(1_000)


class LeavesEmptyPlaces(MemoryStorage):
    async def begin_log(self, events: Sequence[LedgerEvent]) -> None:
        first = events[0]
        for seq in range(1, first.seq):
            await self.append_event(msgspec.structs.replace(first, seq=seq))
        await self.append_events(events)


class BeginsAgain(MemoryStorage):
    async def begin_log(self, events: Sequence[LedgerEvent]) -> None:
        await self._rows.cut("default", events[0].session_id, None)
        await super().begin_log(events)


class HangsUpNoAnchor(MemoryStorage):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        return await super().append_audit_log(msgspec.structs.replace(log, seq=0, hash=""))


class SaysItHasNone(MemoryStorage):
    async def status(self) -> StoreStatus:
        return msgspec.structs.replace(await super().status(), schema_found=0)


class SaysNothing(MemoryStorage):
    async def status(self) -> StoreStatus:
        return msgspec.structs.replace(await super().status(), where="")


@pytest.mark.parametrize(
    ("bug", "check"),
    [
        (ForgetsTheLast, "test_every_tenant_that_has_stored_something_is_listed_by_name"),
        (OneLongPage, "test_every_tenant_that_has_stored_something_is_listed_by_name"),
        (LeavesEmptyPlaces, "test_a_log_may_begin_in_the_midst_and_goes_on_from_there"),
        (BeginsAgain, "test_a_log_that_is_there_is_not_begun_again"),
        (HangsUpNoAnchor, "test_the_anchor_of_a_pruned_chain_is_taken_as_it_is"),
        (SaysItHasNone, "test_a_store_says_how_it_is_and_changes_nothing"),
        (SaysNothing, "test_a_store_says_how_it_is_and_changes_nothing"),
    ],
)
async def test_a_planted_bug_is_caught(bug: type[MemoryStorage], check: str) -> None:
    assert check in await red(suite(bug))


async def test_tables_that_asking_has_made_are_caught(tmp_path: Path) -> None:
    class Eager(StorageMoving):
        opener = "gnomon.registry:storage"

        def fresh_url(self) -> str:
            return "memory://"  # whose tables are always there

    with pytest.raises(AssertionError, match="schema that was found"):
        await Eager().test_a_store_without_tables_says_so_when_it_is_asked()
