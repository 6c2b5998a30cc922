"""What hooks and guardrails cost a turn and a chunk, beside the same agent without them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable
from statistics import median

from measure import Row, Samples, compared, in_turns_on_this_loop, say, shown

from gnomon import Agent
from gnomon.contracts.guardrail import Guardrail, Position, Sentence, View, Whole, Window
from gnomon.contracts.hook import Step
from gnomon.contracts.provider import Provider
from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.stream import PullStream
from gnomon.types.events import Finish, ProviderEvent, RunEvent, TextDelta
from gnomon.types.requests import Request, Usage
from gnomon.types.steps import GuardrailResult, HookEvent

ROUNDS, QUICK_ROUNDS = 21, 9
TURNS = 200
CHUNKS = 20_000
HOOKS = 5
TURN_LIMIT, CHUNK_LIMIT_US = 1.15, 0.3


class Saying(Provider):
    """Says so many words."""

    name = "saying"
    model = "words"

    def __init__(self, chunks: int) -> None:
        self._chunks = chunks

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        for at in range(self._chunks):
            yield TextDelta(0, "ebb. " if at % 12 == 11 else "tide ")
        yield Finish(stop_reason="end_turn", usage=Usage(input_tokens=10, output_tokens=self._chunks))


class Looking:
    """A hook that does nothing."""

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...


class Around(Looking):
    """The same, around each step."""

    async def around(self, event: HookEvent, call: Step) -> PullStream[RunEvent]:
        return await call(event)


class Passing:
    """A guardrail that lets everything pass."""

    name = "passing"
    positions: frozenset[Position] = frozenset({"output"})

    def __init__(self, view: View) -> None:
        self.view = view

    async def check(self, content: str) -> GuardrailResult:
        return _PASSED


_PASSED = GuardrailResult(passed=True)


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"around: {rounds} rounds of {TURNS} turns, and of {CHUNKS:,} chunks")
    gc.disable()
    try:
        return asyncio.run(_rows(rounds))
    finally:
        gc.enable()


async def _rows(rounds: int) -> list[Row]:
    turns = await _turns(rounds)
    chunks = await _chunks(rounds)
    plain = chunks["plain"]
    return [
        compared(f"a turn with {HOOKS} hooks that look", turns["looking"], turns["plain"], limit=TURN_LIMIT),
        compared(f"a turn with {HOOKS} hooks around it", turns["around"], turns["plain"]),
        _a_chunk(f"{HOOKS} hooks that look", chunks["looking"], plain, CHUNK_LIMIT_US),
        _a_chunk(f"{HOOKS} hooks around it", chunks["around"], plain, CHUNK_LIMIT_US),
        _a_chunk("a guardrail of 80 characters", chunks["window"], plain),
        _a_chunk("a guardrail of sentences", chunks["sentence"], plain),
        _a_chunk("a guardrail of the whole", chunks["whole"], plain),
        _a_chunk("a blocklist of 1,000 terms", chunks["blocklist"], plain),
    ]


def _a_chunk(what: str, ours: list[float], plain: list[float], limit: float | None = None) -> Row:
    """What it adds to a chunk, in µs: the median of the rounds' own differences."""
    added = [(a - b) / CHUNKS * 1e6 for a, b in zip(ours, plain, strict=True)]
    return Row(
        what=f"a chunk: {what} adds",
        value=median(added),
        limit=limit,
        ours=shown(median(ours) / CHUNKS),
        floor=shown(median(plain) / CHUNKS),
        spread=(min(added), max(added)),
        unit="µs",
    )


async def _turns(rounds: int) -> Samples:
    agents = {
        "plain": Agent(Saying(20)),
        "looking": Agent(Saying(20), hooks=[Looking() for _ in range(HOOKS)]),
        "around": Agent(Saying(20), hooks=[Around() for _ in range(HOOKS)]),
    }
    return await in_turns_on_this_loop(
        {name: _asking(agent, TURNS) for name, agent in agents.items()}, rounds
    )


async def _chunks(rounds: int) -> Samples:
    terms = [f"term{number}" for number in range(1_000)]
    guardrails: dict[str, Guardrail] = {
        "window": Passing(Window(80)),
        "sentence": Passing(Sentence()),
        "whole": Passing(Whole()),
        "blocklist": BlocklistGuardrail(terms, positions={"output"}),
    }
    agents = {
        "plain": Agent(Saying(CHUNKS)),
        "looking": Agent(Saying(CHUNKS), hooks=[Looking() for _ in range(HOOKS)]),
        "around": Agent(Saying(CHUNKS), hooks=[Around() for _ in range(HOOKS)]),
        **{name: Agent(Saying(CHUNKS), guardrails=[each]) for name, each in guardrails.items()},
    }
    return await in_turns_on_this_loop({name: _asking(agent, 1) for name, agent in agents.items()}, rounds)


def _asking(agent: Agent[str], times: int) -> Callable[[], Awaitable[None]]:
    async def ask() -> None:
        for _ in range(times):
            async with agent.stream("When?") as run:
                async for _ in run:
                    pass

    return ask
