"""The rows of sessions, memory, traces and checkpoints: absent, taken, stale and replaced (D4)."""

from __future__ import annotations

import asyncio
from itertools import product

from msgspec.structs import replace

from gnomon.contracts.storage import Storage
from gnomon.errors import Conflict, NotFound
from gnomon.testing._storage_asking import expect_same, outcome, refused, rows_of, together
from gnomon.testing._storage_records import at, checkpoint, memory, session, trace
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._suite import expect
from gnomon.types.records import MemoryRecord

__all__ = ["StorageRows"]


class StorageRows(StorageSuite):
    """The part of the suite that creates, gets and updates single rows."""

    async def test_what_is_absent_is_none(self) -> None:
        """D4: for every `get`; and what is deleted twice was not there."""
        async with self.open() as storage:
            expect("get_session", None, await storage.get_session("nobody"))
            expect("get_memory", None, await storage.get_memory("nobody", "nothing"))
            expect("get_trace", None, await storage.get_trace("nothing"))
            expect("get_checkpoint", None, await storage.get_checkpoint("nothing"))
            expect("get_latest_checkpoint", None, await storage.get_latest_checkpoint("nobody"))
            expect("delete_memory", False, await storage.delete_memory("nothing"))

    # --- sessions

    async def test_a_session_comes_back_as_it_was_given(self) -> None:
        """Every field, also those that have their default."""
        full = session(
            "full",
            agent_id="a",
            user_id="u",
            status="waiting",
            title="A title",
            metadata={"n": [1, {"deep": None}]},
            last_seq=41,
            runnable=True,
            wake_at=at(60),
            updated_at=at(5),
        )
        async with self.open() as storage:
            for given in (full, session("plain")):
                await storage.create_session(given)
                expect_same(f"session {given.id}", given, await storage.get_session(given.id))

    async def test_an_id_that_is_taken_is_a_conflict(self) -> None:
        """D4: and what was there stays what it was, in the lists too."""
        async with self.open() as storage:
            first = session("s", agent_id="first", title="first")
            await storage.create_session(first)
            again = session("s", agent_id="second", runnable=True, created_at=at(9))
            for given in (first, again):
                await refused("create_session of a taken id", storage.create_session(given), Conflict)
            expect_same("the session", first, await storage.get_session("s"))
            expect_same("all sessions", [first], await rows_of(storage.list_sessions))
            expect_same("sessions of the second", [], await rows_of(storage.list_sessions, "second"))
            expect_same("runnable sessions", [], await rows_of(storage.list_runnable, at(99)))

    async def test_an_update_gives_back_what_it_stored_with_the_next_revision(self) -> None:
        """D4: each time, and every field is the given one."""
        async with self.open() as storage:
            await storage.create_session(session("s"))
            stored = session("s")
            for turn in range(1, 5):
                given = replace(stored, title=f"turn {turn}", last_seq=turn, metadata={"turn": turn})
                stored = await storage.update_session(given)
                expect_same(f"update {turn}", replace(given, revision=given.revision + 1), stored)
                expect_same(f"the session after update {turn}", stored, await storage.get_session("s"))

    async def test_an_update_of_what_is_absent_is_not_found(self) -> None:
        """D4: whatever its revision; and it makes no row."""
        async with self.open() as storage:
            for revision in (0, 1):
                call = storage.update_session(session("nobody", revision=revision))
                await refused("update_session of an absent one", call, NotFound)
            expect("the session", None, await storage.get_session("nobody"))
            expect_same("all sessions", [], await rows_of(storage.list_sessions))

    async def test_a_stale_update_is_a_conflict(self) -> None:
        """D4: an older or unknown revision, or a lower last_seq; nothing is half changed."""
        async with self.open() as storage:
            await storage.create_session(session("s", last_seq=3, agent_id="a"))
            first = await storage.update_session(session("s", last_seq=5, agent_id="a"))
            stored = await storage.update_session(replace(first, last_seq=5))
            for changes in ({"revision": 0}, {"revision": 1}, {"revision": 3}, {"last_seq": 4}):
                stale = replace(stored, title="late", agent_id="b", runnable=True, **changes)
                await refused(f"update_session with {changes}", storage.update_session(stale), Conflict)
            expect_same("the session", stored, await storage.get_session("s"))
            expect_same("sessions of a", [stored], await rows_of(storage.list_sessions, "a"))
            expect_same("sessions of b", [], await rows_of(storage.list_sessions, "b"))
            expect_same("runnable sessions", [], await rows_of(storage.list_runnable, at(99)))

    async def test_one_of_many_updates_wins(self) -> None:
        """D4: eight of the same revision at the same time, and again; what is stored is the winner's."""
        async with self.open() as storage:
            await storage.create_session(session("s"))
            stored = session("s")
            for turn in range(5):
                rivals = [replace(stored, title=f"{turn}.{rival}") for rival in range(8)]
                ends = await asyncio.gather(*(outcome(storage.update_session(each)) for each in rivals))
                lost = [end for end in ends if isinstance(end, Conflict)]
                expect(f"turn {turn}: how many of eight had a Conflict, in {ends}", 7, len(lost))
                found = await storage.get_session("s")
                expect_same("the session", next(end for end in ends if end not in lost), found)
                stored = found or stored

    async def test_one_of_many_creations_wins(self) -> None:
        """D4: eight of one id at the same time."""
        async with self.open() as storage:
            for turn in range(5):
                rivals = [session(f"s {turn}", title=f"by {rival}") for rival in range(8)]
                ends = await asyncio.gather(*(outcome(storage.create_session(each)) for each in rivals))
                lost = [end for end in ends if isinstance(end, Conflict)]
                expect(f"turn {turn}: how many of eight had a Conflict, in {ends}", 7, len(lost))
                winner = rivals[ends.index(None)]
                expect_same("the session", winner, await storage.get_session(winner.id))
            expect("the number of sessions", 5, len(await rows_of(storage.list_sessions)))

    # --- memory

    async def test_memory_comes_back_as_it_was_given(self) -> None:
        """Every field, and any JSON value."""
        full = memory(
            "full", key="k", value={"a": [1, "x"]}, session_id="s", agent_id="a", user_id="u", kind="fact"
        )
        async with self.open() as storage:
            await storage.put_memory(full)
            await storage.put_memory(memory("plain", key="other"))
            expect_same("the memory", full, await storage.get_memory("a", "k", user_id="u"))
            expect_same("the memory", memory("plain", key="other"), await storage.get_memory("", "other"))

    async def test_memory_of_the_same_id_is_replaced(self) -> None:
        """And is found under its new names only; no other record is touched."""
        async with self.open() as storage:
            other = memory("other", key="k", agent_id="a", updated_at=at(-9))
            await storage.put_memory(other)
            await storage.put_memory(memory("m", key="k", agent_id="a", user_id="u", kind="old", value=1))
            moved = memory("m", key="k2", agent_id="b", user_id="v", kind="new", value=2, updated_at=at(1))
            await storage.put_memory(moved)
            expect_same("under its new names", moved, await storage.get_memory("b", "k2", user_id="v"))
            expect_same("under its old key", other, await storage.get_memory("", "k"))
            for names in ({"agent_id": "a"}, {"user_id": "u"}, {"kind": "old"}):
                found = await rows_of(storage.list_memory, **names)
                expect(f"listed under its old {names}", [], [each.id for each in found if each.id == "m"])
            expect_same("all", [other, moved], await rows_of(storage.list_memory))

    async def test_the_memory_that_was_updated_last_is_the_one_of_its_key(self) -> None:
        """D4: for an agent, for a user, for both and for all."""
        async with self.open() as storage:
            rows = [
                memory(f"{agent}{user}{turn}", agent_id=agent, user_id=user, value=turn, updated_at=at(age))
                for turn, (agent, user, age) in enumerate(
                    [
                        ("a", "u", 5),
                        ("a", "u", 3),
                        ("a", "v", 9),
                        ("b", "u", 7),
                        ("b", "", 1),
                        ("", "v", 2),
                    ]
                )
            ]
            for row in rows:
                await storage.put_memory(row)
                await storage.put_memory(replace(row, id=f"x{row.id}", key="key2", updated_at=at(999)))
            for agent, user in product(("", "a", "b", "c"), ("", "u", "v", "w")):
                fitting = [row for row in rows if agent in ("", row.agent_id) and user in ("", row.user_id)]
                expected = max(fitting, key=lambda row: row.updated_at, default=None)
                found = await storage.get_memory(agent, "key", user_id=user)
                expect_same(f"the memory of agent {agent!r} and user {user!r}", expected, found)

    async def test_a_put_that_makes_memory_older_lets_another_be_the_last(self) -> None:
        """D4: what counts is the record as it is now."""
        async with self.open() as storage:
            await storage.put_memory(memory("one", updated_at=at(5)))
            await storage.put_memory(memory("two", updated_at=at(3)))
            await storage.put_memory(memory("one", updated_at=at(1)))
            expect_same("the memory", memory("two", updated_at=at(3)), await storage.get_memory("", "key"))

    async def test_deleted_memory_is_gone(self) -> None:
        """From every list; the answer says whether there was one, and others stay."""
        async with self.open() as storage:
            await storage.put_memory(memory("m", agent_id="a", user_id="u"))
            await storage.put_memory(memory("n", agent_id="a", key="n"))
            expect("delete_memory", True, await storage.delete_memory("m"))
            expect("delete_memory, again", False, await storage.delete_memory("m"))
            expect("get_memory", None, await storage.get_memory("a", "key"))
            rest = [memory("n", agent_id="a", key="n")]
            for names in ({}, {"agent_id": "a"}):
                expect_same(f"the list with {names}", rest, await rows_of(storage.list_memory, **names))
            expect_same("the user's list", [], await rows_of(storage.list_memory, user_id="u"))
            await storage.put_memory(memory("m", value="again"))
            expect_same("put again", memory("m", value="again"), await storage.get_memory("", "key"))

    async def test_an_empty_agent_user_or_kind_means_all(self) -> None:
        """D3: on every list, alone and together with the others."""
        names = list(product(("", "a", "b"), ("", "u", "v"), ("k", "l")))
        async with self.open() as storage:
            rows = [
                memory(f"{at:02}", key=f"key {at:02}", agent_id=agent, user_id=user, kind=kind)
                for at, (agent, user, kind) in enumerate(names)
            ]
            await together(*map(storage.put_memory, rows))
            for agent, user, kind in product(("", "a", "c"), ("", "u", "w"), ("", "k", "m")):
                expected = [row.id for row in rows if _fits(row, agent, user, kind)]
                found = await _memory_ids(storage, agent, user, kind)
                expect(f"memory of agent {agent!r}, user {user!r}, kind {kind!r}", expected, found)

    # --- traces

    async def test_a_trace_comes_back_as_it_was_given(self) -> None:
        """Every field."""
        full = trace(
            "full",
            parent_id="parent",
            ended_at=at(3),
            input={"q": [1, 2]},
            output="text",
            error="it broke",
            attributes={"n": 1.5},
        )
        async with self.open() as storage:
            for given in (full, trace("plain")):
                await storage.insert_trace(given)
                expect_same(f"trace {given.id}", given, await storage.get_trace(given.id))

    async def test_a_span_that_has_not_ended_is_replaced_and_one_that_has_is_not(self) -> None:
        """D4: it ends once; what comes later is a Conflict and changes nothing."""
        async with self.open() as storage:
            await storage.insert_trace(trace("t", name="started"))
            await storage.insert_trace(trace("t", name="going on", started_at=at(1)))
            ended = trace("t", name="ended", started_at=at(1), ended_at=at(2), output=["done"])
            await storage.insert_trace(ended)
            for late in (ended, trace("t"), trace("t", ended_at=at(7))):
                await refused("a span that has ended, again", storage.insert_trace(late), Conflict)
            expect_same("the trace", ended, await storage.get_trace("t"))
            expect_same("the list", [ended], await rows_of(storage.list_traces, "s"))

    async def test_one_of_many_ends_of_a_span_wins(self) -> None:
        """D4: eight at the same time."""
        async with self.open() as storage:
            for turn in range(3):
                await storage.insert_trace(trace(f"t{turn}"))
                rivals = [trace(f"t{turn}", ended_at=at(1), output=rival) for rival in range(8)]
                ends = await asyncio.gather(*(outcome(storage.insert_trace(each)) for each in rivals))
                lost = [end for end in ends if isinstance(end, Conflict)]
                expect(f"turn {turn}: how many of eight had a Conflict, in {ends}", 7, len(lost))
                expect_same("the trace", rivals[ends.index(None)], await storage.get_trace(f"t{turn}"))

    # --- checkpoints

    async def test_a_checkpoint_comes_back_as_it_was_given(self) -> None:
        """Every field."""
        full = checkpoint("full", seq=7, run_id="r", node_id="n", state={"view_start": 3, "open": ["c"]})
        async with self.open() as storage:
            for given in (full, checkpoint("plain", seq=9)):
                await storage.save_checkpoint(given)
                expect_same(f"checkpoint {given.id}", given, await storage.get_checkpoint(given.id))

    async def test_a_checkpoint_of_the_same_id_is_replaced(self) -> None:
        """And stands where its new seq puts it, once."""
        async with self.open() as storage:
            for seq in (3, 5, 8):
                await storage.save_checkpoint(checkpoint(f"c{seq}", seq=seq))
            await storage.save_checkpoint(checkpoint("c3", seq=6, state={"new": True}))
            expect("the seqs of the list", [5, 6, 8], await _checkpoint_seqs(storage, "s"))
            await storage.save_checkpoint(checkpoint("c8", seq=1))
            expect("the seqs of the list", [1, 5, 6], await _checkpoint_seqs(storage, "s"))
            latest = await storage.get_latest_checkpoint("s")
            expect_same("the latest", checkpoint("c3", seq=6, state={"new": True}), latest)
            await storage.save_checkpoint(checkpoint("c5", "other", seq=5))
            expect("after one moved to another session", [1, 6], await _checkpoint_seqs(storage, "s"))
            expect("the other session's", [5], await _checkpoint_seqs(storage, "other"))

    async def test_the_latest_checkpoint_has_the_highest_seq(self) -> None:
        """D4: whenever it was saved; 10 is more than 9, and each session has its own."""
        async with self.open() as storage:
            for seq in (2, 10, 9, 1):
                await storage.save_checkpoint(checkpoint(f"c{seq}", seq=seq, created_at=at(-seq)))
            await storage.save_checkpoint(checkpoint("other", "other", seq=99))
            for name, expected in (("s", "c10"), ("other", "other")):
                found = await storage.get_latest_checkpoint(name)
                expect(f"the latest of {name}", expected, found and found.id)

    async def test_among_equal_seqs_the_checkpoint_saved_last_is_the_latest(self) -> None:
        """D4: also when it is an old one, saved once more."""
        async with self.open() as storage:
            for name in ("b", "c", "a", "b", "c", "c", "a"):
                await storage.save_checkpoint(checkpoint(name, seq=5))
                found = await storage.get_latest_checkpoint("s")
                expect(f"the latest after {name} was saved", name, found and found.id)
            expect("the seqs of the list", [5, 5, 5], await _checkpoint_seqs(storage, "s"))


def _fits(row: MemoryRecord, agent: str, user: str, kind: str) -> bool:
    return agent in ("", row.agent_id) and user in ("", row.user_id) and kind in ("", row.kind)


async def _memory_ids(storage: Storage, agent: str, user: str, kind: str) -> list[str]:
    return [row.id for row in await rows_of(storage.list_memory, agent, kind, user_id=user)]


async def _checkpoint_seqs(storage: Storage, session_id: str) -> list[int]:
    return [row.seq for row in await rows_of(storage.list_checkpoints, session_id)]
