"""What is left behind: tasks, generators and sockets."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextvars import ContextVar, Token
from types import FrameType, TracebackType
from typing import Any, Self, TypeAlias
from weakref import WeakSet

__all__ = ["Watch", "open_sockets", "settle", "sockets_left", "tasks_left", "where"]

_Task: TypeAlias = "asyncio.Future[Any]"
_Generator: TypeAlias = AsyncGenerator[object, object]
_Sockets: TypeAlias = frozenset[tuple[int, int]]

# Clean-up that is under way ends within a few rounds of the loop; what is there
# after them waits for something. The end of a connection may take a moment more.
_ROUNDS = 10
_SOCKET_LOOKS = 50


async def settle() -> None:
    """Let everything that is ready run."""
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)


# --- from a block of code ----------------------------------------------------


class Watch:
    """Sees the tasks and generators that its block starts, and tells which are left.

    What counts is the context they were started in. So a server that answers the
    block on the same loop is not taken for something the block has left.
    """

    def __init__(self) -> None:
        self.tasks: WeakSet[_Task] = WeakSet()
        self._generators: WeakSet[_Generator] = WeakSet()

    def __enter__(self) -> Self:
        _show_new_tasks(asyncio.get_running_loop())
        self._token: Token[tuple[Watch, ...]] = _watches.set((*_watches.get(), self))
        self._next_hook = sys.get_asyncgen_hooks().firstiter
        sys.set_asyncgen_hooks(firstiter=self._see_generator)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.set_asyncgen_hooks(firstiter=self._next_hook)
        _watches.reset(self._token)

    async def left(self) -> list[str]:
        """What is still there after clean-up had its chance, in words."""
        tasks = await self.running()
        frames = [getattr(generator, "ag_frame", None) for generator in self._generators]
        return tasks + [f"generator open at {_line(frame)}" for frame in frames if frame is not None]

    async def running(self) -> list[str]:
        """The tasks alone."""
        await settle()
        return [f"task at {where(task)}" for task in self.tasks if not task.done()]

    def _see_generator(self, generator: _Generator) -> None:
        if self in _watches.get():
            self._generators.add(generator)
        if self._next_hook is not None:
            self._next_hook(generator)


_watches: ContextVar[tuple[Watch, ...]] = ContextVar("gnomon_watches", default=())


def _show_new_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, show each task that is started to the watches it is started under."""
    before = loop.get_task_factory()
    if not isinstance(before, _TaskFactory):
        loop.set_task_factory(_TaskFactory(before or _plain_task))


class _TaskFactory:
    def __init__(self, make: Callable[..., _Task]) -> None:
        self._make = make

    def __call__(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: object) -> _Task:
        task = self._make(loop, coro, **options)
        for watch in _watches.get():
            watch.tasks.add(task)
        return task


def _plain_task(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> _Task:
    return asyncio.Task(coro, loop=loop, **options)


# --- from a whole check ------------------------------------------------------


async def tasks_left() -> list[str]:
    """The other tasks of the loop."""
    await settle()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    return [f"task {task.get_name()} at {where(task)}" for task in others]


async def sockets_left(before: _Sockets) -> list[str]:
    """The sockets that were not open before."""
    found: _Sockets = frozenset()
    for _ in range(_SOCKET_LOOKS):
        found = open_sockets() - before
        if not found:
            break
        await asyncio.sleep(0.01)
    return [f"socket (file descriptor {number})" for number, _ in sorted(found)]


def open_sockets() -> _Sockets:
    """Each open socket of this process; none where the system does not list them."""
    try:
        numbers = [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return frozenset()
    return frozenset(_only_sockets(numbers))


def _only_sockets(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    for number in numbers:
        try:
            found = os.fstat(number)
        except OSError:  # the listing's own descriptor, closed by now
            continue
        if stat.S_ISSOCK(found.st_mode):
            yield number, found.st_ino


# --- in words ----------------------------------------------------------------


def where(task: _Task) -> str:
    """The line that a task waits at, with those that have led to it, as far as can be seen."""
    step: object = task.get_coro() if isinstance(task, asyncio.Task) else None
    frames: list[FrameType] = []
    while step is not None:
        frame = _first(step, "cr_frame", "ag_frame", "gi_frame")
        if isinstance(frame, FrameType):
            frames.append(frame)
        step = _first(step, "cr_await", "ag_await", "gi_yieldfrom")
    return " > ".join(map(_line, frames)) or "an unknown place"


def _first(step: object, *names: str) -> object:
    return next((found for name in names if (found := getattr(step, name, None)) is not None), None)


def _line(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_qualname} ({os.path.basename(code.co_filename)}:{frame.f_lineno})"
