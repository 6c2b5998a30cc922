"""Readers of one process that ask the same in the same moment are answered by one request."""

from __future__ import annotations

import asyncio

import pytest

from gnomon.storage._dynamo_sharing import Sharing


class Asked:
    """Counts requests; each answers with its number when it is let."""

    def __init__(self) -> None:
        self.begun = 0
        self.let = asyncio.Event()

    async def request(self) -> int:
        self.begun += 1
        number = self.begun
        await self.let.wait()
        return number


async def test_those_who_ask_in_one_moment_share_a_request() -> None:
    sharing, asked = Sharing[int](), Asked()
    asked.let.set()
    assert await asyncio.gather(*(sharing.ask("s", asked.request) for _ in range(5))) == [1] * 5
    assert await asyncio.gather(*(sharing.ask(name, asked.request) for name in "ab")) == [2, 3]


async def test_who_asks_after_a_request_has_begun_is_not_answered_by_it() -> None:
    sharing, asked = Sharing[int](), Asked()
    first = asyncio.ensure_future(sharing.ask("s", asked.request))
    await asyncio.sleep(0.01)
    assert asked.begun == 1
    second = asyncio.ensure_future(sharing.ask("s", asked.request))
    await asyncio.sleep(0)
    asked.let.set()
    assert [await first, await second] == [1, 2]


@pytest.mark.parametrize("steps", range(4))
async def test_a_request_lives_as_long_as_somebody_waits_for_it(steps: int) -> None:
    sharing, asked = Sharing[int](), Asked()
    tasks = [asyncio.ensure_future(sharing.ask("s", asked.request)) for _ in range(3)]
    for _ in range(steps):
        await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.sleep(0)
    asked.let.set()
    assert [await task for task in tasks[1:]] == [1, 1]
    lonely = asyncio.ensure_future(sharing.ask("s", Asked().request))
    for _ in range(steps):
        await asyncio.sleep(0)
    lonely.cancel()
    await asyncio.wait({lonely})
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert await sharing.ask("s", asked.request) == 2
