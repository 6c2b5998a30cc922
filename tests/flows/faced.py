"""A turn whose tools misbehave, and the turn after it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from gnomon import Agent, Message, ToolContext, ToolFinished, ToolResult, Turn
from gnomon.testing import Line, ScriptedProvider, calls, says
from gnomon.types.codec import decode_message, encode_message
from gnomon.types.requests import Request

__all__ = [
    "PATIENCE_S",
    "SECRET",
    "WAYS",
    "ByHand",
    "Faced",
    "asked",
    "faced",
    "longest_gap_s",
    "opened",
    "results_in",
    "until",
]

WAYS = ("run", "stream", "run, stored", "stream, stored")
"""As a whole or event by event, with a store under it or without."""

PATIENCE_S = 20.0
SECRET = "s3cr3t-pa55"


class Faced(NamedTuple):
    """What became of a turn whose tools misbehave."""

    results: list[ToolResult]
    turn: Turn
    took_s: float

    @property
    def result(self) -> ToolResult:
        (only,) = self.results
        return only


async def faced(way: str, *tools: object, first: Line | None = None, **options: Any) -> Faced:
    """A turn that calls the tool `act`, or what `first` calls, and the turn after it."""
    seen: list[list[ToolResult]] = []
    provider = ScriptedProvider(
        [
            first or calls("act"),
            says("I see.").expecting(check=lambda request: seen.append(results_in(request))),
            says("Still here.").expecting(
                text="And now?", check=lambda request: seen.append(results_in(request))
            ),
        ]
    )
    async with opened(way, provider, *tools, **options) as agent, asyncio.timeout(PATIENCE_S):
        started = time.monotonic()
        turn = await asked(agent, way, "Go.")
        took_s = time.monotonic() - started
        after = await _next(agent, way, turn, "And now?")
    provider.assert_finished()
    assert (turn.text, after.text) == ("I see.", "Still here.")
    results = results_in(turn)
    assert seen == [results, results], "the model sees what was recorded, in this turn and the next"
    assert decode_message(encode_message(Message.tool(*results))) == Message.tool(*results)
    return Faced(results, turn, took_s)


def opened(way: str, provider: ScriptedProvider, *tools: object, **options: Any) -> Agent:
    if "stored" in way:
        options = {"storage": "memory://", **options}
    return Agent(provider, tools=list(tools), **options)  # type: ignore[arg-type]


async def asked(agent: Agent, way: str, prompt: str) -> Turn:
    """The turn; every call has exactly one result in it."""
    if way.startswith("run"):
        turn = await agent.run(prompt)
    else:
        async with agent.stream(prompt) as run:
            finished = [event.result async for event in run if isinstance(event, ToolFinished)]
        turn = run.turn
        assert finished == results_in(turn)
    called = [call.id for message in turn.messages for call in message.tool_calls]
    assert called == [result.call_id for result in results_in(turn)]
    return turn


async def _next(agent: Agent, way: str, turn: Turn, prompt: str) -> Turn:
    if "stored" in way:
        return await agent.session(turn.session_id).run(prompt)
    return await agent.run(prompt, messages=turn.messages)


def results_in(where: Turn | Request) -> list[ToolResult]:
    return [result for message in where.messages for result in message.tool_results]


async def until(is_true: Callable[[], bool], limit_s: float = 10.0) -> None:
    async with asyncio.timeout(limit_s):
        while not is_true():  # noqa: ASYNC110 - nobody rings
            await asyncio.sleep(0.01)


async def longest_gap_s(stop: asyncio.Event) -> float:
    """The longest time in which nothing else ran on the loop."""
    longest, last = 0.0, time.monotonic()
    while not stop.is_set():
        await asyncio.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    return longest


class ByHand:
    """A tool written by hand; it does what the function says."""

    name = "act"
    description = "Act."
    read_only = False
    parameters: dict[str, object] = {"type": "object"}

    def __init__(self, work: Callable[[ToolContext], Awaitable[Any]]) -> None:
        self._work = work

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        return await self._work(context)
