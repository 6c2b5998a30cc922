"""How an SQLite store ends, and who may use it: closed midway, from several loops, forked, forgotten."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon import registry
from gnomon.errors import StorageError
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.records import AuditLog, utc_now
from storing import event, ids, opened, sqlite_url

PROMPTLY_S = 30


def our_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gnomon-sqlite")]


# --- close --------------------------------------------------------------------


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 13, 40])
async def test_a_call_in_hand_when_the_store_closes_is_done_or_an_error(tmp_path: Path, turns: int) -> None:
    """Reads, writes and what takes several of both; the store closes after so many turns of the loop."""
    path = tmp_path / "store.db"
    storage = registry.storage(sqlite_url(path))
    await storage.migrate()
    await storage.append_events([event("long", seq, bytes(100_000)) for seq in range(1, 31)])
    appends = [asyncio.ensure_future(storage.append_event(event(f"s{at}", 1))) for at in range(60)]
    others = [
        asyncio.ensure_future(call)
        for at in range(30)
        for call in (storage.list_events("long"), storage.append_audit_log(audit_row(at)))
    ]
    for _ in range(turns):
        await asyncio.sleep(0)
    await asyncio.wait_for(storage.close(), PROMPTLY_S)
    done, hanging = await asyncio.wait([*appends, *others], timeout=PROMPTLY_S)
    assert not hanging
    assert not [call for call in done if call.cancelled()]  # nobody here has cancelled anything
    errors = [call.exception() for call in done]
    assert {type(error) for error in errors if error is not None} <= {StorageError}
    async with opened(path) as anew:
        for at, call in enumerate(appends):
            stored = await ids(anew, f"s{at}")
            assert stored == [f"s{at}-1"] if call.exception() is None else not stored
        assert await anew.verify_audit("audited") == ()  # type: ignore[attr-defined]
    assert our_threads() == []


def audit_row(at: int) -> AuditLog:
    return AuditLog(id=str(at), session_id="audited", actor="a", action="b", created_at=utc_now())


async def test_a_call_that_waits_for_a_lock_when_the_store_closes_hears_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not open the file again behind the back of who has closed the store."""
    monkeypatch.setattr("gnomon.storage.sqlite.BUSY_S", 0.01)  # it waits between its tries, not in them
    path = tmp_path / "store.db"
    storage = registry.storage(sqlite_url(path), {"patience_s": 20})
    await storage.migrate()
    await storage.append_event(event("a", 1))
    async with opened(path) as other:
        blocked = locked(path)
        try:
            waiting = asyncio.ensure_future(storage.append_event(event("a", 2)))
            await asyncio.sleep(0.5)
            await storage.close()
            with pytest.raises(StorageError, match="closed"):
                await asyncio.wait_for(waiting, PROMPTLY_S)
        finally:
            blocked()
        assert await ids(other, "a") == ["a-1"]
    assert our_threads() == []


