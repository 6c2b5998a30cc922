"""Stores that each break one promise."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from msgspec.structs import replace
from reference_store import ANCHOR, Reference, Root, Tables, World, time_text

from gnomon.contracts.storage import AuditFault
from gnomon.errors import Conflict, InvalidInput, NotFound, StorageError, Unavailable
from gnomon.stream import PullStream
from gnomon.types.records import (
    AuditLog,
    Checkpoint,
    LedgerEvent,
    MemoryRecord,
    Page,
    SessionRecord,
    Trace,
    utc_now,
)

# --- D1, D2: the log --------------------------------------------------------------------------


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


class RaisesForNoLog(Reference):
    def log(self, tables: Tables, session_id: str) -> Sequence[LedgerEvent]:
        if session_id not in tables.events:
            raise NotFound(f"no log {session_id}")
        return super().log(tables, session_id)


class ManyInAPage(Reference):
    def check_range(self, limit: int, offset: int, cursor: str | None) -> None:
        super().check_range(limit, offset, cursor)

    def page(self, listed: str, rows: Any, key: Any, limit: int, *args: Any, **options: Any) -> Page[Any]:
        return super().page(listed, rows, key, limit + 1 if limit > 0 else limit, *args, **options)


# --- D4: rows ---------------------------------------------------------------------------------


class RaisesForNone(Reference):
    async def get_session(self, session_id: str) -> SessionRecord | None:
        found = await super().get_session(session_id)
        if found is None:
            raise NotFound(session_id)
        return found


class DropsATitle(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        await super().create_session(replace(session, title=""))


class CreatesAgain(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        session = self.kept(session)
        async with self.tables() as tables:
            tables.sessions[session.id] = session


class ListsARefusedSession(Reference):
    """The row is refused, but a list has it already."""

    async def create_session(self, session: SessionRecord) -> None:
        try:
            await super().create_session(session)
        except Conflict:
            async with self.tables() as tables:
                tables.sessions[session.id] = replace(tables.sessions[session.id], agent_id=session.agent_id)
            raise


class KeepsTheRevision(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        stored = await super().update_session(session)
        return replace(stored, revision=session.revision)


class UpdateMakesARow(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        try:
            return await super().update_session(session)
        except NotFound:
            await self.create_session(session)
            return session


class IgnoresTheRevision(Reference):
    def is_stale(self, stored: SessionRecord, session: SessionRecord) -> bool:
        return session.last_seq < stored.last_seq


class IgnoresLastSeq(Reference):
    def is_stale(self, stored: SessionRecord, session: SessionRecord) -> bool:
        return session.revision != stored.revision


class TakesAFutureRevision(Reference):
    def is_stale(self, stored: SessionRecord, session: SessionRecord) -> bool:
        return session.revision < stored.revision or session.last_seq < stored.last_seq


class ChecksARevisionThenWrites(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        stored = await self.get_session(session.id)
        if stored is not None and self.is_stale(stored, session):
            raise Conflict("stale")
        await asyncio.sleep(0)
        async with self.tables() as tables:
            tables.sessions[session.id] = replace(self.kept(session), revision=session.revision + 1)
            return tables.sessions[session.id]


class ChecksAnIdThenCreates(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        session = self.kept(session)
        if await self.get_session(session.id) is not None:
            raise Conflict("taken")
        async with self.tables() as tables:
            tables.sessions[session.id] = session


class OneMemoryAKey(Reference):
    """A record of the same key is taken for the same."""

    async def put_memory(self, memory: MemoryRecord) -> None:
        async with self.tables() as tables:
            for name in [row.id for row in tables.memory.values() if row.key == memory.key]:
                del tables.memory[name]
        await super().put_memory(memory)


class DropsAKind(Reference):
    async def put_memory(self, memory: MemoryRecord) -> None:
        await super().put_memory(replace(memory, kind="long_term"))


class FirstMemoryOfAKey(Reference):
    def latest_memory(self, rows: Sequence[MemoryRecord]) -> MemoryRecord | None:
        return rows[0] if rows else None


class MemoryPutLast(Reference):
    """By when it was put, not by when it was updated."""

    async def put_memory(self, memory: MemoryRecord) -> None:
        async with self.tables() as tables:
            tables.memory.pop(memory.id, None)
        await super().put_memory(memory)

    def latest_memory(self, rows: Sequence[MemoryRecord]) -> MemoryRecord | None:
        return rows[-1] if rows else None


class AlwaysDeletes(Reference):
    async def delete_memory(self, memory_id: str) -> bool:
        await super().delete_memory(memory_id)
        return True


class OnlyHidesDeletedMemory(Reference):
    async def delete_memory(self, memory_id: str) -> bool:
        async with self.tables() as tables:
            row = tables.memory.get(memory_id)
            if row is not None:
                tables.memory[memory_id] = replace(row, key=row.key + " deleted")
            return row is not None


class EmptyAgentIsAnAgent(Reference):
    def remembers(self, row: MemoryRecord, agent_id: str, user_id: str, kind: str) -> bool:
        return agent_id == row.agent_id and user_id in ("", row.user_id) and kind in ("", row.kind)


class EmptyUserIsAUser(Reference):
    def remembers(self, row: MemoryRecord, agent_id: str, user_id: str, kind: str) -> bool:
        return agent_id in ("", row.agent_id) and user_id == row.user_id and kind in ("", row.kind)


class IgnoresKindWithAUser(Reference):
    def remembers(self, row: MemoryRecord, agent_id: str, user_id: str, kind: str) -> bool:
        return super().remembers(row, agent_id, user_id, "" if user_id else kind)


class ReplacesAnEndedSpan(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        trace = self.kept(trace)
        async with self.tables() as tables:
            tables.traces[trace.id] = trace


class RefusesASpanTwice(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        if await self.get_trace(trace.id) is not None:
            raise Conflict("taken")
        await super().insert_trace(trace)


class DropsAParent(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        await super().insert_trace(replace(trace, parent_id=None))


class ChecksASpanThenWrites(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        stored = await self.get_trace(trace.id)
        if stored is not None and stored.ended_at is not None:
            raise Conflict("ended")
        async with self.tables() as tables:
            tables.traces[trace.id] = self.kept(trace)


class DropsARun(Reference):
    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await super().save_checkpoint(replace(checkpoint, run_id=""))


class KeepsTheFirstCheckpoint(Reference):
    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        if await self.get_checkpoint(checkpoint.id) is None:
            await super().save_checkpoint(checkpoint)


class LatestCheckpointBySaving(Reference):
    def latest_checkpoint(self, tables: Tables, session_id: str) -> Checkpoint | None:
        rows = [row for row in tables.checkpoints.values() if row.session_id == session_id]
        return rows[-1] if rows else None


class LatestCheckpointById(Reference):
    def latest_checkpoint(self, tables: Tables, session_id: str) -> Checkpoint | None:
        rows = [row for row in tables.checkpoints.values() if row.session_id == session_id]
        return max(rows, key=lambda row: (row.seq, row.id), default=None)


class SeqsAsText(Reference):
    def checkpoint_key(self, row: Checkpoint) -> list[Any]:
        return [str(row.seq), row.id]

    def latest_checkpoint(self, tables: Tables, session_id: str) -> Checkpoint | None:
        rows = [row for row in reversed(tables.checkpoints.values()) if row.session_id == session_id]
        return max(rows, key=lambda row: str(row.seq), default=None)


# --- D3: lists --------------------------------------------------------------------------------


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
        limit, offset, cursor = args
        rows = list(rows)
        keys = self.in_order(map(key, rows), lambda each: each, options.get("down", False))
        if cursor is not None and self.opened(listed, cursor) not in keys:
            return Page(())
        return super().page(listed, rows, key, *args, **options)


# --- runnable ---------------------------------------------------------------------------------


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


# --- D8, D12: content ---------------------------------------------------------------------------


class PayloadAsText(Reference):
    def copied(self, record: Any) -> Any:
        if isinstance(record, LedgerEvent):
            return replace(record, payload=record.payload.decode("utf-8", "replace").encode())
        return super().copied(record)


class CutsAMegabyte(Reference):
    def copied(self, record: Any) -> Any:
        if isinstance(record, LedgerEvent):
            return replace(record, payload=record.payload[:400_000])
        return super().copied(record)


class RefusesAMegabyte(Reference):
    def kept(self, record: Any) -> Any:
        kept = super().kept(record)
        if len(msgspec.json.encode(kept)) > 900_000:
            raise InvalidInput("too large")
        return kept


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with every leaf changed."""
    if isinstance(value, dict):
        return {key: _changed(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_changed(inner, change) for inner in value]
    return change(value)


class ChangesLeaves(Reference):
    def change(self, value: Any) -> Any:
        raise NotImplementedError

    def copied(self, record: Any) -> Any:
        record = super().copied(record)
        names = ("metadata", "value", "detail", "input", "output", "attributes", "state")
        found = {name: getattr(record, name) for name in names if hasattr(record, name)}
        return replace(record, **{name: _changed(value, self.change) for name, value in found.items()})


class CutsAtNUL(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return value.partition("\0")[0] if isinstance(value, str) else value


class BoolsAreNumbers(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return int(value) if isinstance(value, bool) else value


class NumbersAreFloats(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return float(value) if type(value) is int else value


class NoSignOfZero(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return value + 0.0 if isinstance(value, float) else value


class EmptyTextIsNull(ChangesLeaves):
    def change(self, value: Any) -> Any:
        return value or None if isinstance(value, str) else value


class NormalisesText(ChangesLeaves):
    def change(self, value: Any) -> Any:
        import unicodedata

        return unicodedata.normalize("NFC", value) if isinstance(value, str) else value


class RunsPickles(ChangesLeaves):
    def change(self, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("c") and value.endswith("."):
            with suppress(Exception):
                return pickle.loads(value.encode("latin-1"))
        return value


class ReadsTaggedObjects(Reference):
    def copied(self, record: Any) -> Any:
        record = super().copied(record)
        if isinstance(record, MemoryRecord) and isinstance(record.value, dict) and "$date" in record.value:
            return replace(record, value=str(record.value["$date"]))
        return record


class NormalisesTitles(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        await super().create_session(replace(session, title=session.title.strip()))


class LeavesTheRestOfALargeValue(Reference):
    async def put_memory(self, memory: MemoryRecord) -> None:
        async with self.tables() as tables:
            before = tables.memory.get(memory.id)
        rest = before.value[len(str(memory.value)) :] if before and isinstance(before.value, str) else ""
        if isinstance(memory.value, str) and len(rest) > 1_000:
            memory = replace(memory, value=memory.value + rest)
        await super().put_memory(memory)


class TakesWhatJsonCannotHold(Reference):
    def check_json(self, what: str, value: object) -> None:
        pass


class StoresBeforeItChecks(Reference):
    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        try:
            await super().save_checkpoint(checkpoint)
        except InvalidInput:
            await super().save_checkpoint(replace(checkpoint, state={}))
            raise


class WrapsLargeNumbers(ChangesLeaves):
    def check_json(self, what: str, value: object) -> None:
        if not isinstance(value, int):
            super().check_json(what, value)

    def copied(self, record: Any) -> Any:
        names = ("metadata", "value", "detail", "input", "output", "attributes", "state")
        found = {name: getattr(record, name) for name in names if hasattr(record, name)}
        changed = {name: _changed(value, self.change) for name, value in found.items()}
        return Reference.copied(self, replace(record, **changed))

    def change(self, value: Any) -> Any:
        fits = type(value) is not int or -(2**63) <= value < 2**63
        return value if fits else (value + 2**63) % 2**64 - 2**63


class SharesItsRecords(Reference):
    def copied(self, record: Any) -> Any:
        return record


class StripsIds(Reference):
    def kept(self, record: Any) -> Any:
        kept = super().kept(record)
        return replace(kept, id=kept.id.strip() or kept.id)


class TakesAnEmptyId(Reference):
    def check_name(self, what: str, name: str, *, empty: bool = False) -> None:
        super().check_name(what, name, empty=True)


class TakesNULInNames(Reference):
    def check_name(self, what: str, name: str, *, empty: bool = False) -> None:
        super().check_name(what, name.replace("\0", ""), empty=empty)


class WholeMilliseconds(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        time = super().check_time(what, time)
        return time.replace(microsecond=time.microsecond // 1000 * 1000)


class KeepsTheZone(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        super().check_time(what, time)
        return time

    def copied(self, record: Any) -> Any:
        return record


class GivesBackTheZone(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        stored = await super().update_session(session)
        return replace(session, revision=stored.revision)


class TakesNaiveTimes(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        return super().check_time(what, time if time.tzinfo else time.replace(tzinfo=UTC))


class FallsOverYearOne(Reference):
    def check_time(self, what: str, time: datetime) -> datetime:
        super().check_time(what, time + timedelta(days=2))
        return time.astimezone(UTC)


# --- D5: tenants ------------------------------------------------------------------------------


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


# --- D10: audit -------------------------------------------------------------------------------


class KeepsAForgedHash(Reference):
    def linked(self, log: AuditLog, last: AuditLog | None) -> AuditLog:
        row = super().linked(log, last)
        return replace(row, hash=log.hash or row.hash)


class OneChainForAll(Reference):
    def linked(self, log: AuditLog, last: AuditLog | None) -> AuditLog:
        row = super().linked(log, self.root.__dict__.get("last"))
        self.root.__dict__["last"] = row
        return row


class HashesLittle(Reference):
    def row_hash(self, row: AuditLog) -> str:
        text = f"{row.seq} {row.prev_hash} {row.actor}{row.action} {row.session_id} {row.id}"
        return hashlib.sha256(text.encode()).hexdigest()


class ReplacesAuditRows(Reference):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        async with self.tables() as tables:
            for at, row in enumerate(tables.audit.get(log.session_id, [])):
                if row.id == log.id:
                    tables.audit[log.session_id][at] = replace(row, actor=log.actor)
                    return row
        return await super().append_audit_log(log)


class ForksTheChain(Reference):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        log = self.kept(log)
        async with self.tables() as tables:
            chain = tables.audit.get(log.session_id, [])
            row = self.linked(log, chain[-1] if chain else None)
        await asyncio.sleep(0)
        async with self.tables() as tables:
            tables.audit.setdefault(log.session_id, []).append(row)
            tables.heads[log.session_id] = row.seq
        return row


class SeesFaultsEverywhere(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from super().faults(chain, head)
        if len(chain) > 100:
            yield AuditFault(100, chain[100].id, "edited")


class OverlooksEdits(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from (fault for fault in super().faults(chain, head) if fault.reason != "edited")


class OverlooksTheEnd(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from super().faults(chain, 0)


class FindsTheFirstFault(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from list(super().faults(chain, head))[:1]


class BelievesAnchors(Reference):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        if log.action != ANCHOR:
            return await super().append_audit_log(log)
        row = await super().append_audit_log(replace(log, action="x"))
        async with self.tables() as tables:
            row = replace(row, action=ANCHOR)
            tables.audit[log.session_id][-1] = row
        return row

    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        last = max((at for at, row in enumerate(chain) if row.action == ANCHOR), default=0)
        return super().faults(chain[last:], head)


class LeavesNoAnchor(Reference):
    def prune_chain(self, tables: Tables, name: str, older_than: datetime) -> int:
        before = len(tables.audit[name])
        tables.audit[name] = [row for row in tables.audit[name] if row.created_at >= older_than]
        return before - len(tables.audit[name])


class CountsTheAnchor(Reference):
    def prune_chain(self, tables: Tables, name: str, older_than: datetime) -> int:
        old = len([row for row in tables.audit[name] if row.created_at < older_than])
        super().prune_chain(tables, name, older_than)
        return old


class AnchorForgivesAll(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        if not (chain and chain[0].action == ANCHOR):
            yield from super().faults(chain, head)


# --- D11: forgetting ----------------------------------------------------------------------------


class PrunesAtTheMoment(Reference):
    async def prune(self, kind: str, older_than: datetime) -> int:
        return await super().prune(
            kind, self.check_time("older_than", older_than) + timedelta(microseconds=1)
        )


class PrunesByCreation(Reference):
    def prune_memory(self, tables: Tables, older_than: datetime) -> int:
        return self.removed(tables, tables.memory, lambda row: row.created_at < older_than)

    def prune_sessions(self, tables: Tables, older_than: datetime) -> int:
        gone = [row.id for row in tables.sessions.values() if row.created_at < older_than]
        gone = [name for name in gone if self.is_at_rest(tables, name)]
        return sum(self.forget(tables, name) for name in gone)


class CountsNothing(Reference):
    async def prune(self, kind: str, older_than: datetime) -> int:
        await super().prune(kind, older_than)
        return 0


class PrunesTheBusy(Reference):
    def is_at_rest(self, tables: Tables, session_id: str) -> bool:
        session = tables.sessions.get(session_id)
        return session is None or session.status != "running"


class PrunesTheView(Reference):
    def view_start(self, tables: Tables, session_id: str) -> int:
        return super().view_start(tables, session_id) + 1


class PrunesByTheFurthestView(Reference):
    def view_start(self, tables: Tables, session_id: str) -> int:
        rows = [row for row in tables.checkpoints.values() if row.session_id == session_id]
        return max((int(str(row.state.get("view_start", 0))) for row in rows), default=0)


class PrunesWithoutAView(Reference):
    def view_start(self, tables: Tables, session_id: str) -> int:
        return super().view_start(tables, session_id) or 10**9


class PrunesWholeGroups(Reference):
    """Also those that the view begins in the middle of."""

    def view_start(self, tables: Tables, session_id: str) -> int:
        start = super().view_start(tables, session_id)
        return start + 2 if start == 5 else start


class TailIsTheLength(Reference):
    def tail(self, tables: Tables, session_id: str) -> int:
        log = tables.events.get(session_id)
        return log[-1].seq if log else 0


class PrunesSlowly(Reference):
    """What comes in between is lost."""

    async def prune(self, kind: str, older_than: datetime) -> int:
        if kind != "events":
            return await super().prune(kind, older_than)
        before = {name: list(log) for name, log in self.own_tables(self.root.world).events.items()}
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.own_tables(self.root.world).events.update(before)
        return await super().prune(kind, older_than)


class PrunesTheLatestCheckpoint(Reference):
    def prune_checkpoints(self, tables: Tables, older_than: datetime) -> int:
        return self.removed(tables, tables.checkpoints, lambda row: row.created_at < older_than)


class TakesAnyKind(Reference):
    async def prune(self, kind: str, older_than: datetime) -> int:
        return await super().prune(kind, older_than) if kind in ("events", "audit") else 0


class LeavesTraces(Reference):
    def forget(self, tables: Tables, session_id: str) -> bool:
        traces = dict(tables.traces)
        gone = super().forget(tables, session_id)
        tables.traces = traces
        return gone


class LeavesTheChainsHead(Reference):
    def forget(self, tables: Tables, session_id: str) -> bool:
        chain = tables.audit.get(session_id)
        gone = super().forget(tables, session_id)
        if chain:
            tables.audit[session_id] = chain
        return gone


class DeletesByPrefix(Reference):
    def forget(self, tables: Tables, session_id: str) -> bool:
        for name in [name for name in tables.events if name.startswith(session_id)]:
            del tables.events[name]
        return super().forget(tables, session_id)


class DeletesWhatRuns(Reference):
    def check_at_rest(self, tables: Tables, session_id: str) -> None:
        pass


class SaysItWasThere(Reference):
    async def delete_session(self, session_id: str) -> bool:
        await super().delete_session(session_id)
        return True


class LeavesAUsersMemory(Reference):
    async def delete_user(self, user_id: str) -> int:
        memory = dict(self.own_tables(self.root.world).memory)
        gone = await super().delete_user(user_id)
        self.own_tables(self.root.world).memory = memory
        return gone


class EmptyUserIsEverybody(Reference):
    async def delete_user(self, user_id: str) -> int:
        if user_id:
            return await super().delete_user(user_id)
        async with self.tables() as tables:
            count = len(tables.sessions)
            tables.sessions.clear()
            return count


# --- blobs ------------------------------------------------------------------------------------


class HashesOtherwise(Reference):
    async def put_blob(self, content: bytes) -> str:
        digest = hashlib.sha1(content).hexdigest()
        async with self.tables() as tables:
            self.keep_blob(tables, digest, content)
        return digest


class CutsBlobs(Reference):
    def keep_blob(self, tables: Tables, digest: str, content: bytes) -> None:
        super().keep_blob(tables, digest, content[: 4 * 2**20])


class FindsBlobsByPrefix(Reference):
    async def get_blob(self, digest: str) -> bytes | None:
        async with self.tables() as tables:
            return next((blob for name, (blob, _) in tables.blobs.items() if name.startswith(digest)), None)


class KeepsBlobsTwice(Reference):
    def keep_blob(self, tables: Tables, digest: str, content: bytes) -> None:
        name = f"{digest} again" if digest in tables.blobs else digest
        super().keep_blob(tables, name, content)


class SweepsAll(Reference):
    def to_sweep(self, tables: Tables, keep: set[str], older_than: datetime) -> list[str]:
        return super().to_sweep(tables, set(), older_than)


class SweepsByFirstPut(Reference):
    def keep_blob(self, tables: Tables, digest: str, content: bytes) -> None:
        if digest not in tables.blobs:
            super().keep_blob(tables, digest, content)


class SweepsWhatItSawBefore(Reference):
    async def sweep_blobs(self, keep: Iterable[str], older_than: datetime) -> int:
        self.check_time("older_than", older_than)
        async with self.tables() as tables:
            gone = self.to_sweep(tables, set(keep), older_than)
        for digest in gone:
            async with self.tables() as tables:
                tables.blobs.pop(digest, None)
        return len(gone)


# --- watching ---------------------------------------------------------------------------------


class WatchesWhatComesOnly(Reference):
    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]:
        tail = self.tail(self.own_tables(self.root.world), session_id)
        return PullStream(self.watched(session_id, max(after_seq, tail)))


class WatchesWhatIsThereOnly(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        for event in (await self.list_events(session_id, after_seq, 1000)).items:
            yield event
        await asyncio.sleep(60)


class WatchEnds(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        for event in (await self.list_events(session_id, after_seq, 1000)).items:
            yield event


class WatchesFromTheStart(Reference):
    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]:
        return super().watch(session_id, 0)


class WatchSkips(Reference):
    """It looks at the tail only, and so misses what came between two looks."""

    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        async with self.tables() as tables:
            there = [event for event in self.log(tables, session_id) if event.seq > after_seq]
        for event in there:
            after_seq = event.seq
            yield event
        while True:
            async with self.tables() as tables:
                last = list(self.log(tables, session_id))[-1:]
            if last and last[0].seq > after_seq:
                after_seq = last[0].seq
                yield last[0]
            await asyncio.sleep(0.001)


class TellsOneWatcher(Reference):
    """Each event goes to whoever asks first."""

    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        taken = self.root.__dict__.setdefault("taken", set())
        async for event in super().watched(session_id, after_seq):
            if event.seq not in taken:
                taken.add(event.seq)
                yield event


class WaitsForSlowWatchers(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        async for event in super().watched(session_id, after_seq):
            self.root.__dict__["busy"] = True
            yield event
            self.root.__dict__["busy"] = False

    async def acknowledged(self, group: Sequence[LedgerEvent]) -> None:
        while self.root.__dict__.get("busy"):
            await asyncio.sleep(0.001)


class LeavesATaskPerWatcher(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        queue: asyncio.Queue[LedgerEvent] = asyncio.Queue()

        async def read() -> None:
            async for event in super(LeavesATaskPerWatcher, self).watched(session_id, after_seq):
                queue.put_nowait(event)

        self.root.__dict__.setdefault("tasks", []).append(asyncio.ensure_future(read()))
        while True:
            yield await queue.get()

    async def close(self) -> None:
        await super().close()
        for task in self.root.__dict__.get("tasks", ()):
            task.cancel()


class WatchOutlivesTheStore(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        while True:
            with suppress(StorageError):
                for event in (await self.list_events(session_id, after_seq)).items:
                    after_seq = event.seq
                    yield event
            await asyncio.sleep(0.005)


# --- D6, D9 -----------------------------------------------------------------------------------


class MigratesOnce(Reference):
    async def migrate(self) -> None:
        async with self.world() as world:
            if world.version:
                raise StorageError("the table sessions exists already")
            world.version = 1


class MigratesAnew(Reference):
    async def migrate(self) -> None:
        await super().migrate()
        self.root.world.tenants.clear()


class ClosesOnce(Reference):
    async def close(self) -> None:
        if self.root.is_closed:
            raise RuntimeError("closed already")
        await super().close()


class ViewsCloseTheStore(Reference):
    async def close(self) -> None:
        self.root.is_closed = True


class WorksAfterClose(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            super().check_open()


class ClosedWithAnyError(Reference):
    def check_open(self) -> None:
        if self.root.is_closed:
            raise AttributeError("'NoneType' object has no attribute 'execute'")
        super().check_open()


class HangsWhenClosed(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        try:
            await super().append_events(events)
        except StorageError:
            if self.root.is_closed:
                await asyncio.sleep(60)
            raise


class HalfOfACancelledGroup(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        half = len(events) // 2
        if half:
            await super().append_events(events[:half])
        if events:
            await super().append_events(events[half:])


class KeepsALockWhenCancelled(Reference):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        lock = self.root.__dict__.setdefault("lock", asyncio.Lock())
        await asyncio.wait_for(lock.acquire(), 0.5)
        await asyncio.sleep(0)
        try:
            self.check_open()
            yield self.root.world
        except Exception:
            lock.release()
            raise
        lock.release()


class MixesAnswers(Reference):
    """Answers are taken in order; one whose asker was cancelled is left for the next."""

    def __init__(self, root: Root | None = None, tenant: str = "default") -> None:
        super().__init__(root, tenant)
        self.answers = self.root.__dict__.setdefault("answers", [])

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        self.answers.append(await super().get_memory(agent_id, key, user_id=user_id))
        await asyncio.sleep(0)
        return self.answers.pop(0)


class LeavesATask(Reference):
    async def get_session(self, session_id: str) -> SessionRecord | None:
        self.task = asyncio.ensure_future(asyncio.sleep(60))
        return await super().get_session(session_id)


class AcknowledgesInBadTimes(Reference):
    """While the store is away, appends are said to be stored."""

    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        try:
            await super().append_events(events)
        except Unavailable:
            return


class AppendsTwice(Reference):
    """An append whose answer was lost is tried again at the next seq."""

    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        try:
            await super().append_events(events)
        except Unavailable:
            async with self.world_anyway() as tables:
                tail = self.tail(tables, events[0].session_id)
                again = [replace(self.kept(event), seq=tail + 1) for event in events[:1]]
                if again[0].seq != events[0].seq:
                    self.store(tables, again)
            raise

    @asynccontextmanager
    async def world_anyway(self) -> AsyncIterator[Tables]:
        yield self.own_tables(self.root.world)


class RaisesTheDriversError(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            raise ConnectionResetError("connection reset by peer")
        super().check_open()


class NeverComesBack(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            self.root.is_closed = True
        super().check_open()


class ForgetsWhenCutOff(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            self.root.world.tenants.clear()
        super().check_open()


class WatchSkipsWhenCutOff(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        while True:
            try:
                page = await self.list_events(session_id, after_seq)
            except Unavailable:
                after_seq += 1
                await asyncio.sleep(0.05)
                continue
            for event in page.items:
                after_seq = event.seq
                yield event
            await asyncio.sleep(0.001)


def all_bugs() -> list[type[Reference]]:
    return [
        kind
        for kind in globals().values()
        if isinstance(kind, type)
        and issubclass(kind, Reference)
        and kind.__module__ == __name__
        and kind is not ChangesLeaves
    ]


__all__ = ["all_bugs", "utc_now"]
