"""Where records are kept: six small promises, and `Storage`, which is their sum."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from gnomon.stream import PullStream
from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, MemoryRecord, Page, SessionRecord, Trace

__all__ = [
    "AUDIT_ANCHOR",
    "AuditFault",
    "AuditStore",
    "CheckpointStore",
    "LedgerStore",
    "MemoryStore",
    "RecordKind",
    "SessionStore",
    "Storage",
    "SupportsAuditAfter",
    "SupportsAuditCheck",
    "SupportsBlobs",
    "SupportsOwners",
    "SupportsRetention",
    "SupportsWatch",
    "TraceStore",
    "read_events",
]

RecordKind: TypeAlias = Literal["sessions", "memory", "audit", "traces", "events", "checkpoints"]

PAGE_SIZE = 50

AUDIT_ANCHOR = "gnomon.pruned"
"""The action of the row that stands for those that pruning removed; its hash is the last one's of them."""


@runtime_checkable
class SessionStore(Protocol):
    """Keeps the rows of sessions.

    Stable since 0.1.

    - `create_session` must raise `Conflict` when the id is taken (D4).
    - `get_session` must give `None` when there is none (D4).
    - `update_session` must raise `NotFound` when there is none, and `Conflict`
      when the record's `revision` is not the stored one or its `last_seq` is
      lower; it must store, and give back, the record with the next revision (D4).
    - `list_sessions` must give the newest first, by `created_at` and then id; an
      empty agent id must mean all agents (D3).
    """

    async def create_session(self, session: SessionRecord) -> None: ...

    async def get_session(self, session_id: str) -> SessionRecord | None: ...

    async def update_session(self, session: SessionRecord) -> SessionRecord: ...

    async def list_sessions(
        self, agent_id: str = "", limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[SessionRecord]: ...


@runtime_checkable
class MemoryStore(Protocol):
    """Keeps what agents are to remember from one session to the next.

    Stable since 0.1.

    - `put_memory` must replace the record of the same id, and must not touch another.
    - `get_memory` must give the record of that key that was updated last, or
      `None` (D4).
    - `list_memory` must be ordered by key and then id (D3).
    - an empty agent id, user id or kind must mean all of them (D3).
    - `delete_memory` must say whether there was one.
    """

    async def put_memory(self, memory: MemoryRecord) -> None: ...

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None: ...

    async def list_memory(
        self,
        agent_id: str = "",
        kind: str = "",
        limit: int = PAGE_SIZE,
        offset: int = 0,
        *,
        user_id: str = "",
        cursor: str | None = None,
    ) -> Page[MemoryRecord]: ...

    async def delete_memory(self, memory_id: str) -> bool: ...


@runtime_checkable
class AuditStore(Protocol):
    """Keeps who did what, in a chain that shows tampering.

    Stable since 0.1.

    - `append_audit_log` must fill in `prev_hash` and `hash` and give back the row
      as stored. The rows of a session must form one chain with a sequence of its
      own, appended by compare-and-append, so that two writers cannot fork it (D10).
    - a row must not be changed once it is there.
    - `list_audit_logs` must give the newest first (D3).
    """

    async def append_audit_log(self, log: AuditLog) -> AuditLog: ...

    async def list_audit_logs(
        self, session_id: str, limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[AuditLog]: ...


@runtime_checkable
class TraceStore(Protocol):
    """Keeps spans.

    Stable since 0.1.

    - `insert_trace` may come twice for an id, when the span starts and when it
      ends: it must replace a span that has not ended, and must raise `Conflict`
      for one that has (D4).
    - `get_trace` must give `None` when there is none (D4).
    - `list_traces` must be ordered by start and then id (D3).
    """

    async def insert_trace(self, trace: Trace) -> None: ...

    async def get_trace(self, trace_id: str) -> Trace | None: ...

    async def list_traces(
        self, session_id: str, limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[Trace]: ...


@runtime_checkable
class LedgerStore(Protocol):
    """Keeps the log of each session: append-only and without gaps.

    Stable since 0.1.

    - the caller gives `seq` as tail + 1, from 1. `append_event` must raise
      `Conflict` when `(session_id, seq)` is taken, and when it would leave a gap (D1).
    - an event must be durable when the append returns (D1).
    - `append_events` must append a group of one session whole or not at all; no
      reader may see a part of it (D1). With a `checkpoint`, it must save that too
      once the events are in; it is derived, and may be lost where they are not.
      A group of none, of two sessions or with a gap must be refused with `InvalidInput`.
    - `list_events` must be ordered by seq, gapless and strongly consistent: what
      was appended before it was called must be in it (D2).
    - it must not hold more than a page: `read_events` reads a ledger of any
      length in bounded memory (D2).
    - two processes with four writers each on one session must not lose, double or
      reorder anything; that a database is locked must not reach a caller (D7).
    - a store must not read `payload`; it must give it back byte for byte (D8, D12).
    - `list_runnable` must give the sessions whose row is `runnable`, or whose
      `wake_at` is not after `now`, the longest waiting first, without reading
      every session.
    """

    async def append_event(self, event: LedgerEvent) -> None: ...

    async def append_events(
        self, events: Sequence[LedgerEvent], *, checkpoint: Checkpoint | None = None
    ) -> None: ...

    async def list_events(
        self, session_id: str, after_seq: int = 0, limit: int = PAGE_SIZE, *, cursor: str | None = None
    ) -> Page[LedgerEvent]: ...

    async def list_runnable(
        self, now: datetime, limit: int = PAGE_SIZE, *, cursor: str | None = None
    ) -> Page[SessionRecord]: ...


@runtime_checkable
class CheckpointStore(Protocol):
    """Keeps where to start reading a long log.

    Stable since 0.1.

    - `save_checkpoint` must replace the checkpoint of the same id.
    - `get_checkpoint` must give `None` when there is none (D4).
    - `get_latest_checkpoint` must give the one of the highest `seq`, saved last
      among equals, or `None` (D4).
    - `list_checkpoints` must be ordered by seq (D3).
    """

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None: ...

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint | None: ...

    async def get_latest_checkpoint(self, session_id: str) -> Checkpoint | None: ...

    async def list_checkpoints(
        self, session_id: str, limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[Checkpoint]: ...


@runtime_checkable
class Storage(SessionStore, MemoryStore, AuditStore, TraceStore, LedgerStore, CheckpointStore, Protocol):
    """Keeps all records of a runtime.

    Stable since 0.1.

    - appends must keep D1 and reads of the log D2; see `LedgerStore`.
    - a list must give at most `limit` rows, and may give fewer: `Page.next` alone
      says whether there are more. It is opaque, and rows that come or go in
      between must not make the pages skip or repeat another. `offset` may be
      given instead of a cursor; both at once must be refused with
      `InvalidInput` (D3).
    - what is absent must be `None` for `get`, `NotFound` for `update`; what is
      taken or stale must be `Conflict` (D4).
    - `scoped` must give a view bound to a tenant; the store itself is the tenant
      `default`. No view may see or change another's rows, on any method (D5).
    - `migrate` must be idempotent and versioned, and safe when ten processes call
      it at once; it must refuse a schema newer than it knows, and must upgrade
      every one that was ever released (D6).
    - writers in several processes must not lose anything (D7).
    - text in any script and payloads of 1 MB must come back as they were; what
      the database cannot hold must be split or put aside, invisibly. Times must
      come back in UTC with microseconds (D8).
    - `close` must be safe to call twice, and on a view must leave the store open.
      A lost connection must be retried where that is safe, and must raise
      `Unavailable` where not; nothing may be reported stored that is not (D9).
    - audit rows must form a hash chain (D10); see `AuditStore`.
    - what `SupportsRetention` removes must not be what recovery needs (D11).
    - state must be stored as JSON or MessagePack, never as pickle (D12).
    """

    async def migrate(self) -> None:
        """Bring the database to the schema this code knows."""
        ...

    async def close(self) -> None:
        """Let go of connections and files."""
        ...

    def scoped(self, tenant: str) -> Storage:
        """The same store as one tenant sees it."""
        ...


@runtime_checkable
class SupportsWatch(Protocol):
    """A store that tells readers of new events without being asked again and again.

    - `watch` must give the events after `after_seq`, first those that are there,
      then each one soon after it was appended, by any process, in order and
      without a gap (D2).
    - it must go on until it is closed, and a reader that is slow must not be in
      the way of a writer.
    """

    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]: ...


@runtime_checkable
class SupportsBlobs(Protocol):
    """A store that keeps large bytes once.

    - `put_blob` must give the SHA-256 of the bytes in hex, by which they are
      found. The bytes must be durable when it returns, and are kept per tenant (D5).
    - `get_blob` must give the same bytes, or `None` (D4).
    - `sweep_blobs` must remove those that are not in `keep` and were last put
      before `older_than`, and must say how many; a blob that was put again in the
      meantime must stay (D11).
    """

    async def put_blob(self, content: bytes) -> str: ...

    async def get_blob(self, digest: str) -> bytes | None: ...

    async def sweep_blobs(self, keep: AbstractSet[str], older_than: datetime) -> int: ...


@runtime_checkable
class SupportsOwners(Protocol):
    """A store that knows which runners are alive.

    - `holding` must hold the name until its block is left, and must raise
      `Conflict` while another that is alive holds it.
    - `is_held` must be true as long as the holder lives, and false soon after it
      died, however it died; a holder that hangs may count as alive.
    """

    def holding(self, owner: str) -> AbstractAsyncContextManager[None]: ...

    async def is_held(self, owner: str) -> bool: ...


@runtime_checkable
class SupportsRetention(Protocol):
    """A store that can forget.

    - `prune` must remove the rows of a kind that were last touched before
      `older_than`, and must say how many; it must not remove what recovery needs:
      anything of a session that is not idle or closed, or events from the start
      of the current view on (D11).
    - pruned audit rows must leave an anchor row, from which the rest of the chain
      still verifies (D10).
    - `delete_session` must remove every row of a session, and must raise
      `Conflict` while it runs; `delete_user` must do so for all of a user's
      sessions and memory. Both must say what was there (D11).
    """

    async def prune(self, kind: RecordKind, older_than: datetime) -> int: ...

    async def delete_session(self, session_id: str) -> bool: ...

    async def delete_user(self, user_id: str) -> int: ...


class AuditFault(msgspec.Struct, frozen=True):
    """Where the chain of a session does not hold: `position` counts from its start, from 1."""

    position: int
    log_id: str
    reason: Literal["edited", "removed", "forked"]


@runtime_checkable
class SupportsAuditAfter(Protocol):
    """A store that appends an audit row only to a chain that ends where its writer has read to.

    - `append_audit_log_after` must append the row as `append_audit_log` does when the last row of
      the chain has that `seq`, or when there is none and it is 0; it must raise `Conflict`, and
      append nothing, when the chain ends elsewhere (D10).
    """

    async def append_audit_log_after(self, log: AuditLog, seq: int) -> AuditLog: ...


@runtime_checkable
class SupportsAuditCheck(Protocol):
    """A store that can say whether its audit rows are what was once written.

    - `verify_audit` must find every row that was edited and every place where a
      row was removed; an anchor that pruning left must not count as one (D10).
    - it must give nothing for a chain that holds.
    """

    async def verify_audit(self, session_id: str) -> tuple[AuditFault, ...]: ...


@runtime_checkable
class SupportsTenants(Protocol):
    """A store that knows whose rows it keeps: for whoever looks after the whole of it.

    - `list_tenants` must give every tenant that has ever stored something, by
      name, in pages like those of every list (D3); one whose rows are all gone may
      still be among them.
    """

    async def list_tenants(self, limit: int = PAGE_SIZE, *, cursor: str | None = None) -> Page[str]: ...


@runtime_checkable
class SupportsImport(Protocol):
    """A store that takes over what was pruned elsewhere.

    - `begin_log` must append the events to the log of a session that has none yet,
      whatever number they begin with; the next append must then be the one after
      them. Where there are events already it must raise `Conflict`. After a crash in
      the midst of it, it must be possible to call it again; no reader may see
      anything but the events.
    - `append_audit_log` must take a row whose action is `AUDIT_ANCHOR` as it is,
      with its `seq` and `hash`, when it is the first of its chain.
    """

    async def begin_log(self, events: Sequence[LedgerEvent]) -> None: ...


class StoreStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a store says of itself. `where` has no password; `notes` say how durable an append is."""

    where: str
    schema_found: int
    schema_known: int
    notes: tuple[str, ...] = ()


@runtime_checkable
class SupportsStatus(Protocol):
    """A store that can be asked how it is, before its tables are there too.

    - `status` must ask the database, and must change nothing in it; `schema_found`
      must be 0 where there are no tables yet.
    """

    async def status(self) -> StoreStatus: ...


def read_events(
    ledger: LedgerStore, session_id: str, *, after_seq: int = 0, page_size: int = 1_000
) -> PullStream[LedgerEvent]:
    """The events of a session one by one, without ever holding more than a page of them."""

    async def events() -> AsyncGenerator[LedgerEvent, None]:
        cursor: str | None = None
        while True:
            page = await ledger.list_events(session_id, after_seq, page_size, cursor=cursor)
            for event in page.items:
                yield event
            if page.next is None:
                return
            cursor = page.next

    return PullStream(events())
