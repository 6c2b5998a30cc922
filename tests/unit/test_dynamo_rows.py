"""The primitives on DynamoDB: they do what those in memory do, and leave nothing behind in the table."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

import servers
from gnomon.errors import Damaged
from gnomon.storage import _dynamo_bodies as bodies_module
from gnomon.storage._dynamo_items import WASTE, Large, group_key, log_partition, partition, row_key, sort_key
from gnomon.storage._dynamo_table import Delete, Key
from gnomon.storage._keys import joined
from gnomon.storage._rows import INDEXES, READ_BYTES, Found, Group, Place, Row, Rows, Span
from gnomon.storage.dynamo import DynamoRows, DynamoStorage
from gnomon.storage.memory import MemoryTables

LARGE = 400_000
TENANT = "t"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    server = servers.shared("dynamo")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)


@asynccontextmanager
async def opened() -> AsyncGenerator[DynamoRows, None]:
    table = f"t{uuid.uuid4().hex}"
    url = f"dynamodb://us-east-1/{table}?endpoint={servers.shared('dynamo').url}"
    async with DynamoStorage(url) as storage:
        await storage.migrate()
        rows = storage._rows.rows
        assert isinstance(rows, DynamoRows)
        yield rows


async def items(rows: DynamoRows) -> list[Any]:
    """Everything in the table but the note of its schema."""
    found: list[Any] = []
    request: dict[str, Any] = {"TableName": rows._table.name, "ConsistentRead": True}
    while True:
        page: Any = await rows._table.call("scan", request)
        found += page["Items"]
        if "LastEvaluatedKey" not in page:
            return [item for item in found if item["sk"]["S"] != "schema"]
        request["ExclusiveStartKey"] = page["LastEvaluatedKey"]


def checkpoint(id: str, sort: str, part: str = "s", body: bytes = b"{}", revision: int = 1) -> Row:
    places = {"session": Place(part, sort)}
    return Row(kind="checkpoints", id=id, body=body, revision=revision, places=places)


def of(part: str = "s", **bounds: object) -> Span:
    return msgspec.convert({"kind": "checkpoints", "index": "session", "part": part, **bounds}, Span)


# --- like the ones in memory -------------------------------------------------------


class Asking:
    """The same random question to two stores."""

    # Names that begin alike for longer than a key may be, names of control characters, and separators.
    names = (
        "a",
        "b\x01c",
        "b",
        "ü" * 250,
        "ü" * 249 + "z",
        "ü" * 250 + "a",
        "\x01" * 512,
        "\U0010ffff" * 128,
    )

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._revision = 0

    def name(self) -> str:
        return self._random.choice(self.names)

    def sort(self) -> str:
        return joined(self.name(), self.name())

    def row(self) -> Row:
        kind, id = self._random.choice(("sessions", "memory", "heads")), self.name()
        indexes = [index for index in INDEXES[kind] if self._random.random() < 0.7]
        # A sort ends with the id, as those of the records do: no two rows have the same place.
        places = {index: Place(self.part(), joined(self.name(), id)) for index in indexes}
        self._revision += 1
        body = self._random.randbytes(self._random.choice((10, 10, 10, LARGE)))
        return Row(kind=kind, id=id, body=body, revision=self._revision, places=places)

    def part(self) -> str:
        return self._random.choice(("", "p", "q" * 512))

    def span(self) -> Span:
        kind = self._random.choice(("sessions", "memory"))
        bounds = {end: self._random.choice(("", self.name(), self.sort())) for end in ("above", "below")}
        return Span(
            kind=kind,
            index=self._random.choice(INDEXES[kind]),
            part=self.part(),
            descending=self._random.random() < 0.5,
            limit=self._random.choice((1, 2, 3, 50)),
            **bounds,
        )

    async def ask(self, one: Rows, other: Rows) -> None:
        row = self.row()
        stored = await one.get(TENANT, row.kind, row.id)
        expect = self._random.choice((None, 0, stored.revision if stored is not None else 0, 7))
        match self._random.choice(("write", "write", "write", "get", "delete", "find", "find", "find")):
            case "write":
                calls = [rows.write(TENANT, row, expect) for rows in (one, other)]
            case "get":
                calls = [rows.get(TENANT, row.kind, row.id) for rows in (one, other)]
            case "delete":
                calls = [rows.delete(TENANT, row.kind, row.id, expect) for rows in (one, other)]
            case _:
                span = self.span()
                calls = [rows.find(TENANT, span) for rows in (one, other)]
        first, second = [await call for call in calls]
        assert first == second


@pytest.mark.parametrize("seed", range(2))
async def test_rows_are_written_and_found_like_those_in_memory(seed: int) -> None:
    asking, memory = Asking(seed), MemoryTables()
    async with opened() as rows:
        for _ in range(150):
            await asking.ask(memory, rows)
        for kind in ("sessions", "memory", "heads"):
            for name in asking.names:
                await rows.delete(TENANT, kind, name)
        assert await items(rows) == []


@pytest.mark.parametrize("seed", range(2))
async def test_logs_are_appended_read_and_cut_like_those_in_memory(seed: int) -> None:
    chance, memory = random.Random(seed), MemoryTables()
    async with opened() as rows:
        tail = 0
        for _ in range(60):
            first = tail + chance.choice((1, 1, 1, 1, 0, 2))
            group = Group(
                first, first + chance.choice((0, 0, 3)), chance.randbytes(chance.choice((9, 9, LARGE)))
            )
            after_seq, limit = chance.randint(0, tail + 1), chance.choice((1, 3, 200))
            match chance.choice(("append", "append", "append", "read", "read", "cut")):
                case "append" if first > 0:
                    done = await memory.append(TENANT, "s", group)
                    assert await rows.append(TENANT, "s", group) is done
                    tail = group.last if done else tail
                case "read":
                    asked = (TENANT, "s", after_seq, limit)
                    assert await rows.read(*asked) == await memory.read(*asked)
                case _:
                    through = chance.randint(0, max(tail - 4, 0))
                    assert await rows.cut(TENANT, "s", through) == await memory.cut(TENANT, "s", through)
        assert await rows.cut(TENANT, "s", None) == await memory.cut(TENANT, "s", None)
        assert await rows.append(TENANT, "s", Group(1, 1, b"anew")) is True
        await rows.cut(TENANT, "s", None)
        assert await items(rows) == []


async def test_a_long_log_is_read_in_portions_and_cut_whole() -> None:
    async with opened() as rows:
        groups = [Group(seq, seq, b"x" * 300_000) for seq in range(1, 21)]
        for group in groups:
            assert await rows.append(TENANT, "s", group)
        read = await rows.read(TENANT, "s", 0, 100)
        assert READ_BYTES <= sum(len(group.body) for group in read) < READ_BYTES + 300_000
        assert read == groups[: len(read)]
        assert await rows.read(TENANT, "s", read[-1].last, 100) == groups[len(read) :]
        assert await rows.cut(TENANT, "s", None) == 20


@pytest.mark.parametrize("size", [10, LARGE])
async def test_one_of_many_appends_at_one_tail_is_done(size: int) -> None:
    async with opened() as rows:
        groups = [Group(1, 1 + number % 3, bytes([number]) * size) for number in range(6)]
        await asyncio.gather(*(rows.read(TENANT, "s", 0, 1) for _ in groups))  # all are connected
        done = await asyncio.gather(*(rows.append(TENANT, "s", group) for group in groups))
        assert sum(done) == 1
        assert await rows.read(TENANT, "s", 0, 10) == [groups[done.index(True)]]
        assert (await pieces(rows), await waste(rows)) == (2 if size == LARGE else 0, 0)


async def test_what_is_appended_while_a_log_is_removed_goes_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the first event of all, which comes between the look at the tail and the removal."""
    async with opened() as rows:
        tail_of = rows._logs._tail

        async def tail_and_append(tenant: str, session_id: str) -> int:
            monkeypatch.setattr(rows._logs, "_tail", tail_of)
            tail = await tail_of(tenant, session_id)
            assert await rows.append(TENANT, "s", Group(tail + 1, tail + 1, b"x"))
            return tail

        for before in (0, 3):
            for seq in range(1, before + 1):
                assert await rows.append(TENANT, "s", Group(seq, seq, b"x"))
            monkeypatch.setattr(rows._logs, "_tail", tail_and_append)
            assert await rows.cut(TENANT, "s", None) == before + 1
            assert await items(rows) == []


