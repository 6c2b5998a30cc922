"""Readers that wait: first what is there, then each new event, in order and without a gap."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from gnomon.contracts.storage import Storage, SupportsWatch
from gnomon.errors import StorageError
from gnomon.stream import PullStream
from gnomon.testing._storage_asking import expect_same, ledger, together
from gnomon.testing._storage_children import Child
from gnomon.testing._storage_reader import SOON_S, Reader
from gnomon.testing._storage_records import event, events
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._storage_writer import Job
from gnomon.testing._suite import expect, skip
from gnomon.testing._watch import Watch
from gnomon.types.records import LedgerEvent

__all__ = ["StorageWatching"]

_QUIET_S = 0.05


class StorageWatching(StorageSuite):
    """The part of the suite that is about `watch`."""

    async def test_a_watcher_reads_what_is_there_and_then_what_comes(self) -> None:
        """D2: single events and groups, in order, each soon after it was appended."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            await storage.append_events(events(range(1, 121)))
            async with store.watch("s") as stream:
                expect_same("what is there", events(range(1, 121)), await _next(stream, 120))
                for group in ((121,), (122, 123, 124), (125,), tuple(range(126, 226))):
                    await storage.append_events(events(group))
                    expect_same("what was appended", events(group), await _next(stream, len(group)))

    async def test_a_watcher_that_waits_is_told(self) -> None:
        """Of a log that is not there yet; it waits until there is something, and not longer."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            async with Reader(store.watch("s")) as reader:
                await reader.expect_quiet("a log that is not there yet")
                await storage.append_event(event(1, "other"))
                await reader.expect_quiet("an event of another session")
                await storage.append_event(event(1))
                expect_same("what came", [event(1)], await reader.next(1))

    async def test_watching_starts_after_the_given_seq(self) -> None:
        """D2: inside a group, at the tail, and beyond it."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            await storage.append_events(events((1, 2, 3, 4, 5)))
            streams = {after: store.watch("s", after) for after in (2, 5, 7)}
            await storage.append_events(events((6, 7)))
            await storage.append_events(events((8, 9)))
            for after, stream in streams.items():
                async with stream:
                    expected = events(range(after + 1, 10))
                    expect_same(f"after {after}", expected, await _next(stream, len(expected)))

    async def test_what_is_appended_between_two_reads_is_not_missed(self) -> None:
        """D2: also in the moment in which a watcher goes from what is there to what comes."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            async with store.watch("s") as stream:
                for seq in range(1, 61):
                    await storage.append_event(event(seq))
                    if seq % 3 == 0:
                        expect_same("the next three", events(range(seq - 2, seq + 1)), await _next(stream, 3))

    async def test_many_watchers_all_read_everything(self) -> None:
        """Twenty, of one session, while it is written; and each in order."""
        async with self.open() as storage:
            store = _watchable(self, storage)

            async def read() -> list[LedgerEvent]:
                async with store.watch("s") as stream:
                    return await _next(stream, 60)

            async def write() -> list[LedgerEvent]:
                await asyncio.sleep(_QUIET_S)
                for first in range(1, 61, 4):
                    await storage.append_events(events(range(first, first + 4)))
                return events(range(1, 61))

            for found in await together(write(), *(read() for _ in range(20))):
                expect_same("what one of twenty has read", events(range(1, 61)), found)

    async def test_a_slow_watcher_is_in_nobodys_way(self) -> None:
        """One that reads one event and then rests: writers and others go on, and it misses nothing."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            await storage.append_event(event(1))
            async with store.watch("s") as slow, store.watch("s") as quick:
                expect_same("the first", events((1,)), await _next(slow, 1))
                async with asyncio.timeout(20):
                    for first in range(2, 502, 50):
                        await storage.append_events(events(range(first, first + 50)))
                expect_same("the quick one", events(range(1, 502)), await _next(quick, 501))
                expect_same("the slow one, later", events(range(2, 502)), await _next(slow, 500))

    async def test_leaving_a_watcher_leaves_nothing_behind(self) -> None:
        """Before it was read, in the middle, and while it waits; and the store works as before."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            await storage.append_events(events((1, 2, 3)))
            await _next_of(store, 1)  # what the store keeps for all watchers is there from now on
            with Watch() as watch:
                for count in (0, 1, 3):
                    await _next_of(store, count)
                waiting = asyncio.ensure_future(_next_of(store, 4))
                await asyncio.sleep(_QUIET_S)
                waiting.cancel()
                await asyncio.wait({waiting})
            expect("left behind by watchers", [], await watch.left())
            await storage.append_event(event(4))
            expect_same("the log", events((1, 2, 3, 4)), await ledger(storage))

    async def test_closing_the_store_ends_a_watcher(self) -> None:
        """D9: it does not wait for ever for what cannot come: it ends, or raises a StorageError."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            async with Reader(store.watch("s")) as reader:
                await storage.close()
                found = await reader.end()
            if found is not None and not isinstance(found, StorageError):
                raise AssertionError(f"a watcher of a closed store: expected an end, found {found!r}")

    async def test_a_watcher_hears_of_what_another_process_appends(self) -> None:
        """D2: soon, in order, and without a gap."""
        async with self.open() as storage:
            store = _watchable(self, storage)
            job = Job(self.shared_url(storage), self.opener, "append", sessions=("s",), writers=1, appends=5)
            async with Child(job) as child, Reader(store.watch("s")) as reader:
                await child.ready()
                await child.work()
                found = await reader.next(5)
                expect("what was heard", child.told_ids("s"), [each.id for each in found])


def _watchable(suite: StorageWatching, storage: Storage) -> SupportsWatch:
    return storage if isinstance(storage, SupportsWatch) else skip(suite, "SupportsWatch")


async def _next(stream: PullStream[LedgerEvent], count: int) -> list[LedgerEvent]:
    """The next events, which are there or must come soon."""
    found: list[LedgerEvent] = []
    try:
        async with asyncio.timeout(SOON_S + count * 0.01):
            for _ in range(count):
                found.append(await anext(stream))
    except TimeoutError:
        seqs = _seqs(found)
        raise AssertionError(
            f"{count} events: only {len(found)} came in time, the last {seqs[-3:]}"
        ) from None
    return found


async def _next_of(store: SupportsWatch, count: int) -> None:
    async with store.watch("s") as stream:
        for _ in range(count):
            await anext(stream)


def _seqs(found: Iterable[LedgerEvent]) -> list[int]:
    return [each.seq for each in found]
