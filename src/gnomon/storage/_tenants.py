"""Which tenants there are: for whoever looks after the whole store."""

from __future__ import annotations

from gnomon.contracts.storage import PAGE_SIZE
from gnomon.storage._keys import cursor as made_cursor
from gnomon.storage._keys import opened
from gnomon.storage._part import ENROLLED, Part, checked_limit
from gnomon.storage._rows import Span
from gnomon.types.records import Page

__all__ = ["TenantList"]


class TenantList(Part):
    async def list_tenants(self, limit: int = PAGE_SIZE, *, cursor: str | None = None) -> Page[str]:
        """Every tenant that has ever stored something, by name."""
        limit = checked_limit(limit, 0, cursor)
        above = opened("list_tenants", cursor) if cursor is not None else ""
        span = Span(kind="tenants", index="all", above=above, limit=limit + 1)
        found = await self._rows.find(ENROLLED, span)
        names = tuple(row.id for row in found[:limit])
        return Page(names, made_cursor("list_tenants", names[-1]) if len(found) > limit else None)
