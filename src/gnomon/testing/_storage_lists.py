"""The seven lists of a store, described alike, so that a check of paging is written once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Literal, TypeAlias

import msgspec

from gnomon.contracts.storage import Storage
from gnomon.testing._storage_asking import together, walk
from gnomon.testing._storage_records import at, audit, checkpoint, event, memory, session, trace
from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, MemoryRecord, Page, SessionRecord, Trace

__all__ = ["LISTS", "Listing", "Row", "filled", "ids", "names"]

Row: TypeAlias = SessionRecord | MemoryRecord | AuditLog | Trace | LedgerEvent | Checkpoint
_Page: TypeAlias = (
    Page[SessionRecord]
    | Page[MemoryRecord]
    | Page[AuditLog]
    | Page[Trace]
    | Page[LedgerEvent]
    | Page[Checkpoint]
)


_RUNNABLE = " (runnable)"


class Listing(msgspec.Struct, frozen=True):
    """A list whose row number n stands after row n - 1, wherever rows may be put."""

    name: str
    put: Callable[[Storage, int], Awaitable[object]]
    page: Callable[[Storage, int, int, str | None], Awaitable[_Page]]
    """The page with this limit, offset and cursor."""

    grows: Literal["anywhere", "at the end", "at the front"] = "anywhere"
    has_offset: bool = True

    async def rows(
        self, storage: Storage, limit: int, *, offset: int = 0, cursor: str | None = None
    ) -> list[Row]:
        """All rows from there on, page after page."""

        async def page(after: str | None) -> Page[Row]:
            found = await self.page(storage, limit, 0 if after else offset, after)
            return Page(found.items, found.next)

        return await walk(page, limit, cursor)

    async def some_cursor(self, storage: Storage) -> str:
        found = (await self.page(storage, 1, 0, None)).next
        if found is None:
            raise AssertionError(
                f"{self.name} of several rows with limit=1: expected a next page, found none"
            )
        return found


def _name(number: int) -> str:
    return f"row {number:04}"


def names(numbers: Iterable[int]) -> list[str]:
    return [_name(number) for number in numbers]


def ids(rows: Iterable[Row]) -> list[str]:
    """The names of rows, without what tells a runnable session from another."""
    return [row.id.removesuffix(_RUNNABLE) for row in rows]


async def filled(storage: Storage, count: int) -> None:
    """Rows 1 … count in every list; a list that grows at the front has them the other way round."""

    async def fill(listing: Listing) -> None:
        numbers = range(1, count + 1)
        for number in numbers if listing.grows != "at the front" else reversed(numbers):
            await listing.put(storage, number)

    await together(*map(fill, LISTS))


# --- each of them -------------------------------------------------------------------
# The rows of two lists are sessions: those that are runnable belong to another agent.

LISTS: tuple[Listing, ...] = (
    Listing(
        "list_sessions",
        lambda storage, n: storage.create_session(session(_name(n), agent_id="lists", created_at=at(-n))),
        lambda storage, limit, offset, cursor: storage.list_sessions("lists", limit, offset, cursor=cursor),
    ),
    Listing(
        "list_memory",
        lambda storage, n: storage.put_memory(memory(_name(n), key=f"key {n:04}")),
        lambda storage, limit, offset, cursor: storage.list_memory("", "", limit, offset, cursor=cursor),
    ),
    Listing(
        "list_audit_logs",
        lambda storage, n: storage.append_audit_log(audit(_name(n), created_at=at(-n))),
        lambda storage, limit, offset, cursor: storage.list_audit_logs("s", limit, offset, cursor=cursor),
        grows="at the front",
    ),
    Listing(
        "list_traces",
        lambda storage, n: storage.insert_trace(trace(_name(n), started_at=at(n))),
        lambda storage, limit, offset, cursor: storage.list_traces("s", limit, offset, cursor=cursor),
    ),
    Listing(
        "list_events",
        lambda storage, n: storage.append_event(event(n, id=_name(n))),
        lambda storage, limit, _, cursor: storage.list_events("s", 0, limit, cursor=cursor),
        grows="at the end",
        has_offset=False,
    ),
    Listing(
        "list_runnable",
        lambda storage, n: storage.create_session(
            session(_name(n) + _RUNNABLE, runnable=True, updated_at=at(n))
        ),
        lambda storage, limit, _, cursor: storage.list_runnable(at(0), limit, cursor=cursor),
        has_offset=False,
    ),
    Listing(
        "list_checkpoints",
        lambda storage, n: storage.save_checkpoint(checkpoint(_name(n), seq=n)),
        lambda storage, limit, offset, cursor: storage.list_checkpoints("s", limit, offset, cursor=cursor),
    ),
)
