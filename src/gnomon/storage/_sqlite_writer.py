"""The one thread that writes an SQLite file.

Whatever waits when it is free goes into one transaction: a hundred sessions that
append at the same time cost one sync of the disk. A caller hears of its write
after that commit, never before.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeAlias, TypeVar

from gnomon.errors import StorageError
from gnomon.storage._sqlite_appends import Append, appended

__all__ = ["Work", "Writer"]

_MOST = 1_000
"""Jobs in one transaction: so that the first does not wait for too many others."""

_T = TypeVar("_T")
Work: TypeAlias = Callable[[sqlite3.Connection], _T]
_Job: TypeAlias = tuple[Work[object], "asyncio.Future[Any]"]
_Outcome: TypeAlias = tuple["asyncio.Future[Any]", object, BaseException | None]


class Writer:
    """Runs jobs one after another in transactions they share.

    `check` is called before each commit, and raises when the file is not there any more;
    `disconnect` is called at the end.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        check: Callable[[], None],
        disconnect: Callable[[sqlite3.Connection], None],
    ) -> None:
        self._connect = connect
        self._check = check
        self._disconnect = disconnect
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._connection: sqlite3.Connection | None = None
        self._thread: Thread | None = None
        self._is_stopped = False
        self._giving = Lock()

    def submit(self, work: Work[_T]) -> Awaitable[_T]:
        """What the work returns or raises, once it is durable; cancelled, it may still be done."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        with self._giving:  # nothing is given after the last job, which nobody would do
            if self._is_stopped:
                raise StorageError("the store was closed in the meantime", hint="open it anew")
            if self._thread is None:
                self._start()
            self._jobs.put((work, future))
        return future

    def stop(self) -> None:
        """Finish what was given, and close the file. Blocks for as long as that takes."""
        with self._giving:
            if not self._is_stopped:
                self._is_stopped = True
                self._jobs.put(None)
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        # A daemon: what is not yet committed was not yet acknowledged either.
        self._thread = Thread(target=self._run, name="gnomon-sqlite-writer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            _settle(self._done(batch))
        if self._connection is not None:
            self._disconnect(self._connection)
            self._connection = None

    def _next_batch(self) -> list[_Job] | None:
        first = self._jobs.get()
        if first is None:
            return None
        batch = [first]
        with suppress(Empty):
            while len(batch) < _MOST:
                job = self._jobs.get_nowait()
                if job is None:
                    self._jobs.put(None)  # after this batch, and nothing comes behind it
                    break
                batch.append(job)
        return batch

    def _done(self, batch: list[_Job]) -> list[_Outcome]:
        """The outcome of each job: together if that goes, else each by itself."""
        batch = [job for job in batch if not job[1].cancelled()]
        if not batch:
            return []
        try:
            connection = self._begun()
        except BaseException as error:  # noqa: BLE001 - the callers get it
            # None of them can be written now: to try each would make the last wait for all before it.
            return [(future, None, error) for _, future in batch]
        try:
            return self._committed(batch, connection)
        except BaseException as error:  # noqa: BLE001 - the callers get it
            if len(batch) == 1:
                return [(batch[0][1], None, error)]
        return [outcome for job in batch for outcome in self._done([job])]

    def _begun(self) -> sqlite3.Connection:
        """The connection, in a new transaction."""
        if self._connection is None:
            self._connection = self._connect()
        was_in_one = self._connection.in_transaction  # of whoever gave the connection: not ours to undo
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error:
            if self._connection.in_transaction and not was_in_one:  # interrupted when it had just begun
                self._connection.execute("ROLLBACK")
            raise
        return self._connection

    def _committed(self, batch: list[_Job], connection: sqlite3.Connection) -> list[_Outcome]:
        try:
            results = _results(connection, [work for work, _ in batch])
            self._check()
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return [(future, result, None) for (_, future), result in zip(batch, results, strict=True)]


def _results(connection: sqlite3.Connection, works: list[Work[object]]) -> list[object]:
    """What each returned. A batch is nearly always of appends alone, none of which is refused."""
    appends = [work for work in works if isinstance(work, Append)]
    if len(appends) == len(works) > 1:
        connection.execute("SAVEPOINT together")
        if appended(connection, appends):
            return [True] * len(works)
        connection.execute("ROLLBACK TO together")
    return [work(connection) for work in works]


def _settle(outcomes: list[_Outcome]) -> None:
    """Tell every caller, with one wake of each event loop."""
    loops: dict[asyncio.AbstractEventLoop, list[_Outcome]] = {}
    for outcome in outcomes:
        loops.setdefault(outcome[0].get_loop(), []).append(outcome)
    for loop, told in loops.items():
        with suppress(RuntimeError):  # the loop is over, and nobody waits there
            loop.call_soon_threadsafe(_tell, told)


def _tell(outcomes: list[_Outcome]) -> None:
    for future, result, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
