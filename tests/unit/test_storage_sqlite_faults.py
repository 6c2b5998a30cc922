"""What goes wrong with the file of an SQLite store: each fault has its own clear error, and costs nothing
that was acknowledged."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import resource
import sqlite3
import subprocess
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import pytest

from gnomon import registry
from gnomon.contracts.storage import Storage
from gnomon.errors import (
    AccessDenied,
    ConfigError,
    Damaged,
    GnomonError,
    InvalidInput,
    StorageError,
    StorageFull,
    WrongSchema,
)
from gnomon.types.records import AuditLog, Checkpoint, MemoryRecord, SessionRecord, utc_now
from storing import event, ids, mounted, opened, sqlite_url

SOAK = os.environ.get("GNOMON_SOAK") == "1"
NOBODY = 65_534
PLENTY = 200


async def filled(path: Path, events: int = 5) -> list[str]:
    """A store with a ledger of that many events in it; their ids."""
    async with opened(path) as storage:
        for seq in range(1, events + 1):
            await storage.append_event(event("a", seq, os.urandom(2_000)))
        return await ids(storage, "a")


async def holds(path: Path) -> list[str]:
    """What another process would find there."""
    async with opened(path, migrate=False) as storage:
        return await ids(storage, "a")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


async def said(kind: type[GnomonError], path: Path, call: Awaitable[object], *words: str) -> None:
    """The call fails with that very error, which names the file, says what was found, and what to do."""
    with pytest.raises(GnomonError) as caught:
        await call
    error = caught.value
    assert type(error) is kind, repr(error)
    assert str(path) in error.message
    assert error.hint
    for word in words:
        assert word in str(error)


async def said_by_all(kind: type[GnomonError], path: Path, *words: str) -> None:
    """Whoever reads, writes or migrates hears the same; each time from a store that is opened anew."""
    async with opened(path, migrate=False) as storage:
        await said(kind, path, storage.list_events("a"), *words)
    async with opened(path, migrate=False) as storage:
        await said(kind, path, storage.append_event(event("b", 1)), *words)
    async with opened(path, migrate=False) as storage:
        await said(kind, path, storage.migrate(), *words)


# --- a full disk --------------------------------------------------------------


@contextmanager
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=700k", "none") as folder:
        yield folder


def fill_up(folder: Path) -> Path:
    """Use what is left of the disk, to the last byte."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4_096)
        except OSError:
            return ballast


async def fill_with_groups(storage: Storage) -> list[str]:
    """Append groups of three until there is no room; the ids that were acknowledged."""
    acknowledged: list[str] = []
    while True:
        group = [event("a", len(acknowledged) + at, os.urandom(5_000)) for at in (1, 2, 3)]
        try:
            await storage.append_events(group)
        except StorageFull:
            return acknowledged
        acknowledged += [each.id for each in group]


async def test_a_full_disk_is_said_and_no_group_is_half_stored(tmp_path: Path) -> None:
    with small_disk(tmp_path) as folder:
        path = folder / "full.db"
        async with opened(path) as storage:
            acknowledged = await fill_with_groups(storage)
            assert len(acknowledged) > 30
            next_one = event("a", len(acknowledged) + 1, os.urandom(60_000))
            await said(StorageFull, path, storage.append_event(next_one), "make room")
            assert await ids(storage, "a") == acknowledged
        assert await holds(path) == acknowledged


async def test_what_fits_is_stored_though_its_neighbours_do_not_fit(tmp_path: Path) -> None:
    """They share a transaction; one that is too large takes nobody else down with it."""
    with small_disk(tmp_path) as folder:
        async with opened(folder / "full.db") as storage:
            await storage.append_event(event("a", 1))
            calls = [storage.append_event(event(f"small-{at}", 1)) for at in range(10)]
            calls.insert(5, storage.append_event(event("large", 1, os.urandom(900_000))))
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes if outcome is not None] == [StorageFull]
            for at in range(10):
                assert await ids(storage, f"small-{at}") == [f"small-{at}-1"]
            assert await ids(storage, "large") == []


async def test_a_store_goes_on_when_there_is_room_again(tmp_path: Path) -> None:
    with small_disk(tmp_path) as folder:
        path = folder / "full.db"
        async with opened(path) as storage:
            await storage.append_event(event("a", 1))
            ballast = fill_up(folder)
            await said(StorageFull, path, storage.append_event(event("a", 2, os.urandom(60_000))))
            ballast.unlink()
            await storage.append_event(event("a", 2, os.urandom(60_000)))
        assert await holds(path) == ["a-1", "a-2"]


