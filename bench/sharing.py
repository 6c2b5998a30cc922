"""What a shared commit brings on PostgreSQL: appends of 100 sessions, beside a commit for each of them.

By the clock, not by CPU time: what is saved is waiting for the server's disk. The server is the one of the
tests, on this machine; without it there is nothing to measure.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from measure import Row, compared, say

from gnomon.types.records import LedgerEvent, utc_now

ROUNDS, QUICK_ROUNDS = 7, 3
SESSIONS, APPENDS = 100, 20
CONNECTIONS = 10
PAYLOAD = b"The tide comes in twice a day. " * 15
TABLE = "CREATE TABLE {0} (session text, seq bigint, body bytea, PRIMARY KEY (session, seq))"


def rows(*, quick: bool) -> list[Row]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import servers

    rounds = QUICK_ROUNDS if quick else ROUNDS
    try:
        server = servers.postgres()
    except BaseException as reason:  # a skip of the test suite is no exception of the usual kind
        if isinstance(reason, KeyboardInterrupt):
            raise
        say(f"sharing: no PostgreSQL here ({reason}), so nothing is said of it")
        return []
    with server:
        say(f"sharing: {rounds} rounds of {SESSIONS} sessions x {APPENDS} appends on PostgreSQL")
        return asyncio.run(_compared(server.url, rounds))


async def _compared(url: str, rounds: int) -> list[Row]:
    import asyncpg

    from gnomon.storage.postgres import PostgresStorage

    pool = await asyncpg.create_pool(url, min_size=CONNECTIONS, max_size=CONNECTIONS)
    async with PostgresStorage(url) as storage, pool:
        await storage.migrate()
        await _ours(storage, "warm")
        await _by_hand(pool, "warm")
        ours, floor = [], []
        for number in range(rounds):
            for one in ("ours", "floor") if number % 2 else ("floor", "ours"):
                if one == "ours":
                    ours.append(await _ours(storage, f"round-{number}"))
                else:
                    floor.append(await _by_hand(pool, f"round_{number}"))
    what = f"PostgreSQL, {SESSIONS} sessions: time of an append / with a commit of its own"
    return [compared(what, ours, floor, limit=0.2)]


async def _ours(storage, name: str) -> float:
    """Seconds an append, all sessions at once."""

    async def session(at: int) -> None:
        for seq in range(1, APPENDS + 1):
            event = LedgerEvent(
                session_id=f"{name}-{at}",
                seq=seq,
                id=f"{name}-{at}-{seq}",
                type="t",
                payload=PAYLOAD,
                created_at=utc_now(),
            )
            await storage.append_event(event)

    return await _timed(session)


async def _by_hand(pool, name: str) -> float:
    table = f"floor_{name}"
    await pool.execute(TABLE.format(table))

    async def session(at: int) -> None:
        for seq in range(1, APPENDS + 1):
            await pool.execute(f"INSERT INTO {table} VALUES ($1, $2, $3)", f"session-{at}", seq, PAYLOAD)

    return await _timed(session)


async def _timed(session) -> float:
    start = time.perf_counter()
    await asyncio.gather(*(session(at) for at in range(SESSIONS)))
    return (time.perf_counter() - start) / (SESSIONS * APPENDS)
