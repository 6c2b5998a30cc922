"""What is special to the store in MongoDB: its URL, how a log is laid out, bodies that are too large."""

from __future__ import annotations

import asyncio
import time
import traceback
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pymongo
import pytest

import servers
from gnomon.errors import ConfigError, Damaged, StorageError
from gnomon.storage import _mongo_aside, _mongo_log, mongo
from gnomon.storage._keys import joined
from gnomon.storage._rows import INDEXES, SCHEMA, Group, Lost, Place, Row, Span
from gnomon.storage.mongo import MIGRATIONS, MongoRows, MongoStorage
from mongo_relay import Relay

LARGE = 10_001


def address() -> str:
    return f"{servers.shared('mongo').url}u{uuid.uuid4().hex}"


@asynccontextmanager
async def opened(url: str | None = None) -> AsyncGenerator[MongoRows, None]:
    async with MongoStorage(url or address()) as storage:
        await storage.migrate()
        rows = storage._rows.rows
        assert isinstance(rows, MongoRows)
        yield rows


@asynccontextmanager
async def behind_relay() -> AsyncGenerator[tuple[MongoRows, Relay], None]:
    async with (
        Relay(servers.shared("mongo").port) as relay,
        opened(relay.url(f"u{uuid.uuid4().hex}")) as rows,
    ):
        yield rows, relay


async def count(rows: MongoRows, collection: str) -> int:
    return await rows._link.collection(collection).count_documents({})


async def filled(rows: MongoRows, session_id: str, events: int) -> None:
    for seq in range(1, events + 1):
        assert await rows.append("t", session_id, Group(seq, seq, b"%d" % seq))


async def numbers(rows: MongoRows, session_id: str, after_seq: int = 0) -> list[int]:
    return [group.first for group in await rows.read("t", session_id, after_seq, 1000)]


# --- how it is opened


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mongodb://host", "names no database"),
        ("mongodb://host/", "names no database"),
        ("mongodb://host/one?nosuchoption=1", "nosuchoption"),
        ("mongodb://host:nan/one", "Port"),
        ("mongodb://[::1/one", "cannot be read"),
        ("mongodb://host/one?prefix=a$b", "prefix"),
        ("mongodb://host/a b", "database"),
        ("mongodb://user:hunter@2@host/one", "cannot be opened"),
        ("mongodb://user:hun/ter2@host/one", "cannot be read"),
        ("mongodb://ann@example:hun/ter2@host/one", "cannot be read"),
        ("mongodb://ann@example:hun?ter2@host/one", "cannot be read"),
        ("mongodb://user:hun/t$er?2=3@host/one", "cannot be read"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(url: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        MongoStorage(url)
    shown = "".join(traceback.format_exception(caught.value))
    shown = shown[shown.rindex("ConfigError") :] + str(caught.value)
    assert said in shown
    assert "hun" not in shown.replace("hint", "")


def test_a_store_is_opened_by_a_url_or_by_a_client_and_a_database() -> None:
    client: pymongo.AsyncMongoClient[dict[str, object]] = pymongo.AsyncMongoClient("mongodb://host/x")
    for given in ({}, {"client": client}, {"url": "mongodb://host/x", "client": client, "database": "x"}):
        with pytest.raises(ConfigError):
            MongoStorage(**given)  # pyright: ignore[reportArgumentType]


def test_a_time_limit_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError):
        MongoStorage("mongodb://host/x", timeout_s=0)


def test_nothing_is_connected_to_before_the_first_call() -> None:
    storage = MongoStorage("mongodb://user:secret@127.0.0.1:1/x?prefix=a_")
    assert storage.where == "mongo store mongodb://127.0.0.1:1/x"
    asyncio.run(storage.close())


async def test_a_client_that_was_given_is_not_closed() -> None:
    async with pymongo.AsyncMongoClient[dict[str, object]](servers.shared("mongo").url) as client:
        name = f"u{uuid.uuid4().hex}"
        for _ in range(2):
            async with MongoStorage(client=client, database=name) as storage:
                await storage.migrate()
                await storage.put_blob(b"x")
                assert name in storage.where
        assert (await client.admin.command("ping"))["ok"] == 1


async def test_stores_of_two_prefixes_in_one_database_do_not_meet() -> None:
    url = address()
    async with opened(f"{url}?prefix=a_") as one, opened(f"{url}?prefix=b_") as other:
        await filled(one, "s", 3)
        assert await numbers(other, "s") == []


def test_a_store_of_another_event_loop_says_so() -> None:
    storage = MongoStorage(address())
    with asyncio.Runner() as runner:
        runner.run(storage.migrate())
        with pytest.raises(StorageError, match="another event loop"):
            asyncio.run(storage.put_blob(b"x"))
        runner.run(storage.close())


# --- the schema


def test_there_is_a_step_for_every_version() -> None:
    assert len(MIGRATIONS) == SCHEMA


async def test_a_version_that_was_marked_is_never_marked_down() -> None:
    async with opened() as rows:
        await rows._mark(7)
        await asyncio.gather(*(rows._mark(number) for number in (3, 5, 7, 1)))
        assert await rows.version() == 7


async def test_every_index_is_asked_for_and_spares_rows_that_have_no_place_in_it() -> None:
    async with behind_relay() as (_, relay):
        for kind, indexes in INDEXES.items():
            asked = relay.said.get(f"createIndexes gnomon_{kind}", {}).get("indexes", [])
            assert asked == [{"name": index, "key": {index: 1}, "sparse": True} for index in indexes]


async def test_writes_are_for_a_majority_and_its_journals_and_reads_are_of_what_a_majority_has() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 40)
        await rows.cut("t", "s", None)
        for command in ("insert", "update", "delete"):
            assert relay.said[command]["writeConcern"] == {"w": "majority", "j": True}
        assert relay.said["find"]["readConcern"] == {"level": "majority"}
        assert not rows._link._client.options.retry_writes


