"""How storage grows: bytes on disk, pages of long lists, the memory of a long read. On SQLite."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from measure import PEAK, Row, Samples, compared, in_turns, say

from gnomon.engine.ledger import Ledger
from gnomon.storage._events import packed_group
from gnomon.storage._sessions import session_row
from gnomon.storage.sqlite import SQLiteStorage, row_values
from gnomon.types.events import MessageCompleted, MessageReceived, TurnFinished, TurnStarted
from gnomon.types.messages import Message
from gnomon.types.records import LedgerEvent, SessionRecord
from gnomon.types.requests import Response, Usage
from storing import folder

FEW, MANY, QUICK_MANY = 1_000, 1_000_000, 100_000
ROUNDS, READS = 9, 100
TURNS, TURN_BYTES = 1_000, 2_000
MEMORY_MB = 50.0
START = datetime(2026, 1, 1, tzinfo=UTC)


def rows(*, quick: bool) -> list[Row]:
    many = QUICK_MANY if quick else MANY
    say(f"growing: {TURNS:,} turns of {TURN_BYTES:,} bytes; {many:,} sessions; a ledger of {many:,} events")
    with folder() as place:
        return [_on_disk(place), *_lists(place, many), _memory(place, many)]


# --- bytes on disk ---------------------------------------------------------------


def _on_disk(place: Path) -> Row:
    path = place / "turns.db"
    text = asyncio.run(_turns(path))
    size = sum(file.stat().st_size for file in place.glob("turns.db*") if file.is_file())
    return Row(what=f"{TURNS:,} turns of 2 KB: bytes on disk / text", value=size / text, limit=3.0)


async def _turns(path: Path) -> int:
    """Through the ledger, as a runner writes them; how many bytes of text that were."""
    said = 0
    async with SQLiteStorage(f"sqlite:///{path}") as storage:
        await storage.migrate()
        ledger = await Ledger.open(storage, "long")
        for turn in range(TURNS):
            question, answer = f"{turn}: what of the tide?", "It comes and goes. " * (TURN_BYTES // 19)
            said += len(question) + len(answer)
            await ledger.append(
                MessageReceived(f"msg_{turn}", Message.user(question)),
                TurnStarted(f"turn_{turn}", "agent", "demo"),
            )
            response = Response(
                id="r",
                provider="demo",
                model="demo",
                message=Message.assistant(answer),
                stop_reason="end_turn",
                usage=Usage(input_tokens=900, output_tokens=500),
            )
            await ledger.append(MessageCompleted(f"turn_{turn}", f"answer_{turn}", response))
            await ledger.append(TurnFinished(f"turn_{turn}", "end_turn", 1, response.usage, 0.001))
    return said


# --- pages of long lists -----------------------------------------------------------


def _lists(place: Path, many: int) -> list[Row]:
    sizes = {"few": FEW, "many": many}
    for name, size in sizes.items():
        asyncio.run(_filled(place / f"{name}.db", size))
    sessions, events = _sampled(place, sizes, _sessions), _sampled(place, sizes, _events)
    return [
        compared(
            f"a page of 50 sessions: of {many:,} / of {FEW:,}", sessions["many"], sessions["few"], limit=3
        ),
        compared(f"50 events after a seq: of {many:,} / of {FEW:,}", events["many"], events["few"], limit=3),
    ]


def _sampled(place: Path, sizes: dict[str, int], read) -> Samples:
    def timed(name: str, size: int) -> float:
        return asyncio.run(_reading(place / f"{name}.db", size, read))

    return in_turns(
        {name: lambda name=name, size=size: timed(name, size) for name, size in sizes.items()}, ROUNDS
    )


async def _reading(path: Path, size: int, read) -> float:
    """CPU seconds a page, in the middle of the list."""
    async with SQLiteStorage(f"sqlite:///{path}") as storage:
        await read(storage, size)
        gc.collect()
        start = time.process_time()
        for _ in range(READS):
            await read(storage, size)
        return (time.process_time() - start) / READS


async def _sessions(storage: SQLiteStorage, size: int) -> None:
    page = await storage.list_sessions("agent-1", 50)
    assert len(page.items) == 50
    assert page.next is not None
    assert len((await storage.list_sessions("agent-1", 50, cursor=page.next)).items) == 50


async def _events(storage: SQLiteStorage, size: int) -> None:
    page = await storage.list_events("long", size // 2, 50)
    assert [page.items[0].seq, len(page.items)] == [size // 2 + 1, 50]


async def _filled(path: Path, size: int) -> None:
    """Rows as the store itself writes them, but many in one transaction."""
    async with SQLiteStorage(f"sqlite:///{path}") as storage:
        await storage.migrate()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    for at in range(size):
        born = START + timedelta(seconds=at)
        session = SessionRecord(
            id=f"session-{at}", created_at=born, updated_at=born, agent_id=f"agent-{at % 7}", title="A title"
        )
        statement, values = row_values("default", session_row(session))
        connection.execute(statement, values)
        event = LedgerEvent(
            session_id="long", seq=at + 1, id=f"e{at}", type="t", payload=b"x" * 100, created_at=born
        )
        group = packed_group((event,))
        connection.execute(
            "INSERT INTO events (tenant, session, first, last, body) VALUES ('default', 'long', ?, ?, ?)",
            (group.first, group.last, group.body),
        )
    connection.execute("COMMIT")
    connection.close()


# --- the memory of a long read -------------------------------------------------------

_READER = (
    PEAK
    + """
import asyncio, sys
from gnomon.contracts.storage import read_events
from gnomon.storage.sqlite import SQLiteStorage

async def main(url, size):
    async with SQLiteStorage(url) as storage:
        await storage.list_events("long", 0, 50)
        start, count = peak(), 0
        async with read_events(storage, "long") as events:
            async for event in events:
                count += 1
        assert count == size, count
        print(peak() - start)

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""
)


def _memory(place: Path, many: int) -> Row:
    command = [sys.executable, "-c", _READER, f"sqlite:///{place / 'many.db'}", str(many)]
    grown = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return Row(what=f"reading a ledger of {many:,} events: memory", value=grown, limit=MEMORY_MB, unit=" MB")
