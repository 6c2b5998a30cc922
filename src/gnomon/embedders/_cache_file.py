"""Vectors in an SQLite file: shared by processes, bounded, and never a reason for a call to fail.

What cannot be written is not kept, and a log says so once. A file that is no
cache of ours, or is damaged, is an error: somebody has to look at it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Lock
from time import time_ns
from typing import TypeVar, cast

from gnomon.errors import ConfigError, InvalidInput

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
        try:
            self.path = os.path.abspath(os.path.expanduser(path))
        except TypeError:
            raise ConfigError(f"path is the name of a file, not {path!r}") from None
        self._most_entries = most_entries
        self._open: _Open | None = None
        self._lock = Lock()

    async def get(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Those that are there; each counts as used now."""
        return await self._in_thread(lambda file: file.guarded(_get, keys, {}))

    async def put(self, vectors: Mapping[bytes, bytes]) -> None:
        """Keep them; the longest unused go where there are too many."""
        await self._in_thread(lambda file: file.keep(lambda: file.guarded(self._put, vectors, None)))

    async def close(self) -> None:
        """Let go of the file. May be called twice and during other calls; the next one opens it again."""
        with self._lock:
            file, self._open = self._open, None
            if file is None or file.is_of_parent:
                return
            closing = file.thread.submit(file.close)  # after what is under way
            file.thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(closing))

    async def _in_thread(self, work: Callable[[_Open], _T]) -> _T:
        with self._lock:
            file = self._open
            if file is None or file.is_of_parent:
                file = self._open = _Open(self.path)
            doing = file.thread.submit(work, file)
        return await asyncio.wrap_future(doing)

    # --- in the thread

    def _put(self, connection: sqlite3.Connection, vectors: Mapping[bytes, bytes]) -> None:
        now = _now()
        rows = [(key, vector, now) for key, vector in vectors.items()]
        with _transaction(connection):
            added = connection.executemany(
                "INSERT INTO vectors (key, vector, used) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", rows
            ).rowcount
            entries = _entries(connection)
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


class _Open:
    """An open file and the thread that alone may touch it: a connection that another thread closes in the
    middle of a call ends the process."""

    def __init__(self, path: str) -> None:
        self.thread = ThreadPoolExecutor(1, "gnomon-embeddings")
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._gave_up = False
        self._process = os.getpid()

    @property
    def is_of_parent(self) -> bool:
        """Whether this process was forked off: the thread is not here, the connection must not be used."""
        if self._process == os.getpid():
            return False
        _OF_PARENTS.append(self)  # nor closed, which is what happens to an object that nobody holds
        return True

    # --- in the thread

    def keep(self, put: Callable[[], None]) -> None:
        if not self._gave_up:
            put()

    def guarded(self, work: Callable[[sqlite3.Connection, _T], _U], given: _T, otherwise: _U) -> _U:
        """What the work gives; when the file cannot be used now, something else, and a word in the log."""
        try:
            if self._connection is None:
                self._connection = _opened(self._path)
            return work(self._connection, given)
        except sqlite3.OperationalError as error:
            self._give_way(error)
        except (sqlite3.DatabaseError, _Damaged) as error:
            raise _no_cache(self._path, f"it is damaged, or no SQLite file ({error})") from None
        return otherwise

    def _give_way(self, error: sqlite3.OperationalError) -> None:
        if error.sqlite_errorcode & 0xFF in _PASSING:
            _log.debug("embeddings were not kept: %s is busy", self._path)
        elif not self._gave_up:
            self._gave_up = True
            _log.warning("embeddings are not kept in %s any more: %s", self._path, error)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


_OF_PARENTS: list[_Open] = []


class _Damaged(Exception):
    """What is in the file cannot have been put there by us."""


def _get(connection: sqlite3.Connection, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), _AT_ONCE):
        some = keys[start : start + _AT_ONCE]
        places = ",".join("?" * len(some))
        query = f"SELECT key, vector FROM vectors WHERE key IN ({places})"  # noqa: S608 - question marks
        found.update(connection.execute(query, some).fetchall())
    if not all(isinstance(vector, bytes) for vector in cast("Iterable[object]", found.values())):
        raise _Damaged("a vector is none")
    if found:
        with suppress(sqlite3.OperationalError):  # a file that cannot be written can still be read
            _touch(connection, list(found))
    return found


def _touch(connection: sqlite3.Connection, keys: Sequence[bytes]) -> None:
    """Without waiting: that they were used is not worth holding up who wants them."""
    now = _now()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        with _transaction(connection):
            connection.executemany("UPDATE vectors SET used = ? WHERE key = ?", [(now, key) for key in keys])
    finally:
        connection.execute(f"PRAGMA busy_timeout = {round(_BUSY_S * 1000)}")


def _entries(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT entries FROM size").fetchone()
    if row is None or not isinstance(row[0], int):
        raise _Damaged("it does not say how many vectors it holds")
    return row[0]


def _now() -> int:
    return time_ns() // 1_000_000


# --- opening ------------------------------------------------------------------------


def _opened(path: str) -> sqlite3.Connection:
    try:
        # Made and used in one thread; which one it is may change when the file was closed in between.
        connection = sqlite3.connect(path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
    except (sqlite3.OperationalError, ValueError) as error:  # a path with a NUL is no path
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
    with _transaction(connection, "DEFERRED"):  # of one moment: another process may be making the tables
        is_ours = _is_ours(connection, path)  # before anything is changed in what may be somebody else's
    with suppress(sqlite3.OperationalError):  # another process is about to do it
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    if is_ours:
        return
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
def _transaction(connection: sqlite3.Connection, kind: str = "IMMEDIATE") -> Generator[None, None, None]:
    connection.execute(f"BEGIN {kind}")
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
