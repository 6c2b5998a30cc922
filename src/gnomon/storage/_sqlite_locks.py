"""Names held by a lock on a file beside the store: the system lets go of it when the process dies."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on this system: a row that is renewed does it there
    fcntl = None

__all__ = ["FileLocks", "locks_beside"]


def locks_beside(path: Path) -> FileLocks | None:
    return FileLocks(path.with_name(f"{path.name}-owners")) if fcntl is not None else None


class FileLocks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def holding(self, name: str) -> AsyncGenerator[bool, None]:
        path = self._path(name)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        held = _taken(path)
        try:
            yield held is not None
        finally:
            if held is not None:
                with suppress(FileNotFoundError):
                    path.unlink()
                os.close(held)

    async def is_held(self, name: str) -> bool:
        try:
            found = os.open(self._path(name), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            return not _locked(found)
        finally:
            os.close(found)

    def _path(self, name: str) -> Path:
        return self._folder / f"{sha256(name.encode()).hexdigest()[:32]}.lock"


def _taken(path: Path) -> int | None:
    """The open file, locked; `None` when another has it."""
    while True:
        opened = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        if not _locked(opened):
            os.close(opened)
            return None
        # The one before may have removed the file between our opening and our locking it.
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(opened), os.stat(path)):
                return opened
        os.close(opened)


def _locked(opened: int) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
