"""The store in PostgreSQL: its schema and settings, appends that share a commit, bells and locks."""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest

import servers
from gnomon.contracts.storage import read_events
from gnomon.errors import AccessDenied, ConfigError, Conflict, InvalidInput, StorageError, Unavailable
from gnomon.registry import storage as store_at
from gnomon.storage import _postgres_appends
from gnomon.storage._postgres_appends import Append, Appends, Log
from gnomon.storage._postgres_migrations import MIGRATIONS
from gnomon.storage._postgres_tables import CUT_GROUPS, PIECE_BYTES, Statements
from gnomon.storage._rows import INDEXES, SCHEMA, Group, Row, Rows
from gnomon.storage.postgres import PostgresStorage
from gnomon.types.records import LedgerEvent, MemoryRecord, utc_now

SECRET = "hunter22"
SOON_S = 5.0


@pytest.fixture(scope="module")
def url() -> str:
    return servers.shared("postgres").url


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


def rows_of(storage: PostgresStorage) -> Rows:
    return storage._rows.rows


def schema_of(storage: PostgresStorage) -> str:
    return rows_of(storage)._schema


def event(seq: int, session_id: str = "s", payload: bytes = b"{}") -> LedgerEvent:
    return LedgerEvent(
        session_id=session_id, seq=seq, id=uuid.uuid4().hex, type="t", payload=payload, created_at=utc_now()
    )


async def seqs(storage: PostgresStorage, session_id: str = "s") -> list[int]:
    async with read_events(storage, session_id) as events:
        return [event.seq async for event in events]


async def role(url: str, *settings: str) -> str:
    """The URL of a new user, who has all rights in a schema of their own, and these settings."""
    name = fresh()
    async with by_hand(url) as connection:
        await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{SECRET}'")
        for setting in settings:
            await connection.execute(f"ALTER ROLE {name} {setting}")
        await connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION {name}")
    return f"{as_user(url, name)}?schema={name}"


def as_user(url: str, name: str, password: str = SECRET) -> str:
    return f"postgresql://{name}:{password}@{url.rpartition('@')[2]}"


# --- the schema ----------------------------------------------------------------


async def test_there_is_a_step_to_every_version_and_the_last_has_all_indexes(url: str) -> None:
    assert len(MIGRATIONS) == SCHEMA
    async with opened(url) as storage, by_hand(url) as connection:
        query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = $1"
        columns = {tuple(row) for row in await connection.fetch(query, schema_of(storage))}
    due = {
        (kind, f"{index}_{half}") for kind in INDEXES for index in INDEXES[kind] for half in ("part", "sort")
    }
    assert due <= columns


async def test_the_two_schemas_of_one_database_are_apart(url: str) -> None:
    async with opened(url, schema=f'a "b" {fresh()}') as one, opened(url) as other:
        await one.append_event(event(1))
        await other.append_event(event(1))
        async with one.holding("me"):
            assert await other.is_held("me") is False
        await one.delete_session("s")
        assert (await seqs(one), await seqs(other)) == ([], [1])


async def test_a_user_without_rights_on_the_database_uses_a_schema_that_was_prepared(url: str) -> None:
    storage = store_at(await role(url))
    async with storage:
        await storage.migrate()
        await storage.migrate()
        await storage.append_event(event(1))


async def test_a_user_without_any_rights_is_told_so(url: str) -> None:
    name = (await role(url)).rpartition("=")[2]
    async with PostgresStorage(as_user(url, name), schema=fresh()) as storage:
        with pytest.raises(AccessDenied, match="permission denied"):
            await storage.migrate()
    async with (
        opened(url) as theirs,
        PostgresStorage(as_user(url, name), schema=schema_of(theirs)) as storage,
    ):
        with pytest.raises(AccessDenied, match="permission denied"):
            await storage.append_event(event(1))


