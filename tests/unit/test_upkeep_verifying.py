"""Damage that was planted is found and named, and nothing else is."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stored
from gnomon._payload import blobs_named
from gnomon.storage._audit import audit_row
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import Row
from gnomon.storage._sessions import session_row
from gnomon.types.records import SessionRecord
from gnomon.upkeep import Finding, verify, verifying
from stored import audit, checkpoint, event, events, in_file, opened, session


@asynccontextmanager
async def sound(tmp_path: Path) -> AsyncGenerator[RecordStorage, None]:
    async with opened(in_file(tmp_path / "a.db")) as store:
        await stored.fill(store, sessions=2)
        await store.create_session(session("s", last_seq=9))
        for first in (1, 4, 7):
            await store.append_events(events("s", first, first + 2))
        await store.append_event(await stored.large_event(store, "s", 10, "x" * 50_000))
        await store.save_checkpoint(checkpoint("c", "s", 5, view_start=4))
        for number in range(4):
            await store.append_audit_log(audit(f"r{number}", "s", number))
        yield store


def in_tables(path: Path, statement: str) -> None:
    """As somebody would who has the file."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(statement).rowcount > 0


async def test_a_sound_store_has_no_findings(tmp_path: Path) -> None:
    async with sound(tmp_path) as store:
        found = await verify(store)
    assert found.found == ()
    assert found.is_sound
    assert (found.tenants, found.sessions) == (2, 9)
    assert found.events > 900


async def _payload(store: RecordStorage, _: Path) -> None:
    await store.append_event(event("s", 11, b"not an event"))


async def _envelope(store: RecordStorage, _: Path) -> None:
    await store.append_event(event("s", 11, b"not an event", version=2))


async def _no_blob(store: RecordStorage, _: Path) -> None:
    (last,) = (await store.list_events("s", 9)).items
    await store._rows.delete("default", "blobs", blobs_named(last)[0])


async def _other_blob(store: RecordStorage, _: Path) -> None:
    (last,) = (await store.list_events("s", 9)).items
    await store._rows.write("default", Row(kind="blobs", id=blobs_named(last)[0], body=b"other"), None)


async def _row_ahead(store: RecordStorage, _: Path) -> None:
    await store.update_session(session("s", last_seq=11))


async def _checkpoint_ahead(store: RecordStorage, _: Path) -> None:
    await store.save_checkpoint(checkpoint("ahead", "s", 12, view_start=4))


async def _start_gone(store: RecordStorage, _: Path) -> None:
    await store._rows.cut("default", "s", 6)


async def _edited(store: RecordStorage, _: Path) -> None:
    rows = (await store.list_audit_logs("s")).items
    edited = msgspec.structs.replace(rows[1], actor="eve")
    await store._rows.write("default", audit_row(edited), None)


async def _removed(store: RecordStorage, _: Path) -> None:
    rows = (await store.list_audit_logs("s")).items
    await store._rows.delete("default", "audit", audit_row(rows[0]).id)


PLANTED: dict[str, tuple[Callable[[RecordStorage, Path], Awaitable[object]], str, str]] = {
    "payload": (_payload, "unreadable", "event 11"),
    "envelope": (_envelope, "unreadable", "event 11"),
    "no blob": (_no_blob, "missing_blob", "event 10 names blob"),
    "other blob": (_other_blob, "missing_blob", "whose bytes are others"),
    "row ahead": (_row_ahead, "last_seq", "the row says event 11, the log ends with 10"),
    "checkpoint ahead": (_checkpoint_ahead, "checkpoint", "says event 12, the log ends with 10"),
    "start gone": (_start_gone, "start", "begins with event 7; event 4 is still needed"),
    "edited": (_edited, "audit", "audit row 3 was edited"),
    "removed": (_removed, "audit", "audit row 4 was removed"),
}


@pytest.mark.parametrize("what", PLANTED)
async def test_what_was_planted_is_found_and_nothing_else(what: str, tmp_path: Path) -> None:
    plant, flaw, words = PLANTED[what]
    async with sound(tmp_path) as store:
        await plant(store, tmp_path / "a.db")
        found = await verify(store)
    assert [(one.tenant, one.session_id, one.flaw) for one in found.found] == [("default", "s", flaw)]
    assert words in found.found[0].message
    assert not found.is_sound


async def test_a_row_of_events_that_is_gone_is_a_gap(tmp_path: Path) -> None:
    async with sound(tmp_path) as store:
        in_tables(tmp_path / "a.db", "DELETE FROM events WHERE session = 's' AND first = 4")
        (found,) = (await verify(store)).found
    assert (found.flaw, found.message) == ("gap", "event 7 comes after event 3")


