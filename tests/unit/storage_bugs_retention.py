"""Stores that forget too much, or too little."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta

from reference_store import Plants, Reference, Tables


# --- D11: forgetting ------------------------------------------------------------------------------
class PrunesAtTheMoment(Reference):
    async def prune(self, kind: str, older_than: datetime) -> int:
        return await super().prune(
            kind, self.check_time("older_than", older_than) + timedelta(microseconds=1)
        )


class PrunesByCreation(Reference):
    def prune_memory(self, tables: Tables, older_than: datetime) -> int:
        return self.removed(tables, tables.memory, lambda row: row.created_at < older_than)

    def prune_sessions(self, tables: Tables, older_than: datetime) -> int:
        gone = [row.id for row in tables.sessions.values() if row.created_at < older_than]
        gone = [name for name in gone if self.is_at_rest(tables, name)]
        return sum(self.forget(tables, name) for name in gone)


class CountsNothing(Reference):
    async def prune(self, kind: str, older_than: datetime) -> int:
        await super().prune(kind, older_than)
        return 0


class PrunesTheBusy(Reference):
    def is_at_rest(self, tables: Tables, session_id: str) -> bool:
        session = tables.sessions.get(session_id)
        return session is None or session.status != "running"


class PrunesTheView(Reference):
    def view_start(self, tables: Tables, session_id: str) -> int:
        return super().view_start(tables, session_id) + 1


class PrunesByTheFurthestView(Reference):
    def view_start(self, tables: Tables, session_id: str) -> int:
        rows = [row for row in tables.checkpoints.values() if row.session_id == session_id]
        return max((int(str(row.state.get("view_start", 0))) for row in rows), default=0)


class PrunesWithoutAView(Reference):
    def view_start(self, tables: Tables, session_id: str) -> int:
        return super().view_start(tables, session_id) or 10**9


class PrunesWholeGroups(Reference):
    """Also those that the view begins in the middle of."""

    def view_start(self, tables: Tables, session_id: str) -> int:
        start = super().view_start(tables, session_id)
        return start + 2 if start == 5 else start


class TailIsTheLength(Reference):
    def tail(self, tables: Tables, session_id: str) -> int:
        log = tables.events.get(session_id)
        return log[-1].seq if log else 0


class PrunesSlowly(Reference):
    """What comes in between is lost."""

    async def prune(self, kind: str, older_than: datetime) -> int:
        if kind != "events":
            return await super().prune(kind, older_than)
        before = {name: list(log) for name, log in self.own_tables(self.root.world).events.items()}
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        self.own_tables(self.root.world).events.update(before)
        return await super().prune(kind, older_than)


class PrunesTheLatestCheckpoint(Reference):
    def prune_checkpoints(self, tables: Tables, older_than: datetime) -> int:
        return self.removed(tables, tables.checkpoints, lambda row: row.created_at < older_than)


class TakesAnyKind(Reference):
    async def prune(self, kind: str, older_than: datetime) -> int:
        return await super().prune(kind, older_than) if kind in ("events", "audit") else 0


class LeavesTraces(Reference):
    def forget(self, tables: Tables, session_id: str) -> bool:
        traces = dict(tables.traces)
        gone = super().forget(tables, session_id)
        tables.traces = traces
        return gone


class LeavesTheChainsHead(Reference):
    def forget(self, tables: Tables, session_id: str) -> bool:
        chain = tables.audit.get(session_id)
        gone = super().forget(tables, session_id)
        if chain:
            tables.audit[session_id] = chain
        return gone


class DeletesByPrefix(Reference):
    def forget(self, tables: Tables, session_id: str) -> bool:
        for name in [name for name in tables.events if name.startswith(session_id)]:
            del tables.events[name]
        return super().forget(tables, session_id)


class DeletesWhatRuns(Reference):
    def check_at_rest(self, tables: Tables, session_id: str) -> None:
        pass


class SaysItWasThere(Reference):
    async def delete_session(self, session_id: str) -> bool:
        await super().delete_session(session_id)
        return True


class LeavesAUsersMemory(Reference):
    async def delete_user(self, user_id: str) -> int:
        memory = dict(self.own_tables(self.root.world).memory)
        gone = await super().delete_user(user_id)
        self.own_tables(self.root.world).memory = memory
        return gone


class EmptyUserIsEverybody(Reference):
    async def delete_user(self, user_id: str) -> int:
        if user_id:
            return await super().delete_user(user_id)
        async with self.tables() as tables:
            count = len(tables.sessions)
            tables.sessions.clear()
            return count


# --- blobs ----------------------------------------------------------------------------------------
class HashesOtherwise(Reference):
    async def put_blob(self, content: bytes) -> str:
        digest = hashlib.sha1(content).hexdigest()
        async with self.tables() as tables:
            self.keep_blob(tables, digest, content)
        return digest


class CutsBlobs(Reference):
    def keep_blob(self, tables: Tables, digest: str, content: bytes) -> None:
        super().keep_blob(tables, digest, content[: 4 * 2**20])


class FindsBlobsByPrefix(Reference):
    async def get_blob(self, digest: str) -> bytes | None:
        async with self.tables() as tables:
            return next((blob for name, (blob, _) in tables.blobs.items() if name.startswith(digest)), None)


class KeepsBlobsTwice(Reference):
    def keep_blob(self, tables: Tables, digest: str, content: bytes) -> None:
        name = f"{digest} again" if digest in tables.blobs else digest
        super().keep_blob(tables, name, content)


class SweepsAll(Reference):
    def to_sweep(self, tables: Tables, keep: set[str], older_than: datetime) -> list[str]:
        return super().to_sweep(tables, set(), older_than)


class SweepsByFirstPut(Reference):
    def keep_blob(self, tables: Tables, digest: str, content: bytes) -> None:
        if digest not in tables.blobs:
            super().keep_blob(tables, digest, content)


class SweepsWhatItSawBefore(Reference):
    async def sweep_blobs(self, keep: Iterable[str], older_than: datetime) -> int:
        self.check_time("older_than", older_than)
        async with self.tables() as tables:
            gone = self.to_sweep(tables, set(keep), older_than)
        for digest in gone:
            async with self.tables() as tables:
                tables.blobs.pop(digest, None)
        return len(gone)


PLANTS: Plants = {
    "test_pruning_takes_what_is_older_and_of_the_kind": [
        (CountsNothing, "old memory pruned: expected"),
        (PrunesByCreation, "memory pruned before anything: expected"),
    ],
    "test_pruning_takes_old_sessions_at_rest": [
        (PrunesByCreation, "old sessions pruned: expected"),
        (PrunesTheBusy, "old sessions pruned: expected"),
    ],
    "test_a_row_touched_now_is_not_old": [
        (PrunesAtTheMoment, "memory at the very moment: expected"),
    ],
    "test_nothing_of_a_session_that_is_not_at_rest_is_pruned": [
        (PrunesTheBusy, "sessions pruned: expected"),
    ],
    "test_events_of_the_current_view_are_not_pruned": [
        (PrunesTheView, "events pruned: expected"),
        (PrunesByTheFurthestView, "events pruned: expected"),
    ],
    "test_without_a_view_no_event_is_pruned": [
        (PrunesWithoutAView, "events pruned: expected"),
    ],
    "test_a_group_across_the_start_of_the_view_keeps_what_the_view_needs": [
        (PrunesWholeGroups, "at least two are pruned, at most four: expected"),
    ],
    "test_a_pruned_log_goes_on_where_it_ended": [
        (TailIsTheLength, "seq 1 of all: expected"),
    ],
    "test_pruning_beside_writers_loses_nothing": [
        (PrunesSlowly, "the log length: expected"),
    ],
    "test_the_latest_checkpoint_is_not_pruned": [
        (PrunesTheLatestCheckpoint, "checkpoints pruned: expected"),
    ],
    "test_a_kind_that_there_is_not_is_refused": [
        (TakesAnyKind, "prune of '': expected"),
    ],
    "test_a_deleted_session_leaves_no_row": [
        (LeavesTraces, "traces of the session: expected"),
        (LeavesTheChainsHead, "audit of the session: expected"),
        (DeletesByPrefix, "another session.'list_events'. length: expected"),
        (SaysItWasThere, "delete_session, again: expected"),
    ],
    "test_a_session_that_runs_is_not_deleted": [
        (DeletesWhatRuns, "delete_session while it runs: expected"),
    ],
    "test_a_deleted_user_leaves_no_session_and_no_memory": [
        (LeavesAUsersMemory, "delete_user, again: expected"),
    ],
    "test_a_user_whose_session_runs_is_not_deleted": [
        (DeletesWhatRuns, "delete_user while a session runs: expected"),
    ],
    "test_an_empty_user_is_not_everybody": [
        (EmptyUserIsEverybody, "how many were deleted: expected"),
    ],
    "test_a_blob_is_found_under_its_hash": [
        (HashesOtherwise, "the hash of 0 bytes: expected"),
        (CutsBlobs, "5242637 bytes: expected"),
    ],
    "test_a_blob_that_is_not_there_is_none": [
        (FindsBlobsByPrefix, "get_blob of '.*': expected"),
    ],
    "test_the_same_bytes_are_kept_once": [
        (KeepsBlobsTwice, "how many were swept: expected"),
    ],
    "test_a_sweep_takes_what_is_old_and_not_kept": [
        (SweepsAll, "swept: expected"),
    ],
    "test_a_blob_that_was_put_again_is_as_good_as_new": [
        (SweepsByFirstPut, "swept: expected"),
    ],
    "test_a_sweep_beside_writers_takes_nothing_that_is_put_meanwhile": [
        (SweepsWhatItSawBefore, "blobs that were put and are gone: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