async def test_tables_of_another_program_are_left_alone(url: str) -> None:
    schema = fresh()
    async with by_hand(url) as connection:
        await connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.sessions (x int)")
        async with PostgresStorage(url, schema=schema) as storage:
            with pytest.raises(StorageError, match="already exists"):
                await storage.migrate()
            assert await storage.schema_version() == 0
        query = "SELECT count(*) FROM pg_tables WHERE schemaname = $1"
        assert await connection.fetchval(query, schema) == 1


async def test_what_a_table_holds_is_found_by_its_index(url: str) -> None:
    """A list must not read the whole table, however the planner judges a small one."""
    async with opened(url) as storage, by_hand(url) as connection:
        rows = [
            (f"{number}", 1, b"{}", *("", f"{number:09}") * len(INDEXES["sessions"]))
            for number in range(3000)
        ]
        columns = ["id", "revision", "body"]
        columns += [f"{index}_{half}" for index in INDEXES["sessions"] for half in ("part", "sort")]
        where = {"schema_name": schema_of(storage), "columns": ["tenant", *columns]}
        await connection.copy_records_to_table("sessions", records=[("t", *row) for row in rows], **where)
        await connection.execute(f"ANALYZE {schema_of(storage)}.sessions")
        for index in INDEXES["sessions"]:
            query = (
                f"EXPLAIN SELECT id FROM {schema_of(storage)}.sessions WHERE tenant = 't' "
                f"AND {index}_part = '' AND {index}_sort > '000002000' ORDER BY {index}_sort LIMIT 10"
            )
            plan = "\n".join(row[0] for row in await connection.fetch(query))
            assert f"sessions_by_{index}" in plan
            assert "Sort" not in plan


# --- settings --------------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "mysql://localhost/x",
        f"postgresql://u:{SECRET}@localhost:port/x",
        f"postgresql://u:{SECRET}@x@localhost/x",
        f"postgresql://u:{SECRET}/x@localhost/x",
        f"postgresql://u:{SECRET}@localhost/x?schema=pg_mine",
        f"postgresql://u:{SECRET}@localhost/x?schema={'s' * 64}",
        f"postgresql://u:{SECRET}@localhost/x?statement_cache_size=many",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_and_its_password_not_shown(address: str) -> None:
    with pytest.raises(ConfigError) as refused:
        PostgresStorage(address)
    assert SECRET not in f"{refused.value} {refused.value.hint} {refused.value!r}"
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"url": "postgresql://localhost/x", "client": object()},
        {"client": object()},
        {"url": "postgresql://localhost/x", "timeout_s": 0},
        {"url": "postgresql://localhost/x", "connections": 0},
        {"url": "postgresql://localhost/x", "statement_cache_size": -1},
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        PostgresStorage(**settings)


@pytest.mark.parametrize("setting", ["nonsense=1", "sslmode=perhaps", "lock_timeout=soon", "nonsense"])
async def test_a_setting_that_only_the_driver_or_the_server_can_judge_is_refused_at_first_use(
    url: str, setting: str
) -> None:
    async with PostgresStorage(f"{url}?{setting}") as storage:
        with pytest.raises(ConfigError) as refused:
            await storage.schema_version()
    assert url.split(":")[2].partition("@")[0] not in str(refused.value)


def test_a_store_is_made_without_a_loop_and_shows_no_password() -> None:
    storage = PostgresStorage(f"postgresql://user:{SECRET}@127.0.0.1:9/x?password={SECRET}")
    assert storage.where == "postgres store postgresql://127.0.0.1:9/x"
    assert SECRET not in repr(rows_of(storage)._link.settings)


async def test_a_server_that_is_away_is_passed_over_for_the_next_in_the_url(url: str) -> None:
    head, _, tail = url.rpartition("@")
    async with opened(f"{head}@127.0.0.1:9,{tail}") as storage:
        await storage.append_event(event(1))
        assert await seqs(storage) == [1]


async def test_it_works_without_prepared_statements(url: str) -> None:
    async with opened(f"{url}?statement_cache_size=0") as storage:
        await storage.append_event(event(1))
        assert await seqs(storage) == [1]


# --- what it asks of the server ----------------------------------------------------


