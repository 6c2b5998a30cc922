"""Every call that a store has, each with rows of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from gnomon.contracts.storage import (
    Storage,
    SupportsAuditAfter,
    SupportsAuditCheck,
    SupportsBlobs,
    SupportsRetention,
    SupportsWatch,
)
from gnomon.testing._storage_records import (
    START,
    at,
    audit,
    checkpoint,
    event,
    events,
    memory,
    session,
    trace,
)

__all__ = ["Calls", "every_call"]

Calls: TypeAlias = dict[str, Callable[[], Awaitable[object]]]


def every_call(storage: Storage, name: str) -> Calls:
    """On rows of this name, so that two sets of calls are not in each other's way."""
    return {**_writes(storage, name), **_reads(storage, name), **_powers(storage, name)}


def _writes(storage: Storage, name: str) -> Calls:
    return {
        "create_session": lambda: storage.create_session(session(name)),
        "update_session": lambda: storage.update_session(session(name, title="updated")),
        "put_memory": lambda: storage.put_memory(memory(name, key=name, value="x" * 5_000)),
        "append_audit_log": lambda: storage.append_audit_log(audit(name, name)),
        "insert_trace": lambda: storage.insert_trace(trace(name, name)),
        "append_event": lambda: storage.append_event(event(1, f"{name} single")),
        "append_events": lambda: storage.append_events(events(range(1, 6), f"{name} group")),
        "save_checkpoint": lambda: storage.save_checkpoint(checkpoint(name, name)),
        "migrate": storage.migrate,
    }


def _reads(storage: Storage, name: str) -> Calls:
    return {
        "get_session": lambda: storage.get_session(name),
        "list_sessions": storage.list_sessions,
        "get_memory": lambda: storage.get_memory("", name),
        "list_memory": storage.list_memory,
        "list_audit_logs": lambda: storage.list_audit_logs(name),
        "get_trace": lambda: storage.get_trace(name),
        "list_traces": lambda: storage.list_traces(name),
        "list_events": lambda: storage.list_events(f"{name} group"),
        "list_runnable": lambda: storage.list_runnable(START),
        "get_checkpoint": lambda: storage.get_checkpoint(name),
        "get_latest_checkpoint": lambda: storage.get_latest_checkpoint(name),
        "list_checkpoints": lambda: storage.list_checkpoints(name),
        "delete_memory": lambda: storage.delete_memory(name),
    }


def _powers(storage: Storage, name: str) -> Calls:
    calls: Calls = {}
    if isinstance(storage, SupportsBlobs):
        blobs: SupportsBlobs = storage
        calls["put_blob"] = lambda: blobs.put_blob(name.encode() * 5_000)
        calls["get_blob"] = lambda: blobs.get_blob("0" * 64)
        calls["sweep_blobs"] = lambda: blobs.sweep_blobs(set(), at(-(10**8)))
    if isinstance(storage, SupportsRetention):
        retention: SupportsRetention = storage
        calls["prune"] = lambda: retention.prune("traces", at(-(10**8)))
        calls["delete_session"] = lambda: retention.delete_session(f"{name} gone")
        calls["delete_user"] = lambda: retention.delete_user(f"{name} gone")
    if isinstance(storage, SupportsAuditAfter):
        chained: SupportsAuditAfter = storage
        calls["append_audit_log_after"] = lambda: chained.append_audit_log_after(
            audit(name, f"{name} next"), 0
        )
    if isinstance(storage, SupportsAuditCheck):
        checked: SupportsAuditCheck = storage
        calls["verify_audit"] = lambda: checked.verify_audit(name)
    if isinstance(storage, SupportsWatch):
        watched: SupportsWatch = storage
        calls["watch"] = lambda: _first(watched, f"{name} group")
    return calls


async def _first(watched: SupportsWatch, session_id: str) -> object:
    async with watched.watch(session_id) as stream:
        return await anext(stream)
