"""The log of a session: appended at its tail, whole or not at all, and read without a gap (D1, D2)."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Sequence

from gnomon.contracts.storage import Storage, read_events
from gnomon.errors import Conflict, InvalidInput
from gnomon.testing._storage_asking import (
    NextPage,
    expect_same,
    ledger,
    outcome,
    refused,
    rows_of,
    together,
    walk,
)
from gnomon.testing._storage_records import event, events
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._suite import expect
from gnomon.types.records import LedgerEvent, Page

__all__ = ["StorageLedger"]

_MEGABYTE = 2**20


class StorageLedger(StorageSuite):
    """The part of the suite that appends and reads events."""

    # --- appending

    async def test_events_are_appended_at_the_tail_from_one_on(self) -> None:
        """D1: and each is there as it was given, as soon as the append returns (D2)."""
        async with self.open() as storage:
            given: list[LedgerEvent] = []
            for seq in range(1, 8):
                given.append(event(seq, type=f"kind {seq}", version=seq))
                await storage.append_event(given[-1])
                expect_same(f"the log after append {seq}", given, await ledger(storage))

    async def test_a_taken_seq_is_a_conflict(self) -> None:
        """D1: whichever it is, also with the very same event; and the log is what it was."""
        async with self.open() as storage:
            await storage.append_events(events(range(1, 6)))
            for seq in (1, 3, 5):
                for again in (event(seq), event(seq, id="another", payload=b"another")):
                    await refused(f"seq {seq} of 5, again", storage.append_event(again), Conflict)
                    await refused(f"seq {seq} of 5, again", storage.append_events([again]), Conflict)
            await _expect_seqs(storage, 5, "after the conflicts")

    async def test_a_gap_is_a_conflict(self) -> None:
        """D1: in a log that is empty, and after its tail; the right seq is taken afterwards."""
        async with self.open() as storage:
            for tail in (0, 1, 2):
                for seq in (tail + 2, tail + 3, tail + 1_000_000):
                    await refused(f"seq {seq} after {tail}", storage.append_event(event(seq)), Conflict)
                    pair = events((seq, seq + 1))
                    await refused(f"seqs {seq}, {seq + 1}", storage.append_events(pair), Conflict)
                await _expect_seqs(storage, tail, f"after gaps behind {tail}")
                await storage.append_event(event(tail + 1))

    async def test_a_seq_below_one_is_refused(self) -> None:
        """D1: a log begins with 1."""
        async with self.open() as storage:
            for seq in (0, -1):
                await refused(f"seq {seq}", storage.append_event(event(seq)), Conflict, InvalidInput)
            pair = events((0, 1))
            await refused("seqs 0, 1", storage.append_events(pair), Conflict, InvalidInput)
            await _expect_seqs(storage, 0, "after the refusals")

    async def test_a_group_is_appended_whole_or_not_at_all(self) -> None:
        """D1: a group that begins or ends among what is there leaves nothing of itself."""
        async with self.open() as storage:
            await storage.append_events(events((1, 2, 3)))
            for seqs in ((3, 4), (2, 3, 4, 5), (1, 2, 3, 4), (5, 6)):
                group = events(seqs, id="late")
                await refused(f"group {seqs} after 3", storage.append_events(group), Conflict)
                await _expect_seqs(storage, 3, f"after group {seqs}")
            await storage.append_events(events((4, 5)))
            await _expect_seqs(storage, 5, "after group (4, 5)")

    async def test_a_group_that_does_not_count_up_is_refused(self) -> None:
        """D1: gaps, repeats and disorder inside a group; nothing of it is stored."""
        async with self.open() as storage:
            await storage.append_event(event(1))
            for seqs in ((2, 4), (2, 2), (3, 2), (2, 3, 5), (2, 3, 3), (2, 1)):
                call = storage.append_events(events(seqs))
                await refused(f"group {seqs}", call, Conflict, InvalidInput)
                await _expect_seqs(storage, 1, f"after group {seqs}")

    async def test_a_group_of_two_sessions_is_refused(self) -> None:
        """D1: a group belongs to one session, and neither gets a part of it."""
        async with self.open() as storage:
            await storage.append_event(event(1, "s"))
            for other in (event(3, "other"), event(1, "other")):
                mixed = [event(2, "s"), other]
                await refused("a group of two sessions", storage.append_events(mixed), InvalidInput)
            await _expect_seqs(storage, 1, "the first session")
            expect_same("the other session's log", [], await ledger(storage, "other"))

    async def test_an_empty_group_changes_nothing(self) -> None:
        """It is no append, or is refused."""
        async with self.open() as storage:
            await storage.append_event(event(1))
            found = await outcome(storage.append_events([]))
            if found is not None and not isinstance(found, InvalidInput):
                raise AssertionError(f"an empty group: expected nothing or InvalidInput, found {found!r}")
            await _expect_seqs(storage, 1, "after an empty group")

    async def test_any_sequence_is_a_group(self) -> None:
        """A list or a tuple, of one event or of three hundred, and it is left as it was."""
        async with self.open() as storage:
            groups: list[Sequence[LedgerEvent]] = [
                events((1,)),
                tuple(events((2, 3))),
                events(range(4, 304)),
            ]
            for group in groups:
                before = list(group)
                await storage.append_events(group)
                expect_same("the group that was given", before, list(group))
            await _expect_seqs(storage, 303, "after three groups")

    async def test_sessions_have_logs_of_their_own(self) -> None:
        """D1: each counts from 1, whatever its name has in common with another's."""
        names = ("s", "s:", "s:1", "s/1", "S", "s ", "ss", "%", "_", "s%", "s*", "[s]")
        async with self.open() as storage:
            for count, name in enumerate(names, start=1):
                await storage.append_events(events(range(1, count + 1), name, payload=name.encode()))
            for count, name in enumerate(names, start=1):
                found = await ledger(storage, name)
                expected = events(range(1, count + 1), name, payload=name.encode())
                expect_same(f"the log of {name!r}", expected, found)

    async def test_one_of_many_appends_of_a_seq_wins(self) -> None:
        """D1: eight at the same time, round after round; the others get a Conflict, and leave nothing."""
        async with self.open() as storage:
            won: list[str] = []
            for seq in range(1, 11):
                rivals = [event(seq, id=f"{seq} by {writer}") for writer in range(8)]
                ends = await asyncio.gather(*(outcome(storage.append_event(each)) for each in rivals))
                _expect_one_winner(f"eight appends of seq {seq}", ends)
                won.append(rivals[ends.index(None)].id)
            expect("the ids in the log", won, [each.id for each in await ledger(storage)])

    async def test_one_of_many_groups_that_overlap_wins(self) -> None:
        """D1: of groups of different lengths that all begin at the tail, one is there, whole."""
        async with self.open() as storage:
            tail = 0
            for turn in range(6):
                rivals = [events(range(tail + 1, tail + 2 + size), id=f"{turn}.{size}") for size in range(6)]
                ends = await asyncio.gather(*(outcome(storage.append_events(group)) for group in rivals))
                _expect_one_winner(f"six groups after {tail}", ends)
                winner = rivals[ends.index(None)]
                expect_same("the events of the turn", winner, await ledger(storage, after_seq=tail))
                tail += len(winner)

    async def test_no_reader_sees_a_part_of_a_group(self) -> None:
        """D1: whenever it looks, the log ends where a group does."""
        size, groups = 40, 8
        async with self.open() as storage:

            async def write() -> None:
                for number in range(groups):
                    await storage.append_events(events(range(number * size + 1, (number + 1) * size + 1)))
                    await asyncio.sleep(0)

            writing = asyncio.ensure_future(write())
            lengths: list[int] = []
            try:
                while not writing.done():
                    page = await storage.list_events("s", 0, groups * size)
                    lengths.append(len(page.items) if page.next is None else 0)
                    await asyncio.sleep(0)
            finally:
                await writing
            expect("lengths of the log that are no whole groups", [], [n for n in lengths if n % size])
            await _expect_seqs(storage, groups * size, "at the end")

    # --- reading

    async def test_reading_starts_after_the_given_seq(self) -> None:
        """D2: whether groups begin there or not; beyond the end there is nothing."""
        async with self.open() as storage:
            await _append_in_groups(storage, (1, 2, 3, 4, 1, 5, 4))
            whole = events(range(1, 21))
            for after in (*range(22), 1_000, 2**40):
                expect_same(
                    f"events after {after}", whole[after:], await rows_of(storage.list_events, "s", after)
                )

    async def test_pages_do_not_show_where_groups_end(self) -> None:
        """D2: every page size reads the same, from every place."""
        async with self.open() as storage:
            await _append_in_groups(storage, (3, 1, 7, 2, 5, 2))
            whole = events(range(1, 21))
            for limit in (1, 2, 3, 4, 6, 7, 19, 20, 21, 1_000):
                for after in (0, 1, 5, 12):
                    found = await walk(_pages(storage, after, limit), limit)
                    expect_same(f"events after {after}, {limit} at a time", whole[after:], found)

    async def test_what_is_appended_while_paging_is_read_too(self) -> None:
        """D2: nothing is skipped or read twice, and the end is where the log ends by then."""
        async with self.open() as storage:
            await storage.append_events(events(range(1, 8)))
            found: list[LedgerEvent] = []
            tail, cursor = 7, None
            while True:
                page = await storage.list_events("s", 0, 3, cursor=cursor)
                found += page.items
                if page.next is None:
                    break
                cursor = page.next
                if tail < 19:
                    await storage.append_events(events(range(tail + 1, tail + 5)))
                    tail += 4
            expect_same("the events that were read", events(range(1, tail + 1)), found)

    async def test_a_reader_sees_what_was_appended_before_it_asked(self) -> None:
        """D2: by whomever, through whichever view, while others append elsewhere."""
        async with self.open() as storage:

            async def write_and_read(name: str) -> None:
                for seq in range(1, 13):
                    await storage.append_event(event(seq, name))
                    found = await rows_of(storage.scoped("default").list_events, name, seq - 1)
                    expect(f"events of {name} after {seq - 1}", [seq], [each.seq for each in found])

            await together(*(write_and_read(f"session {number}") for number in range(6)))

    async def test_a_long_log_is_read_in_pages(self) -> None:
        """D2: 3,000 events, by `read_events`, in order and complete."""
        async with self.open() as storage:
            for first in range(1, 3_001, 150):
                await storage.append_events(events(range(first, first + 150)))
            async with read_events(storage, "s", page_size=100) as stream:
                found = [each async for each in stream]
            expect_same("3,000 events", events(range(1, 3_001)), found)
            async with read_events(storage, "s", after_seq=2_750, page_size=100) as stream:
                expect("the events after 2,750", 250, len([each async for each in stream]))
            expect("a page has at most 50", True, 0 < len((await storage.list_events("s")).items) <= 50)

    async def test_a_page_is_all_that_is_held(self) -> None:
        """D2: reading sixteen megabytes in pages of one takes the memory of a few."""
        async with self.open() as storage:
            for seq in range(1, 17):
                await storage.append_event(event(seq, payload=bytes([seq]) * _MEGABYTE))
            tracemalloc.start()
            try:
                async with read_events(storage, "s", page_size=1) as stream:
                    sizes = [len(each.payload) async for each in stream]
                most = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
            expect("the sizes of the payloads", [_MEGABYTE] * 16, sizes)
            if most > 10 * _MEGABYTE:
                raise AssertionError(f"memory while reading 16 MB by the megabyte: found {most} bytes")

    async def test_a_log_that_is_not_there_is_empty(self) -> None:
        """D2: it is no error to read it."""
        async with self.open() as storage:
            expect_same("a page of no log", Page(()), await storage.list_events("nobody"))
            expect_same("a page of no log", Page(()), await storage.list_events("nobody", 7, 1))


# --- appending and judging ----------------------------------------------------------


async def _append_in_groups(storage: Storage, sizes: Sequence[int]) -> None:
    tail = 0
    for size in sizes:
        group = events(range(tail + 1, tail + size + 1))
        await (storage.append_event(group[0]) if size == 1 else storage.append_events(group))
        tail += size


def _pages(storage: Storage, after: int, limit: int) -> NextPage[LedgerEvent]:
    return lambda cursor: storage.list_events("s", after, limit, cursor=cursor)


async def _expect_seqs(storage: Storage, tail: int, what: str) -> None:
    """The log is 1 … tail, and each of its events is the first that was given."""
    __tracebackhide__ = True
    expect_same(f"{what}: the log", events(range(1, tail + 1)), await ledger(storage))


def _expect_one_winner(what: str, ends: Sequence[object]) -> None:
    others = [end for end in ends if end is not None and not isinstance(end, Conflict)]
    expect(f"{what}: ends that are neither success nor Conflict", [], others)
    expect(f"{what}: how many were taken", 1, len([end for end in ends if end is None]))
