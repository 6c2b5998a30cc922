"""How long a check waits for what must come: until it is there, and never for a set time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

from gnomon.testing._watch import settle

__all__ = ["PATIENCE_S", "Gate", "Pace", "beside", "until", "until_found", "within"]

_T = TypeVar("_T")

PATIENCE_S = 20.0
"""What has not come by then does not come. A loaded machine is no defect of what is checked."""

_LOOK_S = 0.005


async def within(what: str, coming: Awaitable[_T], limit_s: float = PATIENCE_S) -> _T:
    """What is awaited; a failure that names it when it does not come."""
    task = asyncio.ensure_future(coming)
    try:
        await asyncio.wait({task}, timeout=limit_s)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=1.0)
    if task.cancelled():
        raise AssertionError(f"{what}: expected within {limit_s:g} s, and it did not come")
    return task.result()


async def until(what: str, look: Callable[[], _T], limit_s: float = PATIENCE_S) -> _T:
    """The first thing that a look finds; a failure that shows the last one when all find nothing."""

    async def found() -> _T:
        return look()

    return await until_found(what, found, limit_s)


async def until_found(what: str, look: Callable[[], Awaitable[_T]], limit_s: float = PATIENCE_S) -> _T:
    """The same, for a look that has to be awaited."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit_s
    while not (found := await look()):
        if loop.time() > deadline:
            raise AssertionError(f"{what}: expected within {limit_s:g} s, found {found!r}")
        await asyncio.sleep(_LOOK_S)
    return found


@asynccontextmanager
async def beside(work: Awaitable[_T]) -> AsyncGenerator[asyncio.Future[_T], None]:
    """Work that goes on beside the block, and is over when the block is left."""
    task = asyncio.ensure_future(work)
    await settle()
    try:
        yield task
    finally:
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


class Gate:
    """A place where something waits until the check lets it go on."""

    def __init__(self) -> None:
        self.arrivals = 0
        self._arrived = asyncio.Event()
        self._open = asyncio.Event()

    async def wait(self) -> None:
        """Stand at the gate: this is called by what is to be held."""
        self.arrivals += 1
        self._arrived.set()
        await self._open.wait()

    async def reached(self, what: str = "the place that the check waits for") -> None:
        await within(what, self._arrived.wait())

    def open(self) -> None:
        self._open.set()


class Pace:
    """How fast a model speaks: a piece for every step, and freely after `free`.

    For `ScriptedProvider(…, delay_s=1, sleep=pace)`: the first piece of an answer needs no step.
    """

    def __init__(self) -> None:
        self.held = 0
        self._steps = asyncio.Semaphore(0)
        self._free = False

    async def __call__(self, seconds: float) -> None:
        if self._free:
            await asyncio.sleep(0)
            return
        self.held += 1
        await self._steps.acquire()

    def step(self) -> None:
        self._steps.release()

    def free(self) -> None:
        self._free = True
        self._steps.release()
