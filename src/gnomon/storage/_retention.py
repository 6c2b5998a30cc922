"""Forgetting: by age and kind, by session, by user; never what recovery needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from datetime import datetime
from typing import get_args

import msgspec

from gnomon.contracts.storage import RecordKind
from gnomon.errors import Conflict, InvalidInput, NotFound
from gnomon.storage._audit import AuditChain
from gnomon.storage._checkpoints import CheckpointRows
from gnomon.storage._events import EventLog
from gnomon.storage._keys import time_key
from gnomon.storage._part import moved
from gnomon.storage._rows import Found, Span
from gnomon.storage._sessions import SessionRows
from gnomon.storage._together import total
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
        session = await self.get_session(session_id)
        return await self._delete_session(session_id, session)

    async def _delete_session(self, session_id: str, session: SessionRecord | None) -> bool:
        """As it was when it was looked at: one that has changed since is a `Conflict`."""
        if session is not None:
            await self._close_for_good(session)
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
            session = self._read(SessionRecord, row)
            if session.status in _AT_REST:
                with suppress(Conflict):  # it was used in the meantime, and so is not old
                    removed += await self._delete_session(row.id, session)
        return removed

    async def _prune_touched(
        self, kind: str, record: type[MemoryRecord] | type[Trace], older_than: datetime
    ) -> int:
        async def prune(row: Found) -> int:
            if not await self._is_at_rest(self._read(record, row).session_id):
                return 0
            return await self._rows.delete(self._tenant, kind, row.id, row.revision)

        return await self._summed(_touched(kind, older_than), prune)

    async def _prune_events(self, session_id: str, older_than: datetime) -> int:
        """What lies before the current view, as far as it is old enough."""
        through = await self._prunable(session_id, older_than)
        return await self._rows.cut(self._tenant, session_id, through) if through else 0

    async def _prunable(self, session_id: str, older_than: datetime) -> int:
        """Up to which event. The latest group always stays: by it a log knows where it goes on."""
        latest, own = await self.get_latest_checkpoint(session_id), await self.get_checkpoint(session_id)
        view_start = min(_view_start(latest), _view_start(own or latest))
        through = after_seq = 0
        while groups := await self._rows.read(self._tenant, session_id, after_seq, _BATCH):
            for group in groups:
                through, after_seq = after_seq, group.last
                newest = self._unpacked(session_id, [group])[-1:]  # none where a copy of a log begins
                if group.last >= view_start or (newest and newest[0].created_at >= older_than):
                    return through
        return through

    async def _prune_checkpoints(self, session_id: str, older_than: datetime) -> int:
        latest = await self.get_latest_checkpoint(session_id)
        kept = (latest.id if latest is not None else "", session_id)  # the ledger's own has the session's id

        async def prune(row: Found) -> int:
            if row.id in kept or self._read(Checkpoint, row).created_at >= older_than:
                return 0
            return await self._rows.delete(self._tenant, "checkpoints", row.id, row.revision)

        span = Span(kind="checkpoints", index="session", part=session_id, limit=_BATCH)
        return await self._summed(span, prune)

    # --- walking

    async def _close_for_good(self, session: SessionRecord) -> None:
        """So that whoever is about to change the session hears of it in time."""
        _check_at_rest(session)
        closed = msgspec.structs.replace(session, status="closed", runnable=False, wake_at=None)
        with suppress(NotFound):  # somebody else deletes it too
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

    async def _summed(self, span: Span, remove: Callable[[Found], Coroutine[object, object, int]]) -> int:
        removed = 0
        while found := await self._rows.find(self._tenant, span):
            removed += await total(remove, found)
            span = moved(span, found[-1].sort)
        return removed

    async def _delete_all(self, span: Span) -> int:
        async def delete(row: Found) -> int:
            return await self._rows.delete(self._tenant, span.kind, row.id)

        return await self._summed(span, delete)


def _touched(kind: str, older_than: datetime) -> Span:
    return Span(kind=kind, index="touched", below=time_key(older_than), limit=_BATCH)


def _check_at_rest(session: SessionRecord) -> None:
    if session.status not in _AT_REST:
        raise Conflict(f"session {session.id!r} is {session.status}", hint="cancel it first, or wait")


class _Needed(msgspec.Struct):
    """Of a checkpoint's state, what says which events are needed."""

    view_start: int = 0
    early: tuple[int, ...] = ()
    """Messages that waited until a turn of the view took them."""


def _view_start(checkpoint: Checkpoint | None) -> int:
    """The first event that the current view needs; without a checkpoint, the first there is."""
    try:
        needed = msgspec.convert(checkpoint.state if checkpoint is not None else {}, _Needed)
    except msgspec.ValidationError:
        return 0
    return min((needed.view_start, *needed.early))
