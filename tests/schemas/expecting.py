"""What is in a store that was kept: read from it through its public methods, and from the file that says so.

The file is read into the records of today, so that a field which came later has its default.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, TypeAlias

import msgspec

from gnomon.contracts.storage import read_events
from gnomon.storage._records import RecordStorage
from gnomon.types.records import (
    AuditLog,
    Checkpoint,
    LedgerEvent,
    MemoryRecord,
    SessionRecord,
    Trace,
)
from stored import at

from . import FOLDER
from .contents import LARGE, LARGE_BYTES, OTHER_TENANT, SMALL_BLOB, runs
from .lines import line, objects

__all__ = ["Kept", "expected", "forget", "forgotten", "said", "seen", "seen_blobs"]

Kept: TypeAlias = SessionRecord | MemoryRecord | Checkpoint | LedgerEvent | AuditLog | Trace

_TYPES = {
    kind.__name__: kind for kind in (SessionRecord, MemoryRecord, Checkpoint, LedgerEvent, AuditLog, Trace)
}
_LATER = at(100_000)
_NEVER = datetime(2900, 1, 1, tzinfo=UTC)
"""After a store was kept, whatever the clock of that machine said."""


# --- as it is in a store --------------------------------------------------------------------------


async def seen(store: RecordStorage) -> list[tuple[str, str, Kept]]:
    """Each record, with its tenant and the list in which it was found, by every index that a list has."""
    found: list[tuple[str, str, Kept]] = []
    for tenant in (await store.list_tenants()).items:
        view = store.scoped(tenant)
        found += [(tenant, name, record) async for name, record in _listed(view)]
    return found


async def _listed(store: RecordStorage) -> AsyncIterator[tuple[str, Kept]]:
    sessions = (await store.list_sessions()).items
    for row in sessions:
        yield "sessions", row
    for row in (await store.list_runnable(_LATER)).items:
        yield "runnable", row
    for agent in sorted({row.agent_id for row in sessions} - {""}):
        for row in (await store.list_sessions(agent)).items:
            yield "sessions of an agent", row
    async for found in _memory(store):
        yield found
    for session_id in ["", *(row.id for row in sessions)]:
        async for found in _of_session(store, session_id):
            yield found


async def _memory(store: RecordStorage) -> AsyncIterator[tuple[str, Kept]]:
    records = (await store.list_memory()).items
    for record in records:
        yield "memory", record
    for agent, user in sorted({(record.agent_id, record.user_id) for record in records}):
        for record in (await store.list_memory(agent, user_id=user)).items:
            yield "memory of an agent and a user", record


async def _of_session(store: RecordStorage, session_id: str) -> AsyncIterator[tuple[str, Kept]]:
    if session_id:
        for point in (await store.list_checkpoints(session_id)).items:
            yield "checkpoints", point
        async with read_events(store, session_id) as events:
            async for event in events:
                yield "events", event
    for log in (await store.list_audit_logs(session_id)).items:
        yield "audit", log
    for trace in (await store.list_traces(session_id)).items:
        yield "traces", trace


async def seen_blobs(store: RecordStorage, large_bytes: int) -> list[bool]:
    """Whether the blobs are there and whole: the small one of each tenant, and the large one."""
    wanted = [(store, SMALL_BLOB), (store.scoped(OTHER_TENANT), SMALL_BLOB), (store, runs(large_bytes))]
    return [await view.get_blob(sha256(blob).hexdigest()) == blob for view, blob in wanted]


async def forget(store: RecordStorage) -> dict[str, int]:
    """How much each way of forgetting removes, one after another: they have indexes that no list has."""
    return {
        "memory": await store.prune("memory", at(0.5)),
        "traces": await store.prune("traces", at(3)),
        "audit": await store.prune("audit", at(2.5)),
        "checkpoints": await store.prune("checkpoints", _LATER),
        "events": await store.prune("events", _LATER),
        "a user": await store.delete_user("ana"),
        "sessions": await store.prune("sessions", _LATER),
        "blobs": await store.sweep_blobs(frozenset(), _NEVER),
    }


# --- as it is in the file -------------------------------------------------------------------------


async def said(store: RecordStorage) -> str:
    """The file for what is in this store, which is emptied by that."""
    lines = [line({"large_bytes": LARGE_BYTES})]
    for tenant, name, record in await seen(store):
        kind = type(record).__name__
        lines.append(line({"tenant": tenant, "list": name, kind: msgspec.to_builtins(_emptied(record))}))
    return "".join(lines) + line({"forgotten": await forget(store)})


def expected(store: str, version: int) -> tuple[int, list[tuple[str, str, Kept]]]:
    """How large what is large is in such a store, and its records."""
    (first, *rest) = _objects(version)
    large_bytes = first["large_bytes"][store]
    return large_bytes, [_record(each, large_bytes) for each in rest if "tenant" in each]


def forgotten(version: int) -> dict[str, int]:
    return _objects(version)[-1]["forgotten"]


def _objects(version: int) -> list[Any]:
    return list(objects((FOLDER / f"expected-{version}.jsonl").read_text("utf-8")))


def _record(found: dict[str, Any], large_bytes: int) -> tuple[str, str, Kept]:
    ((kind, fields),) = ((name, value) for name, value in found.items() if name in _TYPES)
    record = msgspec.convert(fields, _TYPES[kind])
    if isinstance(record, LedgerEvent) and record.type == LARGE:
        record = msgspec.structs.replace(record, payload=runs(large_bytes))
    return found["tenant"], found["list"], record


def _emptied(record: Kept) -> Kept:
    """The payload that is not the same in every store is not in the file."""
    is_large = isinstance(record, LedgerEvent) and record.type == LARGE
    return msgspec.structs.replace(record, payload=b"") if is_large else record