# --- logs


async def test_an_append_is_one_question_to_the_server() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 1)
        relay.heard.clear()
        await rows.append("t", "s", Group(2, 2, b"2"))
        del (
            relay.heard["hello"],
            relay.heard["ismaster"],
            relay.heard["hello 1"],
            relay.heard["ismaster 1"],
        )
        assert relay.heard == {"update": 1, "update gnomon_logs": 1}


async def test_a_log_is_read_whole_while_its_head_is_emptied_again_and_again() -> None:
    async with opened() as rows:
        await filled(rows, "s", 70)
        assert await count(rows, "groups") == 64
        head = await rows._link.collection("logs").find_one({})
        assert head is not None
        assert sorted(map(int, head["g"])) == [*range(65, 71)]
        assert await numbers(rows, "s") == [*range(1, 71)]
        assert await numbers(rows, "s", 40) == [*range(41, 71)]
        assert [group.last for group in await rows.read("t", "s", 62, 4)] == [63, 64, 65, 66]


async def test_a_head_that_has_no_room_is_emptied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mongo_log, "_HEAD_BYTES", 1000)
    async with opened() as rows:
        await filled(rows, "s", 20)
        assert await numbers(rows, "s") == [*range(1, 21)]
        assert not await rows.append("t", "s", Group(20, 20, b""))
        assert not await rows.append("t", "s", Group(22, 22, b""))


async def test_an_append_that_is_done_stays_so_when_the_head_cannot_be_emptied() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 31)
        relay.spoil("insert gnomon_groups", {"ok": 0, "code": 14031, "errmsg": "no room"})
        assert await rows.append("t", "s", Group(32, 32, b"32"))
        assert await count(rows, "groups") == 0
        for seq in range(33, 65):
            assert await rows.append("t", "s", Group(seq, seq, b""))
        assert await count(rows, "groups") == 64
        assert await numbers(rows, "s") == [*range(1, 65)]


async def test_two_that_empty_a_head_at_once_lose_and_double_nothing() -> None:
    async with Relay(servers.shared("mongo").port) as relay:
        url = relay.url(f"u{uuid.uuid4().hex}")
        async with opened(url) as rows, opened(url) as other:
            await filled(rows, "s", 5)
            relay.spoil("insert gnomon_groups", lambda: other._logs._move(joined("t", "s")))
            await rows._logs._move(joined("t", "s"))
            head = await rows._link.collection("logs").find_one({})
            assert head is not None
            assert (head["size"], head["g"], head["start"]) == (0, {}, 6)
            assert await numbers(rows, "s") == [1, 2, 3, 4, 5]


async def test_a_log_that_is_deleted_while_its_head_is_emptied_leaves_nothing() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 31)
        relay.spoil("insert gnomon_groups", lambda: rows.cut("t", "s", None))
        assert await rows.append("t", "s", Group(32, 32, b""))
        assert await numbers(rows, "s") == []
        assert await count(rows, "groups") == await count(rows, "logs") == 0


async def test_a_log_that_is_cut_while_it_is_read_shows_no_gap() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 40)
        relay.spoil("find gnomon_groups", lambda: rows.cut("t", "s", 10))
        assert await numbers(rows, "s") == [*range(11, 41)]
        await filled(rows, "r", 40)
        relay.spoil("find gnomon_groups", lambda: rows.cut("t", "r", None))
        assert await numbers(rows, "r") == []


