"""The audit rows of a session: one chain that nobody can fork, and that shows what was done to it (D10)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from gnomon.contracts.storage import (
    AuditFault,
    Storage,
    SupportsAuditAfter,
    SupportsAuditCheck,
    SupportsRetention,
)
from gnomon.errors import Conflict, InvalidInput
from gnomon.testing._storage_asking import expect_same, outcome, rows_of, together
from gnomon.testing._storage_records import at, audit, session
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._suite import expect, expect_some, skip
from gnomon.types.records import AuditLog

__all__ = ["StorageAudit", "append_to_chain", "expect_chain"]

_TRIES = 200


class StorageAudit(StorageSuite):
    """The part of the suite that reads and breaks the chain."""

    async def test_the_store_fills_in_number_and_hashes(self) -> None:
        """D10: whatever the caller has put there; the rest is as it was given, and so it is listed."""
        async with self.open() as storage:
            rows: list[AuditLog] = []
            for number in range(1, 6):
                given = audit(f"l{number}", action=f"act {number}", resource="file", detail={"n": number})
                given = replace(given, seq=99, prev_hash="forged", hash="forged")
                rows.append(await storage.append_audit_log(given))
                kept = replace(given, seq=number, prev_hash=rows[-1].prev_hash, hash=rows[-1].hash)
                expect_same(f"row {number}", kept, rows[-1])
            expect_chain(rows)
            expect_same("the list", rows[::-1], await rows_of(storage.list_audit_logs, "s"))

    async def test_each_session_has_a_chain_of_its_own(self) -> None:
        """D10: from 1 on, beginning with nothing before it."""
        async with self.open() as storage:
            for number in range(1, 4):
                for name in ("one", "two", "two:", "on"):
                    await storage.append_audit_log(audit(f"l{number}", name))
            for name in ("one", "two", "two:", "on"):
                expect_chain((await rows_of(storage.list_audit_logs, name))[::-1])

    async def test_the_hash_covers_the_row(self) -> None:
        """D10: rows that differ in anything have hashes that differ."""
        changes: tuple[dict[str, object], ...] = (
            {"actor": "bob"},
            {"action": "write"},
            {"resource": "x"},
            {"detail": {"n": 1}},
            {"detail": {"n": 1.5}},
            {"created_at": at(1)},
            {"created_at": at(0.000001)},
            {"actor": "annr", "action": "ead"},
        )
        async with self.open() as storage:
            hashes = [(await storage.append_audit_log(audit("l"))).hash]
            for number, change in enumerate(changes):  # in tenants of their own, each is the first row
                view = storage.scoped(f"{number}")
                hashes.append((await view.append_audit_log(audit("l", **change))).hash)
        expect_some("the hash", hashes[0])
        expect("different hashes for different rows", len(hashes), len(set(hashes)))

    async def test_a_row_is_not_changed_once_it_is_there(self) -> None:
        """D10: a row of the same id is another one, or a Conflict."""
        async with self.open() as storage:
            first = await storage.append_audit_log(audit("l", actor="ann"))
            found = await outcome(storage.append_audit_log(audit("l", actor="eve")))
            if isinstance(found, Exception) and not isinstance(found, Conflict):
                raise AssertionError(f"a row of a taken id: expected a row or Conflict, found {found!r}")
            rows = (await rows_of(storage.list_audit_logs, "s"))[::-1]
            expect_same("the first row", first, rows[0])
            expect_chain(rows)

    async def test_writers_at_the_same_time_cannot_fork_the_chain(self) -> None:
        """D10: eight of them; every row is there once, and each names the one before it."""
        async with self.open() as storage:

            async def write(writer: int) -> list[AuditLog]:
                names = [f"{writer}.{number}" for number in range(8)]
                return [await append_to_chain(storage, audit(name, actor=f"{writer}")) for name in names]

            told = [row for rows in await together(*map(write, range(8))) for row in rows]
            rows = (await rows_of(storage.list_audit_logs, "s"))[::-1]
            expect_chain(rows)
            expect_same("the rows, as they were told", sorted(told, key=_seq), rows)
            if isinstance(storage, SupportsAuditCheck):
                expect("faults", (), await storage.verify_audit("s"))

    async def test_a_row_is_appended_only_after_the_one_that_was_read(self) -> None:
        """D10: whoever has not read the chain to its end gets a Conflict, and nothing is appended."""
        async with self.open() as storage:
            store = storage if isinstance(storage, SupportsAuditAfter) else skip(self, "SupportsAuditAfter")
            first = await store.append_audit_log_after(audit("l1"), 0)
            rows = [first, await store.append_audit_log_after(audit("l2"), first.seq)]
            for seq in (0, 1, 3):
                found = await outcome(store.append_audit_log_after(audit("late"), seq))
                expect(f"a row after {seq} of 2: Conflict", True, isinstance(found, Conflict))
            expect_chain(rows)
            expect_same("the chain", rows[::-1], await rows_of(storage.list_audit_logs, "s"))

    async def test_one_of_several_appends_a_row_after_the_same(self) -> None:
        """D10: eight of them, at the same time."""
        async with self.open() as storage:
            store = storage if isinstance(storage, SupportsAuditAfter) else skip(self, "SupportsAuditAfter")
            for seq in range(4):
                writers = [store.append_audit_log_after(audit(f"{seq}.{n}"), seq) for n in range(8)]
                found = await together(*map(outcome, writers))
                stored = [row for row in found if isinstance(row, AuditLog)]
                expect(f"writers of row {seq + 1}", 1, len(stored))
                expect("the others: Conflict", 7, sum(isinstance(row, Conflict) for row in found))
            expect_chain((await rows_of(storage.list_audit_logs, "s"))[::-1])

    # --- what was done to it

    async def test_a_chain_that_holds_has_no_faults(self) -> None:
        """D10: an empty one too, and one of rows with anything in them."""
        async with self.open() as storage:
            store = _checkable(self, storage)
            expect("faults of no chain", (), await store.verify_audit("nobody"))
            for number in range(1, 121):
                detail: dict[str, object] = {"floats": [0.1, -0.0, 1e300], "text": "ж\x00", "n": number}
                await storage.append_audit_log(audit(f"{number}", detail=detail, created_at=at(-number)))
                if number in (1, 2, 120):
                    expect(f"faults of {number} rows", (), await store.verify_audit("s"))

    async def test_an_edited_row_is_found(self) -> None:
        """D10: the first, one in the middle and the last; whichever field was changed."""
        changes: tuple[dict[str, object], ...] = (
            {"actor": "eve"},
            {"action": "nothing"},
            {"resource": "other"},
            {"detail": {"n": 7}},
            {"created_at": at(7)},
            {"id": "other"},
            {"hash": "0" * 64},
        )
        async with self.open() as storage:
            for number, change in enumerate(changes):
                for seq in (1, 3, 5):
                    name = f"{number} {seq}"
                    rows = await _chain(storage, name, 5)
                    await self._tampered(storage, rows[seq - 1], replace(rows[seq - 1], **change))
                    faults = await _checkable(self, storage).verify_audit(name)
                    expect(
                        f"{change} in row {seq} of 5: found at {seq}, in {faults}", True, _names(faults, seq)
                    )

    async def test_a_removed_row_is_found(self) -> None:
        """D10: at the beginning, in the middle, at the end, several, and all of them."""
        async with self.open() as storage:
            for gone in ((1,), (3,), (5,), (2, 3), (1, 2, 3), (4, 5), (1, 2, 3, 4, 5)):
                name = f"without {gone}"
                rows = await _chain(storage, name, 5)
                for seq in gone:
                    await self._tampered(storage, rows[seq - 1], None)
                faults = await _checkable(self, storage).verify_audit(name)
                reasons = {fault.reason for fault in faults}
                expect(f"rows {gone} of 5 removed: found as removed, in {faults}", True, "removed" in reasons)

    async def test_every_fault_is_found(self) -> None:
        """D10: not the first alone."""
        async with self.open() as storage:
            rows = await _chain(storage, "s", 9)
            for seq in (2, 8):
                await self._tampered(storage, rows[seq - 1], replace(rows[seq - 1], actor="eve"))
            await self._tampered(storage, rows[4], None)
            faults = await _checkable(self, storage).verify_audit("s")
            for seq in (2, 5, 8):
                expect(f"the fault at {seq} is found, in {faults}", True, _names(faults, seq))

    async def test_a_row_that_looks_like_an_anchor_hides_nothing(self) -> None:
        """D10: what pruning leaves can be read, and so it can be imitated: by an append, or by an edit."""
        async with self.open() as storage:
            for number, anchor in enumerate(await _anchors(self, storage)):
                for forged in ("edited", None):
                    name = f"{number} {forged}"
                    rows = await _chain(storage, name, 5)
                    await self._tampered(storage, rows[1], forged and replace(rows[1], actor=forged))
                    with suppress(InvalidInput, Conflict):  # it may be refused
                        await storage.append_audit_log(replace(anchor, session_id=name))
                    faults = await _checkable(self, storage).verify_audit(name)
                    expect_some(f"faults of a chain with a row {forged or 'removed'}", faults)
                rows = await _chain(storage, f"{number}", 5)
                looks = replace(rows[2], actor=anchor.actor, action=anchor.action, detail=anchor.detail)
                await self._tampered(storage, rows[1], replace(rows[1], actor="eve"))
                await self._tampered(storage, rows[2], looks)
                expect_some("faults", await _checkable(self, storage).verify_audit(f"{number}"))

    # --- pruning

    async def test_pruning_leaves_an_anchor_from_which_the_rest_verifies(self) -> None:
        """D10: again and again; the rows that stay are what they were, and the chain goes on."""
        async with self.open() as storage:
            store = _checkable(self, storage)
            if not isinstance(storage, SupportsRetention):
                skip(self, "SupportsRetention")
            await storage.create_session(session("s"))
            rows = [await storage.append_audit_log(audit(f"l{n}", created_at=at(n))) for n in range(1, 11)]
            for older_than, gone in (
                (at(0), 0),
                (at(4), 3),
                (at(4), 0),
                (at(7), 3),
                (at(11), 4),
                (at(11), 0),
            ):
                expect(f"rows pruned before {older_than}", gone, await storage.prune("audit", older_than))
                expect("faults after pruning", (), await store.verify_audit("s"))
                stay = [row for row in rows if row.created_at >= older_than]
                found = [row for row in await rows_of(storage.list_audit_logs, "s") if row in rows]
                expect_same("the rows that stay", stay[::-1], found)
            later = await storage.append_audit_log(audit("later", created_at=at(12)))
            expect("the number after ten pruned rows is above them", True, later.seq > 10)
            expect("faults after one more", (), await store.verify_audit("s"))
            if await self.tamper(storage, later, replace(later, actor="eve")):
                expect_some("faults after it was edited", await store.verify_audit("s"))

    async def test_what_is_removed_after_pruning_is_found(self) -> None:
        """D10: an anchor stands for what was pruned, and for nothing else."""
        async with self.open() as storage:
            store = _checkable(self, storage)
            if not isinstance(storage, SupportsRetention):
                skip(self, "SupportsRetention")
            for gone in (5, 7, 9):
                name = f"without {gone}"
                await storage.create_session(session(name))
                rows = await _chain(storage, name, 9)
                await storage.prune("audit", at(5))
                expect("faults after pruning", (), await store.verify_audit(name))
                await self._tampered(storage, rows[gone - 1], None)
                expect_some(f"faults without row {gone}", await store.verify_audit(name))

    async def _tampered(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> None:
        if not await self.tamper(storage, stored, forged):
            skip(self, "a way to change audit rows behind its back")


# --- chains -------------------------------------------------------------------------------


async def append_to_chain(storage: Storage, log: AuditLog) -> AuditLog:
    """The row as stored; a writer that was in another's way tries again."""
    for _ in range(_TRIES):
        try:
            return await storage.append_audit_log(log)
        except Conflict:
            await asyncio.sleep(0.001)
    raise AssertionError(f"append_audit_log raised Conflict {_TRIES} times for one row")


