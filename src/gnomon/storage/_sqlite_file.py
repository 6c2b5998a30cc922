"""The file of an SQLite store: how it is opened, and what its errors mean."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from contextlib import ExitStack, suppress
from errno import EACCES, EDQUOT, EMFILE, ENAMETOOLONG, ENFILE, ENOSPC, EPERM, EROFS
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

from gnomon.errors import AccessDenied, ConfigError, Damaged, StorageError, StorageFull
from gnomon.storage._rows import Lost

__all__ = ["BUSY_S", "SQLITE_ERRORS", "connected", "connected_for_reading", "is_there", "meaning", "refused"]

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The second is what the driver makes of SQLite's complaint about a name in a damaged schema."""

BUSY_S = 5.0
"""How long SQLite itself waits for another process; the layer above then tries again."""

_CACHE_KIB = 8_000
_WAL_LIMIT_BYTES = 64_000_000
_SHARED_BYTES = 32_768
_FILES = 4
"""What a connection opens: the file, its log, what is shared of the log, and for a moment the folder."""

_PERMISSIONS = "look at the permissions of file and folder"
_SAVE = "restore it from a copy, or save what can be read: sqlite3 .recover"


def connected(path: Path, *, create: bool, synchronous: str, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """A connection that writes; readers are never in its way, nor it in theirs (WAL)."""
    if create:
        _create(path)
    connection = _opened(path, busy_s)
    try:
        _use_wal(connection, path, busy_s)
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
    except BaseException:
        connection.close()
        raise
    return connection


def connected_for_reading(path: Path, *, busy_s: float = BUSY_S) -> sqlite3.Connection:
    connection = _opened(path, busy_s)  # for writing too: a reader of a WAL writes beside the file
    try:
        connection.execute("PRAGMA query_only = 1")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB // 4}")
    except BaseException:
        connection.close()
        raise
    return connection


def is_there(path: Path) -> bool:
    """Whether there is a file; its folder must be there in any case."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        _check_folder(path)
        return False
    except NotADirectoryError:
        raise _no_folder(path) from None
    except OSError as error:
        raise refused(error, path) from error
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "something else"
        raise StorageError(f"{path} is {what}, not a file", hint="name a file")
    return True


def _opened(path: Path, busy_s: float) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=busy_s,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
    )


def _create(path: Path) -> None:
    """Conversations are nobody else's business: the file is for its owner alone."""
    _check_folder(path)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise refused(error, path) from error


def _check_folder(path: Path) -> None:
    if not path.parent.is_dir():
        raise _no_folder(path)


def _no_folder(path: Path) -> ConfigError:
    return ConfigError(f"the folder {path.parent} does not exist", hint="create it, or name another file")


def _use_wal(connection: sqlite3.Connection, path: Path, busy_s: float) -> None:
    """The switch to WAL fails at once when another process has the file open just now: that passes."""
    until = monotonic() + busy_s
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


def _code(error: Exception) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def meaning(error: Exception, path: Path | str) -> Exception:
    """SQLite's error as ours."""
    match _code(error):
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED | sqlite3.SQLITE_PROTOCOL:
            return Lost(f"another process keeps {path} locked")
        case sqlite3.SQLITE_FULL:
            return _no_room(path)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return AccessDenied(f"{path} cannot be written", hint=_PERMISSIONS)
        case sqlite3.SQLITE_CANTOPEN:
            return _cannot_open(path)
        case sqlite3.SQLITE_NOTADB:
            message = f"{path} is not an SQLite database, or its header is damaged"
            return Damaged(message, hint="name another file, or restore this one from a copy")
        case sqlite3.SQLITE_CORRUPT:
            return Damaged(f"{path} is damaged: {error}", hint=_SAVE)
        case sqlite3.SQLITE_IOERR:
            return _disk_failed(error, path)
        case sqlite3.SQLITE_TOOBIG:
            return StorageError(f"a value is too large for {path}: {error}")
        case 0 if isinstance(error, sqlite3.OperationalError | UnicodeDecodeError):  # text that is none
            return Damaged(f"{path} is damaged: {error}", hint=_SAVE)
        case _:
            return StorageError(f"{path}: {error}")


def refused(error: OSError, path: Path | str) -> StorageError:
    """What the system says about a file, as ours."""
    if error.errno in (ENOSPC, EDQUOT):
        return _no_room(path)
    if error.errno == ENAMETOOLONG:
        return StorageError(f"the name {path} is too long for its file system", hint="use a shorter one")
    message = f"{path} cannot be used: {error.strerror}"
    if error.errno in (EMFILE, ENFILE):
        return StorageError(message, hint="close some, or raise the limit: ulimit -n")
    if error.errno in (EACCES, EPERM, EROFS):
        return AccessDenied(message, hint=_PERMISSIONS)
    return StorageError(message, hint="look at the folder, or name another file")


def _no_room(path: Path | str) -> StorageFull:
    return StorageFull(f"there is no room for {path}", hint="make room on the disk; nothing was stored")


def _disk_failed(error: Exception, path: Path | str) -> StorageError:
    """On a disk that is full, SQLite cannot even read: it shares what it knows of the log by a file."""
    with suppress(OSError):
        if shutil.disk_usage(os.path.dirname(path)).free < _SHARED_BYTES:
            return _no_room(path)
    name = getattr(error, "sqlite_errorname", "")
    return StorageError(f"{path}: {error} ({name})", hint="look at the disk, and at the log of the system")


def _cannot_open(path: Path | str) -> StorageError:
    """SQLite does not say why. The file itself is not tried: closing it would drop SQLite's locks on it."""
    try:
        with ExitStack() as stack:
            for _ in range(_FILES):
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return refused(error, path)
    if not os.path.lexists(path):
        return StorageError(f"{path} does not exist", hint="gnomon db migrate makes it")
    return AccessDenied(f"{path} cannot be opened", hint=_PERMISSIONS)
