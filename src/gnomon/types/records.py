"""What a store keeps. Times are UTC with microseconds on every back end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

import msgspec

from gnomon.types.messages import Meta

__all__ = [
    "AuditLog",
    "Checkpoint",
    "LedgerEvent",
    "MemoryRecord",
    "Page",
    "SessionRecord",
    "SessionState",
    "Time",
    "Trace",
    "utc_now",
]

Time: TypeAlias = Annotated[datetime, msgspec.Meta(tz=True)]
SessionState: TypeAlias = Literal["idle", "running", "waiting", "cancelling", "closed"]

_T = TypeVar("_T")


utc_now: Callable[[], datetime] = partial(datetime.now, UTC)
"""What time it is; nothing of ours is called for it, since it is asked for with every event."""


class Page(msgspec.Struct, Generic[_T], frozen=True):
    """Some rows and where to go on; `next` is opaque, and `None` on the last page."""

    items: tuple[_T, ...]
    next: str | None = None


class SessionRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The row of a session: a projection of its ledger, guarded by `last_seq` and `revision`."""

    id: str
    created_at: Time
    updated_at: Time
    agent_id: str = ""
    user_id: str = ""
    status: SessionState = "idle"
    title: str = ""
    metadata: Meta = {}
    last_seq: int = 0
    revision: int = 0
    runnable: bool = False
    wake_at: Time | None = None


class MemoryRecord(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    key: str
    value: object
    created_at: Time
    updated_at: Time
    session_id: str = ""
    agent_id: str = ""
    user_id: str = ""
    kind: str = "long_term"


class AuditLog(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A row of the hash chain of a session: `hash` covers the row, its `seq` and `prev_hash`."""

    id: str
    session_id: str
    actor: str
    action: str
    created_at: Time
    resource: str = ""
    detail: Meta = {}
    seq: int = 0
    prev_hash: str = ""
    hash: str = ""


class Trace(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    id: str
    session_id: str
    name: str
    kind: str
    started_at: Time
    ended_at: Time | None = None
    parent_id: str | None = None
    input: object = None
    output: object = None
    error: str | None = None
    attributes: Meta = {}


class LedgerEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the log of a session: `(session_id, seq)` is its identity.

    `payload` is the event as encoded bytes of `version`, so that a store never
    reads it and an older one keeps loading.
    """

    session_id: str
    seq: int
    id: str
    type: str
    payload: bytes
    created_at: Time
    version: int = 1


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Where the view starts, open calls, recent keys, totals: never messages. Safe to lose."""

    id: str
    session_id: str
    seq: int
    created_at: Time
    run_id: str = ""
    node_id: str = ""
    state: Meta = {}
