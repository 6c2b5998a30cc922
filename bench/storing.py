"""What it costs to keep a session on SQLite: beside one transaction of one's own for each step.

A step is an event of some 500 bytes and a checkpoint, durable when it returns
(WAL, synchronous FULL on both sides). The floor is `sqlite3` by hand: one
transaction a step, two statements, the tables as plain as they can be.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import Row, Samples, compared, in_turns, say

from gnomon.storage.sqlite import SQLiteStorage
from gnomon.types.records import Checkpoint, LedgerEvent, utc_now

ROUNDS, QUICK_ROUNDS = 25, 5
SESSIONS, STEPS, ALONE = 100, 20, 400
PAYLOAD = b'{"type":"message_completed","text":"' + b"The tide comes in twice a day. " * 15 + b'"}'
STATE: dict[str, object] = {"view_start": 1, "epoch": 3, "open_calls": [], "usage": {"input_tokens": 9_000}}


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"storing: {rounds} rounds of {SESSIONS} sessions x {STEPS} steps, and of one session x {ALONE}")
    many = _sampled(SESSIONS, STEPS, rounds)
    alone = _sampled(1, ALONE, rounds)
    return [
        compared(f"a step of {SESSIONS} sessions / sqlite3 by hand", many["ours"], many["floor"], limit=0.4),
        compared("a step of one session / sqlite3 by hand", alone["ours"], alone["floor"], limit=1.6),
        *_beside_langgraph(rounds),
    ]


def _beside_langgraph(rounds: int) -> list[Row]:
    """Where another Python has LangGraph and its saver: `GNOMON_LANGGRAPH_PYTHON` names it."""
    python = os.environ.get("GNOMON_LANGGRAPH_PYTHON")
    if not python:
        say("storing: no GNOMON_LANGGRAPH_PYTHON, so nothing is said of LangGraph's saver")
        return []

    def saver() -> float:
        command = [python, str(Path(__file__).with_name("langgraph_saver.py")), str(SESSIONS), str(STEPS)]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    timers = {"saver": saver, "ours": lambda: asyncio.run(_ours(SESSIONS, STEPS))}
    samples = in_turns(timers, min(rounds, 5))
    what = f"a step of {SESSIONS} sessions / LangGraph's AsyncSqliteSaver"
    return [compared(what, samples["ours"], samples["saver"], limit=0.05)]


def _sampled(sessions: int, steps: int, rounds: int) -> Samples:
    return in_turns(
        {"floor": lambda: _by_hand(sessions, steps), "ours": lambda: asyncio.run(_ours(sessions, steps))},
        rounds,
    )


# --- ours ------------------------------------------------------------------------


async def _ours(sessions: int, steps: int) -> float:
    """CPU seconds a step, of this thread and the writer's."""
    with folder() as place:
        storage = SQLiteStorage(f"sqlite:///{place}/ours.db")
        await storage.migrate()
        await asyncio.gather(*(_steps(storage, f"warm-{at}", 2) for at in range(sessions)))
        gc.collect()
        start = time.process_time()
        await asyncio.gather(*(_steps(storage, f"session-{at}", steps) for at in range(sessions)))
        used = time.process_time() - start
        await storage.close()
    return used / (sessions * steps)


async def _steps(storage: SQLiteStorage, session_id: str, steps: int) -> None:
    for seq in range(1, steps + 1):
        now = utc_now()
        event = LedgerEvent(
            session_id=session_id,
            seq=seq,
            id=f"evt_{session_id}_{seq}",
            type="message_completed",
            payload=PAYLOAD,
            created_at=now,
        )
        point = Checkpoint(id=session_id, session_id=session_id, seq=seq, created_at=now, state=STATE)
        await storage.append_events((event,), checkpoint=point)


# --- by hand ---------------------------------------------------------------------


def _by_hand(sessions: int, steps: int) -> float:
    import json

    state = json.dumps(STATE)
    with folder() as place:
        connection = sqlite3.connect(f"{place}/floor.db", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(
            "CREATE TABLE event (session TEXT, seq INTEGER, body BLOB, PRIMARY KEY (session, seq))"
        )
        connection.execute("CREATE TABLE checkpoint (session TEXT PRIMARY KEY, seq INTEGER, state TEXT)")
        gc.collect()
        start = time.process_time()
        for seq in range(1, steps + 1):
            for at in range(sessions):
                name = f"session-{at}"
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT INTO event VALUES (?, ?, ?)", (name, seq, PAYLOAD))
                connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)", (name, seq, state))
                connection.execute("COMMIT")
        used = time.process_time() - start
        connection.close()
    return used / (sessions * steps)


@contextmanager
def folder() -> Iterator[Path]:
    """On the disk that the rest of the work is on: a file system in memory syncs for nothing."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        yield Path(folder)