async def test_commits_are_waited_for_where_the_server_would_not(url: str) -> None:
    async with store_at(await role(url, "SET synchronous_commit = off")) as storage:
        await storage.migrate()
        shown = await rows_of(storage)._link.run(
            lambda connection: connection.fetchval("SHOW synchronous_commit")
        )
        assert shown == "on"
        assert (await storage.status()).notes == ("on the server's disk before it is acknowledged",)


async def test_a_stricter_way_to_commit_stays_as_it_is(url: str) -> None:
    async with store_at(await role(url, "SET synchronous_commit = remote_apply")) as storage:
        await storage.migrate()
        shown = await rows_of(storage)._link.run(
            lambda connection: connection.fetchval("SHOW synchronous_commit")
        )
        assert shown == "remote_apply"


async def test_a_database_that_cannot_hold_all_text_is_refused(url: str) -> None:
    name = fresh()
    async with by_hand(url) as connection:
        await connection.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    async with PostgresStorage(f"{url.rpartition('/')[0]}/{name}") as storage:
        with pytest.raises(StorageError, match="LATIN1"):
            await storage.migrate()


async def test_a_server_that_only_reads_counts_as_one_that_is_away(url: str) -> None:
    address = await role(url, "SET default_transaction_read_only = on")
    async with store_at(address, {"patience_s": 0.2}) as storage:
        with pytest.raises(Unavailable, match="read-only"):
            await storage.migrate()


# --- a pool of somebody else's -------------------------------------------------------


@asynccontextmanager
async def pool_at(url: str, **settings: Any) -> AsyncGenerator[asyncpg.Pool, None]:
    async with asyncpg.create_pool(url, **{"min_size": 0, "max_size": 5, **settings}) as pool:
        yield pool


async def test_a_pool_is_used_and_left_open(url: str) -> None:
    async with pool_at(url) as pool:
        storage = PostgresStorage(client=pool, schema=fresh())
        await storage.migrate()
        await storage.append_event(event(1))
        async with storage.watch("s") as watched, storage.holding("me"):
            assert (await anext(watched)).seq == 1
            assert await storage.is_held("me")
        await storage.close()
        assert await pool.fetchval("SELECT 1") == 1
        assert await pool.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0


async def test_a_pool_that_is_not_open_yet_is_opened(url: str) -> None:
    pool = asyncpg.create_pool(url, min_size=1, max_size=5)
    async with PostgresStorage(client=pool, schema=fresh()) as storage:
        await asyncio.gather(*(storage.schema_version() for _ in range(5)))
    await pool.close()


async def test_a_pool_that_would_lose_commits_is_refused(url: str) -> None:
    async with pool_at(url, server_settings={"synchronous_commit": "off"}) as pool:
        storage = PostgresStorage(client=pool, schema=fresh())
        with pytest.raises(ConfigError, match="synchronous_commit"):
            await storage.migrate()
        await storage.close()


async def test_a_pool_that_is_too_small_or_closed_is_refused(url: str) -> None:
    async with pool_at(url, max_size=3) as pool:
        with pytest.raises(ConfigError, match="at most 3"):
            PostgresStorage(client=pool)
    async with pool_at(url) as pool:
        storage = PostgresStorage(client=pool, schema=fresh())
    with pytest.raises(StorageError, match="closed"):
        await storage.migrate()
    await storage.close()


# --- appends that share a commit -----------------------------------------------------


async def test_appends_of_many_sessions_share_a_commit(url: str) -> None:
    async with opened(url) as storage, by_hand(url) as connection:
        await storage.append_event(event(1, "first"))
        await asyncio.gather(*(storage.append_event(event(1, f"s{number}")) for number in range(100)))
        commits = f"SELECT count(DISTINCT xmin::text) FROM {schema_of(storage)}.events"
        assert await connection.fetchval(commits) <= 6


async def test_two_appends_to_one_log_at_once_keep_their_order(url: str) -> None:
    async with opened(url) as storage:
        await storage.append_event(event(1))
        await asyncio.gather(*(storage.append_event(event(seq)) for seq in range(2, 11)))
        assert await seqs(storage) == list(range(1, 11))


