"""Parts of a request: by count, by size, a few at once, and what happens when one fails."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.embedders._batches import in_parallel, parts
from gnomon.errors import Overloaded


@given(st.lists(st.integers(0, 50)), st.integers(1, 9), st.integers(1, 100))
def test_parts_hold_every_place_once_in_order_and_none_is_too_large(
    sizes: list[int], most: int, most_size: int
) -> None:
    found = parts(sizes, most=most, most_size=most_size)
    assert [at for part in found for at in part] == list(range(len(sizes)))
    for part in found:
        assert 0 < len(part) <= most
        assert len(part) == 1 or sum(sizes[at] for at in part) <= most_size


@given(st.lists(st.integers(1, 50), min_size=2), st.integers(1, 9), st.integers(1, 100))
def test_no_part_could_have_taken_the_next_text(sizes: list[int], most: int, most_size: int) -> None:
    found = parts(sizes, most=most, most_size=most_size)
    for part, following in pairwise(found):
        more = sum(sizes[at] for at in part) + sizes[following[0]]
        assert len(part) == most or more > most_size


def one_each(count: int) -> list[range]:
    return [range(at, at + 1) for at in range(count)]


@pytest.mark.parametrize("most", [1, 3, 8])
async def test_no_more_than_so_many_are_under_way_at_once_and_answers_keep_their_order(most: int) -> None:
    running, highest = 0, 0

    async def ask(place: range) -> int:
        nonlocal running, highest
        running += 1
        highest = max(highest, running)
        await asyncio.sleep(0.001 * (20 - place[0]))
        running -= 1
        return place[0]

    assert await in_parallel(ask, one_each(20), most) == list(range(20))
    assert highest == most


async def test_the_first_failure_is_the_error_and_the_others_are_called_off() -> None:
    begun, ended = [], []

    async def ask(place: range) -> None:
        begun.append(place[0])
        if place[0] == 1:
            raise Overloaded("busy", vendor="acme")
        await asyncio.sleep(60)
        ended.append(place[0])

    with pytest.raises(Overloaded, match="busy"):
        await in_parallel(ask, one_each(9), 3)
    assert begun == [0, 1, 2]
    assert ended == []


async def test_cancelling_reaches_everyone_under_way() -> None:
    cancelled = []

    async def ask(place: range) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(place[0])
            raise

    task = asyncio.ensure_future(in_parallel(ask, one_each(9), 3))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(cancelled) == [0, 1, 2]
