"""Whether an open SQLite file is still the one that its name names, and still this process's own.

SQLite goes on writing into a file that was removed, moved or replaced under it, and
says that all is well; what it wrote is gone with the last who has it open. And its
locks do not go along into a fork, though it believes so there.
"""

from __future__ import annotations

import os
from pathlib import Path

from gnomon.errors import StorageError

__all__ = ["Standing", "check_not_inherited", "opened_here"]

_open: set[tuple[Path, int]] = set()
_inherited: set[Path] = set()


def _forked() -> None:
    _inherited.update(path for path, _ in _open)
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def opened_here(path: Path, holder: int, is_open: bool) -> None:
    """Remember, until it is closed again, that this process has the file open."""
    if is_open:
        _open.add((path, holder))
    else:
        _open.discard((path, holder))


def check_not_inherited(path: Path) -> None:
    if path in _inherited:
        message = f"{path} was open when this process was forked, and SQLite cannot use it here"
        raise StorageError(message, hint="open the store after the fork alone, or start processes by 'spawn'")


class Standing:
    """The files of a connection that writes, as they stood when it was opened."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = _identity(f"{path}")
        self._log: tuple[int, int] | None = None

    def check(self) -> None:
        """Called within a transaction, before it is committed; from the first on there is a log."""
        log = _identity(f"{self._path}-wal")
        self._log = self._log or log
        if log is None or log != self._log or _identity(f"{self._path}") != self._file:
            raise self._gone("nothing more is stored in it: put the file back, and open the store anew")

    def check_file(self) -> None:
        """Before a read: each thread has opened the file by itself, and all must read the same one."""
        if _identity(f"{self._path}") != self._file:
            raise self._gone("nothing is read from it any more: put the file back, and open the store anew")

    def _gone(self, hint: str) -> StorageError:
        message = f"{self._path} or its log was removed or replaced while this store had it open"
        return StorageError(message, hint=hint)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino)
