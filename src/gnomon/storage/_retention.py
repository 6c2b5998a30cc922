"""Forgetting: by age and kind, by session, by user; never what recovery needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from typing import get_args

import msgspec

from gnomon.contracts.storage import RecordKind
from gnomon.errors import Conflict, InvalidInput
from gnomon.storage._audit import AuditChain
from gnomon.storage._checkpoints import CheckpointRows
from gnomon.storage._events import EventLog
from gnomon.storage._keys import time_key
from gnomon.storage._part import moved
from gnomon.storage._rows import Found, Span
from gnomon.storage._sessions import SessionRows
from gnomon.storage._values import checked_name, checked_time
from gnomon.types.records import Checkpoint, MemoryRecord, SessionRecord, Trace

__all__ = ["Retention"]

_BATCH = 500
_AT_REST = ("idle", "closed")


class Retention(SessionRows, EventLog, CheckpointRows, AuditChain):
    async def prune(self, kind: RecordKind, older_than: datetime) -> int:
        if kind not in get_args(RecordKind):
            raise InvalidInput(f"there is no kind {kind!r} to prune", hint=", ".join(get_args(RecordKind)))
        older_than = checked_time("older_than", older_than)
        match kind:
            case "sessions":
                return await self._prune_sessions(older_than)
            case "memory":
                return await self._prune_touched("memory", MemoryRecord, older_than)
            case "traces":
                return await self._prune_touched("traces", Trace, older_than)
            case "audit":
                return await self._in_sessions(older_than, self._prune_audit, also="")
            case "events":
                return await self._in_sessions(older_than, self._prune_events)
            case "checkpoints":
                return await self._in_sessions(older_than, self._prune_checkpoints)

    async def delete_session(self, session_id: str) -> bool:
        await self._close_for_good(session_id)
        # The row goes last: as long as it is there, a deletion that was interrupted can be done again.
        removed = await self._rows.cut(self._tenant, session_id, None) > 0
        for kind in ("checkpoints", "traces", "audit", "memory"):
            span = Span(kind=kind, index="session", part=session_id, limit=_BATCH, bodies=False)
            removed = await self._delete_all(span) > 0 or removed
        await self._forget_chain(session_id)
        return await self._rows.delete(self._tenant, "sessions", session_id) or removed

    async def delete_user(self, user_id: str) -> int:
        part = checked_name("the user's id", user_id)
        sessions = Span(kind="sessions", index="user", part=part, limit=_BATCH)
        async for row in self._each(sessions):  # all or none: nothing goes while one of them runs
            _check_at_rest(self._read(SessionRecord, row))
        removed = 0
        async for row in self._each(sessions):
            removed += await self.delete_session(row.id)
        memory = Span(kind="memory", index="user", part=part, limit=_BATCH, bodies=False)
        return removed + await self._delete_all(memory)

    # --- by kind

    async def _prune_sessions(self, older_than: datetime) -> int:
        removed = 0
        async for row in self._each(_touched("sessions", older_than)):
            if self._read(SessionRecord, row).status in _AT_REST:
                removed += await self.delete_session(row.id)
        return removed

    async def _prune_touched(
        self, kind: str, record: type[MemoryRecord] | type[Trace], older_than: datetime
    ) -> int:
        removed = 0
        async for row in self._each(_touched(kind, older_than)):
            session_id = self._read(record, row).session_id
            if await self._is_at_rest(session_id):
                removed += await self._rows.delete(self._tenant, kind, row.id, row.revision)
        return removed

    async def _prune_events(self, session_id: str, older_than: datetime) -> int:
        """What lies before the current view, as far as it is old enough."""
        through = await self._prunable(session_id, older_than)
        return await self._rows.cut(self._tenant, session_id, through) if through else 0

    async def _prunable(self, session_id: str, older_than: datetime) -> int:
        """Up to which event. The latest group always stays: by it a log knows where it goes on."""
        view_start = _view_start(await self.get_latest_checkpoint(session_id))
        through = after_seq = 0
        while groups := await self._rows.read(self._tenant, session_id, after_seq, _BATCH):
            for group in groups:
                through, after_seq = after_seq, group.last
                newest = self._unpacked(session_id, group)[-1:]  # none where a copy of a log begins
                if group.last >= view_start or (newest and newest[0].created_at >= older_than):
                    return through
        return through

    async def _prune_checkpoints(self, session_id: str, older_than: datetime) -> int:
        latest = await self.get_latest_checkpoint(session_id)
        removed = 0
        async for row in self._each(Span(kind="checkpoints", index="session", part=session_id, limit=_BATCH)):
            checkpoint = self._read(Checkpoint, row)
            if latest is not None and checkpoint.id != latest.id and checkpoint.created_at < older_than:
                removed += await self._rows.delete(self._tenant, "checkpoints", row.id)
        return removed

    # --- walking

    async def _close_for_good(self, session_id: str) -> None:
        """So that whoever is about to change the session hears of it in time."""
        session = await self.get_session(session_id)
        if session is not None:
            _check_at_rest(session)
            closed = msgspec.structs.replace(session, status="closed", runnable=False, wake_at=None)
            await self.update_session(closed)

    async def _in_sessions(
        self, older_than: datetime, prune: Callable[[str, datetime], Awaitable[int]], also: str | None = None
    ) -> int:
        removed = 0 if also is None else await prune(also, older_than)
        async for row in self._each(Span(kind="sessions", index="all", limit=_BATCH)):
            if self._read(SessionRecord, row).status in _AT_REST:
                removed += await prune(row.id, older_than)
        return removed

    async def _is_at_rest(self, session_id: str) -> bool:
        session = await self.get_session(session_id) if session_id else None
        return session is None or session.status in _AT_REST

    async def _each(self, span: Span) -> AsyncGenerator[Found, None]:
        """Every row of a stretch, though they may be deleted on the way."""
        while found := await self._rows.find(self._tenant, span):
            for row in found:
                yield row
            span = moved(span, found[-1].sort)

    async def _delete_all(self, span: Span) -> int:
        removed = 0
        async for row in self._each(span):
            removed += await self._rows.delete(self._tenant, span.kind, row.id)
        return removed


def _touched(kind: str, older_than: datetime) -> Span:
    return Span(kind=kind, index="touched", below=time_key(older_than), limit=_BATCH)


def _check_at_rest(session: SessionRecord) -> None:
    if session.status not in _AT_REST:
        raise Conflict(f"session {session.id!r} is {session.status}", hint="cancel it first, or wait")


def _view_start(checkpoint: Checkpoint | None) -> int:
    """The first event that the current view needs; without a checkpoint, the first there is."""
    found = checkpoint.state.get("view_start", 0) if checkpoint is not None else 0
    return found if isinstance(found, int) else 0
