"""A store that keeps its word, in dictionaries: what the suite of stores is itself tested with.

It is written to be broken: each promise has a method of its own, which a subclass
in `reference_store_bugs.py` gets wrong.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from gnomon.contracts.storage import AuditFault
from gnomon.errors import Conflict, InvalidInput, NotFound, StorageError, Unavailable
from gnomon.stream import PullStream
from gnomon.types.records import (
    AuditLog,
    Checkpoint,
    LedgerEvent,
    MemoryRecord,
    Page,
    SessionRecord,
    Trace,
    utc_now,
)

AT_REST = ("idle", "closed")
ANCHOR = "pruned"
KINDS = ("sessions", "memory", "audit", "traces", "events", "checkpoints")


class Tables(msgspec.Struct):
    """What one tenant has."""

    sessions: dict[str, SessionRecord] = {}
    memory: dict[str, MemoryRecord] = {}
    audit: dict[str, list[AuditLog]] = {}
    heads: dict[str, int] = {}
    traces: dict[str, Trace] = {}
    events: dict[str, list[LedgerEvent]] = {}
    tails: dict[str, int] = {}
    checkpoints: dict[str, Checkpoint] = {}
    blobs: dict[str, tuple[bytes, datetime]] = {}


class World(msgspec.Struct):
    """What all tenants have."""

    version: int = 0
    tenants: dict[str, Tables] = {}


class Root:
    """What a store and its views share."""

    def __init__(self) -> None:
        self.world = World()
        self.is_closed = False
        self.is_down = False


class Reference:
    patience_s = 0.005

    def __init__(self, root: Root | None = None, tenant: str = "default") -> None:
        self.root = root or Root()
        self.tenant = tenant
        self.is_view = root is not None

    # --- the store as a whole

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        """Nothing else happens while it is held, for the body never waits."""
        await asyncio.sleep(0)
        self.check_open()
        yield self.root.world

    @asynccontextmanager
    async def tables(self) -> AsyncIterator[Tables]:
        async with self.world() as world:
            if world.version != 1:
                raise StorageError("this store is of another version", hint="call migrate()")
            yield self.own_tables(world)
        await self.reply()
        if self.root.is_down:
            raise Unavailable("the connection was lost; whether it is stored is not known")

    async def reply(self) -> None:
        """The answer takes a moment, in which the connection may be lost."""
        await asyncio.sleep(0)

    def own_tables(self, world: World) -> Tables:
        return world.tenants.setdefault(self.tenant, Tables())

    def check_open(self) -> None:
        if self.root.is_closed:
            raise StorageError("the store is closed")
        if self.root.is_down:
            raise Unavailable("the store cannot be reached")

    async def migrate(self) -> None:
        async with self.world() as world:
            if world.version > 1:
                raise StorageError(f"version {world.version} is newer than 1")
            world.version = 1

    async def close(self) -> None:
        if not self.is_view:
            self.root.is_closed = True

    def scoped(self, tenant: str) -> Reference:
        self.check_name("the tenant", tenant)
        return type(self)(self.root, tenant)

    # --- sessions

    async def create_session(self, session: SessionRecord) -> None:
        session = self.kept(session)
        async with self.tables() as tables:
            if session.id in tables.sessions:
                raise Conflict(f"session {session.id} exists")
            tables.sessions[session.id] = session

    async def get_session(self, session_id: str) -> SessionRecord | None:
        async with self.tables() as tables:
            return self.given(tables.sessions.get(session_id))

    async def update_session(self, session: SessionRecord) -> SessionRecord:
        session = self.kept(session)
        async with self.tables() as tables:
            stored = tables.sessions.get(session.id)
            if stored is None:
                raise NotFound(f"no session {session.id}")
            if self.is_stale(stored, session):
                raise Conflict(f"session {session.id} has changed")
            tables.sessions[session.id] = replace(session, revision=session.revision + 1)
            return self.given(tables.sessions[session.id])

    def is_stale(self, stored: SessionRecord, session: SessionRecord) -> bool:
        return stored.revision != session.revision or session.last_seq < stored.last_seq

    async def list_sessions(
        self, agent_id: str = "", limit: int = 50, offset: int = 0, *, cursor: str | None = None
    ) -> Page[SessionRecord]:
        async with self.tables() as tables:
            rows = [row for row in tables.sessions.values() if agent_id in ("", row.agent_id)]
            return self.page("sessions", rows, self.session_key, limit, offset, cursor, down=True)

    def session_key(self, row: SessionRecord) -> list[Any]:
        return [time_text(row.created_at), row.id]

    async def list_runnable(
        self, now: datetime, limit: int = 50, *, cursor: str | None = None
    ) -> Page[SessionRecord]:
        self.check_time("now", now)
        async with self.tables() as tables:
            rows = [row for row in tables.sessions.values() if self.is_due(row, now)]
            return self.page("runnable", rows, self.due_key, limit, 0, cursor)

    def is_due(self, row: SessionRecord, now: datetime) -> bool:
        return row.runnable or (row.wake_at is not None and row.wake_at <= now)

    def due_key(self, row: SessionRecord) -> list[Any]:
        return [time_text(row.updated_at if row.runnable or row.wake_at is None else row.wake_at), row.id]

    # --- memory

    async def put_memory(self, memory: MemoryRecord) -> None:
        self.check_name("the key", memory.key)
        memory = self.kept(memory)
        async with self.tables() as tables:
            tables.memory[memory.id] = memory

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        async with self.tables() as tables:
            rows = [row for row in tables.memory.values() if self.remembers(row, agent_id, user_id, "")]
            return self.given(self.latest_memory([row for row in rows if row.key == key]))

    def latest_memory(self, rows: Sequence[MemoryRecord]) -> MemoryRecord | None:
        return max(rows, key=lambda row: row.updated_at, default=None)

    async def list_memory(
        self,
        agent_id: str = "",
        kind: str = "",
        limit: int = 50,
        offset: int = 0,
        *,
        user_id: str = "",
        cursor: str | None = None,
    ) -> Page[MemoryRecord]:
        async with self.tables() as tables:
            rows = [row for row in tables.memory.values() if self.remembers(row, agent_id, user_id, kind)]
            return self.page("memory", rows, self.memory_key, limit, offset, cursor)

    def remembers(self, row: MemoryRecord, agent_id: str, user_id: str, kind: str) -> bool:
        return agent_id in ("", row.agent_id) and user_id in ("", row.user_id) and kind in ("", row.kind)

    def memory_key(self, row: MemoryRecord) -> list[Any]:
        return [row.key, row.id]

    async def delete_memory(self, memory_id: str) -> bool:
        async with self.tables() as tables:
            return tables.memory.pop(memory_id, None) is not None

    # --- audit

    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        if log.action == ANCHOR:
            raise InvalidInput(f"{ANCHOR!r} is an action of the store's own")
        log = self.kept(log)
        async with self.tables() as tables:
            chain = tables.audit.setdefault(log.session_id, [])
            row = self.linked(log, chain[-1] if chain else None)
            chain.append(row)
            tables.heads[log.session_id] = row.seq
            return self.given(row)

    async def append_audit_log_after(self, log: AuditLog, seq: int) -> AuditLog:
        async with self.tables() as tables:
            chain = tables.audit.setdefault(log.session_id, [])
            self.expect_end(chain, seq)
            chain.append(self.linked(self.kept(log), chain[-1] if chain else None))
            tables.heads[log.session_id] = chain[-1].seq
            return self.given(chain[-1])

    def expect_end(self, chain: Sequence[AuditLog], seq: int) -> None:
        if (chain[-1].seq if chain else 0) != seq:
            raise Conflict(f"the chain does not end with row {seq}")

    def linked(self, log: AuditLog, last: AuditLog | None) -> AuditLog:
        seq, prev_hash = (last.seq + 1, last.hash) if last is not None else (1, "")
        row = replace(log, seq=seq, prev_hash=prev_hash, hash="")
        return replace(row, hash=self.row_hash(row))

    def row_hash(self, row: AuditLog) -> str:
        text = msgspec.json.encode(replace(row, hash=""), order="deterministic")
        return hashlib.sha256(text).hexdigest()

    async def list_audit_logs(
        self, session_id: str, limit: int = 50, offset: int = 0, *, cursor: str | None = None
    ) -> Page[AuditLog]:
        async with self.tables() as tables:
            rows = tables.audit.get(session_id, [])
            return self.page("audit", rows, self.audit_key, limit, offset, cursor, down=True)

    def audit_key(self, row: AuditLog) -> list[Any]:
        return [row.seq]

    async def verify_audit(self, session_id: str) -> tuple[AuditFault, ...]:
        async with self.tables() as tables:
            chain = tables.audit.get(session_id, [])
            return tuple(self.faults(chain, tables.heads.get(session_id, 0)))

    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        seq, before = 0, ""
        for at, row in enumerate(chain):
            if at == 0 and row.action == ANCHOR:
                seq, before = row.seq, row.hash
                continue
            if row.seq != seq + 1:
                yield AuditFault(seq + 1, row.id, "removed")
            elif row.prev_hash != before:
                yield AuditFault(row.seq, row.id, "forked")
            if row.hash != self.row_hash(row):
                yield AuditFault(row.seq, row.id, "edited")
            seq, before = row.seq, row.hash
        if head > seq:
            yield AuditFault(seq + 1, "", "removed")

    # --- traces

    async def insert_trace(self, trace: Trace) -> None:
        trace = self.kept(trace)
        async with self.tables() as tables:
            stored = tables.traces.get(trace.id)
            if stored is not None and stored.ended_at is not None:
                raise Conflict(f"span {trace.id} has ended")
            tables.traces[trace.id] = trace

    async def get_trace(self, trace_id: str) -> Trace | None:
        async with self.tables() as tables:
            return self.given(tables.traces.get(trace_id))

    async def list_traces(
        self, session_id: str, limit: int = 50, offset: int = 0, *, cursor: str | None = None
    ) -> Page[Trace]:
        async with self.tables() as tables:
            rows = [row for row in tables.traces.values() if row.session_id == session_id]
            return self.page("traces", rows, self.trace_key, limit, offset, cursor)

    def trace_key(self, row: Trace) -> list[Any]:
        return [time_text(row.started_at), row.id]

    # --- events

    async def append_event(self, event: LedgerEvent) -> None:
        await self.append_events([event])

    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        group = [self.kept(event) for event in events]
        if not group:
            return
        if len({event.session_id for event in group}) > 1:
            raise InvalidInput("a group belongs to one session")
        async with self.tables() as tables:
            self.check_seqs(group, self.tail(tables, group[0].session_id))
            self.store(tables, group)
        await self.acknowledged(group)

    def check_seqs(self, group: Sequence[LedgerEvent], tail: int) -> None:
        if [event.seq for event in group] != list(range(tail + 1, tail + 1 + len(group))):
            raise Conflict(f"the log ends with {tail}")

    def store(self, tables: Tables, group: Sequence[LedgerEvent]) -> None:
        tables.events.setdefault(group[0].session_id, []).extend(group)
        tables.tails[group[0].session_id] = group[-1].seq

    async def acknowledged(self, group: Sequence[LedgerEvent]) -> None:
        """Here a store would tell its watchers."""

    def tail(self, tables: Tables, session_id: str) -> int:
        return tables.tails.get(session_id, 0)

    def log(self, tables: Tables, session_id: str) -> Sequence[LedgerEvent]:
        return tables.events.get(session_id, [])

    async def list_events(
        self, session_id: str, after_seq: int = 0, limit: int = 50, *, cursor: str | None = None
    ) -> Page[LedgerEvent]:
        async with self.tables() as tables:
            rows = [row for row in self.log(tables, session_id) if row.seq > after_seq]
            return self.page("events", rows, self.event_key, limit, 0, cursor)

    def event_key(self, row: LedgerEvent) -> list[Any]:
        return [row.seq]

    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]:
        return PullStream(self.watched(session_id, after_seq))

    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        while True:
            page = await self.list_events(session_id, after_seq)
            for event in page.items:
                after_seq = event.seq
                yield event
            if not page.items:
                await asyncio.sleep(self.patience_s)

    # --- checkpoints

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        checkpoint = self.kept(checkpoint)
        async with self.tables() as tables:
            tables.checkpoints.pop(checkpoint.id, None)  # so that it stands last
            tables.checkpoints[checkpoint.id] = checkpoint

    async def get_checkpoint(self, checkpoint_id: str) -> Checkpoint | None:
        async with self.tables() as tables:
            return self.given(tables.checkpoints.get(checkpoint_id))

    async def get_latest_checkpoint(self, session_id: str) -> Checkpoint | None:
        async with self.tables() as tables:
            return self.given(self.latest_checkpoint(tables, session_id))

    def latest_checkpoint(self, tables: Tables, session_id: str) -> Checkpoint | None:
        rows = [row for row in reversed(tables.checkpoints.values()) if row.session_id == session_id]
        return max(rows, key=lambda row: row.seq, default=None)

    async def list_checkpoints(
        self, session_id: str, limit: int = 50, offset: int = 0, *, cursor: str | None = None
    ) -> Page[Checkpoint]:
        async with self.tables() as tables:
            rows = [row for row in tables.checkpoints.values() if row.session_id == session_id]
            return self.page("checkpoints", rows, self.checkpoint_key, limit, offset, cursor)

    def checkpoint_key(self, row: Checkpoint) -> list[Any]:
        return [row.seq, row.id]

    # --- blobs

    async def put_blob(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        async with self.tables() as tables:
            self.keep_blob(tables, digest, content)
        return digest

    def keep_blob(self, tables: Tables, digest: str, content: bytes) -> None:
        tables.blobs[digest] = (bytes(content), utc_now())

    async def get_blob(self, digest: str) -> bytes | None:
        async with self.tables() as tables:
            found = tables.blobs.get(digest)
            return found and found[0]

    async def sweep_blobs(self, keep: Iterable[str], older_than: datetime) -> int:
        self.check_time("older_than", older_than)
        async with self.tables() as tables:
            gone = self.to_sweep(tables, set(keep), older_than)
            for digest in gone:
                del tables.blobs[digest]
            return len(gone)

    def to_sweep(self, tables: Tables, keep: set[str], older_than: datetime) -> list[str]:
        return [name for name, (_, put) in tables.blobs.items() if name not in keep and put < older_than]

    # --- forgetting

    async def prune(self, kind: str, older_than: datetime) -> int:
        if kind not in KINDS:
            raise InvalidInput(f"there is no kind {kind!r}")
        self.check_time("older_than", older_than)
        async with self.tables() as tables:
            return getattr(self, f"prune_{kind}")(tables, older_than)

    def is_at_rest(self, tables: Tables, session_id: str) -> bool:
        session = tables.sessions.get(session_id)
        return session is None or session.status in AT_REST

    def prune_sessions(self, tables: Tables, older_than: datetime) -> int:
        gone = [row.id for row in tables.sessions.values() if row.updated_at < older_than]
        gone = [name for name in gone if self.is_at_rest(tables, name)]
        for name in gone:
            self.forget(tables, name)
        return len(gone)

    def prune_memory(self, tables: Tables, older_than: datetime) -> int:
        return self.removed(tables, tables.memory, lambda row: row.updated_at < older_than)

    def prune_traces(self, tables: Tables, older_than: datetime) -> int:
        return self.removed(tables, tables.traces, lambda row: (row.ended_at or row.started_at) < older_than)

    def prune_checkpoints(self, tables: Tables, older_than: datetime) -> int:
        latest = {name: self.latest_checkpoint(tables, name) for name in tables.sessions}
        return self.removed(
            tables,
            tables.checkpoints,
            lambda row: row.created_at < older_than and row != latest.get(row.session_id, row),
        )

    def removed(self, tables: Tables, rows: dict[str, Any], goes: Callable[[Any], bool]) -> int:
        gone = [name for name, row in rows.items() if goes(row) and self.is_at_rest(tables, row.session_id)]
        for name in gone:
            del rows[name]
        return len(gone)

    def prune_events(self, tables: Tables, older_than: datetime) -> int:
        gone = 0
        for name in [name for name in tables.events if self.is_at_rest(tables, name)]:
            start = self.view_start(tables, name)
            rows = tables.events[name]
            while rows and rows[0].seq < start and rows[0].created_at < older_than:
                del rows[0]
                gone += 1
        return gone

    def view_start(self, tables: Tables, session_id: str) -> int:
        latest = self.latest_checkpoint(tables, session_id)
        return int(str(latest.state.get("view_start", 0))) if latest is not None else 0

    def prune_audit(self, tables: Tables, older_than: datetime) -> int:
        names = [name for name in tables.audit if self.is_at_rest(tables, name)]
        return sum(self.prune_chain(tables, name, older_than) for name in names)

    def prune_chain(self, tables: Tables, name: str, older_than: datetime) -> int:
        chain = tables.audit[name]
        old = 0
        while old < len(chain) and chain[old].created_at < older_than:
            old += 1
        gone = [row for row in chain[:old] if row.action != ANCHOR]
        if gone:
            chain[:old] = [self.anchor(chain[old - 1])]
        return len(gone)

    def anchor(self, last: AuditLog) -> AuditLog:
        return replace(last, id=f"anchor {last.seq}", action=ANCHOR, actor="", resource="", detail={})

    async def delete_session(self, session_id: str) -> bool:
        async with self.tables() as tables:
            self.check_at_rest(tables, session_id)
            return self.forget(tables, session_id)

    def check_at_rest(self, tables: Tables, session_id: str) -> None:
        if not self.is_at_rest(tables, session_id):
            raise Conflict(f"session {session_id} is busy")

    def forget(self, tables: Tables, session_id: str) -> bool:
        for rows in (tables.audit, tables.heads, tables.events, tables.tails):
            rows.pop(session_id, None)  # type: ignore[attr-defined]
        for rows in (tables.traces, tables.checkpoints, tables.memory):
            for name in [name for name, row in rows.items() if row.session_id == session_id]:
                del rows[name]
        return tables.sessions.pop(session_id, None) is not None

    async def delete_user(self, user_id: str) -> int:
        self.check_name("the user's id", user_id)
        async with self.tables() as tables:
            names = [row.id for row in tables.sessions.values() if row.user_id == user_id]
            for name in names:
                self.check_at_rest(tables, name)
            for name in names:
                self.forget(tables, name)
            gone = [row.id for row in tables.memory.values() if row.user_id == user_id]
            for name in gone:
                del tables.memory[name]
            return len(names) + len(gone)

    # --- what may be stored

    def kept(self, record: Any) -> Any:
        """A copy of the record, checked and with its times in UTC."""
        times: dict[str, object] = {}
        for name in record.__struct_fields__:
            value = getattr(record, name)
            if isinstance(value, datetime) and name.endswith("_at"):
                times[name] = self.check_time(name, value)
            elif isinstance(value, str) and (name == "id" or name.endswith("_id")):
                self.check_name(name, value, empty=self.may_be_empty(record, name))
            elif name != "payload":
                self.check_json(name, value)
        return self.copied(replace(record, **times))

    def may_be_empty(self, record: object, name: str) -> bool:
        return name != "id" and not (isinstance(record, LedgerEvent) and name == "session_id")

    def copied(self, record: Any) -> Any:
        return msgspec.json.decode(msgspec.json.encode(record), type=type(record))

    def given(self, record: Any) -> Any:
        return None if record is None else self.copied(record)

    def check_name(self, what: str, name: str, *, empty: bool = False) -> None:
        if "\0" in name or (not name and not empty) or not is_text(name):
            raise InvalidInput(f"{what} cannot be {name!r}")

    def check_time(self, what: str, time: datetime) -> datetime:
        if time.tzinfo is None:
            raise InvalidInput(f"{what} has no zone")
        try:
            return time.astimezone(UTC)
        except OverflowError:
            raise InvalidInput(f"{what} is out of range") from None

    def check_json(self, what: str, value: object) -> None:
        match value:
            case None | bool():
                return
            case int():
                fits = -(2**63) <= value < 2**64
            case float():
                fits = math.isfinite(value)
            case str():
                fits = is_text(value)
            case list():
                fits = all(self.check_json(what, inner) is None for inner in value)
            case dict():
                fits = all(isinstance(key, str) and is_text(key) for key in value)
                for inner in value.values():
                    self.check_json(what, inner)
            case _:
                fits = False
        if not fits:
            raise InvalidInput(f"{what} holds what JSON cannot")

    # --- pages

    def page(
        self,
        listed: str,
        rows: Iterable[Any],
        key: Callable[[Any], list[Any]],
        limit: int,
        offset: int,
        cursor: str | None,
        *,
        down: bool = False,
    ) -> Page[Any]:
        self.check_range(limit, offset, cursor)
        ordered = self.in_order(rows, key, down)
        if cursor is not None:
            after = self.opened(listed, cursor)
            ordered = [row for row in ordered if (key(row) < after if down else key(row) > after)]
        ordered = ordered[offset:]
        found = tuple(self.given(row) for row in ordered[:limit])
        return Page(found, self.cursor(listed, key(ordered[limit - 1])) if len(ordered) > limit else None)

    def in_order(self, rows: Iterable[Any], key: Callable[[Any], list[Any]], down: bool) -> list[Any]:
        return sorted(rows, key=key, reverse=down)

    def check_range(self, limit: int, offset: int, cursor: str | None) -> None:
        if limit < 1 or offset < 0 or (cursor is not None and offset):
            raise InvalidInput(f"limit={limit}, offset={offset} and cursor={cursor} do not fit")

    def cursor(self, listed: str, key: list[Any]) -> str:
        return urlsafe_b64encode(json.dumps([listed, key]).encode()).decode()

    def opened(self, listed: str, cursor: str) -> list[Any]:
        try:
            found, key = json.loads(urlsafe_b64decode(cursor.encode()))
            if found != listed or not isinstance(key, list):
                raise ValueError(found)
        except (ValueError, TypeError):
            raise InvalidInput("this is no cursor of that list") from None
        return key


Plants: TypeAlias = dict[str, list[tuple[type[Reference], str]]]
"""Checks, and the stores that each of them must find out, with what it says of them."""


def time_text(time: datetime) -> str:
    return time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds")


def is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
