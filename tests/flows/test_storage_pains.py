"""Pains of other frameworks with what they store, each with the design that avoids it.

They go through the front door: a store by its URL, the ledger of a session, the command line. Pain 21 is
in `test_storage_pains_forgetting.py`, pain 23 in `test_storage_pains_versions.py`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.records import SessionRecord
from storing import child, event, ids, opened, sqlite_url

SOAK = os.environ.get("GNOMON_SOAK") == "1"
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def session(name: str, at: datetime, **fields: object) -> SessionRecord:
    return SessionRecord(id=name, created_at=at, updated_at=at, **fields)  # type: ignore[arg-type]


# --- pain 20: listing sessions takes a minute ---------------------------------


class Counted:
    """A store on a connection that counts what SQLite does: steps of its machine, and statements."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA synchronous = OFF")
        self.storage = SQLiteStorage(client=self._connection)
        self.steps = 0
        self.statements: list[str] = []

    async def cost(self, call: Callable[[], Awaitable[object]]) -> tuple[int, list[str]]:
        """How many steps the call takes, and by which statements."""
        self.steps, self.statements = 0, []
        self._connection.set_progress_handler(self._step, 1)
        self._connection.set_trace_callback(self.statements.append)
        await call()
        self._connection.set_progress_handler(None, 1)
        self._connection.set_trace_callback(None)
        wanted = [text for text in self.statements if text.startswith(("SELECT", "UPDATE", "INSERT"))]
        return self.steps, wanted

    def close(self) -> None:
        self._connection.close()

    def _step(self) -> None:
        self.steps += 1

    async def plan(self, statement: str) -> str:
        rows = self._connection.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
        return "; ".join(row[3] for row in rows)


async def add_sessions(storage: Storage, first: int, last: int) -> None:
    for start in range(first, last, 1_000):
        numbers = range(start, min(start + 1_000, last))
        made = [
            session(f"s{n}", LONG_AGO + timedelta(seconds=n), agent_id=f"a{n % 2}", metadata={"n": n})
            for n in numbers
        ]
        await asyncio.gather(*map(storage.create_session, made))
        await asyncio.gather(*(storage.append_event(event(each.id, 1, bytes(500))) for each in made[:200]))


async def test_pain_20_a_page_of_sessions_costs_the_same_among_20_000_as_among_200(tmp_path: Path) -> None:
    counted = Counted(tmp_path / "store.db")
    storage = counted.storage
    await storage.migrate()
    costs: list[tuple[int, int, int]] = []
    for before, count in ((0, 200), (200, 20_000)):
        await add_sessions(storage, before, count)
        middle = (await storage.list_sessions(limit=50, cursor=(await storage.list_sessions()).next)).next
        costs.append(
            (
                (await counted.cost(storage.list_sessions))[0],
                (await counted.cost(lambda middle=middle: storage.list_sessions(cursor=middle)))[0],
                (await counted.cost(lambda: storage.list_sessions("a1")))[0],
            )
        )
    assert all(many <= few * 1.1 for few, many in zip(*costs, strict=True)), costs
    _, statements = await counted.cost(storage.list_sessions)
    assert len(statements) == 1  # one bounded query, which looks at nothing but the rows it gives
    assert " events" not in statements[0]
    assert "LIMIT 51" in statements[0]
    plan = await counted.plan(statements[0])
    assert plan.startswith("SEARCH sessions USING INDEX sessions_by_all")
    assert "TEMP B-TREE" not in plan
    assert "SCAN" not in plan
    await storage.close()
    counted.close()


async def test_pain_20_the_first_and_the_last_page_take_about_the_same_time(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db", synchronous="normal") as storage:
        await add_sessions(storage, 0, 3_000)
        cursors: list[str | None] = [None]
        while (page := await storage.list_sessions(cursor=cursors[-1])).next is not None:
            cursors.append(page.next)
        assert len(cursors) == 60
        times: dict[str | None, list[float]] = {cursors[0]: [], cursors[-1]: []}
        for _ in range(30):
            for cursor, taken in times.items():
                began = time.perf_counter()
                assert len((await storage.list_sessions(cursor=cursor)).items) == 50
                taken.append(time.perf_counter() - began)
        first, last = (statistics.median(taken) for taken in times.values())
        assert last < 5 * first


async def test_pain_20_no_page_is_unbounded(tmp_path: Path) -> None:
    async with opened(tmp_path / "store.db", synchronous="normal") as storage:
        await add_sessions(storage, 0, 1_200)
        page = await storage.list_sessions(limit=1_000_000)
        assert len(page.items) == 1_000
        assert page.next is not None


# --- pain 22: "database is locked" --------------------------------------------

STARTER = """
import asyncio, sys
from gnomon import registry
from gnomon.engine.ledger import Ledger
from gnomon.types.events import MessageReceived
from gnomon.types.messages import Message

async def main(url, name):
    storage = registry.storage(url)
    await storage.migrate()
    shared, own = await Ledger.open(storage, "shared"), await Ledger.open(storage, name)
    for n in range(5):
        await asyncio.gather(*(
            ledger.append(MessageReceived(f"{name}-{n}", Message.user("hello"))) for ledger in (shared, own)
        ))
    await storage.close()

print("ready", flush=True)
sys.stdin.readline()
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("round_", range(20 if SOAK else 2))
def test_pain_22_eight_processes_start_and_write_at_once_and_none_finds_it_locked(
    tmp_path: Path, round_: int
) -> None:
    url = sqlite_url(tmp_path / "store.db")
    with ExitStack() as stack:
        starters = [
            stack.enter_context(child(sys.executable, "-c", STARTER, url, f"p{number}"))
            for number in range(8)
        ]
        for starter in starters:
            assert starter.line() == "ready", starter.complaints()
        for starter in starters:
            starter.tell()
        for starter in starters:
            starter.rest()
            assert (starter.process.returncode, starter.complaints()) == (0, "")

    async def check() -> None:
        async with opened(url) as storage:
            assert len(await ids(storage, "shared")) == 40
            shared = (await Ledger.open(storage, "shared")).fold.recent
            assert set(shared) == {f"p{number}-{n}" for number in range(8) for n in range(5)}
            for number in range(8):
                assert len(await ids(storage, f"p{number}")) == 5

    asyncio.run(check())


# --- pain 24: loading state can run code --------------------------------------

LOADER = Path(__file__).parent / "hostile_loader.py"


def test_pain_24_loading_state_opens_no_door_to_running_code(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with child(sys.executable, str(LOADER), sqlite_url(path), str(path)) as loader:
        said = loader.line()
        assert said == '{"opened": [], "refused": true, "executed": false}', said or loader.complaints()
