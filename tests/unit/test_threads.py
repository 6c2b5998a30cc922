"""Sync functions beside the loop: bounded, never in the way, never the death of it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator

import pytest

from gnomon import _threads
from gnomon._threads import abandoned, run_in_thread


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What hung functions wait for; they are let go at the end, and waited for."""
    mine: set[threading.Thread] = set()
    monkeypatch.setattr(_threads, "_abandoned", mine)
    event = threading.Event()
    yield event
    event.set()
    for thread in tuple(mine):
        thread.join(10)
        assert not thread.is_alive()


def hang(release: threading.Event) -> Callable[[], bool]:
    return lambda: release.wait(30)


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("what the test waits for did not happen")


# --- what comes back --------------------------------------------------------


async def test_what_the_function_returns_comes_back() -> None:
    assert await run_in_thread(lambda: 42) == 42
    assert await run_in_thread(lambda: None) is None


async def test_the_thread_is_named_for_its_work_and_does_not_keep_the_process() -> None:
    thread = await run_in_thread(threading.current_thread, name="weather")
    assert (thread.name, thread.daemon) == ("gnomon-weather", True)


@pytest.mark.parametrize(
    "error", [ValueError("x"), TimeoutError("x"), RuntimeError("x"), StopAsyncIteration()]
)
async def test_an_exception_comes_back_as_it_is(error: Exception) -> None:
    def breaks() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await run_in_thread(breaks)
    assert caught.value is error


@pytest.mark.parametrize(
    "error", [StopIteration(1), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()]
)
async def test_what_would_end_the_loop_or_the_task_comes_back_as_an_error(error: BaseException) -> None:
    def breaks() -> None:
        raise error

    with pytest.raises(RuntimeError, match=f"{type(error).__name__} was raised"):
        await asyncio.wait_for(run_in_thread(breaks), 10)
    assert await run_in_thread(lambda: "still there") == "still there"


async def test_context_variables_reach_the_thread_and_do_not_come_back() -> None:
    user = contextvars.ContextVar("user", default="nobody")
    user.set("ada")

    def change() -> str:
        seen = user.get()
        user.set("eve")
        return seen

    assert await run_in_thread(change) == "ada"
    assert user.get() == "ada"


# --- bounded ----------------------------------------------------------------


async def test_no_more_threads_run_than_allowed_and_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "LIMIT", 3)
    lock, running, most = threading.Lock(), 0, 0
    meet = threading.Barrier(3, timeout=10)  # passes only when three are there at once

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        meet.wait()
        with lock:
            running -= 1

    await asyncio.gather(*(run_in_thread(work) for _ in range(9)))
    assert most == 3


async def test_a_place_is_given_back_when_the_caller_stops_waiting(
    monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    monkeypatch.setattr(_threads, "LIMIT", 2)
    for _ in range(4):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await run_in_thread(hang(release))
    assert abandoned() == 4
    assert await asyncio.wait_for(run_in_thread(lambda: "free"), 10) == "free"
    release.set()
    await until(lambda: abandoned() == 0)


async def test_a_place_is_given_back_when_the_function_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "LIMIT", 1)

    def breaks() -> None:
        raise SystemExit

    for _ in range(3):
        with pytest.raises(RuntimeError):
            await asyncio.wait_for(run_in_thread(breaks), 10)


