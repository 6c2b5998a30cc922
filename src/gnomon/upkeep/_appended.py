"""What only grows, brought into a store: the log of a session, and its audit chain.

What is there already is compared, one by one, with what comes; from its end on
the rest is appended. So a move that was killed goes on where it was, and nothing
that differs is written over.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from gnomon.contracts.storage import Storage, SupportsImport, read_events
from gnomon.errors import Conflict, Damaged, StorageError
from gnomon.types.records import AuditLog, LedgerEvent
from gnomon.upkeep._tally import Tally
from gnomon.upkeep._walk import EVENTS_A_PAGE, chain

__all__ = ["ChainLanding", "LogLanding", "held_back"]

GROUP_EVENTS = 200
GROUP_BYTES = 1_000_000


def held_back(session_id: str, what: str) -> Conflict:
    """The refusal to write over something else."""
    whose = f"session {session_id!r}" if session_id else "what belongs to no session"
    hint = "nothing was written over; delete it there (gnomon db delete), or choose another store"
    return Conflict(f"{whose}: the target {what}", hint=hint)


class LogLanding:
    def __init__(self, store: Storage, session_id: str, tally: Tally) -> None:
        self._store = store
        self._session_id = session_id
        self._tally = tally
        self._there: AsyncGenerator[LedgerEvent, None] | None = aiter(
            read_events(store, session_id, page_size=EVENTS_A_PAGE)
        )
        self._is_empty = True
        self._group: list[LedgerEvent] = []
        self._group_bytes = 0

    async def take(self, event: LedgerEvent) -> None:
        if self._there is not None:
            found = await anext(self._there, None)
            if found == event:
                self._is_empty = False
                return
            if found is not None:
                raise held_back(self._session_id, f"has another event {found.seq}")
            self._there = None
        self._group.append(event)
        self._group_bytes += len(event.payload)
        if len(self._group) >= GROUP_EVENTS or self._group_bytes >= GROUP_BYTES:
            await self._append()

    async def finish(self) -> None:
        """The rest is appended; and there must be nothing beyond it. Twice is fine."""
        await self._append()
        if self._there is not None and (more := await anext(self._there, None)) is not None:
            raise held_back(self._session_id, f"has an event {more.seq} that the source has not")
        self._there = None

    async def aclose(self) -> None:
        if self._there is not None:
            await self._there.aclose()

    async def _append(self) -> None:
        group, self._group, self._group_bytes = self._group, [], 0
        if not group:
            return
        if self._is_empty and group[0].seq > 1:
            await self._begin(group)
        else:
            await self._store.append_events(group)
        self._is_empty = False
        self._tally.events += len(group)
        self._tally.bytes += sum(len(event.payload) for event in group)

    async def _begin(self, group: list[LedgerEvent]) -> None:
        if not isinstance(self._store, SupportsImport):
            message = (
                f"session {self._session_id!r} begins with event {group[0].seq}: what was before was pruned"
            )
            raise StorageError(message, hint="the target's store cannot take such a log over")
        await self._store.begin_log(group)


class ChainLanding:
    def __init__(self, store: Storage, session_id: str, tally: Tally) -> None:
        self._store = store
        self._session_id = session_id
        self._tally = tally
        self._there: AsyncGenerator[AuditLog, None] | None = chain(store, session_id)

    async def take(self, row: AuditLog) -> None:
        if self._there is not None:
            found = await anext(self._there, None)
            if found == row:
                return
            if found is not None:
                raise held_back(self._session_id, f"has another audit row {found.seq}")
            self._there = None
        stored = await self._store.append_audit_log(row)
        if stored != row:  # the hash that belongs to it is another one
            message = f"audit row {row.seq} of session {self._session_id!r} is not what was once written"
            raise Damaged(message, hint="gnomon db verify tells more of the source")
        self._tally.audit += 1

    async def finish(self) -> None:
        if self._there is not None and (more := await anext(self._there, None)) is not None:
            raise held_back(self._session_id, f"has an audit row {more.seq} that the source has not")
        self._there = None

    async def aclose(self) -> None:
        if self._there is not None:
            await self._there.aclose()
