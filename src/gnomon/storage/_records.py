"""A whole store over the primitives of a back end: written once, for all of them."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from gnomon.contracts.storage import PAGE_SIZE, StoreStatus
from gnomon.errors import InvalidInput
from gnomon.storage._blobs import Blobs
from gnomon.storage._memory_rows import MemoryRows
from gnomon.storage._owners import Owners
from gnomon.storage._part import ENROLLED
from gnomon.storage._retention import Retention
from gnomon.storage._rows import SCHEMA, Rows
from gnomon.storage._steady import PATIENCE_S, Steady
from gnomon.storage._tenants import TenantList
from gnomon.storage._traces import TraceRows
from gnomon.storage._values import checked_name
from gnomon.types.records import Page

__all__ = ["DEFAULT_TENANT", "RecordStorage"]

DEFAULT_TENANT = "default"


class RecordStorage(Retention, MemoryRows, TraceRows, Blobs, Owners, TenantList):
    """A store, or the view that one tenant has of it. A back end subclasses it and gives its `Rows`."""

    def __init__(self, rows: Rows, *, patience_s: float = PATIENCE_S) -> None:
        super().__init__(Steady(rows, patience_s), DEFAULT_TENANT)
        self._is_view = False

    @property
    def tenant(self) -> str:
        """Whose rows this is about."""
        return self._tenant

    @property
    def where(self) -> str:
        """The database, in words, without a password."""
        return self._rows.where

    def scoped(self, tenant: str) -> RecordStorage:
        checked_name("the tenant", tenant)
        if self._is_view and tenant != self._tenant:
            raise InvalidInput("a view of one tenant gives no view of another", hint="ask the store itself")
        if tenant == ENROLLED:
            raise InvalidInput(f"no tenant can be called {tenant!r}")
        view = RecordStorage.__new__(RecordStorage)
        view._rows, view._tenant, view._is_view = self._rows, tenant, True
        return view

    async def list_tenants(self, limit: int = PAGE_SIZE, *, cursor: str | None = None) -> Page[str]:
        """Every tenant that has ever stored something, by name; a view knows of its own alone."""
        return Page((self._tenant,)) if self._is_view else await super().list_tenants(limit, cursor=cursor)

    async def schema_version(self) -> int:
        """The version of the tables that are there; 0 for none."""
        return await self._rows.version()

    async def status(self) -> StoreStatus:
        found, said = await self._rows.version(), self._rows.rows.durability
        notes = (said,) if said else ()
        return StoreStatus(where=self.where, schema_found=found, schema_known=SCHEMA, notes=notes)

    async def migrate(self) -> None:
        await self._rows.migrate()

    async def close(self) -> None:
        if not self._is_view:
            await self._rows.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
