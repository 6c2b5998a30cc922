"""The store in PostgreSQL when things go wrong: a server that dies, hangs, is full, or does not let us in."""

from __future__ import annotations

import asyncio
import os
import pwd
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

import servers
from gnomon.contracts.storage import Storage, read_events
from gnomon.errors import AccessDenied, StorageError, StorageFull, Unavailable, WrongSchema
from gnomon.registry import storage as store_at
from gnomon.storage._rows import Group
from gnomon.storage.postgres import PostgresStorage
from gnomon.types.records import LedgerEvent, MemoryRecord, utc_now
from storing import mounted

SECRET = "hunter22"


@pytest.fixture(scope="module")
def server() -> servers.Server:
    return servers.shared("postgres")


@pytest.fixture(scope="module")
def url(server: servers.Server) -> str:
    return server.url


def fresh() -> str:
    return f"t{uuid.uuid4().hex}"


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncGenerator[PostgresStorage, None]:
    async with PostgresStorage(url, **{"schema": fresh(), **settings}) as storage:
        await storage.migrate()
        yield storage


@asynccontextmanager
async def by_hand(url: str) -> AsyncGenerator[asyncpg.Connection, None]:
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


async def role(url: str, *settings: str) -> str:
    """The URL of a new user with these settings, and a schema of their own."""
    name = fresh()
    async with by_hand(url) as connection:
        await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
        for setting in settings:
            await connection.execute(f"ALTER ROLE {name} {setting}")
        await connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
    return f"postgresql://{name}:{SECRET}@{url.rpartition('@')[2]}?schema={name}"


def event(seq: int, session_id: str = "s") -> LedgerEvent:
    return LedgerEvent(
        session_id=session_id, seq=seq, id=uuid.uuid4().hex, type="t", payload=b"{}", created_at=utc_now()
    )


def memory(id: str, value: str = "x") -> MemoryRecord:
    return MemoryRecord(id=id, key=id, value=value, created_at=utc_now(), updated_at=utc_now())


async def ledger(storage: Storage, session_id: str = "s") -> list[LedgerEvent]:
    async with read_events(storage, session_id) as events:
        return [event async for event in events]


class Writer:
    """Appends to one log until it is told to stop; knows what was acknowledged."""

    def __init__(self, storage: PostgresStorage, session_id: str) -> None:
        self.acknowledged: list[str] = []
        self._storage = storage
        self._session_id = session_id

    async def write(self, until: asyncio.Event) -> None:
        while not until.is_set():
            appended = event(len(self.acknowledged) + 1, self._session_id)
            await self._storage.append_event(appended)
            self.acknowledged.append(appended.id)

    async def check(self) -> None:
        stored = await ledger(self._storage, self._session_id)
        assert [each.id for each in stored] == self.acknowledged
        assert [each.seq for each in stored] == list(range(1, len(stored) + 1))


@asynccontextmanager
async def writing(storage: PostgresStorage, logs: int) -> AsyncGenerator[list[Writer], None]:
    """Writers that go on while the block lasts, and then count what is there."""
    writers = [Writer(storage, f"s{number}") for number in range(logs)]
    stop = asyncio.Event()
    tasks = [asyncio.ensure_future(writer.write(stop)) for writer in writers]
    try:
        yield writers
    finally:
        stop.set()
        await asyncio.wait(tasks)
    for task in tasks:
        task.result()
    for writer in writers:
        await writer.check()


async def progress(writers: list[Writer]) -> None:
    """Until each of them has written some more."""
    due = [len(writer.acknowledged) + 5 for writer in writers]
    async with asyncio.timeout(30):
        for writer, count in zip(writers, due, strict=True):
            while len(writer.acknowledged) < count:  # noqa: ASYNC110 - a writer has no event for it
                await asyncio.sleep(0.005)


# --- a server that dies -----------------------------------------------------------