async def test_a_store_that_is_opened_on_a_full_disk_says_so_and_not_that_the_disk_is_broken(
    tmp_path: Path,
) -> None:
    with small_disk(tmp_path) as folder:
        path = folder / "full.db"
        stored = await filled(path)
        ballast = fill_up(folder)
        await said_by_all(StorageFull, path, "make room")
        new = folder / "new.db"
        async with opened(new, migrate=False) as storage:
            await said(StorageFull, new, storage.migrate())
        ballast.unlink()
        assert await holds(path) == stored
        await filled(new)


# --- a file that cannot be written --------------------------------------------


def make_read_only(folder: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)


async def test_a_read_only_file_system_is_access_denied(tmp_path: Path) -> None:
    path = tmp_path / "writable" / "store.db"
    path.parent.mkdir()
    stored = await filled(path)
    with mounted(tmp_path / "locked", "-o", "bind", str(path.parent)) as folder:
        make_read_only(folder)
        await said_by_all(AccessDenied, folder / "store.db", "permissions")
        async with opened(folder / "new.db", migrate=False) as storage:
            await said(AccessDenied, folder / "new.db", storage.migrate(), "permissions")
            with pytest.raises(AccessDenied, match="permissions"):
                async with storage.holding("runner"):  # type: ignore[attr-defined]
                    pass
    assert await holds(path) == stored


@contextmanager
def as_nobody() -> Iterator[None]:
    """Root may do everything, so the permissions of files say nothing to it."""
    if os.geteuid() != 0:
        pytest.skip("only root can act as somebody else")
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


