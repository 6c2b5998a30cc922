"""Pain 23 of other frameworks: schema drift without a migration. Here every version ever released upgrades,
a newer one is refused untouched, and old and new run side by side."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command import Gnomon, failed_in_one_line

from gnomon.contracts.storage import Storage
from gnomon.errors import WrongSchema
from gnomon.storage._rows import SCHEMA
from storing import child, event, ids, opened, sqlite_url

SCHEMAS = Path(__file__).parent / "schemas"


# A later release, as far as SQLite is concerned: one step more, and a version that says so.
LATER = """
import asyncio, sys
from gnomon.storage import _records, _sqlite_schema, _steady
later = _steady.SCHEMA + 1
for module in (_records, _sqlite_schema, _steady):
    module.SCHEMA = later
_sqlite_schema.MIGRATIONS += (("ALTER TABLE traces ADD COLUMN cost REAL",),)

from gnomon import registry
async def main(url):
    storage = registry.storage(url)
    await storage.migrate()
    print(await storage.schema_version(), flush=True)
    await storage.close()
asyncio.run(main(sys.argv[1]))
"""


def restored(path: Path, version: int) -> Path:
    """The file as that version left it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript((SCHEMAS / f"sqlite-{version}.sql").read_text("utf-8"))
    return path


def schema_of(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL").fetchall()
        return sorted(row[0] for row in rows)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def upgraded_later(path: Path) -> str:
    with child(sys.executable, "-c", LATER, sqlite_url(path)) as later:
        return later.line() or later.complaints()


async def check_restored(storage: Storage) -> None:
    """What the stored copies hold."""
    row = await storage.get_session("s")
    assert row is not None
    assert (row.title, row.metadata, row.last_seq) == ("naïve 🙂", {"n": [1, 2.5, None, True]}, 3)
    assert row.created_at == datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    assert [each.id for each in (await storage.list_sessions("a")).items] == ["s"]
    events = (await storage.list_events("s")).items
    assert [(each.seq, each.payload, each.version) for each in events] == [
        (1, b'{"type":"x"}\x01', 1),
        (2, b'{"type":"x"}\x02', 1),
        (3, b"\x00\xff", 2),
    ]
    found = await storage.get_memory("a", "k", user_id="u")
    assert found is not None
    assert found.value == {"deep": ["x"]}
    assert await storage.verify_audit("s") == ()  # type: ignore[attr-defined]
    assert [log.id for log in (await storage.list_audit_logs("s")).items] == ["l2", "l1"]
    trace = await storage.get_trace("t")
    assert trace is not None
    assert (trace.input, trace.output) == ({"q": 1}, "r")
    point = await storage.get_latest_checkpoint("s")
    assert point is not None
    assert point.state == {"view_start": 2}
    blob = hashlib.sha256(b"a blob").hexdigest()
    assert await storage.get_blob(blob) == b"a blob"  # type: ignore[attr-defined]
    assert await storage.scoped("other").get_session("s") is not None
    await storage.append_event(event("s", 4))


@pytest.mark.parametrize("version", range(1, SCHEMA + 1))
async def test_pain_23_a_store_of_every_released_version_is_brought_up_to_date(
    tmp_path: Path, version: int
) -> None:
    """Whoever adds a version adds its file; `sqlite3 .dump` and the two numbers before it make one."""
    path = restored(tmp_path / "store.db", version)
    async with opened(path) as storage:
        await check_restored(storage)
    async with opened(tmp_path / "new.db"):
        pass
    assert schema_of(path) == schema_of(tmp_path / "new.db")


async def test_pain_23_the_next_version_will_find_everything_where_it_was(tmp_path: Path) -> None:
    path = restored(tmp_path / "store.db", SCHEMA)
    assert upgraded_later(path) == str(SCHEMA + 1)
    assert upgraded_later(path) == str(SCHEMA + 1)
    with closing(sqlite3.connect(path)) as connection:  # back, to see with today's eyes what was kept
        connection.execute("ALTER TABLE traces DROP COLUMN cost")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
    async with opened(path) as storage:
        await check_restored(storage)


async def test_pain_23_who_has_the_store_open_when_it_is_upgraded_goes_on(tmp_path: Path) -> None:
    """Old and new run side by side; an old one that starts after that is told what to do."""
    path = restored(tmp_path / "store.db", SCHEMA)
    async with opened(path, migrate=False) as running:
        await running.list_events("s")
        assert await asyncio.to_thread(upgraded_later, path) == str(SCHEMA + 1)
        await check_restored(running)
        async with opened(path, migrate=False) as late:
            with pytest.raises(WrongSchema, match="upgrade gnomon"):
                await late.list_events("s")
        assert await ids(running, "s") == ["e1", "e2", "e3", "s-4"]


def test_pain_23_the_command_line_refuses_a_newer_store_and_leaves_it_alone(gnomon: Gnomon) -> None:
    path = restored(gnomon.folder / "store.db", SCHEMA)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")
    before = digest(path)
    for command in ("migrate", "verify"):
        done = gnomon("db", command, sqlite_url(path))
        failed_in_one_line(done, done.returncode or -1, "version 99", "upgrade gnomon")
    assert digest(path) == before


def test_pain_23_the_command_line_makes_tables_once_and_says_what_is_there(gnomon: Gnomon) -> None:
    url = sqlite_url(gnomon.folder / "store.db")
    assert gnomon("db", "status", url).returncode == 1
    for _ in range(2):
        done = gnomon("db", "migrate", url)
        assert done.returncode == 0, done.stderr.decode()
    assert gnomon("db", "status", url).returncode == 0
