"""Waiting that is ended from outside: told apart from a cancellation, and over when the wait is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest

from gnomon.engine.interrupt import Interrupt, Interrupted


async def forever() -> None:
    await asyncio.Event().wait()


async def started(interrupt: Interrupt) -> asyncio.Task[None]:
    task = asyncio.create_task(interrupt.wait(forever()))
    await asyncio.sleep(0)
    return task


async def test_a_wait_gives_what_the_work_gives() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 5

    assert await Interrupt().wait(work()) == 5


async def test_a_wait_that_is_ended_from_outside_says_so_and_the_work_is_cancelled() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await forever()
        finally:
            ended.append("work")

    interrupt = Interrupt()
    task = asyncio.create_task(interrupt.wait(work()))
    await asyncio.sleep(0)
    interrupt.set()
    interrupt.set()  # twice is once
    with pytest.raises(Interrupted):
        await task
    assert ended == ["work"]
    assert task.cancelling() == 0, "nobody cancelled the task itself"


async def test_a_task_that_is_cancelled_is_cancelled_and_not_interrupted() -> None:
    task = await started(Interrupt())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_of_both_at_once_the_cancellation_of_the_task_counts() -> None:
    interrupt = Interrupt()
    task = await started(interrupt)
    interrupt.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelling() == 1


async def test_work_that_ends_although_it_was_cancelled_gives_its_result() -> None:
    async def stubborn() -> str:
        try:
            await forever()
        except asyncio.CancelledError:
            return "done all the same"
        raise AssertionError

    interrupt = Interrupt()

    async def reading() -> tuple[str, int]:
        found = await interrupt.wait(stubborn())
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return found, task.cancelling()

    task = asyncio.create_task(reading())
    await asyncio.sleep(0)
    interrupt.set()
    assert await task == ("done all the same", 0)


async def test_nothing_is_cancelled_while_nobody_waits() -> None:
    interrupt = Interrupt()
    interrupt.set()
    await asyncio.sleep(0)
    assert interrupt.is_set


# --- the next of many ---------------------------------------------------------------


async def counted(*, waits: bool = False) -> AsyncGenerator[int, None]:
    for number in range(3):
        if waits:
            await asyncio.Event().wait()
        yield number


async def test_events_come_one_after_another_until_there_are_no_more() -> None:
    interrupt, events = Interrupt(), counted()
    assert [await interrupt.next(events) for _ in range(4)] == [0, 1, 2, None]
    assert interrupt.task is None


async def test_the_wait_for_an_event_can_be_ended() -> None:
    interrupt = Interrupt()
    task = asyncio.create_task(interrupt.next(counted(waits=True)))
    await asyncio.sleep(0)
    interrupt.set()
    with pytest.raises(Interrupted):
        await task
    assert (interrupt.task, interrupt.fired) == (None, None)


async def test_a_cancellation_of_somebody_elses_stays_what_it_is() -> None:
    interrupt = Interrupt()
    task = asyncio.create_task(interrupt.next(counted(waits=True)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_end_that_comes_as_the_event_comes_is_taken_back() -> None:
    """The event is there, and the task that reads goes on uncancelled."""
    interrupt, ready = Interrupt(), asyncio.Event()

    async def late() -> AsyncGenerator[str, None]:
        try:
            await ready.wait()
        except asyncio.CancelledError:
            yield "all the same"

    async def reading() -> tuple[str | None, int]:
        found = await interrupt.next(late())
        task = asyncio.current_task()
        assert task is not None
        await asyncio.sleep(0)
        return found, task.cancelling()

    task = asyncio.create_task(reading())
    await asyncio.sleep(0)
    interrupt.set()
    assert await task == ("all the same", 0)
