"""How a store goes from one schema to the next, by steps that no version has: numbered, each taken once."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio

import schemas
import servers
from gnomon.errors import StorageError, WrongSchema
from gnomon.storage import (
    _dynamo_schema,
    _postgres_migrations,
    _records,
    _sqlite_schema,
    _steady,
    mongo,
)
from gnomon.storage import redis as redis_store
from gnomon.storage._rows import SCHEMA
from schemas.expecting import expected, seen
from storing import child, opened

AT_ONCE = 10
COUNTED = [SCHEMA + 1, SCHEMA + 2]
"""The versions that are made up, each of which leaves its number behind."""

PLACES = {
    "sqlite": _sqlite_schema,
    "postgres": _postgres_migrations,
    "redis": redis_store,
    "mongo": mongo,
    "dynamo": _dynamo_schema,
}
"""Where each store has its steps."""

LATER = """
import asyncio, sys
from gnomon.storage import _records, _sqlite_schema, _steady
from gnomon.storage.sqlite import SQLiteStorage

first = _steady.SCHEMA + 1
for module in (_records, _sqlite_schema, _steady):
    module.SCHEMA = first + 1
_sqlite_schema.MIGRATIONS += tuple((f"INSERT INTO done VALUES ({number})",) for number in (first, first + 1))

async def main():
    async with SQLiteStorage(sys.argv[1]) as storage:
        print("ready", flush=True)
        sys.stdin.readline()
        await storage.migrate()
        print(await storage.schema_version(), flush=True)

asyncio.run(main())
"""


async def failing(*_: object) -> None:
    raise StorageError("a step that fails")


FAILING: dict[str, object] = {
    "sqlite": (
        "DELETE FROM sessions",
        "ALTER TABLE traces ADD cost REAL",
        "ALTER TABLE nowhere ADD cost REAL",
    ),
    "postgres": lambda schema: [
        f"DELETE FROM {schema}.sessions",
        f"ALTER TABLE {schema}.nowhere ADD cost real",
    ],
    "redis": "error('a step that fails')",
    "mongo": failing,
    "dynamo": failing,
}
"""A step that breaks off: after it has changed something, where there are transactions that take it back."""


@contextmanager
def later(store: str, *steps: object) -> Iterator[None]:
    """This code knows so many versions more of a store."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (_records, _steady, _sqlite_schema, _postgres_migrations):
            patch.setattr(module, "SCHEMA", SCHEMA + len(steps))
        patch.setattr(PLACES[store], "MIGRATIONS", (*PLACES[store].MIGRATIONS, *steps))
        yield


@pytest.fixture(params=schemas.STORES)
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", servers.DynamoServer.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", servers.DynamoServer.secret_key)
    return request.param


async def restored(store: str, folder: Path) -> tuple[str, schemas.Copy]:
    """A store as this version leaves it, and where it is."""
    place, copy = schemas.fresh_place(store, folder), schemas.copier(store)
    await copy.restore(schemas.file_of(store, SCHEMA).read_text("utf-8"), place)
    return place, copy


# --- many at once ---------------------------------------------------------------------------------


async def test_of_ten_processes_one_takes_each_step(tmp_path: Path) -> None:
    place, copy = await restored("sqlite", tmp_path)
    url = copy.address(place)
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE done (version)")
        connection.commit()
    with ExitStack() as stack:
        children = [stack.enter_context(child(sys.executable, "-c", LATER, url)) for _ in range(AT_ONCE)]
        assert [each.line() for each in children] == ["ready"] * AT_ONCE
        for each in children:
            each.tell()
        assert [each.line() or each.complaints() for each in children] == [str(COUNTED[-1])] * AT_ONCE
    with closing(sqlite3.connect(place)) as connection:
        assert connection.execute("SELECT version FROM done").fetchall() == [(each,) for each in COUNTED]
        connection.execute(f"PRAGMA user_version = {SCHEMA}")  # to see with today's eyes what was kept
    async with opened(url) as kept:
        assert await seen(kept) == expected("sqlite", SCHEMA)[1]


async def test_of_ten_stores_on_postgres_one_takes_each_step() -> None:
    connection = await asyncpg.connect(servers.shared("postgres").url)
    url = schemas.restored("postgres", SCHEMA)
    place = url.rpartition("=")[2]
    try:
        await connection.execute(f"CREATE TABLE {place}.done (version integer)")
        with later("postgres", *(_counted_in_postgres(version) for version in COUNTED)):
            await migrated_at_once(url)
        found = await connection.fetch(f"SELECT version FROM {place}.done")
        noted = await connection.fetch(f"SELECT version FROM {place}.migrations ORDER BY version")
    finally:
        await connection.close()
    assert [row["version"] for row in found] == COUNTED
    assert [row["version"] for row in noted] == [*range(1, SCHEMA + 1), *COUNTED]


def _counted_in_postgres(version: int) -> Callable[[str], list[str]]:
    return lambda schema: [f"INSERT INTO {schema}.done VALUES ({version})"]


async def test_of_ten_stores_on_redis_one_takes_each_step() -> None:
    url = schemas.restored("redis", SCHEMA)
    with later("redis", *(f"redis.call('RPUSH', KEYS[1] .. ':done', {version})" for version in COUNTED)):
        await migrated_at_once(url)
    async with redis.asyncio.Redis.from_url(servers.shared("redis").url) as client:
        found = await client.lrange(f"{url.rpartition('=')[2]}:schema:done", 0, -1)
    assert [int(each) for each in found] == COUNTED


async def migrated_at_once(url: str) -> None:
    async def migrated() -> int:
        async with opened(url) as each:
            return await each.schema_version()

    found = await asyncio.gather(*(migrated() for _ in range(AT_ONCE)))
    assert found == [COUNTED[-1]] * AT_ONCE


# --- one that fails -------------------------------------------------------------------------------


async def test_a_step_that_fails_leaves_the_version_and_every_row(store: str, tmp_path: Path) -> None:
    place, copy = await restored(store, tmp_path)
    with later(store, FAILING[store]):
        async with opened(copy.address(place), migrate=False) as old:
            with pytest.raises(StorageError, match=r"a step that fails|nowhere"):
                await old.migrate()
            with pytest.raises(WrongSchema, match=f"has tables of version {SCHEMA}; this is {SCHEMA + 1}"):
                await old.list_sessions()
    assert await copy.kept(place) == schemas.file_of(store, SCHEMA).read_text("utf-8")


async def test_the_steps_before_one_that_fails_go_with_it_in_a_file(tmp_path: Path) -> None:
    """All that are missing are one transaction: a file is never between two versions that were released."""
    place, copy = await restored("sqlite", tmp_path)
    harmless = ("ALTER TABLE memory ADD cost REAL",)
    with later("sqlite", harmless, FAILING["sqlite"]):
        async with opened(copy.address(place), migrate=False) as old:
            with pytest.raises(StorageError, match="nowhere"):
                await old.migrate()
    assert await copy.kept(place) == schemas.file_of("sqlite", SCHEMA).read_text("utf-8")
    with later("sqlite", harmless, ("CREATE TABLE prices (id)",)):
        async with opened(copy.address(place)) as repaired:
            assert await seen(repaired) == expected("sqlite", SCHEMA)[1]
    assert "CREATE TABLE prices (id);" in copy.shape(await copy.kept(place))
