"""Who did what, in a chain that shows tampering.

Each row's hash covers the row, its number and the hash before it. A row is
inserted at the number after the last one, which only one writer can do. The
chain's head is kept apart, so that a removed last row shows too. It may lag
behind after a crash, and then says only how long the chain must be at least.
Where pruning has left an anchor is kept apart too: a row that only looks like
one hides nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import datetime
from hashlib import sha256

import msgspec

from gnomon.contracts.storage import AUDIT_ANCHOR, PAGE_SIZE, AuditFault
from gnomon.errors import Conflict, InvalidInput
from gnomon.storage._keys import joined, number_key
from gnomon.storage._part import LONGEST_PAGE, Part, moved
from gnomon.storage._rows import Place, Row, Span
from gnomon.storage._together import total
from gnomon.storage._values import checked_name, checked_number, checked_time, encoded
from gnomon.types.messages import Meta
from gnomon.types.records import AuditLog, Page

__all__ = ["AuditChain", "audit_row", "is_anchor", "row_hash"]

_TRIES = 1_000

_canonical = msgspec.json.Encoder(order="deterministic")


class AuditChain(Part):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        """Numbers and hashes are made here; what the caller gave for them counts only for an anchor."""
        _check(log)
        await self._enrol()
        for _ in range(_TRIES):
            row = await self._chain_on(log, await self._last(log.session_id))
            if row is not None:
                return row
        raise Conflict(f"the audit chain of session {log.session_id!r} is written by too many at once")

    async def append_audit_log_after(self, log: AuditLog, seq: int) -> AuditLog:
        """The same, for whoever has read the chain to that row; `Conflict` when it ends elsewhere."""
        _check(log)
        checked_number("the seq of an audit row", seq)
        await self._enrol()
        last = await self._last(log.session_id)
        row = await self._chain_on(log, last) if (last.seq if last is not None else 0) == seq else None
        if row is None:
            raise Conflict(f"the audit chain of session {log.session_id!r} does not end with row {seq}")
        return row

    async def _chain_on(self, log: AuditLog, last: AuditLog | None) -> AuditLog | None:
        """The row as stored; `None` when somebody else was first."""
        row = _linked(log, last)
        if is_anchor(row):  # with which a chain begins that was pruned, and then copied
            await self._set_anchor(row)
        if not await self._rows.write(self._tenant, audit_row(row), 0):
            return None
        await self._move_head(row)
        return row

    async def list_audit_logs(
        self, session_id: str, limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[AuditLog]:
        span = msgspec.structs.replace(_chain(session_id), descending=True)
        return await self._page("list_audit_logs", span, AuditLog, limit, offset, cursor)

    async def verify_audit(self, session_id: str) -> tuple[AuditFault, ...]:
        faults: list[AuditFault] = []
        before: AuditLog | None = None
        # The head first: it follows its row, so what is appended meanwhile is never missing.
        head = await self._rows.get(self._tenant, "heads", _head_id(session_id))
        anchored = await self._rows.get(self._tenant, "heads", _anchor_id(session_id))
        async for row in self._chained(session_id):
            if anchored is not None and anchored.revision == row.seq and is_anchor(row):
                faults.clear()  # what an interrupted pruning has left before it does not count
            else:
                faults += _faults(before, row)
            before = row
        length = before.seq if before is not None else 0
        if head is not None and head.revision > length:
            faults.append(AuditFault(length + 1, "", "removed"))
        return tuple(faults)

    async def _chained(self, session_id: str) -> AsyncGenerator[AuditLog, None]:
        """The rows of a chain, oldest first."""
        span = msgspec.structs.replace(_chain(session_id), limit=LONGEST_PAGE)
        while True:
            found = await self._rows.find(self._tenant, span)
            for row in found:
                yield self._read(AuditLog, row)
            if len(found) < span.limit:
                return
            span = moved(span, found[-1].sort)

    async def _last(self, session_id: str) -> AuditLog | None:
        span = msgspec.structs.replace(_chain(session_id), descending=True, limit=1)
        found = await self._rows.find(self._tenant, span)
        return self._read(AuditLog, found[0]) if found else None

    async def _prune_audit(self, session_id: str, older_than: datetime) -> int:
        """The oldest rows of the chain; the last of them becomes the anchor that the rest hangs on."""
        first, last, count = 0, None, 0
        async for row in self._chained(session_id):
            if row.created_at >= older_than:
                break
            first, last, count = first or row.seq, row, count + (not is_anchor(row))
        if last is None or not count:
            return 0
        await self._set_anchor(last)
        await self._rows.write(self._tenant, audit_row(_anchor(last)), None)
        await total(lambda seq: self._unchain(session_id, seq), range(first, last.seq))
        return count

    async def _unchain(self, session_id: str, seq: int) -> int:
        return await self._rows.delete(self._tenant, "audit", _row_id(session_id, seq))

    async def _forget_chain(self, session_id: str) -> None:
        """What is kept apart, when the rows are gone."""
        for id in (_head_id(session_id), _anchor_id(session_id)):
            await self._rows.delete(self._tenant, "heads", id)

    async def _set_anchor(self, row: AuditLog) -> None:
        """First where the anchor will be, then the anchor: in between, the chain is still whole."""
        await self._move_on(_anchor_id(row.session_id), row, 0)

    async def _move_head(self, row: AuditLog) -> None:
        """The head's revision is the chain's length."""
        await self._move_on(_head_id(row.session_id), row, row.seq - 1)

    async def _move_on(self, id: str, row: AuditLog, expect: int) -> None:
        """What is kept apart only grows, whoever else moves it at the same time."""
        head = Row(kind="heads", id=id, revision=row.seq, body=row.hash.encode())
        while not await self._rows.write(self._tenant, head, expect):
            found = await self._rows.get(self._tenant, "heads", head.id)
            if found is not None and found.revision >= row.seq:
                return
            expect = found.revision if found is not None else 0


def is_anchor(row: AuditLog) -> bool:
    return row.action == AUDIT_ANCHOR


def row_hash(row: AuditLog) -> str:
    """What the row's hash must be."""
    times = row.created_at.isoformat(timespec="microseconds")
    fields = (row.session_id, row.seq, row.prev_hash, row.id, row.actor, row.action, row.resource, times)
    return sha256(_canonical.encode((*fields, row.detail))).hexdigest()