async def test_a_server_that_is_killed_again_and_again_has_all_that_was_acknowledged(
    server: servers.Server,
) -> None:
    async with opened(server.url, patience_s=30) as storage, writing(storage, 20) as writers:
        for _ in range(3):
            await progress(writers)
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
        await progress(writers)


async def test_connections_that_break_under_writers_lose_nothing(url: str) -> None:
    others = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'gnomon'"
    async with opened(url) as storage, by_hand(url) as connection, writing(storage, 10) as writers:
        for _ in range(10):
            await progress(writers)
            assert await connection.fetchval(others) > 0
        await progress(writers)


async def test_a_server_that_is_not_there_is_unavailable_when_patience_ends() -> None:
    async with PostgresStorage("postgresql://127.0.0.1:9/x", patience_s=0.3) as storage:
        started = time.monotonic()
        with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9"):
            await storage.schema_version()
        with pytest.raises(Unavailable):
            await storage.is_held("me")
        assert time.monotonic() - started < 5


# --- a server that hangs -----------------------------------------------------------


async def test_a_server_that_hangs_is_unavailable_in_time_and_used_again_when_it_goes_on(
    server: servers.Server,
) -> None:
    async with opened(server.url, timeout_s=0.4, patience_s=0.8) as storage:
        async with storage.holding("me"):
            await storage.append_event(event(1))
            server.freeze()
            try:
                started = time.monotonic()
                calls = [
                    storage.append_event(event(1, "other")),
                    ledger(storage),
                    storage.get_memory("", "k"),
                ]
                ends = await asyncio.gather(*calls, return_exceptions=True)
                assert [type(end) for end in ends] == [Unavailable] * 3
                assert time.monotonic() - started < 4
            finally:
                server.thaw()
        assert len(await ledger(storage)) == 1
        await storage.append_event(event(2))


async def test_a_call_to_a_server_that_hangs_is_cancelled_soon_and_the_store_closed(
    server: servers.Server,
) -> None:
    storage = PostgresStorage(server.url, schema=fresh())
    await storage.migrate()
    await storage.append_event(event(1))
    server.freeze()
    try:
        calls = [storage.append_event(event(2)), storage.put_memory(memory("m")), storage.schema_version()]
        running = [asyncio.ensure_future(call) for call in calls]
        await asyncio.sleep(0.2)
        started = time.monotonic()
        for task in running[:2]:
            task.cancel()
        await asyncio.wait(running[:2])
        assert time.monotonic() - started < 3
        await storage.close()
        assert time.monotonic() - started < 8
        assert isinstance((await asyncio.gather(running[2], return_exceptions=True))[0], StorageError)
    finally:
        server.thaw()


@pytest.mark.parametrize("end", ["cancelled", "timed out"])
async def test_a_write_that_was_given_up_while_the_server_waited_is_not_done_later(
    url: str, end: str
) -> None:
    settings = {"timeout_s": 0.3, "patience_s": 0.1} if end == "timed out" else {}
    async with opened(url, **settings) as storage, by_hand(url) as connection:
        await storage.put_memory(memory("m", "first"))
        async with connection.transaction():
            await connection.execute(f"SELECT 1 FROM {storage._rows.rows._schema}.memory FOR UPDATE")
            writing = asyncio.ensure_future(storage.put_memory(memory("m", "second")))
            await asyncio.wait({writing}, timeout=0.2)
            if end == "cancelled":
                writing.cancel()
            await asyncio.wait({writing})
            assert writing.cancelled() or isinstance(writing.exception(), Unavailable)
        await asyncio.sleep(0.2)
        found = await storage.get_memory("", "m")
        assert found is not None
        assert found.value == "first"


# --- a server that does not let us in, or not far -----------------------------------


