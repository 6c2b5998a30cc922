"""Appends that share a transaction of an SQLite file: each is answered as if it were alone."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

from gnomon.contracts.storage import Storage
from gnomon.errors import Conflict
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.records import Checkpoint, utc_now
from storing import event, ids, opened


def point(session_id: str, seq: int) -> Checkpoint:
    return Checkpoint(id=f"{session_id}-{seq}", session_id=session_id, seq=seq, created_at=utc_now())


async def answers(storage: Storage, numbers: dict[str, int], *, points: bool) -> dict[str, object]:
    """What each session hears when all append at once: its number, with or without a checkpoint."""
    calls = [
        storage.append_events([event(name, seq)], checkpoint=point(name, seq) if points else None)
        for name, seq in numbers.items()
    ]
    ends = await asyncio.gather(*calls, return_exceptions=True)
    return {
        name: type(end) if isinstance(end, Exception) else end
        for name, end in zip(numbers, ends, strict=True)
    }


async def test_one_append_that_is_refused_takes_nothing_from_the_others_of_its_batch(tmp_path: Path) -> None:
    names = [f"s{at}" for at in range(20)]
    for points in (False, True):
        async with opened(tmp_path / f"store-{points}.db") as storage:
            assert set((await answers(storage, dict.fromkeys(names, 1), points=points)).values()) == {None}
            numbers = {**dict.fromkeys(names, 2), "s3": 1, "s7": 3, "s19": 1}
            found = await answers(storage, numbers, points=points)
            refused = {name for name, end in found.items() if end is Conflict}
            assert refused == {"s3", "s7", "s19"}
            assert {end for name, end in found.items() if name not in refused} == {None}
            for name in names:
                kept = [f"{name}-1"] if name in refused else [f"{name}-1", f"{name}-2"]
                assert await ids(storage, name) == kept
                latest = await storage.get_latest_checkpoint(name)
                assert (latest.id if latest else None) == (kept[-1] if points else None)


async def test_appends_to_one_log_that_follow_one_another_go_into_one_batch(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as storage:
        calls = [storage.append_event(event("s", seq)) for seq in (1, 2, 3, 3, 4, 6, 5)]
        ends = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(end) for end in ends if end is not None] == [Conflict, Conflict]
        assert (ends[3], ends[5]) != (None, None)
        assert await ids(storage, "s") == [f"s-{seq}" for seq in range(1, 6)]


async def test_an_append_among_other_writes_is_done_in_its_turn(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db") as storage:
        await asyncio.gather(
            storage.append_event(event("a", 1)),
            storage.save_checkpoint(point("a", 1)),
            storage.append_events([event("a", 2)], checkpoint=point("a", 2)),
            storage.append_event(event("b", 1)),
        )
        assert await ids(storage, "a") == ["a-1", "a-2"]
        assert await ids(storage, "b") == ["b-1"]
        latest = await storage.get_latest_checkpoint("a")
        assert latest is not None
        assert latest.id == "a-2"


async def test_a_transaction_that_is_interrupted_as_it_begins_does_not_stand_in_the_way() -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    storage = SQLiteStorage(client=connection)
    await storage.migrate()
    for steps in range(1, 40):
        left = [steps]

        def interrupt(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] == 0

        connection.set_progress_handler(interrupt, 1)
        await asyncio.gather(storage.list_events("a"), return_exceptions=True)
        connection.set_progress_handler(None, 1)
        assert (await storage.list_events("a")).items == ()
    await storage.close()
    connection.close()
