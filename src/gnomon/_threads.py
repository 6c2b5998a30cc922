"""Functions that are not async, run beside the event loop: tools, and what fetches a token.

At most `LIMIT` run at a time for each loop. A thread cannot be killed, so one that outlives its caller is
abandoned: its place is given back at once, and because it is a daemon it never keeps the process from
ending. A thread that is done waits for more work for `IDLE_S`, since a new one costs as much as a small tool.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

__all__ = ["IDLE_S", "LIMIT", "abandoned", "run_in_thread"]

LIMIT = 32
IDLE_S = 0.5

_T = TypeVar("_T")
_Settle: TypeAlias = Callable[[], None]


class _Job:
    """One function on its way through a thread. `run` keeps what it came to, and says how to tell it."""

    __slots__ = ("_run", "ended", "name")

    def __init__(self, name: str, run: Callable[[], _Settle]) -> None:
        self.name = f"gnomon-{name}"
        self._run = run
        self.ended = False

    def run(self) -> _Settle:
        settle = self._run()
        self.ended = True
        return settle


_places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}
_abandoned: set[_Job] = set()


def abandoned() -> int:
    """How many functions still run for callers who no longer wait."""
    _abandoned.difference_update([job for job in tuple(_abandoned) if job.ended])
    return len(_abandoned)


async def run_in_thread(
    function: Callable[[], _T], *, name: str = "tool", on_start: Callable[[], None] = lambda: None
) -> _T:
    """What the function returns or raises, without holding up the loop; `on_start` when it has a place."""
    loop = asyncio.get_running_loop()
    async with _places_of(loop):
        on_start()
        outcome: asyncio.Future[_T] = loop.create_future()
        context = contextvars.copy_context()
        job = _Job(name, lambda: _settling(context, function, loop, outcome))
        _start(job)
        try:
            return await outcome
        finally:
            if not outcome.done() or outcome.cancelled():
                abandoned()  # forget those that have ended since
                _abandoned.add(job)


def _places_of(loop: asyncio.AbstractEventLoop) -> asyncio.Semaphore:
    if loop not in _places:
        for over in [known for known in tuple(_places) if known.is_closed()]:
            _places.pop(over, None)
        _places[loop] = asyncio.Semaphore(LIMIT)
    return _places[loop]


# --- what a function came to ------------------------------------------------


def _settling(
    context: contextvars.Context,
    function: Callable[[], _T],
    loop: asyncio.AbstractEventLoop,
    outcome: asyncio.Future[_T],
) -> _Settle:
    """Run the function; what comes back tells the loop of it."""
    try:
        result = context.run(function)
    except BaseException as error:  # noqa: BLE001 - whatever it was, the caller gets it
        problem = _bearable(error)
        return lambda: _tell(loop, outcome, lambda: outcome.set_exception(problem))
    return lambda: _tell(loop, outcome, lambda: outcome.set_result(result))


def _bearable(error: BaseException) -> Exception:
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    # A future does not take StopIteration, and SystemExit in a thread must not end the loop.
    return RuntimeError(f"{type(error).__name__} was raised: {error}")


def _tell(loop: asyncio.AbstractEventLoop, outcome: asyncio.Future[_T], settle: _Settle) -> None:
    def unless_over() -> None:
        if not outcome.done():
            settle()

    with suppress(RuntimeError):  # the loop may be gone by the time an abandoned thread ends
        loop.call_soon_threadsafe(unless_over)


# --- the threads ------------------------------------------------------------


class _Worker(threading.Thread):
    """A thread that takes one job after the other, and ends when none has come for a while."""

    def __init__(self, first: _Job) -> None:
        super().__init__(name=first.name, daemon=True)
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._jobs.put(first)

    def give(self, job: _Job) -> None:
        self._jobs.put(job)

    def run(self) -> None:
        job: _Job | None = self._jobs.get()
        while job is not None:
            self.name = job.name
            settle = job.run()
            # On the list before anybody is told: the next call of the same caller finds it there.
            listed = _list(self)
            settle()
            job = settle = None  # an idle thread holds on to nobody's result
            job = self._next() if listed else None

    def _next(self) -> _Job | None:
        self.name = "gnomon-idle"
        try:
            return self._jobs.get(timeout=IDLE_S)
        except Empty:
            # Either it leaves the list now, or somebody took it from there and a job is on its way.
            return None if _unlist(self) else self._jobs.get()


_lock = threading.Lock()
_idle: list[_Worker] = []


def _start(job: _Job) -> None:
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        _Worker(job).start()
    else:
        worker.give(job)


def _list(worker: _Worker) -> bool:
    """Whether there is room for one more that waits."""
    with _lock:
        if len(_idle) >= LIMIT:
            return False
        _idle.append(worker)
        return True


def _unlist(worker: _Worker) -> bool:
    with _lock:
        if worker not in _idle:
            return False
        _idle.remove(worker)
        return True


def _forget() -> None:
    """A fork has none of the threads of its parent, and perhaps a lock that one of them held."""
    global _lock
    _lock = threading.Lock()
    _idle.clear()
    _abandoned.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
