"""A generator that is not async, read from the event loop.

It runs in one thread of the bounded pool from its first step to its last, so that what belongs to a thread,
such as a connection of SQLite's, stays where it was made. It takes a step when one is asked for, and none
ahead of that.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import suppress

from gnomon._threads import run_in_thread

__all__ = ["CLOSING_S", "Returned", "steps_in_thread"]

log = logging.getLogger("gnomon.tools")

CLOSING_S = 1.0
"""How long a generator that is closed may take to end, before its thread is abandoned."""


class Returned:
    """What a generator returned, as opposed to what it yields: the last thing that is read of it."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


async def steps_in_thread(
    begin: Callable[[], Generator[object, None, object]], *, name: str, on_start: Callable[[], None]
) -> AsyncGenerator[object, None]:
    """What the generator yields, each when it is asked for, then `Returned`. Closing this closes it."""
    steps = _Steps(begin, asyncio.get_running_loop())
    work = asyncio.ensure_future(run_in_thread(steps.run, name=name, on_start=on_start))
    try:
        while True:
            step = steps.ask()
            await asyncio.wait((step, work), return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                yield Returned(work.result())
                return
            yield step.result()
    except GeneratorExit:
        steps.close()
        await asyncio.wait((work,), timeout=CLOSING_S)
        _report(work, name)
        raise
    finally:
        steps.close()
        await _end(work)


def _report(work: asyncio.Future[object], name: str) -> None:
    if work.done() and not work.cancelled() and (error := work.exception()) is not None:
        log.warning("tool %r failed while it was closed", name, exc_info=error)


async def _end(work: asyncio.Future[object]) -> None:
    """Wait for it no longer. What it came to by then was told, or is nobody's concern any more."""
    work.cancel()
    await asyncio.wait((work,))
    with suppress(asyncio.CancelledError):
        work.exception()


class _Steps:
    """The two sides of one generator: the loop asks, the thread answers."""

    def __init__(
        self, begin: Callable[[], Generator[object, None, object]], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._begin = begin
        self._loop = loop
        self._asked = threading.Semaphore(0)
        self._closed = False
        self._step: asyncio.Future[object] = loop.create_future()

    def ask(self) -> asyncio.Future[object]:
        self._step = self._loop.create_future()
        self._asked.release()
        return self._step

    def close(self) -> None:
        self._closed = True
        self._asked.release()

    def run(self) -> object:
        """In the thread: one step for each that was asked for; what the generator returns at its end."""
        steps = self._begin()
        try:
            while True:
                self._asked.acquire()
                if self._closed:
                    return None
                self._answer(next(steps))
        except StopIteration as end:
            return end.value
        finally:
            steps.close()

    def _answer(self, value: object) -> None:
        step = self._step
        with suppress(RuntimeError):  # the loop may be gone when a thread that was abandoned gets here
            self._loop.call_soon_threadsafe(lambda: None if step.done() else step.set_result(value))
