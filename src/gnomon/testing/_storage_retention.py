"""Forgetting: what is old or is to go goes, and never what recovery needs (D11)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Literal, TypeAlias, cast, get_args

from gnomon.contracts.storage import RecordKind, Storage, SupportsRetention, SupportsWatch
from gnomon.errors import Conflict, InvalidInput
from gnomon.testing._storage_asking import expect_same, ledger, refused, rows_of
from gnomon.testing._storage_records import at, audit, checkpoint, event, events, memory, session, trace
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._storage_world import fill, seen_by
from gnomon.testing._suite import expect, skip
from gnomon.types.records import SessionState

__all__ = ["StorageRetention"]

_KINDS: tuple[RecordKind, ...] = get_args(RecordKind)
_BUSY: tuple[SessionState, ...] = ("running", "waiting", "cancelling")
_RESTING: tuple[SessionState, ...] = ("idle", "closed")
_Listed: TypeAlias = Literal["memory", "audit", "traces", "events", "checkpoints"]

_FAR = at(10**8)


class StorageRetention(StorageSuite):
    """The part of the suite that prunes and deletes."""

    async def test_pruning_takes_what_is_older_and_of_the_kind(self) -> None:
        """D11: of each kind the two old rows, and nothing else; and it says how many."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            kinds: tuple[_Listed, ...] = get_args(_Listed)
            await _old_and_new(storage)
            for kind in kinds:
                before = {other: await _left(storage, other) for other in kinds if other != kind}
                expect(f"{kind} pruned before anything", 0, await store.prune(kind, at(0)))
                expect(f"old {kind} pruned", 2, await store.prune(kind, at(50)))
                expect(f"old {kind} pruned again", 0, await store.prune(kind, at(50)))
                expect(f"{kind} that stay", ["new 1", "new 2"], await _left(storage, kind))
                after = {other: await _left(storage, other) for other in kinds if other != kind}
                expect(f"other rows after pruning {kind}", before, after)

    async def test_pruning_takes_old_sessions_at_rest(self) -> None:
        """D11: by when they were updated last, and not those that do something."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            for status in (*_RESTING, *_BUSY):
                await storage.create_session(session(f"old {status}", status=status, updated_at=at(1)))
                new = session(f"new {status}", status=status, created_at=at(-99), updated_at=at(60))
                await storage.create_session(new)
            expect("old sessions pruned", 2, await store.prune("sessions", at(50)))
            names = sorted(row.id for row in await rows_of(storage.list_sessions))
            busy = [f"old {status}" for status in _BUSY]
            expect("the sessions that stay", sorted([f"new {s}" for s in (*_RESTING, *_BUSY)] + busy), names)
            expect("a pruned session", None, await storage.get_session("old idle"))

    async def test_a_row_touched_now_is_not_old(self) -> None:
        """D11: exactly `older_than` is not before it."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await _old_and_new(storage)
            for kind in cast("tuple[RecordKind, ...]", get_args(_Listed)):
                expect(f"{kind} at the very moment", 0, await store.prune(kind, at(1)))

    async def test_nothing_of_a_session_that_is_not_at_rest_is_pruned(self) -> None:
        """D11: whatever it is, and however old; recovery needs it."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            for status in _BUSY:
                await fill(storage, status, f"mark of {status}", status)
                await storage.save_checkpoint(checkpoint(f"older {status}", status, seq=0))
            before = [await seen_by(storage, status) for status in _BUSY]
            for kind in _KINDS:
                expect(f"{kind} pruned", 0, await store.prune(kind, _FAR))
            expect_same("what is there", before, [await seen_by(storage, status) for status in _BUSY])

    # --- events

    async def test_events_of_the_current_view_are_not_pruned(self) -> None:
        """D11: what the latest checkpoint's view starts with stays, and all that follows."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await storage.create_session(session("s", last_seq=12))
            for seq in range(1, 13):
                await storage.append_event(event(seq))
            await storage.save_checkpoint(checkpoint("older", seq=8, state={"view_start": 11}))
            await storage.save_checkpoint(checkpoint("latest", seq=9, state={"view_start": 6}))
            expect("events pruned", 5, await store.prune("events", _FAR))
            expect_same("the log", events(range(6, 13)), await ledger(storage))

    async def test_without_a_view_no_event_is_pruned(self) -> None:
        """D11: no checkpoint, or one that does not say where the view starts."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            for name in ("none", "silent"):
                await storage.create_session(session(name))
                await storage.append_events(events((1, 2, 3), name))
            await storage.save_checkpoint(checkpoint("c", "silent", seq=3, state={"open": []}))
            expect("events pruned", 0, await store.prune("events", _FAR))
            for name in ("none", "silent"):
                expect_same(f"the log of {name}", events((1, 2, 3), name), await ledger(storage, name))

    async def test_a_group_across_the_start_of_the_view_keeps_what_the_view_needs(self) -> None:
        """D11: it may stay whole; what is left has no gap."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await storage.create_session(session("s", last_seq=9))
            for group in ((1, 2), (3, 4, 5, 6), (7, 8, 9)):
                await storage.append_events(events(group))
            await storage.save_checkpoint(checkpoint("c", seq=9, state={"view_start": 5}))
            gone = await store.prune("events", _FAR)
            left = await ledger(storage)
            expect("events pruned and left", 9, gone + len(left))
            expect("at least two are pruned, at most four", True, 2 <= gone <= 4)
            expect_same("the log", events(range(gone + 1, 10)), left)

    async def test_a_pruned_log_goes_on_where_it_ended(self) -> None:
        """D1, D11: what was pruned cannot be appended again, and every reader finds the rest."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            for name, view_start in (("some", 6), ("all", 9)):
                await storage.create_session(session(name, last_seq=8))
                for seq in range(1, 9):
                    await storage.append_event(event(seq, name))
                await storage.save_checkpoint(checkpoint(name, name, seq=8, state={"view_start": view_start}))
            await store.prune("events", _FAR)
            for name in ("some", "all"):
                for seq in (1, 2, 5, 10):
                    await refused(f"seq {seq} of {name}", storage.append_event(event(seq, name)), Conflict)
                await storage.append_event(event(9, name))
                left = await ledger(storage, name)
                expect_same(f"the end of {name}", event(9, name), left[-1])
                expect_same(f"{name} after 8", [event(9, name)], await ledger(storage, name, 8))
                await _expect_watched(storage, name, [each.seq for each in left])

    async def test_pruning_beside_writers_loses_nothing(self) -> None:
        """D7, D11: events that come while others go are there."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await storage.create_session(session("s"))

            async def write() -> None:
                for seq in range(1, 41):
                    await storage.append_event(event(seq))
                    if seq % 10 == 0:
                        state = {"view_start": seq - 4}
                        await storage.save_checkpoint(checkpoint(f"c{seq}", seq=seq, state=state))

            writing = asyncio.ensure_future(write())
            gone = 0
            try:
                while not writing.done():
                    gone += await store.prune("events", _FAR)
                    await store.prune("checkpoints", _FAR)
                    await asyncio.sleep(0)
            finally:
                await writing
            gone += await store.prune("events", _FAR)
            left = await ledger(storage)
            expect_same("the log", events(range(gone + 1, 41)), left)

    async def test_the_latest_checkpoint_is_not_pruned(self) -> None:
        """D11: however old; among equals the one that was saved last."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await storage.create_session(session("s"))
            for name, seq in (("a", 5), ("c", 9), ("b", 9), ("d", 2)):
                await storage.save_checkpoint(checkpoint(name, seq=seq))
            expect("checkpoints pruned", 3, await store.prune("checkpoints", _FAR))
            expect("the rest", ["b"], [row.id for row in await rows_of(storage.list_checkpoints, "s")])

    async def test_a_kind_that_there_is_not_is_refused(self) -> None:
        """With `InvalidInput`."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            for kind in ("", "blobs", "session"):
                await refused(f"prune of {kind!r}", store.prune(cast(RecordKind, kind), _FAR), InvalidInput)

    # --- by session and by user

    async def test_a_deleted_session_leaves_no_row(self) -> None:
        """D11: it says whether there was one; others stay; and the name is as good as new."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await fill(storage, "s:1", "stays")
            stays = await seen_by(storage.scoped("default"), "s:1")
            before = {kind: await _all(storage, kind, "s:1") for kind in get_args(_Listed)}
            await fill(storage, "s", "goes")
            expect("delete_session", True, await store.delete_session("s"))
            expect("delete_session, again", False, await store.delete_session("s"))
            expect_same("another session", stays, await seen_by(storage, "s:1"))
            expect("its rows", before, {kind: await _all(storage, kind, "s:1") for kind in get_args(_Listed)})
            for kind in ("audit", "traces", "events", "checkpoints"):
                expect(f"{kind} of the session", [], await _all(storage, kind, "s"))
            expect("memory of the session", ["s:1"], await _all(storage, "memory", "s"))
            expect("get_trace", None, await storage.get_trace("s"))
            expect("get_checkpoint", None, await storage.get_checkpoint("s"))
            await fill(storage, "s", "new")
            logged = await rows_of(storage.list_audit_logs, "s")
            expect("the audit chain begins anew", [(1, "")], [(row.seq, row.prev_hash) for row in logged])

    async def test_a_session_that_runs_is_not_deleted(self) -> None:
        """D11: it is a Conflict, and nothing of it is touched."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await fill(storage, "s", "runs", "running")
            before = await seen_by(storage, "s")
            await refused("delete_session while it runs", store.delete_session("s"), Conflict)
            expect_same("the session", before, await seen_by(storage, "s"))

    async def test_a_deleted_user_leaves_no_session_and_no_memory(self) -> None:
        """D11: it says how many there were; nobody else's are touched."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            for user in ("u", "u2", ""):
                for number in (1, 2):
                    await storage.create_session(session(f"{user} {number}", user_id=user))
                    await storage.append_event(event(1, f"{user} {number}"))
                    await storage.put_memory(memory(f"{user} {number}", user_id=user, key=f"{user} {number}"))
                await storage.put_memory(memory(f"{user} more", user_id=user, key=f"{user} more"))
            expect("delete_user: sessions and memory", 5, await store.delete_user("u"))
            expect("delete_user, again", 0, await store.delete_user("u"))
            users = {row.user_id for row in await rows_of(storage.list_sessions)}
            expect("users that have sessions", {"", "u2"}, users)
            remembered = [row.user_id for row in await rows_of(storage.list_memory)]
            expect("users of memory", ["", "", "", "u2", "u2", "u2"], sorted(remembered))
            expect_same("a log of the user", [], await ledger(storage, "u 1"))
            expect_same("a log of another", [event(1, "u2 1")], await ledger(storage, "u2 1"))

    async def test_a_user_whose_session_runs_is_not_deleted(self) -> None:
        """D11: it is a Conflict, and nothing of that session is touched."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await fill(storage, "s", "runs", "running")
            before = await seen_by(storage, "s")
            await refused("delete_user while a session runs", store.delete_user("u"), Conflict)
            expect_same("the session", before, await seen_by(storage, "s"))

    async def test_an_empty_user_is_not_everybody(self) -> None:
        """D11: to delete everything by an empty name is refused, or deletes nothing."""
        async with self.open() as storage:
            store = _forgetful(self, storage)
            await storage.create_session(session("s", user_id="u"))
            await storage.create_session(session("t"))
            try:
                gone = await store.delete_user("")
            except InvalidInput:
                gone = 0
            expect("how many were deleted", 0, gone)
            expect("the sessions", 2, len(await rows_of(storage.list_sessions)))


