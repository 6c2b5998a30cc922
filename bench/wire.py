"""What an answer costs over HTTP: beside a raw socket, the HTTP client by hand, and a vendor's SDK."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import floors
import vendors
from measure import Row, Samples, compared, in_turns_on_this_loop, say

from gnomon import Message, Request, TextDelta, ToolCallDelta
from gnomon.providers.openai import OpenAIProvider

ROUNDS, QUICK_ROUNDS = 11, 5
CHUNKS = 2_000
STREAMS, LIVE_CHUNKS, STEP_MS = 500, 40, 50
QUESTION = "How are you?"
PLAIN = ({"role": "user", "content": QUESTION},)

Job = Callable[[], Awaitable[None]]


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"wire: {rounds} rounds over loopback, then 5 of {STREAMS} live streams (about a minute)")
    with serving() as port:
        return [*asyncio.run(_all(port, rounds)), *vendors.rows(port, quick=quick)]


@contextmanager
def serving() -> Iterator[int]:
    """The port of a model server in a process of its own."""
    script = Path(__file__).with_name("server.py")
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


async def _all(port: int, rounds: int) -> list[Row]:
    clients = Clients(port)
    try:
        return [
            *await _per_chunk(clients, rounds),
            *await _per_request(clients, rounds),
            *await _history(clients, rounds),
            *await _arguments(clients, rounds),
            *await _live(clients),
        ]
    finally:
        await clients.close()


class Clients:
    """The four ways to ask the same thing; each gives the number of pieces that it saw."""

    def __init__(self, port: int) -> None:
        from openai import AsyncOpenAI

        url = f"http://127.0.0.1:{port}/v1"
        self.provider = OpenAIProvider(api="chat", key="sk-bench", base_url=url)
        self.raw = floors.Raw(port)
        self.client = floors.Aiohttp(port)
        self.sdk = AsyncOpenAI(base_url=url, api_key="sk-bench")

    async def ours(self, model: str, messages: tuple[Message, ...] = (Message.user(QUESTION),)) -> int:
        seen = 0
        async with self.provider.stream(Request(messages=messages, model=model)) as stream:
            async for event in stream:
                if type(event) is TextDelta or type(event) is ToolCallDelta:
                    seen += 1
        return seen

    async def by_hand(
        self, floor: floors.Raw | floors.Aiohttp, model: str, said: Sequence[dict[str, str]] = PLAIN
    ) -> int:
        pieces = floor.ask(floors.body(model, said))
        seen = 0
        async for _ in floors.texts(pieces):
            seen += 1
        return seen

    async def by_sdk(self, model: str) -> int:
        seen = 0
        answer = await self.sdk.chat.completions.create(
            model=model, messages=[{"role": "user", "content": QUESTION}], stream=True
        )
        async for chunk in answer:
            seen += bool(chunk.choices and chunk.choices[0].delta.content)
        return seen

    async def close(self) -> None:
        await self.provider.close()
        await self.raw.close()
        await self.client.close()
        await self.sdk.close()


def _said(role: str, text: str) -> dict[str, str]:
    return {"role": role, "content": text}


def plain_history(count: int) -> list[dict[str, str]]:
    """Earlier messages, new objects each time."""
    return [_said("assistant" if at % 2 else "user", f"message {at} " * 5) for at in range(count)]


def history(count: int) -> tuple[Message, ...]:
    made = (
        Message.assistant(f"message {at} " * 5) if at % 2 else Message.user(f"message {at} " * 5)
        for at in range(count)
    )
    return (*made, Message.user(QUESTION))


def _expecting(count: int, ask: Callable[[], Awaitable[int]], times: int = 1) -> Job:
    async def job() -> None:
        for _ in range(times):
            seen = await ask()
            assert seen == count, f"{seen} pieces, not {count}"

    return job


async def _pairs(jobs: dict[str, Job], rounds: int) -> Samples:
    return await in_turns_on_this_loop(jobs, rounds)


async def _per_chunk(clients: Clients, rounds: int) -> list[Row]:
    model = f"text-{CHUNKS}"
    took = await _pairs(
        {
            "raw": _expecting(CHUNKS, lambda: clients.by_hand(clients.raw, model), 5),
            "ours": _expecting(CHUNKS, lambda: clients.ours(model), 5),
            "client": _expecting(CHUNKS, lambda: clients.by_hand(clients.client, model), 5),
        },
        rounds,
    )
    sdk = await _pairs(
        {
            "ours": _expecting(CHUNKS, lambda: clients.ours(model)),
            "sdk": _expecting(CHUNKS, lambda: clients.by_sdk(model)),
        },
        QUICK_ROUNDS,
    )
    each = _each(took, 5 * CHUNKS)
    sdk_each = _each(sdk, CHUNKS)
    what = f"a chunk of {CHUNKS:,}, over HTTP: provider.stream / "
    return [
        compared(what + "a raw socket", each["ours"], each["raw"], limit=2.2),
        compared(what + "aiohttp by hand", each["ours"], each["client"]),
        compared(what + "the OpenAI SDK", sdk_each["ours"], sdk_each["sdk"], limit=1 / 20),
    ]


async def _per_request(clients: Clients, rounds: int) -> list[Row]:
    took = await _pairs(
        {
            "client": _expecting(1, lambda: clients.by_hand(clients.client, "text-1"), 300),
            "ours": _expecting(1, lambda: clients.ours("text-1"), 300),
        },
        rounds,
    )
    each = _each(took, 300)
    return [compared("one request of one chunk / aiohttp by hand", each["ours"], each["client"], limit=1.5)]


async def _history(clients: Clients, rounds: int) -> list[Row]:
    """The messages are new objects each time, so that nothing can be remembered of them; they are made
    beforehand, since it is not the provider that makes them."""
    took: Samples = {"client": [], "ours": [], "5,000": []}
    for number in range(-1, rounds):
        for name in reversed(took) if number % 2 else took:
            seconds = await _asked_with_history(clients, name)
            if number >= 0:
                took[name].append(seconds)
    return [
        compared(
            "a request with 1,000 new messages / aiohttp by hand", took["ours"], took["client"], limit=3
        ),
        compared("a request with 5,000 new messages / with 1,000", took["5,000"], took["ours"], limit=5.5),
    ]


async def _asked_with_history(clients: Clients, name: str) -> float:
    count, times = (5_000, 2) if name == "5,000" else (1_000, 10)
    if name == "client":
        plain = [[*plain_history(count), _said("user", QUESTION)] for _ in range(times)]
        asks = [lambda said=said: clients.by_hand(clients.client, "text-1", said) for said in plain]
    else:
        ours = [history(count) for _ in range(times)]
        asks = [lambda said=said: clients.ours("text-1", said) for said in ours]
    gc.collect()
    start = time.process_time()
    for ask in asks:
        await ask()
    return (time.process_time() - start) / times


async def _arguments(clients: Clients, rounds: int) -> list[Row]:
    took = await _pairs(
        {
            "few": _expecting(500, lambda: clients.ours("args-500"), 20),
            "many": _expecting(50_000, lambda: clients.ours("args-50000")),
        },
        max(rounds // 2, 3),
    )
    many = [seconds / 50_000 for seconds in took["many"]]
    few = [seconds / 10_000 for seconds in took["few"]]
    return [compared("an argument delta of 50,000 / of 500, over HTTP", many, few, limit=1.3)]


def _each(samples: Samples, count: int) -> Samples:
    return {name: [seconds / count for seconds in took] for name, took in samples.items()}


# --- many live streams at once ------------------------------------------------


async def _live(clients: Clients) -> list[Row]:
    model = f"paced-{LIVE_CHUNKS}-{STEP_MS}"
    delays: dict[str, list[float]] = {"ours": [], "client": []}
    took: Samples = {"ours": [], "client": []}
    readers = {"ours": _read_ours, "client": _read_by_hand}
    for number in range(-1, 5):
        for name in reversed(readers) if number % 2 else readers:
            seen: list[float] = []
            start = time.process_time()
            await asyncio.gather(*(readers[name](clients, model, seen) for _ in range(STREAMS)))
            if number >= 0:
                took[name].append((time.process_time() - start) / (STREAMS * LIVE_CHUNKS))
                delays[name].append(quantiles(seen, n=100)[98])
    what = f"{STREAMS} live streams of {1000 // STEP_MS} chunks/s"
    return [
        compared(f"{what}: a chunk / aiohttp by hand", took["ours"], took["client"], limit=1.5),
        *(
            Row(what=f"{what}: p99 delay, {name}", value=median(delays[key]) * 1000, unit=" ms")
            for key, name in (("ours", "ours"), ("client", "aiohttp by hand"))
        ),
    ]


async def _read_ours(clients: Clients, model: str, seen: list[float]) -> None:
    request = Request(messages=(Message.user(QUESTION),), model=model)
    async with clients.provider.stream(request) as stream:
        async for event in stream:
            if type(event) is TextDelta:
                seen.append((time.monotonic_ns() - int(event.text)) / 1e9)


async def _read_by_hand(clients: Clients, model: str, seen: list[float]) -> None:
    pieces: AsyncGenerator[bytes, None] = clients.client.ask(floors.body(model, PLAIN))
    async for piece in floors.texts(pieces):
        seen.append((time.monotonic_ns() - int(piece.text)) / 1e9)
