"""What it costs to go on with a long session, and to have many that rest.

    python bench/resuming.py rss | traced      what a session that rests keeps, in bytes

A long session is made once, turn by turn, and its file copied for every round: each opens it in an agent
of its own, and asks the next question over HTTP. The floor sends as many messages by hand.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncGenerator, Callable, Coroutine
from pathlib import Path
from typing import Any

import floors
from measure import Row, Samples, compared, say

from gnomon import Agent, Finish, Provider, Request, TextDelta, Usage
from gnomon.providers.openai import OpenAIProvider
from gnomon.types.events import ProviderEvent
from storing import folder
from wire import QUESTION, plain_history, serving

ROUNDS, QUICK_ROUNDS = 11, 5
SHORTER, LONGER = 1_000, 5_000
NEXT = 5
IDLE, WARM = 1_000, 100
NAME = "long"


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"resuming: {rounds} rounds of sessions of {SHORTER:,} and {LONGER:,} messages, {IDLE:,} idle ones")
    with serving() as port:
        return [*asyncio.run(_resumed(port, rounds)), *_idle()]


# --- a long session --------------------------------------------------------------


class Talker(Provider):
    """A model that answers at once, with the next message of a plain history."""

    name = model = "talker"

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        yield TextDelta(0, f"message {len(request.messages)} " * 5)
        yield Finish(stop_reason="end_turn", usage=Usage(input_tokens=50, output_tokens=20))


async def _make(place: Path, count: int) -> Path:
    """The file with a session of so many messages."""
    path = place / f"{count}.db"
    agent = Agent(Talker(), storage=f"sqlite:///{path}?synchronous=normal")
    session = agent.session(NAME)
    for at in range(0, count, 2):
        await session.run(f"message {at} " * 5)
    await agent.close()
    return path


async def _resumed(port: int, rounds: int) -> list[Row]:
    with folder() as place:
        files = {count: await _make(place, count) for count in (SHORTER, LONGER)}
        client = floors.Aiohttp(port)
        took: Samples = {"client": [], "first": [], "next": [], "longer": []}
        jobs: dict[str, Callable[[], Coroutine[Any, Any, dict[str, float]]]] = {
            "client": lambda: _by_hand(client, SHORTER),
            "ours": lambda: _opened(port, files[SHORTER], "first", "next"),
            "longer": lambda: _opened(port, files[LONGER], "longer"),
        }
        for number in range(-1, rounds):
            for name in reversed(jobs) if number % 2 else jobs:
                for what, seconds in (await jobs[name]()).items():
                    if number >= 0:
                        took[what].append(seconds)
        await client.close()
    what, floor = f"a session of {SHORTER:,} messages resumed from SQLite", "aiohttp by hand"
    linear = f"the first turn of {LONGER:,} messages resumed / of {SHORTER:,}"
    return [
        compared(f"{what}: its first turn / {floor}", took["first"], took["client"], limit=10),
        compared(f"{what}: the next / {floor}", took["next"], took["client"], limit=3),
        compared(linear, took["longer"], took["first"], limit=5.5),
    ]


async def _by_hand(client: floors.Aiohttp, count: int) -> dict[str, float]:
    said = [[*plain_history(count), {"role": "user", "content": QUESTION}] for _ in range(NEXT)]
    gc.collect()
    start = time.process_time()
    for messages in said:
        assert [piece.text async for piece in floors.texts(client.ask(floors.body("text-1", messages)))]
    return {"client": (time.process_time() - start) / NEXT}


async def _opened(port: int, file: Path, first: str, then: str = "") -> dict[str, float]:
    """CPU of the first turn in a new agent, and of each that follows."""
    with folder() as place:
        return await _timed(port, shutil.copy(file, place), first, then)


async def _timed(port: int, path: str, first: str, then: str) -> dict[str, float]:
    took: dict[str, float] = {}
    gc.collect()
    start = time.process_time()
    url = f"http://127.0.0.1:{port}/v1"
    provider = OpenAIProvider(api="chat", key="sk-bench", base_url=url, model="text-1")
    agent = Agent(provider, storage=f"sqlite:///{path}")
    session = agent.session(NAME)
    assert (await session.run(QUESTION)).text == "word "
    took[first] = time.process_time() - start
    if then:
        gc.collect()
        start = time.process_time()
        for _ in range(NEXT):
            await session.run(QUESTION)
        took[then] = (time.process_time() - start) / NEXT
    await agent.close()
    return took


# --- many that rest --------------------------------------------------------------


def _idle() -> list[Row]:
    what = f"{IDLE:,} sessions that rest after a turn, each"
    return [
        Row(what=f"{what}: memory of the process", value=_kept("rss") / 1024, limit=30, unit=" KB"),
        Row(what=f"{what}: memory of its objects", value=_kept("traced") / 1024, unit=" KB"),
    ]


def _kept(how: str) -> float:
    """Of a process of its own: what others have left behind would hide it."""
    command = [sys.executable, __file__, how]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


async def _rest(how: str) -> float:
    read = _rss if how == "rss" else _traced
    with folder() as place:
        agent = Agent(Talker(), storage=f"sqlite:///{place}/idle.db")
        kept = [await _had_a_turn(agent) for _ in range(WARM)]
        await asyncio.sleep(0.5)
        gc.collect()
        before = read()
        kept += [await _had_a_turn(agent) for _ in range(IDLE)]
        await asyncio.sleep(0.5)
        gc.collect()
        used = read() - before
        assert len(kept) == WARM + IDLE
        await agent.close()
    return used / IDLE


async def _had_a_turn(agent: Agent[str]) -> object:
    session = agent.session()
    await session.run(QUESTION)
    return session


def _rss() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def _traced() -> int:
    return tracemalloc.get_traced_memory()[0]


if __name__ == "__main__":
    if sys.argv[1] == "traced":
        tracemalloc.start()
    print(asyncio.run(_rest(sys.argv[1])))
