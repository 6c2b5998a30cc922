"""Names and times: any text is an id of its own, any moment comes back in UTC (D8)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta, timezone
from typing import TypeAlias

from gnomon.contracts.storage import Storage, SupportsBlobs, SupportsRetention
from gnomon.errors import InvalidInput
from gnomon.testing._storage_asking import (
    expect_nothing,
    expect_same,
    ledger,
    refused,
    rows_of,
    short,
    together,
)
from gnomon.testing._storage_lists import Row
from gnomon.testing._storage_records import at, audit, checkpoint, event, memory, session, trace
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._storage_values import IDS, TIMES
from gnomon.testing._suite import expect

__all__ = ["StorageNames"]

_Calls: TypeAlias = dict[str, Callable[[], Awaitable[object]]]


class StorageNames(StorageSuite):
    """The part of the suite that is about ids and times."""

    # --- names

    async def test_ids_are_any_text(self) -> None:
        """D8: each is a row of its own, in every kind of record."""
        async with self.open() as storage:
            await together(*(_fill_named(storage, name, number) for number, name in enumerate(IDS)))
            await together(*(_expect_named(storage, name, number) for number, name in enumerate(IDS)))
            expect(
                "all sessions", list(reversed(IDS)), [row.id for row in await rows_of(storage.list_sessions)]
            )

    async def test_an_id_that_is_empty_or_holds_nul_is_refused(self) -> None:
        """D8: and half a character; with `InvalidInput`, and nothing is stored."""
        async with self.open() as storage:
            for name in ("", "a\x00b", "\x00", "half \ud83d"):
                calls = _creations(storage, name) | (_mentions(storage, name) if name else {})
                for what, call in calls.items():
                    await refused(f"{what} with id {short(name)}", call(), InvalidInput)
            await expect_nothing(storage)

    # --- times

    async def test_times_come_back_in_utc_with_microseconds(self) -> None:
        """D8: from any zone, from year 1 to year 9999."""
        async with self.open() as storage:
            for number, time in enumerate(TIMES):
                name = f"{number}"
                rows = (
                    session(name, created_at=time, updated_at=time, wake_at=time),
                    trace(name, started_at=time, ended_at=time),
                    checkpoint(name, created_at=time),
                    memory(name, key=name, created_at=time, updated_at=time),
                )
                await storage.create_session(rows[0])
                await storage.insert_trace(rows[1])
                await storage.save_checkpoint(rows[2])
                await storage.put_memory(rows[3])
                await storage.append_event(event(number + 1, created_at=time))
                logged = await storage.append_audit_log(audit(name, created_at=time))
                expect_same(f"{time}: the audit row", time, logged.created_at)
                found = (
                    await storage.get_session(name),
                    await storage.get_trace(name),
                    await storage.get_checkpoint(name),
                    await storage.get_memory("", name),
                )
                expect_same(f"{time}", (*rows,), found)
            expect_same("times of events", [*TIMES], [each.created_at for each in await ledger(storage)])
            logged_times = [row.created_at for row in await rows_of(storage.list_audit_logs, "s")]
            expect_same(
                "times of audit rows", sorted(map(repr, _utc(TIMES))), sorted(map(repr, logged_times))
            )

    async def test_what_an_update_gives_back_is_in_utc(self) -> None:
        """D8: it is the record as it is stored."""
        cairo = timezone(timedelta(hours=2))
        async with self.open() as storage:
            await storage.create_session(session("s"))
            given = session("s", updated_at=at(9).astimezone(cairo), wake_at=at(60).astimezone(cairo))
            stored = await storage.update_session(given)
            expect_same("updated_at", at(9), stored.updated_at)
            expect_same("wake_at", at(60), stored.wake_at)

    async def test_a_time_without_a_zone_is_refused(self) -> None:
        """D8: in every field and argument, and so is one that UTC cannot name; nothing is stored."""
        naive = datetime(2024, 5, 17, 12, 0)
        before_time = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))
        async with self.open() as storage:
            for time in (naive, before_time):
                for what, call in _timed(storage, time).items():
                    await refused(f"{what} with {time}", call(), InvalidInput)
            await expect_nothing(storage)


# --- what is tried ------------------------------------------------------------------


def _creations(storage: Storage, name: str) -> _Calls:
    """Every way to make a row of that name."""
    return {
        "create_session": lambda: storage.create_session(session(name)),
        "put_memory": lambda: storage.put_memory(memory(name)),
        "insert_trace": lambda: storage.insert_trace(trace(name)),
        "save_checkpoint": lambda: storage.save_checkpoint(checkpoint(name)),
        "append_audit_log": lambda: storage.append_audit_log(audit(name)),
        "append_event of a session": lambda: storage.append_event(event(1, name)),
        "append_events of a session": lambda: storage.append_events([event(1, name), event(2, name)]),
    }


def _mentions(storage: Storage, name: str) -> _Calls:
    """Every way to name something else; some may be empty."""
    return {
        "SessionRecord.agent_id": lambda: storage.create_session(session("s", agent_id=name)),
        "SessionRecord.user_id": lambda: storage.create_session(session("s", user_id=name)),
        "MemoryRecord.key": lambda: storage.put_memory(memory("m", key=name)),
        "MemoryRecord.agent_id": lambda: storage.put_memory(memory("m", agent_id=name)),
        "MemoryRecord.user_id": lambda: storage.put_memory(memory("m", user_id=name)),
        "AuditLog.session_id": lambda: storage.append_audit_log(audit("l", name)),
        "Trace.session_id": lambda: storage.insert_trace(trace("t", name)),
        "Checkpoint.session_id": lambda: storage.save_checkpoint(checkpoint("c", name)),
    }


def _timed(storage: Storage, time: datetime) -> _Calls:
    """Every place where a time is given."""
    calls: _Calls = {
        "SessionRecord.created_at": lambda: storage.create_session(session("s", created_at=time)),
        "SessionRecord.updated_at": lambda: storage.create_session(session("s", updated_at=time)),
        "SessionRecord.wake_at": lambda: storage.create_session(session("s", wake_at=time)),
        "MemoryRecord.created_at": lambda: storage.put_memory(memory("m", created_at=time)),
        "MemoryRecord.updated_at": lambda: storage.put_memory(memory("m", updated_at=time)),
        "AuditLog.created_at": lambda: storage.append_audit_log(audit("l", created_at=time)),
        "Trace.started_at": lambda: storage.insert_trace(trace("t", started_at=time)),
        "Trace.ended_at": lambda: storage.insert_trace(trace("t", ended_at=time)),
        "LedgerEvent.created_at": lambda: storage.append_event(event(1, created_at=time)),
        "a group's created_at": lambda: storage.append_events([event(1), event(2, created_at=time)]),
        "Checkpoint.created_at": lambda: storage.save_checkpoint(checkpoint("c", created_at=time)),
        "list_runnable": lambda: storage.list_runnable(time),
    }
    if isinstance(storage, SupportsRetention):
        retention: SupportsRetention = storage
        calls["prune"] = lambda: retention.prune("traces", time)
    if isinstance(storage, SupportsBlobs):
        blobs: SupportsBlobs = storage
        calls["sweep_blobs"] = lambda: blobs.sweep_blobs(set(), time)
    return calls


def _utc(times: Iterable[datetime]) -> list[datetime]:
    return [time.astimezone(UTC) for time in times]


async def _fill_named(storage: Storage, name: str, number: int) -> None:
    """A row of that name in every kind of record."""
    await storage.create_session(session(name, agent_id=name, user_id=name, created_at=at(number)))
    await storage.put_memory(memory(name, key=name, value=number, agent_id=name, kind=name))
    await storage.insert_trace(trace(name, name, input=number))
    await storage.save_checkpoint(checkpoint(name, name, seq=number))
    await storage.append_event(event(1, name, id=name, type=name))
    await storage.append_audit_log(audit(name, name))


async def _expect_named(storage: Storage, name: str, number: int) -> None:
    """The rows of that name, in every kind of record."""
    what = f"id {short(name)}"
    expect_same(f"{what}: the session's id", [name], _ids(await rows_of(storage.list_sessions, name)))
    found = await storage.get_session(name)
    expect(f"{what}: the session", (name, name), found and (found.id, found.user_id))
    kept = await storage.get_memory(name, name)
    expect(f"{what}: the memory", (name, number), kept and (kept.id, kept.value))
    expect_same(
        f"{what}: the memory of the kind", [name], _ids(await rows_of(storage.list_memory, kind=name))
    )
    traced = await storage.get_trace(name)
    expect(f"{what}: the trace", number, traced and traced.input)
    expect_same(f"{what}: the traces", [name], _ids(await rows_of(storage.list_traces, name)))
    saved = await storage.get_latest_checkpoint(name)
    expect(f"{what}: the checkpoint", (name, number), saved and (saved.id, saved.seq))
    expect_same(f"{what}: the log", [event(1, name, id=name, type=name)], await ledger(storage, name))
    expect_same(f"{what}: the audit rows", [name], _ids(await rows_of(storage.list_audit_logs, name)))


def _ids(rows: Iterable[Row]) -> list[str]:
    return [row.id for row in rows]