async def test_of_two_stores_that_append_the_same_number_one_is_refused(url: str) -> None:
    async with opened(url) as one, opened(url, schema=schema_of(one)) as other:
        for seq in range(1, 21):
            tries = (store.append_event(event(seq)) for store in (one, other))
            ends = await asyncio.gather(*tries, return_exceptions=True)
            assert sorted(type(end) for end in ends if end is not None) == [Conflict]
        assert await seqs(one) == list(range(1, 21))


async def test_an_append_that_cannot_be_stored_does_not_take_the_others_with_it(url: str) -> None:
    async with opened(url) as storage:
        rows = rows_of(storage)
        logs = (
            [f"s{number}" for number in range(5)] + ["bad \x00"] + [f"s{number}" for number in range(5, 10)]
        )
        tries = (rows.append("default", log, Group(1, 1, b"x")) for log in logs)
        ends = await asyncio.gather(*tries, return_exceptions=True)
        assert isinstance(ends.pop(5), InvalidInput)
        assert ends == [True] * 10


async def test_who_is_cancelled_does_not_cancel_the_others_of_the_batch(url: str) -> None:
    async with opened(url) as storage:
        for turns in range(12):
            name = f"{turns}"
            running = [
                asyncio.ensure_future(storage.append_event(event(1, f"{name} {each}"))) for each in range(6)
            ]
            for _ in range(turns):
                await asyncio.sleep(0)
            for task in running[::2]:
                task.cancel()
            await asyncio.wait(running)
            assert [task.exception() for task in running[1::2]] == [None] * 3
            assert [await seqs(storage, f"{name} {each}") for each in range(1, 6, 2)] == [[1]] * 3


async def test_batches_of_two_stores_over_the_same_logs_do_not_lock_each_other_out(url: str) -> None:
    async with opened(url) as one, opened(url, schema=schema_of(one)) as other:
        names = [f"s{number}" for number in range(40)]

        async def fill(storage: PostgresStorage, name: str) -> None:
            seq = 0
            while seq < 20:
                try:
                    await storage.append_event(event(seq + 1, name))
                except Conflict:
                    seq = len(await seqs(storage, name))
                else:
                    seq += 1

        orders = (random.Random(1).sample(names, 40), random.Random(2).sample(names, 40))
        pairs = zip((one, other), orders, strict=True)
        await asyncio.gather(*(fill(storage, name) for storage, order in pairs for name in order))
        assert [await seqs(one, name) for name in names] == [list(range(1, 21))] * 40


async def test_a_batch_has_one_group_a_log_in_one_order_and_is_not_too_large() -> None:
    batches: list[Sequence[Append]] = []
    under_way: list[Log] = []

    async def send(batch: Sequence[Append]) -> set[Log]:
        batches.append(batch)
        logs = {append.log for append in batch}
        assert not logs & set(under_way), "a log is in two batches at once"
        under_way.extend(logs)
        await asyncio.sleep(0.01)
        for log in logs:
            under_way.remove(log)
        return logs

    appends = Appends(send)
    logs = random.Random(1).sample([("t", f"s{number}") for number in range(1_400)], 1_400)
    small = [appends.add(log, Group(1, 1, b"x")) for log in logs + logs[:5]]
    assert await asyncio.gather(*small) == [True] * 1_405
    large = [appends.add(log, Group(2, 2, bytes(3_000_000))) for log in logs[:5]]
    assert await asyncio.gather(*large) == [True] * 5
    sizes = [len(batch) for batch in batches]
    assert (sizes[:2], sum(sizes[2:-3]), sizes[-3:]) == ([500, 500], 405, [2, 2, 1])
    for batch in batches:
        found = [append.log for append in batch]
        assert found == sorted(set(found))


