"""The handles of sub-agents: which ones a session gives, and the same without an event loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from session_stage import answered, make_row, opening, write

from gnomon import Agent, sync
from gnomon.errors import Conflict
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.types.events import CancelRequested, SubagentStarted, TurnFinished
from gnomon.types.messages import ToolCall
from gnomon.types.requests import Request
from storing import sqlite_url


def chief(request: Request) -> Line:
    if request.messages[-1].role == "tool":
        return says("Thanks.")
    return calls("worker", task=request.messages[-1].text)


def answer(request: Request) -> Line:
    return says(f"Did {request.messages[0].text}")


def made(storage: MemoryStorage, *, knows: bool = True) -> Agent[str]:
    worker = Agent(ScriptedProvider(answer), name="worker")
    tools = [worker.as_tool()] if knows else []
    return Agent(ScriptedProvider(chief), name="chief", tools=tools, storage=storage)


async def test_a_session_without_a_turn_has_none() -> None:
    async with made(MemoryStorage()) as agent:
        assert await agent.session("s").subagents() == ()


async def test_those_of_the_latest_turn_are_given_and_with_a_place_those_after_it() -> None:
    async with made(MemoryStorage()) as agent:
        session = agent.session("s")
        for task in ("one", "two"):
            await session.run(task)
        assert [(await each.wait()).output for each in await session.subagents()] == ["Did two"]
        everyone = await session.subagents(after=0)
        assert [(await each.wait()).output for each in everyone] == ["Did one", "Did two"]
        assert [each.name for each in everyone] == ["worker", "worker"]
        assert len({each.call_id for each in everyone} | {each.id for each in everyone}) == 4
        assert (await everyone[0].refresh()).state == "idle"


async def test_those_of_agents_that_are_not_known_here_are_left_out() -> None:
    storage = MemoryStorage()
    async with made(storage) as agent:
        await agent.session("s").run("one")
    async with made(storage, knows=False) as agent:
        assert await agent.session("s").subagents() == ()


async def test_one_that_was_named_and_never_started_ends_with_the_turn_above_it() -> None:
    """The turn was cancelled by a process that was lost in between."""
    storage = MemoryStorage()
    call = ToolCall("c1", "worker", '{"task":"one"}')
    async with made(storage) as agent, asyncio.timeout(20):
        await make_row(storage, agent="chief")
        named = SubagentStarted("t1", "sub_1", "sub_1", "worker", call.id)
        await write(storage, *opening(agent), answered(call), named, CancelRequested("now", "enough"))
        session = agent.session("s")
        (subagent,) = await session.subagents()
        assert (await subagent.wait()).status == "cancelled"
        assert (await session.turn_result()).stop == "cancelled"
        assert (await subagent.wait()).status == "cancelled"


def test_without_an_event_loop(tmp_path: Path) -> None:
    worker = sync.Agent(ScriptedProvider(answer), name="worker")
    url = sqlite_url(tmp_path / "store.db")
    with sync.Agent(ScriptedProvider(chief), tools=[worker.as_tool()], storage=url) as agent:
        session = agent.session("s")
        session.run("one")
        (subagent,) = session.subagents()
        result = subagent.wait()
        assert (result.id, result.status, result.output) == (subagent.id, "finished", "Did one")
        assert result.duration_s >= 0
        assert (subagent.refresh().state, subagent.status.state) == ("idle", "idle")
        assert (subagent.name, subagent.call_id != "") == ("worker", True)
        with subagent.events() as events:
            assert any(isinstance(event, TurnFinished) for event in _until_end(events))
        subagent.cancel()
        with pytest.raises(Conflict, match="has ended"):
            subagent.send("more")


def _until_end(events: sync.Reader) -> list[object]:
    seen: list[object] = []
    for event in events:
        seen.append(event)
        if isinstance(event, TurnFinished):
            break
    return seen
