"""The threads that read an SQLite file, each with a connection of its own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import local
from typing import TypeVar

from gnomon.errors import StorageError

__all__ = ["Readers"]

_THREADS = 4

_T = TypeVar("_T")


class Readers:
    """Runs reads beside the writer; each sees what was committed before it began.

    `check` is called before each read, and raises when the file is another one by now.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], check: Callable[[], None]) -> None:
        self._connect = connect
        self._check = check
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="gnomon-sqlite-reader")
        self._own = local()
        self._connections: list[sqlite3.Connection] = []

    def submit(self, work: Callable[[sqlite3.Connection], _T]) -> Awaitable[_T]:
        try:
            return asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)
        except RuntimeError:
            raise StorageError("the store was closed in the meantime", hint="open it anew") from None

    def stop(self) -> None:
        """Blocks until the last read is done: one that was left out would look like a cancelled call."""
        self._threads.shutdown(wait=True)
        while self._connections:
            self._connections.pop().close()

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = self._connect()
            self._connections.append(connection)
        self._check()
        return work(connection)
