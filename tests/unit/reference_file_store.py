"""The reference store in a file, so that several processes can share it; and some that lose what is in it."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
from reference_store import Plants, Reference, Root, Tables, World

from gnomon.errors import StorageError


class FileStore(Reference):
    """The whole world is read and written anew by each call, while a lock is held."""

    def __init__(self, root: Root | None = None, tenant: str = "default", *, path: str = "") -> None:
        super().__init__(root, tenant)
        self.path: str = self.root.__dict__.setdefault("path", path)

    @asynccontextmanager
    async def world(self) -> AsyncIterator[World]:
        await asyncio.sleep(0)
        self.check_open()
        lock = os.open(f"{self.path}.lock", os.O_CREAT | os.O_RDWR)
        try:
            self.lock(lock)
            before = self.read()
            world = msgspec.msgpack.decode(before, type=World) if before else World()
            yield world
            after = msgspec.msgpack.encode(world)
            if after != before:
                self.write(after)
        finally:
            os.close(lock)

    def lock(self, number: int) -> None:
        fcntl.flock(number, fcntl.LOCK_EX)

    def read(self) -> bytes:
        try:
            with open(self.path, "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def write(self, content: bytes) -> None:
        beside = f"{self.path}.{os.getpid()}"
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)


# --- those that do not keep their word --------------------------------------------------------


class NoLock(FileStore):
    """Of two that write at the same time, the later one wins."""

    def lock(self, number: int) -> None:
        pass

    def read(self) -> bytes:
        content = super().read()
        time.sleep(0.001)
        return content


class LocksFail(FileStore):
    """That the file is locked reaches the caller."""

    def lock(self, number: int) -> None:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StorageError("database is locked") from None

    def read(self) -> bytes:
        time.sleep(0.001)
        return super().read()


class WritesLater(FileStore):
    """It keeps what it is told, and writes now and then."""

    def read(self) -> bytes:
        return self.root.__dict__.get("late") or super().read()

    def write(self, content: bytes) -> None:
        self.root.__dict__["late"] = content
        self.root.__dict__["count"] = count = self.root.__dict__.get("count", 0) + 1
        if count % 50 == 1:
            super().write(content)


class ReadsOnce(FileStore):
    """What others have written since is not seen."""

    def read(self) -> bytes:
        if "seen" not in self.root.__dict__:
            self.root.__dict__["seen"] = super().read()
        return self.root.__dict__["seen"]

    def write(self, content: bytes) -> None:
        self.root.__dict__["seen"] = content
        super().write(content)


class CreatesItsTables(FileStore):
    """Two that migrate at the same time both find nothing, and one of them is too late."""

    async def migrate(self) -> None:
        self.create()
        await super().migrate()

    def create(self) -> None:
        if not os.path.exists(f"{self.path}.tables"):
            time.sleep(0.3)
            os.close(os.open(f"{self.path}.tables", os.O_CREAT | os.O_EXCL))


class KnowsNoVersion(FileStore):
    async def migrate(self) -> None:
        async with self.world() as world:
            world.version = 1

    @asynccontextmanager
    async def tables(self) -> AsyncIterator[Tables]:
        async with self.world() as world:
            yield self.own_tables(world)


class NotMigratedIsASurprise(FileStore):
    @asynccontextmanager
    async def tables(self) -> AsyncIterator[Tables]:
        async with self.world() as world:
            if world.version != 1:
                raise KeyError("no such table: sessions")
            yield self.own_tables(world)


class UpgradesByStartingAnew(FileStore):
    async def migrate(self) -> None:
        async with self.world() as world:
            if world.version == 0:
                world.tenants.clear()
        await super().migrate()


def _opener(kind: type[FileStore]) -> Callable[[str], FileStore]:
    return lambda path: kind(path=path)


KINDS = (
    FileStore,
    NoLock,
    LocksFail,
    WritesLater,
    ReadsOnce,
    CreatesItsTables,
    KnowsNoVersion,
    NotMigratedIsASurprise,
    UpgradesByStartingAnew,
)
# Another process finds each of them by a name of this module.
globals().update({f"open_{kind.__name__}": _opener(kind) for kind in KINDS})

PLANTS: Plants = {
    "test_eight_writers_of_two_processes_lose_nothing": [
        (NoLock, "of s: expected"),
        (LocksFail, "a process that should append ended too early: StorageError: database is locked"),
    ],
    "test_groups_of_two_processes_on_several_sessions_stay_whole": [
        (NoLock, "of [stu]: expected|took longer than limit_s"),  # some writers never find the end again
    ],
    "test_two_processes_cannot_fork_an_audit_chain": [(NoLock, ": expected")],
    "test_two_processes_that_count_lose_no_update": [(NoLock, ": expected")],
    "test_what_was_acknowledged_outlives_a_killed_writer": [
        (WritesLater, "acknowledged events of .* that are not there: expected"),
    ],
    "test_what_is_opened_again_has_everything": [(WritesLater, "tenant .*: expected")],
    "test_two_that_have_it_open_see_each_others_writes_at_once": [
        (ReadsOnce, "the log length: expected|the log ends with"),
    ],
    "test_a_watcher_hears_of_what_another_process_appends": [(ReadsOnce, "0 of 5 events came within")],
    "test_ten_processes_migrate_a_fresh_store_at_once": [
        (CreatesItsTables, "a process that should migrate ended too early: FileExistsError"),
    ],
    "test_a_newer_schema_is_refused": [
        (KnowsNoVersion, "migrate of a newer schema: expected StorageError, found None"),
    ],
    "test_a_store_that_was_not_migrated_says_so": [(NotMigratedIsASurprise, "no such table")],
    "test_every_released_schema_is_upgraded": [
        (UpgradesByStartingAnew, "there are sessions in an old store: expected True"),
    ],
}
"""The checks that need other processes, or a store that can be opened again."""
