"""A log that was pruned elsewhere begins in the midst, and nobody sees how."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gnomon.contracts.storage import SupportsImport, read_events
from gnomon.errors import Conflict, InvalidInput
from gnomon.storage._events import _VACANT
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import Group
from stored import at, checkpoint, event, events, in_file, opened, session


@pytest.fixture(params=["memory", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://" if request.param == "memory" else in_file(tmp_path / "a.db")


async def seqs(store: RecordStorage, page_size: int = 500, after_seq: int = 0) -> list[int]:
    async with read_events(store, "s", after_seq=after_seq, page_size=page_size) as found:
        return [event.seq async for event in found]


async def test_it_goes_on_after_what_it_began_with(url: str) -> None:
    async with opened(url) as store:
        assert isinstance(store, SupportsImport)
        await store.begin_log(events("s", 11, 13))
        await store.append_events(events("s", 14, 15))
        assert await seqs(store) == [11, 12, 13, 14, 15]
        assert [group.first for group in await store._rows.read("default", "s", 0, 9)] == [11, 14]
        with pytest.raises(Conflict):
            await store.append_event(event("s", 17))
        with pytest.raises(Conflict):
            await store.append_event(event("s", 1))


async def test_one_that_begins_with_1_is_a_plain_append(url: str) -> None:
    async with opened(url) as store:
        await store.begin_log(events("s", 1, 2))
        assert await seqs(store) == [1, 2]
        with pytest.raises(InvalidInput):
            await store.begin_log([])


@pytest.mark.parametrize("first", [1, 6, 11])
async def test_a_log_that_is_there_is_not_begun_again(url: str, first: int) -> None:
    async with opened(url) as store:
        await store.append_events(events("s", 1, 5))
        with pytest.raises(Conflict):
            await store.begin_log(events("s", 11 if first == 6 else first, 12))
        assert await seqs(store) == [1, 2, 3, 4, 5]


@asynccontextmanager
async def interrupted(url: str, *, with_events: bool) -> AsyncGenerator[RecordStorage, None]:
    """As a process leaves it that was killed in the midst."""
    async with opened(url) as store:
        await store.create_session(session("s"))
        assert await store._rows.append("default", "s", Group(1, 10, _VACANT))
        if with_events:
            for seq in (11, 12, 13):
                await store.append_event(event("s", seq))
        yield store


async def test_what_a_killed_one_left_shows_nothing_and_can_be_gone_on_from(url: str) -> None:
    async with interrupted(url, with_events=False) as store:
        assert await seqs(store) == []
        assert (await store.list_events("s", limit=1)).next is None
        await store.begin_log(events("s", 11, 12))
        assert await seqs(store) == [11, 12]


async def test_a_killed_one_may_be_followed_by_one_that_begins_elsewhere(url: str) -> None:
    async with interrupted(url, with_events=False) as store:
        await store.begin_log(events("s", 21, 22))
        assert await seqs(store) == [21, 22]


@pytest.mark.parametrize("page_size", [1, 2, 500])
@pytest.mark.parametrize("after_seq", [0, 5, 10, 12])
async def test_what_stands_for_the_pruned_ones_is_not_seen_by_a_reader(
    url: str, page_size: int, after_seq: int
) -> None:
    async with interrupted(url, with_events=True) as store:
        wanted = [seq for seq in (11, 12, 13) if seq > after_seq]
        assert await seqs(store, page_size, after_seq) == wanted
        async with store.watch("s", after_seq) as watched:
            assert [(await anext(aiter(watched))).seq for _ in wanted] == wanted


async def test_it_is_pruned_with_the_others(url: str) -> None:
    async with interrupted(url, with_events=True) as store:
        await store.save_checkpoint(checkpoint("c", "s", 13, view_start=13))
        await store.prune("events", at(1_000))
        assert await seqs(store) == [13]
        assert len(await store._rows.read("default", "s", 0, 9)) == 1


async def test_what_was_begun_and_has_events_is_not_begun_again(url: str) -> None:
    async with interrupted(url, with_events=True) as store:
        with pytest.raises(Conflict):
            await store.begin_log(events("s", 11, 12))
        assert await seqs(store) == [11, 12, 13]


@pytest.mark.parametrize("after_seq", [0, 1, 5])
async def test_a_page_of_events_needs_no_more_groups_than_hold_them(tmp_path: Path, after_seq: int) -> None:
    async with opened(in_file(tmp_path / "a.db")) as store:
        await store.create_session(session("s"))
        for first in range(1, 40, 3):
            await store.append_events(events("s", first, first + 2))
        groups = await store._rows.read("default", "s", after_seq, 7)
        assert groups[-2].last < after_seq + 7 <= groups[-1].last
        page = await store.list_events("s", after_seq, 6)
        assert [found.seq for found in page.items] == list(range(after_seq + 1, after_seq + 7))
        assert await seqs(store, 6, after_seq) == list(range(after_seq + 1, 40))