def expect_chain(rows: Sequence[AuditLog]) -> None:
    """Numbers from 1 without a gap, hashes that differ, and each row names the one before it."""
    expect("the numbers of the chain", list(range(1, len(rows) + 1)), [row.seq for row in rows])
    expect("what each row names", ["", *(row.hash for row in rows[:-1])], [row.prev_hash for row in rows])
    expect("different hashes", len(rows), len({row.hash for row in rows} - {""}))


async def _chain(storage: Storage, session_id: str, length: int) -> list[AuditLog]:
    names = range(1, length + 1)
    return [await storage.append_audit_log(audit(f"l{n}", session_id, created_at=at(n))) for n in names]


async def _anchors(suite: StorageAudit, storage: Storage) -> list[AuditLog]:
    """The rows that pruning has put into a chain, as far as they are listed."""
    if not isinstance(storage, SupportsRetention):
        skip(suite, "SupportsRetention")
    await storage.create_session(session("pruned"))
    rows = await _chain(storage, "pruned", 4)
    await storage.prune("audit", at(3))
    return [row for row in await rows_of(storage.list_audit_logs, "pruned") if row not in rows]


def _checkable(suite: StorageAudit, storage: Storage) -> SupportsAuditCheck:
    return storage if isinstance(storage, SupportsAuditCheck) else skip(suite, "SupportsAuditCheck")


def _names(faults: Iterable[AuditFault], position: int) -> bool:
    return position in [fault.position for fault in faults]


def _seq(row: AuditLog) -> int:
    return row.seq