async def test_a_writer_that_comes_late_collides_though_its_place_was_pruned() -> None:
    async with opened() as rows:
        for seq in range(1, 6):
            assert await rows.append(TENANT, "s", Group(seq, seq, b"x"))
        assert await rows.cut(TENANT, "s", 4) == 4
        for first in (1, 3, 5, 7):
            assert not await rows.append(TENANT, "s", Group(first, first, b"late"))
        assert await rows.read(TENANT, "s", 0, 10) == [Group(5, 5, b"x")]


async def test_a_log_with_a_gap_is_damaged() -> None:
    async with opened() as rows:
        for seq in range(1, 4):
            await rows.append(TENANT, "s", Group(seq, seq, b"x"))
        await rows._table.commit([Delete(group_key(log_partition(TENANT, "s"), 2))])
        with pytest.raises(Damaged, match="has a gap"):
            await rows.read(TENANT, "s", 0, 10)


# --- keys ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["\x01" * 512, "\U0010ffff" * 128, "x" * 512])
def test_no_key_is_longer_than_the_service_allows(name: str) -> None:
    chain = row_key(name, "audit", joined(name, "1"))
    entry = partition(name, "i", "memory", "agent", name)
    assert max(len(key.encode()) for key in (chain.pk, entry)) <= 2048
    assert chain.pk.startswith(joined(name))
    assert len(sort_key(joined(name, name)).encode()) <= 1024


