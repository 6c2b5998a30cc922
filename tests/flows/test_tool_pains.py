"""Pains of other frameworks with tools, each with the design that avoids it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any

import pytest
from faced import PATIENCE_S, WAYS, ByHand, faced, longest_gap_s, results_in, until

from gnomon import Agent, ToolContext, ToolResult, sync, tool
from gnomon._threads import abandoned
from gnomon.engine import definition
from gnomon.testing import Line, ScriptedProvider, calls, says
from gnomon.types.events import TextDelta
from gnomon.types.requests import Request

LIMIT_S = 0.2
SOON_S = 3.0
"""By when a call of that limit is over on a machine that is busy with other things."""


class Stubborn:
    """Work that does not end when it is told to. It ends when `over` is set, or the test would never."""

    def __init__(self) -> None:
        self.over = threading.Event()
        self.running = 0
        self._give_up = time.monotonic() + 2 * SOON_S

    def goes_on(self) -> bool:
        return not self.over.is_set() and time.monotonic() < self._give_up

    async def to_the_end(self) -> None:
        while self.goes_on():  # noqa: ASYNC110 - it is another thread that says when
            await asyncio.sleep(0.01)

    def __enter__(self) -> None:
        self.running += 1

    def __exit__(self, *error: object) -> None:
        self.running -= 1


@pytest.fixture
def stubborn() -> Iterator[Stubborn]:
    work = Stubborn()
    yield work
    work.over.set()


# --- 34 ---------------------------------------------------------------------------


def _awaits(work: Stubborn) -> Callable[..., Any]:
    async def act() -> str:
        with work:
            await work.to_the_end()
        return "too late"

    return act


def _blocks_a_thread(work: Stubborn) -> Callable[..., Any]:
    def act() -> str:
        with work:
            work.over.wait(2 * SOON_S)
        return "too late"

    return act


def _ignores_being_cancelled(work: Stubborn) -> Callable[..., Any]:
    async def act() -> str:
        with work:
            while work.goes_on():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError:
                    continue
        return "too late"

    return act


def _cleans_up_for_ever(work: Stubborn) -> Callable[..., Any]:
    async def act() -> str:
        with work:
            try:
                await asyncio.Event().wait()
            finally:
                await work.to_the_end()
        return "too late"

    return act


def _shields_its_work(work: Stubborn) -> Callable[..., Any]:
    async def inner() -> str:
        with work:
            await work.to_the_end()
        return "too late"

    async def act() -> str:
        return await asyncio.shield(asyncio.ensure_future(inner()))

    return act


def _reports_and_hangs(work: Stubborn) -> Callable[..., Any]:
    async def act() -> AsyncGenerator[str, None]:
        with work:
            yield "one moment"
            await work.to_the_end()
            yield "too late"

    return act


def _reports_and_hangs_in_a_thread(work: Stubborn) -> Callable[..., Any]:
    def act() -> Generator[str, None, str]:
        with work:
            yield "one moment"
            work.over.wait(2 * SOON_S)
        return "too late"

    return act


def _waits_for_a_grandchild(work: Stubborn) -> Callable[..., Any]:
    """The child ends at once, and what it has started holds the pipe open."""

    def act() -> str:
        child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {_SLEEP!r}])"
        with work:
            return subprocess.run(
                [sys.executable, "-c", child], capture_output=True, check=True
            ).stdout.decode()

    return act


_SLEEP = "import time; time.sleep(4)"


STUBBORN = [
    _awaits,
    _blocks_a_thread,
    _ignores_being_cancelled,
    _cleans_up_for_ever,
    _shields_its_work,
    _reports_and_hangs,
    _reports_and_hangs_in_a_thread,
    _waits_for_a_grandchild,
]


@pytest.mark.parametrize("make", STUBBORN)
@pytest.mark.parametrize("way", WAYS)
async def test_pain_34_a_timeout_that_does_not_time_out_is_none_whatever_the_tool_does(
    way: str, make: Callable[[Stubborn], Callable[..., Any]], stubborn: Stubborn
) -> None:
    """The caller goes on at the deadline, and what comes later is nobody's result."""
    found = await faced(way, tool(name="act", timeout_s=LIMIT_S)(make(stubborn)))
    assert found.result.status == "timeout"
    assert found.took_s < SOON_S
    assert "too late" not in found.result.text
    stubborn.over.set()
    await until(lambda: not stubborn.running)


@pytest.mark.parametrize("way", WAYS)
async def test_pain_34_a_timeout_that_does_not_time_out_is_none_for_a_tool_that_names_none(
    way: str, stubborn: Stubborn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definition, "DEFAULT_TOOL_TIMEOUT_S", LIMIT_S)

    async def work(context: ToolContext) -> ToolResult:
        await asyncio.Event().wait()
        raise AssertionError

    for made in (tool(name="act", timeout_s=None)(_blocks_a_thread(stubborn)), ByHand(work)):
        found = await faced(way, made)
        assert (found.result.status, found.took_s < SOON_S) == ("timeout", True)


async def test_pain_34_a_timeout_that_does_not_time_out_is_not_made_of_waiting_for_a_place(
    stubborn: Stubborn,
) -> None:
    """The time of a call begins when its thread does; those that wait are not given up for it."""

    @tool(read_only=True, timeout_s=1.0)
    def act(number: int) -> str:
        time.sleep(0.05)
        return f"number {number}"

    first = calls("act", number=0)
    for number in range(1, 100):
        first = first.calling("act", number=number)
    found = await faced("run", act, first=first)
    assert {result.status for result in found.results} == {"ok"}
    assert [result.text for result in found.results] == [f"number {number}" for number in range(100)]


