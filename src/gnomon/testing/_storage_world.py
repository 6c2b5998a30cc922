"""One row of each kind, and what every way to read tells of them."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TypeAlias

from gnomon.contracts.storage import Storage, SupportsBlobs
from gnomon.testing._storage_asking import ledger, rows_of, together
from gnomon.testing._storage_records import at, audit, checkpoint, events, memory, session, trace
from gnomon.types.records import SessionState

__all__ = ["NOTHING", "Seen", "blob_of", "fill", "seen_by"]

Seen: TypeAlias = dict[str, object]


async def fill(view: Storage, name: str, mark: str, status: SessionState = "idle") -> None:
    """One of each kind, all of them old, and all with this mark."""
    made = session(name, title=mark, agent_id="a", user_id="u", runnable=True, last_seq=2, status=status)
    await view.create_session(made)
    await view.put_memory(memory(name, value=mark, agent_id="a", user_id="u", session_id=name))
    await view.append_events(events((1, 2), name, payload=mark.encode()))
    await view.append_audit_log(audit(name, name, actor=mark))
    await view.insert_trace(trace(name, name, name=mark, ended_at=at(1)))
    await view.save_checkpoint(checkpoint(name, name, state={"mark": mark, "view_start": 2}))
    if isinstance(view, SupportsBlobs):
        await view.put_blob(blob_of(mark))


def blob_of(mark: str) -> bytes:
    return b"a blob of " + mark.encode()


async def seen_by(view: Storage, name: str) -> Seen:
    """What every way to read tells of the rows of that name."""
    calls: dict[str, Coroutine[object, object, object]] = {
        "get_session": view.get_session(name),
        "list_sessions": rows_of(view.list_sessions),
        "list_sessions of an agent": rows_of(view.list_sessions, "a"),
        "list_runnable": rows_of(view.list_runnable, at(99)),
        "get_memory": view.get_memory("a", "key"),
        "list_memory": rows_of(view.list_memory),
        "list_memory of a user": rows_of(view.list_memory, user_id="u"),
        "list_events": ledger(view, name),
        "list_audit_logs": rows_of(view.list_audit_logs, name),
        "get_trace": view.get_trace(name),
        "list_traces": rows_of(view.list_traces, name),
        "get_checkpoint": view.get_checkpoint(name),
        "get_latest_checkpoint": view.get_latest_checkpoint(name),
        "list_checkpoints": rows_of(view.list_checkpoints, name),
    }
    return dict(zip(calls, await together(*calls.values()), strict=True))


NOTHING: Seen = {
    "get_session": None,
    "list_sessions": [],
    "list_sessions of an agent": [],
    "list_runnable": [],
    "get_memory": None,
    "list_memory": [],
    "list_memory of a user": [],
    "list_events": [],
    "list_audit_logs": [],
    "get_trace": None,
    "list_traces": [],
    "get_checkpoint": None,
    "get_latest_checkpoint": None,
    "list_checkpoints": [],
}