def test_long_names_that_differ_have_keys_that_differ() -> None:
    long = "\x01" * 511
    keys = {
        row_key(tenant, "audit", joined(id, "1")).pk for tenant in ("a", "b") for id in (long, long + "\x02")
    }
    assert len(keys) == 4


@pytest.mark.parametrize("descending", [False, True])
async def test_sorts_that_begin_alike_for_longer_than_a_key_are_in_order(descending: bool) -> None:
    """Their keys end in a hash, so that the service has them in another order."""
    async with opened() as rows:
        sorts = ["a", *[f"{'k' * 300}{number:02d}" for number in range(14)], "z"]
        for sort in sorts:
            await rows.write(TENANT, checkpoint(sort, sort), 0)
        expected = sorts[::-1] if descending else sorts
        for limit in (1, 4, 15, 50):
            for start in range(0, len(sorts), 5):
                beyond = expected[start]
                bounds = {"below" if descending else "above": beyond}
                found = await rows.find(TENANT, of(descending=descending, limit=limit, **bounds))
                assert [row.sort for row in found] == expected[start + 1 :][:limit]
        inside = await rows.find(TENANT, of(above=sorts[3], below=sorts[9], descending=descending))
        assert {row.sort for row in inside} == set(sorts[4:9])


# --- rows that move while they are looked for ------------------------------------------


async def test_a_row_that_moves_is_found_all_the_time() -> None:
    """A checkpoint that is saved again and again must never be missing from the end of its list."""
    async with opened() as rows:
        await rows.write(TENANT, checkpoint("old", "0"), 0)
        await rows.write(TENANT, checkpoint("new", "00001"), 0)

        async def move() -> None:
            for step in range(2, 40):
                await rows.write(TENANT, checkpoint("new", f"{step:05d}"), None)

        moving = asyncio.ensure_future(move())
        looks = 0
        while not moving.done():
            (last,) = await rows.find(TENANT, of(descending=True, limit=1))
            assert last.id == "new"
            assert {row.id for row in await rows.find(TENANT, of(limit=10))} == {"old", "new"}
            looks += 1
        await moving
        assert looks > 5