def locked(path: Path) -> Callable[[], None]:
    """Lock the file; gives what lets go of it."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    return holder.close


async def test_closing_twice_and_at_the_same_time_is_fine(tmp_path: Path) -> None:
    storage = registry.storage(sqlite_url(tmp_path / "store.db"))
    await storage.migrate()
    await storage.append_event(event("a", 1))
    await asyncio.gather(storage.close(), storage.close(), storage.close())
    await storage.close()
    with pytest.raises(StorageError, match="closed"):
        await storage.append_event(event("a", 2))
    with pytest.raises(StorageError, match="closed"):
        await storage.list_events("a")


async def test_a_store_that_was_never_used_is_closed_without_a_trace(tmp_path: Path) -> None:
    await registry.storage(sqlite_url(tmp_path / "store.db")).close()
    assert os.listdir(tmp_path) == []


async def test_a_connection_that_was_given_stays_open(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "store.db", check_same_thread=False)
    storage = SQLiteStorage(client=connection)
    await storage.migrate()
    await storage.append_event(event("a", 1))
    await storage.close()
    assert connection.execute("SELECT count(*) FROM events").fetchone() == (1,)
    connection.close()


# --- several loops and threads ------------------------------------------------


def test_one_store_may_be_used_from_one_loop_after_another(tmp_path: Path) -> None:
    storage = registry.storage(sqlite_url(tmp_path / "store.db"))
    asyncio.run(storage.migrate())

    async def append_and_watch(seq: int) -> list[str]:
        await storage.append_event(event("a", seq))
        async with storage.watch("a") as events:  # type: ignore[attr-defined]
            return [(await anext(events)).id for _ in range(seq)]

    for seq in (1, 2, 3):
        assert asyncio.run(append_and_watch(seq)) == [f"a-{at}" for at in range(1, seq + 1)]
    asyncio.run(storage.close())
    assert our_threads() == []


def test_one_store_may_be_used_from_several_threads_at_once(tmp_path: Path) -> None:
    storage = registry.storage(sqlite_url(tmp_path / "store.db"))
    asyncio.run(storage.migrate())
    failures: list[BaseException] = []

    async def work(name: str) -> None:
        for seq in range(1, 51):
            await storage.append_event(event(name, seq))
            if seq % 10 == 0:
                assert len(await ids(storage, name)) == seq

    def run(name: str) -> None:
        try:
            asyncio.run(work(name))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(f"thread-{at}",)) for at in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PROMPTLY_S)
    assert failures == []

    async def check() -> None:
        for at in range(4):
            assert await ids(storage, f"thread-{at}") == [f"thread-{at}-{seq}" for seq in range(1, 51)]
        await storage.close()

    asyncio.run(check())


async def test_a_watcher_in_one_loop_hears_of_an_append_in_another(tmp_path: Path) -> None:
    storage = registry.storage(sqlite_url(tmp_path / "store.db"))
    await storage.migrate()

    async def first() -> str:
        async with storage.watch("a") as events:  # type: ignore[attr-defined]
            return (await anext(events)).id

    watching = asyncio.ensure_future(asyncio.to_thread(asyncio.run, first()))
    await asyncio.sleep(0.2)
    await storage.append_event(event("a", 1))
    assert await asyncio.wait_for(watching, PROMPTLY_S) == "a-1"
    await storage.close()


def test_a_loop_that_ended_in_the_middle_of_a_write_is_not_missed(tmp_path: Path) -> None:
    storage = registry.storage(sqlite_url(tmp_path / "store.db"))
    asyncio.run(storage.migrate())

    async def abandon() -> None:
        asyncio.ensure_future(storage.append_event(event("a", 1)))  # noqa: RUF006 - that is the point
        await asyncio.sleep(0)

    for _ in range(20):
        asyncio.run(abandon())

    async def check() -> None:
        assert await ids(storage, "a") in ([], ["a-1"])
        await storage.append_event(event("b", 1))
        await storage.close()

    asyncio.run(check())


# --- forks ----------------------------------------------------------------------


def in_a_fork(work: Callable[[], object]) -> str:
    """What the work gives or raises in a fork of this process, as text."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of forks beside threads
        pid = os.fork()
    if pid == 0:
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode()[:4_000])
        os._exit(0)
    os.close(writing)
    try:
        with os.fdopen(reading) as said_there:
            return said_there.read()
    finally:
        os.waitpid(pid, 0)


