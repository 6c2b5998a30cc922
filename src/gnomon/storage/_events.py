"""The logs: each append is a group of events in one row, written whole or not at all."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

import msgspec

from gnomon.contracts.storage import PAGE_SIZE
from gnomon.errors import Conflict, Damaged, InvalidInput, StorageError
from gnomon.storage._checkpoints import checkpoint_row
from gnomon.storage._keys import cursor as made_cursor
from gnomon.storage._keys import number_key, opened
from gnomon.storage._part import Part, checked_limit
from gnomon.storage._rows import READ_BYTES, Group
from gnomon.storage._values import LARGEST_NUMBER, checked_name, checked_number, checked_time
from gnomon.stream import PullStream
from gnomon.types.records import Checkpoint, LedgerEvent, Page

__all__ = ["EventLog", "packed_group"]

_WATCHED = 200


class _Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event as it stands in a group, which knows the session and the numbers."""

    id: str
    type: str
    payload: bytes
    created_at: datetime
    version: int


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[_Kept]).decode

_TYPES = (str, str, bytes, int)
"""Of id, type, payload, version: structs do not check, and one bad event would spoil its whole log."""

_VACANT = _encode([])
"""The body of a group that stands for events which were pruned before the log was copied here."""


class EventLog(Part):
    async def append_event(self, event: LedgerEvent) -> None:
        await self.append_events((event,))

    async def append_events(
        self, events: Sequence[LedgerEvent], *, checkpoint: Checkpoint | None = None
    ) -> None:
        row = checkpoint_row(checkpoint) if checkpoint is not None else None
        if not events:
            raise InvalidInput("there is no event to append")
        group = packed_group(events)
        if self._tenant not in self._rows.tenants:
            await self._enrol()
        if not await self._rows.append(self._tenant, events[0].session_id, group, row):
            raise Conflict(
                f"event {group.first} of session {events[0].session_id!r} is not the next one",
                hint="somebody else has appended, or there would be a gap: read the log's end again",
            )

    async def begin_log(self, events: Sequence[LedgerEvent]) -> None:
        """What was pruned before them is stood for by an empty group, until they are there to go on from."""
        if events and events[0].seq > 1:
            vacant = Group(1, packed_group(events).first - 1, _VACANT)
            await self._vacate(events[0].session_id, vacant)
            await self.append_events(events)
            await self._rows.cut(self._tenant, events[0].session_id, vacant.last)
        else:
            await self.append_events(events)

    async def _vacate(self, session_id: str, vacant: Group) -> None:
        if await self._rows.append(self._tenant, session_id, vacant):
            return
        # Somebody may have come just as far as this, and was killed.
        if await self._is_vacant(session_id):
            await self._rows.cut(self._tenant, session_id, None)
            if await self._rows.append(self._tenant, session_id, vacant):
                return
        raise Conflict(f"session {session_id!r} has events already", hint="append to them")

    async def _is_vacant(self, session_id: str) -> bool:
        """Whether there is such a group, and nothing else."""
        found = await self._rows.read(self._tenant, session_id, 0, 1)
        if [group.body for group in found] != [_VACANT]:
            return False
        return not await self._rows.read(self._tenant, session_id, found[0].last, 1)

    async def list_events(
        self, session_id: str, after_seq: int = 0, limit: int = PAGE_SIZE, *, cursor: str | None = None
    ) -> Page[LedgerEvent]:
        limit = checked_limit(limit, 0, cursor)
        checked_name("the session's id", session_id)
        if cursor is not None:
            after_seq = _seq_of(opened("list_events", cursor))
        events, has_more = await self._events(session_id, _place(after_seq), limit)
        after = made_cursor("list_events", number_key(events[-1].seq)) if has_more else None
        return Page(tuple(events), after)

    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]:
        return PullStream(self._watched(checked_name("the session's id", session_id), _place(after_seq)))

    async def _watched(self, session_id: str, after_seq: int) -> AsyncGenerator[LedgerEvent, None]:
        # The bell is hung up before the first look, so that nothing falls in between.
        async with self._rows.listening(self._tenant, session_id) as bell:
            while True:
                events, has_more = await self._events(session_id, after_seq, _WATCHED)
                for event in events:
                    yield event
                    after_seq = event.seq
                if not has_more:
                    await bell.wait(self._rows.rows.poll_s)

    async def _events(self, session_id: str, after_seq: int, limit: int) -> tuple[list[LedgerEvent], bool]:
        """The next events, and whether there are more."""
        groups = await self._rows.read(self._tenant, session_id, after_seq, limit + 1)
        if groups and groups[0].body == _VACANT:
            return await self._events(session_id, groups[0].last, limit)
        events = self._unpacked(session_id, groups, after_seq, limit + 1)
        if not events:
            return events, False
        # A read that was cut short by its size may have more behind it; looking costs one empty page.
        return events[:limit], len(events) > limit or _is_heavy(groups)

    def _unpacked(
        self, session_id: str, groups: Sequence[Group], after_seq: int = 0, enough: int = LARGEST_NUMBER
    ) -> list[LedgerEvent]:
        """The events in the groups after that number; the groups after `enough` of them are left alone."""
        numbers: list[int] = []
        kept: list[_Kept] = []
        for group in groups:
            found = self._decoded(session_id, group)
            kept += found
            numbers += range(group.first, group.first + len(found))
            if group.last - max(after_seq, groups[0].first - 1) >= enough:
                break
        return [
            LedgerEvent(
                session_id=session_id,
                seq=seq,
                id=event.id,
                type=event.type,
                payload=event.payload,
                created_at=event.created_at,
                version=event.version,
            )
            for seq, event in zip(numbers, kept, strict=True)
            if seq > after_seq
        ]

    def _decoded(self, session_id: str, group: Group) -> list[_Kept]:
        try:
            kept = _decode(group.body)
        except (msgspec.DecodeError, UnicodeError) as error:
            raise self._damaged(session_id, group, str(error)) from error
        if len(kept) != group.last - group.first + 1 and group.body != _VACANT:
            raise self._damaged(session_id, group, f"{len(kept)} events were found")
        return kept

    def _damaged(self, session_id: str, group: Group, why: str) -> StorageError:
        what = f"events {group.first} to {group.last} of session {session_id!r}"
        return Damaged(f"{self._rows.where}: {what} cannot be read: {why}")


