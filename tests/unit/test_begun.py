"""Waiting for somebody else's coroutine within a limit, whatever it does with its cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from gnomon import _begun
from gnomon._begun import BrokenOff, Overdue, within


@pytest.fixture(autouse=True)
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_begun, "GRACE_S", 0.05)


def cancelling() -> int:
    task = asyncio.current_task()
    assert task is not None
    return task.cancelling()


async def at_once() -> str:
    return "done"


async def later() -> str:
    await asyncio.sleep(0)
    await asyncio.sleep(0.001)
    return "done"


async def test_what_the_work_gives_is_given() -> None:
    assert await within(at_once(), 5) == "done"
    assert await within(later(), 5) == "done"
    assert await within(later(), None) == "done"
    assert await within(asyncio.ensure_future(later()), 5) == "done"


async def test_what_the_work_raises_is_raised() -> None:
    async def fails(pause_s: float) -> None:
        if pause_s:
            await asyncio.sleep(pause_s)
        raise TimeoutError("its own")

    for pause_s in (0.0, 0.001):
        with pytest.raises(TimeoutError, match="its own"):
            await within(fails(pause_s), 5)


async def test_work_that_hangs_is_overdue_and_was_cancelled() -> None:
    told: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # it may take a moment to let go
            await asyncio.sleep(0.001)
            told.append("cancelled")
            raise

    with pytest.raises(Overdue):
        await within(hangs(), 0.01)
    assert told == ["cancelled"]
    assert cancelling() == 0


async def test_work_that_does_not_hear_is_dropped() -> None:
    told: list[str] = []

    async def deaf() -> None:
        try:
            while True:
                try:
                    await asyncio.sleep(3600)
                except asyncio.CancelledError:
                    told.append("heard")
        finally:
            told.append("closed")

    with pytest.raises(Overdue):
        await within(deaf(), 0.01)
    assert told == ["heard", "closed"]
    assert cancelling() == 0


async def test_work_that_never_waits_long_is_dropped_too() -> None:
    async def restless() -> None:
        while True:
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue

    with pytest.raises(Overdue):
        await within(restless(), 0.01)


async def test_work_that_cannot_be_closed_fails_nobody() -> None:
    kept: list[object] = []

    async def stubborn(over: asyncio.Event) -> None:
        while not over.is_set():
            try:
                await over.wait()
            except BaseException as error:
                kept.append(error)

    over = asyncio.Event()
    work = stubborn(over)
    with pytest.raises(Overdue):
        await within(work, 0.01)
    assert [type(each) for each in kept] == [asyncio.CancelledError, GeneratorExit]
    over.set()
    ended = False
    while not ended:  # else it would complain when it is forgotten
        try:
            work.send(None)
        except StopIteration:
            ended = True


async def test_work_that_is_cancelled_from_outside_and_does_not_hear_ends_its_caller() -> None:
    heard = 0

    async def deaf() -> None:
        nonlocal heard
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                heard += 1

    task = asyncio.ensure_future(within(deaf(), None))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0.01)
    task.cancel()  # in its time of grace it is told again
    await asyncio.wait({task})
    assert task.cancelled()
    assert heard == 2


async def test_work_that_is_done_after_all_gives_what_it_has() -> None:
    async def slow() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
        return "in the end"

    assert await within(slow(), 0.01) == "in the end"
    assert cancelling() == 0


@pytest.mark.parametrize("pause_s", [0.0, 0.001])
async def test_work_that_cancels_itself_has_failed(pause_s: float) -> None:
    async def cancels() -> None:
        if pause_s:
            await asyncio.sleep(pause_s)
        raise asyncio.CancelledError

    with pytest.raises(BrokenOff):
        await within(cancels(), 5)


async def test_work_that_keeps_a_cancellation_to_itself_ends_its_caller() -> None:
    async def keeps() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.001)
        return "as if nothing had been"

    for limit_s in (None, 5):
        task = asyncio.ensure_future(within(keeps(), limit_s))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()


async def by_timeout() -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.001):
            await asyncio.sleep(3600)


async def by_a_group() -> None:
    async def fails() -> None:
        raise ValueError

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            await asyncio.sleep(3600)


async def by_another_task() -> None:
    other = asyncio.ensure_future(asyncio.sleep(3600))
    asyncio.get_running_loop().call_soon(other.cancel)
    with suppress(asyncio.CancelledError):
        await other


@pytest.mark.parametrize("cancels", [by_timeout, by_a_group, by_another_task])
async def test_a_cancellation_that_the_work_took_back_does_not_count(
    cancels: Callable[[], Awaitable[None]],
) -> None:
    async def goes_on() -> str:
        await cancels()
        await asyncio.sleep(0.1)  # longer than the time of grace
        return "done"

    assert await within(goes_on(), None) == "done"
    assert await within(goes_on(), 5) == "done"
    assert cancelling() == 0