async def test_a_wrong_password_or_database_is_said_at_once_and_no_password_shown(url: str) -> None:
    head, _, tail = url.rpartition("@")
    user = head.rpartition(":")[0]
    for address, error, said in (
        (f"{user}:{SECRET}@{tail}", AccessDenied, "password authentication failed"),
        (f"{user}@{tail}", AccessDenied, "password"),
        (f"{url.rpartition('/')[0]}/nowhere", StorageError, '"nowhere" does not exist'),
    ):
        async with PostgresStorage(address) as storage:
            started = time.monotonic()
            with pytest.raises(error, match=said) as refused:
                await storage.migrate()
            assert time.monotonic() - started < 3
        shown = f"{refused.value!r} {refused.value.__cause__!r} {refused.value.hint}"
        assert SECRET not in shown
        assert head.rpartition(":")[2] not in shown


async def test_a_table_that_is_gone_is_a_wrong_schema(url: str) -> None:
    async with opened(url) as storage, by_hand(url) as connection:
        await connection.execute(f"DROP TABLE {storage._rows.rows._schema}.events")
        with pytest.raises(WrongSchema, match="events"):
            await storage.append_event(event(1))


async def test_connections_that_the_server_does_not_grant_are_waited_for(url: str) -> None:
    address = await role(url, "CONNECTION LIMIT 2")
    async with store_at(address, {"connections": 8}) as storage:
        await storage.migrate()
        await asyncio.gather(*(storage.put_memory(memory(f"{number}")) for number in range(40)))
        assert len((await storage.list_memory(limit=100)).items) == 40


async def test_transactions_that_the_server_undoes_are_repeated(url: str) -> None:
    """Where each transaction sees one moment only, the server undoes one of two that meet."""
    address = await role(url, "SET default_transaction_isolation = serializable")
    async with store_at(address) as one, store_at(address) as other:
        await asyncio.gather(one.migrate(), other.migrate())
        for seq in range(1, 41):
            tries = (store._rows.rows.append("t", "s", Group(seq, seq, b"x")) for store in (one, other))
            assert sorted(await asyncio.gather(*tries)) == [False, True]


async def test_a_standby_counts_as_a_server_that_is_away() -> None:
    """Its answers may be old; and soon another may be the one that writes."""
    with servers.postgres() as server:
        server.kill()
        (server.folder / "files" / "standby.signal").touch()
        server.start()
        async with PostgresStorage(server.url, patience_s=0.2) as storage:
            with pytest.raises(Unavailable, match="standby"):
                await storage.schema_version()
        async with asyncpg.create_pool(server.url, min_size=0, max_size=4) as pool:
            storage = PostgresStorage(client=pool, patience_s=0.2)
            with pytest.raises(Unavailable, match="standby"):
                await storage.schema_version()
            await storage.close()


# --- a server that is full ----------------------------------------------------------


async def test_a_full_disk_is_said_and_what_was_there_stays(server: servers.Server, url: str) -> None:
    # In the server's own folder, which the user that it runs as can reach.
    with mounted(server.folder / "small", "-t", "tmpfs", "-o", "size=8m", "tmpfs") as folder:
        place = of_the_servers_user(folder / "space")
        async with by_hand(url) as connection:
            space = fresh()
            await connection.execute(f"CREATE TABLESPACE {space} LOCATION '{place}'")
            address = await role(url, f"SET default_tablespace = {space}")
            name = address.rpartition("=")[2]
            await connection.execute(f"GRANT CREATE ON TABLESPACE {space} TO {name}")
            async with store_at(address) as storage:
                await storage.migrate()
                await storage.append_event(event(1))
                with pytest.raises(StorageFull, match="disk"):
                    await fill(storage)
                assert [each.seq for each in await ledger(storage)] == [1]
            await connection.execute(f"DROP OWNED BY {name} CASCADE")
            await connection.execute("CHECKPOINT")
            await connection.execute(f"DROP TABLESPACE {space}")


async def fill(storage: Storage) -> None:
    for number in range(40):
        await storage.put_blob(bytes([number]) * 1_000_000)  # type: ignore[attr-defined]


def of_the_servers_user(place: Path) -> Path:
    place.mkdir()
    owner = pwd.getpwnam("nobody")
    os.chown(place, owner.pw_uid, owner.pw_gid)
    return place
