"""Stores that break a promise about lists."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from msgspec.structs import replace
from reference_store import Plants, Reference, time_text

from gnomon.errors import InvalidInput
from gnomon.types.records import (
    MemoryRecord,
    Page,
    SessionRecord,
    Trace,
)


# --- D3: lists ------------------------------------------------------------------------------------
class CursorIsAnOffset(Reference):
    def page(
        self, listed: str, rows: Any, key: Any, limit: int, offset: int, cursor: str | None, **options: Any
    ) -> Page[Any]:
        self.check_range(limit, offset, cursor)
        start = offset if cursor is None else self.opened(listed, cursor)[0]
        ordered = self.in_order(rows, key, options.get("down", False))
        found = tuple(map(self.given, ordered[start : start + limit]))
        return Page(found, self.cursor(listed, [start + limit]) if len(ordered) > start + limit else None)


class SkipsEqualRows(Reference):
    """The cursor holds the time alone."""

    def due_key(self, row: SessionRecord) -> list[Any]:
        return super().due_key(row)[:1]


class PromisesAnEmptyPage(Reference):
    def page(self, listed: str, rows: Any, key: Any, limit: int, *args: Any, **options: Any) -> Page[Any]:
        page = super().page(listed, rows, key, limit, *args, **options)
        if page.next is None and len(page.items) == limit:
            return Page(page.items, self.cursor(listed, key(page.items[-1])))
        return page


class NoneForAnEmptyList(Reference):
    def page(self, listed: str, *args: Any, **options: Any) -> Page[Any]:
        page = super().page(listed, *args, **options)
        return page if page.items else Page((), self.cursor(listed, [""]))


class CursorsAreUsedUp(Reference):
    def opened(self, listed: str, cursor: str) -> list[Any]:
        used = self.root.__dict__.setdefault("used", set())
        if cursor in used:
            raise InvalidInput("used")
        used.add(cursor)
        return super().opened(listed, cursor)


class IgnoresTheOffset(Reference):
    def page(
        self, listed: str, rows: Any, key: Any, limit: int, offset: int, *args: Any, **options: Any
    ) -> Page[Any]:
        return super().page(listed, rows, key, limit, min(offset, 0), *args, **options)


class OffsetBeforeTheFilter(Reference):
    async def list_memory(
        self, agent_id: str = "", kind: str = "", limit: int = 50, offset: int = 0, **options: Any
    ) -> Page[MemoryRecord]:
        page = await super().list_memory("", "", limit, offset, cursor=options.get("cursor"))
        user_id = options.get("user_id", "")
        return Page(
            tuple(row for row in page.items if self.remembers(row, agent_id, user_id, kind)), page.next
        )


class TakesCursorAndOffset(Reference):
    def check_range(self, limit: int, offset: int, cursor: str | None) -> None:
        super().check_range(limit, offset, None)


class TakesAnyCursor(Reference):
    def opened(self, listed: str, cursor: str) -> list[Any]:
        try:
            return super().opened(listed, cursor)
        except InvalidInput:
            return []


class LetsCursorErrorsOut(Reference):
    def opened(self, listed: str, cursor: str) -> list[Any]:
        try:
            return super().opened(listed, cursor)
        except InvalidInput as error:
            raise ValueError("bad cursor") from error


class TakesCursorsOfOthers(Reference):
    def cursor(self, listed: str, key: list[Any]) -> str:
        return super().cursor("list", key)

    def opened(self, listed: str, cursor: str) -> list[Any]:
        return super().opened("list", cursor)


class TakesNoLimit(Reference):
    def check_range(self, limit: int, offset: int, cursor: str | None) -> None:
        super().check_range(max(limit, 1), max(offset, 0), cursor)

    def page(
        self, listed: str, rows: Any, key: Any, limit: int, offset: int, *args: Any, **options: Any
    ) -> Page[Any]:
        return super().page(listed, rows, key, max(limit, 1), max(offset, 0), *args, **options)


class OldestFirst(Reference):
    def session_key(self, row: SessionRecord) -> list[Any]:
        return [f"{datetime.max.replace(tzinfo=UTC) - row.created_at}", row.id]


class TiesTheOtherWay(Reference):
    def session_key(self, row: SessionRecord) -> list[Any]:
        return [time_text(row.created_at), "".join(chr(0x110000 - ord(c) - 1) for c in row.id)]


class ByWholeSeconds(Reference):
    def session_key(self, row: SessionRecord) -> list[Any]:
        return [time_text(row.created_at)[:19], row.id]


class IgnoresTheAgent(Reference):
    async def list_sessions(self, agent_id: str = "", *args: Any, **options: Any) -> Page[SessionRecord]:
        return await super().list_sessions("", *args, **options)


class OrdersKeysLikeALanguage(Reference):
    def memory_key(self, row: MemoryRecord) -> list[Any]:
        return [row.key.casefold(), row.key, row.id]


class OrdersKeysInUTF16(Reference):
    def memory_key(self, row: MemoryRecord) -> list[Any]:
        return [row.key.encode("utf-16-be").hex(), row.id]


class TracesByInsertion(Reference):
    def trace_key(self, row: Trace) -> list[Any]:
        return [0, list(self.own_tables(self.root.world).traces).index(row.id)]


class DeletedCursorRowEndsTheList(Reference):
    def page(self, listed: str, rows: Any, key: Any, *args: Any, **options: Any) -> Page[Any]:
        cursor = args[-1]
        rows = list(rows)
        keys = self.in_order(map(key, rows), lambda each: each, options.get("down", False))
        if cursor is not None and self.opened(listed, cursor) not in keys:
            return Page(())
        return super().page(listed, rows, key, *args, **options)


# --- runnable -------------------------------------------------------------------------------------
class NowIsLate(Reference):
    def is_due(self, row: SessionRecord, now: datetime) -> bool:
        return row.runnable or (row.wake_at is not None and row.wake_at < now)


class ForgetsWakeAt(Reference):
    def is_due(self, row: SessionRecord, now: datetime) -> bool:
        return row.runnable


class RunnableByUpdate(Reference):
    def due_key(self, row: SessionRecord) -> list[Any]:
        return [time_text(row.updated_at), row.id]


class StaysRunnable(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        before = await self.get_session(session.id)
        if before is not None and before.runnable:
            session = replace(session, runnable=True)
        return await super().update_session(session)


PLANTS: Plants = {
    "test_the_next_page_is_there_only_when_it_has_rows": [
        (PromisesAnEmptyPage, "list_sessions, 1 at a time: a last page that has no rows was promised"),
    ],
    "test_an_empty_list_is_one_empty_page": [
        (NoneForAnEmptyList, "list_sessions of nothing: expected"),
    ],
    "test_the_same_cursor_twice_gives_the_same_page": [
        (CursorsAreUsedUp, "used"),
    ],
    "test_offset_skips_rows": [
        (IgnoresTheOffset, "list_sessions from offset 1: expected"),
    ],
    "test_a_filter_and_pages_go_together": [
        (OffsetBeforeTheFilter, ".'agent_id': 'rare'., from 1, 2 at a time: expected"),
    ],
    "test_cursor_and_offset_together_are_refused": [
        (TakesCursorAndOffset, "list_sessions: expected"),
    ],
    "test_a_cursor_that_is_none_is_refused": [
        (TakesAnyCursor, "list_sessions with cursor 'garbage': expected"),
        (LetsCursorErrorsOut, "list_sessions with cursor 'garbage': expected"),
    ],
    "test_the_cursor_of_another_list_is_refused": [
        (TakesCursorsOfOthers, "list_memory with a cursor of list_sessions: expected"),
    ],
    "test_a_damaged_cursor_is_refused_or_is_a_place": [
        (LetsCursorErrorsOut, "list_sessions with 'Wy"),
    ],
    "test_a_limit_below_one_and_an_offset_below_none_are_refused": [
        (TakesNoLimit, "list_sessions with limit=0: expected"),
    ],
    "test_sessions_are_listed_newest_first_and_then_by_id": [
        (OldestFirst, "the sessions: expected"),
        (TiesTheOtherWay, "the sessions: expected"),
        (ByWholeSeconds, "the sessions: expected"),
    ],
    "test_an_empty_agent_lists_the_sessions_of_all": [
        (IgnoresTheAgent, "the sessions of agent 'a': expected"),
    ],
    "test_memory_is_listed_by_key_and_then_id": [
        (OrdersKeysLikeALanguage, "keys and ids: expected"),
        (OrdersKeysInUTF16, "keys and ids: expected"),
    ],
    "test_traces_are_listed_by_start_and_then_id": [
        (TracesByInsertion, "the traces: expected"),
    ],
    "test_rows_that_come_meanwhile_make_no_page_skip_or_repeat": [
        (CursorIsAnOffset, "the rows that were there throughout: expected"),
    ],
    "test_rows_that_go_meanwhile_make_no_page_skip_or_repeat": [
        (CursorIsAnOffset, "the rows that were there throughout: expected"),
        (DeletedCursorRowEndsTheList, "the rows that were there throughout: expected"),
    ],
    "test_sessions_that_go_meanwhile_make_no_page_skip_or_repeat": [
        (CursorIsAnOffset, "the sessions that stayed: expected"),
        (DeletedCursorRowEndsTheList, "the sessions that stayed: expected"),
    ],
    "test_paging_beside_a_writer_misses_nothing_that_was_there": [
        (CursorIsAnOffset, "the rows that were there throughout: expected"),
    ],
    "test_sessions_that_are_runnable_or_due_are_listed": [
        (NowIsLate, "at 2024-05-17 12:30:25.123456.00:00: expected"),
        (ForgetsWakeAt, "at 2024-05-17 12:30:25.123456.00:00: expected"),
    ],
    "test_the_longest_waiting_come_first": [
        (RunnableByUpdate, "1 at a time: expected"),
    ],
    "test_a_session_leaves_the_list_when_it_is_no_longer_runnable": [
        (StaysRunnable, "not yet due: expected"),
    ],
    "test_sessions_that_wait_equally_long_are_all_listed": [
        (SkipsEqualRows, "1 at a time: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
