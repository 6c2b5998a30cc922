"""What is left behind: tasks, generators and sockets."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
import weakref
from collections.abc import AsyncGenerator, Coroutine, Generator, Iterable
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Self, TypeAlias

__all__ = ["Watch", "open_sockets", "sockets_left", "tasks_left", "where"]

_Generator: TypeAlias = AsyncGenerator[object, None]
_Task: TypeAlias = "asyncio.Future[object]"
_Body: TypeAlias = Coroutine[object, object, object] | Generator[object, object, object]

# Clean-up that is already on its way runs within a few rounds of the loop;
# whatever is there after them waits for something.
_ROUNDS = 10
_SOCKET_GRACE_S = 0.5

_watches: ContextVar[tuple[Watch, ...]] = ContextVar("gnomon_watches", default=())


async def settle() -> None:
    for _ in range(_ROUNDS):
        await asyncio.sleep(0)


class Watch:
    """Sees the tasks and generators that the code in its block starts, itself or through others.

    Only what comes from inside the block counts, by the context it was started
    in: a server on the same loop, that answers the block, is not blamed on it.
    """

    def __init__(self) -> None:
        self._tasks: weakref.WeakSet[_Task] = weakref.WeakSet()
        self._generators: weakref.WeakSet[_Generator] = weakref.WeakSet()

    def __enter__(self) -> Self:
        _see_tasks(asyncio.get_running_loop())
        self._before: Token[tuple[Watch, ...]] = _watches.set((*_watches.get(), self))
        self._hook = sys.get_asyncgen_hooks().firstiter
        sys.set_asyncgen_hooks(firstiter=self._see_generator)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.set_asyncgen_hooks(firstiter=self._hook)
        _watches.reset(self._before)

    async def left(self) -> list[str]:
        """What is still there once clean-up had its chance, in words."""
        await settle()
        return [*map(_told, self._running()), *map(_told_generator, self._open())]

    def see_task(self, task: _Task) -> None:
        self._tasks.add(task)

    def _see_generator(self, generator: _Generator) -> None:
        if self in _watches.get():
            self._generators.add(generator)
        if self._hook is not None:
            self._hook(generator)

    def _running(self) -> list[_Task]:
        current = asyncio.current_task()
        return [task for task in self._tasks if not task.done() and task is not current]

    def _open(self) -> list[_Generator]:
        return [generator for generator in self._generators if getattr(generator, "ag_frame", None)]


def _see_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """From now on, each new task of the loop is shown to the watches it is started under."""
    before = loop.get_task_factory()
    if isinstance(before, _Factory):
        return
    loop.set_task_factory(_Factory(before))


class _Factory:
    def __init__(self, before: object) -> None:
        self._before = before

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: _Body, **options: object
    ) -> asyncio.Future[object]:
        make = self._before if callable(self._before) else _plain_task
        task: _Task = make(loop, coro, **options)
        for watch in _watches.get():
            watch.see_task(task)
        return task
