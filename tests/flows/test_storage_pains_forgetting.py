"""Pain 21 of other frameworks: nothing is ever deleted. Here every kind of row can be forgotten, by the
command line too, and media is stored once."""

from __future__ import annotations

import asyncio
import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from command import Gnomon

from gnomon import Image, Message
from gnomon.contracts.storage import RecordKind, Storage
from gnomon.engine.ledger import Ledger
from gnomon.types.events import Compacted, MessageReceived
from gnomon.types.records import (
    AuditLog,
    Checkpoint,
    MemoryRecord,
    SessionRecord,
    SessionState,
    Trace,
    utc_now,
)
from storing import event, opened, sqlite_url

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def session(name: str, at: datetime, **fields: object) -> SessionRecord:
    return SessionRecord(id=name, created_at=at, updated_at=at, **fields)  # type: ignore[arg-type]


KINDS: tuple[RecordKind, ...] = ("traces", "checkpoints", "events", "audit", "memory", "sessions")


async def stock(storage: Storage, name: str, at: datetime, status: SessionState = "idle") -> None:
    """A session with three of every kind, all of that time; its view starts at the third event."""
    user = f"user of {name}"
    await storage.create_session(session(name, at, user_id=user, status=status, last_seq=3))
    of_it = {"session_id": name, "created_at": at}
    for n in (1, 2, 3):
        row = f"{name}{n}"
        await storage.append_event(event(name, n, at=at))
        await storage.append_audit_log(AuditLog(id=row, actor="a", action="b", **of_it))
        await storage.save_checkpoint(Checkpoint(id=row, seq=n, state={"view_start": n}, **of_it))
        await storage.insert_trace(
            Trace(id=row, session_id=name, name="x", kind="x", started_at=at, ended_at=at)
        )
        await storage.put_memory(
            MemoryRecord(id=row, key=f"k{n}", value=n, updated_at=at, user_id=user, **of_it)
        )


async def kept(storage: Storage, name: str) -> dict[str, int]:
    """How many rows of each kind there are of that session."""
    owner = f"user of {name}"
    return {
        "sessions": int(await storage.get_session(name) is not None),
        "events": len((await storage.list_events(name)).items),
        "audit": len([row for row in (await storage.list_audit_logs(name)).items if row.actor == "a"]),
        "checkpoints": len((await storage.list_checkpoints(name)).items),
        "traces": len((await storage.list_traces(name)).items),
        "memory": len((await storage.list_memory(user_id=owner)).items),
    }


ALL = {"sessions": 1, "events": 3, "audit": 3, "checkpoints": 3, "traces": 3, "memory": 3}
LEFT = {"sessions": 0, "events": 1, "audit": 0, "checkpoints": 1, "traces": 0, "memory": 0}
"""Of an old session at rest: one event from which its view starts, and the checkpoint that says so."""


@pytest.mark.parametrize("kind", KINDS)
def test_pain_21_every_kind_of_row_can_be_pruned_by_its_age(gnomon: Gnomon, kind: RecordKind) -> None:
    path = gnomon.folder / "store.db"

    async def fill() -> None:
        async with opened(path) as storage:
            await stock(storage, "old", LONG_AGO)
            await stock(storage, "busy", LONG_AGO, "running")
            await stock(storage, "new", utc_now())

    async def left() -> tuple[dict[str, int], ...]:
        async with opened(path) as storage:
            assert await storage.verify_audit("old") == ()  # type: ignore[attr-defined]
            return tuple([await kept(storage, name) for name in ("old", "busy", "new")])

    asyncio.run(fill())
    done = gnomon("db", "prune", sqlite_url(path), "--older-than", "30d", "--kind", kind, "-q")
    assert done.returncode == 0, done.stderr.decode()
    old, busy, new = asyncio.run(left())
    assert busy == ALL
    assert new == ALL
    if kind == "sessions":  # and with the session all that belongs to it
        assert set(old.values()) == {0}
    else:
        assert old == ALL | {kind: LEFT[kind]}


