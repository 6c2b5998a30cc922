"""The rows of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from heapq import merge

import msgspec

from gnomon.contracts.storage import PAGE_SIZE
from gnomon.errors import Conflict, NotFound
from gnomon.storage._keys import cursor as made_cursor
from gnomon.storage._keys import joined, opened, past, time_key
from gnomon.storage._part import Part, checked_limit
from gnomon.storage._rows import Place, Row, Span
from gnomon.storage._values import checked_name, checked_number, checked_time, encoded
from gnomon.types.records import Page, SessionRecord

__all__ = ["SessionRows", "session_row"]

_REMEMBERED = 2_000
"""Of how many rows is known what was last written here."""


class SessionRows(Part):
    async def create_session(self, session: SessionRecord) -> None:
        row = session_row(session)
        await self._enrol()
        if not await self._rows.write(self._tenant, row, 0):
            raise Conflict(f"session {session.id!r} exists already")
        self._remember(session.id, session.revision, session.last_seq)

    async def get_session(self, session_id: str) -> SessionRecord | None:
        return await self._get("sessions", checked_name("the session's id", session_id), SessionRecord)

    async def update_session(self, session: SessionRecord) -> SessionRecord:
        revision = checked_number("the revision of a session", session.revision)
        row = session_row(msgspec.structs.replace(session, revision=revision + 1))
        if not self._is_known_to_follow(session):
            await self._check_follows(session)
        if not await self._rows.write(self._tenant, row, _stored_revision(session)):
            await self._check_follows(session)
            raise _stale(session, "it has changed in this moment")
        self._remember(session.id, revision + 1, session.last_seq)
        return session_of(row)

    def _is_known_to_follow(self, session: SessionRecord) -> bool:
        """Whether the row of that revision was written here, so that it need not be read to compare."""
        known = self._rows.sessions.get((self._tenant, session.id))
        return known is not None and known[0] == session.revision and session.last_seq >= known[1]

    async def _check_follows(self, session: SessionRecord) -> None:
        stored = await self.get_session(session.id)
        if stored is None:
            raise NotFound(f"there is no session {session.id!r}")
        if stored.revision != session.revision:
            raise _stale(session, f"its revision is {stored.revision}, not {session.revision}")
        if session.last_seq < stored.last_seq:
            raise _stale(session, f"its last_seq is {stored.last_seq}, and {session.last_seq} is lower")

    def _remember(self, session_id: str, revision: int, last_seq: int) -> None:
        known, key = self._rows.sessions, (self._tenant, session_id)
        known.pop(key, None)
        known[key] = (revision, last_seq)
        if len(known) > _REMEMBERED:
            del known[next(iter(known))]

    async def list_sessions(
        self, agent_id: str = "", limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[SessionRecord]:
        agent_id = checked_name("the agent's id", agent_id, empty=True)
        index = "agent" if agent_id else "all"
        span = Span(kind="sessions", index=index, part=agent_id, descending=True)
        return await self._page("list_sessions", span, SessionRecord, limit, offset, cursor)

    async def list_runnable(
        self, now: datetime, limit: int = PAGE_SIZE, *, cursor: str | None = None
    ) -> Page[SessionRecord]:
        """Two stretches, those that are runnable and those whose time has come, in one order."""
        limit = checked_limit(limit, 0, cursor)
        above = opened("list_runnable", cursor) if cursor is not None else ""
        due = Span(kind="sessions", index="due", above=above, limit=limit + 1)
        awake = past(time_key(checked_time("now", now)))
        wake = Span(kind="sessions", index="wake", above=above, below=awake, limit=limit + 1)
        found = [await self._rows.find(self._tenant, span) for span in (due, wake)]
        rows = list(merge(*found, key=lambda row: row.sort))
        records = tuple(self._read(SessionRecord, row) for row in rows[:limit])
        after = made_cursor("list_runnable", rows[limit - 1].sort) if len(rows) > limit else None
        return Page(records, after)


def session_row(session: SessionRecord) -> Row:
    """The row of a record, with its times in UTC."""
    checked_name("the session's id", session.id)
    checked_name("the agent's id", session.agent_id, empty=True)
    checked_name("the user's id", session.user_id, empty=True)
    checked_number("the revision of a session", session.revision)
    checked_number("the last_seq of a session", session.last_seq)
    wake = session.wake_at and checked_time("wake_at", session.wake_at)
    created, updated = (
        checked_time("created_at", session.created_at),
        checked_time("updated_at", session.updated_at),
    )
    if created is not session.created_at or updated is not session.updated_at or wake is not session.wake_at:
        session = msgspec.structs.replace(session, created_at=created, updated_at=updated, wake_at=wake)
    return Row(
        kind="sessions",
        id=session.id,
        # A row's revision counts from 1: 0 says that there is none.
        revision=_stored_revision(session),
        body=encoded("session", session, "metadata"),
        places=_places(session),
    )


def session_of(row: Row) -> SessionRecord:
    return msgspec.json.decode(row.body, type=SessionRecord)


def _stored_revision(session: SessionRecord) -> int:
    return session.revision + 1


def _places(session: SessionRecord) -> Mapping[str, Place]:
    born = joined(time_key(session.created_at), session.id)
    touched = joined(time_key(session.updated_at), session.id)
    places = {"all": Place("", born), "touched": Place("", touched)}
    if session.agent_id:
        places["agent"] = Place(session.agent_id, born)
    if session.user_id:
        places["user"] = Place(session.user_id, born)
    if session.runnable:
        places["due"] = Place("", touched)
    elif session.wake_at is not None:
        places["wake"] = Place("", joined(time_key(session.wake_at), session.id))
    return places


def _stale(session: SessionRecord, why: str) -> Conflict:
    return Conflict(f"session {session.id!r} was changed by somebody else: {why}", hint="read it again")