async def test_a_stale_writer_does_not_append_to_a_log_that_was_deleted() -> None:
    async with Relay(servers.shared("mongo").port) as relay:
        url = relay.url(f"u{uuid.uuid4().hex}")
        async with opened(url) as rows, opened(url) as other:
            await filled(rows, "s", 3)
            relay.spoil("update gnomon_logs", lambda: other.cut("t", "s", None))
            assert not await rows.append("t", "s", Group(4, 4, b"4"))
            assert await numbers(rows, "s") == []


async def test_what_is_left_after_a_cut_goes_on_from_where_it_was() -> None:
    async with opened() as rows:
        await filled(rows, "s", 40)
        assert await rows.cut("t", "s", 35) == 35
        assert await rows.cut("t", "s", 35) == 0
        assert await numbers(rows, "s") == [36, 37, 38, 39, 40]
        assert await count(rows, "groups") == 0
        assert await rows.cut("t", "s", 99) == 5
        assert not await rows.append("t", "s", Group(40, 40, b""))
        assert await rows.append("t", "s", Group(41, 41, b""))
        assert await numbers(rows, "s") == [41]


async def test_a_deletion_that_broke_off_is_finished_by_the_next_log() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 40)
        relay.spoil("delete gnomon_groups", {"ok": 0, "code": 2, "errmsg": "no"})
        with pytest.raises(StorageError):
            await rows.cut("t", "s", None)
        assert await numbers(rows, "s") == []
        assert await count(rows, "groups") == 32
        assert not await rows.append("t", "s", Group(41, 41, b""))
        assert await rows.append("t", "s", Group(1, 1, b"new"))
        assert await rows.read("t", "s", 0, 9) == [Group(1, 1, b"new")]
        assert await count(rows, "groups") == 0


async def test_a_deletion_that_broke_off_is_finished_by_the_next_one_and_counts_the_same() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 40)
        relay.spoil("delete gnomon_groups", Relay.LOSE_ANSWER)
        with pytest.raises(Lost):
            await rows.cut("t", "s", None)
        assert await rows.cut("t", "s", None) == 40
        assert await rows.cut("t", "s", None) == 0
        assert await count(rows, "groups") == await count(rows, "logs") == 0


async def test_a_cut_that_broke_off_is_finished_by_the_next_one() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 40)
        relay.spoil("delete gnomon_groups", Relay.CUT)
        with pytest.raises(Lost):
            await rows.cut("t", "s", 20)
        assert await numbers(rows, "s") == [*range(21, 41)]
        assert await count(rows, "groups") == 32
        assert await rows.cut("t", "s", 20) == 0
        assert await count(rows, "groups") == 12


async def test_a_deletion_that_comes_late_does_not_touch_the_next_log() -> None:
    async with behind_relay() as (rows, relay):
        await filled(rows, "s", 40)
        relay.spoil("delete gnomon_groups", lambda: filled(rows, "s", 33))
        assert await rows.cut("t", "s", None) == 40
        assert await numbers(rows, "s") == [*range(1, 34)]


async def test_a_gap_that_is_really_there_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mongo_log, "_PAUSE_S", 0.0)
    async with opened() as rows:
        await filled(rows, "s", 40)
        await rows._link.collection("groups").delete_one({"f": 7})
        assert await numbers(rows, "s", 7) == [*range(8, 41)]
        with pytest.raises(StorageError, match="gap"):
            await numbers(rows, "s")


# --- bodies that are too large


@pytest.fixture
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_mongo_aside, "PIECE_BYTES", LARGE - 1)


def large_row(body: bytes, revision: int = 1) -> Row:
    return Row(kind="blobs", id="b", body=body, revision=revision, places={"touched": Place("", "x")})


