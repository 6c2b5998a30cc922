"""The suite of stores: a good one passes every check, and each check has a fault that turns it red."""

from __future__ import annotations

import asyncio
import itertools
import pickle
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from unittest import SkipTest

import msgspec
import pytest
import reference_file_store as files
import storage_bugs_audit
import storage_bugs_content
import storage_bugs_faults
import storage_bugs_ledger
import storage_bugs_lists
import storage_bugs_retention
import storage_bugs_rows
import storage_bugs_tenants
import storage_bugs_watching
from _pytest.mark import ParameterSet
from reference_file_store import FileStore
from reference_store import Plants, Reference, Tables, World

from gnomon.contracts.storage import Storage
from gnomon.testing import Contract, StorageContract
from gnomon.testing._storage_moving import StorageMoving
from gnomon.testing._storage_records import session
from gnomon.testing._storage_values import EXECUTED, LIVE_PICKLES
from gnomon.types.records import AuditLog

RULES = Contract.__gnomon_contract__
CHECKS = sorted(name for name in dir(StorageContract) if name.startswith("test_"))
ALONE = sorted(set(CHECKS) - set(files.PLANTS))

BUGS = (
    storage_bugs_audit,
    storage_bugs_content,
    storage_bugs_faults,
    storage_bugs_ledger,
    storage_bugs_lists,
    storage_bugs_retention,
    storage_bugs_rows,
    storage_bugs_tenants,
    storage_bugs_watching,
)


def _planted(table: Plants) -> list[ParameterSet]:
    return [
        pytest.param(check, kind, words, id=f"{check}-{kind.__name__}")
        for check, plants in table.items()
        for kind, words in plants
    ]


class Suite(StorageContract):
    """A suite that is not collected here, over whichever store in memory."""

    __test__ = False
    appends = 8

    def __init__(self, kind: type[Reference] = Reference) -> None:
        self.kind = kind

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Storage]:
        storage = self.kind()
        await storage.migrate()
        try:
            yield storage
        finally:
            await storage.close()

    def interrupt(self, storage: Storage) -> Awaitable[object] | None:
        return _cut_off(storage)

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        chain = storage.root.world.tenants[storage.tenant].audit[stored.session_id]
        at = chain.index(stored)
        chain[at : at + 1] = [] if forged is None else [forged]
        return True


async def _cut_off(storage: Reference) -> None:
    storage.root.is_down = True
    await asyncio.sleep(0.03)
    storage.root.is_down = False


class FileSuite(StorageContract):
    """The same over a store in a file, which other processes open too."""

    __test__ = False
    appends = 8

    def __init__(self, folder: Path, kind: type[FileStore] = FileStore) -> None:
        self.opener = f"reference_file_store:open_{kind.__name__}"
        self._kind = kind
        self._paths = (str(folder / f"{number}") for number in itertools.count())

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Storage]:
        storage = self._kind(path=next(self._paths))
        await storage.migrate()
        try:
            yield storage
        finally:
            await storage.close()

    def url(self, storage: Storage) -> str | None:
        return storage.path

    def fresh_url(self) -> str | None:
        return next(self._paths)

    def old_urls(self) -> Sequence[str]:
        old = World(version=0, tenants={"default": Tables(sessions={"s": session("s")})})
        path = Path(next(self._paths))
        path.write_bytes(msgspec.msgpack.encode(old))
        return [str(path)]

    async def make_newer(self, storage: Storage) -> bool:
        async with storage.world() as world:
            world.version = 99
        return True


def _run(suite: StorageContract, check: str, limit_s: float = 45.0) -> None:
    RULES.run(getattr(suite, check), limit_s)


# --- those that keep their word -----------------------------------------------------------------


@pytest.mark.parametrize("check", ALONE)
def test_a_store_that_keeps_its_word_passes(check: str) -> None:
    _run(Suite(), check)


@pytest.mark.parametrize("check", sorted(files.PLANTS))
def test_a_store_in_a_file_passes_what_needs_other_processes(check: str, tmp_path: Path) -> None:
    _run(FileSuite(tmp_path), check)


# --- those that do not --------------------------------------------------------------------------


def test_every_check_has_a_fault_that_it_finds() -> None:
    found = {check for bugs in (*BUGS, files) for check in bugs.PLANTS}
    # Those of moving have a file of their own.
    moving = {name for name in vars(StorageMoving) if name.startswith("test_")}
    assert found | moving == set(CHECKS) - {"test_no_check_is_overridden"}


@pytest.mark.parametrize(
    ("check", "kind", "words"), [plant for bugs in BUGS for plant in _planted(bugs.PLANTS)]
)
def test_a_planted_fault_is_found(check: str, kind: type[Reference], words: str) -> None:
    with pytest.raises((Exception, AssertionError), match=f"(?s){words}"):
        _run(Suite(kind), check)


@pytest.mark.parametrize(("check", "kind", "words"), _planted(files.PLANTS))
def test_what_goes_wrong_between_processes_is_found(
    check: str, kind: type[FileStore], words: str, tmp_path: Path
) -> None:
    with pytest.raises((Exception, AssertionError), match=f"(?s){words}"):
        _run(FileSuite(tmp_path, kind), check)


# --- what a back end does not offer --------------------------------------------------------------


class Bare:
    """A store without any optional power: only what `Storage` itself asks for."""

    def __init__(self, inner: Reference) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        if name in ("watch", "put_blob", "prune", "verify_audit", "append_audit_log_after"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def scoped(self, tenant: str) -> Bare:
        return Bare(self._inner.scoped(tenant))


class BareSuite(StorageContract):
    __test__ = False
    appends = 2

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Storage]:
        inner = Reference()
        await inner.migrate()
        yield Bare(inner)
        await inner.close()


@pytest.mark.parametrize("check", CHECKS)
def test_a_store_without_powers_passes_or_skips_and_says_why(check: str) -> None:
    reason = ""
    try:
        _run(BareSuite(), check)
    except SkipTest as skipped:
        reason = str(skipped)
    assert not reason or reason.startswith("BareSuite does not offer ")


@pytest.mark.parametrize("live", LIVE_PICKLES)
def test_the_pickles_of_the_suite_would_run_if_anybody_unpickled_them(live: bytes) -> None:
    EXECUTED.clear()
    assert (pickle.loads(live), EXECUTED) == ("pickle", ["pickle"])


def test_a_process_that_cannot_open_the_store_says_why(tmp_path: Path) -> None:
    suite = FileSuite(tmp_path)
    suite.opener = "reference_file_store:nothing_of_the_kind"
    with pytest.raises(AssertionError, match=r"ended too early: AttributeError: .*nothing_of_the_kind"):
        _run(suite, "test_eight_writers_of_two_processes_lose_nothing")