async def test_a_group_that_cannot_be_read_does_not_hide_the_other_sessions(tmp_path: Path) -> None:
    async with sound(tmp_path) as store:
        in_tables(tmp_path / "a.db", "UPDATE events SET body = x'93' WHERE session = 's' AND first = 4")
        await store.update_session(session("blobs", minutes=50, last_seq=999))
        found = await verify(store)
    assert sorted((one.session_id, one.flaw) for one in found.found) == [
        ("blobs", "last_seq"),
        ("s", "unreadable"),
    ]


async def test_a_row_that_cannot_be_read_is_found(tmp_path: Path) -> None:
    async with sound(tmp_path) as store:
        in_tables(tmp_path / "a.db", "UPDATE sessions SET body = x'7b' WHERE id = 's'")
        in_tables(tmp_path / "a.db", "UPDATE memory SET body = x'7b' WHERE id = 'm0'")
        found = await verify(store, tenants=["default"])
    assert [one.flaw for one in found.found] == ["unreadable", "unreadable"]
    assert "the list of sessions" in found.found[0].message
    assert "the list of memory" in found.found[1].message


async def test_the_chain_that_belongs_to_no_session_is_looked_at(tmp_path: Path) -> None:
    async with sound(tmp_path) as store:
        row = (await store.list_audit_logs("")).items[0]
        await store._rows.delete("default", "audit", audit_row(row).id)
        (found,) = (await verify(store)).found
    assert (found.session_id, found.flaw) == ("", "audit")


async def test_a_pruned_log_may_begin_with_its_view_and_not_after_it() -> None:
    async with opened("memory://") as store:
        await store.create_session(session("s", last_seq=9))
        await store.begin_log(events("s", 5, 9))
        assert [one.flaw for one in (await verify(store)).found] == ["start"]
        await store.save_checkpoint(checkpoint("c", "s", 9, view_start=5))
        assert (await verify(store)).is_sound
        await store.save_checkpoint(checkpoint("c", "s", 9, view_start="odd"))
        assert [one.flaw for one in (await verify(store)).found] == ["start"]


async def test_what_was_only_just_being_written_is_no_finding() -> None:
    """The row is read before the log; a checkpoint that comes in between is looked at again."""
    async with opened("memory://") as store:
        await store.create_session(session("s"))
        looks = 0

        class Busy:
            def __getattr__(self, name: str) -> object:
                return getattr(store, name)

            def scoped(self, _: str) -> Busy:
                return self

            async def get_session(self, session_id: str) -> SessionRecord | None:
                nonlocal looks
                looks += 1
                if looks == 1:  # the row is ahead of the log, for a moment
                    return session("s", last_seq=1)
                await store.append_event(event("s", looks - 1))
                return session("s", last_seq=1)

        assert (await verify(Busy(), tenants=["default"])).is_sound  # type: ignore[arg-type]
        assert looks == 2


async def test_only_so_many_findings_are_listed_and_the_rest_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verifying, "_MOST", 3)
    async with opened("memory://") as store:
        for number in range(5):
            await store._rows.write("default", session_row(session(f"s{number}", last_seq=1)), 0)
        await store.put_memory(stored.memory("m", "k"))
        found = await verify(store)
    assert (len(found.found), found.more) == (3, 2)
    assert isinstance(found.found[0], Finding)


async def test_only_the_tenants_that_are_named_are_looked_at(tmp_path: Path) -> None:
    async with sound(tmp_path) as store:
        await _payload(store, tmp_path)
        assert (await verify(store, tenants=[stored.TENANTS[1]])).is_sound
        assert not (await verify(store, tenants=["default"])).is_sound


async def test_of_one_session_too_the_flaws_that_are_not_listed_are_counted() -> None:
    async with opened("memory://") as store:
        await store.create_session(session("s"))
        await store.append_events([event("s", seq, b"\xff") for seq in range(1, 131)])
        found = await verify(store)
        assert (len(found.found), found.more) == (100, 30)


async def test_an_audit_row_that_is_appended_meanwhile_is_not_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened("memory://") as store:
        await store.append_audit_log(audit("first", ""))
        rows = type(store._rows)  # pyright: ignore[reportPrivateUsage]
        real = rows.find
        written: list[str] = []

        async def find(self: Any, *arguments: Any) -> Any:
            found = await real(self, *arguments)
            if not written:
                written.append("second")
                await store.append_audit_log(audit("second", ""))
            return found

        monkeypatch.setattr(rows, "find", find)
        assert await store.verify_audit("") == ()
        assert written
