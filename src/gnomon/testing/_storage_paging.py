"""Lists: bounded pages in a fixed order, by cursor or by offset, whatever comes and goes meanwhile (D3)."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta, timezone

from gnomon.contracts.storage import Storage, SupportsRetention
from gnomon.errors import InvalidInput
from gnomon.testing._storage_asking import outcome, refused, rows_of, walk
from gnomon.testing._storage_lists import LISTS, Listing, filled, ids, names
from gnomon.testing._storage_records import at, memory, session, trace
from gnomon.testing._storage_suite import StorageSuite
from gnomon.testing._suite import expect, skip
from gnomon.types.records import MemoryRecord, Page

__all__ = ["StoragePaging"]

_COUNT = 12

_GARBAGE = ("garbage", "AAAA", "é\u2028", "0", "-1", "null", "{}", "=", "\x00", "%00", "x" * 5_000)
_ENCODED = (b"{}", b"[]", b"null", b'["list_sessions", 1]', b"\x80\x04N.", bytes(range(256)))

_KEYS = (" ", "!", "0", "10", "9", "A", "Z", "a", "a\x01", "a\x02b", "a ", "a!", "ab", "a\x7f")
_KEYS_OF_OTHERS = ("z", "ä", "é", "ß", "ж", "東", "\ufb01", "\uffe5", "\U0001f642", "\U0010fffd")
"""Keys that differ in case, length and script; any two of them are told apart by their characters."""


class StoragePaging(StorageSuite):
    """The part of the suite that lists."""

    # --- pages

    async def test_pages_of_any_size_give_every_row_once_in_order(self) -> None:
        """D3: none has more rows than were asked for, and the last one says that it is the last."""
        async with self.open() as storage:
            await filled(storage, _COUNT)
            for listing in LISTS:
                for limit in (1, 2, 5, _COUNT - 1, _COUNT, _COUNT + 1, 100_000):
                    found = ids(await listing.rows(storage, limit))
                    expect(f"{listing.name}, {limit} at a time", names(range(1, _COUNT + 1)), found)

    async def test_the_next_page_is_there_only_when_it_has_rows(self) -> None:
        """D3: `Page.next` alone says whether there are more; a page that ends with the list has none."""
        async with self.open() as storage:
            await filled(storage, 4)
            for listing in LISTS:
                for limit in (1, 2, 4):
                    await _expect_no_empty_page(storage, listing, limit)

    async def test_an_empty_list_is_one_empty_page(self) -> None:
        """D3: for every list."""
        async with self.open() as storage:
            for listing in LISTS:
                found = await listing.page(storage, 10, 0, None)
                expect(f"{listing.name} of nothing", Page(()), found)

    async def test_the_same_cursor_twice_gives_the_same_page(self) -> None:
        """D3: a cursor is a place, and reading from it does not use it up."""
        async with self.open() as storage:
            await filled(storage, 5)
            for listing in LISTS:
                cursor = await listing.some_cursor(storage)
                for _ in range(2):
                    found = ids(await listing.rows(storage, 2, cursor=cursor))
                    expect(f"{listing.name} from its first cursor", names(range(2, 6)), found)

    async def test_offset_skips_rows(self) -> None:
        """D3: the seed's form; the cursor of a page that was reached so goes on from there."""
        async with self.open() as storage:
            await filled(storage, _COUNT)
            for listing in (each for each in LISTS if each.has_offset):
                for offset in (0, 1, 7, _COUNT - 1, _COUNT, _COUNT + 1, 1_000):
                    found = ids(await listing.rows(storage, 3, offset=offset))
                    expected = names(range(offset + 1, _COUNT + 1))
                    expect(f"{listing.name} from offset {offset}", expected, found)

    async def test_a_filter_and_pages_go_together(self) -> None:
        """D3: pages of what one agent, user or kind has, also where most rows are others'."""
        async with self.open() as storage:
            for number in range(40):
                agent = "rare" if number % 13 == 5 else "usual"
                row = memory(f"{number:02}", key=f"{number:02}", agent_id=agent, user_id="u", kind=agent[:2])
                await storage.put_memory(row)
            for filters in ({"agent_id": "rare"}, {"kind": "ra"}, {"user_id": "u", "kind": "ra"}):
                for offset, limit in ((0, 1), (0, 2), (1, 2), (2, 50)):
                    found = await rows_of(_small_pages(storage, limit, offset), **filters)
                    expected = ["05", "18", "31"][offset:]
                    expect(f"{filters}, from {offset}, {limit} at a time", expected, ids(found))

    # --- what is refused

    async def test_cursor_and_offset_together_are_refused(self) -> None:
        """D3: with `InvalidInput`."""
        async with self.open() as storage:
            await filled(storage, 3)
            for listing in (each for each in LISTS if each.has_offset):
                cursor = await listing.some_cursor(storage)
                await refused(listing.name, listing.page(storage, 1, 1, cursor), InvalidInput)

    async def test_a_cursor_that_is_none_is_refused(self) -> None:
        """D3: garbage of any kind, with `InvalidInput` and no other error."""
        async with self.open() as storage:
            await filled(storage, 2)
            encoded = [b64encode(text).decode() for text in _ENCODED]
            for listing in LISTS:
                for cursor in (*_GARBAGE, *encoded):
                    what = f"{listing.name} with cursor {cursor[:20]!r}"
                    await refused(what, listing.page(storage, 1, 0, cursor), InvalidInput)

    async def test_the_cursor_of_another_list_is_refused(self) -> None:
        """D3: each list with the cursors of all others."""
        async with self.open() as storage:
            await filled(storage, 2)
            for giver in LISTS:
                cursor = await giver.some_cursor(storage)
                for taker in (each for each in LISTS if each is not giver):
                    what = f"{taker.name} with a cursor of {giver.name}"
                    await refused(what, taker.page(storage, 1, 0, cursor), InvalidInput)

    async def test_a_damaged_cursor_is_refused_or_is_a_place(self) -> None:
        """D3: cut short or grown, it raises nothing but `InvalidInput`."""
        async with self.open() as storage:
            await filled(storage, 3)
            for listing in LISTS:
                cursor = await listing.some_cursor(storage)
                for damaged in (cursor[:-1], cursor[:-3], cursor[1:], cursor + "A", cursor + "é"):
                    found = await outcome(listing.page(storage, 1, 0, damaged))
                    if not isinstance(found, Page | InvalidInput):
                        raise AssertionError(f"{listing.name} with {damaged!r}: found {found!r}")

    async def test_a_limit_below_one_and_an_offset_below_none_are_refused(self) -> None:
        """D3: with `InvalidInput`, on every list."""
        async with self.open() as storage:
            await filled(storage, 2)
            for listing in LISTS:
                for limit in (0, -1):
                    call = listing.page(storage, limit, 0, None)
                    await refused(f"{listing.name} with limit={limit}", call, InvalidInput)
                if listing.has_offset:
                    call = listing.page(storage, 1, -1, None)
                    await refused(f"{listing.name} with offset=-1", call, InvalidInput)

    # --- order

    async def test_sessions_are_listed_newest_first_and_then_by_id(self) -> None:
        """D3: to the microsecond, in whatever zone the time was given; among equals ids go down too."""
        tokyo = timezone(timedelta(hours=9))
        async with self.open() as storage:
            for name, created in (
                ("b", at(0)),
                ("new", at(0.000001)),
                ("old", at(-0.000001)),
                ("A", at(0)),
                ("a", at(0).astimezone(tokyo)),
                ("newest", at(86_400 * 365)),
                ("c", at(0).astimezone(timezone(-timedelta(hours=11)))),
            ):
                await storage.create_session(session(name, created_at=created, updated_at=at(len(name))))
            found = ids(await rows_of(storage.list_sessions))
            expect("the sessions", ["newest", "new", "c", "b", "a", "A", "old"], found)

    async def test_an_empty_agent_lists_the_sessions_of_all(self) -> None:
        """D3: those without an agent too; a session that changes its agent changes lists."""
        async with self.open() as storage:
            for number, agent in enumerate(("a", "b", "", "a", "ab")):
                await storage.create_session(session(str(number), agent_id=agent, created_at=at(-number)))
            await storage.update_session(session("3", agent_id="b", created_at=at(-3)))
            for agent, expected in (("", "01234"), ("a", "0"), ("b", "13"), ("ab", "4"), ("c", "")):
                found = ids(await rows_of(storage.list_sessions, agent))
                expect(f"the sessions of agent {agent!r}", list(expected), found)

    async def test_memory_is_listed_by_key_and_then_id(self) -> None:
        """D3: compared character by character, not as in any language."""
        keys = sorted((*_KEYS, *_KEYS_OF_OTHERS))
        async with self.open() as storage:
            for at_, key in enumerate(reversed(keys)):
                for name in ("b", "B", "a"):
                    await storage.put_memory(memory(f"{name}{at_:02}", key=key))
            found = [(row.key, row.id[0]) for row in await rows_of(_small_pages(storage, 7))]
            expect("keys and ids", [(key, name) for key in keys for name in ("B", "a", "b")], found)

    async def test_traces_are_listed_by_start_and_then_id(self) -> None:
        """D3: whichever was inserted first; each session has its own."""
        async with self.open() as storage:
            for name, start in (("c", 1), ("b", 2), ("d", 1), ("a", 3), ("A", 1), ("first", 0.999999)):
                await storage.insert_trace(trace(name, started_at=at(start)))
            await storage.insert_trace(trace("other", "other"))
            expect(
                "the traces", ["first", "A", "c", "d", "b", "a"], ids(await rows_of(storage.list_traces, "s"))
            )

    # --- while rows come and go

    async def test_rows_that_come_meanwhile_make_no_page_skip_or_repeat(self) -> None:
        """D3: before the place that was reached, after it, and at it."""
        async with self.open() as storage:
            for listing in LISTS:
                first, later = _numbers(listing)
                for number in first:
                    await listing.put(storage, number)
                found: list[str] = []
                cursor: str | None = None
                while True:
                    page = await listing.page(storage, 2, 0, cursor)
                    found += ids(page.items)
                    if page.next is None:
                        break
                    cursor = page.next
                    for number in later.pop(0) if later else ():
                        await listing.put(storage, number)
                _expect_once(listing.name, names(sorted(first)), found)

    async def test_rows_that_go_meanwhile_make_no_page_skip_or_repeat(self) -> None:
        """D3: also when the very row goes that the cursor was made from."""
        async with self.open() as storage:
            await filled(storage, _COUNT)
            gone: set[str] = set()
            found: list[str] = []
            cursor: str | None = None
            while True:
                page = await storage.list_memory(limit=3, cursor=cursor)
                found += ids(page.items)
                if page.next is None:
                    break
                cursor = page.next
                going = {found[-1], found[0], names([int(found[-1][-4:]) + 1])[0]} - gone
                gone |= going
                for name in going:
                    await storage.delete_memory(name)
            _expect_once(
                "list_memory", [name for name in names(range(1, _COUNT + 1)) if name not in gone], found
            )

    async def test_sessions_that_go_meanwhile_make_no_page_skip_or_repeat(self) -> None:
        """D3: as for memory, where the store can delete a session."""
        async with self.open() as storage:
            if not isinstance(storage, SupportsRetention):
                skip(self, "SupportsRetention")
            for number in range(8):
                await storage.create_session(session(str(number), created_at=at(-number)))
            page = await storage.list_sessions(limit=3)
            for name in ("2", "0", "4"):
                await storage.delete_session(name)
            rest = await walk(lambda cursor: storage.list_sessions(limit=3, cursor=cursor), 3, page.next)
            found = [name for name in ids([*page.items, *rest]) if name not in ("2", "0", "4")]
            expect("the sessions that stayed", ["1", "3", "5", "6", "7"], found)

    async def test_paging_beside_a_writer_misses_nothing_that_was_there(self) -> None:
        """D3: while it inserts and deletes on both sides, as fast as it can."""
        async with self.open() as storage:
            throughout = [f"{number:03}" for number in range(0, 120, 5)]
            for name in throughout:
                await storage.put_memory(memory(name, key=name))
            stop = asyncio.Event()
            writing = asyncio.ensure_future(_come_and_go(storage, stop))
            try:
                for limit in (1, 4, 7):
                    found = ids(await rows_of(_small_pages(storage, limit)))
                    _expect_once(f"list_memory beside a writer, {limit} at a time", throughout, found)
            finally:
                stop.set()
                await writing


