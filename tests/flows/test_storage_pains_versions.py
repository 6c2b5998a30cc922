"""Pain 23 of other frameworks: schema drift without a migration. Here every version ever released upgrades
(`tests/schemas`), a newer one is refused untouched, and old and new run side by side."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command import Gnomon, failed_in_one_line

import schemas
from gnomon.contracts.storage import Storage
from gnomon.errors import WrongSchema
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import SCHEMA
from schemas.expecting import expected, seen, seen_blobs
from storing import child, event, ids, opened, sqlite_url

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


def restored(path: Path) -> Path:
    """The file as this version leaves it."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schemas.file_of("sqlite", SCHEMA).read_text("utf-8"))
    return path


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def upgraded_later(path: Path) -> str:
    with child(sys.executable, "-c", LATER, sqlite_url(path)) as later:
        return later.line() or later.complaints()


async def check_restored(storage: Storage) -> None:
    """What the stored copy of this version holds; and one event more."""
    assert isinstance(storage, RecordStorage)
    large_bytes, records = expected("sqlite", SCHEMA)
    assert await seen(storage) == records
    assert await seen_blobs(storage, large_bytes) == [True] * 3
    await storage.append_event(event("plain", 5))


async def test_pain_23_the_next_version_will_find_everything_where_it_was(tmp_path: Path) -> None:
    path = restored(tmp_path / "store.db")
    assert upgraded_later(path) == str(SCHEMA + 1)
    assert upgraded_later(path) == str(SCHEMA + 1)
    with closing(sqlite3.connect(path)) as connection:  # back, to see with today's eyes what was kept
        connection.execute("ALTER TABLE traces DROP COLUMN cost")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
    async with opened(path) as storage:
        await check_restored(storage)


async def test_pain_23_who_has_the_store_open_when_it_is_upgraded_goes_on(tmp_path: Path) -> None:
    """Old and new run side by side; an old one that starts after that is told what to do."""
    path = restored(tmp_path / "store.db")
    async with opened(path, migrate=False) as running:
        await running.list_events("plain")
        assert await asyncio.to_thread(upgraded_later, path) == str(SCHEMA + 1)
        await check_restored(running)
        async with opened(path, migrate=False) as late:
            with pytest.raises(WrongSchema, match="upgrade gnomon"):
                await late.list_events("plain")
        assert await ids(running, "plain") == [f"plain-{seq}" for seq in range(1, 6)]


def test_pain_23_the_command_line_refuses_a_newer_store_and_leaves_it_alone(gnomon: Gnomon) -> None:
    path = restored(gnomon.folder / "store.db")
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
