"""What an event costs on its way through `Stream`, and through a whole run of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

from measure import Row, compared, in_turns_on_this_loop, say

from gnomon import (
    Agent,
    Finish,
    Provider,
    Request,
    Stream,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from gnomon.types.events import ProviderEvent

ROUNDS, QUICK_ROUNDS = 41, 15
MANY, FEW = 100_000, 10_000
MANY_DELTAS, FEW_DELTAS = 50_000, 500
TURNS = 300

Events = Sequence[ProviderEvent]
Job = Callable[[], Awaitable[None]]


def rows(*, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"stream: {rounds} rounds of {MANY:,} text events and {MANY_DELTAS:,} argument deltas")
    return asyncio.run(_compare(_jobs(), rounds))


def _jobs() -> dict[str, Job]:
    many = _text(MANY)
    only_text, deltas = many[:-1], _arguments(MANY_DELTAS)
    return {
        "bare": lambda: _read_bare(only_text),
        "stream": lambda: _read(many),
        "stream and append": lambda: _read_and_append(many),
        "agent": lambda: _read_agent(many),
        # As many events in all, so that both sides of a ratio take equally long.
        "few": _repeated(_read, _text(FEW), MANY // FEW),
        "turns": _turns(),
        "answers": _repeated(_read, SHORT, TURNS),
        "deltas": lambda: _read(deltas),
        "few deltas": _repeated(_read, _arguments(FEW_DELTAS), MANY_DELTAS // FEW_DELTAS),
    }


async def _compare(jobs: dict[str, Job], rounds: int) -> list[Row]:
    async def pair(ours: str, floor: str) -> tuple[list[float], list[float]]:
        took = await in_turns_on_this_loop({floor: jobs[floor], ours: jobs[ours]}, rounds)
        return took[ours], took[floor]

    text = f"{MANY:,} text events: "
    many, few = await pair("stream", "few")
    deltas, few_deltas = await pair("deltas", "few deltas")
    return [
        compared(text + "Stream / bare async for", *await pair("stream", "bare"), limit=2.5),
        compared(f"Stream: {MANY:,} events / {FEW:,}", many, _each(few, MANY // FEW), limit=11),
        compared(
            f"an argument delta of {MANY_DELTAS:,} / of {FEW_DELTAS}",
            _each(deltas, MANY_DELTAS),
            _each(few_deltas, MANY_DELTAS),
            limit=1.3,
        ),
        compared(text + "Stream, its reader appends too / bare", *await pair("stream and append", "bare")),
        compared(text + "Agent.stream / bare", *await pair("agent", "bare")),
        _turn_row(*await pair("turns", "answers")),
    ]


def _turn_row(turns: list[float], answers: list[float]) -> Row:
    """With what is counted, learned and priced after each answer; loop and books, without a network."""
    what = "a turn of one piece of text: Agent.run / Stream"
    return compared(what, _each(turns, TURNS), _each(answers, TURNS))


def _each(seconds: list[float], count: int) -> list[float]:
    return [took / count for took in seconds]


# --- what is read -----------------------------------------------------------


def _text(count: int) -> Events:
    return [*(TextDelta(0, f"word {number} ") for number in range(count)), Finish(stop_reason="end_turn")]


def _arguments(count: int) -> Events:
    """One tool call whose argument text comes in `count` pieces."""
    pieces = ['{"text":"', *("piece " for _ in range(count - 2)), '"}']
    return [
        ToolCallStart(0, "call_1", "write"),
        *(ToolCallDelta(0, "call_1", piece) for piece in pieces),
        ToolCallEnd(0, ToolCall("call_1", "write", "".join(pieces), 0)),
        Finish(stop_reason="tool_use"),
    ]


SHORT: Events = [
    TextDelta(0, "Good day."),
    Finish(stop_reason="end_turn", usage=Usage(input_tokens=12, output_tokens=3)),
]


async def _source(events: Events) -> AsyncGenerator[ProviderEvent, None]:
    for event in events:
        yield event


class Ready(Provider):
    """A model whose answer is there already."""

    name = "ready"
    model = "ready"

    def __init__(self, events: Events) -> None:
        self._ready = events

    def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        return _source(self._ready)


# --- who reads it -----------------------------------------------------------


async def _read_bare(events: Events) -> None:
    """The floor: the same generator and the text in a list, nothing checked."""
    texts: list[str] = []
    async for event in _source(events):
        texts.append(event.text)


async def _read(events: Events) -> None:
    async with Stream(_source(events)) as stream:
        async for _ in stream:
            pass
    assert stream.response.message.content


async def _read_and_append(events: Events) -> None:
    texts: list[str] = []
    async with Stream(_source(events)) as stream:
        async for event in stream:
            if type(event) is TextDelta:
                texts.append(event.text)


async def _read_agent(events: Events) -> None:
    async with Agent(Ready(events)).stream("go on") as run:
        async for _ in run:
            pass
    assert run.turn.text


def _turns() -> Job:
    """One agent that is asked again and again: its counter has learned, as after an hour of work."""
    agent = Agent(Ready(SHORT))

    async def job() -> None:
        for _ in range(TURNS):
            await agent.run("go on")

    return job


def _repeated(read: Callable[[Events], Awaitable[None]], events: Events, times: int) -> Job:
    async def job() -> None:
        for _ in range(times):
            await read(events)

    return job