# --- paging and judging ---------------------------------------------------------------


def _small_pages(
    storage: Storage, limit: int, offset: int = 0
) -> Callable[..., Awaitable[Page[MemoryRecord]]]:
    async def listing(*, cursor: str | None, **filters: str) -> Page[MemoryRecord]:
        start = offset if cursor is None else 0
        return await storage.list_memory(limit=limit, offset=start, cursor=cursor, **filters)

    return listing


async def _expect_no_empty_page(storage: Storage, listing: Listing, limit: int) -> None:
    cursor: str | None = None
    for _ in range(10):
        page = await listing.page(storage, limit, 0, cursor)
        if not page.items and cursor is not None and page.next is None:
            raise AssertionError(
                f"{listing.name}, {limit} at a time: a last page that has no rows was promised"
            )
        if page.next is None:
            return
        cursor = page.next


def _numbers(listing: Listing) -> tuple[Sequence[int], list[tuple[int, ...]]]:
    """Which rows are there first, and which are to come after each page."""
    match listing.grows:
        case "anywhere":
            return range(2, 22, 2), [(number, 22 - number) for number in range(1, 11, 2)]
        case "at the end":
            return range(1, 11), [(11,), (12, 13), (14,)]
        case "at the front":
            return range(20, 10, -1), [(10,), (9, 8), (7,)]


def _expect_once(what: str, expected: Sequence[str], found: Sequence[str]) -> None:
    """Each row that was there throughout, once, and in its place."""
    kept = [name for name in found if name in set(expected)]
    expect(f"{what}: the rows that were there throughout", list(expected), kept)
    expect(f"{what}: rows that came twice", [], sorted({name for name in found if found.count(name) > 1}))


async def _come_and_go(storage: Storage, stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        number = (number + 37) % 120
        if number % 5:
            await storage.put_memory(memory(f"{number:03}", key=f"{number:03}"))
            await storage.delete_memory(f"{(number + 60) % 120:03}")
        await asyncio.sleep(0)