async def test_the_file_of_somebody_else_is_access_denied(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    for above in (folder, *tmp_path.parents[:2], tmp_path):
        above.chmod(0o755)
    path = folder / "store.db"
    stored = await filled(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with as_nobody():
        await said_by_all(AccessDenied, path, "permissions")
        new = folder / "new.db"
        async with opened(new, migrate=False) as storage:
            await said(AccessDenied, new, storage.migrate(), "permissions")
    path.chmod(0o644)
    with as_nobody():
        await said_by_all(AccessDenied, path, "permissions")
    folder.chmod(0o700)
    with as_nobody():
        await said_by_all(AccessDenied, path, "permissions")
    assert await holds(path) == stored


# --- a file that is not there, or is something else ---------------------------


async def test_a_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    async with opened(missing / "store.db", migrate=False) as storage:
        await said(ConfigError, missing, storage.list_events("a"), "create it")
        await said(ConfigError, missing, storage.migrate(), "create it")
    assert not missing.exists()


async def test_a_file_in_the_place_of_the_folder_is_a_missing_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    async with opened(tmp_path / "file" / "store.db", migrate=False) as storage:
        await said(ConfigError, tmp_path / "file", storage.migrate())


async def test_a_store_is_not_made_by_reading_it(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path, migrate=False) as storage:
        await said(WrongSchema, path, storage.list_events("a"), "gnomon db migrate")
        await said(WrongSchema, path, storage.append_event(event("a", 1)), "gnomon db migrate")
    assert os.listdir(tmp_path) == []


async def test_a_folder_is_no_store(tmp_path: Path) -> None:
    await said_by_all(StorageError, tmp_path, "folder, not a file")


async def test_a_pipe_is_no_store(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    async with asyncio.timeout(10):
        await said_by_all(StorageError, tmp_path / "pipe", "not a file")


@pytest.mark.parametrize("text", ["hello\n", "a line of a diary\n" * 500])
async def test_a_text_file_is_no_store_and_stays_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "diary.txt"
    path.write_text(text)
    await said_by_all(Damaged, path, "not an SQLite database")
    assert path.read_text() == text


async def test_the_database_of_another_program_is_not_written_into(tmp_path: Path) -> None:
    path = tmp_path / "browser.db"
    with closing(sqlite3.connect(path)) as other:
        other.executescript("CREATE TABLE visits (url TEXT); INSERT INTO visits VALUES ('a')")
    before = digest(path)
    await said_by_all(Damaged, path, "another program")
    assert digest(path) == before


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    await filled(path)
    with closing(sqlite3.connect(path)) as newer:
        newer.execute("PRAGMA user_version = 99")
    before = digest(path)
    await said_by_all(WrongSchema, path, "version 99", "upgrade gnomon")
    assert digest(path) == before


# --- a damaged file -----------------------------------------------------------


def overwritten(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


@pytest.mark.parametrize(
    ("at", "content"),
    [(0, b"not a header at"), (16, b"\x00\x07"), (18, b"\x09\x09"), (56, b"\xff\xff\xff\xff")],
    ids=["magic", "page size", "format", "encoding"],
)
async def test_a_damaged_header_is_said(tmp_path: Path, at: int, content: bytes) -> None:
    path = tmp_path / "store.db"
    await filled(path)
    overwritten(path, at, content)
    before = digest(path)
    async with opened(path, migrate=False) as storage:
        with pytest.raises((Damaged, AccessDenied)) as caught:
            await storage.append_event(event("a", 6))
    assert str(path) in caught.value.message
    assert caught.value.hint
    assert digest(path) == before


@pytest.mark.parametrize("kept", [0.5, 0.01])
async def test_a_file_that_was_cut_off_is_damaged(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "store.db"
    await filled(path, 20)
    os.truncate(path, int(path.stat().st_size * kept))
    await said_by_all(Damaged, path, "restore it")


def left_open(path: Path) -> list[str]:
    """What this process has open of the store's files."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    names = [os.readlink(link) for link in links if os.path.islink(link)]
    return [name for name in names if name.startswith(str(path))]


async def test_a_file_that_cannot_be_read_is_not_left_open(tmp_path: Path) -> None:
    """Its lock would hold up whoever puts a good one in its place, as long as the error is remembered."""
    path = tmp_path / "store.db"
    await filled(path, 20)
    os.truncate(path, path.stat().st_size // 2)
    errors: list[BaseException] = []
    for _ in range(3):
        async with opened(path, migrate=False) as storage:
            errors += await asyncio.gather(
                storage.migrate(), storage.list_events("a"), return_exceptions=True
            )
    assert {type(error) for error in errors} == {Damaged}
    assert left_open(path) == []
    os.truncate(path, 0)
    await filled(path)


async def stocked(path: Path) -> None:
    """A store with rows of every kind."""
    now = utc_now()
    async with opened(path) as storage:
        for at in range(30):
            name = f"s{at}"
            await storage.create_session(SessionRecord(id=name, created_at=now, updated_at=now, user_id="u"))
            await storage.append_events([event(name, seq, os.urandom(700)) for seq in (1, 2, 3)])
            await storage.append_audit_log(
                AuditLog(id=name, session_id=name, actor="a", action="b", created_at=now)
            )
            await storage.put_memory(
                MemoryRecord(id=name, key=name, value="v" * 300, created_at=now, updated_at=now)
            )
            await storage.save_checkpoint(Checkpoint(id=name, session_id=name, seq=3, created_at=now))
            await storage.put_blob(os.urandom(3_000) + bytes([at]))  # type: ignore[attr-defined]


async def asked_everything(storage: Storage) -> list[object]:
    """Every kind of question; what comes back, or the error."""
    calls: list[Awaitable[object]] = [
        storage.list_sessions(limit=100),
        storage.list_memory(limit=100),
        storage.list_runnable(utc_now()),
        storage.append_event(event("fresh", 1)),
        storage.verify_audit("s1"),  # type: ignore[attr-defined]
        storage.delete_user("nobody"),  # type: ignore[attr-defined]
    ]
    for at in range(30):
        calls += [
            storage.get_session(f"s{at}"),
            storage.list_events(f"s{at}"),
            storage.list_audit_logs(f"s{at}"),
            storage.get_latest_checkpoint(f"s{at}"),
        ]
    return list(await asyncio.gather(*calls, return_exceptions=True))


async def test_damage_in_the_middle_is_damaged_and_never_a_crash(tmp_path: Path) -> None:
    """Pages overwritten at random. What is wrong is told as what it is, whatever was hit."""
    whole = tmp_path / "whole.db"
    await stocked(whole)
    content = whole.read_bytes()
    chance = random.Random(1)
    told = 0
    for attempt in range(PLENTY if SOAK else 15):
        path = tmp_path / f"{attempt}.db"
        path.write_bytes(content)
        for _ in range(chance.choice([1, 4, 20])):
            at = chance.randrange(100, len(content) - 600)
            overwritten(path, at, chance.randbytes(chance.choice([1, 40, 600])))
        async with opened(path, migrate=False) as storage:
            errors = [each for each in await asked_everything(storage) if isinstance(each, BaseException)]
        assert all(type(error) is Damaged for error in errors), errors
        assert all(str(path) in str(error) for error in errors), errors
        told += bool(errors)
        path.unlink()
    assert told > 3  # else nothing was hit


# --- limits -------------------------------------------------------------------


@contextmanager
def no_more_open_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = max(int(name) for name in os.listdir("/proc/self/fd"))
    with ExitStack() as stack:
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 10, hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with suppress(OSError):
            while True:
                stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield


async def test_too_many_open_files_are_not_taken_for_a_missing_permission(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    stored = await filled(path)
    async with opened(path, migrate=False) as storage:
        with no_more_open_files():
            await said(StorageError, path, storage.list_events("a"), "Too many open files", "ulimit")
            with pytest.raises(StorageError, match="ulimit"):
                async with storage.holding("runner"):  # type: ignore[attr-defined]
                    pass
        assert await ids(storage, "a") == stored


async def test_a_number_that_no_database_counts_with_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as storage:
        await storage.append_event(event("a", 1))
        for seq in (0, -1, 2**53, 2**63, 2**80):
            with pytest.raises(InvalidInput, match="must be from 1"):
                await storage.append_event(event("a", seq))
        assert (await storage.list_events("a", 2**80)).items == ()
        assert len((await storage.list_events("a", -(2**80))).items) == 1


# --- names --------------------------------------------------------------------

NAMES = [
    "with space.db",
    "100%.db",
    "%41.db",
    "what?.db",
    "a#b.db",
    "a;b&c=d.db",
    "[x].db",
    "naïve-日本-🙂.db",
    'it\'s "quoted".db',
    "two\nlines.db",
    "no-suffix",
]


@pytest.mark.parametrize("name", NAMES)
async def test_a_path_may_hold_any_character(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    stored = await filled(path)
    assert path.is_file()
    assert await holds(path) == stored
    assert os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "a#b.db", "naïve.db"])
async def test_a_path_is_understood_as_a_person_would_write_it(tmp_path: Path, name: str) -> None:
    async with opened(f"sqlite:///{tmp_path}/{name}"):
        assert (tmp_path / name).is_file()


def test_a_path_that_no_system_allows_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="NUL"):
        registry.storage("sqlite:///a%00b.db")


async def test_a_name_that_is_too_long_is_said(tmp_path: Path) -> None:
    await said_by_all(StorageError, tmp_path / ("x" * 300), "shorter")


async def test_a_link_is_followed_to_the_file(tmp_path: Path) -> None:
    """Two names of one store are one store: its log stands beside the file, not beside the link."""
    real, link = tmp_path / "real" / "store.db", tmp_path / "link.db"
    real.parent.mkdir()
    link.symlink_to(real)
    async with opened(link) as by_link, opened(real) as by_name:
        await by_link.append_event(event("a", 1))
        await by_name.append_event(event("a", 2))
        assert await ids(by_link, "a") == ["a-1", "a-2"]
        assert (tmp_path / "real" / "store.db-wal").exists()
        assert not (tmp_path / "link.db-wal").exists()


async def test_a_link_to_itself_is_no_file(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(link)
    await said_by_all(StorageError, link, "not a file")


# --- the file changes under an open store -------------------------------------


async def test_a_file_that_is_deleted_under_the_store_takes_no_more_appends(tmp_path: Path) -> None:
    """SQLite would write on into a file that nobody can find again, and call it stored."""
    path = tmp_path / "store.db"
    async with opened(path) as storage:
        await storage.append_event(event("a", 1))
        path.unlink()
        await said(StorageError, path, storage.append_event(event("a", 2)), "removed or replaced")
        await said(StorageError, path, storage.append_event(event("b", 1)), "open the store anew")
    async with opened(path, migrate=False) as storage:
        await said(WrongSchema, path, storage.list_events("a"))


async def test_a_file_that_was_moved_away_keeps_what_it_had(tmp_path: Path) -> None:
    path, aside = tmp_path / "store.db", tmp_path / "aside.db"
    stored = await filled(path)
    async with opened(path) as storage:
        await storage.append_event(event("a", 6))
        path.rename(aside)
        await said(StorageError, path, storage.append_event(event("a", 7)))
        aside.rename(path)
        await storage.append_event(event("a", 7))
    assert await holds(path) == [*stored, "a-6", "a-7"]


async def test_a_file_that_was_replaced_is_not_mixed_with_the_old_one(tmp_path: Path) -> None:
    path, other = tmp_path / "store.db", tmp_path / "other.db"
    theirs = await filled(other, 2)
    async with opened(path) as storage:
        await storage.append_event(event("a", 1))
        os.replace(other, path)
        await said(StorageError, path, storage.append_event(event("a", 2)), "removed or replaced")
    (tmp_path / "store.db-wal").unlink(missing_ok=True)  # of the file that was thrown away
    (tmp_path / "store.db-shm").unlink(missing_ok=True)
    assert await holds(path) == theirs


async def test_a_log_that_is_deleted_under_the_store_costs_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as storage:
        for seq in range(1, 6):
            await storage.append_event(event("a", seq))
        (tmp_path / "store.db-wal").unlink()
        await said(StorageError, path, storage.append_event(event("a", 6)), "or its log")
    assert await holds(path) == [f"a-{seq}" for seq in range(1, 6)]


def test_a_url_and_its_path_are_the_same(tmp_path: Path) -> None:
    storage = registry.storage(sqlite_url(tmp_path / "a b%20c.db"))
    assert storage.where == f"sqlite store {tmp_path}/a b%20c.db"  # type: ignore[attr-defined]
