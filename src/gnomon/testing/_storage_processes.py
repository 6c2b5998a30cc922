"""Several processes, one store: nothing is lost, doubled or reordered (D6, D7), and what was
acknowledged outlives whoever wrote it (D1)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import groupby

from gnomon.contracts.storage import Storage, SupportsAuditCheck
from gnomon.errors import StorageError
from gnomon.testing._storage_asking import expect_same, ledger, refused, rows_of, together
from gnomon.testing._storage_audit import expect_chain
from gnomon.testing._storage_children import Child, at_work
from gnomon.testing._storage_records import event, session
from gnomon.testing._storage_suite import SOAK, StorageSuite, opened
from gnomon.testing._storage_world import fill, seen_by
from gnomon.testing._storage_writer import Job, Task, Told, tail_of, work
from gnomon.testing._suite import expect, skip
from gnomon.types.records import LedgerEvent

__all__ = ["StorageProcesses"]

_KILLS = 20 if SOAK else 3
_MIGRATIONS = 10


class StorageProcesses(StorageSuite):
    """The part of the suite that starts processes."""

    # --- migrating

    async def test_migrating_again_changes_nothing(self) -> None:
        """D6: once more, ten times at the same time, and with rows that are there."""
        async with self.open() as storage:
            await storage.migrate()
            await fill(storage, "s", "before")
            before = await seen_by(storage, "s")
            await storage.migrate()
            await together(*(storage.migrate() for _ in range(_MIGRATIONS)))
            expect_same("what was there", before, await seen_by(storage, "s"))
            await storage.append_event(event(3))

    async def test_ten_processes_migrate_a_fresh_store_at_once(self) -> None:
        """D6: none fails, and the store works."""
        url = self.fresh_url() or skip(self, "the URL of a store that nobody has migrated")
        await at_work(*(Job(url, self.opener, "migrate") for _ in range(_MIGRATIONS)))
        async with opened(self.opener, url) as storage:
            await storage.migrate()
            await fill(storage, "s", "after")
            expect_same("the log", 2, len(await ledger(storage)))

    async def test_a_store_that_was_not_migrated_says_so(self) -> None:
        """D6: a call either works or is a StorageError; it is no surprise."""
        url = self.fresh_url() or skip(self, "the URL of a store that nobody has migrated")
        async with opened(self.opener, url) as storage:
            try:
                await storage.create_session(session("s"))
            except StorageError:
                await storage.migrate()
                await storage.create_session(session("s"))
            expect_same("the session", session("s"), await storage.get_session("s"))

    async def test_a_newer_schema_is_refused(self) -> None:
        """D6: what a later version has made is neither migrated nor written to."""
        async with self.open() as storage:
            url = self.shared_url(storage)
            await fill(storage, "s", "kept")
            if not await self.make_newer(storage):
                skip(self, "a way to make its schema newer")
            async with opened(self.opener, url) as older:
                await refused("migrate of a newer schema", older.migrate(), StorageError)
                await refused("a write to a newer schema", older.append_event(event(3)), StorageError)

    async def test_every_released_schema_is_upgraded(self) -> None:
        """D6: its rows can be read, and it can be written to; twice is as good as once."""
        for url in self.old_urls() or skip(self, "stores as older versions have left them"):
            async with opened(self.opener, url) as storage:
                await storage.migrate()
                await storage.migrate()
                rows = await rows_of(storage.list_sessions)
                expect("there are sessions in an old store", True, bool(rows))
                tail = await tail_of(storage, rows[0].id)
                await storage.append_event(event(tail + 1, rows[0].id))
                expect("the tail", tail + 1, await tail_of(storage, rows[0].id))

    # --- writing

    async def test_eight_writers_of_one_process_lose_nothing(self) -> None:
        """D7: on one hot session, each at the tail that it has read."""
        async with self.open() as storage:
            job = Job("", "", "append", writers=8, appends=self.appends)
            told: list[Told] = []
            await work(storage, job, told.append)
            await _expect_ledger(storage, told, job, processes=1)

    async def test_eight_writers_of_two_processes_lose_nothing(self) -> None:
        """D7: on one hot session; and no error of the database reaches anybody."""
        async with self.open() as storage:
            told = await self._by_two_processes(storage, "append")
            await _expect_ledger(storage, told, self._job(storage, "append"), processes=2)

    async def test_groups_of_two_processes_on_several_sessions_stay_whole(self) -> None:
        """D7: three sessions, groups of three, eight writers that go from one to the next."""
        async with self.open() as storage:
            sessions = ("s", "t", "u")
            told = await self._by_two_processes(storage, "append", sessions=sessions, group=3)
            job = self._job(storage, "append", sessions=sessions, group=3)
            await _expect_ledger(storage, told, job, processes=2)

    async def test_two_processes_cannot_fork_an_audit_chain(self) -> None:
        """D7, D10: every row that was told is there, at its number."""
        async with self.open() as storage:
            told = await self._by_two_processes(storage, "audit")
            rows = (await rows_of(storage.list_audit_logs, "s"))[::-1]
            expect_chain(rows)
            expect("the rows", _places(told), [(row.seq, row.id) for row in rows])
            expect("how many", 8 * self.appends, len(rows))
            if isinstance(storage, SupportsAuditCheck):
                expect("faults", (), await storage.verify_audit("s"))

    async def test_two_processes_that_count_lose_no_update(self) -> None:
        """D4, D7: every update is on top of another; and of eight that create one id, one does."""
        async with self.open() as storage:
            created = await self._by_two_processes(storage, "create")
            expect("sessions that were created", self.appends, len(created))
            for each in created:
                found = await storage.get_session(each.session_id)
                expect(f"who created {each.session_id}", each.id, found and found.title)
            await storage.create_session(session("s"))
            counted = await self._by_two_processes(storage, "count")
            found = await storage.get_session("s")
            total = 8 * self.appends
            expect("last_seq and revision", (total, total), found and (found.last_seq, found.revision))
            expect("what each was told", list(range(1, total + 1)), sorted(told.seq for told in counted))

    async def test_what_was_acknowledged_outlives_a_killed_writer(self) -> None:
        """D1: and no group is half there; whoever comes next can write at once."""
        async with self.open() as storage:
            for turn in range(_KILLS):
                sessions = (f"a{turn}", f"b{turn}")
                job = self._job(storage, "append", sessions=sessions, group=3, appends=10_000)
                async with Child(job) as child:
                    await child.ready()
                    await child.begin()
                    await child.finish(told=3 + turn * 20)
                    await child.kill()
                    for name in sessions:
                        await _expect_survived(storage, name, child.told, job)
                        tail = await tail_of(storage, name)
                        async with asyncio.timeout(10):
                            await storage.append_event(event(tail + 1, name))

    # --- what they share

    def _job(
        self,
        storage: Storage,
        task: Task,
        sessions: tuple[str, ...] = ("s",),
        group: int = 1,
        appends: int | None = None,
        name: str = "w",
    ) -> Job:
        count = self.appends if appends is None else appends
        return Job(self.shared_url(storage), self.opener, task, name, sessions, 4, count, group)

    async def _by_two_processes(
        self, storage: Storage, task: Task, sessions: tuple[str, ...] = ("s",), group: int = 1
    ) -> list[Told]:
        """What two processes of four writers each say is stored."""
        jobs = [self._job(storage, task, sessions, group, name=name) for name in ("one", "two")]
        return await at_work(*jobs)


# --- judging from the ledger ----------------------------------------------------------------


async def _expect_ledger(storage: Storage, told: Sequence[Told], job: Job, processes: int) -> None:
    """The logs hold what was told, where it was told, and nothing else."""
    writers = job.writers * processes
    expect("appends that were acknowledged", writers * job.appends * job.group, len(told))
    for name in job.sessions:
        log = await ledger(storage, name)
        expect(f"the seqs of {name}", list(range(1, len(log) + 1)), [each.seq for each in log])
        ours = [each for each in told if each.session_id == name]
        expect(f"the events of {name}", _places(ours), [(each.seq, each.id) for each in log])
        _expect_order(name, log, job.group)


async def _expect_survived(storage: Storage, name: str, told: Iterable[Told], job: Job) -> None:
    """All that was told, in whole groups; of what was not told, at most one group a writer."""
    log = await ledger(storage, name)
    expect(f"the seqs of {name}", list(range(1, len(log) + 1)), [each.seq for each in log])
    stored = {each.id: each.seq for each in log}
    lost = [each for each in told if each.session_id == name and stored.get(each.id) != each.seq]
    expect(f"acknowledged events of {name} that are not there", [], lost)
    expect(f"events of {name} that came twice", len(log), len(stored))
    _expect_order(name, log, job.group)
    untold = len(stored.keys() - {each.id for each in told})
    expect(
        f"at most one group a writer of {name} was not told: {untold}",
        True,
        untold <= job.writers * job.group,
    )


def _expect_order(name: str, log: Sequence[LedgerEvent], size: int) -> None:
    """Groups are whole and together, and each writer's are in the order in which it wrote them."""
    groups = [(key, [each.id for each in found]) for key, found in groupby(log, lambda each: _group(each.id))]
    for key, found in groups:
        expect(f"a group of {name}", [f"{key[0]}.{key[1]}.{at}" for at in range(size)], found)
    for writer in {key[0] for key, _ in groups}:
        numbers = [key[1] for key, _ in groups if key[0] == writer]
        expect(f"the order of writer {writer} in {name}", sorted(set(numbers)), numbers)


def _group(event_id: str) -> tuple[str, int]:
    """The writer, and which of its groups it was."""
    writer, number, _ = event_id.rsplit(".", 2)
    return writer, int(number)


def _places(told: Iterable[Told]) -> list[tuple[int, str]]:
    return sorted((each.seq, each.id) for each in told)
