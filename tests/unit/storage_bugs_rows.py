"""Stores that break a promise about single rows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace
from reference_store import Plants, Reference, Tables

from gnomon.errors import Conflict, NotFound
from gnomon.types.records import (
    Checkpoint,
    MemoryRecord,
    SessionRecord,
    Trace,
)


class RaisesForNone(Reference):
    async def get_session(self, session_id: str) -> SessionRecord | None:
        found = await super().get_session(session_id)
        if found is None:
            raise NotFound(session_id)
        return found


class DropsATitle(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        await super().create_session(replace(session, title=""))


class CreatesAgain(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        session = self.kept(session)
        async with self.tables() as tables:
            tables.sessions[session.id] = session


class ListsARefusedSession(Reference):
    """The row is refused, but a list has it already."""

    async def create_session(self, session: SessionRecord) -> None:
        try:
            await super().create_session(session)
        except Conflict:
            async with self.tables() as tables:
                tables.sessions[session.id] = replace(tables.sessions[session.id], agent_id=session.agent_id)
            raise


class KeepsTheRevision(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        stored = await super().update_session(session)
        return replace(stored, revision=session.revision)


class UpdateMakesARow(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        try:
            return await super().update_session(session)
        except NotFound:
            await self.create_session(session)
            return session


class IgnoresTheRevision(Reference):
    def is_stale(self, stored: SessionRecord, session: SessionRecord) -> bool:
        return session.last_seq < stored.last_seq


class IgnoresLastSeq(Reference):
    def is_stale(self, stored: SessionRecord, session: SessionRecord) -> bool:
        return session.revision != stored.revision


class TakesAFutureRevision(Reference):
    def is_stale(self, stored: SessionRecord, session: SessionRecord) -> bool:
        return session.revision < stored.revision or session.last_seq < stored.last_seq


class ChecksARevisionThenWrites(Reference):
    async def update_session(self, session: SessionRecord) -> SessionRecord:
        stored = await self.get_session(session.id)
        if stored is not None and self.is_stale(stored, session):
            raise Conflict("stale")
        await asyncio.sleep(0)
        async with self.tables() as tables:
            tables.sessions[session.id] = replace(self.kept(session), revision=session.revision + 1)
            return tables.sessions[session.id]


class ChecksAnIdThenCreates(Reference):
    async def create_session(self, session: SessionRecord) -> None:
        session = self.kept(session)
        if await self.get_session(session.id) is not None:
            raise Conflict("taken")
        async with self.tables() as tables:
            tables.sessions[session.id] = session


class OneMemoryAKey(Reference):
    """A record of the same key is taken for the same."""

    async def put_memory(self, memory: MemoryRecord) -> None:
        async with self.tables() as tables:
            for name in [row.id for row in tables.memory.values() if row.key == memory.key]:
                del tables.memory[name]
        await super().put_memory(memory)


class DropsAKind(Reference):
    async def put_memory(self, memory: MemoryRecord) -> None:
        await super().put_memory(replace(memory, kind="long_term"))


class FirstMemoryOfAKey(Reference):
    def latest_memory(self, rows: Sequence[MemoryRecord]) -> MemoryRecord | None:
        return rows[0] if rows else None


class MemoryPutLast(Reference):
    """By when it was put, not by when it was updated."""

    async def put_memory(self, memory: MemoryRecord) -> None:
        async with self.tables() as tables:
            tables.memory.pop(memory.id, None)
        await super().put_memory(memory)

    def latest_memory(self, rows: Sequence[MemoryRecord]) -> MemoryRecord | None:
        return rows[-1] if rows else None


class AlwaysDeletes(Reference):
    async def delete_memory(self, memory_id: str) -> bool:
        await super().delete_memory(memory_id)
        return True


class OnlyHidesDeletedMemory(Reference):
    async def delete_memory(self, memory_id: str) -> bool:
        async with self.tables() as tables:
            row = tables.memory.get(memory_id)
            if row is not None:
                tables.memory[memory_id] = replace(row, key=row.key + " deleted")
            return row is not None


class EmptyAgentIsAnAgent(Reference):
    def remembers(self, row: MemoryRecord, agent_id: str, user_id: str, kind: str) -> bool:
        return agent_id == row.agent_id and user_id in ("", row.user_id) and kind in ("", row.kind)


class EmptyUserIsAUser(Reference):
    def remembers(self, row: MemoryRecord, agent_id: str, user_id: str, kind: str) -> bool:
        return agent_id in ("", row.agent_id) and user_id == row.user_id and kind in ("", row.kind)


class IgnoresKindWithAUser(Reference):
    def remembers(self, row: MemoryRecord, agent_id: str, user_id: str, kind: str) -> bool:
        return super().remembers(row, agent_id, user_id, "" if user_id else kind)


class ReplacesAnEndedSpan(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        trace = self.kept(trace)
        async with self.tables() as tables:
            tables.traces[trace.id] = trace


class RefusesASpanTwice(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        if await self.get_trace(trace.id) is not None:
            raise Conflict("taken")
        await super().insert_trace(trace)


class DropsAParent(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        await super().insert_trace(replace(trace, parent_id=None))


class ChecksASpanThenWrites(Reference):
    async def insert_trace(self, trace: Trace) -> None:
        stored = await self.get_trace(trace.id)
        if stored is not None and stored.ended_at is not None:
            raise Conflict("ended")
        async with self.tables() as tables:
            tables.traces[trace.id] = self.kept(trace)


class DropsARun(Reference):
    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        await super().save_checkpoint(replace(checkpoint, run_id=""))


class KeepsTheFirstCheckpoint(Reference):
    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        if await self.get_checkpoint(checkpoint.id) is None:
            await super().save_checkpoint(checkpoint)


class LatestCheckpointBySaving(Reference):
    def latest_checkpoint(self, tables: Tables, session_id: str) -> Checkpoint | None:
        rows = [row for row in tables.checkpoints.values() if row.session_id == session_id]
        return rows[-1] if rows else None


class LatestCheckpointById(Reference):
    def latest_checkpoint(self, tables: Tables, session_id: str) -> Checkpoint | None:
        rows = [row for row in tables.checkpoints.values() if row.session_id == session_id]
        return max(rows, key=lambda row: (row.seq, row.id), default=None)


class SeqsAsText(Reference):
    def checkpoint_key(self, row: Checkpoint) -> list[Any]:
        return [str(row.seq), row.id]

    def latest_checkpoint(self, tables: Tables, session_id: str) -> Checkpoint | None:
        rows = [row for row in reversed(tables.checkpoints.values()) if row.session_id == session_id]
        return max(rows, key=lambda row: str(row.seq), default=None)


PLANTS: Plants = {
    "test_what_is_absent_is_none": [
        (RaisesForNone, "nobody"),
        (AlwaysDeletes, "delete_memory: expected"),
    ],
    "test_a_session_comes_back_as_it_was_given": [
        (DropsATitle, "session full.title: expected"),
    ],
    "test_an_id_that_is_taken_is_a_conflict": [
        (CreatesAgain, "create_session of a taken id: expected"),
        (ListsARefusedSession, "the session.agent_id: expected"),
    ],
    "test_an_update_gives_back_what_it_stored_with_the_next_revision": [
        (KeepsTheRevision, "update 1.revision: expected"),
    ],
    "test_an_update_of_what_is_absent_is_not_found": [
        (UpdateMakesARow, "update_session of an absent one: expected"),
    ],
    "test_a_stale_update_is_a_conflict": [
        (IgnoresTheRevision, "update_session with .'revision': 0.: expected"),
        (IgnoresLastSeq, "update_session with .'last_seq': 4.: expected"),
        (TakesAFutureRevision, "update_session with .'revision': 3.: expected"),
    ],
    "test_one_of_many_updates_wins": [
        (ChecksARevisionThenWrites, "turn 0: how many of eight had a Conflict"),
    ],
    "test_one_of_many_creations_wins": [
        (ChecksAnIdThenCreates, "turn 0: how many of eight had a Conflict"),
    ],
    "test_memory_comes_back_as_it_was_given": [
        (DropsAKind, "the memory.kind: expected"),
    ],
    "test_memory_of_the_same_id_is_replaced": [
        (OneMemoryAKey, "under its old key: expected"),
    ],
    "test_the_memory_that_was_updated_last_is_the_one_of_its_key": [
        (FirstMemoryOfAKey, "the memory of agent '' and user ''.id: expected"),
        (EmptyUserIsAUser, "the memory of agent '' and user ''.id: expected"),
    ],
    "test_a_put_that_makes_memory_older_lets_another_be_the_last": [
        (MemoryPutLast, "the memory.id: expected"),
    ],
    "test_deleted_memory_is_gone": [
        (AlwaysDeletes, "delete_memory, again: expected"),
        (OnlyHidesDeletedMemory, "delete_memory, again: expected"),
    ],
    "test_an_empty_agent_user_or_kind_means_all": [
        (EmptyAgentIsAnAgent, "memory of agent '', user '', kind '': expected"),
        (EmptyUserIsAUser, "memory of agent '', user '', kind '': expected"),
        (IgnoresKindWithAUser, "memory of agent '', user 'u', kind 'k': expected"),
    ],
    "test_a_trace_comes_back_as_it_was_given": [
        (DropsAParent, "trace full.parent_id: expected"),
    ],
    "test_a_span_that_has_not_ended_is_replaced_and_one_that_has_is_not": [
        (ReplacesAnEndedSpan, "a span that has ended, again: expected"),
        (RefusesASpanTwice, "taken"),
    ],
    "test_one_of_many_ends_of_a_span_wins": [
        (ChecksASpanThenWrites, "turn 0: how many of eight had a Conflict"),
    ],
    "test_a_checkpoint_comes_back_as_it_was_given": [
        (DropsARun, "checkpoint full.run_id: expected"),
    ],
    "test_a_checkpoint_of_the_same_id_is_replaced": [
        (KeepsTheFirstCheckpoint, "the seqs of the list: expected"),
    ],
    "test_the_latest_checkpoint_has_the_highest_seq": [
        (LatestCheckpointBySaving, "the latest of s: expected"),
        (SeqsAsText, "the latest of s: expected"),
    ],
    "test_among_equal_seqs_the_checkpoint_saved_last_is_the_latest": [
        (LatestCheckpointById, "the latest after a was saved: expected"),
    ],
    "test_pages_of_any_size_give_every_row_once_in_order": [
        (SeqsAsText, "list_checkpoints, 1 at a time: expected"),
    ],
}
"""Each check, with the stores that it finds out and what it says of them."""
