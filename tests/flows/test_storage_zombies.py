"""Two processes, one session: whoever was taken over writes nothing any more, however long it slept."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.errors import Conflict, Unavailable
from gnomon.types.events import Claimed, MessageReceived
from gnomon.types.messages import Message
from gnomon.types.records import SessionRecord, utc_now
from storing import Child, child, opened, sqlite_url

OWNER = Path(__file__).parent / "zombie_owner.py"
ROUNDS = 60 if os.environ.get("GNOMON_SOAK") == "1" else 4


@asynccontextmanager
async def session_of(path: Path) -> AsyncIterator[Storage]:
    async with opened(path, patience_s=0.3) as storage:
        now = utc_now()
        await storage.create_session(SessionRecord(id="s", created_at=now, updated_at=now))
        yield storage


@contextmanager
def owner(path: Path, name: str = "first") -> Iterator[Child]:
    """A process that has claimed the session."""
    with child(sys.executable, str(OWNER), sqlite_url(path), name) as started:
        assert started.line().isdecimal(), started.complaints()
        yield started


async def told(runner: Child, what: str) -> str:
    runner.tell(what)
    return await asyncio.to_thread(runner.line)


def stop(runner: Child) -> None:
    """It stands still when this returns."""
    runner.send(signal.SIGSTOP)
    while Path(f"/proc/{runner.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.001)


async def entries(storage: Storage) -> list[object]:
    return [read.entry for read in await Ledger(storage, "s").refresh()]


def ours(number: int) -> MessageReceived:
    return MessageReceived(f"ours-{number}", Message.user("ours"))


async def test_a_runner_that_is_alive_keeps_its_session(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with session_of(path) as storage:
        with owner(path) as first:
            ledger = await Ledger.open(storage, "s")
            with pytest.raises(Conflict, match="held by 'first'"):
                await ledger.claim("second")
            await ledger.append(ours(1))  # a sender needs no claim
            assert await told(first, "append") == "3"


async def test_a_runner_that_sleeps_is_taken_over_only_when_a_person_says_so(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with session_of(path) as storage:
        with owner(path) as first:
            assert await told(first, "append") == "2"
            stop(first)
            ledger = await Ledger.open(storage, "s")
            with pytest.raises(Conflict, match="take_over"):
                await ledger.claim("second")
            assert await ledger.claim("second", take_over=True) == 2
            await ledger.append(ours(1))
            first.send(signal.SIGCONT)
            assert await told(first, "append") == "Superseded"
            await ledger.append(ours(2))
    async with opened(path) as storage:
        kept = await entries(storage)
    assert kept[2:] == [Claimed("second", 2), ours(1), ours(2)]


async def test_a_runner_that_was_taken_over_does_not_turn_back_the_row_of_the_session(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with session_of(path) as storage:
        with owner(path) as first:
            stop(first)
            ledger = await Ledger.open(storage, "s")
            await ledger.claim("second", take_over=True)
            await ledger.append(ours(1))
            await ledger.project("idle")
            first.send(signal.SIGCONT)
            assert await told(first, "project") == "3"
            row = await storage.get_session("s")
            assert row is not None
            assert (row.status, row.last_seq) == ("idle", 3)


async def test_letting_go_of_a_session_that_was_taken_over_takes_it_from_nobody(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with session_of(path) as storage:
        with owner(path) as first:
            stop(first)
            ledger = await Ledger.open(storage, "s")
            await ledger.claim("second", take_over=True)
            first.send(signal.SIGCONT)
            assert await told(first, "release") == "None"
            await ledger.append(ours(1))
            assert ledger.fold.owner == "second"
    async with opened(path) as storage:
        assert await entries(storage) == [Claimed("first", 1), Claimed("second", 2), ours(1)]


async def test_a_runner_that_falls_asleep_in_the_middle_of_an_append_has_appended_or_not(
    tmp_path: Path,
) -> None:
    """It is stopped while it writes. What it is told after it woke up is what the ledger says."""
    path = tmp_path / "store.db"
    chance = random.Random(1)
    async with session_of(path) as storage:
        for number in range(ROUNDS):
            with owner(path, f"owner-{number}") as first:
                first.tell("append")
                await asyncio.sleep(chance.uniform(0, 0.006))
                first.send(signal.SIGSTOP)
                ledger = await Ledger.open(storage, "s")
                try:
                    epoch = await ledger.claim(f"second-{number}", take_over=True)
                except Unavailable:  # it sleeps with the lock of the file in its hands
                    first.send(signal.SIGCONT)
                    epoch = await ledger.claim(f"second-{number}", take_over=True)
                first.send(signal.SIGCONT)
                said = await asyncio.to_thread(first.line)
                assert await told(first, "append") == "Superseded"
                await ledger.release()
            kept = await entries(storage)
            claimed = kept.index(Claimed(f"second-{number}", epoch))
            theirs = [at for at, entry in enumerate(kept) if _is_owners(entry)]
            assert all(at < claimed for at in theirs)
            if said == "Superseded":
                assert kept[claimed - 1] == Claimed(f"owner-{number}", epoch - 1)
            else:
                assert kept[int(said) - 1] == MessageReceived(f"owner-{number}/1", Message.user("mine"))


def _is_owners(entry: object) -> bool:
    return isinstance(entry, MessageReceived) and entry.message_id.startswith("owner")


async def test_a_runner_that_was_killed_is_dead_at_once_and_its_session_free(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with session_of(path) as storage:
        with owner(path) as first:
            assert await storage.is_held("first")  # type: ignore[attr-defined]
            first.process.kill()
            first.process.wait()
            assert not await storage.is_held("first")  # type: ignore[attr-defined]
            ledger = await Ledger.open(storage, "s")
            assert await ledger.claim("second") == 2
        with owner(path, "third") as third:  # and where nobody lives, the name means nothing
            assert await told(third, "append") == "4"