async def test_two_batches_are_under_way_at_once_and_share_out_what_waits() -> None:
    sent: list[list[int]] = []
    gates = [asyncio.Event() for _ in range(8)]

    async def send(batch: Sequence[Append]) -> set[Log]:
        at = len(sent)
        sent.append([append.group.first for append in batch])
        await gates[at].wait()
        return {append.log for append in batch}

    appends = Appends(send)
    first = [
        asyncio.ensure_future(appends.add(("t", f"s{number}"), Group(1, 1, b"x"))) for number in range(40)
    ]
    await asyncio.sleep(0.01)
    assert sent == [[1] * 20, [1] * 20]
    second = [
        asyncio.ensure_future(appends.add(("t", f"s{number}"), Group(2, 2, b"x"))) for number in range(40)
    ]
    gates[0].set()
    await asyncio.wait(first[:20])
    await asyncio.sleep(0.01)
    assert sent[2:] == [[2] * 20], "those whose first is still under way wait for it"
    assert not any(append.done() for append in first[20:])
    for gate in gates:
        gate.set()
    assert await asyncio.gather(*first, *second) == [True] * 80
    assert [first for batch in sent[3:] for first in batch] == [2] * 20


@pytest.mark.parametrize("turns", range(5))
async def test_an_append_that_comes_just_as_the_senders_end_is_sent(turns: int) -> None:
    """Two batches end in the same turn of the loop; one who was in the first appends again soon after."""
    gate = asyncio.Event()

    async def send(batch: Sequence[Append]) -> set[Log]:
        await gate.wait()
        return {append.log for append in batch}

    async def again(name: str) -> bool:
        await appends.add(("t", name), Group(1, 1, b"x"))
        for _ in range(turns):
            await asyncio.sleep(0)
        return await appends.add(("t", name), Group(2, 2, b"x"))

    appends = Appends(send)
    first = asyncio.ensure_future(again("first"))
    others = [asyncio.ensure_future(appends.add(("t", f"s{at}"), Group(1, 1, b"x"))) for at in range(39)]
    await asyncio.sleep(0.01)
    gate.set()
    async with asyncio.timeout(30):
        assert await asyncio.gather(first, *others) == [True] * 40


async def test_an_append_that_comes_while_the_store_closes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_postgres_appends, "_CLOSE_S", 0.1)

    async def send(batch: Sequence[Append]) -> set[Log]:
        await asyncio.sleep(3_600)
        return set()

    appends = Appends(send)
    before = asyncio.ensure_future(appends.add(("t", "a"), Group(1, 1, b"x")))
    await asyncio.sleep(0.01)
    closing = asyncio.ensure_future(appends.close())
    await asyncio.sleep(0.01)
    with pytest.raises(StorageError, match="closed"):
        async with asyncio.timeout(30):
            await appends.add(("t", "b"), Group(1, 1, b"x"))
    await closing
    with pytest.raises(StorageError, match="closed while it appended"):
        await before


async def test_numbers_that_the_database_cannot_hold_are_like_any_other_wrong_one(url: str) -> None:
    async with opened(url) as storage:
        rows = rows_of(storage)
        row = Row(kind="heads", id="h", body=b"x")
        assert await rows.append("t", "s", Group(1, 1, b"x"))
        assert await rows.write("t", row, 0)
        for number in (2**63 - 1, 2**63, 2**80):
            assert not await rows.append("t", "s", Group(number, number, b"x"))
            assert not await rows.append_and_write("t", "s", Group(number, number, b"x"), row)
            assert not await rows.write("t", row, number)
            assert not await rows.delete("t", "heads", "h", number)
            assert await rows.read("t", "s", number, 10) == []
        assert await rows.cut("t", "s", 2**80) == 1


async def test_a_log_that_is_removed_while_somebody_appends_leaves_no_piece(url: str) -> None:
    """The append has seen the tail and not yet committed: whoever cuts waits for it, and looks again."""
    async with opened(url) as storage, by_hand(url) as connection:
        await storage.append_event(event(1))
        async with connection.transaction():
            given = (["default"], ["s"], [2], [2], [b"x"])
            assert await connection.fetch(Statements(schema_of(storage)).append, *given)
            removing = asyncio.ensure_future(rows_of(storage).cut("default", "s", None))
            await asyncio.wait({removing}, timeout=0.3)
            assert not removing.done()
        assert await removing == 2
        assert await rows_of(storage).read("default", "s", 0, 10) == []


