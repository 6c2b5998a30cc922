"""The store in MongoDB when something is wrong: the line, the server, the password, the disk."""

from __future__ import annotations

import asyncio
import random
import traceback
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import pytest

import servers
from gnomon.errors import AccessDenied, Conflict, StorageError, StorageFull, Unavailable
from gnomon.storage import _mongo_aside
from gnomon.storage.mongo import MongoStorage
from gnomon.types.records import Checkpoint, LedgerEvent, MemoryRecord, utc_now
from mongo_relay import Fault, Relay

NOT_PRIMARY = {"ok": 0, "code": 10107, "codeName": "NotWritablePrimary", "errmsg": "not primary"}


def event(seq: int, session_id: str = "s", text: bytes = b"x") -> LedgerEvent:
    return LedgerEvent(
        session_id=session_id, seq=seq, id=f"e{seq}", type="t", payload=text, created_at=utc_now()
    )


async def sequence(storage: MongoStorage, session_id: str = "s") -> list[int]:
    return [found.seq for found in (await storage.list_events(session_id, limit=1000)).items]


@asynccontextmanager
async def relayed(*, patience_s: float = 10.0) -> AsyncGenerator[tuple[MongoStorage, Relay], None]:
    """A store behind a relay, with one event in a log."""
    async with Relay(servers.shared("mongo").port) as relay:
        url = relay.url(f"f{uuid.uuid4().hex}")
        async with MongoStorage(url, patience_s=patience_s) as storage:
            await storage.migrate()
            await storage.append_event(event(1))
            yield storage, relay


# --- the line


@pytest.mark.parametrize("fault", [Relay.CUT, Relay.LOSE_ANSWER, Relay.NOT_REPLICATED, NOT_PRIMARY])
async def test_an_append_that_broke_is_in_the_log_once(fault: Fault) -> None:
    async with relayed() as (storage, relay):
        relay.spoil("update gnomon_logs", fault)
        await storage.append_event(event(2))
        assert await sequence(storage) == [1, 2]
        assert relay.heard["update gnomon_logs"] == 2


@pytest.mark.parametrize("fault", [Relay.CUT, Relay.LOSE_ANSWER, Relay.NOT_REPLICATED])
async def test_the_first_append_that_broke_is_in_the_log_once(fault: Fault) -> None:
    async with relayed() as (storage, relay):
        relay.spoil("insert gnomon_logs", fault)
        await storage.append_event(event(1, "new"))
        assert await sequence(storage, "new") == [1]


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("update gnomon_logs", Relay.LOSE_ANSWER),
        ("update gnomon_checkpoints", Relay.CUT),
        ("update gnomon_checkpoints", Relay.LOSE_ANSWER),
    ],
)
async def test_an_append_that_broke_has_its_checkpoint_with_it(command: str, fault: Fault) -> None:
    async with relayed() as (storage, relay):
        relay.spoil(command, fault)
        checkpoint = Checkpoint(id="c", session_id="s", seq=2, created_at=utc_now())
        await storage.append_events([event(2)], checkpoint=checkpoint)
        assert await sequence(storage) == [1, 2]
        assert await storage.get_latest_checkpoint("s") == checkpoint


@pytest.mark.parametrize("fault", [Relay.CUT, Relay.LOSE_ANSWER])
async def test_a_deletion_that_broke_says_that_there_was_one(fault: Fault) -> None:
    async with relayed() as (storage, relay):
        now = utc_now()
        await storage.put_memory(MemoryRecord(id="m", key="k", value=1, created_at=now, updated_at=now))
        relay.spoil("delete gnomon_memory", fault)
        assert await storage.delete_memory("m")
        assert not await storage.delete_memory("m")


async def test_an_append_that_broke_and_was_beaten_by_another_is_a_conflict() -> None:
    async with relayed() as (storage, relay):
        database = storage.where.rpartition("/")[2]
        async with MongoStorage(f"{servers.shared('mongo').url}{database}") as other:
            await other.schema_version()
            relay.spoil("update gnomon_logs", lambda: other.append_event(event(2, text=b"other")), Relay.CUT)
            with pytest.raises(Conflict):
                await storage.append_event(event(2, text=b"ours"))
            assert [found.payload for found in (await storage.list_events("s")).items] == [b"x", b"other"]


@pytest.mark.parametrize("fault", [Relay.CUT, Relay.LOSE_ANSWER, Relay.NOT_REPLICATED, NOT_PRIMARY])
async def test_a_blob_survives_a_break_at_any_of_its_writes(
    fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_mongo_aside, "PIECE_BYTES", 10_000)
    async with relayed() as (storage, relay):
        relay.spoil("insert gnomon_pieces", fault)
        relay.spoil("update gnomon_blobs", fault)
        content = random.Random(1).randbytes(45_000)
        assert await storage.get_blob(await storage.put_blob(content)) == content


async def test_the_driver_does_not_repeat_a_write_by_itself() -> None:
    async with relayed(patience_s=0.0) as (storage, relay):
        relay.spoil("update gnomon_logs", Relay.CUT, Relay.CUT)
        with pytest.raises(Unavailable):
            await storage.append_event(event(2))
        assert relay.heard["update gnomon_logs"] == 1
        relay.spoil("find gnomon_logs", Relay.CUT)
        with pytest.raises(Unavailable):
            await sequence(storage)
        assert relay.heard["find gnomon_logs"] == 1


async def test_a_broken_line_is_tried_again_for_as_long_as_there_is_patience() -> None:
    async with relayed(patience_s=3.0) as (storage, relay):
        relay.spoil("find gnomon_logs", *[Relay.CUT] * 100)
        begun = monotonic()
        with pytest.raises(Unavailable, match="cannot be reached"):
            await sequence(storage)
        assert 2 <= monotonic() - begun < 8
        assert relay.heard["find gnomon_logs"] > 2


