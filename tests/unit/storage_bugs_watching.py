"""Stores that tell waiting readers too little, too much or too late."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

from reference_store import Plants, Reference

from gnomon.errors import StorageError
from gnomon.stream import PullStream
from gnomon.types.records import (
    LedgerEvent,
)


class WatchesWhatComesOnly(Reference):
    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]:
        tail = self.tail(self.own_tables(self.root.world), session_id)
        return PullStream(self.watched(session_id, max(after_seq, tail)))


class WatchesWhatIsThereOnly(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        for event in (await self.list_events(session_id, after_seq, 1000)).items:
            yield event
        await asyncio.sleep(60)


class WatchEnds(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        for event in (await self.list_events(session_id, after_seq, 1000)).items:
            yield event


class WatchesFromTheStart(Reference):
    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]:
        return super().watch(session_id, 0)


class WatchSkips(Reference):
    """It looks at the tail only, and so misses what came between two looks."""

    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        async with self.tables() as tables:
            there = [event for event in self.log(tables, session_id) if event.seq > after_seq]
        for event in there:
            after_seq = event.seq
            yield event
        while True:
            async with self.tables() as tables:
                last = list(self.log(tables, session_id))[-1:]
            if last and last[0].seq > after_seq:
                after_seq = last[0].seq
                yield last[0]
            await asyncio.sleep(0.001)


class TellsOneWatcher(Reference):
    """Each event goes to whoever asks first."""

    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        taken = self.root.__dict__.setdefault("taken", set())
        async for event in super().watched(session_id, after_seq):
            if event.seq not in taken:
                taken.add(event.seq)
                yield event


class WaitsForSlowWatchers(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        async for event in super().watched(session_id, after_seq):
            self.root.__dict__["busy"] = True
            yield event
            self.root.__dict__["busy"] = False

    async def acknowledged(self, group: Sequence[LedgerEvent]) -> None:
        for _ in range(200):
            if not self.root.__dict__.get("busy"):
                return
            await asyncio.sleep(0.001)
        raise StorageError("a watcher does not read")


class LeavesATaskPerWatcher(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        queue: asyncio.Queue[LedgerEvent] = asyncio.Queue()

        async def read() -> None:
            async for event in super(LeavesATaskPerWatcher, self).watched(session_id, after_seq):
                queue.put_nowait(event)

        self.root.__dict__.setdefault("tasks", []).append(asyncio.ensure_future(read()))
        while True:
            yield await queue.get()

    async def close(self) -> None:
        await super().close()
        for task in self.root.__dict__.get("tasks", ()):
            task.cancel()


class WatchOutlivesTheStore(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        while True:
            with suppress(StorageError):
                for event in (await self.list_events(session_id, after_seq)).items:
                    after_seq = event.seq
                    yield event
            await asyncio.sleep(0.005)


PLANTS: Plants = {
    "test_a_watcher_reads_what_is_there_and_then_what_comes": [
        (WatchesWhatComesOnly, r"120 events: only \d+ came in time, the last .."),
    ],
    "test_a_watcher_that_waits_is_told": [
        (WatchesWhatIsThereOnly, "0 of 1 events came within 2.0 s, last .."),
        (WatchEnds, "0 of 1 events came within 2.0 s, last .."),
    ],
    "test_watching_starts_after_the_given_seq": [
        (WatchesFromTheStart, "after 2.0..seq: expected"),
    ],
    "test_what_is_appended_between_two_reads_is_not_missed": [
        (WatchSkips, "3 events: only . came in time, the last .6."),
    ],
    "test_many_watchers_all_read_everything": [
        (TellsOneWatcher, r"60 events: only \d+ came in time, the last .."),
    ],
    "test_a_slow_watcher_is_in_nobodys_way": [
        (WaitsForSlowWatchers, "a watcher does not read"),
    ],
    "test_leaving_a_watcher_leaves_nothing_behind": [
        (LeavesATaskPerWatcher, "left behind by watchers: expected"),
    ],
    "test_closing_the_store_ends_a_watcher": [
        (WatchOutlivesTheStore, "the stream still waits after 2.0 s: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
