"""Vectors in an SQLite file: shared by processes, bounded, and never a reason for a call to fail.

What cannot be written is not kept, and a log says so once. A file that is no
cache of ours, or is damaged, is an error: somebody has to look at it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from time import time_ns
from typing import TypeVar

from gnomon.errors import InvalidInput

__all__ = ["VectorFile"]

_T = TypeVar("_T")
_U = TypeVar("_U")

_log = logging.getLogger("gnomon.embedders.cached")

_APPLICATION = 0x676E656D  # "gnem", in the head of the file: tells ours from other SQLite files
_VERSION = 1
_BUSY_S = 5.0
_AT_ONCE = 500  # keys in one statement
_TABLES = (
    "CREATE TABLE vectors (key BLOB NOT NULL UNIQUE, vector BLOB NOT NULL, used INTEGER NOT NULL)",
    "CREATE INDEX vectors_by_use ON vectors (used)",
    "CREATE TABLE size (entries INTEGER NOT NULL)",
    "INSERT INTO size VALUES (0)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)
_PASSING = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNUSABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class VectorFile:
    """Vectors as bytes, by key. SQLite is called in one thread of its own, off the event loop."""

    def __init__(self, path: str | os.PathLike[str], most_entries: int) -> None:
        self.path = os.path.abspath(os.path.expanduser(path))
        self._most_entries = most_entries
        self._connection: sqlite3.Connection | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._gave_up = False

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those that are there; each counts as used now."""
        return await self._in_thread(lambda: self._guarded(self._get, keys, {}))

    async def put(self, vectors: Mapping[bytes, bytes]) -> None:
        """Keep them; the longest unused go where there are too many."""
        if not self._gave_up:
            await self._in_thread(lambda: self._guarded(self._put, vectors, None))

    async def close(self) -> None:
        """Let go of the file. May be called twice, and the next call opens it again."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown(wait=False)

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "gnomon-embeddings")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # --- in the thread

    def _guarded(self, work: Callable[[sqlite3.Connection, _T], _U], given: _T, otherwise: _U) -> _U:
        """What the work gives; when the file cannot be used now, something else, and a word in the log."""
        try:
            if self._connection is None:
                self._connection = _opened(self.path)
            return work(self._connection, given)
        except sqlite3.OperationalError as error:
            self._give_way(error)
        except sqlite3.DatabaseError as error:
            raise _no_cache(self.path, f"it is damaged, or no SQLite file ({error})") from None
        return otherwise

    def _give_way(self, error: sqlite3.OperationalError) -> None:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            _log.debug("embeddings were not kept: %s is busy", self.path)
        elif not self._gave_up:
            self._gave_up = True
            _log.warning("embeddings are not kept in %s any more: %s", self.path, error)

    def _get(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for start in range(0, len(keys), _AT_ONCE):
            some = keys[start : start + _AT_ONCE]
            places = ",".join("?" * len(some))
            query = f"SELECT key, vector FROM vectors WHERE key IN ({places})"  # noqa: S608 - question marks
            found.update(connection.execute(query, some).fetchall())
        if found and not self._gave_up:
            with suppress(sqlite3.OperationalError):  # a file that cannot be written can still be read
                self._touch(connection, list(found))
        return found

    def _touch(self, connection: sqlite3.Connection, keys: Sequence[bytes]) -> None:
        now = _now()
        with _transaction(connection):
            connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", [(now, key) for key in keys])

    def _put(self, connection: sqlite3.Connection, vectors: Mapping[bytes, bytes]) -> None:
        now = _now()
        rows = [(key, vector, now) for key, vector in vectors.items()]
        with _transaction(connection):
            added = connection.executemany(
                "INSERT INTO vectors (key, vector, used) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
            ).rowcount
            (entries,) = connection.execute("SELECT entries FROM size").fetchone()
            dropped = self._drop(connection, entries + added - self._most_entries)
            connection.execute("UPDATE size SET entries = ?", (entries + added - dropped,))

    def _drop(self, connection: sqlite3.Connection, count: int) -> int:
        if count <= 0:
            return 0
        oldest = "SELECT rowid FROM vectors ORDER BY used, rowid LIMIT ?"
        return connection.execute(
            f"DELETE FROM vectors WHERE rowid IN ({oldest})",  # noqa: S608 - our own words
            (count,),
        ).rowcount

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        self._gave_up = False
        if connection is not None:
            connection.close()


def _now() -> int:
    return time_ns() // 1_000_000


# --- opening ------------------------------------------------------------------------


def _opened(path: str) -> sqlite3.Connection:
    try:
        # Made and used in one thread; which one it is may change when the file was closed in between.
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    except sqlite3.OperationalError as error:
        raise _no_cache(path, str(error)) from None
    try:
        _prepare(connection, path)
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF in _UNUSABLE:
            raise _no_cache(path, str(error)) from None
        raise
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    _is_ours(connection, path)  # before anything is changed in what may be somebody else's
    with suppress(sqlite3.OperationalError):  # another process is about to do it
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    with _transaction(connection):
        if not _is_ours(connection, path):
            for statement in _TABLES:
                connection.execute(statement)


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """Whether the tables are there; an error where it is not for us to make them."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == _APPLICATION and version > _VERSION:
        raise _no_cache(path, f"a newer Gnomon made it (version {version}; this one knows {_VERSION})")
    if application != _APPLICATION and (application or version or tables):
        raise _no_cache(path, "it is the SQLite file of something else")
    return application == _APPLICATION


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Generator[None, None, None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a full disk has rolled back by itself
            connection.execute("ROLLBACK")
        raise


def _no_cache(path: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} cannot be used as a cache of embeddings: {why}",
        hint="name another file, or delete this one if nothing else needs it",
    )
