"""The file of an SQLite store: how it is opened, and what its errors mean."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

from gnomon.errors import AccessDenied, ConfigError, Damaged, StorageError, StorageFull
from gnomon.storage._rows import Lost

__all__ = ["BUSY_S", "connected", "connected_for_reading", "translated"]

BUSY_S = 5.0
"""How long SQLite itself waits for another process; the layer above then tries again."""

_CACHE_KIB = 8_000
_WAL_LIMIT_BYTES = 64_000_000


def connected(path: Path, *, create: bool, synchronous: str) -> sqlite3.Connection:
    """A connection that writes; readers are never in its way, nor it in theirs (WAL)."""
    if create:
        _create(path)
    connection = _opened(path, "rw")
    try:
        _use_wal(connection, path)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def connected_for_reading(path: Path) -> sqlite3.Connection:
    connection = _opened(path, "rw")  # a reader of a WAL needs to write beside the file
    connection.execute("PRAGMA query_only = 1")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB // 4}")
    return connection


@contextmanager
def translated(path: Path | str) -> Generator[None, None, None]:
    """SQLite's errors as ours."""
    try:
        yield
    except sqlite3.Error as error:
        raise _meaning(error, path) from error


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode={mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _create(path: Path) -> None:
    """Conversations are nobody else's business: the file is for its owner alone."""
    if not path.parent.is_dir():
        raise ConfigError(f"the folder {path.parent} does not exist", hint="create it, or name another file")
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise AccessDenied(f"{path} cannot be created: {error.strerror}") from error


def _use_wal(connection: sqlite3.Connection, path: Path) -> None:
    """The switch to WAL fails at once when another process has the file open just now: that passes."""
    until = monotonic() + BUSY_S
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or monotonic() > until:
                raise
            sleep(0.005)
            continue
        if mode != "wal":
            message = f"{path} cannot be written by several at once: its file system allows no WAL"
            raise StorageError(message, hint="put the file on a local disk")
        return


def _is_busy(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def _meaning(error: sqlite3.Error, path: Path | str) -> Exception:
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return Lost(f"another process keeps {path} locked")
        case sqlite3.SQLITE_FULL:
            return StorageFull(
                f"there is no room for {path}", hint="make room on the disk; nothing was stored"
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return AccessDenied(
                f"{path} cannot be written", hint="look at the permissions of file and folder"
            )
        case sqlite3.SQLITE_CANTOPEN:
            return _cannot_open(path)
        case sqlite3.SQLITE_NOTADB:
            return Damaged(f"{path} is not an SQLite database, or its header is damaged")
        case sqlite3.SQLITE_CORRUPT:
            return Damaged(
                f"{path} is damaged: {error}", hint="restore it, or save what can be read: sqlite3 .recover"
            )
        case sqlite3.SQLITE_TOOBIG:
            return StorageError(f"a value is too large for {path}: {error}")
        case _:
            return StorageError(f"{path}: {error}")


def _cannot_open(path: Path | str) -> StorageError:
    if os.path.isdir(path):
        return StorageError(f"{path} is a folder, not a file")
    if not os.path.exists(path):
        return StorageError(f"{path} does not exist", hint="gnomon db migrate makes it")
    return AccessDenied(f"{path} cannot be opened", hint="look at the permissions of file and folder")
