"""Sub-agents when things go wrong: names, runners that are lost, leave, cancels, and what it all cost."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from gnomon import Agent, Budget, tool
from gnomon.engine.subagents import Task
from gnomon.errors import ConfigError, NotFound, TurnUnfinished
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.replay import read_store
from gnomon.session._family import Household
from gnomon.session.local import LocalSession
from gnomon.types.events import (
    ApprovalRequested,
    Event,
    MessageCompleted,
    SubagentFinished,
    SubagentStarted,
    TurnCancelled,
)
from gnomon.types.requests import Request, Usage

USED = Usage(input_tokens=10, output_tokens=5)
PRICES = {"scripted:scripted": {"input_price": 1.0, "output_price": 2.0}}


class Work:
    """A tool that writes, and what it wrote."""

    def __init__(self) -> None:
        self.written: list[str] = []

        @tool
        def write(what: str) -> str:
            """Write it down."""
            self.written.append(what)
            return f"wrote {what}"

        self.tool = write


def writer(work: Work, name: str = "writer", **given: object) -> Agent[str]:
    """An agent that writes down what it is told to."""

    def script(request: Request) -> Line:
        last = request.messages[-1]
        if last.role == "user":
            return calls("write", what=last.text)
        return says(f"done: {last.tool_results[0].text}")

    return Agent(ScriptedProvider(script, verbatim=False), name=name, tools=[work.tool], **given)  # type: ignore[arg-type]


def speaker(wait: Callable[[], Awaitable[object]] | None = None) -> Agent[str]:
    """An agent that answers at once, or when it may, for a price."""

    async def script(request: Request) -> Line:
        if wait is not None:
            await wait()
        return says(f"did {request.messages[-1].text}", usage=USED)

    return Agent(ScriptedProvider(script, verbatim=False), name="speaker", models=PRICES)


def boss(*below: Agent[str], tasks: int = 1, **given: object) -> Agent[str]:
    """An agent that hands out so many tasks at once, and says what they came to."""

    def script(request: Request) -> Line:
        last = request.messages[-1]
        if last.role != "user":
            return says(" | ".join(result.text for result in last.tool_results), usage=USED)
        line = calls("spawn", task="t0")
        for number in range(1, tasks):
            line = line.calling("spawn", task=f"t{number}")
        return msgspec.structs.replace(line, usage=USED)

    provider = ScriptedProvider(script, verbatim=False)
    return Agent(provider, name="boss", subagents=below, models=PRICES, **given)  # type: ignore[arg-type]


async def ledger_of(agent: Agent[str], session_id: str) -> list[Event]:
    try:
        recording = await read_store(await agent._live().storage(), session_id)
    except NotFound:  # nothing was written to it yet
        return []
    return [read.entry for read in recording.events]


async def started_by(agent: Agent[str], session_id: str) -> list[str]:
    entries = await ledger_of(agent, session_id)
    return [entry.session_id for entry in entries if isinstance(entry, SubagentStarted)]


async def until(is_so: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(20):
        while not await is_so():  # noqa: ASYNC110 - it is in a store
            await asyncio.sleep(0.01)


async def waiting(session: LocalSession[str]) -> ApprovalRequested:
    """The one request that the session waits for, once it is sent something."""
    with pytest.raises(TurnUnfinished, match="waits for leave to call write"):
        await session.run("go")
    (asked,) = await session.approvals()
    return asked


def copied(store: str) -> str:
    """What a process that dies now leaves behind."""
    before = store.removeprefix("sqlite:///")
    with sqlite3.connect(before) as one, sqlite3.connect(f"{before}.left") as other:
        one.backup(other)
    return f"{store}.left"


# --- names


def test_agents_that_work_together_have_names_of_their_own() -> None:
    work = Work()
    tools = [writer(work, "agent").as_tool("first"), writer(work, "agent").as_tool("second")]
    with pytest.raises(ConfigError, match=r"called 'agent'.*name=…"):
        Agent(ScriptedProvider("x"), name="boss", tools=tools)
    with pytest.raises(ConfigError, match="called 'boss'"):
        boss(writer(work, "boss"))
    middle = Agent(ScriptedProvider("x"), name="middle", subagents=[writer(work, "boss")])
    with pytest.raises(ConfigError, match="called 'boss'"):
        boss(middle)


async def test_one_agent_may_work_in_two_places() -> None:
    work = Work()
    low = writer(work, "low")

    def passed_on(request: Request) -> Line:
        last = request.messages[-1]
        return calls("spawn", task="deep") if last.role == "user" else says(f"so {last.tool_results[0].text}")

    middle = Agent(ScriptedProvider(passed_on, verbatim=False), name="middle", subagents=[low])

    def script(request: Request) -> Line:
        last = request.messages[-1]
        if last.role == "user":
            return calls("spawn", agent="middle", task="x").calling("spawn", agent="low", task="flat")
        return says(" | ".join(result.text for result in last.tool_results))

    provider = ScriptedProvider(script, verbatim=False)
    async with Agent(provider, name="top", subagents=[middle, low]) as one, asyncio.timeout(20):
        assert (await one.run("go")).text == "so done: wrote deep | done: wrote flat"
        assert sorted(work.written) == ["deep", "flat"]


# --- leave that a sub-agent needs


async def test_a_run_whose_sub_agent_needs_leave_says_so_and_shows_the_request() -> None:
    async with boss(writer(Work(), permissions="ask")) as one, asyncio.timeout(20):
        with pytest.raises(TurnUnfinished, match="waits for leave to call write"):
            await one.run("go")
        async with one.stream("go") as run:
            seen = [event async for event in run]
        assert isinstance(seen[-1], ApprovalRequested)
        assert seen[-1].path == (next(e.session_id for e in seen if isinstance(e, SubagentStarted)),)
        with pytest.raises(TurnUnfinished, match="waits for leave to call write"):
            _ = run.turn


@pytest.mark.parametrize("adopt", [True, False])
async def test_leave_for_a_sub_agent_may_be_given_after_a_restart(tmp_path: Path, adopt: bool) -> None:
    work, store = Work(), f"sqlite:///{tmp_path}/s.db"
    async with boss(writer(work, permissions="ask"), storage=store) as one:
        await waiting(one.session("s"))
    async with boss(writer(work, permissions="ask"), storage=store, adopt=adopt) as two, asyncio.timeout(20):
        session = two.session("s")
        await session.approve()
        assert (await session.turn_result()).text == "done: wrote t0"
    assert work.written == ["t0"]


async def test_leave_given_in_the_session_of_a_sub_agent_is_for_the_sub_agent_to_use() -> None:
    work = Work()
    async with boss(writer(work, permissions="ask"), storage="memory://") as one, asyncio.timeout(20):
        session = one.session("s")
        asked = await waiting(session)
        await one.session(asked.path[-1]).approve(asked.approval_id)
        assert (await session.turn_result()).text == "done: wrote t0"
        assert await session.approvals() == ()
    assert work.written == ["t0"]


async def test_what_is_waited_for_is_cancelled_with_the_turn_above() -> None:
    work = Work()
    async with boss(writer(work, permissions="ask"), storage="memory://") as one, asyncio.timeout(20):
        session = one.session("s")
        asked = await waiting(session)
        await session.cancel("after_step")
        assert (await session.turn_result()).stop == "cancelled"
        assert await session.approvals() == ()

        async def is_cancelled() -> bool:
            return any(isinstance(e, TurnCancelled) for e in await ledger_of(one, asked.path[-1]))

        await until(is_cancelled)
    assert work.written == []


# --- what a sub-agent gives


async def test_the_output_of_a_sub_agent_is_told_also_where_it_was_given_to_a_tool() -> None:
    class Found(msgspec.Struct):
        rooms: int

    provider = ScriptedProvider([calls("final_output", rooms=3)])
    finder = Agent(provider, name="finder", output=Found, output_mode="tool")
    async with boss(finder) as one, asyncio.timeout(20):  # type: ignore[arg-type]
        assert (await one.run("go")).text == '{"rooms":3}'


# --- runners that are lost


async def test_a_sub_agent_that_was_noted_and_never_started_is_started_by_who_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = f"sqlite:///{tmp_path}/s.db"

    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    async with boss(speaker(), storage=store) as one, asyncio.timeout(20):
        with monkeypatch.context() as patched:
            patched.setattr(Household, "start", hang)
            await one.session("s").send("go")
            await until(lambda: started_by(one, "s"))
        left = copied(store)
        async with boss(speaker(), storage=left) as two:
            assert (await two.session("s").turn_result()).text == "did t0"


@pytest.mark.parametrize("adopt", [True, False])
@pytest.mark.parametrize("how", ["turn_result", "follow", "resume"])
async def test_a_sub_agent_whose_runner_was_lost_is_gone_on_with(
    tmp_path: Path, adopt: bool, how: str
) -> None:
    store, begun = f"sqlite:///{tmp_path}/s.db", asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with boss(speaker(hang), storage=store) as one, asyncio.timeout(20):
        session = one.session("s")
        await session.send("go")
        await begun.wait()
        await until(lambda: rests(session))
        left = copied(store)
        async with boss(speaker(), storage=left, adopt=adopt) as two:
            again = two.session("s")
            if how == "follow":
                run = await again.follow()
                assert run is not None
                assert [event async for event in run]
            elif how == "resume":
                await again.resume()

                async def is_over() -> bool:
                    return (await again.refresh()).state == "idle"

                await until(is_over)
            assert (await again.turn_result()).text == "did t0"


async def rests(session: LocalSession[str]) -> bool:
    return not await session.is_attended()


# --- what it cost


async def test_what_sub_agents_cost_is_counted_above_to_the_last_token() -> None:
    async with boss(speaker(), tasks=12, storage="memory://") as one, asyncio.timeout(20):
        session = one.session("s")
        turn = await session.run("go")
        assert (turn.usage.input_tokens, turn.usage.output_tokens) == (140, 70)
        assert turn.cost == pytest.approx(14 * 20e-6)
        assert (await session.refresh()).tokens_used == 14 * 15


@pytest.mark.parametrize("patience", range(14, 26))
async def test_a_sub_agent_that_has_ended_counts_also_where_the_turn_is_cancelled_meanwhile(
    patience: int,
) -> None:
    async with boss(speaker(), tasks=6, storage="memory://") as one, asyncio.timeout(20):
        session = one.session("s")
        await session.send("go")
        for _ in range(patience):
            await asyncio.sleep(0)
        await session.cancel()
        turn = await session.turn_result()
        told = await ledger_of(one, "s")
        before = told[: next(at for at, entry in enumerate(told) if isinstance(entry, TurnCancelled))]
        ended = sum(isinstance(entry, SubagentFinished | MessageCompleted) for entry in before)
        assert (turn.usage.input_tokens or 0) == ended * 10


async def spent(agent: Agent[str]) -> int:
    """What all models were paid for in all sessions, by their ledgers."""
    rows = (await (await agent._live().storage()).list_sessions()).items
    entries = [entry for row in rows for entry in await ledger_of(agent, row.id)]
    answers = [entry for entry in entries if isinstance(entry, MessageCompleted)]
    return sum(answer.response.usage.input_tokens or 0 for answer in answers)


async def is_settled(session: LocalSession[str]) -> bool:
    await session.refresh()
    assert session._ledger is not None
    return session.status.state == "idle" and not session._ledger.fold.left


def halting(begun: list[str]) -> Agent[str]:
    """An agent that reads something, for a price, and then says nothing any more."""

    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "seen"

    async def script(request: Request) -> Line:
        if request.messages[-1].role != "user":
            begun.append(request.messages[0].text)
            await asyncio.Event().wait()
        return msgspec.structs.replace(calls("look"), usage=USED)

    return Agent(ScriptedProvider(script, verbatim=False), name="halting", tools=[look])


@pytest.mark.parametrize("cut", ["top", "middle"])
async def test_what_sub_agents_had_cost_when_they_were_cancelled_is_counted_at_every_level(cut: str) -> None:
    begun: list[str] = []

    def hand(request: Request) -> Line:
        if request.messages[-1].role != "user":
            return says("so", usage=USED)
        return msgspec.structs.replace(calls("spawn", task="a").calling("spawn", task="b"), usage=USED)

    middle = Agent(ScriptedProvider(hand, verbatim=False), name="middle", subagents=[halting(begun)])
    async with boss(middle, storage="memory://") as one, asyncio.timeout(20):
        session = one.session("s")
        await session.send("go")

        async def have_begun() -> bool:
            return len(begun) == 2

        await until(have_begun)
        (below,) = await started_by(one, "s")
        await (session if cut == "top" else one.session(below)).cancel()
        await until(lambda: is_settled(session))
        under, total = one.session(below), await spent(one)
        await under.refresh()
        assert (under.status.tokens_used, total) == (45, 40 if cut == "top" else 50)
        assert session.status.tokens_used == total * 1.5
        turn = await session.turn_result()
        assert (turn.stop, turn.usage.input_tokens) == (
            ("cancelled", 10) if cut == "top" else ("end_turn", 50)
        )
        again = one.session("s")
        assert (await again.refresh()).tokens_used == session.status.tokens_used


async def test_a_sub_agent_that_was_never_started_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Household.start

    async def hang(self: Household, started: SubagentStarted, task: Task, budget: Budget) -> None:
        if task.agent.name == "speaker":
            await asyncio.Event().wait()
        await start(self, started, task, budget)

    monkeypatch.setattr(Household, "start", hang)

    def hand(request: Request) -> Line:
        return calls("spawn", task="a")

    middle = Agent(ScriptedProvider(hand, verbatim=False), name="middle", subagents=[speaker()])
    async with boss(middle, storage="memory://") as one, asyncio.timeout(20):
        session = one.session("s")
        await session.send("go")

        async def are_named() -> bool:
            first = await started_by(one, "s")
            return bool(first) and bool(await started_by(one, first[0]))

        await until(are_named)
        await one.session((await started_by(one, "s"))[0]).cancel()
        assert (await session.turn_result()).text == "cancelled; so far: "