def test_a_store_that_was_open_before_a_fork_says_so_in_the_fork(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    storage = registry.storage(sqlite_url(path))
    asyncio.run(storage.migrate())
    asyncio.run(storage.append_event(event("a", 1)))

    async def try_it() -> None:
        async with asyncio.timeout(5):
            await storage.append_event(event("a", 2))

    async def read_it() -> None:
        async with asyncio.timeout(5):
            await storage.list_events("a")

    for call in (try_it, read_it):
        said = in_a_fork(lambda call=call: asyncio.run(call()))
        assert said.startswith("StorageError: ")
        assert str(path) in said
        assert "spawn" in said
    assert in_a_fork(lambda: asyncio.run(storage.close())) == "None"
    asyncio.run(storage.append_event(event("a", 2)))  # the parent goes on
    assert asyncio.run(ids(storage, "a")) == ["a-1", "a-2"]
    asyncio.run(storage.close())


def test_a_file_that_was_open_before_a_fork_is_not_opened_anew_there(tmp_path: Path) -> None:
    """SQLite would believe that it has the locks of its parent, and would take its turn without any."""
    path = tmp_path / "store.db"

    async def append_in_a_store_of_its_own() -> None:
        async with opened(path) as storage:
            await storage.append_event(event("forked", 1))

    def forked() -> str:
        return in_a_fork(lambda: asyncio.run(append_in_a_store_of_its_own()))

    storage = registry.storage(sqlite_url(path))
    asyncio.run(storage.migrate())
    assert forked().startswith(f"StorageError: {path} was open when this process was forked")
    asyncio.run(storage.close())
    assert forked() == "None"


def test_a_fork_does_not_hold_the_name_of_its_parent(tmp_path: Path) -> None:
    """Else a runner that died would seem alive for as long as a child of its lives."""
    asking = f"""
import asyncio, os, sys, time
from gnomon import registry
storage = registry.storage({sqlite_url(tmp_path / "store.db")!r})

async def main():
    async with storage.holding("parent"):
        if os.fork() == 0:
            print("child", os.getpid(), flush=True)
            time.sleep(60)
            os._exit(0)
        await asyncio.sleep(60)

asyncio.run(main())
"""
    parent = subprocess.Popen([sys.executable, "-c", asking], stdout=subprocess.PIPE, text=True)
    orphan = 0
    try:
        assert parent.stdout is not None
        orphan = int(parent.stdout.readline().split()[1])
        parent.kill()
        parent.wait()
        parent.stdout.close()
        os.kill(orphan, 0)  # it lives
        storage = registry.storage(sqlite_url(tmp_path / "store.db"))
        assert not asyncio.run(storage.is_held("parent"))  # type: ignore[attr-defined]
        asyncio.run(storage.close())
    finally:
        parent.kill()
        if orphan:
            os.kill(orphan, 9)


# --- the end of the interpreter -------------------------------------------------

FORGETFUL = """
import asyncio, sys
from gnomon import registry
from gnomon.types.records import LedgerEvent, utc_now

storage = registry.storage(sys.argv[1])

def made(session, seq):
    return LedgerEvent(session_id=session, seq=seq, id=f"{session}-{seq}", type="x", payload=b"{}",
                       created_at=utc_now())

async def main():
    await storage.migrate()
    await storage.append_event(made("a", 1))
    await storage.list_events("a")
    watching = storage.watch("a")
    await anext(watching)
    for at in range(200):
        asyncio.ensure_future(storage.append_event(made(f"s{at}", 1)))
    await asyncio.sleep(0)
    if sys.argv[2] == "raise":
        raise SystemExit(3)
    if sys.argv[2] == "wait":
        asyncio.ensure_future(anext(watching))
        await asyncio.sleep(0.05)

asyncio.run(main())
"""


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("raise", 3), ("wait", 0)])
def test_a_program_that_never_closes_its_store_ends_at_once_and_quietly(
    tmp_path: Path, how: str, code: int
) -> None:
    command = [sys.executable, "-c", FORGETFUL, sqlite_url(tmp_path / "store.db"), how]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PROMPTLY_S, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")

    async def check() -> None:
        async with opened(tmp_path / "store.db") as storage:
            assert await ids(storage, "a") == ["a-1"]
            for at in range(200):
                assert await ids(storage, f"s{at}") in ([], [f"s{at}-1"])

    asyncio.run(check())
