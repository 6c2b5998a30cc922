"""Each server starts, answers the client that is made for it, survives a crash, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import redis.asyncio
from aiobotocore.session import get_session
from botocore.config import Config
from botocore.exceptions import ClientError
from pymongo import AsyncMongoClient
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

import servers
from servers import DynamoServer, linux, ports, running

KINDS = ("postgres", "redis", "mongo", "dynamo", "extenddb")
STARTS: dict[str, Callable[[], servers.Server]] = {name: getattr(servers, name) for name in KINDS}

# --- one value, by the client of each ------------------------------------------


async def exchange_postgres(server: servers.Server, value: str | None) -> str | None:
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute("create table if not exists kept (value text)")
        if value is not None:
            await connection.execute("insert into kept values ($1)", value)
        return await connection.fetchval("select value from kept")
    finally:
        await connection.close()


async def exchange_redis(server: servers.Server, value: str | None) -> str | None:
    async with redis.asyncio.from_url(server.url, decode_responses=True) as client:
        if value is not None:
            await client.set("kept", value)
        found = await client.get("kept")
        assert found is None or isinstance(found, str)
        return found


async def exchange_mongo(server: servers.Server, value: str | None) -> str | None:
    async with AsyncMongoClient(server.url, serverSelectionTimeoutMS=5000) as client:
        if value is not None:
            await client.tests.kept.insert_one({"_id": 1, "value": value})
        found = await client.tests.kept.find_one({"_id": 1})
        return found and found["value"]


async def exchange_dynamo(server: servers.Server, value: str | None) -> str | None:
    assert isinstance(server, DynamoServer)
    async with dynamo_client(server) as client:
        if value is not None:
            await create_table(client)
            await client.put_item(TableName="kept", Item={"id": {"S": "1"}, "value": {"S": value}})
        found = await client.get_item(TableName="kept", Key={"id": {"S": "1"}}, ConsistentRead=True)
        return found.get("Item", {}).get("value", {}).get("S")


def dynamo_client(server: DynamoServer, *, secret: str = "") -> Any:
    return get_session().create_client(
        "dynamodb",
        region_name=server.region,
        endpoint_url=server.url,
        aws_access_key_id=server.access_key,
        aws_secret_access_key=secret or server.secret_key,
        config=Config(retries={"total_max_attempts": 1}),
    )


async def create_table(client: Any) -> None:
    await client.create_table(
        TableName="kept",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        ProvisionedThroughput={"ReadCapacityUnits": 1, "WriteCapacityUnits": 1},
    )
    await client.get_waiter("table_exists").wait(
        TableName="kept", WaiterConfig={"Delay": 0.1, "MaxAttempts": 99}
    )


EXCHANGES: dict[str, Callable[[servers.Server, str | None], Awaitable[str | None]]] = {
    "postgres": exchange_postgres,
    "redis": exchange_redis,
    "mongo": exchange_mongo,
    "dynamo": exchange_dynamo,
    "extenddb": exchange_dynamo,
}


# --- its life ------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_server_said_it_kept_is_there_after_a_crash(kind: str) -> None:
    with STARTS[kind]() as server:
        url, pid = server.url, server.pid
        assert await EXCHANGES[kind](server, "a value") == "a value"
        server.kill()
        assert refuses(server.port)
        server.start()
        assert (server.url, server.pid != pid) == (url, True)
        assert await EXCHANGES[kind](server, None) == "a value"


@pytest.mark.parametrize("kind", KINDS)
def test_a_stopped_server_leaves_nothing_behind(kind: str) -> None:
    server = STARTS[kind]()
    family = [server.pid, *linux.descendants(server.pid)]
    assert server.folder.is_dir()
    server.stop()
    server.stop()
    assert not any(map(linux.is_alive, family))
    assert not server.folder.exists()
    assert refuses(server.port)
    assert server.pid == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_server_leaves_no_process_behind(kind: str) -> None:
    with STARTS[kind]() as server:
        family = [server.pid, *linux.descendants(server.pid)]
        server.kill()
        server.kill()
        assert not any(map(linux.is_alive, family))


def test_postgres_runs_where_its_programs_are_closed_to_the_user_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("servers.postgres_server._open_to_all", lambda _: False)
    with servers.postgres() as server:
        assert Path(f"/proc/{server.pid}/exe").resolve().is_relative_to(server.folder)


def test_postgres_that_was_killed_leaves_no_shared_memory() -> None:
    with servers.postgres() as server:
        pid = server.pid
        server.kill()
        assert segments(pid) == 1
    assert segments(pid) == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_frozen_server_is_there_and_answers_nothing(kind: str) -> None:
    with STARTS[kind]() as server:
        server.freeze()
        assert not refuses(server.port)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(EXCHANGES[kind](server, None), 0.3)
        server.thaw()
        assert await EXCHANGES[kind](server, "a value") == "a value"


def test_a_frozen_server_can_be_stopped_at_once() -> None:
    server = servers.postgres()
    server.freeze()
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < running.END_S / 2


def test_a_server_that_runs_is_not_started_twice() -> None:
    with servers.dynamo() as server:
        with pytest.raises(servers.CannotStart, match="runs already"):
            server.start()
        assert linux.is_alive(server.pid)


def test_servers_of_one_kind_do_not_meet() -> None:
    with servers.redis() as one, servers.redis() as other:
        assert (one.port, one.folder, one.pid) != (other.port, other.folder, other.pid)


# --- a start that fails ----------------------------------------------------------


def test_a_server_that_does_not_come_up_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(servers.CannotStart, match=r"redis ended with 1:(?s:.*)sometimes"):
        servers.redis(appendfsync="sometimes")
    assert list(tmp_path.iterdir()) == []


def test_another_program_on_the_port_is_not_taken_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(servers.Server):
        name = "deaf"

        def _command(self) -> list[str]:
            stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            stranger.bind((ports.LOOPBACK, self.port))
            stranger.listen()
            return ["/bin/sleep", "60"]

    monkeypatch.setattr(running, "START_S", 0.3)
    with socket.socket() as stranger, pytest.raises(servers.CannotStart, match="did not answer within"):
        Deaf()


def test_a_server_that_listens_elsewhere_is_refused() -> None:
    with pytest.raises(servers.CannotStart, match="another address"):
        servers.redis(bind="127.0.0.1 127.0.0.2")


@pytest.mark.parametrize("kind", ["redis", "dynamo", "extenddb"])
def test_a_program_that_is_not_there_is_a_skip_and_a_failure_in_ci(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="make servers"):
        STARTS[kind]()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="make servers"):
        STARTS[kind]()


def test_a_package_that_is_not_there_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="no_such_package is not installed"):
        servers.programs.package_file("no_such_package", "x")


# --- the end of the tests ----------------------------------------------------------


def test_a_shared_server_is_one_for_the_process() -> None:
    assert servers.shared("dynamo") is servers.shared("dynamo")
    assert servers.shared("redis") is not servers.shared("dynamo")


def test_a_shared_server_that_died_is_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servers.sharing._running", {})
    server = servers.shared("redis")
    try:
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: server.died() is not None)
        with pytest.raises(AssertionError, match="redis ended by itself with -9"):
            servers.shared("redis")
    finally:
        servers.stop_shared()
    assert not server.folder.exists()


ORPHANS = """
import sys, time
sys.path.insert(0, sys.argv[1])
import servers
for server in (servers.shared("redis"), servers.postgres(), servers.dynamo()):
    print(server.pid, server.folder, flush=True)
