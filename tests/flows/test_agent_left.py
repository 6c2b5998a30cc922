"""Agents that are used in several event loops, closed late, or closed under their readers."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from gnomon import Agent, tool
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.types.events import TextDelta


def agent(storage: str | None) -> Agent[str]:
    return Agent(ScriptedProvider(lambda _: "One two three.", verbatim=False), storage=storage)


def test_an_agent_without_a_store_keeps_its_sessions_from_one_event_loop_to_the_next() -> None:
    one = agent(None)

    async def messages() -> int:
        async with one:
            return len((await one.session("s").run("Go on.")).messages)

    async def remembered() -> int:
        async with one:
            await one.session("s").run("Go on.")
            return len(one.provider.requests[-1].messages)  # type: ignore[attr-defined]

    assert asyncio.run(messages()) == 2
    assert asyncio.run(remembered()) == 3


def test_a_store_that_was_left_open_is_closed_in_the_next_event_loop(tmp_path: Path) -> None:
    one = agent(f"sqlite:///{tmp_path}/left.db")

    async def ask() -> None:
        await one.session("s").run("Go on.")

    asyncio.run(ask())
    before = set(threading.enumerate())
    assert any("sqlite" in thread.name for thread in before)
    for _ in range(3):
        asyncio.run(ask())
    kept = [thread for thread in before & set(threading.enumerate()) if "sqlite" in thread.name]
    assert kept == []
    asyncio.run(one.close())
    assert [thread for thread in threading.enumerate() if "sqlite" in thread.name] == []


@pytest.mark.parametrize("seconds", [2.0])
async def test_closing_does_not_wait_long_for_a_reader_that_does_not_come_back(seconds: float) -> None:
    one = agent("memory://")
    run = one.stream("Go.")
    async for event in run:
        if isinstance(event, TextDelta):
            break
    async with asyncio.timeout(seconds):
        await one.close()
    await run.aclose()


async def test_closing_waits_for_a_tool_that_runs() -> None:
    ended = asyncio.Event()
    started = asyncio.Event()

    @tool
    async def work() -> str:
        """Work for a while."""
        started.set()
        await asyncio.sleep(0.8)
        ended.set()
        return "done"

    provider = ScriptedProvider([calls("work"), says("Done.")])
    one = Agent(provider, tools=[work], storage="memory://")
    await one.session("s").send("Go.")
    await started.wait()
    await one.close()
    assert ended.is_set()


async def test_a_close_that_was_cut_short_is_finished_by_the_next() -> None:
    started = asyncio.Event()

    @tool
    async def work() -> str:
        """Work for a while."""
        started.set()
        await asyncio.sleep(0.3)
        return "done"

    one = Agent(ScriptedProvider([calls("work"), says("Done.")]), tools=[work], storage="memory://")
    await one.session("s").send("Go.")
    await started.wait()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await one.close()
    await one.close()
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.parametrize("storage", [None, "memory://"])
@pytest.mark.parametrize("in_session", [True, False])
async def test_a_turn_that_was_cancelled_because_its_reader_left_is_there_as_such(
    storage: str | None, in_session: bool
) -> None:
    async with Agent("demo:slow", storage=storage) as one:
        stream = one.session("s").stream if in_session else one.stream
        async with stream("hello") as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    break
        assert run.turn.stop == "cancelled"
        assert run.turn.messages[0].text == "hello"


async def test_a_turn_that_goes_on_without_its_reader_is_not_said_to_be_over() -> None:
    async with Agent("demo:slow", storage="memory://") as one:
        async with one.session("s").stream("hello", on_leave="detach") as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    break
        with pytest.raises(RuntimeError, match="not over"):
            _ = run.turn
        await one.session("s").cancel()
