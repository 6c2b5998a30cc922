"""The store in Redis: which servers it trusts, what it takes, and how it lays out its keys."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from redis.crc import key_slot

import servers
from gnomon.errors import AccessDenied, ConfigError, Damaged, StorageError, WrongSchema
from gnomon.registry import storage as store_at
from gnomon.storage._rows import READ_BYTES, SCHEMA, Group, Place, Row, Span
from gnomon.storage.redis import MIGRATIONS, RedisStorage
from gnomon.types.records import LedgerEvent, MemoryRecord, utc_now
from servers.ports import reserved

SECRET = "hunter22"


@pytest.fixture(scope="module")
def url() -> str:
    return servers.shared("redis").url


@asynccontextmanager
async def opened(url: str, **settings: Any) -> AsyncGenerator[RedisStorage, None]:
    async with RedisStorage(url, prefix=f"t{uuid.uuid4().hex}", **settings) as storage:
        await storage.migrate()
        yield storage


@asynccontextmanager
async def by_hand(url: str, **settings: Any) -> AsyncGenerator[redis.asyncio.Redis, None]:
    async with redis.asyncio.Redis.from_url(url, **settings) as client:
        yield client


def event(seq: int, session_id: str = "s", payload: bytes = b"{}") -> LedgerEvent:
    return LedgerEvent(
        session_id=session_id, seq=seq, id=uuid.uuid4().hex, type="t", payload=payload, created_at=utc_now()
    )


# --- which servers are trusted ------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"appendonly": "no"}, "appendonly is 'no'"),
        ({"appendfsync": "everysec"}, "appendfsync is 'everysec'"),
        ({"no_appendfsync_on_rewrite": "yes"}, "no-appendfsync-on-rewrite is 'yes'"),
    ],
)
async def test_a_server_that_can_lose_what_it_acknowledged_is_refused(
    settings: dict[str, str], found: str
) -> None:
    with servers.redis(**settings) as server:
        async with RedisStorage(server.url) as storage:
            with pytest.raises(StorageError, match=found) as refused:
                await storage.migrate()
            assert 'durability="relaxed"' in str(refused.value)
        async with RedisStorage(f"{server.url}?durability=relaxed") as storage:
            await storage.migrate()
            await storage.append_event(event(1))


@pytest.mark.parametrize("command", ["config", "info"])
async def test_a_server_that_does_not_say_is_refused(command: str) -> None:
    with servers.redis() as server:
        async with by_hand(server.url) as client:
            await client.acl_setuser(
                "app", enabled=True, nopass=True, keys="*", channels="*", commands=["+@all", f"-{command}"]
            )
        login = server.url.replace("//", "//app:x@")
        async with RedisStorage(login) as storage:
            with pytest.raises(StorageError, match="INFO or CONFIG GET is not allowed") as refused:
                await storage.migrate()
            assert not isinstance(refused.value, AccessDenied)
        async with RedisStorage(login, durability="relaxed") as storage:
            await storage.migrate()
            await storage.append_event(event(1))


async def test_a_server_that_comes_back_weaker_is_refused() -> None:
    with servers.redis() as server:
        async with RedisStorage(server.url) as storage:
            await storage.migrate()
            await storage.append_event(event(1))
            server.kill()
            server._settings["appendfsync"] = "everysec"  # type: ignore[attr-defined]
            server.start()
            with pytest.raises(StorageError, match="appendfsync is 'everysec'"):
                await storage.append_event(event(2))


async def test_a_server_that_evicts_is_refused_even_when_relaxed() -> None:
    with servers.redis(maxmemory="50mb", maxmemory_policy="allkeys-lru") as server:
        async with RedisStorage(server.url, durability="relaxed") as storage:
            with pytest.raises(StorageError, match="maxmemory-policy is allkeys-lru"):
                await storage.migrate()
        async with by_hand(server.url) as client:
            await client.config_set("maxmemory-policy", "volatile-lru")
        async with RedisStorage(server.url) as storage:  # evicts what expires, and nothing of ours does
            await storage.migrate()


async def test_a_replica_is_refused(url: str) -> None:
    primary = servers.shared("redis")
    with servers.redis(replicaof=f"127.0.0.1 {primary.port}") as server:
        async with RedisStorage(server.url) as storage:
            with pytest.raises(StorageError, match="is a replica"):
                await storage.migrate()


async def test_a_primary_that_becomes_a_replica_is_waited_for() -> None:
    primary = servers.shared("redis")
    with servers.redis() as server:
        async with RedisStorage(server.url) as storage, by_hand(server.url) as client:
            await storage.migrate()
            await storage.append_event(event(1))
            await client.replicaof("127.0.0.1", primary.port)  # type: ignore[arg-type]
            appending = asyncio.ensure_future(storage.append_event(event(1, "other")))
            await asyncio.sleep(0.2)
            assert not appending.done()
            await client.replicaof("NO", "ONE")
            await client.set("gnomon:schema", SCHEMA)
            await appending


# --- who may come in ------------------------------------------------------------


@pytest.mark.parametrize("login", [f":wrong-{SECRET}@", "", "nobody:some@"])
async def test_a_wrong_password_is_access_denied_and_is_not_shown(login: str) -> None:
    with servers.redis(requirepass=SECRET) as server:
        async with RedisStorage(server.url.replace(f":{SECRET}@", login)) as storage:
            with pytest.raises(AccessDenied) as denied:
                await storage.migrate()
            _shows_no_secret(denied.value)
        async with RedisStorage(server.url) as storage:
            await storage.migrate()
            assert SECRET not in storage.where + repr(storage)


async def test_a_user_without_the_permission_is_denied() -> None:
    with servers.redis() as server:
        async with RedisStorage(server.url) as storage, by_hand(server.url) as client:
            await storage.migrate()
            await client.acl_setuser(
                "reader",
                enabled=True,
                nopass=True,
                keys="*",
                commands=["+@read", "+evalsha", "+eval", "+info", "+config|get"],
            )
        async with RedisStorage(server.url.replace("//", "//reader:x@")) as storage:
            assert await storage.get_session("s") is None
            with pytest.raises(AccessDenied, match="has no permissions"):
                await storage.append_event(event(1))


async def test_a_user_who_may_not_publish_can_append() -> None:
    with servers.redis() as server:
        async with by_hand(server.url) as client:
            await client.acl_setuser(
                "quiet", enabled=True, nopass=True, keys="*", commands=["+@all"], reset_channels=True
            )
        async with RedisStorage(server.url.replace("//", "//quiet:x@")) as storage:
            await storage.migrate()
            await storage.append_event(event(1))
            async with storage.watch("s") as events:
                assert (await anext(events)).seq == 1
                await storage.append_event(event(2))
                assert (await anext(events)).seq == 2


def _shows_no_secret(error: BaseException | None) -> None:
    while error is not None:
        assert SECRET not in f"{error} {error!r} {error.args}"
        error = error.__cause__ if error.__suppress_context__ else error.__context__


# --- what it is given -----------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        f"redis://:{SECRET}@host/mydb",
        f"redis://:{SECRET}/x@host/0",
        f"redis://:12/{SECRET}@host/0",
        f"redis://:{SECRET}@host:port/0",
        f"redis://:{SECRET}@host/0?colour=blue",
        f"redis://:{SECRET}@host/0?socket_timeout=soon",
        f"redis://:{SECRET}@host/0?durability=some",
        f"redis://:{SECRET}@host/0?prefix=a{{b",
        f"http://:{SECRET}@host",
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(given: str) -> None:
    with pytest.raises(ConfigError) as refused:
        RedisStorage(given)
    _shows_no_secret(refused.value)


def test_settings_that_cannot_be_used_are_refused(url: str) -> None:
    for settings in ({}, {"url": url, "client": redis.asyncio.Redis()}):
        with pytest.raises(ConfigError, match="a URL or a client"):
            RedisStorage(**settings)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="above 0"):
        RedisStorage(url, timeout_s=0)
    with pytest.raises(ConfigError, match="decode_responses"):
        RedisStorage(client=redis.asyncio.Redis(decode_responses=True))
    with pytest.raises(ConfigError, match="Redis, str was given"):
        RedisStorage(client="redis://")  # type: ignore[arg-type]


def test_a_store_is_made_without_a_loop_or_a_server() -> None:
    assert isinstance(store_at("rediss://nowhere.invalid:1/0"), RedisStorage)


async def test_a_database_that_does_not_exist_is_named(url: str) -> None:
    async with RedisStorage(url.replace("/0", "/99")) as storage:
        with pytest.raises(StorageError, match="/99 has no such database"):
            await storage.migrate()


async def test_a_server_that_repeats_the_password_is_not_quoted(tmp_path: Path) -> None:
    without_auth = tmp_path / "more.conf"
    without_auth.write_text('rename-command AUTH ""\n')
    with servers.redis(include=str(without_auth)) as server:
        async with RedisStorage(server.url.replace("://", f"://user:{SECRET}@")) as storage:
            with pytest.raises(StorageError, match="unknown command 'AUTH'") as refused:
                await storage.migrate()
    _shows_no_secret(refused.value)


async def test_what_is_not_redis_is_told_at_once() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with server, RedisStorage(f"redis://127.0.0.1:{port}") as storage:
        with pytest.raises(StorageError, match="is not Redis"):
            await storage.migrate()


async def test_a_client_that_was_given_stays_open(url: str) -> None:
    async with by_hand(url) as client:
        async with RedisStorage(client=client, prefix=f"t{uuid.uuid4().hex}") as storage:
            await storage.migrate()
            await storage.append_event(event(1))
            assert SECRET not in storage.where
            async with storage.watch("s") as events:
                assert (await anext(events)).seq == 1
        assert await client.ping()


# --- the schema -----------------------------------------------------------------


async def test_there_is_a_step_to_every_schema() -> None:
    assert len(MIGRATIONS) == SCHEMA


async def test_a_key_of_another_program_is_no_schema(url: str) -> None:
    prefix = f"t{uuid.uuid4().hex}"
    async with by_hand(url) as client, RedisStorage(url, prefix=prefix) as storage:
        with pytest.raises(WrongSchema, match="no tables yet"):
            await storage.get_session("s")
        await client.set(f"{prefix}:schema", "version two")
        with pytest.raises(Damaged, match="choose another prefix"):
            await storage.migrate()


async def test_a_newer_schema_is_never_brought_down(url: str) -> None:
    prefix = f"t{uuid.uuid4().hex}"
    async with by_hand(url) as client, RedisStorage(url, prefix=prefix) as storage:
        await client.set(f"{prefix}:schema", 7)
        await storage._rows.rows.migrate()  # as one does that had looked before
        assert await storage.schema_version() == 7


# --- keys -----------------------------------------------------------------------


async def test_a_cluster_finds_all_that_a_script_touches_in_one_slot() -> None:
    with reserved() as port, servers.redis(cluster_enabled="yes", cluster_port=_number(port)) as server:
        async with by_hand(server.url) as client:
            await client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            async with asyncio.timeout(20):
                while (await client.cluster("INFO"))["cluster_state"] != "ok":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        async with RedisStorage(server.url) as storage:
            await storage.migrate()
            for tenant in ("plain", "}", "{", "a}b", "{}", "ö}{"):
                view = storage.scoped(tenant)
                await view.append_event(event(1, "}s{"))
                await view.put_memory(_memory("m"))
                await view.put_memory(_memory("m"))
                assert [row.id for row in (await view.list_memory()).items] == ["m"]
                assert await view.delete_memory("m")


async def test_logs_are_spread_over_the_slots(url: str) -> None:
    async with opened(url) as storage, by_hand(url) as client:
        for number in range(10):
            await storage.append_event(event(1, f"s{number}"))
        prefix = storage._rows.rows._prefix  # type: ignore[attr-defined]
        logs = [key async for key in client.scan_iter(f"{prefix}:*:log")]
        assert len({key_slot(key) for key in logs}) > 5


async def test_names_with_separators_do_not_run_together(url: str) -> None:
    async with opened(url) as storage:
        logs = [("a", "1:b"), ("a:1", "b"), ("a:1:b", ""), ("a}", ":b"), ("a", "}:b")]
        rows = storage._rows.rows
        for number, (tenant, session_id) in enumerate(logs):
            assert await rows.append(tenant, session_id, Group(1, 1, b"%d" % number))
        found = [await rows.read(tenant, session_id, 0, 9) for tenant, session_id in logs]
        assert [[group.body for group in groups] for groups in found] == [
            [b"%d" % n] for n in range(len(logs))
        ]


# --- what is large, and what is cut ------------------------------------------------


async def test_rows_beyond_what_one_reply_holds_are_all_found(url: str) -> None:
    async with opened(url) as storage:
        rows, body = storage._rows.rows, b"x" * (READ_BYTES // 3)
        for id in "abcdefgh":
            await rows.write("t", Row(kind="memory", id=id, body=body, places={"all": Place("", id)}), 0)
        span = Span(kind="memory", index="all", limit=7)
        assert [row.id for row in await rows.find("t", span)] == list("abcdefg")
        span = Span(kind="memory", index="all", limit=7, descending=True, above="b")
        assert [row.id for row in await rows.find("t", span)] == list("hgfedc")


async def test_a_row_that_somebody_took_away_makes_no_list_end_early(url: str) -> None:
    async with opened(url) as storage, by_hand(url) as client:
        for id in "abcde":
            await storage.put_memory(_memory(id))
        prefix = storage._rows.rows._prefix  # type: ignore[attr-defined]
        for id in "bc":
            assert await client.delete(f"{prefix}:{{7:default}}:row:memory:{id}")
        found = await storage._rows.rows.find("default", Span(kind="memory", index="all", limit=2))
        assert [row.id for row in found] == ["a", "d"]


async def test_a_blob_of_thirty_megabytes_comes_back(url: str) -> None:
    async with opened(url) as storage:
        content = bytes(range(256)) * 120_000
        assert await storage.get_blob(await storage.put_blob(content)) == content


async def test_a_read_takes_few_groups_at_a_time_however_small_the_first_are(url: str) -> None:
    """Redis copies all that it is asked for, and does nothing else: small ones may have large ones behind."""
    async with opened(url) as storage, by_hand(url) as client:
        rows = storage._rows.rows
        for seq in range(1, 101):
            assert await rows.append("t", "s", Group(seq, seq, b"x"))
        async with client.monitor() as monitor:
            assert len(await rows.read("t", "s", 0, 1_000)) == 100
            heard: list[str] = []
            while sum(line.startswith("XRANGE") for line in heard) < 100 // 8:
                heard.append((await monitor.next_command())["command"])
        assert max(int(line.split()[-1]) for line in heard if line.startswith("XRANGE")) == 8


async def test_a_log_that_was_cut_to_nothing_keeps_its_tail(url: str) -> None:
    async with opened(url) as storage:
        rows = storage._rows.rows
        for group in (Group(1, 3, b"a"), Group(4, 4, b"b"), Group(5, 9, b"c")):
            assert await rows.append("t", "s", group)
        assert await rows.cut("t", "s", 3) == 3
        assert await rows.cut("t", "s", 3) == 0
        assert await rows.cut("t", "s", 8) == 1
        assert await rows.cut("t", "s", 9) == 5
        assert await rows.read("t", "s", 0, 9) == []
        assert not await rows.append("t", "s", Group(1, 1, b"a"))
        assert await rows.append("t", "s", Group(10, 10, b"d"))
        assert await rows.cut("t", "s", None) == 1
        assert await rows.append("t", "s", Group(1, 1, b"a"))


# --- how readers hear ---------------------------------------------------------------


async def test_an_append_by_another_store_is_heard_at_once(url: str) -> None:
    async with opened(url) as storage, RedisStorage(url, prefix=storage._rows.rows._prefix) as other:  # type: ignore[attr-defined]
        storage._rows.rows.poll_s = 60  # type: ignore[misc]
        async with storage.watch("s") as events, storage.watch("s") as more:
            for seq in range(1, 6):
                await other.append_event(event(seq))
                began = time.monotonic()
                assert (await anext(events)).seq == (await anext(more)).seq == seq
                assert time.monotonic() - began < 5


async def test_a_reader_hears_again_after_its_connection_broke(url: str) -> None:
    async with opened(url) as storage, by_hand(url) as client:
        storage._rows.rows.poll_s = 60  # type: ignore[misc]
        async with (
            RedisStorage(url, prefix=storage._rows.rows._prefix) as other,
            storage.watch("s") as events,
        ):  # type: ignore[attr-defined]
            await other.append_event(event(1))
            assert (await anext(events)).seq == 1
            await client.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
            await other.append_event(event(2))
            assert (await anext(events)).seq == 2


async def test_a_store_that_is_closed_is_not_watched(url: str) -> None:
    async with opened(url) as storage:
        await storage.append_event(event(1))
    with pytest.raises(StorageError, match="closed"):
        await anext(storage.watch("s"))


def _number(port: socket.socket) -> str:
    return str(port.getsockname()[1])


def _memory(id: str) -> MemoryRecord:
    return MemoryRecord(id=id, agent_id="a", key=id, value=1, created_at=utc_now(), updated_at=utc_now())