@pytest.mark.parametrize("make", STUBBORN)
async def test_pain_34_a_timeout_that_does_not_time_out_nor_a_cancel_that_does_not_cancel(
    make: Callable[[Stubborn], Callable[..., Any]], stubborn: Stubborn
) -> None:
    """Clean-up after a cancel does not wait without limit either."""
    provider = ScriptedProvider([calls("act"), says("Still here.").expecting(text="And now?")])
    made = tool(name="act", timeout_s=60.0)(make(stubborn))
    async with Agent(provider, tools=[made]) as agent, asyncio.timeout(PATIENCE_S):
        session = agent.session("one")
        await session.send("Go.")
        await until(lambda: bool(stubborn.running))
        started = time.monotonic()
        await session.cancel("now")
        assert time.monotonic() - started < SOON_S
        assert (await session.turn_result()).stop == "cancelled"
        assert (await session.run("And now?")).text == "Still here."
    stubborn.over.set()
    await until(lambda: not stubborn.running)


async def test_pain_34_a_late_result_is_nobodys(stubborn: Stubborn) -> None:
    """It comes while the next turn of the same session runs, and changes nothing there."""

    @tool(timeout_s=LIMIT_S)
    def act() -> str:
        stubborn.over.wait(2 * SOON_S)
        return "too late"

    @tool
    async def wait() -> str:
        before = abandoned()
        stubborn.over.set()
        await until(lambda: abandoned() < before)
        await asyncio.sleep(0.05)
        return "waited"

    provider = ScriptedProvider(
        [calls("act"), says("Hm."), calls("wait"), says("Good.").expecting(result="waited")]
    )
    async with Agent(provider, tools=[act, wait]) as agent, asyncio.timeout(PATIENCE_S):
        session = agent.session("one")
        results = [*results_in(await session.run("Act.")), *results_in(await session.run("Wait."))]
    assert [result.status for result in results] == ["timeout", "ok"]
    assert results_in(provider.requests[-1]) == results


# --- 36 ---------------------------------------------------------------------------


async def test_pain_36_async_in_name_only_a_sync_tool_does_not_freeze_the_streams_of_others(
    stubborn: Stubborn,
) -> None:
    @tool
    def block() -> str:
        stubborn.over.wait(2 * SOON_S)
        return "done"

    def script(request: Request) -> Line:
        last = request.messages[-1]
        if last.role == "tool":
            return says("Blocked.")
        return calls("block") if last.text == "block" else says("word " * 40)

    stop = asyncio.Event()
    watching = asyncio.create_task(longest_gap_s(stop))
    async with Agent(ScriptedProvider(script, delay_s=0.005), tools=[block]) as agent:
        async with asyncio.timeout(PATIENCE_S):
            blocked = [asyncio.create_task(agent.run("block")) for _ in range(5)]
            streams = await asyncio.gather(*(_words(agent) for _ in range(5)))
            assert not any(task.done() for task in blocked), "they were blocked all the time"
            stubborn.over.set()
            assert [turn.text for turn in await asyncio.gather(*blocked)] == ["Blocked."] * 5
    stop.set()
    assert await watching < 0.4
    assert all(words > 1 for words in streams)


async def _words(agent: Agent) -> int:
    """How many pieces a text came in."""
    async with agent.stream("talk") as run:
        pieces = [event async for event in run if isinstance(event, TextDelta)]
    return len(pieces)


async def test_pain_36_async_in_name_only_a_sync_generator_does_not_run_on_the_loop_either() -> None:
    threads: list[int] = []

    @tool
    def act() -> Generator[str, None, str]:
        for number in range(3):
            threads.append(threading.get_ident())
            time.sleep(0.05)
            yield f"step {number}"
        return "done"

    stop = asyncio.Event()
    watching = asyncio.create_task(longest_gap_s(stop))
    found = await faced("stream", act)
    stop.set()
    assert found.result.text == "done"
    assert threading.get_ident() not in threads
    assert len(threads) == 3
    await watching


def test_pain_36_async_in_name_only_the_blocking_agent_can_be_run_twice_with_any_tool() -> None:
    """One loop stays under the blocking calls, so what a tool keeps belongs to a loop that is open."""
    kept: list[asyncio.AbstractEventLoop] = []

    @tool
    async def keep() -> str:
        loop = asyncio.get_running_loop()
        if kept:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "kept"), kept[0]))
        kept.append(loop)
        return "ok"

    @tool
    def block() -> str:
        return "ok"

    provider = ScriptedProvider(
        [calls("keep").calling("block"), "One.", calls("keep").calling("block"), "Two."]
    )
    with sync.Agent(provider, tools=[keep, block]) as agent:
        assert [agent.run("Go.").text, agent.run("Go.").text] == ["One.", "Two."]
    assert kept[0] is kept[1]


def test_pain_36_async_in_name_only_an_agent_outlives_the_loop_it_was_first_used_on() -> None:
    @tool
    def block() -> str:
        return "ok"

    @tool
    async def wait() -> str:
        await asyncio.sleep(0)
        return "ok"

    provider = ScriptedProvider(
        [calls("block").calling("wait"), "One.", calls("block").calling("wait"), "Two."]
    )
    agent = Agent(provider, tools=[block, wait])

    async def once() -> str:
        return (await agent.run("Go.")).text

    assert [asyncio.run(once()), asyncio.run(once())] == ["One.", "Two."]
