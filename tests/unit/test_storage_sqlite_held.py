"""An SQLite file that others hold: by a lock that lasts, by a process that was stopped, by many at once."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from gnomon.errors import Conflict, Unavailable
from gnomon.storage._keys import joined
from storing import Child, child, event, ids, opened, sqlite_url

# Takes the lock of the file by itself, says so, and keeps it until a line comes, or for good.
HOLD = """
import sqlite3, sys
holder = sqlite3.connect(sys.argv[1], isolation_level=None)
holder.execute("BEGIN " + sys.argv[2])
print("held", flush=True)
sys.stdin.readline()
holder.execute("ROLLBACK")
print("let go", flush=True)
sys.stdin.readline()
"""

# Appends to a session of its own for as long as it lives, and says what was acknowledged.
APPEND = """
import asyncio, sys
from gnomon import registry
from gnomon.types.records import LedgerEvent, utc_now

async def main(url, session):
    storage = registry.storage(url)
    for seq in range(1, int(sys.argv[3]) + 1):
        made = LedgerEvent(session_id=session, seq=seq, id=f"{session}-{seq}", type="x", payload=b"{}",
                           created_at=utc_now())
        await storage.append_event(made)
        print(made.id, flush=True)
    await storage.close()

asyncio.run(main(sys.argv[1], sys.argv[2]))
"""


# Asks all the time whether a name is held.
LOOK = """
import asyncio, sys
from gnomon import registry

async def main(url):
    storage = registry.storage(url)
    print("looking", flush=True)
    while True:
        await storage.is_held("runner")

