"""A row that was written from here is changed without being read first, and never over somebody else's."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gnomon.errors import Conflict, NotFound
from gnomon.storage import _sessions
from gnomon.storage._steady import Steady
from gnomon.types.records import SessionRecord, utc_now
from storing import opened, sqlite_url


def session(name: str, **fields: object) -> SessionRecord:
    now = utc_now()
    return SessionRecord(**{"id": name, "created_at": now, "updated_at": now, **fields})  # type: ignore[arg-type]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return sqlite_url(tmp_path / "store.db")


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    seen: list[str] = []
    get = Steady.get

    async def noted(self: Steady, tenant: str, kind: str, id: str) -> object:
        seen.append(id)
        return await get(self, tenant, kind, id)

    monkeypatch.setattr(Steady, "get", noted)
    return seen


async def test_a_row_that_was_written_here_is_changed_without_a_look(url: str, looked_at: list[str]) -> None:
    async with opened(url) as storage:
        row = session("s")
        await storage.create_session(row)
        for seq in range(1, 4):
            row = await storage.update_session(replace(row, last_seq=seq))
        assert looked_at == []
        assert await storage.get_session("s") == row


async def test_a_row_that_another_has_changed_is_not_written_over(url: str) -> None:
    async with opened(url) as ours, opened(url) as others:
        row = session("s")
        await ours.create_session(row)
        theirs = await others.update_session(replace(row, title="theirs"))
        with pytest.raises(Conflict, match="its revision is 1, not 0"):
            await ours.update_session(replace(row, title="ours"))
        assert await ours.get_session("s") == theirs


async def test_a_row_that_another_has_removed_stays_away(url: str) -> None:
    async with opened(url) as ours, opened(url) as others:
        row = session("s")
        await ours.create_session(row)
        await others.delete_session("s")
        with pytest.raises(NotFound):
            await ours.update_session(replace(row, title="ours"))


async def test_a_lower_last_seq_than_was_written_here_is_refused(url: str) -> None:
    async with opened(url) as storage:
        row = session("s")
        await storage.create_session(row)
        row = await storage.update_session(replace(row, last_seq=5))
        with pytest.raises(Conflict, match="its last_seq is 5, and 4 is lower"):
            await storage.update_session(replace(row, last_seq=4))


async def test_rows_of_two_tenants_with_one_id_are_two(url: str) -> None:
    async with opened(url) as storage:
        row = session("s")
        await storage.create_session(row)
        other = storage.scoped("other")  # type: ignore[attr-defined]
        with pytest.raises(NotFound):
            await other.update_session(replace(row, title="not there"))


async def test_what_is_known_of_rows_does_not_grow_for_ever(
    url: str, monkeypatch: pytest.MonkeyPatch, looked_at: list[str]
) -> None:
    monkeypatch.setattr(_sessions, "_REMEMBERED", 3)
    async with opened(url) as storage:
        rows = [session(f"s{number}") for number in range(5)]
        for row in rows:
            await storage.create_session(row)
        for row in (rows[4], rows[0]):
            await storage.update_session(replace(row, title="changed"))
        assert looked_at == ["s0"]