async def test_one_who_waits_for_a_place_can_be_cancelled(
    monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    monkeypatch.setattr(_threads, "LIMIT", 1)
    ran: list[str] = []
    first = asyncio.create_task(run_in_thread(hang(release)))
    second = asyncio.create_task(run_in_thread(lambda: ran.append("second")))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    release.set()
    assert await first is True
    assert ran == []
    assert await asyncio.wait_for(run_in_thread(lambda: 1), 10) == 1


async def test_a_late_result_disturbs_nobody(release: threading.Event) -> None:
    problems: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, problem: problems.append(problem))

    def breaks_late() -> None:
        release.wait(30)
        raise ValueError("too late")

    tasks = [asyncio.create_task(run_in_thread(work)) for work in (hang(release), breaks_late)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    release.set()
    await until(lambda: abandoned() == 0)
    await asyncio.sleep(0)
    gc.collect()
    assert problems == []


# --- nothing is left --------------------------------------------------------


def test_each_loop_has_places_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A semaphore belongs to one loop: the next `asyncio.run` must not meet that of the last."""
    monkeypatch.setattr(_threads, "LIMIT", 1)

    async def crowd() -> list[int]:
        return await asyncio.gather(*(run_in_thread(lambda: 1) for _ in range(5)))

    assert [asyncio.run(crowd()) for _ in range(3)] == [[1] * 5] * 3


def test_a_loop_that_is_over_is_let_go_when_the_next_one_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "LIMIT", 1)
    loops: list[weakref.ref[asyncio.AbstractEventLoop]] = []

    async def crowd() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        await asyncio.gather(*(run_in_thread(lambda: 1) for _ in range(5)))

    asyncio.run(crowd())
    asyncio.run(crowd())
    gc.collect()
    assert loops[0]() is None


async def test_threads_that_were_abandoned_and_ended_are_forgotten(release: threading.Event) -> None:
    """In a process that runs for months nobody may ever ask how many there are."""
    threads: list[weakref.ref[threading.Thread]] = []

    def work(gate: threading.Event) -> None:
        threads.append(weakref.ref(threading.current_thread()))
        gate.wait(30)

    async def abandon(gate: threading.Event) -> None:
        known = len(threads)
        task = asyncio.create_task(run_in_thread(lambda: work(gate)))
        await until(lambda: len(threads) > known)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    gate = threading.Event()
    await abandon(gate)
    gate.set()
    alive = threads[0]()
    assert alive is not None
    alive.join(10)
    del alive
    await abandon(release)
    gc.collect()
    assert threads[0]() is None


def test_counting_is_safe_while_another_loop_abandons_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loops in two threads share the book; here the other one writes while this one reads."""
    book: set[object] = set()

    class Busy:
        def is_alive(self) -> bool:
            book.add(object())
            book.add(threading.Thread())
            return False

    book.update({Busy(), Busy()})
    monkeypatch.setattr(_threads, "_abandoned", book)
    abandoned()


async def test_a_first_call_is_safe_while_another_loop_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    book: dict[object, object] = {}

    class Over:
        def is_closed(self) -> bool:
            book[object()] = None
            return True

    class Forgotten:
        """Another loop swept it out in the same moment."""

        def is_closed(self) -> bool:
            book.pop(self, None)
            return True

    book.update({Over(): None, Forgotten(): None})
    monkeypatch.setattr(_threads, "_places", book)
    assert await run_in_thread(lambda: 1) == 1


def test_a_thread_that_ends_while_the_loop_closes_says_nothing(
    monkeypatch: pytest.MonkeyPatch, release: threading.Event
) -> None:
    complaints: list[object] = []
    monkeypatch.setattr(threading, "excepthook", complaints.append)
    loop = asyncio.new_event_loop()
    threads: list[threading.Thread] = []

    def work() -> None:
        threads.append(threading.current_thread())
        release.wait(30)

    async def leave() -> None:
        task = asyncio.create_task(run_in_thread(work))
        await until(lambda: bool(threads))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    loop.run_until_complete(leave())
    loop.close()
    # The thread looks, and the loop closes right after: this is what it sees then.
    monkeypatch.setattr(loop, "is_closed", lambda: False)
    release.set()
    threads[0].join(10)
    monkeypatch.undo()
    assert complaints == []


def test_a_process_ends_though_a_thread_still_hangs() -> None:
    program = """
import asyncio, time
from gnomon._threads import abandoned, run_in_thread

async def main():
    try:
        async with asyncio.timeout(0.05):
            await run_in_thread(lambda: time.sleep(600))
    except TimeoutError:
        print("timed out,", abandoned(), "left")

asyncio.run(main())
print("bye")
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "timed out, 1 left\nbye\n", "")
