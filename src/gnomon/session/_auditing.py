"""The audit chain of a session, written from its ledger.

The ledger is what is true; the chain says the part of it that is audited, in an order that
shows tampering. It may lag behind, after a crash or when the store could not be
written to, and is then caught up with: each row names the event it tells of.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from datetime import datetime
from typing import NamedTuple

from gnomon.contracts.storage import (
    AUDIT_ANCHOR,
    Storage,
    SupportsAuditAfter,
    SupportsBlobs,
    read_events,
)
from gnomon.engine.ids import new_id
from gnomon.engine.ledger import Read, read_entry
from gnomon.errors import Conflict, scrub
from gnomon.session._audit_rows import READ_TYPES, Deriving, is_told, row_id
from gnomon.types.messages import Meta
from gnomon.types.records import AuditLog, LedgerEvent, utc_now

__all__ = ["audited", "forked_from", "refused"]

log = logging.getLogger("gnomon.session")

_TRIES = 100
_LONGEST_TOLD = 500


async def audited(storage: Storage, session_id: str, reads: Iterable[Read] | None = None) -> bool:
    """Bring the chain up to the ledger's end: each row once, in the ledger's order, whoever else does so too.

    `reads` is what has just happened, where that is at hand: when nothing in it makes a row, nothing is
    looked up. Without it the chain is caught up with in any case; after a crash, say. Nothing is raised:
    what goes wrong is logged, and `False` says that there is something left for the next time.
    """
    if reads is not None and not any(is_told(read.entry) for read in reads):
        return True
    try:
        for _ in range(_TRIES):
            if await _catch_up(storage, session_id):
                return True
        log.warning("the audit chain of session %s is written by too many at once", session_id)
    except Exception as error:  # noqa: BLE001 - whatever it is, the turn goes on
        log.warning("the audit chain of session %s could not be written: %s", session_id, scrub(str(error)))
    return False


async def refused(
    storage: Storage, session_id: str, approval_id: str, by: str, why: str, *, tool: str = ""
) -> bool:
    """Tell of an answer that did not count: the ledger does not know of it. `False`: it could not be told."""
    detail: Meta = {"approval_id": approval_id, "why": scrub(why)[:_LONGEST_TOLD]}
    row = _told_now(session_id, by, "approval.refused", tool, detail, new_id("audit"))
    return await _told(storage, row)


async def forked_from(storage: Storage, session_id: str, source: str, seq: int, *, by: str = "") -> bool:
    """Begin the chain of a copy: what it was copied with, up to `seq`, was told of where it happened."""
    detail: Meta = {"seq": seq, "since": seq + 1}
    row = _told_now(session_id, by, "session.forked", source, detail, row_id(session_id, seq))
    return await _told(storage, row)


def _told_now(session_id: str, by: str, action: str, resource: str, detail: Meta, id: str) -> AuditLog:
    return AuditLog(
        id=id,
        session_id=session_id,
        actor=by or "gnomon",
        action=action,
        resource=resource,
        detail=detail,
        created_at=utc_now(),
    )


async def _told(storage: Storage, row: AuditLog) -> bool:
    try:
        await storage.append_audit_log(row)
    except Exception as error:  # noqa: BLE001 - whatever it is, nobody is to fail for it
        log.warning(
            "%s of session %s could not be audited: %s", row.action, row.session_id, scrub(str(error))
        )
        return False
    return True


class _End(NamedTuple):
    """Where a chain ends: its last row, the last event it tells of, and where that event's turn begins."""

    row: int = 0
    event: int = 0
    since: int = 1
    pruned: datetime | None = None


async def _catch_up(storage: Storage, session_id: str) -> bool:
    """`False`: somebody else has written to the chain meanwhile."""
    end = await _end(storage, session_id)
    append = _appending(storage, end.row)
    deriving = Deriving(session_id)
    async with aclosing(_reads(storage, session_id, end.since - 1)) as reads:
        async for read in reads:
            for row in deriving.rows(read):
                if read.seq <= end.event or (end.pruned is not None and read.at <= end.pruned):
                    continue
                try:
                    await append(row)
                except Conflict:
                    return False
    return True


def _appending(storage: Storage, last: int) -> Callable[[AuditLog], Awaitable[None]]:
    """What appends one row after another; `Conflict` when somebody else has done so."""

    async def append_after(row: AuditLog) -> None:
        nonlocal last
        last = (await chain.append_audit_log_after(row, last)).seq

    async def append(row: AuditLog) -> None:
        # Such a store may be given a row twice when two tell it at once. Both have the same id.
        await storage.append_audit_log(row)

    if not isinstance(storage, SupportsAuditAfter):
        return append
    chain: SupportsAuditAfter = storage
    return append_after


async def _end(storage: Storage, session_id: str) -> _End:
    """Found from the chain's end: other rows may stand after the last one of ours."""
    last, cursor = 0, None
    while True:
        page = await storage.list_audit_logs(session_id, cursor=cursor)
        for row in page.items:
            last = last or row.seq
            seq, since = row.detail.get("seq"), row.detail.get("since")
            if isinstance(seq, int) and isinstance(since, int) and row.id == row_id(session_id, seq):
                return _End(last, seq, since)
            if row.action == AUDIT_ANCHOR:
                # An anchor has the time of the last row it stands for, and a row that of its event.
                return _End(last, pruned=row.created_at)
        cursor = page.next
        if cursor is None:
            return _End(last)


async def _reads(storage: Storage, session_id: str, after: int) -> AsyncGenerator[Read, None]:
    async with read_events(storage, session_id, after_seq=after) as events:
        async for event in events:
            if event.type in READ_TYPES:
                yield await _read(storage, event)


async def _read(storage: Storage, event: LedgerEvent) -> Read:
    blobs = storage if isinstance(storage, SupportsBlobs) else None
    return Read(event.seq, await read_entry(event, blobs), event.created_at)
