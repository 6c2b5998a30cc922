"""Which sessions are to be woken: those that are runnable, and those whose time has come."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from gnomon.contracts.storage import Storage
from gnomon.testing._storage_asking import expect_same, rows_of, walk
from gnomon.testing._storage_records import at, session
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._suite import expect

__all__ = ["StorageRunnable"]


class StorageRunnable(StorageSuite):
    """The part of the suite that is about `list_runnable`."""

    async def test_sessions_that_are_runnable_or_due_are_listed(self) -> None:
        """A time that is now has come; one that comes a microsecond later has not."""
        async with self.open() as storage:
            await storage.create_session(session("at rest"))
            await storage.create_session(session("runnable", runnable=True, updated_at=at(1)))
            await storage.create_session(session("due", wake_at=at(10)))
            await storage.create_session(session("late", wake_at=at(10.000001)))
            await storage.create_session(session("both", runnable=True, wake_at=at(999), updated_at=at(2)))
            for now, expected in (
                (at(9.999999), ["runnable", "both"]),
                (at(10), ["runnable", "both", "due"]),
                (at(10).astimezone(timezone(timedelta(hours=-8))), ["runnable", "both", "due"]),
                (at(11), ["runnable", "both", "due", "late"]),
            ):
                expect(f"at {now}", expected, await _runnable(storage, now))

    async def test_the_longest_waiting_come_first(self) -> None:
        """One that is runnable waits since it was updated, another since its time came."""
        async with self.open() as storage:
            for name, made in (
                ("4", {"wake_at": at(4), "updated_at": at(-9)}),
                ("1", {"runnable": True, "updated_at": at(1)}),
                ("6", {"runnable": True, "updated_at": at(6), "wake_at": at(-5)}),
                ("2", {"wake_at": at(2), "updated_at": at(9)}),
                ("5", {"wake_at": at(5).astimezone(timezone(timedelta(hours=9)))}),
                ("3", {"runnable": True, "updated_at": at(3), "wake_at": at(99)}),
            ):
                await storage.create_session(session(name, **made))
            for limit in (1, 2, 4, 6, 50):
                found = await _runnable(storage, at(10), limit)
                expect(f"{limit} at a time", list("123456"), found)

    async def test_a_session_leaves_the_list_when_it_is_no_longer_runnable(self) -> None:
        """And comes back; the record that is listed is the one that is stored."""
        async with self.open() as storage:
            await storage.create_session(session("s", runnable=True))
            stored = await storage.update_session(session("s", wake_at=at(50)))
            expect("not yet due", [], await _runnable(storage, at(49)))
            expect_same("due", [stored], await rows_of(storage.list_runnable, at(50)))
            stored = await storage.update_session(session("s", revision=stored.revision))
            expect("at rest", [], await _runnable(storage, at(99)))
            runnable = session("s", runnable=True, status="waiting", revision=stored.revision)
            stored = await storage.update_session(runnable)
            expect_same("runnable again", [stored], await rows_of(storage.list_runnable, at(0)))

    async def test_sessions_that_wait_equally_long_are_all_listed(self) -> None:
        """Page after page, of either kind, each once."""
        async with self.open() as storage:
            for number in range(6):
                await storage.create_session(session(f"a{number}", runnable=True))
                await storage.create_session(session(f"b{number}", wake_at=at(0)))
            expected = sorted([f"{kind}{number}" for kind in "ab" for number in range(6)])
            for limit in (1, 3, 5, 12):
                expect(f"{limit} at a time", expected, sorted(await _runnable(storage, at(0), limit)))


async def _runnable(storage: Storage, now: datetime, limit: int = 50) -> list[str]:
    rows = await walk(lambda cursor: storage.list_runnable(now, limit, cursor=cursor), limit)
    return [row.id for row in rows]