async def test_a_long_log_is_cut_in_steps(url: str) -> None:
    async with opened(url) as storage, by_hand(url) as connection:
        many = CUT_GROUPS * 2 + 1
        records = [("default", "s", 2 * number + 1, 2 * number + 2, b"x") for number in range(many)]
        await connection.copy_records_to_table("events", records=records, schema_name=schema_of(storage))
        rows = rows_of(storage)
        assert await rows.cut("default", "s", 2 * many - 1) == 2 * many - 2
        assert [group.first for group in await rows.read("default", "s", 0, 10)] == [2 * many - 1]
        assert await rows.cut("default", "s", None) == 2


# --- what is large --------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES])
async def test_a_blob_is_put_together_from_its_pieces(url: str, size: int) -> None:
    content = random.Random(size).randbytes(size)
    async with opened(url) as storage:
        assert await storage.get_blob(await storage.put_blob(content)) == content


async def test_a_row_that_is_written_anew_while_it_is_read_is_never_mixed(url: str) -> None:
    async with opened(url) as storage:
        rows, stop = rows_of(storage), asyncio.Event()

        async def write() -> None:
            revision = 0
            while not stop.is_set():
                revision += 1
                body = bytes([revision % 256]) * (2 * PIECE_BYTES + revision)
                await rows.write("default", Row(kind="blobs", id="b", body=body, revision=revision), None)
                await asyncio.sleep(0.05)

        writing = asyncio.ensure_future(write())
        seen: set[int] = set()
        while len(seen) < 4:
            found = await rows.get("default", "blobs", "b")
            if found is not None:
                assert found.body == bytes([found.revision % 256]) * (2 * PIECE_BYTES + found.revision)
                seen.add(found.revision)
        stop.set()
        await writing


async def test_the_longest_names_fit_into_every_index(url: str) -> None:
    def name(letters: str, size: int) -> str:
        return "".join(random.Random(letters).choices(letters, k=size))

    async with opened(url) as storage:
        for letters, size in (
            ("\x01\x02", 512),
            ("abcdefghijklmnopqrstuvwxyz0123456789", 512),
            ("жщюя", 256),
        ):
            view, now = storage.scoped(name(letters, size)), utc_now()
            ids = {
                field: name(letters[::-1] + field[0], 100) for field in ("agent_id", "user_id", "session_id")
            }
            ids = {field: name(letters, size) for field in ids}
            await view.put_memory(
                MemoryRecord(
                    id=name(letters, size),
                    key=name(letters, size),
                    value=1,
                    created_at=now,
                    updated_at=now,
                    **ids,
                )
            )
            found = await view.list_memory(ids["agent_id"], user_id=ids["user_id"])
            assert len(found.items) == 1


# --- bells ----------------------------------------------------------------------------


async def test_a_watcher_hears_of_another_store_by_the_bell_and_not_by_looking(url: str) -> None:
    async with opened(url) as one, opened(url, schema=schema_of(one)) as other:
        rows_of(one).poll_s = 60.0  # type: ignore[misc]
        async with one.watch("s") as watched:
            hearing = asyncio.ensure_future(anext(watched))
            await listeners(url, one, 1)
            for seq in (1, 2, 3):
                await other.append_event(event(seq))
                async with asyncio.timeout(SOON_S):
                    assert (await hearing).seq == seq
                hearing = asyncio.ensure_future(anext(watched))
            hearing.cancel()
            await asyncio.wait({hearing})
        await listeners(url, one, 0)


async def test_a_watcher_hears_again_after_its_connection_broke(url: str) -> None:
    async with opened(url) as one, opened(url, schema=schema_of(one)) as other, by_hand(url) as connection:
        rows_of(one).poll_s = 60.0  # type: ignore[misc]
        async with one.watch("s") as watched:
            hearing = asyncio.ensure_future(anext(watched))
            pid = (await listeners(url, one, 1))[0]
            await connection.execute("SELECT pg_terminate_backend($1)", pid)
            await other.append_event(event(1))
            async with asyncio.timeout(SOON_S):
                assert (await hearing).seq == 1