def _linked(log: AuditLog, last: AuditLog | None) -> AuditLog:
    """The row as the next of its chain. Only an anchor may begin one with a hash of its own."""
    created = checked_time("created_at", log.created_at)
    if is_anchor(log) and (last is not None or not log.hash or log.seq < 1):
        raise InvalidInput(f"only a chain that was pruned begins with {AUDIT_ANCHOR!r}")
    if is_anchor(log):
        checked_number("the seq of an audit row", log.seq, least=1)
        return msgspec.structs.replace(log, created_at=created, prev_hash="")
    seq, prev_hash = (last.seq + 1, last.hash) if last is not None else (1, "")
    row = msgspec.structs.replace(log, created_at=created, seq=seq, prev_hash=prev_hash, hash="")
    return msgspec.structs.replace(row, hash=row_hash(row))


def _faults(before: AuditLog | None, row: AuditLog) -> list[AuditFault]:
    due, prev_hash = (before.seq + 1, before.hash) if before is not None else (1, "")
    faults: list[AuditFault] = []
    if row.seq != due:
        faults.append(AuditFault(due, row.id, "removed"))
    elif row.prev_hash != prev_hash:
        faults.append(AuditFault(row.seq, row.id, "forked"))
    if row.hash != row_hash(row):
        faults.append(AuditFault(row.seq, row.id, "edited"))
    return faults


def _check(log: AuditLog) -> None:
    checked_name("the audit row's id", log.id)
    checked_name("the session's id", log.session_id, empty=True)
    encoded("audit row", log, "detail")  # before it is hashed: what cannot be kept must not be in the chain


def _chain(session_id: str) -> Span:
    part = checked_name("the session's id", session_id, empty=True)
    return Span(kind="audit", index="session", part=part)


def _anchor(last: AuditLog) -> AuditLog:
    kept: Meta = last.detail if is_anchor(last) else {"pruned_through": last.seq}
    fields = {"actor": "gnomon", "action": AUDIT_ANCHOR, "resource": "", "prev_hash": "", "detail": kept}
    return msgspec.structs.replace(last, **fields, id=f"pruned-{last.seq}")


def _head_id(session_id: str) -> str:
    return joined("audit", session_id)


def _anchor_id(session_id: str) -> str:
    return joined("anchor", session_id)


def _row_id(session_id: str, seq: int) -> str:
    return joined(session_id, number_key(seq))


def audit_row(log: AuditLog) -> Row:
    at = number_key(log.seq)
    return Row(
        kind="audit",
        id=_row_id(log.session_id, log.seq),
        body=encoded("audit row", log, "detail"),
        places={"session": Place(log.session_id, at)},
    )