server.kill()
print("killed", flush=True)
time.sleep(60)
"""


def test_servers_end_when_the_tests_are_killed() -> None:
    with killable() as process:
        assert process.stdout is not None
        known = [line.split() for line in iter(process.stdout.readline, "killed\n")]
        family = [child for pid, _ in known for child in (int(pid), *linux.descendants(int(pid)))]
        assert len(family) > 3
        process.kill()
    wait_until(lambda: not any(Path(folder).exists() for _, folder in known))
    assert not any(map(linux.is_alive, family))


def killable() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ORPHANS, str(Path(__file__).parents[1])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# --- who may ask, and how much -------------------------------------------------------


async def test_postgres_asks_for_its_password() -> None:
    server = servers.shared("postgres")
    with pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(server.url, password="wrong")


async def test_postgres_takes_settings() -> None:
    with servers.postgres(synchronous_commit="off") as server:
        connection = await asyncpg.connect(server.url)
        assert await connection.fetchval("show synchronous_commit") == "off"
        assert await connection.fetchval("show fsync") == "on"
        await connection.close()


async def test_redis_takes_settings_and_a_password() -> None:
    with servers.redis(requirepass="secret", appendfsync="everysec") as server:
        assert await exchange_redis(server, "a value") == "a value"
        async with redis.asyncio.from_url(server.url) as client:
            assert await client.config_get("appendfsync") == {"appendfsync": "everysec"}
        once = Retry(NoBackoff(), 0)  # the client takes a wrong password for a bad connection
        async with redis.asyncio.Redis(port=server.port, retry=once) as stranger:
            with pytest.raises(redis.asyncio.AuthenticationError):
                await stranger.ping()


async def test_redis_writes_every_change_to_disk_unless_told_otherwise() -> None:
    async with redis.asyncio.from_url(servers.shared("redis").url) as client:
        settings = await client.config_get("append*")
    assert (settings["appendonly"], settings["appendfsync"]) == ("yes", "always")


async def test_extenddb_checks_signatures() -> None:
    server = servers.shared("extenddb")
    assert isinstance(server, DynamoServer)
    async with dynamo_client(server, secret="wrong") as client:
        with pytest.raises(ClientError, match="InvalidSignatureException"):
            await client.list_tables()


async def test_extenddb_throttles_where_asked_to() -> None:
    with servers.extenddb(throttling=True) as server:
        async with dynamo_client(server) as client:
            await create_table(client)
            with pytest.raises(ClientError, match="ProvisionedThroughputExceededException"):
                await put_many(client, 20)


async def put_many(client: Any, count: int) -> None:
    for number in range(count):
        await client.put_item(TableName="kept", Item={"id": {"S": str(number)}})


# --- ports ----------------------------------------------------------------------------


def test_a_reserved_port_is_taken_for_others_and_free_for_a_server() -> None:
    with ports.reserved() as held, socket.socket() as other, socket.socket() as server:
        where = held.getsockname()
        with pytest.raises(OSError, match="in use"):
            other.bind(where)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(where)
        assert refuses(where[1])
        server.listen()
        assert not refuses(where[1])


def refuses(port: int) -> bool:
    try:
        socket.create_connection((ports.LOOPBACK, port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def segments(pid: int) -> int:
    """How many pieces of System V shared memory are there that this process made."""
    lines = [line.split() for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
    return [line[4] for line in lines].count(str(pid))


def wait_until(true: Callable[[], bool], limit_s: float = 20) -> None:
    until = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < until, "it did not come to that"
        time.sleep(0.05)
