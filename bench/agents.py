"""What an agent costs: a turn, a tool step, a chunk and 500 sessions at once, with the ledger on SQLite.

The floors have no ledger. Every run of ours is a session that is durable (WAL, `synchronous=FULL`) before
its reader hears of it; the rows that are written a moment after a run are waited for, and counted.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from statistics import median, quantiles
from typing import Any

import floors
from beside import peer
from measure import Row, Samples, Timer, compared, in_turns, in_turns_on_this_loop, say

from gnomon import (
    Agent,
    Finish,
    Provider,
    Request,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from gnomon.providers.openai import OpenAIProvider
from gnomon.types.events import ProviderEvent
from storing import folder
from wire import CHUNKS, LIVE_CHUNKS, PLAIN, QUESTION, STEP_MS, STREAMS, serving

ROUNDS, QUICK_ROUNDS = 11, 5
TURNS, HTTP_TURNS, LOOPS, STREAMED = 500, 200, 20, 5
STEPS, MANY = 10, 50
REST_S = 0.3
"""The rows of sessions that rest are written within this time."""


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"agents: {rounds} rounds in this process, {rounds} over loopback, 5 of {STREAMS} live sessions")
    with serving() as port:
        return [
            *_beside_agent_framework(rounds),
            *asyncio.run(_over_http(port, rounds)),
            *_beside_langgraph(rounds),
        ]


# --- with a model in this process ------------------------------------------------


class Ready(Provider):
    """A model whose answer is there already: calls of `add`, as many as there are to be, and then a word."""

    name = model = "ready"

    def __init__(self, calls: int = 0) -> None:
        self._calls = calls

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        done = sum(message.role == "tool" for message in request.messages) if self._calls else 0
        usage = Usage(input_tokens=5, output_tokens=1)
        if done == self._calls:
            yield TextDelta(0, "done")
            yield Finish(stop_reason="end_turn", usage=usage)
            return
        call = ToolCall(f"call_{done + 1}", "add", '{"a":1,"b":2}', 0)
        yield ToolCallStart(0, call.id, call.name)
        yield ToolCallDelta(0, call.id, call.arguments)
        yield ToolCallEnd(0, call)
        yield Finish(stop_reason="tool_use", usage=usage)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def add_async(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


add_async.__name__ = "add"


def _beside_agent_framework(rounds: int) -> list[Row]:
    """A turn in memory, beside the leanest of the others."""
    with peer("GNOMON_AGENT_FRAMEWORK_PYTHON", "agent_framework_turn.py", "agent-framework") as ask:
        if ask is None:
            return []
        with asyncio.Runner() as runner:
            agent = Agent(Ready())
            timers = {"peer": lambda: ask(TURNS), "ours": _timed(runner, lambda: _runs(agent, TURNS), TURNS)}
            took = _warm_in_turns(timers, rounds)
    what = "a turn, its model in this process, nothing stored / agent-framework's"
    return [compared(what, took["ours"], took["peer"], limit=0.5)]


def _beside_langgraph(rounds: int) -> list[Row]:
    """A tool step on SQLite: of one session after another, and of many at once."""
    with peer("GNOMON_LANGGRAPH_PYTHON", "langgraph_loop.py", "LangGraph") as ask:
        if ask is None:
            return []
        with folder() as place, asyncio.Runner() as runner:
            agent = Agent(Ready(STEPS), tools=[add], storage=f"sqlite:///{place}/ours.db")
            timers = {
                "peer": lambda: ask(3, 1),
                "ours": _timed(runner, lambda: _runs(agent, LOOPS), LOOPS * STEPS),
                "peer, many": lambda: ask(MANY, MANY),
                "ours, many": _timed(runner, lambda: _runs_at_once(agent, MANY), MANY * STEPS),
            }
            took = _warm_in_turns(timers, rounds)
            runner.run(agent.close())
    what, peers = (
        f"a step of {STEPS}, its model in this process, ledger on SQLite",
        "LangGraph's with its saver",
    )
    return [
        compared(f"{what} / {peers}", took["ours"], took["peer"], limit=1 / 20),
        compared(f"{what}, {MANY} sessions at once / {peers}", took["ours, many"], took["peer, many"]),
    ]


def _timed(runner: asyncio.Runner, job: Callable[[], Coroutine[Any, Any, None]], count: int) -> Timer:
    """CPU of this process; `count` is of what the cost is shown."""

    def timer() -> float:
        gc.collect()
        start = time.process_time()
        runner.run(job())
        return (time.process_time() - start) / count

    return timer


def _warm_in_turns(timers: dict[str, Timer], rounds: int) -> Samples:
    in_turns(timers, 1)
    return in_turns(timers, rounds)


async def _runs(agent: Agent[str], times: int) -> None:
    for _ in range(times):
        turn = await agent.run(QUESTION)
        assert turn.text in ("done", "word ")
    await asyncio.sleep(REST_S)


async def _runs_at_once(agent: Agent[str], times: int) -> None:
    turns = await asyncio.gather(*(agent.run(QUESTION) for _ in range(times)))
    assert all(turn.text == "done" for turn in turns)
    await asyncio.sleep(REST_S)


async def _session_runs(agent: Agent[str], times: int) -> None:
    for _ in range(times):
        turn = await agent.session().run(QUESTION)
        assert turn.text == "word "
    await asyncio.sleep(REST_S)


# --- over HTTP -------------------------------------------------------------------


class Asked:
    """The same questions by agents with a ledger, and by hand."""

    def __init__(self, port: int, place: str) -> None:
        self._url, self._place = f"http://127.0.0.1:{port}/v1", place
        self._agents: list[Agent[str]] = []
        self.raw = floors.Raw(port)
        self.client = floors.Aiohttp(port)

    def agent(self, model: str, tools: list[Callable[..., object]] | None = None) -> Agent[str]:
        provider = OpenAIProvider(api="chat", key="sk-bench", base_url=self._url, model=model)
        storage = f"sqlite:///{self._place}/{len(self._agents)}.db"
        made = Agent(provider, tools=tools or (), storage=storage)
        self._agents.append(made)
        return made

    async def by_hand(self, floor: floors.Raw | floors.Aiohttp, model: str, count: int, times: int) -> None:
        for _ in range(times):
            seen = 0
            async for _ in floors.texts(floor.ask(floors.body(model, PLAIN))):
                seen += 1
            assert seen == count

    async def close(self) -> None:
        for agent in self._agents:
            await agent.close()
        await self.raw.close()
        await self.client.close()


async def _over_http(port: int, rounds: int) -> list[Row]:
    with folder() as place:
        asked = Asked(port, str(place))
        try:
            return [
                *await _turns(asked, rounds),
                *await _steps(asked, rounds),
                *await _chunks(asked, rounds),
                *await _live(asked),
            ]
        finally:
            await asked.close()


async def _turns(asked: Asked, rounds: int) -> list[Row]:
    agent = asked.agent("text-1")
    took = await in_turns_on_this_loop(
        {
            "client": lambda: asked.by_hand(asked.client, "text-1", 1, HTTP_TURNS),
            "run": lambda: _runs(agent, HTTP_TURNS),
            "session": lambda: _session_runs(agent, HTTP_TURNS),
        },
        rounds,
    )
    each = _each(took, HTTP_TURNS)
    what, floor = "a turn over HTTP, ledger on SQLite", "aiohttp by hand"
    return [
        compared(f"{what}: agent.run / {floor}", each["run"], each["client"], limit=2.5),
        compared(f"{what}: session.run / {floor}", each["session"], each["client"]),
    ]


async def _steps(asked: Asked, rounds: int) -> list[Row]:
    model = f"loop-{STEPS}"
    agent, unthreaded = asked.agent(model, [add]), asked.agent(model, [add_async])
    tools = [{"type": "function", "function": _described()}]

    async def by_hand() -> None:
        for _ in range(LOOPS):
            assert await floors.tool_loop(asked.client, model, QUESTION, tools, add) == STEPS

    jobs = {"client": by_hand, "ours": lambda: _runs(agent, LOOPS), "async": lambda: _runs(unthreaded, LOOPS)}
    each = _each(await in_turns_on_this_loop(jobs, rounds), LOOPS * STEPS)
    what, floor = f"a tool step of {STEPS} over HTTP, ledger on SQLite", "aiohttp by hand"
    return [
        compared(f"{what} / {floor}", each["ours"], each["client"], limit=3),
        compared(f"{what}, the tool is async / {floor}", each["async"], each["client"]),
    ]


def _described() -> dict[str, object]:
    number = {"type": "integer"}
    schema = {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}
    return {"name": "add", "description": "Add two numbers.", "parameters": schema}


async def _chunks(asked: Asked, rounds: int) -> list[Row]:
    model = f"text-{CHUNKS}"
    agent = asked.agent(model)

    async def ours() -> None:
        for _ in range(STREAMED):
            seen = 0
            async with agent.stream(QUESTION) as run:
                async for event in run:
                    seen += type(event) is TextDelta
            assert seen == CHUNKS
        await asyncio.sleep(REST_S)

    by_hand = {
        "raw": lambda: asked.by_hand(asked.raw, model, CHUNKS, STREAMED),
        "client": lambda: asked.by_hand(asked.client, model, CHUNKS, STREAMED),
    }
    each = _each(await in_turns_on_this_loop({**by_hand, "ours": ours}, rounds), STREAMED * CHUNKS)
    what = f"a chunk of {CHUNKS:,} over HTTP, ledger on SQLite: agent.stream / "
    return [
        compared(what + "a raw socket", each["ours"], each["raw"], limit=3.5),
        compared(what + "aiohttp by hand", each["ours"], each["client"]),
    ]


def _each(samples: Samples, count: int) -> Samples:
    return {name: [seconds / count for seconds in took] for name, took in samples.items()}


# --- many live sessions at once --------------------------------------------------


async def _live(asked: Asked) -> list[Row]:
    model = f"paced-{LIVE_CHUNKS}-{STEP_MS}"
    agent = asked.agent(model)
    readers = {
        "client": lambda seen: _read_by_hand(asked, model, seen),
        "ours": lambda seen: _read_ours(agent, seen),
    }
    delays: dict[str, list[float]] = {name: [] for name in readers}
    took: Samples = {name: [] for name in readers}
    for number in range(-1, 5):
        for name in reversed(readers) if number % 2 else readers:
            seen: list[float] = []
            start = time.process_time()
            await asyncio.gather(*(readers[name](seen) for _ in range(STREAMS)))
            await asyncio.sleep(REST_S)
            if number >= 0:
                took[name].append((time.process_time() - start) / (STREAMS * LIVE_CHUNKS))
                delays[name].append(quantiles(seen, n=100)[98])
    what = f"{STREAMS} live sessions of {1000 // STEP_MS} chunks/s, ledger on SQLite"
    return [
        compared(f"{what}: a chunk / aiohttp by hand", took["ours"], took["client"], limit=2),
        *(
            Row(what=f"{what}: p99 delay, {said}", value=median(delays[name]) * 1000, unit=" ms")
            for name, said in (("ours", "ours"), ("client", "aiohttp by hand"))
        ),
    ]


async def _read_ours(agent: Agent[str], seen: list[float]) -> None:
    async with agent.stream(QUESTION) as run:
        async for event in run:
            if type(event) is TextDelta:
                seen.append((time.monotonic_ns() - int(event.text)) / 1e9)


async def _read_by_hand(asked: Asked, model: str, seen: list[float]) -> None:
    async for piece in floors.texts(asked.client.ask(floors.body(model, PLAIN))):
        seen.append((time.monotonic_ns() - int(piece.text)) / 1e9)
