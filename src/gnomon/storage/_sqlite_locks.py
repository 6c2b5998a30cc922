"""Names held by a lock on a file beside the store: the system lets go of it when the process dies."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

from gnomon.storage._sqlite_file import refused

try:
    import fcntl
except ImportError:  # not on this system: a row that is renewed does it there
    fcntl = None

__all__ = ["FileLocks", "locks_beside"]

_TRIES, _PAUSE_S = 500, 0.01
"""Who asks whether a name is held shares it for a moment, or longer when it is stopped just then."""

_held: set[int] = set()


def _forked() -> None:
    """A fork shares the locks of its parent: were they left open, the parent would seem to live on in it."""
    while _held:
        os.close(_held.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def locks_beside(path: Path) -> FileLocks | None:
    return FileLocks(path.with_name(f"{path.name}-owners")) if fcntl is not None else None


class FileLocks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @asynccontextmanager
    async def holding(self, name: str) -> AsyncGenerator[bool, None]:
        path, process = self._path(name), os.getpid()
        held = await self._taken(path)
        try:
            yield held is not None
        finally:
            if held is not None and os.getpid() == process:  # a fork that leaves the block has let go
                _held.discard(held)
                with suppress(OSError):
                    path.unlink()
                os.close(held)

    async def is_held(self, name: str) -> bool:
        try:
            found = os.open(self._path(name), os.O_RDWR)
            try:
                return not _locked(found, alone=False)
            finally:
                os.close(found)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise refused(error, self._folder) from error

    async def _taken(self, path: Path) -> int | None:
        """The open file, locked; `None` when another has it."""
        for _ in range(_TRIES):
            try:
                self._folder.mkdir(mode=0o700, exist_ok=True)
                return _take(path)
            except _LookedAt:
                await asyncio.sleep(_PAUSE_S)
            except OSError as error:
                raise refused(error, self._folder) from error
        return None

    def _path(self, name: str) -> Path:
        return self._folder / f"{sha256(name.encode()).hexdigest()[:32]}.lock"


class _LookedAt(Exception):
    """Nobody has the name; others just look whether somebody does."""


def _take(path: Path) -> int | None:
    while True:
        opened = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
        keep = False
        try:
            if not _locked(opened, alone=True):
                if _locked(opened, alone=False):
                    raise _LookedAt
                return None
            # The one before may have removed the file between our opening and our locking it.
            with suppress(FileNotFoundError):
                keep = os.path.samestat(os.fstat(opened), os.stat(path))
            if keep:
                _held.add(opened)
                return opened
        finally:
            if not keep:
                os.close(opened)


def _locked(opened: int, *, alone: bool) -> bool:
    assert fcntl is not None
    try:
        fcntl.flock(opened, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
