"""Stores that do not bear being migrated, closed, cancelled or cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec.structs import replace
from reference_store import Plants, Reference, Root, World

from gnomon.errors import StorageError, Unavailable
from gnomon.types.records import (
    LedgerEvent,
    MemoryRecord,
    SessionRecord,
)


class MigratesOnce(Reference):
    async def migrate(self) -> None:
        async with self.world() as world:
            if world.version:
                raise StorageError("the table sessions exists already")
            world.version = 1


class MigratesAnew(Reference):
    async def migrate(self) -> None:
        await super().migrate()
        self.root.world.tenants.clear()


class ClosesOnce(Reference):
    async def close(self) -> None:
        if self.root.is_closed:
            raise RuntimeError("closed already")
        await super().close()


class ViewsCloseTheStore(Reference):
    async def close(self) -> None:
        self.root.is_closed = True


class WorksAfterClose(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            super().check_open()


class ClosedWithAnyError(Reference):
    def check_open(self) -> None:
        if self.root.is_closed:
            raise AttributeError("'NoneType' object has no attribute 'execute'")
        super().check_open()


class HangsWhenClosed(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        try:
            await super().append_events(events)
        except StorageError:
            if self.root.is_closed:
                await asyncio.sleep(60)
            raise


class HalfOfACancelledGroup(Reference):
    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        half = len(events) // 2
        if half:
            await super().append_events(events[:half])
        if events:
            await super().append_events(events[half:])


class KeepsALockWhenCancelled(Reference):
    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        lock = self.root.__dict__.setdefault("lock", asyncio.Lock())
        try:
            async with asyncio.timeout(0.5):
                await lock.acquire()
        except TimeoutError:
            raise StorageError("it is locked for ever") from None
        await asyncio.sleep(0)
        try:
            self.check_open()
            yield self.root.world
        finally:
            lock.release()


class MixesAnswers(Reference):
    """Answers are taken in order; one whose asker was cancelled is left for the next."""

    def __init__(self, root: Root | None = None, tenant: str = "default") -> None:
        super().__init__(root, tenant)
        self.answers = self.root.__dict__.setdefault("answers", [])

    async def get_memory(self, agent_id: str, key: str, *, user_id: str = "") -> MemoryRecord | None:
        self.answers.append(await super().get_memory(agent_id, key, user_id=user_id))
        await asyncio.sleep(0)
        return self.answers.pop(0)


class LeavesATask(Reference):
    async def get_session(self, session_id: str) -> SessionRecord | None:
        self.task = asyncio.ensure_future(asyncio.sleep(60))
        return await super().get_session(session_id)


class AcknowledgesInBadTimes(Reference):
    """While the store is away, appends are said to be stored."""

    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        try:
            await super().append_events(events)
        except Unavailable:
            return


class AppendsTwice(Reference):
    """An append whose answer was lost is made again, at the next seq."""

    async def reply(self) -> None:
        await asyncio.sleep(0.05)  # so long that it is nearly always under way when the store is cut off

    async def append_events(self, events: Sequence[LedgerEvent]) -> None:
        try:
            await super().append_events(events)
        except Unavailable:
            tables = self.own_tables(self.root.world)
            tail = self.tail(tables, events[0].session_id)
            if tail >= events[0].seq:
                self.store(tables, [replace(self.kept(events[0]), seq=tail + 1)])
            raise


class RaisesTheDriversError(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            raise ConnectionResetError("connection reset by peer")
        super().check_open()


class NeverComesBack(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            self.root.is_closed = True
        super().check_open()


class ForgetsWhenCutOff(Reference):
    def check_open(self) -> None:
        if self.root.is_down:
            self.root.world.tenants.clear()
        super().check_open()


class WatchRepeatsWhenCutOff(Reference):
    async def watched(self, session_id: str, after_seq: int) -> AsyncIterator[LedgerEvent]:
        while True:
            try:
                page = await self.list_events(session_id, after_seq)
            except Unavailable:
                after_seq = 0
                await asyncio.sleep(0.01)
                continue
            for event in page.items:
                after_seq = event.seq
                yield event
            await asyncio.sleep(0.001)


PLANTS: Plants = {
    "test_a_session_comes_back_as_it_was_given": [
        (LeavesATask, "left behind by the check: expected"),
    ],
    "test_migrating_again_changes_nothing": [
        (MigratesOnce, "the table sessions exists already"),
        (MigratesAnew, "what was there.'get_session'.: expected"),
    ],
    "test_close_may_be_called_twice": [
        (ClosesOnce, "closed already"),
    ],
    "test_closing_a_view_leaves_the_store_open": [
        (ViewsCloseTheStore, "the store is closed"),
    ],
    "test_a_closed_store_says_that_it_is_closed": [
        (WorksAfterClose, "create_session of a closed store: expected"),
        (ClosedWithAnyError, "create_session of a closed store: expected"),
    ],
    "test_closing_under_running_calls_lets_them_end": [
        (ClosedWithAnyError, "ends that are neither success nor StorageError: expected"),
        (HangsWhenClosed, "calls that did not end within 5 s: expected 0"),
    ],
    "test_a_cancelled_call_leaves_the_store_working": [
        (HalfOfACancelledGroup, "the log of c.. ?group length: expected"),
        (KeepsALockWhenCancelled, "it is locked for ever"),
    ],
    "test_a_reader_that_is_cancelled_loses_nobodys_answer": [
        (MixesAnswers, "the values: expected"),
    ],
    "test_a_store_that_was_cut_off_works_again": [
        (RaisesTheDriversError, "a call while the store is cut off: found"),
        (NeverComesBack, "a call while the store is cut off: found"),
    ],
    "test_what_is_acknowledged_while_the_store_is_cut_off_is_there": [
        (AcknowledgesInBadTimes, "an append while the store is cut off: found"),
        (ForgetsWhenCutOff, "acknowledged events: expected"),
        (AppendsTwice, "events that are there twice: expected"),
        (RaisesTheDriversError, "an append while the store is cut off: found"),
    ],
    "test_a_watcher_bears_being_cut_off": [
        (WatchRepeatsWhenCutOff, "what came.0..seq: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