# --- what the user can mend


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"code": 13, "errmsg": "not authorized on x to execute command"}, AccessDenied),
        ({"code": 14031, "errmsg": "available disk space is less than required"}, StorageFull),
        ({"code": 8000, "errmsg": "you are over your space quota, using 513 MB of 512 MB"}, StorageFull),
        ({"code": 8000, "errmsg": "user is not allowed to do action [insert]"}, AccessDenied),
        ({"code": 2, "errmsg": "cannot use 'j' option when a host does not have journaling"}, StorageError),
    ],
)
async def test_what_the_server_refuses_for_good_is_said_at_once(
    answer: dict[str, object], kind: type[StorageError]
) -> None:
    async with relayed() as (storage, relay):
        relay.spoil("update gnomon_logs", {"ok": 0, **answer})
        with pytest.raises(kind, match=str(answer["errmsg"])[:20]) as caught:
            await storage.append_event(event(2))
        assert type(caught.value) is kind
        relay.spoil("update gnomon_logs", {"ok": 1, "n": 0, "writeErrors": [{"index": 0, **answer}]})
        with pytest.raises(kind):
            await storage.append_event(event(2))
        assert await sequence(storage) == [1]


async def test_a_wrong_password_is_access_denied_and_is_not_shown() -> None:
    wrong = {"ok": 0, "code": 18, "codeName": "AuthenticationFailed", "errmsg": "Authentication failed."}
    async with Relay(servers.shared("mongo").port) as relay:
        relay.spoil("saslStart", *[wrong] * 9)
        async with MongoStorage(relay.url("x", "ann:s3cr3t%2Fword@")) as storage:
            with pytest.raises(AccessDenied, match="Authentication failed") as caught:
                await storage.migrate()
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value)
    assert not [part for part in ("s3cr3t", "ann:") if part in shown]
    assert relay.heard["saslStart"]


# --- the server


async def test_a_server_that_is_not_there_is_unavailable_and_says_where() -> None:
    with servers.mongo() as server:
        server.kill()
        begun = monotonic()
        async with MongoStorage(f"{server.url}x", patience_s=0.5, timeout_s=0.5) as storage:
            with pytest.raises(
                Unavailable, match=f":{server.port}/x cannot be reached: .*Connect call failed"
            ):
                await storage.migrate()
    assert monotonic() - begun < 5


async def test_no_append_that_was_acknowledged_is_lost_when_the_server_is_killed() -> None:
    with servers.mongo() as server:
        async with MongoStorage(f"{server.url}x", patience_s=30.0) as storage:
            await storage.migrate()
            acknowledged: list[list[int]] = [[], [], [], []]
            writers = [asyncio.ensure_future(_write(storage, n, seqs)) for n, seqs in enumerate(acknowledged)]
            for count in (20, 40):
                await _until(lambda count=count: min(map(len, acknowledged)) >= count)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
            await _until(lambda: min(map(len, acknowledged)) >= 60)
            for writer in writers:
                writer.cancel()
            await asyncio.wait(writers)
        async with MongoStorage(f"{server.url}x") as after:
            for number, seqs in enumerate(acknowledged):
                found = await sequence(after, f"s{number}")
                assert found == [*range(1, len(found) + 1)]
                assert found[: len(seqs)] == seqs
                assert len(found) <= len(seqs) + 1  # what was under way when the writer ended


async def _until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():  # noqa: ASYNC110 - what is waited for is a count
            await asyncio.sleep(0.01)


async def _write(storage: MongoStorage, number: int, acknowledged: list[int]) -> None:
    for seq in range(1, 10_000):
        await storage.append_event(event(seq, f"s{number}"))
        acknowledged.append(seq)


async def test_a_server_that_hangs_is_unavailable_in_time_and_is_found_again() -> None:
    with servers.mongo() as server:
        storage = MongoStorage(f"{server.url}x", patience_s=0.5, timeout_s=0.5)
        await storage.migrate()
        await storage.append_event(event(1))
        server.freeze()
        try:
            begun = monotonic()
            with pytest.raises(Unavailable):
                await storage.append_event(event(2))
            assert monotonic() - begun < 4
        finally:
            server.thaw()
        await asyncio.sleep(0.2)
        tail = (await sequence(storage))[-1]  # the second may have come through after all
        await storage.append_event(event(tail + 1))
        assert await sequence(storage) == [*range(1, tail + 2)]
        server.freeze()
        try:
            begun = monotonic()
            await storage.close()
            await storage.close()
            assert monotonic() - begun < 6
        finally:
            server.thaw()


# --- closing and cancelling


async def test_calls_under_way_when_the_store_is_closed_end_with_an_error_of_ours() -> None:
    async with relayed() as (storage, relay):
        relay.spoil("find gnomon_logs", *[lambda: asyncio.sleep(0.3)] * 5)
        calls = [asyncio.ensure_future(sequence(storage)) for _ in range(5)]
        await asyncio.sleep(0.1)
        await storage.close()
        for ended in await asyncio.gather(*calls, return_exceptions=True):
            assert isinstance(ended, StorageError | list)
        with pytest.raises(StorageError, match="closed"):
            await storage.append_event(event(2))


async def test_a_call_that_is_cancelled_at_any_moment_leaves_the_store_usable() -> None:
    async with relayed() as (storage, _):
        seq = 1
        for attempt in range(60):
            call = asyncio.ensure_future(storage.append_event(event(seq + 1)))
            await asyncio.sleep(attempt * 0.0002)
            call.cancel()
            await asyncio.wait({call})
            seq = (await sequence(storage))[-1]
        await storage.append_event(event(seq + 1))
        assert await sequence(storage) == [*range(1, seq + 2)]
