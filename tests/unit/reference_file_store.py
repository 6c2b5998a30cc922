"""The reference store in a file, so that several processes can share it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
from reference_store import Reference, Root, World

from gnomon.errors import StorageError


class FileRoot(Root):
    path: str = ""


class FileStore(Reference):
    """The whole world is read and written anew by each call, while a lock is held."""

    root: FileRoot

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        await asyncio.sleep(0)
        self.check_open()
        with open(f"{self.root.path}.lock", "w") as lock:
            self.lock(lock.fileno())
            before = self.read()
            world = msgspec.msgpack.decode(before, type=World) if before else World()
            yield world
            after = msgspec.msgpack.encode(world)
            if after != before:
                self.write(after)

    def lock(self, number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX)

    def read(self) -> bytes:
        try:
            with open(self.root.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def write(self, content: bytes) -> None:
        with open(f"{self.root.path}.new", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{self.root.path}.new", self.root.path)


def opened(path: str, kind: type[FileStore] = FileStore) -> FileStore:
    root = FileRoot()
    root.path = path
    store = kind(root)
    store.is_view = False
    return store


# --- and some that do not keep their word ----------------------------------------------------


class NoLock(FileStore):
    """Two that write at the same time: the later one wins."""

    def lock(self, number: int) -> None:
        pass

    def write(self, content: bytes) -> None:
        with open(f"{self.root.path}.{os.getpid()}", "wb") as file:
            file.write(content)
        os.replace(f"{self.root.path}.{os.getpid()}", self.root.path)


class WritesLater(FileStore):
    """It keeps what it is told for a while before it writes it."""

    async def close(self) -> None:
        await super().close()
        if getattr(self, "late", None):
            super().write(self.late)

    def read(self) -> bytes:
        return getattr(self, "late", None) or super().read()

    def write(self, content: bytes) -> None:
        self.late = content
        self.count = getattr(self, "count", 0) + 1
        if self.count % 5 == 0:
            super().write(content)


class LocksFail(FileStore):
    """That the file is locked reaches the caller."""

    def lock(self, number: int) -> None:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError("database is locked") from None


class ReadsOnce(FileStore):
    """What others have written since is not seen."""

    def read(self) -> bytes:
        if not hasattr(self, "cached"):
            self.cached = super().read()
        return self.cached

    def write(self, content: bytes) -> None:
        self.cached = content
        super().write(content)


def no_lock(path: str) -> FileStore:
    return opened(path, NoLock)


def writes_later(path: str) -> FileStore:
    return opened(path, WritesLater)


def locks_fail(path: str) -> FileStore:
    return opened(path, LocksFail)


def reads_once(path: str) -> FileStore:
    return opened(path, ReadsOnce)
