"""Going through a store from end to end by its public lists, holding no more than a page or two."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import TypeAlias, TypeVar

from gnomon.contracts.storage import AUDIT_ANCHOR, Storage, SupportsTenants
from gnomon.types.records import AuditLog, Checkpoint, MemoryRecord, Page, SessionRecord, Trace

__all__ = [
    "DEFAULT_TENANT",
    "EVENTS_A_PAGE",
    "chain",
    "checkpoints",
    "memory",
    "sessions",
    "tenants_of",
    "traces",
]

DEFAULT_TENANT = "default"
"""Whose rows a store shows that was not scoped."""

EVENTS_A_PAGE = 100
_ROWS_A_PAGE = 200

_T = TypeVar("_T")
_Read: TypeAlias = Callable[[str | None], Awaitable[Page[_T]]]


async def tenants_of(store: Storage, named: Sequence[str] | None = None) -> AsyncGenerator[str, None]:
    """The tenants that were named, else all; where a store does not know them, the one it shows."""
    if named is not None:
        for tenant in dict.fromkeys(named):
            yield tenant
    elif isinstance(store, SupportsTenants):
        listing = store
        async with aclosing(_each(lambda cursor: listing.list_tenants(_ROWS_A_PAGE, cursor=cursor))) as found:
            async for tenant in found:
                yield tenant
    else:
        yield DEFAULT_TENANT


def sessions(store: Storage) -> AsyncGenerator[SessionRecord, None]:
    """Every session, the oldest first."""
    return _each_backwards(lambda cursor: store.list_sessions("", _ROWS_A_PAGE, cursor=cursor))


def checkpoints(store: Storage, session_id: str) -> AsyncGenerator[Checkpoint, None]:
    return _each(lambda cursor: store.list_checkpoints(session_id, _ROWS_A_PAGE, cursor=cursor))


def traces(store: Storage, session_id: str) -> AsyncGenerator[Trace, None]:
    return _each(lambda cursor: store.list_traces(session_id, _ROWS_A_PAGE, cursor=cursor))


def memory(store: Storage) -> AsyncGenerator[MemoryRecord, None]:
    return _each(lambda cursor: store.list_memory(limit=_ROWS_A_PAGE, cursor=cursor))


async def chain(store: Storage, session_id: str) -> AsyncGenerator[AuditLog, None]:
    """The audit rows of a session, the oldest first: from the latest anchor on, if there is one."""

    async def read(cursor: str | None) -> Page[AuditLog]:
        return _from_anchor(await store.list_audit_logs(session_id, _ROWS_A_PAGE, cursor=cursor))

    last = 0
    async with aclosing(_each_backwards(read)) as rows:
        async for row in rows:
            if row.seq > last:  # one that pruning moves onto another page comes twice
                last = row.seq
                yield row


def _from_anchor(page: Page[AuditLog]) -> Page[AuditLog]:
    """What an interrupted pruning has left behind an anchor does not count."""
    for at, row in enumerate(page.items):
        if row.action == AUDIT_ANCHOR:
            return Page(page.items[: at + 1])
    return page


async def _each(read: _Read[_T]) -> AsyncGenerator[_T, None]:
    cursor: str | None = None
    while True:
        page = await read(cursor)
        for item in page.items:
            yield item
        if page.next is None:
            return
        cursor = page.next


async def _each_backwards(read: _Read[_T]) -> AsyncGenerator[_T, None]:
    """A list from its end. Only where each page begins is remembered; the pages are read again.

    But for the first: what is added meanwhile comes at the front, and would move its rows.
    """
    first = page = await read(None)
    begins: list[str] = []
    while page.next is not None:
        begins.append(page.next)
        page = await read(page.next)
    while begins:
        for item in reversed(page.items):
            yield item
        begins.pop()
        page = await read(begins[-1]) if begins else first
    for item in reversed(first.items):
        yield item