# --- old and new rows ---------------------------------------------------------------------


async def _old_and_new(storage: Storage) -> None:
    """Of each kind two rows from before and two from after the fiftieth second, at rest."""
    await storage.create_session(session("s", last_seq=4, updated_at=at(99)))
    for seq, (name, time) in enumerate(
        (("old 1", at(1)), ("old 2", at(2)), ("new 1", at(98)), ("new 2", at(99))), start=1
    ):
        old = at(-99)  # what counts is when a row was touched last
        await storage.put_memory(memory(name, key=name, created_at=old, updated_at=time, session_id="s"))
        await storage.append_audit_log(audit(name, created_at=time))
        await storage.insert_trace(trace(name, started_at=at(seq), ended_at=time))
        await storage.append_event(event(seq, id=name, created_at=time))
        state = {"view_start": 4}
        await storage.save_checkpoint(checkpoint(name, seq=seq, created_at=time, state=state))


async def _left(storage: Storage, kind: str) -> list[str]:
    """The names of those rows that are still there."""
    return [name for name in await _all(storage, kind, "s") if name in ("old 1", "old 2", "new 1", "new 2")]


async def _all(storage: Storage, kind: str, name: str) -> list[str]:
    match kind:
        case "memory":
            return _sorted(row.id for row in await rows_of(storage.list_memory))
        case "audit":
            return _sorted(row.id for row in await rows_of(storage.list_audit_logs, name))
        case "traces":
            return _sorted(row.id for row in await rows_of(storage.list_traces, name))
        case "events":
            return _sorted(row.id for row in await ledger(storage, name))
        case _:
            return _sorted(row.id for row in await rows_of(storage.list_checkpoints, name))


def _sorted(names: Iterable[str]) -> list[str]:
    return sorted(names)


async def _expect_watched(storage: Storage, name: str, seqs: list[int]) -> None:
    if isinstance(storage, SupportsWatch):
        async with storage.watch(name) as stream:
            found = [(await anext(stream)).seq for _ in seqs]
        expect(f"what a watcher of {name} reads", seqs, found)


def _forgetful(suite: StorageRetention, storage: Storage) -> SupportsRetention:
    return storage if isinstance(storage, SupportsRetention) else skip(suite, "SupportsRetention")
