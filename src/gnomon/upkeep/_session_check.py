"""A look at one session: its log, what the log names, and what points into the log."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from hashlib import sha256
from typing import Literal, TypeAlias

from gnomon._payload import blobs_named, unpacked
from gnomon.contracts.storage import Storage, SupportsAuditCheck, SupportsBlobs, read_events
from gnomon.errors import Damaged, InvalidInput
from gnomon.types.records import LedgerEvent
from gnomon.upkeep._reading import KnownBlobs
from gnomon.upkeep._walk import EVENTS_A_PAGE, checkpoints

__all__ = ["Flaw", "SessionCheck", "audit_flaws"]

Flaw: TypeAlias = Literal["gap", "start", "unreadable", "missing_blob", "last_seq", "checkpoint", "audit"]
_Flaws: TypeAlias = list[tuple[Flaw, str]]

_AUDIT = {"edited": "was edited", "removed": "was removed", "forked": "does not follow the one before it"}
_MOST_OF_A_SESSION = 100


class SessionCheck:
    """`flaws` finds what is wrong; a session that is gone by now has nothing wrong with it."""

    def __init__(
        self, store: Storage, session_id: str, sound: KnownBlobs, on_event: Callable[[], None]
    ) -> None:
        self._store = store
        self._session_id = session_id
        self._sound = sound
        self._on_event = on_event
        self._flaws: _Flaws = []
        self.more = 0  # flaws that are not listed
        self._first = self._last = 0

    async def flaws(self) -> _Flaws:
        try:
            # In this order: what is read later may have gone on meanwhile, and is never behind.
            row = await self._store.get_session(self._session_id)
            view_start, highest = await self._checkpoints()
            await self._read_log()
        except Damaged as error:
            self._add("unreadable", error.message)
        else:
            if row is not None:
                self._check_ends(row.last_seq, view_start, highest)
        return [*self._flaws, *await audit_flaws(self._store, self._session_id)]

    async def _checkpoints(self) -> tuple[int, int]:
        """Where the current view starts, and the highest number that a checkpoint has."""
        latest = await self._store.get_latest_checkpoint(self._session_id)
        start = latest.state.get("view_start") if latest is not None else None
        highest = 0
        async with aclosing(checkpoints(self._store, self._session_id)) as found:
            async for checkpoint in found:
                highest = max(highest, checkpoint.seq)
        return start if isinstance(start, int) else 1, highest

    async def _read_log(self) -> None:
        async with read_events(self._store, self._session_id, page_size=EVENTS_A_PAGE) as events:
            async for event in events:
                if self._last and event.seq != self._last + 1:
                    self._add("gap", f"event {event.seq} comes after event {self._last}")
                self._first = self._first or event.seq
                self._last = event.seq
                await self._check_event(event)
                self._on_event()

    async def _check_event(self, event: LedgerEvent) -> None:
        try:
            blobs = {digest: await self._blob(event, digest) for digest in blobs_named(event)}
            if None not in blobs.values():
                unpacked(event, {digest: content or b"" for digest, content in blobs.items()})
        except (Damaged, InvalidInput) as error:
            self._add("unreadable", f"event {event.seq}: {error.message}")

    async def _blob(self, event: LedgerEvent, digest: str) -> bytes | None:
        try:
            content = await self._store.get_blob(digest) if isinstance(self._store, SupportsBlobs) else None
        except Damaged:
            self._add("missing_blob", f"event {event.seq} names blob {digest[:12]}…, whose bytes are others")
            return None
        if content is None:
            self._add("missing_blob", f"event {event.seq} names blob {digest[:12]}…, which is not there")
        elif digest not in self._sound and sha256(content).hexdigest() != digest:
            self._add("missing_blob", f"event {event.seq} names blob {digest[:12]}…, whose bytes are others")
            return None
        else:
            self._sound.add(digest)
        return content

    def _check_ends(self, last_seq: int, view_start: int, highest: int) -> None:
        if self._first > max(view_start, 1):
            self._add("start", f"the log begins with event {self._first}; event {view_start} is still needed")
        if last_seq > self._last:
            self._add("last_seq", f"the row says event {last_seq}, the log ends with {self._last}")
        if highest > self._last:
            self._add("checkpoint", f"a checkpoint says event {highest}, the log ends with {self._last}")

    def _add(self, flaw: Flaw, message: str) -> None:
        if len(self._flaws) < _MOST_OF_A_SESSION:
            self._flaws.append((flaw, message))
        else:
            self.more += 1


async def audit_flaws(store: Storage, session_id: str) -> _Flaws:
    """Where the audit chain does not hold, where the store can tell."""
    if not isinstance(store, SupportsAuditCheck):
        return []
    try:
        # Twice: in between, the first rows may have been pruned.
        faults = await store.verify_audit(session_id) and await store.verify_audit(session_id)
    except Damaged as error:
        return [("audit", error.message)]
    return [("audit", f"audit row {fault.position} {_AUDIT[fault.reason]}") for fault in faults]
