"""Rows to store: each with what a check does not care about filled in."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import msgspec

from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, MemoryRecord, SessionRecord, Trace

__all__ = ["START", "at", "audit", "checkpoint", "event", "events", "memory", "session", "trace"]

START = datetime(2024, 5, 17, 12, 30, 15, 123456, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def session(session_id: str = "s", /, **changes: object) -> SessionRecord:
    made = SessionRecord(id=session_id, created_at=START, updated_at=START)
    return msgspec.structs.replace(made, **changes)


def memory(memory_id: str = "m", /, **changes: object) -> MemoryRecord:
    made = MemoryRecord(id=memory_id, key="key", value="value", created_at=START, updated_at=START)
    return msgspec.structs.replace(made, **changes)


def audit(log_id: str = "l", session_id: str = "s", /, **changes: object) -> AuditLog:
    made = AuditLog(id=log_id, session_id=session_id, actor="ann", action="read", created_at=START)
    return msgspec.structs.replace(made, **changes)


def trace(trace_id: str = "t", session_id: str = "s", /, **changes: object) -> Trace:
    made = Trace(id=trace_id, session_id=session_id, name="call", kind="tool", started_at=START)
    return msgspec.structs.replace(made, **changes)


def checkpoint(checkpoint_id: str = "c", session_id: str = "s", /, **changes: object) -> Checkpoint:
    made = Checkpoint(id=checkpoint_id, session_id=session_id, seq=1, created_at=START)
    return msgspec.structs.replace(made, **changes)


def event(seq: int, session_id: str = "s", /, **changes: object) -> LedgerEvent:
    made = LedgerEvent(
        session_id=session_id,
        seq=seq,
        id=f"e-{seq}",
        type="note",
        payload=b"payload %d" % seq,
        created_at=at(seq),
    )
    return msgspec.structs.replace(made, **changes)


def events(seqs: Iterable[int], session_id: str = "s", /, **changes: object) -> list[LedgerEvent]:
    return [event(seq, session_id, **changes) for seq in seqs]
