"""Replays of sessions with leave, sub-agents, guardrails and calls cut off. Nothing real is called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest
from replay_stage import Tools, edited, recorded, replayed_same, taped, without

from gnomon import Agent, tool
from gnomon.contracts.guardrail import GuardrailResult, Position
from gnomon.errors import TurnUnfinished, Unauthorized
from gnomon.providers.scripted import Line, ScriptedProvider, calls, fails, says
from gnomon.replay import replay
from gnomon.session.local import LocalSession
from gnomon.types.events import ModelStarted, SubagentFinished, SubagentStarted, ToolFinished
from gnomon.types.requests import Request


def told(request: Request) -> Line:
    """Says what all results were."""
    return says(" | ".join(f"{each.status} {each.text}" for each in request.messages[-1].tool_results))


def booking(rooms: int = 1, **given: object) -> tuple[Agent[str], Tools]:
    tools = Tools()

    def script(request: Request) -> Line:
        if request.messages[-1].role != "user":
            return told(request)
        line = calls("book", room=0)
        for room in range(1, rooms):
            line = line.calling("book", room=room)
        return line.calling("weather", city="Rome")

    provider = ScriptedProvider(script, verbatim=False)
    given = {"permissions": "ask", "storage": "memory://", **given}
    return Agent(provider, tools=tools.all, **given), tools  # type: ignore[arg-type]


def family(
    tasks: int = 2, answer: Callable[[Request], Line] | None = None, **given: object
) -> tuple[Agent[str], list[int]]:
    """An agent with one below it, and how often that one was asked."""
    asked: list[int] = []

    def below(request: Request) -> Line:
        asked.append(1)
        return answer(request) if answer is not None else says(f"did {request.messages[-1].text}")

    def script(request: Request) -> Line:
        if request.messages[-1].role != "user":
            return told(request)
        line = calls("spawn", task="t0")
        for number in range(1, tasks):
            line = line.calling("spawn", task=f"t{number}")
        return line

    low = Agent(ScriptedProvider(below, verbatim=False), name="low")
    provider = ScriptedProvider(script, verbatim=False)
    made = Agent(provider, name="top", subagents=[low], storage="memory://", **given)  # type: ignore[arg-type]
    return made, asked


async def waits(session: LocalSession[str]) -> tuple[str, ...]:
    with pytest.raises(TurnUnfinished):
        await session.run("go")
    return tuple(each.approval_id for each in await session.approvals())


# --- leave


async def test_leave_that_was_given_and_refused_goes_the_same_way_again() -> None:
    agent, tools = booking(3)
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        first, second, third = await waits(session)
        await session.approve(third)
        await session.deny(second, reason="too dear")
        await session.approve(first, always=True)
        assert "denied not run: leave was refused: too dear" in (await session.turn_result()).text
        ran = list(tools.ran)
        found = await replayed_same(session)
        assert (found.rounds, tools.ran) == (2, ran)


async def test_leave_that_nobody_gave_in_time_goes_the_same_way_again() -> None:
    agent, tools = booking(approval_timeout_s=0.05)
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await waits(session)
        while (await session.refresh()).state != "idle":  # noqa: ASYNC110 - it is in a store
            await asyncio.sleep(0.01)
        assert "nobody gave leave in time" in (await session.turn_result()).text
        found = await replayed_same(session)
        assert (found.rounds, tools.ran) == (2, ["weather Rome"])


@pytest.mark.parametrize("how", ["waits", "cancel", "interrupt"])
async def test_a_turn_that_still_waits_or_was_ended_meanwhile_goes_the_same_way_again(how: str) -> None:
    agent, tools = booking()
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await waits(session)
        if how == "cancel":
            await session.cancel()
        elif how == "interrupt":
            await session.send("again", when_busy="interrupt")
            with pytest.raises(TurnUnfinished):
                await session.turn_result()
        await replayed_same(session)
        assert tools.ran == []


async def test_a_call_that_needs_no_leave_any_more_is_a_difference() -> None:
    agent, tools = booking()
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await waits(session)
        await session.deny()
        await session.turn_result()
        found = await replay(session, agent=booking(permissions="auto")[0])
        assert "call" in [each.kind for each in found.differences]
        assert tools.ran == ["weather Rome"]


# --- sub-agents


async def test_results_of_sub_agents_that_were_heard_of_one_after_another_are_no_difference() -> None:
    """One had ended, and was collected, before the runner heard of the one whose call stands first."""
    agent, _ = family(3)
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await session.run("go")
        entries = [read.entry for read in (await recorded(session)).events]
    started = max(at for at, entry in enumerate(entries) if isinstance(entry, SubagentStarted)) + 1
    asked = next(at for at, entry in enumerate(entries) if at > started and isinstance(entry, ModelStarted))
    between = entries[started:asked]
    finished = [entry for entry in between if isinstance(entry, SubagentFinished)]
    results = [entry for entry in between if isinstance(entry, ToolFinished)]
    first, second, third = sorted(results, key=lambda entry: entry.result.call_id)
    found = await replay(
        taped(*entries[:started], *finished, second, first, third, *entries[asked:]), agent=agent
    )
    found.check()
    assert found.rounds == 2


@pytest.mark.parametrize("tasks", [1, 3, 12])
async def test_what_sub_agents_did_is_taken_as_recorded_and_none_of_them_works_again(tasks: int) -> None:
    agent, asked = family(tasks)
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await session.run("go")
        await session.run("again")
        found = await replayed_same(session)
        assert (found.turns, found.rounds, len(asked)) == (2, 4, 2 * tasks)
        assert len(found.skipped) == 2 * tasks


async def test_sub_agents_that_failed_or_needed_leave_go_the_same_way_again() -> None:
    agent, asked = family(2, lambda _: fails(Unauthorized("no")), permissions="ask")
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        first, second = await waits(session)
        await session.approve(second)
        await session.approve(first)
        assert (await session.turn_result()).text.startswith("error it failed: no | error it failed")
        await replayed_same(session)
        assert len(asked) == 2


async def test_another_sub_agent_or_none_is_a_difference() -> None:
    agent, _ = family(1)
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await session.run("go")
        recording = await recorded(session)
        other = edited(
            recording,
            lambda entry: (
                msgspec.structs.replace(entry, name="x") if isinstance(entry, SubagentStarted) else entry
            ),
        )
        (found,) = (await replay(other, agent=agent)).differences
        assert (found.kind, found.what) == ("call", "another sub-agent is started")
        (found,) = (await replay(without(recording, SubagentStarted), agent=agent)).differences
        assert found.what == "the call of 'spawn' is handed to a sub-agent now"

        def spawn(task: str) -> str:
            """Do it here."""
            return "here"

        for plain in (tool(spawn), tool(spawn, read_only=True)):
            itself = Agent(ScriptedProvider([]), name="top", tools=[plain])
            (*_, found) = (await replay(recording, agent=itself)).differences
            assert found.what == "the call of 'spawn' was handed to a sub-agent, and is not now"
        (*_, found) = (await replay(recording, agent=Agent(ScriptedProvider([]), name="top"))).differences
        assert found.what == "tool 'spawn' is not offered any more"


async def test_a_task_that_was_refused_and_is_handed_on_now_is_a_difference() -> None:
    agent, _ = family(1, permissions="deny")
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await session.run("go")
        (*_, found) = (await replay(session, agent=family(1)[0])).differences
        assert found.what == "the call of 'spawn' was not run, and is now"


async def test_a_session_that_may_go_no_deeper_goes_the_same_way_again() -> None:
    def passed_on(request: Request) -> Line:
        return calls("spawn", task="x") if request.messages[-1].role == "user" else told(request)

    agent = Agent(ScriptedProvider("done"), name="a0")
    for depth in range(1, 6):
        provider = ScriptedProvider(passed_on, verbatim=False)
        agent = Agent(provider, name=f"a{depth}", subagents=[agent], storage="memory://")
    async with agent, asyncio.timeout(20):
        await agent.session("s").run("go")
        session, below = agent.session("s"), agent.definition
        for _ in range(4):
            found = [read.entry for read in (await recorded(session)).events]
            session = agent.session(next(e.session_id for e in found if isinstance(e, SubagentStarted)))
        last = [read.entry for read in (await recorded(session)).events]
        assert any(isinstance(e, ToolFinished) and "may not go deeper" in e.result.text for e in last)
        for name in ("a4", "a3", "a2", "a1"):
            below = below.tools.get("spawn").agents[name]  # type: ignore[union-attr]
        again = Agent(ScriptedProvider([]), name="a1", subagents=[Agent(ScriptedProvider([]), name="a0")])
        assert again.definition.hash == below.hash
        (await replay(session, agent=again)).check()


# --- guardrails


class Redacting:
    """Lets no work that was done pass as it is."""

    name = "redacting"
    positions: frozenset[Position] = frozenset({"tool_results"})

    def __init__(self, *, stops: bool) -> None:
        self.stops = stops

    async def check(self, content: str) -> GuardrailResult:
        if "did" not in content:
            return GuardrailResult(passed=True)
        return GuardrailResult(passed=False, reason="did", replacement=None if self.stops else "hidden")


@pytest.mark.parametrize("stops", [True, False])
async def test_what_a_guardrail_had_against_a_sub_agents_result_is_taken_as_recorded(stops: bool) -> None:
    agent, asked = family(2, guardrails=[Redacting(stops=stops)])
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await session.send("go")
        turn = await session.turn_result()
        assert turn.stop == "failed" if stops else turn.text == "ok hidden | ok hidden"
        await replayed_same(session)
        assert len(asked) == 2


# --- calls beside one another


async def test_a_call_that_was_cut_off_while_one_beside_it_had_ended_goes_the_same_way_again() -> None:
    begun = asyncio.Event()

    @tool(read_only=True)
    async def slow() -> str:
        """Never ends."""
        begun.set()
        await asyncio.Event().wait()
        return ""

    @tool(read_only=True)
    async def fast() -> str:
        """Ends at once."""
        return "fast"

    provider = ScriptedProvider([calls("slow").calling("fast")])
    async with Agent(provider, tools=[slow, fast], storage="memory://") as agent, asyncio.timeout(20):
        session = agent.session("s")
        await session.send("go")
        await begun.wait()
        await asyncio.sleep(0.05)
        await session.cancel()
        entries = [read.entry for read in (await recorded(session)).events]
        ended = [entry.result.status for entry in entries if isinstance(entry, ToolFinished)]
        assert sorted(ended) == ["cancelled", "ok"]
        async with asyncio.timeout(5):
            await replayed_same(session)


async def test_sub_agents_that_end_while_the_others_are_told_of_go_the_same_way_again() -> None:
    async def wait(request: Request) -> Line:
        number = int(request.messages[-1].text.removeprefix("t"))
        for _ in range(7 * (number % 4)):
            await asyncio.sleep(0)
        return says("done")

    agent, _ = family(12, wait)  # type: ignore[arg-type]
    async with agent, asyncio.timeout(20):
        session = agent.session("s")
        await session.run("go")
        await replayed_same(session)
        entries = [read.entry for read in (await recorded(session)).events]
        assert sum(isinstance(entry, SubagentFinished) for entry in entries) == 12
