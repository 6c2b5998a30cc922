"""Stores whose tenants see one another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import datetime
from typing import Any

from msgspec.structs import replace
from reference_store import Plants, Reference, Tables, World

from gnomon.errors import InvalidInput
from gnomon.types.records import (
    LedgerEvent,
    MemoryRecord,
    Page,
    SessionRecord,
)


class OneTenant(Reference):
    def own_tables(self, world: World) -> Tables:
        return world.tenants.setdefault("default", Tables())


class ViewsOfOneAreTwo(Reference):
    """Every view begins with nothing."""

    def scoped(self, tenant: str) -> Reference:
        count = self.root.__dict__["views"] = self.root.__dict__.get("views", 0) + 1
        self.check_name("the tenant", tenant)
        return type(self)(self.root, f"{tenant} {count}")


class TenantsIgnoreCase(Reference):
    def own_tables(self, world: World) -> Tables:
        return world.tenants.setdefault(self.tenant.lower(), Tables())


class SharesMemory(Reference):
    def own_tables(self, world: World) -> Tables:
        tables = super().own_tables(world)
        tables.memory = world.tenants.setdefault("default", Tables()).memory
        return tables


class SharesTraces(Reference):
    def own_tables(self, world: World) -> Tables:
        tables = super().own_tables(world)
        tables.traces = world.tenants.setdefault("default", Tables()).traces
        return tables


class SharesLogs(Reference):
    def own_tables(self, world: World) -> Tables:
        tables = super().own_tables(world)
        shared = world.tenants.setdefault("default", Tables())
        tables.events, tables.tails = shared.events, shared.tails
        return tables


class SharesChains(Reference):
    def own_tables(self, world: World) -> Tables:
        tables = super().own_tables(world)
        shared = world.tenants.setdefault("default", Tables())
        tables.audit, tables.heads = shared.audit, shared.heads
        return tables


class SharesBlobs(Reference):
    def own_tables(self, world: World) -> Tables:
        tables = super().own_tables(world)
        tables.blobs = world.tenants.setdefault("default", Tables()).blobs
        return tables


class PrunesEverybody(Reference):
    async def prune(self, kind: str, older_than: datetime) -> int:
        for tenant in list(self.root.world.tenants):
            await super(PrunesEverybody, type(self)(self.root, tenant)).prune(kind, older_than)
        return 0


class JoinsKeys(Reference):
    """A tenant's rows and another's are told apart by a key of both names."""

    def own_tables(self, world: World) -> Tables:
        return world.tenants.setdefault("all", Tables())

    def joined(self, name: str) -> str:
        return f"{self.tenant}:{name}"

    async def create_session(self, session: SessionRecord) -> None:
        await super().create_session(replace(session, id=self.joined(session.id)))

    async def get_session(self, session_id: str) -> SessionRecord | None:
        found = await super().get_session(self.joined(session_id))
        return found and replace(found, id=session_id)


class TakesAnyTenant(Reference):
    def scoped(self, tenant: str) -> Reference:
        return type(self)(self.root, tenant or "default")


class CursorsKnowTheTenant(Reference):
    """And who has one sees the tenant it was made for."""

    def cursor(self, listed: str, key: list[Any]) -> str:
        return super().cursor(f"{listed}@{self.tenant}", key)

    async def list_memory(self, *args: Any, **options: Any) -> Page[MemoryRecord]:
        return await self._theirs(options).list_memory(*args, **options)

    def _theirs(self, options: dict[str, Any]) -> Any:
        for tenant in list(self.root.world.tenants):
            with suppress(InvalidInput):
                super().opened(f"memory@{tenant}", options.get("cursor") or "")
                return super(CursorsKnowTheTenant, type(self)(self.root, tenant))
        return super()

    def opened(self, listed: str, cursor: str) -> list[Any]:
        return super().opened(f"{listed}@{self.tenant}", cursor)


class WatchesEverybody(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        while True:
            for tables in self.root.world.tenants.values():
                for event in [each for each in tables.events.get(session_id, ()) if each.seq > after_seq]:
                    after_seq = event.seq
                    yield event
            await asyncio.sleep(0.001)


PLANTS: Plants = {
    "test_a_view_sees_none_of_anothers_rows": [
        (OneTenant, "seen by a view that has nothing.'get_session'.: expected"),
        (SharesMemory, "seen by a view that has nothing.'get_memory'.: expected"),
        (SharesTraces, "seen by a view that has nothing.'get_trace'.: expected"),
        (SharesLogs, "seen by a view that has nothing.'list_events'. length: expected"),
        (SharesChains, "seen by a view that has nothing.'list_audit_logs'. length: expected"),
    ],
    "test_the_same_ids_are_rows_of_their_own_in_each_tenant": [
        (OneTenant, "session s exists"),
        (SharesMemory, "a tenant's rows.'get_memory'..value: expected"),
        (SharesTraces, "span s has ended"),
        (SharesChains, "a tenant's rows.'list_audit_logs'. length: expected"),
    ],
    "test_no_view_changes_anothers_rows": [
        (SharesTraces, "the other's rows.'get_trace'.: expected"),
        (SharesLogs, "append_event at another's tail: expected"),
        (SharesBlobs, "sweep_blobs: expected"),
        (PrunesEverybody, "the other's rows.'get_session'.: expected"),
    ],
    "test_the_store_itself_is_the_tenant_default": [
        (ViewsOfOneAreTwo, "the sessions: expected"),
    ],
    "test_tenants_of_any_name_are_kept_apart": [
        (TenantsIgnoreCase, "session s exists"),
    ],
    "test_an_id_cannot_be_made_to_look_like_anothers": [
        (JoinsKeys, "session a0:b:c exists"),
    ],
    "test_a_name_that_cannot_be_a_tenant_is_refused": [
        (TakesAnyTenant, "sessions of tenant '': expected"),
    ],
    "test_a_cursor_of_another_tenant_shows_nothing_of_it": [
        (CursorsKnowTheTenant, "list_memory with another tenant's cursor: expected"),
    ],
    "test_writers_of_two_tenants_do_not_meet": [
        (SharesLogs, "the log ends with 1"),
    ],
    "test_a_watcher_hears_of_its_own_tenant_only": [
        (WatchesEverybody, "while only another wrote: expected"),
    ],
    "test_each_tenant_has_its_own_blobs": [
        (SharesBlobs, "another's blob: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
