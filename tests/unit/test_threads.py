"""Sync functions beside the loop: bounded, never in the way, never the death of it."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator

import pytest

from gnomon import _threads
from gnomon._threads import abandoned, run_in_thread


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """What hung functions wait for; they are let go at the end, and waited for."""
    mine: set[_threads._Job] = set()
    monkeypatch.setattr(_threads, "_abandoned", mine)
    event = threading.Event()
    yield event
    event.set()
    until_s = time.monotonic() + 10
    while not all(job.ended for job in tuple(mine)):
        assert time.monotonic() < until_s, "a function that was let go does not end"
        time.sleep(0.001)


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
    def which() -> tuple[str, bool]:
        thread = threading.current_thread()
        return thread.name, thread.daemon

    for name in ("weather", "tide"):  # also when a thread is used again
        assert await run_in_thread(which, name=name) == (f"gnomon-{name}", True)


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


# --- used again -------------------------------------------------------------


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> list[_threads._Worker]:
    """A pool that nobody has used before: the list of its idle threads."""
    idle: list[_threads._Worker] = []
    monkeypatch.setattr(_threads, "_idle", idle)
    return idle


async def test_calls_one_after_the_other_share_a_thread(alone: list[_threads._Worker]) -> None:
    threads = {await run_in_thread(threading.current_thread) for _ in range(200)}
    assert len(threads) == 1
    assert set(alone) == threads


async def test_a_thread_without_work_ends(
    monkeypatch: pytest.MonkeyPatch, alone: list[_threads._Worker]
) -> None:
    monkeypatch.setattr(_threads, "IDLE_S", 0.02)
    threads = await asyncio.gather(*(run_in_thread(threading.current_thread) for _ in range(20)))
    for thread in threads:
        await asyncio.to_thread(thread.join, 10)
        assert not thread.is_alive()
    assert alone == []


async def test_no_more_threads_wait_for_work_than_may_work(
    monkeypatch: pytest.MonkeyPatch, alone: list[_threads._Worker]
) -> None:
    go_on, started = threading.Event(), []

    def work() -> threading.Thread:
        started.append(1)
        go_on.wait(30)
        return threading.current_thread()

    tasks = [asyncio.create_task(run_in_thread(work)) for _ in range(6)]
    await until(lambda: len(started) == 6)
    monkeypatch.setattr(_threads, "LIMIT", 2)
    go_on.set()
    assert len(set(await asyncio.gather(*tasks))) == 6
    assert len(alone) == 2


async def test_a_thread_that_is_taken_as_its_wait_ends_does_the_work(
    monkeypatch: pytest.MonkeyPatch, alone: list[_threads._Worker]
) -> None:
    monkeypatch.setattr(_threads, "IDLE_S", 0.0)
    real, done = _threads._unlist, threading.Event()

    def taken_first(worker: _threads._Worker) -> bool:
        monkeypatch.setattr(_threads, "_unlist", real)
        _threads._start(_threads._Job("late", lambda: done.set))
        return real(worker)

    monkeypatch.setattr(_threads, "_unlist", taken_first)
    thread = await run_in_thread(threading.current_thread)
    await until(done.is_set)
    await asyncio.to_thread(thread.join, 10)
    assert not thread.is_alive()
    assert alone == []


async def test_no_call_is_lost_among_threads_that_end_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_threads, "IDLE_S", 0.0)
    numbers = await asyncio.gather(*(run_in_thread(lambda n=n: n) for n in range(2000)))
    assert numbers == list(range(2000))


async def test_an_idle_thread_holds_on_to_nothing(
    monkeypatch: pytest.MonkeyPatch, alone: list[_threads._Worker]
) -> None:
    monkeypatch.setattr(_threads, "IDLE_S", 3.0)

    class Thing:
        pass

    def make() -> Thing:
        return Thing()

    seen = weakref.ref(await run_in_thread(make))
    await until(lambda: len(alone) == 1)
    await until(lambda: (gc.collect(), seen())[1] is None)
    assert len(alone) == 1, "the thread itself is still there"


async def test_a_thread_that_was_abandoned_serves_again_when_it_is_done(
    release: threading.Event, alone: list[_threads._Worker]
) -> None:
    task = asyncio.create_task(run_in_thread(hang(release)))
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    release.set()
    await until(lambda: abandoned() == 0 and len(alone) == 1)
    (idle,) = alone
    assert await run_in_thread(threading.current_thread) is idle


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_has_threads_of_its_own() -> None:
    program = """
import asyncio, os, warnings
from gnomon import _threads
from gnomon._threads import abandoned, run_in_thread

warnings.simplefilter("ignore")  # newer versions of Python warn of a fork beside threads

async def main():
    return await asyncio.wait_for(run_in_thread(lambda: "ran"), 10)

asyncio.run(main())
_threads._abandoned.add(_threads._Job("hung", lambda: (lambda: None)))
_threads._lock.acquire()  # as another thread may hold it at that moment
child = os.fork()
if child == 0:
    print("child", asyncio.run(main()), abandoned(), flush=True)
    os._exit(0)
_threads._lock.release()
print("ended", os.waitpid(child, 0)[1], asyncio.run(main()), abandoned())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (ended.stdout, ended.stderr) == ("child ran 0\nended 0 ran 1\n", "")


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


async def test_what_was_abandoned_and_has_ended_is_forgotten(release: threading.Event) -> None:
    """In a process that runs for months nobody may ever ask how many there are."""
    started: list[str] = []

    def work(gate: threading.Event) -> None:
        started.append("one")
        gate.wait(30)

    async def abandon(gate: threading.Event) -> None:
        known = len(started)
        task = asyncio.create_task(run_in_thread(lambda: work(gate)))
        await until(lambda: len(started) > known)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    gate = threading.Event()
    await abandon(gate)
    (first,) = _threads._abandoned
    gate.set()
    await until(lambda: first.ended)
    await abandon(release)
    assert len(_threads._abandoned) == 1
    assert first not in _threads._abandoned


def test_counting_is_safe_while_another_loop_abandons_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loops in two threads share the book; here the other one writes while this one reads."""
    book: set[object] = set()

    class Busy:
        @property
        def ended(self) -> bool:
            book.add(object())
            book.add(threading.Thread())
            return True

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
