"""The store on DynamoDB: what it takes, what it refuses, and how it bears what breaks."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Generator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest
from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession
from dynamo_faults import door

import servers
from gnomon.contracts.storage import Storage, read_events
from gnomon.errors import AccessDenied, ConfigError, Conflict, StorageError, Unavailable, WrongSchema
from gnomon.registry import storage as store_at
from gnomon.storage._dynamo_schema import MIGRATIONS
from gnomon.storage._rows import SCHEMA, Row
from gnomon.storage.dynamo import DynamoStorage
from gnomon.types.records import LedgerEvent, MemoryRecord, SessionRecord, utc_now

SECRET = "hunter22"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    server = servers.shared("dynamo")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "none")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "none")


@pytest.fixture(scope="module")
def extenddb() -> Generator[Any, None, None]:
    with servers.extenddb(throttling=True) as server:
        yield server


@pytest.fixture
def strict(extenddb: Any, credentials: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A server that checks signatures, and throttles tables that have a capacity."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", extenddb.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", extenddb.secret_key)
    return extenddb


@asynccontextmanager
async def opened(endpoint: str = "", **settings: Any) -> AsyncGenerator[DynamoStorage, None]:
    async with DynamoStorage(address(endpoint), **settings) as storage:
        await storage.migrate()
        yield storage


def address(endpoint: str = "", table: str = "") -> str:
    table, endpoint = table or f"t{uuid.uuid4().hex}", endpoint or servers.shared("dynamo").url
    return f"dynamodb://us-east-1/{table}?endpoint={endpoint}"


@asynccontextmanager
async def by_hand(attempts: int = 1, endpoint: str = "") -> AsyncGenerator[Any, None]:
    config = AioConfig(retries={"total_max_attempts": attempts, "mode": "standard"})
    made = AioSession().create_client(
        "dynamodb",
        region_name="us-east-1",
        endpoint_url=endpoint or servers.shared("dynamo").url,
        config=config,
    )
    async with made as client:
        yield client


def event(seq: int, session_id: str = "s", payload: bytes = b"{}") -> LedgerEvent:
    return LedgerEvent(
        session_id=session_id, seq=seq, id=uuid.uuid4().hex, type="t", payload=payload, created_at=utc_now()
    )


def session(id: str, **fields: Any) -> SessionRecord:
    return SessionRecord(id=id, created_at=utc_now(), updated_at=utc_now(), **fields)


async def log(storage: DynamoStorage, session_id: str = "s") -> list[str]:
    async with read_events(storage, session_id) as stream:
        return [event.id async for event in stream]


# --- what it takes -----------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "dynamodb://us-east-1",
        "dynamodb://us-east-1/ab",
        "dynamodb://us-east-1/a/b/c",
        "dynamodb://us-east-1/my table",
        "dynamodb:///table",
        "dynamodb://us-east-1:8000/table",
        f"dynamodb://key:{SECRET}@us-east-1/table",
        f"dynamodb://us-east-1/table?endpoint=http://key:{SECRET}@127.0.0.1:8000",
        f"dynamodb://us-east-1/table?secret={SECRET}",
        "dynamodb://us-east-1/table?endpoint=127.0.0.1:8000",
        "dynamodb://us-east-1/table?timeout_s=soon",
        "dynamodb://us-east-1/table?poll_s=0",
    ],
)
def test_an_address_that_cannot_be_used_is_a_mistake_of_the_user(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        store_at(url)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("settings", [{}, {"client": object(), "table": "table"}, {"url": "", "client": 1}])
def test_a_store_needs_an_address_or_a_client(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        DynamoStorage(**settings)


def test_a_store_is_made_without_a_loop_and_without_a_server() -> None:
    storage = store_at("dynamodb://eu-central-1/gnomon?endpoint=http://127.0.0.1:1&poll_s=2")
    assert isinstance(storage, DynamoStorage)
    assert storage.where == "dynamo store dynamodb://eu-central-1/gnomon"
    assert storage._rows.rows.poll_s == 2
    asyncio.run(storage.close())


async def test_a_client_that_was_given_is_used_and_stays_open() -> None:
    async with by_hand() as client:
        async with DynamoStorage(client=client, table=f"t{uuid.uuid4().hex}") as storage:
            await storage.migrate()
            await storage.append_event(event(1))
        await client.list_tables()


# --- tables ------------------------------------------------------------------------


def test_there_is_a_step_to_every_schema() -> None:
    assert len(MIGRATIONS) == SCHEMA


async def test_without_a_table_the_store_says_what_to_do() -> None:
    async with DynamoStorage(address()) as storage:
        assert await storage.schema_version() == 0
        with pytest.raises(WrongSchema, match=r"migrate\(\)"):
            await storage.append_event(event(1))


async def test_a_table_that_goes_away_is_told_apart_from_a_server_that_is_away() -> None:
    async with opened() as storage, by_hand() as client:
        await client.delete_table(TableName=storage.where.rpartition("/")[2])
        with pytest.raises(WrongSchema, match="there is no such table"):
            await storage.append_event(event(1))


@pytest.mark.parametrize("keys", [{"pk": "S"}, {"id": "S", "sk": "S"}, {"pk": "S", "sk": "N"}])
async def test_a_table_of_another_program_is_refused(keys: dict[str, str]) -> None:
    table = f"t{uuid.uuid4().hex}"
    roles = zip(keys, ("HASH", "RANGE"), strict=False)
    async with by_hand() as client, DynamoStorage(address(table=table)) as storage:
        await client.create_table(
            TableName=table,
            KeySchema=[{"AttributeName": name, "KeyType": role} for name, role in roles],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": kind} for name, kind in keys.items()
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        first_step = MIGRATIONS[0](storage._rows.rows._table)
        for call in (storage.schema_version(), storage.migrate(), first_step):
            with pytest.raises(WrongSchema, match="a table of another program"):
                await call


async def test_ten_at_once_make_one_table() -> None:
    async with by_hand() as client:
        stores = [DynamoStorage(client=client, table="ten-at-once") for _ in range(10)]
        await asyncio.gather(*(storage.migrate() for storage in stores))
        assert await stores[0].schema_version() == SCHEMA


# --- who may ------------------------------------------------------------------------


async def test_wrong_credentials_are_told_apart_and_not_shown(
    strict: servers.Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(strict.url) as storage:
        await storage.append_event(event(1))
        assert len(await log(storage)) == 1
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"):
        monkeypatch.setenv(name, SECRET)
        async with DynamoStorage(address(strict.url)) as storage:
            with pytest.raises(AccessDenied, match="credentials were not accepted") as denied:
                await storage.get_session("s")
        assert SECRET not in str(denied.value)
        assert denied.value.__cause__ is None


async def test_without_credentials_the_store_says_where_they_come_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    async with DynamoStorage(address()) as storage:
        with pytest.raises(AccessDenied, match="environment, a profile"):
            await storage.migrate()


async def test_what_is_not_allowed_is_named_without_the_account() -> None:
    async with door(servers.shared("dynamo").url) as faulty, opened(faulty.url) as storage:
        faulty.fault = lambda operation, _: "AccessDeniedException" if "Write" in operation else ""
        with pytest.raises(AccessDenied, match="dynamodb:TransactWriteItems is not allowed") as denied:
            await storage.append_event(event(1))
        assert "arn:" not in str(denied.value)
        assert "allow dynamodb:PutItem and dynamodb:DeleteItem" in str(denied.value)


# --- what is put off -----------------------------------------------------------------


async def test_throttled_writes_all_arrive(strict: servers.Server) -> None:
    refused: Counter[str] = Counter()
    async with by_hand(endpoint=strict.url) as client:
        client.meta.events.register(
            "after-call.dynamodb",
            lambda parsed, **_: refused.update([parsed.get("Error", {}).get("Code", "")]),
        )
        storage = DynamoStorage(client=client, table="small", patience_s=60)
        await _make_small(client)
        await storage.migrate()
        # Rows without an index are plain writes: this server does not throttle transactions.
        rows = [Row(kind="heads", id=f"{number}", body=b"{}") for number in range(45)]
        assert all(await asyncio.gather(*(storage._rows.write("default", row, 0) for row in rows)))
        assert refused["ProvisionedThroughputExceededException"] > 0
        found = [await storage._rows.get("default", row.kind, row.id) for row in rows]
        assert [row.id for row in found if row is not None] == [row.id for row in rows]


async def _make_small(client: Any) -> None:
    names = ("pk", "sk")
    await client.create_table(
        TableName="small",
        KeySchema=[
            {"AttributeName": name, "KeyType": role}
            for name, role in zip(names, ("HASH", "RANGE"), strict=True)
        ],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        ProvisionedThroughput={"ReadCapacityUnits": 50, "WriteCapacityUnits": 5},
    )


@pytest.mark.parametrize("fault", ["conflict", "ThrottlingException"])
async def test_a_transaction_that_is_put_off_is_tried_again(fault: str) -> None:
    async with door(servers.shared("dynamo").url) as faulty, opened(faulty.url) as storage:
        faulty.fault = lambda operation, count: (
            fault if operation == "TransactWriteItems" and count % 4 else ""
        )
        await storage.create_session(session("s"))
        with pytest.raises(Conflict):
            await storage.create_session(session("s"))
        assert faulty.seen["TransactWriteItems"] >= 8


async def test_a_service_that_puts_off_for_too_long_is_unavailable() -> None:
    async with (
        door(servers.shared("dynamo").url) as faulty,
        opened(faulty.url, patience_s=0.5) as storage,
    ):
        faulty.fault = lambda operation, _: "ThrottlingException" if operation == "TransactWriteItems" else ""
        began = time.monotonic()
        with pytest.raises(Unavailable, match="too busy"):
            await storage.append_event(event(1))
        assert time.monotonic() - began < 3


async def test_rows_that_a_batch_leaves_out_are_asked_for_again() -> None:
    async with door(servers.shared("dynamo").url) as faulty, opened(faulty.url) as storage:
        for number in range(12):
            await storage.create_session(session(f"s{number}", agent_id="a"))
        faulty.fault = lambda operation, count: "half" if operation == "BatchGetItem" and count % 5 else ""
        assert len((await storage.list_sessions("a")).items) == 12
        assert faulty.seen["BatchGetItem"] > 3


async def test_every_read_asks_for_what_was_written_last() -> None:
    async with door(servers.shared("dynamo").url) as faulty, opened(faulty.url) as storage:
        await storage.create_session(session("s", agent_id="a"))
        await storage.append_event(event(1, payload=b"x" * 400_000))
        await storage.get_session("s")
        await storage.list_sessions("a")
        await log(storage)
        await storage.delete_session("s")
        reads = [(operation, asked) for operation, asked in faulty.asked if operation in ("GetItem", "Query")]
        batches = [asked for operation, asked in faulty.asked if operation == "BatchGetItem"]
        reads += [("BatchGetItem", keys) for asked in batches for keys in asked["RequestItems"].values()]
        assert {operation for operation, _ in reads} == {"GetItem", "Query", "BatchGetItem"}
        assert [operation for operation, asked in reads if asked.get("ConsistentRead") is not True] == []


# --- what breaks -----------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["lose the answer", "done and 500", "cut"])
async def test_a_write_whose_answer_is_lost_is_counted_once(fault: str) -> None:
    writes = ("PutItem", "TransactWriteItems", "DeleteItem")
    async with door(servers.shared("dynamo").url) as faulty, opened(faulty.url) as storage:
        faulty.fault = lambda operation, count: fault if operation in writes and count % 2 else ""
        events = [event(seq) for seq in range(1, 7)]
        for one in events:
            await storage.append_event(one)
        assert await log(storage) == [one.id for one in events]
        await storage.create_session(session("s", runnable=True))
        stored = await storage.get_session("s")
        assert stored is not None
        updated = await storage.update_session(stored)
        with pytest.raises(Conflict):
            await storage.update_session(stored)
        assert (await storage.get_session("s")) == updated
        assert len((await storage.list_runnable(utc_now())).items) == 1


@pytest.mark.parametrize("fault", ["lose the answer", "cut"])
async def test_a_large_body_bears_a_connection_that_breaks(fault: str) -> None:
    async with door(servers.shared("dynamo").url) as faulty, opened(faulty.url) as storage:
        chance = random.Random(1)
        faulty.fault = lambda *_: fault if chance.random() < 0.15 else ""
        content = random.Random(2).randbytes(3_000_000)
        digest = await storage.put_blob(content)
        assert await storage.get_blob(digest) == content
        await storage.append_event(event(1, payload=content))
        assert (await storage.list_events("s")).items[0].payload == content


async def test_a_client_that_asks_again_by_itself_makes_no_conflict_of_its_own_write() -> None:
    async with (
        door(servers.shared("dynamo").url) as faulty,
        by_hand(attempts=4, endpoint=faulty.url) as client,
    ):
        storage = DynamoStorage(client=client, table=f"t{uuid.uuid4().hex}")
        await storage.migrate()
        writes = ("PutItem", "TransactWriteItems")
        faulty.fault = lambda operation, count: (
            "lose the answer" if operation in writes and count % 3 == 2 else ""
        )
        for seq in range(1, 4):
            await storage.append_event(event(seq))
        assert len(await log(storage)) == 3
        for _ in range(2):
            async with storage.holding("runner"):  # a row that is written alone
                assert await storage.is_held("runner")


async def test_nothing_that_was_acknowledged_is_lost_when_the_server_is_killed() -> None:
    with servers.dynamo() as server:
        async with opened(server.url, timeout_s=2) as storage:
            acknowledged: dict[str, list[str]] = {f"s{number}": [] for number in range(4)}
            is_over = asyncio.Event()

            async def append(session_id: str) -> None:
                for seq in count(1):
                    one = event(seq, session_id)
                    await storage.append_event(one)
                    acknowledged[session_id].append(one.id)
                    if is_over.is_set():
                        return

            appending = asyncio.gather(*(append(session_id) for session_id in acknowledged))
            for _ in range(3):
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            is_over.set()
            await appending
            for session_id, ids in acknowledged.items():
                assert len(ids) > 10
                assert await log(storage, session_id) == ids


async def test_a_server_that_hangs_is_unavailable_in_time_and_then_found_again() -> None:
    with servers.dynamo() as server:
        async with opened(server.url, timeout_s=1, patience_s=2) as storage:
            await storage.append_event(event(1))
            server.freeze()
            try:
                began = time.monotonic()
                calls: list[Awaitable[object]] = [storage.append_event(event(1, f"s{n}")) for n in range(80)]
                found = await asyncio.gather(*calls, storage.get_session("s"), return_exceptions=True)
                assert time.monotonic() - began < 6
            finally:
                server.thaw()
            assert {type(error) for error in found} == {Unavailable}
            async with asyncio.timeout(30):  # it has a hundred requests to answer first
                while await _is_away(storage):
                    pass
            await storage.append_event(event(2))


async def _is_away(storage: Storage) -> bool:
    try:
        await storage.get_session("s")
    except Unavailable:
        return True
    return False


async def test_a_client_that_was_given_is_not_waited_for_longer_than_the_store_may() -> None:
    with servers.dynamo() as server:
        async with by_hand(endpoint=server.url) as client:
            storage = DynamoStorage(client=client, table="gnomon", timeout_s=1, patience_s=2)
            await storage.migrate()
            server.freeze()
            try:
                began = time.monotonic()
                with pytest.raises(Unavailable, match="no answer in time"):
                    await storage.append_event(event(1))
                assert time.monotonic() - began < 5
            finally:
                server.thaw()


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    async with DynamoStorage(address("http://127.0.0.1:1"), patience_s=0.3) as storage:
        with pytest.raises(Unavailable, match="no connection"):
            await storage.migrate()


# --- what is cancelled or closed -----------------------------------------------------


async def test_a_call_that_is_cancelled_at_any_moment_leaves_the_store_as_good_as_before() -> None:
    content, chance = b"x" * 800_000, random.Random(3)
    async with opened() as storage:
        await storage.append_event(event(1))
        for number in range(40):
            calls = [
                storage.append_event(event(await _tail(storage) + 1)),
                storage.put_memory(
                    MemoryRecord(id="m", key="k", value=number, created_at=utc_now(), updated_at=utc_now())
                ),
                storage.put_blob(content + str(number).encode()),
                storage.list_events("s"),
            ]
            tasks = [asyncio.ensure_future(call) for call in calls]
            await asyncio.sleep(chance.uniform(0, 0.02))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            assert not [task for task in tasks if not task.cancelled() and task.exception() is not None]
        seqs = [one.seq for one in (await storage.list_events("s", 0, 100)).items]
        assert seqs == list(range(1, len(seqs) + 1))
        assert len((await storage.list_memory()).items) <= 1


async def _tail(storage: DynamoStorage) -> int:
    return (await storage.list_events("s", 0, 1000)).items[-1].seq


async def test_the_first_call_may_be_cancelled_while_it_connects() -> None:
    async with opened() as storage:
        table = storage.where.rpartition("/")[2]
    for wait_s in (0, 0.001, 0.05, 0.1):
        async with DynamoStorage(address(table=table)) as storage:
            task = asyncio.ensure_future(storage.get_session("s"))
            await asyncio.sleep(wait_s)
            task.cancel()
            await asyncio.wait({task})
            assert await storage.get_session("s") is None


async def test_closing_ends_what_is_under_way() -> None:
    async with opened() as storage:
        calls: list[Awaitable[object]] = [
            storage.append_event(event(1, f"s{number}")) for number in range(30)
        ]
        running = asyncio.gather(*calls, return_exceptions=True)
        await asyncio.sleep(0.01)
        await storage.close()
        await storage.close()
        assert {type(found) for found in await running} <= {type(None), StorageError}
        assert storage._rows.rows._table._client is None  # nothing has opened it again
        with pytest.raises(StorageError, match="closed"):
            await storage.append_event(event(1))


# --- what others do ----------------------------------------------------------------------


async def test_a_reader_hears_of_what_another_process_appends() -> None:
    """There is no bell between processes: a reader looks again by itself."""
    url = address()
    async with DynamoStorage(url) as one, DynamoStorage(url) as other:
        await one.migrate()
        async with one.watch("s") as watching:
            first = asyncio.ensure_future(anext(watching))
            await asyncio.sleep(0.1)
            await other.append_event(event(1))
            began = time.monotonic()
            assert (await first).seq == 1
            assert time.monotonic() - began < 2
