"""What holds above every back end: nothing is stored that cannot be read, nothing new is pruned."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from gnomon import registry
from gnomon.errors import Damaged, InvalidInput, StorageError
from gnomon.storage import _owners
from gnomon.storage._keys import cursor
from gnomon.storage.memory import MemoryStorage
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.records import AuditLog, Checkpoint, MemoryRecord, SessionRecord, Trace, utc_now
from storing import event, opened, sqlite_url

OLD = utc_now() - timedelta(days=30)
LATER = OLD + timedelta(days=20)


@pytest.fixture(params=["memory", "sqlite"])
def url(request, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else sqlite_url(tmp_path / "store.db")


def session(name: str, **fields: object) -> SessionRecord:
    return SessionRecord(**{"id": name, "created_at": OLD, "updated_at": OLD, **fields})  # type: ignore[arg-type]


# --- what cannot be read again is refused -----------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"payload": "text"},
        {"payload": None},
        {"id": None},
        {"type": 5},
        {"version": "1"},
        {"version": True},
        {"seq": 2**63},
        {"seq": "1"},
    ],
)
async def test_an_event_that_could_not_be_read_again_is_refused(url: str, wrong: dict[str, object]) -> None:
    from msgspec.structs import replace

    async with opened(url) as storage:
        with pytest.raises(InvalidInput):
            await storage.append_event(replace(event("s", 1), **wrong))  # type: ignore[arg-type]
        await storage.append_event(event("s", 1))
        assert len((await storage.list_events("s")).items) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"title": None},
        {"status": "finished"},
        {"metadata": None},
        {"runnable": "yes"},
        {"last_seq": 1.5},
        {"last_seq": "5"},
        {"revision": 2**63},
    ],
)
async def test_a_session_that_could_not_be_read_again_is_refused(url: str, wrong: dict[str, object]) -> None:
    async with opened(url) as storage:
        await storage.create_session(session("good"))
        with pytest.raises(InvalidInput):
            await storage.create_session(session("bad", **wrong))
        with pytest.raises(InvalidInput):
            await storage.update_session(session("good", **wrong))
        assert [row.id for row in (await storage.list_sessions()).items] == ["good"]


async def test_no_record_that_could_not_be_read_again_is_stored(url: str) -> None:
    audit = {"id": "1", "session_id": "s", "action": "a", "created_at": OLD}
    async with opened(url) as storage:
        for call in (
            lambda: storage.append_audit_log(AuditLog(actor=None, **audit)),  # type: ignore[arg-type]
            lambda: storage.insert_trace(Trace(id="t", session_id="s", name=None, kind="k", started_at=OLD)),  # type: ignore[arg-type]
            lambda: storage.save_checkpoint(
                Checkpoint(id="c", session_id="s", seq=1, created_at=OLD, run_id=None)  # type: ignore[arg-type]
            ),
            lambda: storage.save_checkpoint(
                Checkpoint(id="c", session_id="s", seq=1, created_at=OLD, state=None)  # type: ignore[arg-type]
            ),
        ):
            with pytest.raises(InvalidInput, match="cannot be stored"):
                await call()
        row = await storage.append_audit_log(AuditLog(actor="ann", **audit))  # type: ignore[arg-type]
        assert row.seq == 1
        assert await storage.get_latest_checkpoint("s") is None


@pytest.mark.parametrize("after", ["1", None, 1.5, True])
async def test_a_place_that_no_log_has_is_refused(url: str, after: object) -> None:
    async with opened(url) as storage:
        with pytest.raises(InvalidInput, match="after_seq"):
            await storage.list_events("s", after)  # type: ignore[arg-type]


@pytest.mark.parametrize("digits", [30, 5_000])
async def test_a_cursor_with_a_huge_number_is_refused(url: str, digits: int) -> None:
    async with opened(url) as storage:
        with pytest.raises(InvalidInput):
            await storage.list_events("s", cursor=cursor("list_events", "9" * digits))


# --- pruning beside others --------------------------------------------------------------


def before_each_deletion(storage: MemoryStorage, then: Callable[[], Awaitable[object]]) -> None:
    """Once, when something was listed and is about to go."""
    rows = storage._rows.rows
    find = rows.find
    done = False

    async def found(tenant, span):
        nonlocal done
        listed = await find(tenant, span)
        if span.index == "touched" and not done:
            done = True
            await then()
        return listed

    rows.find = found  # type: ignore[method-assign]


async def test_memory_that_is_renewed_while_it_is_pruned_stays() -> None:
    storage = MemoryStorage()
    first = MemoryRecord(id="1", key="k", value="old", created_at=OLD, updated_at=OLD)
    await storage.put_memory(first)
    new = MemoryRecord(id="1", key="k", value="new", created_at=OLD, updated_at=utc_now())
    before_each_deletion(storage, lambda: storage.put_memory(new))
    assert await storage.prune("memory", LATER) == 0
    assert (await storage.list_memory()).items == (new,)


async def test_a_session_that_is_used_while_sessions_are_pruned_stays() -> None:
    storage = MemoryStorage()
    for name in ("a", "b", "c"):
        await storage.create_session(session(name))

    async def use() -> None:
        await storage.append_event(event("b", 1))
        await storage.update_session(session("b", updated_at=utc_now(), last_seq=1))
        await storage.update_session(session("c", updated_at=utc_now(), status="running"))

    before_each_deletion(storage, use)
    assert await storage.prune("sessions", LATER) == 1
    assert {row.id for row in (await storage.list_sessions()).items} == {"b", "c"}
    assert len((await storage.list_events("b")).items) == 1


async def test_two_who_prune_sessions_at_once_are_not_in_each_others_way(url: str) -> None:
    async with opened(url) as storage:
        for at in range(20):
            await storage.create_session(session(f"s{at}"))
        await asyncio.gather(*(storage.prune("sessions", LATER) for _ in range(4)))  # type: ignore[attr-defined]
        assert (await storage.list_sessions()).items == ()


@pytest.mark.parametrize("seed", range(20))
async def test_two_who_prune_one_chain_at_once_leave_one_that_holds(seed: int) -> None:
    storage, chance = MemoryStorage(), random.Random(seed)
    await storage.create_session(session("s"))
    for at in range(8):
        when = OLD + timedelta(days=at)
        await storage.append_audit_log(
            AuditLog(id=f"{at}", session_id="s", actor="a", action="b", created_at=when)
        )
    rows = storage._rows.rows
    for name in ("write", "delete", "find", "get"):
        setattr(rows, name, _late(getattr(rows, name), chance))
    await asyncio.gather(*(storage.prune("audit", OLD + timedelta(days=days)) for days in (3, 6)))
    assert await storage.verify_audit("s") == ()


def _late(call, chance: random.Random):
    async def later(*given, **named):
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        return await call(*given, **named)

    return later


async def test_the_checkpoint_of_the_ledger_is_not_pruned_for_a_later_one_of_somebody_else(url: str) -> None:
    async with opened(url) as storage:
        await storage.create_session(session("s"))
        own = Checkpoint(id="s", session_id="s", seq=5, created_at=OLD, state={"view_start": 3})
        await storage.save_checkpoint(own)
        await storage.save_checkpoint(Checkpoint(id="graph", session_id="s", seq=6, created_at=OLD))
        assert await storage.prune("checkpoints", LATER) == 0  # type: ignore[attr-defined]
        assert await storage.get_checkpoint("s") == own


# --- names that are held by rows ----------------------------------------------------------


async def test_one_who_hung_and_lost_its_name_leaves_the_new_holder_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_owners, "BEAT_S", 0.05)
    monkeypatch.setattr(_owners, "TRUSTED_S", 0.2)
    storage = MemoryStorage()
    storage._rows.rows.locks = None
    hung = storage.holding("runner")
    with monkeypatch.context() as hanging:

        async def nothing(*_: object) -> None:
            await asyncio.sleep(60)

        hanging.setattr(_owners.Owners, "_beat", nothing)
        await hung.__aenter__()
    await asyncio.sleep(0.25)
    async with storage.holding("runner"):
        await hung.__aexit__(None, None, None)
        assert await storage.is_held("runner")
    assert not await storage.is_held("runner")


# --- SQLite -----------------------------------------------------------------------------


@pytest.mark.parametrize("slashes", ["", "/"])
async def test_settings_in_the_url_are_taken_and_the_file_stays_the_same(
    tmp_path: Path, slashes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"/{tmp_path}/a.db" if slashes else "a.db"
    storage = registry.storage(f"sqlite:///{name}?synchronous=normal")
    assert storage.where == f"sqlite store {tmp_path}/a.db"  # type: ignore[attr-defined]
    assert "synchronous=normal" in (await storage.status()).notes[0]  # type: ignore[attr-defined]
    await storage.close()


async def test_a_file_that_was_replaced_is_not_read_beside_the_old_one(tmp_path: Path) -> None:
    path, other = tmp_path / "store.db", tmp_path / "other.db"
    async with opened(other) as storage:
        await storage.create_session(session("theirs"))
    async with opened(path) as storage:
        await storage.create_session(session("ours"))
        await storage.list_sessions()
        other.replace(path)
        reads = (storage.list_sessions() for _ in range(12))
        found = await asyncio.gather(*reads, return_exceptions=True)
        assert all(isinstance(each, StorageError) for each in found)


@pytest.mark.parametrize(
    ("name", "level", "said"), [("a.db", "OFF", "synchronous=off"), (":memory:", "FULL", "is gone")]
)
async def test_a_store_says_of_your_connection_what_is_true_of_it(
    tmp_path: Path, name: str, level: str, said: str
) -> None:
    where = name if name == ":memory:" else tmp_path / name
    client = sqlite3.connect(where, check_same_thread=False)
    client.execute(f"PRAGMA synchronous = {level}")
    client.row_factory = sqlite3.Row
    async with SQLiteStorage(client=client) as storage:
        await storage.migrate()
        assert said in (await storage.status()).notes[0]
        await storage.create_session(session("a"))
        assert await storage.get_session("a") == session("a")
    client.close()


async def test_a_blob_whose_bytes_have_changed_is_damaged() -> None:
    async with MemoryStorage() as storage:
        digest = await storage.put_blob(b"what was stored")
        rows = storage._rows.rows
        row = rows._rows["default", "blobs", digest]
        rows._rows["default", "blobs", digest] = msgspec.structs.replace(row, body=b"what was st0red")
        with pytest.raises(Damaged, match=f"blob {digest[:12]}"):
            await storage.get_blob(digest)