@pytest.mark.usefixtures("_small_pieces")
async def test_a_large_row_comes_back_and_takes_its_pieces_along_when_it_goes() -> None:
    async with opened() as rows:
        for revision, body in enumerate((b"1" * LARGE, b"2" * LARGE, b"3", b"4" * 2 * LARGE), 1):
            assert await rows.write("t", large_row(body, revision), None if revision == 1 else revision - 1)
            assert not await rows.write("t", large_row(b"5" * LARGE), 17)
            found = await rows.get("t", "blobs", "b")
            assert found is not None
            assert (found.body, found.revision) == (body, revision)
            assert await rows.find("t", Span(kind="blobs", index="touched")) == [
                type(found)("b", revision, body, "x")
            ]
            assert await count(rows, "pieces") == (
                -(-len(body) // _mongo_aside.PIECE_BYTES) if revision != 3 else 0
            )
        assert not await rows.delete("t", "blobs", "b", 3)
        assert await rows.delete("t", "blobs", "b", 4)
        assert await count(rows, "pieces") == await count(rows, "aside") == 0


@pytest.mark.usefixtures("_small_pieces")
async def test_a_row_that_is_replaced_while_its_pieces_are_read_comes_back_whole() -> None:
    async with Relay(servers.shared("mongo").port) as relay:
        url = relay.url(f"u{uuid.uuid4().hex}")
        async with opened(url) as rows, opened(url) as other:
            await rows.write("t", large_row(b"1" * LARGE), 0)
            relay.spoil("find gnomon_pieces", lambda: other.write("t", large_row(b"2" * LARGE, 2), None))
            found = await rows.get("t", "blobs", "b")
            assert found is not None
            assert found.body == b"2" * LARGE


@pytest.mark.usefixtures("_small_pieces")
async def test_a_row_is_deleted_though_its_pieces_cannot_be_removed_at_once() -> None:
    async with behind_relay() as (rows, relay):
        await rows.write("t", large_row(b"1" * LARGE), 0)
        relay.spoil("delete gnomon_pieces", Relay.CUT)
        assert await rows.delete("t", "blobs", "b")
        assert await count(rows, "pieces") == 2
        await rows._link.collection("aside").update_many({}, {"$set": {"at": 0}})
        await rows.migrate()
        assert await count(rows, "pieces") == 0


@pytest.mark.usefixtures("_small_pieces")
async def test_large_groups_come_back_and_take_their_pieces_along() -> None:
    async with opened() as rows:
        for seq in range(1, 4):
            assert await rows.append("t", "s", Group(seq, seq, b"%d" % seq * LARGE))
        assert not await rows.append("t", "s", Group(3, 3, b"x" * LARGE))
        assert await count(rows, "pieces") == 6
        read = await rows.read("t", "s", 1, 9)
        assert [(group.first, group.body[:1], len(group.body)) for group in read] == [
            (2, b"2", LARGE),
            (3, b"3", LARGE),
        ]
        assert await rows.cut("t", "s", 1) == 1
        assert await count(rows, "pieces") == 4
        assert await rows.cut("t", "s", None) == 2
        assert await count(rows, "pieces") == await count(rows, "aside") == 0


@pytest.mark.usefixtures("_small_pieces")
async def test_a_body_whose_pieces_are_lost_is_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mongo, "_PAUSE_S", 0.0)
    async with opened() as rows:
        await rows.write("t", large_row(b"1" * LARGE), 0)
        await rows._link.collection("pieces").delete_many({})
        with pytest.raises(Damaged, match="blobs 'b'"):
            await rows.get("t", "blobs", "b")
        with pytest.raises(Damaged, match="blobs"):
            await rows.find("t", Span(kind="blobs", index="touched"))


@pytest.mark.usefixtures("_small_pieces")
async def test_what_a_crash_left_aside_is_swept_after_a_day_and_nothing_else() -> None:
    async with opened() as rows:
        await rows.write("t", large_row(b"1" * LARGE), 0)
        await rows.append("t", "s", Group(1, 1, b"2" * LARGE))
        await rows._aside.put("t", "blobs", joined("t", "gone"), b"3" * LARGE)
        await rows._aside.put("t", "logs", joined("t", "gone"), b"4" * LARGE)
        await rows._aside.put("t", "logs", joined("t", "s"), b"5" * LARGE)
        await rows.migrate()
        assert await count(rows, "pieces") == 10
        await rows._link.collection("aside").update_many({}, {"$set": {"at": 0}})
        await rows.migrate()
        assert await count(rows, "pieces") == 4
        found = await rows.get("t", "blobs", "b")
        assert found is not None
        assert [found.body[:1], (await rows.read("t", "s", 0, 1))[0].body[:1]] == [b"1", b"2"]
        assert await rows._link.collection("aside").find_one({"at": 0}) is None  # not looked at again at once


@pytest.mark.usefixtures("_small_pieces")
async def test_how_long_something_lies_aside_is_counted_by_the_servers_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A machine whose own clock is wrong would else lose what it is just writing, or sweep others'."""
    async with opened() as rows:
        now_s = await rows._link.now_s()
        await rows._aside.put("t", "blobs", joined("t", "gone"), b"1" * LARGE)
        entry = await rows._link.collection("aside").find_one({})
        assert entry is not None
        assert 0 <= entry["at"] - now_s < 60
        monkeypatch.setattr(rows._link, "now_s", _tomorrow)
        await rows.migrate()
        assert await count(rows, "pieces") == 0


async def _tomorrow() -> int:
    return int(time.time()) + 2 * 86_400


async def test_more_than_a_document_holds_comes_back_and_a_read_ends_in_time() -> None:
    async with opened() as rows:
        content = b"0123456789abcdef" * 1_100_000
        await rows.write("t", large_row(content), 0)
        found = await rows.get("t", "blobs", "b")
        assert found is not None
        assert found.body == content
        for seq in range(1, 4):
            await rows.append("t", "s", Group(seq, seq, content[:4_100_000]))
        assert [group.first for group in await rows.read("t", "s", 1, 9)] == [2]