def _is_heavy(groups: list[Group]) -> bool:
    return sum(len(group.body) for group in groups) >= READ_BYTES


def packed_group(events: Sequence[LedgerEvent]) -> Group:
    """The events as one row holds them."""
    session_id = checked_name("the session's id", events[0].session_id)
    first = checked_number("the seq of an event", events[0].seq, least=1)
    for seq, event in enumerate(events, first):
        if event.session_id != session_id:
            raise InvalidInput(
                f"a group is of one session; {session_id!r} and {event.session_id!r} were given"
            )
        if event.seq != seq:
            raise InvalidInput(
                f"the events of a group follow one another; {event.seq} came where {seq} was due"
            )
        if (type(event.id), type(event.type), type(event.payload), type(event.version)) != _TYPES:
            raise _mistyped(event)
    kept = [
        _Kept(
            event.id, event.type, event.payload, checked_time("created_at", event.created_at), event.version
        )
        for event in events
    ]
    try:
        return Group(first, first + len(kept) - 1, _encode(kept))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(f"event {first} of session {session_id!r} cannot be stored: {error}") from None


def _mistyped(event: LedgerEvent) -> InvalidInput:
    what = f"event {event.seq} of session {event.session_id!r} cannot be stored"
    return InvalidInput(f"{what}: id and type are text, payload is bytes, version a whole number")


def _place(after_seq: object) -> int:
    """From where to read; what lies before the first event means all of them."""
    if not isinstance(after_seq, int) or isinstance(after_seq, bool):
        raise InvalidInput(f"after_seq must be a whole number, {type(after_seq).__name__} was given")
    return min(max(after_seq, 0), LARGEST_NUMBER)


def _seq_of(sort: str) -> int:
    if not sort.isdecimal() or len(sort) > len(number_key(0)):
        raise InvalidInput("the cursor was not given by list_events", hint="use Page.next of the same list")
    return int(sort)