asyncio.run(main(sys.argv[1]))
"""


@contextmanager
def holder(path: Path, how: str = "EXCLUSIVE") -> Iterator[Child]:
    with child(sys.executable, "-c", HOLD, str(path), how) as started:
        assert started.line() == "held"
        yield started


async def line_of(speaker: Child) -> str:
    return await asyncio.to_thread(speaker.line)


@pytest.mark.parametrize("how", ["EXCLUSIVE", "IMMEDIATE"])
async def test_a_lock_that_lasts_is_unavailable_in_time(tmp_path: Path, how: str) -> None:
    path = tmp_path / "store.db"
    async with opened(path, patience_s=0.5) as storage:
        await storage.append_event(event("a", 1))
        with holder(path, how):
            began = time.monotonic()
            with pytest.raises(Unavailable, match=f"another process keeps {path} locked") as caught:
                await storage.append_event(event("a", 2))
            assert time.monotonic() - began < 3
            assert caught.value.retryable
            assert caught.value.hint
            assert await ids(storage, "a") == ["a-1"]  # readers are not in anybody's way
        await storage.append_event(event("a", 2))
        assert await ids(storage, "a") == ["a-1", "a-2"]


async def test_many_who_wait_for_a_lock_wait_together_and_not_one_after_another(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path, patience_s=0.5) as storage:
        await storage.append_event(event("a", 1))
        with holder(path):
            began = time.monotonic()
            calls = [storage.append_event(event(f"s{at}", 1)) for at in range(50)]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert time.monotonic() - began < 4
        assert {type(outcome) for outcome in outcomes} == {Unavailable}
        for at in range(50):
            assert await ids(storage, f"s{at}") == []


async def test_a_lock_that_is_let_go_in_time_is_only_a_delay(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path, patience_s=20) as storage:
        await storage.append_event(event("a", 1))
        with holder(path) as other:
            waiting = [asyncio.ensure_future(storage.append_event(event(f"s{at}", 1))) for at in range(20)]
            await asyncio.sleep(0.3)
            assert not any(call.done() for call in waiting)
            other.tell()
            await asyncio.wait_for(asyncio.gather(*waiting), 10)
        for at in range(20):
            assert await ids(storage, f"s{at}") == [f"s{at}-1"]


async def test_a_store_is_opened_though_another_process_has_it_locked(tmp_path: Path) -> None:
    """Also the very first time, when the file is not yet in the mode in which readers are free."""
    path = tmp_path / "store.db"
    path.touch()
    with holder(path) as other:
        async with opened(path, migrate=False, patience_s=20) as storage:
            migrating = asyncio.ensure_future(storage.migrate())
            await asyncio.sleep(0.3)
            assert not migrating.done()
            other.tell()
            await asyncio.wait_for(migrating, 10)
            await storage.append_event(event("a", 1))
            assert await ids(storage, "a") == ["a-1"]


async def test_a_process_that_was_stopped_with_the_lock_holds_up_others_for_their_patience_alone(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    async with opened(path, patience_s=0.5) as storage:
        await storage.append_event(event("a", 1))
        with holder(path, "IMMEDIATE") as other:
            other.send(signal.SIGSTOP)
            with pytest.raises(Unavailable):
                await storage.append_event(event("a", 2))
            other.send(signal.SIGKILL)  # and the system lets go of its lock
            await storage.append_event(event("a", 2))
    async with opened(path) as storage:
        assert await ids(storage, "a") == ["a-1", "a-2"]


async def interrupt(other: Child) -> None:
    for _ in range(10):
        other.send(signal.SIGSTOP)
        await asyncio.sleep(0.05)
        other.send(signal.SIGCONT)
        await asyncio.sleep(0.01)


async def test_a_writer_that_is_stopped_again_and_again_loses_nothing(tmp_path: Path) -> None:
    """Two processes on one file; one of them stands still for a while, wherever that may hit it."""
    path = tmp_path / "store.db"
    async with opened(path) as storage:
        with child(sys.executable, "-c", APPEND, sqlite_url(path), "theirs", "150") as other:
            told = [await line_of(other)]
            interrupting = asyncio.ensure_future(interrupt(other))
            for seq in range(1, 151):
                await storage.append_event(event("ours", seq))
            await interrupting
            told += await asyncio.to_thread(other.rest)
        assert told == [f"theirs-{seq}" for seq in range(1, 151)]
        assert await ids(storage, "theirs") == told
        assert await ids(storage, "ours") == [f"ours-{seq}" for seq in range(1, 151)]


# --- names that are held ------------------------------------------------------


def left_behind(path: Path) -> Path:
    """The file that a runner leaves when it dies."""
    folder = path.with_name(f"{path.name}-owners")
    folder.mkdir(exist_ok=True)
    return folder / f"{sha256(joined('default', 'runner').encode()).hexdigest()[:32]}.lock"


async def test_asking_whether_a_name_is_held_is_never_in_the_way_of_who_wants_it(tmp_path: Path) -> None:
    """The lock is looked at by trying it; who looks must not be taken for a holder."""
    path = tmp_path / "store.db"
    async with opened(path) as storage:
        with child(sys.executable, "-c", LOOK, sqlite_url(path)) as other:
            assert await line_of(other) == "looking"
            for _ in range(300):
                left_behind(path).touch()
                await asyncio.sleep(0.001)
                async with storage.holding("runner"):  # type: ignore[attr-defined]
                    await asyncio.sleep(0)


async def test_of_many_who_look_none_takes_another_for_the_holder(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with opened(path) as storage:
        left_behind(path).touch()

        def look(times: int) -> list[bool]:
            async def asked() -> list[bool]:
                return [await storage.is_held("runner") for _ in range(times)]  # type: ignore[attr-defined]

            return asyncio.run(asked())

        seen = await asyncio.gather(*(asyncio.to_thread(look, 2_000) for _ in range(4)))
        assert not any(map(any, seen))


async def test_a_name_is_held_by_one_alone(tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "store.db") as one,
        opened(tmp_path / "store.db") as two,
        one.holding("runner"),  # type: ignore[attr-defined]
    ):
        assert await two.is_held("runner")  # type: ignore[attr-defined]
        with pytest.raises(Conflict, match="'runner' is held"):
            async with two.holding("runner"):  # type: ignore[attr-defined]
                pass
        assert await two.is_held("runner")  # type: ignore[attr-defined]