async def test_an_entry_that_was_left_behind_leads_to_where_the_row_is_now() -> None:
    async with opened() as rows:
        await rows.write(TENANT, checkpoint("a", "1"), 0)
        await rows.write(TENANT, checkpoint("b", "2"), 0)
        await rows.write(TENANT, checkpoint("a", "3"), None)
        assert len(await items(rows)) == 5  # two rows, and an entry more than there are places
        assert [row.sort for row in await rows.find(TENANT, of())] == ["2", "3"]
        assert [row.sort for row in await rows.find(TENANT, of(limit=1))] == ["2"]
        assert await rows.find(TENANT, of(below="2")) == []
        await rows.write(TENANT, checkpoint("a", "1"), None)
        assert [row.id for row in await rows.find(TENANT, of())] == ["a", "b"]
        await rows.write(TENANT, checkpoint("a", "1", part="elsewhere"), None)
        assert len(await items(rows)) == 4


async def test_many_writers_of_one_row_leave_just_its_entries() -> None:
    async with opened() as rows:
        writes = [checkpoint("a", f"{number}", body=b"x" * number) for number in range(12)]
        assert all(await asyncio.gather(*(rows.write(TENANT, row, None) for row in writes)))
        (found,) = await rows.find(TENANT, of())
        assert found.body == b"x" * int(found.sort)
        assert await rows.delete(TENANT, "checkpoints", "a")
        assert await items(rows) == []


async def test_one_of_many_that_expect_the_same_revision_writes() -> None:
    async with opened() as rows:
        await rows.write(TENANT, checkpoint("a", "0", revision=1), 0)
        writes = [checkpoint("a", f"{number}", revision=2) for number in range(8)]
        done = await asyncio.gather(*(rows.write(TENANT, row, 1) for row in writes))
        assert sum(done) == 1
        (found,) = await rows.find(TENANT, of())
        assert found.sort == str(done.index(True))


# --- large bodies ------------------------------------------------------------------------


def large(id: str = "a", letter: bytes = b"x", revision: int = 1) -> Row:
    return checkpoint(id, "1", body=letter * (3 * LARGE), revision=revision)


async def waste(rows: DynamoRows) -> int:
    return sum(item["pk"]["S"] == WASTE for item in await items(rows))


async def pieces(rows: DynamoRows) -> int:
    return sum(item["sk"]["S"] == "piece" for item in await items(rows))


async def test_a_large_body_that_is_replaced_or_removed_leaves_no_pieces() -> None:
    async with opened() as rows:
        assert await rows.write(TENANT, large(), 0)
        assert (await pieces(rows), await waste(rows)) == (4, 0)
        assert await rows.write(TENANT, large(letter=b"y", revision=2), 1)
        found = await rows.get(TENANT, "checkpoints", "a")
        assert found is not None
        assert found.body == b"y" * (3 * LARGE)
        assert (await pieces(rows), await waste(rows)) == (4, 0)
        assert await rows.write(TENANT, checkpoint("a", "1", revision=3), 2)
        assert (await pieces(rows), await waste(rows)) == (0, 0)
        assert await rows.write(TENANT, large(revision=4), None)
        assert not await rows.write(TENANT, large(letter=b"z", revision=9), 0)
        assert (await pieces(rows), await waste(rows)) == (4, 0)
        assert await rows.delete(TENANT, "checkpoints", "a")
        assert await items(rows) == []


async def test_a_large_body_that_is_there_already_is_not_written_again() -> None:
    async with opened() as rows:
        await rows.write(TENANT, large(), 0)
        before = sorted(item["pk"]["S"] for item in await items(rows) if item["sk"]["S"] == "piece")
        await rows.write(TENANT, large(revision=2), None)
        after = sorted(item["pk"]["S"] for item in await items(rows) if item["sk"]["S"] == "piece")
        assert before == after
        found = await rows.get(TENANT, "checkpoints", "a")
        assert found is not None
        assert (found.revision, len(found.body)) == (2, 3 * LARGE)


