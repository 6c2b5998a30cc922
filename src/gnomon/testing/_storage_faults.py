"""Bad times: closed, cancelled, cut off; and nothing is said to be stored that is not (D9)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import sha256
from typing import TypeVar

from gnomon.contracts.storage import Storage, SupportsBlobs, SupportsWatch
from gnomon.errors import Conflict, GnomonError, NotFound, StorageError, Unavailable
from gnomon.testing._storage_asking import expect_same, ledger, outcome
from gnomon.testing._storage_calls import every_call
from gnomon.testing._storage_reader import Reader
from gnomon.testing._storage_records import event, events, memory, session
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._storage_world import blob_of, fill, seen_by
from gnomon.testing._suite import expect, skip
from gnomon.types.records import MemoryRecord

__all__ = ["StorageFaults"]

_T = TypeVar("_T")

_TURNS = (0, 1, 2, 3, 4, 5, 7, 10, 15, 22)
"""After how many turns of the loop a call is cancelled."""

_SECONDS = (0.001, 0.004)
"""And after how long: what waits for a server takes few turns."""

_PATIENCE_S = 30.0


class StorageFaults(StorageSuite):
    """The part of the suite in which things go wrong."""

    # --- closing

    async def test_close_may_be_called_twice(self) -> None:
        """D9: before anything was asked, after, and at the same time."""
        async with self.open() as storage:
            await storage.close()
            await storage.close()
        async with self.open() as storage:
            await storage.create_session(session("s"))
            await asyncio.gather(storage.close(), storage.close())

    async def test_closing_a_view_leaves_the_store_open(self) -> None:
        """D9: and the other views, and the view itself."""
        async with self.open() as storage:
            view, other = storage.scoped("a"), storage.scoped("b")
            await view.append_event(event(1))
            await view.close()
            await view.close()
            for each in (storage, other):
                await each.append_event(event(1))
                expect_same("the log", [event(1)], await ledger(each))
            expect_same("the log of the tenant", [event(1)], await ledger(storage.scoped("a")))

    async def test_a_closed_store_says_that_it_is_closed(self) -> None:
        """D9: every call, also through a view, is a StorageError, and no other."""
        async with self.open() as storage:
            await storage.create_session(session("s"))
            view = storage.scoped("a")
            await storage.close()
            for what, each in (("store", storage), ("view", view), ("new view", storage.scoped("b"))):
                for name, call in every_call(each, "s").items():
                    found = await outcome(call())
                    if not isinstance(found, StorageError) or isinstance(found, Conflict | NotFound):
                        raise AssertionError(
                            f"{name} of a closed {what}: expected a StorageError, found {found!r}"
                        )

    async def test_closing_under_running_calls_lets_them_end(self) -> None:
        """D9: each with an answer or a StorageError, and what was acknowledged is there."""
        async with self.open() as storage:
            calls = [outcome(storage.append_event(event(1, f"s{number}"))) for number in range(20)]
            running = [asyncio.ensure_future(call) for call in calls]
            await asyncio.sleep(0)
            await storage.close()
            _, stuck = await asyncio.wait(running, timeout=5)
            for call in stuck:
                call.cancel()
            await asyncio.wait(running)
            expect("calls that did not end within 5 s", 0, len(stuck))
            ends = [call.result() for call in running]
            odd = [end for end in ends if end is not None and not isinstance(end, StorageError)]
            expect("ends that are neither success nor StorageError", [], odd)
            if self.url(storage) is None:
                return
            async with self.another(storage) as other:
                for number in (number for number, end in enumerate(ends) if end is None):
                    expect_same("the log", [event(1, f"s{number}")], await ledger(other, f"s{number}"))

    async def test_what_is_opened_again_has_everything(self) -> None:
        """D9: of every kind, in every tenant."""
        tenants = ("default", "a", "ж")
        async with self.open() as storage:
            self.shared_url(storage)
            before: list[object] = []
            for tenant in tenants:
                await fill(storage.scoped(tenant), "s", tenant)
                before.append(await seen_by(storage.scoped(tenant), "s"))
            await storage.close()
            async with self.another(storage) as again:
                for tenant, seen in zip(tenants, before, strict=True):
                    view = again.scoped(tenant)
                    expect_same(f"tenant {tenant}", seen, await seen_by(view, "s"))
                    if isinstance(view, SupportsBlobs):
                        blob = blob_of(tenant)
                        expect_same("a blob", blob, await view.get_blob(sha256(blob).hexdigest()))
                await again.append_event(event(3))

    async def test_two_that_have_it_open_see_each_others_writes_at_once(self) -> None:
        """D2: each append of one is read by the other."""
        async with self.open() as storage, self.another(storage) as other:
            pair = (storage, other)
            for seq in range(1, 11):
                await pair[seq % 2].append_event(event(seq))
                await pair[seq % 2].put_memory(memory("m", value=seq))
                reader = pair[(seq + 1) % 2]
                expect_same("the log", events(range(1, seq + 1)), await ledger(reader))
                expect_same("the memory", memory("m", value=seq), await reader.get_memory("", "key"))

    # --- cancelling

    async def test_a_cancelled_call_leaves_the_store_working(self) -> None:
        """D9: every call, at whatever moment; what was stored by then is whole, and others are answered."""
        async with self.open() as storage:
            await storage.create_session(session("known", title="known"))
            moments = [*((turns, 0.0) for turns in _TURNS), *((0, seconds) for seconds in _SECONDS)]
            for at, (turns, seconds) in enumerate(moments):
                for number, (name, call) in enumerate(every_call(storage, f"c{at}").items()):
                    await _cancelled(f"{name} after {turns} turns or {seconds} s", call(), turns, seconds)
                    if (number + at) % 3 == 0:
                        known = await storage.get_session("known")
                        expect_same(f"after {name} was cancelled", session("known", title="known"), known)
            for at in range(len(moments)):
                await _expect_whole_or_nothing(storage, f"c{at}")

    async def test_a_reader_that_is_cancelled_loses_nobodys_answer(self) -> None:
        """D9: half of many calls at once are cancelled; each of the others gets its own answer."""
        async with self.open() as storage:
            for number in range(12):
                await storage.put_memory(memory(f"{number}", key=f"{number}", value=number))
            for turn in range(6):
                calls = [asyncio.ensure_future(storage.get_memory("", f"{number}")) for number in range(12)]
                for _ in range(turn):
                    await asyncio.sleep(0)
                for call in calls[::2]:
                    call.cancel()
                await asyncio.wait(calls)
                found = [call.result() for call in calls[1::2]]
                expect("the values", [*range(1, 12, 2)], [each and each.value for each in found])

    # --- cut off

    async def test_a_store_that_was_cut_off_works_again(self) -> None:
        """D9: calls go on, or raise Unavailable; afterwards everything is there."""
        async with self.open() as storage:
            await fill(storage, "s", "before")
            before = await seen_by(storage, "s")
            cut = asyncio.ensure_future(self._interrupted(storage))
            try:
                while not cut.done():
                    found = await outcome(storage.get_memory("a", "key"))
                    if not isinstance(found, MemoryRecord | Unavailable):
                        raise AssertionError(f"a call while the store is cut off: found {found!r}")
                    await asyncio.sleep(0.005)
            finally:
                await cut
            expect_same("what was there", before, await _patiently(lambda: seen_by(storage, "s")))
            await _patiently(lambda: storage.put_memory(memory("after", key="after")))
            expect_same("a write", memory("after", key="after"), await storage.get_memory("", "after"))

    async def test_what_is_acknowledged_while_the_store_is_cut_off_is_there(self) -> None:
        """D9: and what raised Unavailable is there once, or not at all."""
        async with self.open() as storage:
            stop = asyncio.Event()
            writers = [_Writer(storage, f"s{number}") for number in range(4)]
            writing = [asyncio.ensure_future(writer.write(stop)) for writer in writers]
            try:
                for _ in range(2):
                    await asyncio.sleep(0.15)
                    await self._interrupted(storage)
                await asyncio.sleep(0.3)
            finally:
                stop.set()
                ends = await asyncio.gather(*writing, return_exceptions=True)
            for end in ends:
                if isinstance(end, BaseException):
                    raise end
            for writer in writers:
                await writer.expect_kept()

    async def test_a_watcher_bears_being_cut_off(self) -> None:
        """D9: it goes on without a gap, or raises Unavailable."""
        async with self.open() as storage:
            if not isinstance(storage, SupportsWatch):
                skip(self, "SupportsWatch")
            await storage.append_event(event(1))
            async with Reader(storage.watch("s")) as reader:
                expect_same("the first", [event(1)], await reader.next(1))
                await self._interrupted(storage)
                for seq in (2, 3):
                    await _patiently(lambda seq=seq: _once(storage, seq))
                found = await outcome(reader.next(2, _PATIENCE_S))
            if not isinstance(found, Unavailable):
                expect_same("what came", events((2, 3)), found)

    async def _interrupted(self, storage: Storage) -> None:
        interruption = self.interrupt(storage)
        if interruption is None:
            skip(self, "connections that can be broken")
        await interruption


class _Writer:
    """Writes to a session alone, and keeps account of what it was told."""

    def __init__(self, storage: Storage, session_id: str) -> None:
        self._storage = storage
        self._session_id = session_id
        self._kept: list[str] = []
        self._unsure: set[str] = set()

    async def write(self, stop: asyncio.Event) -> None:
        seq, number = 1, 0
        while not stop.is_set():
            number += 1
            made = event(seq, self._session_id, id=f"{self._session_id}.{number}")
            found = await outcome(self._storage.append_event(made))
            if found is None:
                self._kept.append(made.id)
                seq += 1
            elif isinstance(found, Unavailable) or (isinstance(found, Conflict) and self._unsure):
                # A Conflict may come of an append that was told to be unsure, and went through after all.
                self._unsure.add(made.id)
                seq = len(await _patiently(lambda: ledger(self._storage, self._session_id))) + 1
            else:
                raise AssertionError(f"an append while the store is cut off: found {found!r}")
            await asyncio.sleep(0.002)

    async def expect_kept(self) -> None:
        log = await _patiently(lambda: ledger(self._storage, self._session_id))
        ids = [each.id for each in log]
        expect("the seqs", list(range(1, len(log) + 1)), [each.seq for each in log])
        expect("acknowledged events", self._kept, [name for name in ids if name not in self._unsure])
        expect("events that are there twice", len(ids), len(set(ids)))


async def _cancelled(what: str, call: Awaitable[object], turns: int, seconds: float) -> None:
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    if seconds:
        await asyncio.wait({task}, timeout=seconds)
    was_over = task.done()
    task.cancel()
    await asyncio.wait({task})
    if task.cancelled():
        return
    error = task.exception()
    if not was_over and error is None:
        return  # it was through before the cancelling reached it
    if error is not None and not isinstance(error, GnomonError):
        raise AssertionError(f"{what}: expected CancelledError, found {error!r}") from error


async def _expect_whole_or_nothing(storage: Storage, name: str) -> None:
    """What a cancelled append has left can be built upon."""
    for kind, size in (("single", 1), ("group", 5)):
        session_id = f"{name} {kind}"
        log = await ledger(storage, session_id)
        if log:
            expect_same(f"the log of {session_id}", events(range(1, size + 1), session_id), log)
        await storage.append_event(event(len(log) + 1, session_id))
    rows = await storage.list_audit_logs(name)
    expect("audit rows", list(range(len(rows.items), 0, -1)), [row.seq for row in rows.items])


async def _patiently(call: Callable[[], Awaitable[_T]]) -> _T:
    """The answer, when the store has found its connections again."""
    async with asyncio.timeout(_PATIENCE_S):
        while True:
            with suppress(Unavailable):
                return await call()
            await asyncio.sleep(0.05)


async def _once(storage: Storage, seq: int) -> None:
    """Append, unless an earlier try went through."""
    if len(await ledger(storage)) < seq:
        await storage.append_event(event(seq))
