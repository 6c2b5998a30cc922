"""Stores that hold one of everything, for the tests of moving and checking them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gnomon import registry
from gnomon._payload import packed
from gnomon.contracts.storage import Storage
from gnomon.storage._records import RecordStorage
from gnomon.types.codec import encode_event
from gnomon.types.events import MessageReceived
from gnomon.types.messages import Image, Message, Text
from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, MemoryRecord, SessionRecord, Trace
from gnomon.upkeep import memory_hash, session_hash

BORN = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
WORDS = "grüße, 世界, שלום, 🜁🏳️‍🌈, e\u0301, \u2028\U0010ffff"
TENANTS = ("default", "acme/ünïcode")


def at(minutes: float) -> datetime:
    return BORN + timedelta(minutes=minutes)


def session(id: str, *, minutes: float = 0, **fields: object) -> SessionRecord:
    return SessionRecord(id=id, created_at=at(minutes), updated_at=at(minutes), **fields)


def event(session_id: str, seq: int, payload: bytes | None = None, **fields: object) -> LedgerEvent:
    """An event that can be read, unless a payload is given."""
    if payload is None:
        payload = packed(said(f"{WORDS} {seq}")).payload
    return LedgerEvent(
        session_id=session_id, seq=seq, id=f"{session_id}-{seq}", type="message", payload=payload,
        created_at=at(seq / 60), **fields,
    )  # fmt: skip


def events(session_id: str, first: int, last: int) -> list[LedgerEvent]:
    return [event(session_id, seq) for seq in range(first, last + 1)]


def said(*content: str | bytes) -> MessageReceived:
    parts = [
        Text(part) if isinstance(part, str) else Image(data=part, media_type="image/png") for part in content
    ]
    return MessageReceived(message_id="m", message=Message.user(*parts))


async def large_event(store: RecordStorage, session_id: str, seq: int, *content: str | bytes) -> LedgerEvent:
    """An event whose large parts are blobs, which are put."""
    found = packed(said(*content))
    for blob in found.blobs:
        await store.put_blob(blob)
    return event(session_id, seq, found.payload, version=found.version)


def checkpoint(id: str, session_id: str, seq: int, **state: object) -> Checkpoint:
    return Checkpoint(id=id, session_id=session_id, seq=seq, created_at=at(seq), state=state)


def audit(id: str, session_id: str, minutes: float = 0, **fields: object) -> AuditLog:
    given = {"actor": "ana", "action": "tool.allowed", "detail": {"ö": [1, 2.5, None, WORDS]}} | fields
    return AuditLog(id=id, session_id=session_id, created_at=at(minutes), **given)


def trace(id: str, session_id: str, minutes: float = 0, *, is_open: bool = False) -> Trace:
    ended = None if is_open else at(minutes + 1)
    return Trace(
        id=id, session_id=session_id, name=WORDS, kind="llm", started_at=at(minutes), ended_at=ended,
        input={"n": -3, "x": 1e300, "deep": [[{}]]}, attributes={"k": True},
    )  # fmt: skip


def memory(id: str, key: str, minutes: float = 0, **fields: object) -> MemoryRecord:
    given = {"value": {"said": WORDS}} | fields
    return MemoryRecord(id=id, key=key, created_at=BORN, updated_at=at(minutes), **given)


async def fill(store: RecordStorage, *, sessions: int = 6, size_bytes: int = 20_000) -> None:
    """Two tenants, each with a plain session, one with blobs, a pruned one, and many small ones."""
    for number, tenant in enumerate(TENANTS):
        view = store.scoped(tenant)
        user = f"user {number}"
        await fill_small(view, sessions, user)
        await fill_with_blobs(view, size_bytes, user)
        await fill_pruned(view, user)
        await fill_loose(view, user)


async def fill_small(store: RecordStorage, count: int, user: str) -> None:
    for number in range(count):
        name = f"small {number} {WORDS}"
        await store.create_session(session(name, minutes=number, agent_id="a", user_id=user, last_seq=3))
        await store.append_events(events(name, 1, 2))
        await store.append_event(event(name, 3))
        await store.update_session(session(name, minutes=number, agent_id="a", user_id=user, last_seq=3))
        await store.append_audit_log(audit(f"{name} one", name))
        await store.append_audit_log(audit(f"{name} two", name, 1))
        await store.insert_trace(trace(f"t {name}", name))


async def fill_with_blobs(store: RecordStorage, size_bytes: int, user: str) -> None:
    await store.create_session(session("blobs", minutes=50, metadata={"z": 1, "a": {"ü": [user]}}))
    await store.append_event(event("blobs", 1, encode_event(said(WORDS * (size_bytes // 59)))))
    await store.append_event(await large_event(store, "blobs", 2, WORDS * 2_000, b"\x00\xff" * 40_000))
    await store.append_event(await large_event(store, "blobs", 3, WORDS * 2_000))
    await store.append_events(events("blobs", 4, 450))
    for name in ("c1", "c2", "c0"):
        await store.save_checkpoint(checkpoint(f"{name} of blobs", "blobs", 7, view_start=1, n=name))
    await store.save_checkpoint(checkpoint("c9", "blobs", 2))
    await store.insert_trace(trace("open", "blobs", is_open=True))


async def fill_pruned(store: RecordStorage, user: str) -> None:
    """A session whose log and whose audit chain begin in the midst."""
    await store.create_session(session("pruned", minutes=60, last_seq=30, user_id=user))
    for first in (1, 11, 21):
        await store.append_events(events("pruned", first, first + 9))
    await store.save_checkpoint(checkpoint("view", "pruned", 25, view_start=21))
    for number in range(6):
        await store.append_audit_log(audit(f"row {number}", "pruned", number))
    assert await store.prune("events", at(1_000)) >= 20
    assert await store.prune("audit", at(3.5)) >= 4


async def fill_loose(store: RecordStorage, user: str) -> None:
    """What belongs to no session."""
    for number in range(3):
        await store.append_audit_log(audit(f"loose {number}", "", 100 + number, actor=user))
        await store.insert_trace(trace(f"loose {number}", "", number))
    for number in range(5):
        await store.put_memory(memory(f"m{number}", f"key {number % 2} {WORDS}", number, user_id=user))


# --- comparing --------------------------------------------------------------------


async def hashes(store: Storage, tenants: Sequence[str] = TENANTS) -> dict[tuple[str, str], str]:
    """The hash of every session, of what belongs to none, and of memory."""
    found: dict[tuple[str, str], str] = {}
    for tenant in tenants:
        view = store.scoped(tenant)
        names = [row.id for row in (await view.list_sessions(limit=1_000)).items]
        found |= {(tenant, name): await session_hash(view, name) for name in ("", *names)}
        found[tenant, "memory"] = await memory_hash(view)
    return found


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[RecordStorage, None]:
    """A store with its tables."""
    store = registry.storage(url)
    assert isinstance(store, RecordStorage)
    try:
        await store.migrate()
        yield store
    finally:
        await store.close()


def in_file(path: Path) -> str:
    return f"sqlite:///{path}"
