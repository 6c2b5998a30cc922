"""Stores whose audit chain can be forked, edited or cut."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec.structs import replace
from reference_store import ANCHOR, Plants, Reference, Tables

from gnomon.contracts.storage import AuditFault
from gnomon.types.records import (
    AuditLog,
)


class KeepsAForgedHash(Reference):
    def linked(self, log: AuditLog, last: AuditLog | None) -> AuditLog:
        row = super().linked(log, last)
        return replace(row, hash=log.hash or row.hash)


class OneChainForAll(Reference):
    def linked(self, log: AuditLog, last: AuditLog | None) -> AuditLog:
        row = super().linked(log, self.root.__dict__.get("last"))
        self.root.__dict__["last"] = row
        return row


class HashesLittle(Reference):
    def row_hash(self, row: AuditLog) -> str:
        text = f"{row.seq} {row.prev_hash} {row.actor}{row.action} {row.session_id} {row.id}"
        return hashlib.sha256(text.encode()).hexdigest()


class ReplacesAuditRows(Reference):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        async with self.tables() as tables:
            for at, row in enumerate(tables.audit.get(log.session_id, [])):
                if row.id == log.id:
                    tables.audit[log.session_id][at] = replace(row, actor=log.actor)
                    return row
        return await super().append_audit_log(log)


class ForksTheChain(Reference):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        log = self.kept(log)
        async with self.tables() as tables:
            chain = tables.audit.get(log.session_id, [])
            row = self.linked(log, chain[-1] if chain else None)
        await asyncio.sleep(0)
        async with self.tables() as tables:
            tables.audit.setdefault(log.session_id, []).append(row)
            tables.heads[log.session_id] = row.seq
        return row


class AppendsAnywhere(Reference):
    def expect_end(self, chain: Sequence[AuditLog], seq: int) -> None:
        if len(chain) > seq + 1:
            super().expect_end(chain, seq)


class LooksTooEarly(Reference):
    async def append_audit_log_after(self, log: AuditLog, seq: int) -> AuditLog:
        async with self.tables() as tables:
            self.expect_end(tables.audit.get(log.session_id, []), seq)
        await asyncio.sleep(0)
        return await self.append_audit_log(log)


class SeesFaultsEverywhere(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from super().faults(chain, head)
        if len(chain) > 100:
            yield AuditFault(100, chain[100].id, "edited")


class OverlooksEdits(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from (fault for fault in super().faults(chain, head) if fault.reason != "edited")


class OverlooksTheEnd(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from super().faults(chain, 0)


class FindsTheFirstFault(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        yield from list(super().faults(chain, head))[:1]


class BelievesAnchors(Reference):
    async def append_audit_log(self, log: AuditLog) -> AuditLog:
        if log.action != ANCHOR:
            return await super().append_audit_log(log)
        row = await super().append_audit_log(replace(log, action="x"))
        async with self.tables() as tables:
            row = replace(row, action=ANCHOR)
            tables.audit[log.session_id][-1] = row
        return row

    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        last = max((at for at, row in enumerate(chain) if row.action == ANCHOR), default=0)
        return super().faults(chain[last:], head)


class LeavesNoAnchor(Reference):
    def prune_chain(self, tables: Tables, name: str, older_than: datetime) -> int:
        before = len(tables.audit[name])
        tables.audit[name] = [row for row in tables.audit[name] if row.created_at >= older_than]
        return before - len(tables.audit[name])


class CountsTheAnchor(Reference):
    def prune_chain(self, tables: Tables, name: str, older_than: datetime) -> int:
        old = len([row for row in tables.audit[name] if row.created_at < older_than])
        super().prune_chain(tables, name, older_than)
        return old


class AnchorForgivesAll(Reference):
    def faults(self, chain: Sequence[AuditLog], head: int) -> Iterator[AuditFault]:
        if not (chain and chain[0].action == ANCHOR):
            yield from super().faults(chain, head)


PLANTS: Plants = {
    "test_the_store_fills_in_number_and_hashes": [
        (KeepsAForgedHash, "different hashes: expected"),
    ],
    "test_each_session_has_a_chain_of_its_own": [
        (OneChainForAll, "the numbers of the chain: expected"),
    ],
    "test_the_hash_covers_the_row": [
        (HashesLittle, "different hashes for different rows: expected"),
    ],
    "test_a_row_is_not_changed_once_it_is_there": [
        (ReplacesAuditRows, "the first row.actor: expected"),
    ],
    "test_writers_at_the_same_time_cannot_fork_the_chain": [
        (ForksTheChain, "the numbers of the chain: expected"),
    ],
    "test_a_row_is_appended_only_after_the_one_that_was_read": [
        (AppendsAnywhere, "a row after 1 of 2: Conflict: expected"),
    ],
    "test_one_of_several_appends_a_row_after_the_same": [
        (LooksTooEarly, "writers of row 1: expected 1"),
    ],
    "test_a_chain_that_holds_has_no_faults": [
        (SeesFaultsEverywhere, "faults of 120 rows: expected"),
    ],
    "test_an_edited_row_is_found": [
        (OverlooksEdits, ".'actor': 'eve'. in row 1 of 5: found"),
        (HashesLittle, ".'resource': 'other'. in row 1 of 5: found"),
    ],
    "test_a_removed_row_is_found": [
        (OverlooksTheEnd, "rows .5,. of 5 removed: found"),
    ],
    "test_every_fault_is_found": [
        (FindsTheFirstFault, "the fault at 5 is found"),
    ],
    "test_a_row_that_looks_like_an_anchor_hides_nothing": [
        (BelievesAnchors, "faults of a chain with a row edited: expected"),
    ],
    "test_pruning_leaves_an_anchor_from_which_the_rest_verifies": [
        (LeavesNoAnchor, "faults after pruning: expected"),
        (CountsTheAnchor, "rows pruned before 2024-05-17 12:30:19.123456.00:00: expected"),
    ],
    "test_what_is_removed_after_pruning_is_found": [
        (AnchorForgivesAll, "faults without row 5: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