async def listeners(url: str, storage: PostgresStorage, count: int) -> list[int]:
    """The server's processes that listen for the store, once there are so many."""
    listening = f'LISTEN "{rows_of(storage)._ringing._channel}"'
    query = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query = $1"
    async with by_hand(url) as connection, asyncio.timeout(SOON_S):
        while True:
            found = [row[0] for row in await connection.fetch(query, listening)]
            if len(found) == count:
                return found
            await asyncio.sleep(0.02)


# --- locks ----------------------------------------------------------------------------


async def test_a_name_is_held_by_one_store_and_seen_by_all(url: str) -> None:
    async with opened(url) as one, opened(url, schema=schema_of(one)) as other:
        async with one.holding("me"), one.holding("too"):
            for store in (one, other):
                assert await store.is_held("me")
                with pytest.raises(Conflict):
                    async with store.holding("me"):
                        pass
            assert not await other.scoped("elsewhere").is_held("me")
        assert not await other.is_held("me")
        async with other.holding("me"):
            assert await one.is_held("me")


async def test_a_name_is_taken_again_when_the_connection_broke(url: str) -> None:
    async with opened(url) as storage, by_hand(url) as connection, storage.holding("me"):
        held = await holder(connection)
        await connection.execute("SELECT pg_terminate_backend($1)", held)

        async def is_held_anew() -> bool:
            return await holder(connection) not in (None, held)

        await soon(is_held_anew)


async def holder(connection: asyncpg.Connection) -> int | None:
    return await connection.fetchval("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")


async def soon(question: Callable[[], Awaitable[bool]]) -> None:
    until = time.monotonic() + SOON_S
    while not await question():
        assert time.monotonic() < until, "not soon"
        await asyncio.sleep(0.02)


async def test_a_name_is_free_as_soon_as_its_process_is_killed(url: str) -> None:
    async with opened(url) as storage:
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            HOLDING,
            f"{url}?schema={schema_of(storage)}",
            stdout=asyncio.subprocess.PIPE,
        )
        assert child.stdout is not None
        await child.stdout.readline()
        assert await storage.is_held("me")
        child.kill()
        await child.wait()

        async def is_free() -> bool:
            return not await storage.is_held("me")

        await soon(is_free)


HOLDING = """
import asyncio, sys
from gnomon.registry import storage

async def main():
    async with storage(sys.argv[1]) as store, store.holding("me"):
        print("held", flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


async def test_who_is_cancelled_while_it_takes_a_name_holds_none(url: str) -> None:
    async with opened(url) as storage, opened(url, schema=schema_of(storage)) as other:

        async def hold() -> None:
            async with storage.holding("me"):
                await asyncio.sleep(60)

        async def only_the_other_is_held() -> bool:
            return not await other.is_held("me") and await other.is_held("stays")

        async with storage.holding("stays"):
            for turns in range(15):
                task = asyncio.ensure_future(hold())
                for _ in range(turns):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
                await soon(only_the_other_is_held)


async def test_who_is_cancelled_while_it_lets_go_of_a_name_has_let_go(url: str) -> None:
    async with opened(url) as storage, opened(url, schema=schema_of(storage)) as other:
        taken = asyncio.Event()

        async def hold() -> None:
            async with storage.holding("me"):
                taken.set()
                await asyncio.sleep(60)

        async def only_the_other_is_held() -> bool:
            return not await other.is_held("me") and await other.is_held("stays")

        async with storage.holding("stays"):
            task = asyncio.ensure_future(hold())
            await taken.wait()
            async with rows_of(storage)._locks._turn:  # somebody else talks on the connection
                for _ in range(2):
                    task.cancel()
                    await asyncio.sleep(0.01)
                await asyncio.wait({task})
            await soon(only_the_other_is_held)