async def test_a_row_of_a_kind_without_indexes_may_have_a_large_body_too() -> None:
    async with opened() as rows:
        big = Row(kind="heads", id="a", body=b"x" * LARGE)
        assert await rows.write(TENANT, big, 0)
        assert await rows.write(TENANT, Row(kind="heads", id="a", body=b"small", revision=2), 1)
        assert (await pieces(rows), await waste(rows)) == (0, 0)
        assert await rows.write(TENANT, big, None)
        assert await rows.write(TENANT, Row(kind="heads", id="a", body=b"small"), None)
        assert (await pieces(rows), await waste(rows)) == (0, 0)


@pytest.mark.parametrize("then", ["replaced", "removed"])
async def test_a_large_body_whose_pieces_go_while_it_is_read_is_read_again(
    then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened() as rows:
        await rows.write(TENANT, large(), 0)
        get = rows.bodies.get

        async def get_late(tenant: str, large_body: Large) -> bytes | None:
            monkeypatch.setattr(rows.bodies, "get", get)
            if then == "removed":
                await rows.delete(TENANT, "checkpoints", "a")
            else:
                await rows.write(TENANT, large(letter=b"y", revision=2), None)
            return await get(tenant, large_body)

        async def listed() -> Found | None:
            return next(iter(await rows.find(TENANT, of())), None)

        for read in (listed, lambda: rows.get(TENANT, "checkpoints", "a")):
            await rows.write(TENANT, large(revision=1), None)
            monkeypatch.setattr(rows.bodies, "get", get_late)
            found = await read()
            assert (found and (found.revision, found.body[:1])) == ((2, b"y") if then == "replaced" else None)


async def test_what_a_crash_left_behind_is_swept() -> None:
    """A writer that ends after the pieces and before the row has left them on the list of waste."""
    async with opened() as rows:
        await rows.write(TENANT, large("kept"), 0)
        await rows.bodies.put(TENANT, b"x" * LARGE)
        assert (await pieces(rows), await waste(rows)) == (6, 1)
        assert await rows.bodies.sweep() == 0  # its writer may still be at work
        assert await rows.bodies.sweep(grace_s=0) == 1
        assert (await pieces(rows), await waste(rows)) == (4, 0)
        assert await rows.get(TENANT, "checkpoints", "kept") is not None


async def test_what_is_named_in_the_moment_of_the_sweep_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as rows:
        laid = await rows.bodies.put(TENANT, b"x" * LARGE)
        query = rows._table.query

        async def query_late(*args: Any, **settings: Any) -> Any:
            found = await query(*args, **settings)
            assert not await rows._table.commit([rows.bodies.keeping(laid)])
            return found

        monkeypatch.setattr(rows._table, "query", query_late)
        await rows.bodies.sweep(grace_s=0)
        assert await rows.bodies.get(TENANT, laid) == b"x" * LARGE


async def test_a_writer_whose_pieces_were_swept_writes_them_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened() as rows:
        put = bodies_module.Bodies.put

        async def put_and_sleep(self: bodies_module.Bodies, tenant: str, body: bytes) -> object:
            laid = await put(self, tenant, body)
            slept.append(await self.sweep(grace_s=0) if not slept else 0)
            return laid

        slept: list[int] = []
        monkeypatch.setattr(bodies_module.Bodies, "put", put_and_sleep)
        storage = DynamoStorage(client=await rows._table._connected(), table=rows._table.name)
        digest = await storage.put_blob(b"x" * LARGE)
        assert await storage.get_blob(digest) == b"x" * LARGE
        assert slept == [1, 0]
        assert (await pieces(rows), await waste(rows)) == (2, 0)


async def test_a_body_that_lost_a_piece_is_damaged() -> None:
    async with opened() as rows:
        await rows.write(TENANT, large(), 0)
        piece = next(item for item in await items(rows) if item["sk"]["S"] == "piece")
        await rows._table.commit([Delete(Key(piece["pk"]["S"], "piece"))])
        with pytest.raises(Damaged, match="lost pieces"):
            await rows.get(TENANT, "checkpoints", "a")
