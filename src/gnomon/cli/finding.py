"""Which session is meant: by the beginning of its id, or the latest of this folder."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar, cast

from gnomon import registry
from gnomon.cli.keeping import Place, prepare
from gnomon.cli.kept import AGENT, Kept, here
from gnomon.cli.problems import printable
from gnomon.contracts.storage import Storage
from gnomon.errors import InvalidInput, NotFound
from gnomon.types.records import SessionRecord

__all__ = ["SHORT", "by_id", "in_store", "latest_here", "opened", "root_by_id", "root_id", "rows", "short"]

_T = TypeVar("_T")

SHORT = 16
"""An id to its millisecond; few have two sessions of the same."""

_PAGE = 200
_MOST = 20_000
"""How many rows are looked through for the beginning of an id: the newest."""


def short(session_id: str) -> str:
    """The id as it is shown; names that people chose stay whole."""
    return session_id[:SHORT] if session_id.startswith("ses_") else printable(session_id, 60)


@asynccontextmanager
async def opened(place: Place) -> AsyncGenerator[Storage, None]:
    """The store with its tables."""
    prepare(place)
    store = registry.storage(place.url)
    try:
        await store.migrate()
        yield store
    finally:
        await store.close()


def in_store(place: Place, work: Callable[[Storage], Awaitable[_T]]) -> _T:
    async def run() -> _T:
        async with opened(place) as store:
            return await work(store)

    return asyncio.run(run())


async def by_id(store: Storage, typed: str) -> SessionRecord:
    """The session whose id is, or begins with, what was typed."""
    if not typed:
        raise InvalidInput("the id of a session is empty", hint="gnomon sessions lists them")
    exact = await store.get_session(typed)
    if exact is not None:
        return exact
    starts = (typed, f"ses_{typed}")
    found = [row async for row in rows(store, "") if row.id.startswith(starts)]
    if len(found) == 1:
        return found[0]
    shown = printable(typed, 60)
    if found:
        listed = ", ".join(printable(row.id, 60) for row in found[:5])
        more = ", …" if len(found) > 5 else ""
        raise InvalidInput(
            f"{len(found)} sessions begin with {shown!r}: {listed}{more}", hint="type more of it"
        )
    raise NotFound(f"there is no session {shown!r}", hint="gnomon sessions lists them")


async def root_by_id(store: Storage, typed: str) -> SessionRecord:
    """The session that a person began, also where one was named that works for it."""
    row = await by_id(store, typed)
    root = root_id(row)
    return row if root == row.id else await by_id(store, root)


def root_id(row: SessionRecord) -> str:
    kin = row.metadata.get("subagent")
    root = cast("dict[str, object]", kin).get("root") if isinstance(kin, dict) else None
    return root if isinstance(root, str) else row.id


async def latest_here(store: Storage) -> SessionRecord:
    """The session of this folder that was used last, as far as the newest go."""
    folder = here()
    found: list[SessionRecord] = []
    seen = 0
    async for row in rows(store, AGENT):
        seen += 1
        if folder and Kept.of(row.metadata).cwd == folder:
            found.append(row)
        if found and seen % _PAGE == 0:
            break
    if found:
        return max(found, key=lambda row: (row.updated_at, row.id))
    raise nothing_here()


def nothing_here() -> NotFound:
    hint = "gnomon PROMPT begins one; gnomon sessions lists all, gnomon -r ID PROMPT goes on with one"
    return NotFound("no session was begun in this folder", hint=hint)


async def rows(store: Storage, agent: str) -> AsyncGenerator[SessionRecord, None]:
    """The newest sessions of an agent, or of all; not without end."""
    cursor, seen = None, 0
    while seen < _MOST:
        page = await store.list_sessions(agent, _PAGE, cursor=cursor)
        for row in page.items:
            yield row
        seen += len(page.items)
        cursor = page.next
        if cursor is None:
            return
