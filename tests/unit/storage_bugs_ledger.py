"""Stores that break a promise about the log of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from reference_store import Plants, Reference, Tables

from gnomon.errors import Conflict, InvalidInput, NotFound
from gnomon.types.records import (
    LedgerEvent,
    Page,
)


class CountsFromZero(Reference):
    def check_seqs(self, group: Sequence[LedgerEvent], tail: int) -> None:
        if group[0].seq not in (tail, tail + 1) or (tail and group[0].seq == tail):
            raise Conflict("taken")


class OverwritesASeq(Reference):
    def check_seqs(self, group: Sequence[LedgerEvent], tail: int) -> None:
        if group[0].seq > tail + 1:
            raise Conflict("a gap")

    def store(self, tables: Tables, group: Sequence[LedgerEvent]) -> None:
        log = tables.events.setdefault(group[0].session_id, [])
        log[group[0].seq - 1 : group[-1].seq] = group
        tables.tails[group[0].session_id] = len(log)


class ForgivesARepeat(Reference):
    """The very same event again is no Conflict, it says."""

    def check_seqs(self, group: Sequence[LedgerEvent], tail: int) -> None:
        if group[-1].seq > tail:
            super().check_seqs(group, tail)

    def store(self, tables: Tables, group: Sequence[LedgerEvent]) -> None:
        if group[-1].seq > self.tail(tables, group[0].session_id):
            super().store(tables, group)


class LeavesGaps(Reference):
    def check_seqs(self, group: Sequence[LedgerEvent], tail: int) -> None:
        if group[0].seq <= tail:
            raise Conflict("taken")


class StoresWhatFits(Reference):
    """A group that overlaps is stored as far as it is new."""

    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        for event in events:
            await super().append_events([event])


class ChecksTheFirstSeqOnly(Reference):
    def check_seqs(self, group: Sequence[LedgerEvent], tail: int) -> None:
        super().check_seqs(group[:1], tail)


class TakesTwoSessions(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        for name in dict.fromkeys(event.session_id for event in events):
            await super().append_events([event for event in events if event.session_id == name])


class StumblesOverNothing(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        if not events:
            raise IndexError("list index out of range")
        await super().append_events(events)


class WantsAList(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        if not isinstance(events, list):
            raise TypeError("a list is wanted")
        await super().append_events(events)


class EmptiesTheGroup(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        await super().append_events(events)
        if isinstance(events, list):
            events.clear()


class IgnoresCaseOfSessions(Reference):
    def tail(self, tables: Tables, session_id: str) -> int:
        return super().tail(tables, session_id.lower())

    def log(self, tables: Tables, session_id: str) -> Sequence[LedgerEvent]:
        return super().log(tables, session_id.lower())

    def store(self, tables: Tables, group: Sequence[LedgerEvent]) -> None:
        tables.events.setdefault(group[0].session_id.lower(), []).extend(group)
        tables.tails[group[0].session_id.lower()] = group[-1].seq


class ChecksThenWrites(Reference):
    """Between the look and the write, another may write."""

    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        group = [self.kept(event) for event in events]
        if len({event.session_id for event in group}) > 1:
            raise InvalidInput("a group belongs to one session")
        async with self.tables() as tables:
            if group:
                self.check_seqs(group, self.tail(tables, group[0].session_id))
        await asyncio.sleep(0)
        async with self.tables() as tables:
            if group:
                self.store(tables, group)


class WritesAGroupInSteps(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        async with self.tables() as tables:
            if events:
                self.check_seqs(events, self.tail(tables, events[0].session_id))
        for event in events:
            await super().append_events([event])


class LosesTheLastOfAPage(Reference):
    def page(self, listed: str, *args: Any, **options: Any) -> Page[Any]:
        page = super().page(listed, *args, **options)
        return Page(page.items[:-1], page.next) if page.next and listed == "events" else page


class StartsAtTheSeq(Reference):
    async def list_events(
        self, session_id: str, after_seq: int = 0, limit: int = 50, *, cursor: str | None = None
    ) -> Page[LedgerEvent]:
        return await super().list_events(session_id, max(after_seq - 1, 0), limit, cursor=cursor)


class ForgetsTheStartWhenPaging(Reference):
    """The first page begins where it was told to, the others do as well."""

    async def list_events(
        self, session_id: str, after_seq: int = 0, limit: int = 50, *, cursor: str | None = None
    ) -> Page[LedgerEvent]:
        offset = int(cursor) if cursor and cursor.isdigit() else 0
        page = await super().list_events(session_id, after_seq + offset, limit)
        return Page(page.items, str(offset + limit + 1) if page.next else None)


class ReadsAStaleCopy(Reference):
    """A view of its own reads what was there a moment ago."""

    def log(self, tables: Tables, session_id: str) -> Sequence[LedgerEvent]:
        log = super().log(tables, session_id)
        return log[:-1] if self.is_view else log


class HoldsTheWholeLog(Reference):
    def log(self, tables: Tables, session_id: str) -> Sequence[LedgerEvent]:
        log = super().log(tables, session_id)
        return [replace(event, payload=bytes(bytearray(event.payload))) for event in log]


class DropsTheVersion(Reference):
    def log(self, tables: Tables, session_id: str) -> Sequence[LedgerEvent]:
        return [replace(event, version=1) for event in super().log(tables, session_id)]


class RaisesForNoLog(Reference):
    def log(self, tables: Tables, session_id: str) -> Sequence[LedgerEvent]:
        if session_id not in tables.events:
            raise NotFound(f"no log {session_id}")
        return super().log(tables, session_id)


class ManyInAPage(Reference):
    def page(self, listed: str, rows: Any, key: Any, limit: int, *args: Any, **options: Any) -> Page[Any]:
        return super().page(listed, rows, key, limit + 1 if limit > 0 else limit, *args, **options)


PLANTS: Plants = {
    "test_events_are_appended_at_the_tail_from_one_on": [
        (DropsTheVersion, "the log after append 2.1..version: expected"),
    ],
    "test_a_taken_seq_is_a_conflict": [
        (OverwritesASeq, "seq 1 of 5, again: expected"),
        (ForgivesARepeat, "seq 1 of 5, again: expected"),
    ],
    "test_a_gap_is_a_conflict": [
        (LeavesGaps, "seq 2 after 0: expected"),
    ],
    "test_a_seq_below_one_is_refused": [
        (CountsFromZero, "seq 0: expected"),
    ],
    "test_a_group_is_appended_whole_or_not_at_all": [
        (OverwritesASeq, "group .3, 4. after 3: expected"),
    ],
    "test_a_group_that_does_not_count_up_is_refused": [
        (ChecksTheFirstSeqOnly, "group .2, 4.: expected"),
        (StoresWhatFits, "after group .2, 4.: the log length: expected"),
    ],
    "test_a_group_of_two_sessions_is_refused": [
        (TakesTwoSessions, "a group of two sessions: expected"),
    ],
    "test_an_empty_group_changes_nothing": [
        (StumblesOverNothing, "an empty group: expected"),
    ],
    "test_any_sequence_is_a_group": [
        (WantsAList, "a list is wanted"),
        (EmptiesTheGroup, "the group that was given length: expected"),
    ],
    "test_sessions_have_logs_of_their_own": [
        (IgnoresCaseOfSessions, "the log ends with 1"),
    ],
    "test_one_of_many_appends_of_a_seq_wins": [
        (ChecksThenWrites, "eight appends of seq 1: how many were taken: expected"),
    ],
    "test_one_of_many_groups_that_overlap_wins": [
        (ChecksThenWrites, "six groups after 0: how many were taken: expected"),
    ],
    "test_no_reader_sees_a_part_of_a_group": [
        (WritesAGroupInSteps, "lengths of the log that are no whole groups: expected"),
    ],
    "test_reading_starts_after_the_given_seq": [
        (StartsAtTheSeq, "events after 1 length: expected"),
    ],
    "test_pages_do_not_show_where_groups_end": [
        (LosesTheLastOfAPage, "events after 0, 1 at a time length: expected"),
        (ForgetsTheStartWhenPaging, "events after 0, 1 at a time length: expected"),
        (ManyInAPage, "a page with limit=1: found"),
    ],
    "test_what_is_appended_while_paging_is_read_too": [
        (ForgetsTheStartWhenPaging, "the events that were read length: expected"),
    ],
    "test_a_reader_sees_what_was_appended_before_it_asked": [
        (ReadsAStaleCopy, "events of session 0 after 0: expected"),
    ],
    "test_a_long_log_is_read_in_pages": [
        (LosesTheLastOfAPage, "3,000 events length: expected"),
        (ManyInAPage, "a page has at most 50: expected"),
    ],
    "test_a_page_is_all_that_is_held": [
        (HoldsTheWholeLog, "memory while reading 16 MB by the megabyte: found"),
    ],
    "test_a_log_that_is_not_there_is_empty": [
        (RaisesForNoLog, "no log nobody"),
    ],
    "test_pages_of_any_size_give_every_row_once_in_order": [
        (ManyInAPage, "a page with limit=1: found"),
    ],
    "test_ids_are_any_text": [
        (IgnoresCaseOfSessions, "the log ends with 1"),
    ],
    "test_eight_writers_of_one_process_lose_nothing": [
        (ChecksThenWrites, "the seqs of s: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
