"""How the suite of `Storage` asks and judges: refusals, whole lists, and what differs between two rows."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar, cast

import msgspec

from gnomon.contracts.storage import PAGE_SIZE, LedgerStore, Storage, read_events
from gnomon.errors import GnomonError
from gnomon.testing._suite import expect, expect_some
from gnomon.types.records import LedgerEvent, Page

__all__ = [
    "NextPage",
    "expect_nothing",
    "expect_same",
    "ledger",
    "outcome",
    "refused",
    "rows_of",
    "short",
    "together",
    "walk",
]

_T = TypeVar("_T")
NextPage: TypeAlias = Callable[[str | None], Awaitable[Page[_T]]]

_MOST_PAGES = 1_000


# --- refusals ---------------------------------------------------------------------


async def refused(what: str, call: Awaitable[object], *kinds: type[GnomonError]) -> GnomonError:
    """The error that the call must end with: one of these kinds, and one that says something."""
    __tracebackhide__ = True
    found = await outcome(call)
    wanted = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(found, kinds):
        expect_some(f"{what}: the message of {type(found).__name__}", found.message)
        return found
    cause = found if isinstance(found, Exception) else None
    raise AssertionError(f"{what}: expected {wanted}, found {short(found)}") from cause


async def outcome(call: Awaitable[object]) -> object:
    """What a call gives, or the error that it raises."""
    try:
        return await call
    except Exception as error:  # noqa: BLE001 - which one it is, is what a check asks
        return error


async def together(*calls: Coroutine[object, object, _T]) -> list[_T]:
    """The answers of calls that run at the same time; when one fails, no other is left behind."""
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    failed = [task for task in tasks if not task.cancelled() and task.exception() is not None]
    return [task.result() for task in failed or tasks]


# --- lists ------------------------------------------------------------------------


async def walk(page: NextPage[_T], limit: int, cursor: str | None = None) -> list[_T]:
    """Every row from the cursor on, page after page, none of which may hold more than `limit`."""
    rows: list[_T] = []
    for _ in range(_MOST_PAGES):
        found = await page(cursor)
        if len(found.items) > limit:
            raise AssertionError(f"a page with limit={limit}: found {len(found.items)} rows")
        rows += found.items
        if found.next is None:
            return rows
        cursor = found.next
    raise AssertionError(f"pages with limit={limit}: expected an end, found {_MOST_PAGES} pages and no end")


async def rows_of(listing: Callable[..., Awaitable[Page[_T]]], *args: object, **names: object) -> list[_T]:
    """The whole of a list, as its method gives it by default."""
    return await walk(lambda cursor: listing(*args, **names, cursor=cursor), PAGE_SIZE)


async def ledger(store: LedgerStore, session_id: str = "s", after_seq: int = 0) -> list[LedgerEvent]:
    """The whole log of a session."""
    async with read_events(store, session_id, after_seq=after_seq, page_size=200) as stream:
        return [event async for event in stream]


async def expect_nothing(storage: Storage, *, but: str = "") -> None:
    """No list has a row, but for a session of that name."""
    __tracebackhide__ = True
    sessions = [row.id for row in await rows_of(storage.list_sessions) if row.id != but]
    expect("sessions that were stored", [], sessions)
    expect("memory that was stored", [], await rows_of(storage.list_memory))
    for name in ("s", "odd"):
        expect("traces that were stored", [], await rows_of(storage.list_traces, name))
        expect("checkpoints that were stored", [], await rows_of(storage.list_checkpoints, name))
        expect("audit rows that were stored", [], await rows_of(storage.list_audit_logs, name))
        expect("events that were stored", [], await ledger(storage, name))


# --- what differs -----------------------------------------------------------------


def expect_same(what: str, expected: object, found: object) -> None:
    """Fail where the two differ, `True` from `1`, `1` from `1.0` and UTC from another zone too."""
    __tracebackhide__ = True
    where = _difference(expected, found, "")
    if where:
        raise AssertionError(f"{what}{where}")


def _difference(expected: object, found: object, path: str) -> str:
    if isinstance(expected, datetime) and isinstance(found, datetime):
        return "" if _is_same_time(expected, found) else _told(path, expected, found)
    if type(expected) is not type(found):
        return _told(path, expected, found)
    if isinstance(expected, msgspec.Struct):
        names = expected.__struct_fields__
        pairs = [(f".{name}", getattr(expected, name), getattr(found, name)) for name in names]
        return _first_difference(pairs, path)
    if isinstance(expected, dict):
        return _between_dicts(cast("dict[str, object]", expected), cast("dict[str, object]", found), path)
    if isinstance(expected, list | tuple):
        return _between_rows(cast("Sequence[object]", expected), cast("Sequence[object]", found), path)
    same = repr(expected) == repr(found) if isinstance(expected, float) else expected == found
    return "" if same else _told(path, expected, found)


def _is_same_time(expected: datetime, found: datetime) -> bool:
    offset = found.utcoffset()
    return offset is not None and not offset and expected == found


def _between_dicts(expected: dict[str, object], found: dict[str, object], path: str) -> str:
    if expected.keys() != found.keys():
        return _told(f"{path} keys", sorted(map(repr, expected)), sorted(map(repr, found)))
    return _first_difference([(f"[{key!r}]", expected[key], found[key]) for key in expected], path)


def _between_rows(expected: Sequence[object], found: Sequence[object], path: str) -> str:
    if len(expected) != len(found):
        return _told(f"{path} length", len(expected), len(found))
    pairs = zip(expected, found, strict=True)
    return _first_difference([(f"[{at}]", one, other) for at, (one, other) in enumerate(pairs)], path)


def _first_difference(pairs: Sequence[tuple[str, object, object]], path: str) -> str:
    found = (_difference(one, other, f"{path}{step}") for step, one, other in pairs)
    return next((difference for difference in found if difference), "")


def _told(path: str, expected: object, found: object) -> str:
    return f"{path}: expected {short(expected)}, found {short(found)}"


def short(value: object, most: int = 300) -> str:
    """A value in a sentence; a megabyte does not go into one."""
    text = repr(value)
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … {text[-most // 4 :]} ({len(text)} characters)"