def test_pain_21_all_of_a_user_is_deleted_and_nothing_of_another(gnomon: Gnomon) -> None:
    path = gnomon.folder / "store.db"

    async def fill() -> None:
        async with opened(path) as storage:
            for name in ("ana", "ben"):
                await stock(storage, name, utc_now())

    async def left() -> tuple[dict[str, int], ...]:
        async with opened(path) as storage:
            return await kept(storage, "ana"), await kept(storage, "ben")

    asyncio.run(fill())
    refused = gnomon("db", "delete", sqlite_url(path), "--user", "user of ana")
    assert refused.returncode != 0
    assert asyncio.run(left()) == (ALL, ALL)
    done = gnomon("db", "delete", sqlite_url(path), "--user", "user of ana", "--yes", "-q")
    assert done.returncode == 0, done.stderr.decode()
    ana, ben = asyncio.run(left())
    assert set(ana.values()) == {0}
    assert ben == ALL


async def test_pain_21_an_image_that_is_sent_again_and_again_is_stored_once(tmp_path: Path) -> None:
    image = Image(data=os.urandom(400_000), media_type="image/png")
    path = tmp_path / "store.db"
    async with opened(path) as storage:
        ledger = Ledger(storage, "s")
        for number in range(16):
            await ledger.append(MessageReceived(f"m{number}", Message.user(f"look {number}", image)))
    assert path.stat().st_size < 2 * 400_000
    async with opened(path) as storage:
        fold = (await Ledger.open(storage, "s")).fold
        assert [waiting.received.message.images for waiting in fold.waiting.values()] == [(image,)] * 16


def test_pain_21_media_that_no_event_names_any_more_goes(gnomon: Gnomon) -> None:
    path = gnomon.folder / "store.db"
    content = os.urandom(50_000)

    async def fill() -> None:
        async with opened(path) as storage:
            now = utc_now()
            for name in ("kept", "gone"):
                await storage.create_session(session(name, now, user_id=name))
                image = Image(data=content + name.encode(), media_type="image/png")
                await Ledger(storage, name).append(MessageReceived("m", Message.user("look", image)))

    async def there() -> list[bool]:
        async with opened(path) as storage:
            digests = [hashlib.sha256(content + name).hexdigest() for name in (b"kept", b"gone")]
            return [await storage.get_blob(digest) is not None for digest in digests]  # type: ignore[attr-defined]

    asyncio.run(fill())
    assert gnomon("db", "delete", sqlite_url(path), "--user", "gone", "--yes", "-q").returncode == 0
    sweep = ("db", "prune", sqlite_url(path), "--blobs", "-q")
    assert gnomon(*sweep).returncode == 0
    assert asyncio.run(there()) == [True, True]  # they were put just now, perhaps for an event to come
    done = gnomon(*sweep, "--grace", "0s", "--nobody-writes")
    assert done.returncode == 0, done.stderr.decode()
    assert asyncio.run(there()) == [True, False]


async def test_pain_21_what_was_compacted_away_can_be_pruned_and_the_session_opens_as_before(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path / "store.db") as storage:
        await storage.create_session(session("s", LONG_AGO))
        ledger = Ledger(storage, "s")
        for number in range(100):
            await ledger.append(MessageReceived(f"m{number}", Message.user(f"say {number}")))
        await ledger.append(Compacted("t", 91, 1_000, 100, Message.user("a summary")))
        await ledger.append(MessageReceived("last", Message.user("and now?")))
        before = list((await Ledger.open(storage, "s")).fold.messages)
        await ledger.checkpoint()
        soon = utc_now() + timedelta(minutes=1)
        assert await storage.prune("events", soon) == 90  # type: ignore[attr-defined]
        after = await Ledger.open(storage, "s")
        assert list(after.fold.messages) == before
        assert await after.append(MessageReceived("more", Message.user("go on"))) == 103
