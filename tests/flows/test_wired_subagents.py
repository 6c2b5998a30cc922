"""How sub-agents are wired to an agent: their work, their cost, their questions and their end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from wired import DOORS, PRICES, USED, Diary, Word, asked_of, entries

from gnomon import Agent, Budget, tool
from gnomon.errors import ApprovalRefused, BadRequest, InvalidInput, NotFound, TurnUnfinished
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, fails, says
from gnomon.types.events import ApprovalRequested, QuestionAnswered, SubagentFinished, SubagentStarted
from gnomon.types.requests import Request, Usage

ran: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    ran.clear()


@tool
def book(port: str) -> str:
    """Book a berth.

    port: where
    """
    ran.append(port)
    return f"booked at {port}"


def pilot(*lines: object, **given: object) -> Agent:
    script = list(lines) or [says("High at noon.", usage=USED).expecting(text="Look up Dover.")]
    return Agent(ScriptedProvider(script), name="pilot", **given)


def captain(*lines: object, **given: object) -> Agent:
    script = list(lines) or [
        calls("spawn", task="Look up Dover.").expecting(text="When?"),
        says("At noon.", usage=USED).expecting(result="High at noon."),
    ]
    return Agent(ScriptedProvider(script), name="captain", models=PRICES, **given)


@DOORS
async def test_an_agent_hands_out_work_and_pays_for_it(ask: Callable) -> None:
    worker = pilot(models=PRICES)
    async with captain(subagents=[worker]) as agent:
        told = await ask(agent, "When?")
    worker.provider.assert_finished()
    assert told.turn.text == "At noon."
    assert told.turn.cost == pytest.approx(0.4, abs=0.01)
    assert told.turn.usage.output_tokens >= 2 * USED.output_tokens
    if told.events:
        kinds = [type(event) for event in told.events]
        assert kinds.count(SubagentStarted) == kinds.count(SubagentFinished) == 1


@DOORS
async def test_an_agent_is_a_tool_of_another(ask: Callable) -> None:
    script = ScriptedProvider(
        [
            calls("ask_pilot", task="Look up Dover.").expecting(tools=["ask_pilot"]),
            says("At noon.").expecting(result="High at noon."),
        ]
    )
    async with Agent(script, tools=[pilot().as_tool("ask_pilot", "Knows tides.")]) as agent:
        assert (await ask(agent, "When?")).turn.text == "At noon."
    assert script.requests[0].tools[0].description == "Knows tides."


@DOORS
async def test_several_at_once_work_side_by_side_and_each_answers_its_call(ask: Callable) -> None:
    both = asyncio.Barrier(2)

    async def waits(request: Request) -> object:
        await both.wait()  # neither goes on without the other
        return says(f"About {request.messages[0].text}")

    workers = [Agent(ScriptedProvider(waits), name=name) for name in ("north", "south")]
    script = ScriptedProvider(
        [
            calls("spawn", agent="north", task="Leith").calling("spawn", agent="south", task="Dover"),
            says("Both.").expecting(result="About Leith").expecting(result="About Dover"),
        ]
    )
    async with Agent(script, subagents=workers) as agent:
        assert (await ask(agent, "When?")).turn.text == "Both."


@DOORS
async def test_what_a_sub_agent_fails_with_is_told_to_the_model(ask: Callable) -> None:
    agent = captain(
        calls("spawn", task="Look up Dover."),
        says("No luck.").expecting(result="it failed: no such port"),
        subagents=[pilot(fails(BadRequest("no such port")))],
    )
    async with agent:
        assert (await ask(agent, "When?")).turn.text == "No luck."


@DOORS
async def test_a_task_that_is_no_task_is_refused_without_anybody_at_work(ask: Callable) -> None:
    worker = pilot()
    agent = captain(
        calls("spawn", task=" "), says("Sorry.").expecting(result="the task is empty"), subagents=[worker]
    )
    async with agent:
        assert (await ask(agent, "When?")).turn.text == "Sorry."
    assert worker.provider.requests == []


async def test_the_work_is_a_session_of_its_own_in_the_store_of_the_one_above(tmp_path: Path) -> None:
    storage = MemoryStorage()
    async with captain(subagents=[pilot()], storage=storage) as agent, agent.session("s") as session:
        await session.run("When?")
        (started,) = [each for each in await entries(storage, "s") if isinstance(each, SubagentStarted)]
        row = await storage.get_session(started.session_id)
        said = await entries(storage, started.session_id)
    assert started.session_id.startswith("sub_")
    assert row.agent_id == "pilot"
    assert row.metadata["subagent"]["parent"] == "s"
    assert "High at noon." in repr(said)


async def test_a_sub_agent_may_use_no_more_than_is_left_above() -> None:
    worker = pilot(
        msgspec.structs.replace(calls("book", port="Dover"), usage=Usage(input_tokens=290, output_tokens=10)),
        says("Never."),
        tools=[book],
    )
    agent = captain(calls("spawn", task="Look up Dover."), subagents=[worker], budget=Budget(tokens=300))
    async with agent:
        turn = await agent.run("When?")
    assert len(worker.provider.requests) == 1
    assert turn.stop == "tokens"
    assert "it reached a limit before it was done" in repr(turn.messages)


@tool
async def wait(seconds: float) -> str:
    """Wait.

    seconds: how long
    """
    await asyncio.sleep(seconds)
    return "waited"


async def test_a_sub_agent_works_no_longer_than_the_one_above_may() -> None:
    worker = pilot(*[calls("wait", seconds=0.2) for _ in range(20)], says("Never."), tools=[wait])
    above = captain(
        calls("spawn", task="Wait."),
        says("Done.").expecting(result="it reached a limit before it was done"),
        subagents=[worker],
        budget=Budget(seconds=0.5),
    )
    async with above as agent:
        assert (await agent.run("Wait.")).text == "Done."
    assert len(worker.provider.requests) < 10


async def test_a_sub_agent_has_no_more_time_than_is_left_above() -> None:
    storage, worker = MemoryStorage(), pilot(says("Done."), budget=Budget(seconds=300))
    above = captain(
        calls("wait", seconds=0.2),
        calls("spawn", task="Go on."),
        says("Done."),
        subagents=[worker],
        tools=[wait],
        storage=storage,
        budget=Budget(seconds=60),
    )
    async with above as agent, agent.session("s") as session:
        await session.run("Go on.")
        (started,) = [each for each in await entries(storage, "s") if isinstance(each, SubagentStarted)]
        row = await storage.get_session(started.session_id)
    assert row is not None
    assert 0 < row.metadata["subagent"]["budget"]["seconds"] <= 59.8


async def test_a_person_who_takes_their_time_takes_none_of_a_sub_agents() -> None:
    worker = pilot(calls("book", port="Dover"), says("Booked."), tools=[book], permissions="ask")
    above = captain(
        calls("spawn", task="Book."),
        says("Done.").expecting(result="Booked."),
        subagents=[worker],
        budget=Budget(seconds=0.6),
    )
    async with above as agent, agent.session("s") as session:
        with pytest.raises(TurnUnfinished):
            await session.run("Book.")
        await asyncio.sleep(0.8)
        await session.approve()
        assert (await session.turn_result()).text == "Done."
    assert ran == ["Dover"]


async def test_what_a_sub_agent_needs_leave_for_is_asked_at_the_root() -> None:
    worker = pilot(
        calls("book", port="Dover"),
        says("Booked.").expecting(result="booked at Dover"),
        tools=[book],
        permissions="ask",
    )
    agent = captain(
        calls("spawn", task="Book Dover."), says("Done.").expecting(result="Booked."), subagents=[worker]
    )
    async with agent, agent.session("s") as session:
        with pytest.raises(TurnUnfinished, match="waits for leave to call book"):
            await session.run("Book.")
        (asked,) = await session.approvals()
        assert ran == []
        assert asked.path[0].startswith("sub_")
        assert (await session.refresh()).state == "waiting"
        await session.approve(asked.approval_id)
        assert (await session.turn_result()).text == "Done."
        assert await session.approvals() == ()
    assert ran == ["Dover"]


async def test_leave_from_the_root_is_enough_for_the_one_below_to_go_on() -> None:
    worker = pilot(calls("book", port="Dover"), says("Booked."), tools=[book], permissions="ask")
    lines = [calls("spawn", task="Book Dover."), says("Done.").expecting(result="Booked.")]
    agent = captain(*lines, subagents=[worker], adopt=False)
    async with agent, agent.session("s") as session:
        await asked_of(session, "Book.")
        await session.approve()
        while (await session.refresh()).state != "idle":  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    assert ran == ["Dover"]


async def test_what_is_left_is_shared_out_all_the_way_down() -> None:
    used = Usage(input_tokens=290, output_tokens=10)
    spends = msgspec.structs.replace(calls("book", port="Dover"), usage=used)
    cabin = Agent(ScriptedProvider([spends, says("Never.")]), name="cabin", tools=[book])
    mate = Agent(ScriptedProvider([calls("spawn", task="Book.")]), name="mate", subagents=[cabin])
    async with captain(calls("spawn", task="Book."), subagents=[mate], budget=Budget(tokens=300)) as agent:
        turn = await agent.run("Book.")
    assert len(cabin.provider.requests) == 1
    assert turn.stop == "tokens"
    assert ran == ["Dover"]


async def test_sub_agents_go_no_deeper_than_they_may() -> None:
    def boss(name: str, below: Agent) -> Agent:
        return Agent(ScriptedProvider([calls("spawn", task="Go on."), "Up."]), name=name, subagents=[below])

    last = Agent(ScriptedProvider(["Never."]), name="five")
    told = says("Stuck.").expecting(result="sub-agents may not go deeper than 4")
    fourth = Agent(ScriptedProvider([calls("spawn", task="Go on."), told]), name="four", subagents=[last])
    agent = fourth
    for name in ("three", "two", "one", "root"):
        agent = boss(name, agent)
    async with agent:
        assert (await agent.run("Go.")).text == "Up."
    fourth.provider.assert_finished()
    assert last.provider.requests == []


@pytest.mark.parametrize("is_slow", [False, True])
async def test_a_run_whose_sub_agent_needs_leave_says_so_and_goes_on_in_its_session(is_slow: bool) -> None:
    """Also where the request comes when the turn above is put aside already."""
    aside = asyncio.Event()

    async def books(request: Request) -> object:
        if is_slow:
            await aside.wait()
        return calls("book", port="Dover")

    worker = pilot(books, says("Booked."), tools=[book], permissions="ask")
    lines = [calls("spawn", task="Book Dover."), says("Done.").expecting(result="Booked.")]
    async with captain(*lines, subagents=[worker]) as agent:
        events = []
        async with agent.stream("Book.") as run:
            async for event in run:
                events.append(event)
                if isinstance(event, SubagentStarted):
                    asyncio.get_running_loop().call_later(0.05, aside.set)
        asked = events[-1]
        assert isinstance(asked, ApprovalRequested)
        with pytest.raises(TurnUnfinished, match="waits for leave to call book"):
            assert run.turn
        async with agent.session(run.session_id) as session:
            await session.approve(asked.approval_id)
            assert (await session.turn_result()).text == "Done."
    assert ran == ["Dover"]


async def test_nobody_works_on_for_a_turn_that_was_cancelled() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hangs(request: Request) -> object:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    worker = Agent(ScriptedProvider(hangs), name="pilot")
    agent = captain(calls("spawn", task="Look."), subagents=[worker])
    async with agent, agent.session("s") as session:
        await session.send("When?")
        await begun.wait()
        await session.cancel()
        assert (await session.turn_result()).stop == "cancelled"
        await ended.wait()


async def test_a_reader_that_leaves_ends_the_work_below_too() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hangs(request: Request) -> object:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    worker = Agent(ScriptedProvider(hangs), name="pilot")
    async with captain(calls("spawn", task="Look."), subagents=[worker]) as agent:
        async with agent.stream("When?") as run:
            async for event in run:
                if isinstance(event, SubagentStarted):
                    await begun.wait()
                    break
        await ended.wait()


@pytest.mark.parametrize("adopt", [True, False])
async def test_the_work_goes_on_where_a_process_has_left_it(tmp_path: Path, adopt: bool) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    begun = asyncio.Event()

    async def hangs(request: Request) -> object:
        begun.set()
        await asyncio.Event().wait()

    first = captain(
        calls("spawn", task="Look up Dover."),
        subagents=[Agent(ScriptedProvider(hangs), name="pilot")],
        storage=store,
    )
    async with first, first.session("s") as session:
        await session.send("When?")
        await begun.wait()
    worker = pilot()
    said = says("At noon.").expecting(result="High at noon.")
    later = captain(said, subagents=[worker], storage=store, adopt=adopt)
    later.provider._verbatim = False
    async with later, later.session("s") as session:
        assert (await session.turn_result()).text == "At noon."
    worker.provider.assert_finished()


@DOORS
async def test_what_a_sub_agent_says_passes_the_guardrails_of_the_one_above(ask: Callable) -> None:
    agent = captain(
        calls("spawn", task="Look up Dover."),
        says("At noon.").expecting(result="High at ****."),
        subagents=[pilot()],
        guardrails=[Word("noon", "tool_results", by="****")],
    )
    async with agent:
        await ask(agent, "When?")


@DOORS
async def test_a_sub_agent_has_its_own_hooks(ask: Callable) -> None:
    above, below = Diary(), Diary()
    async with captain(subagents=[pilot(hooks=[below])], hooks=[above]) as agent:
        await ask(agent, "When?")
    assert [event.response.message.text for event in below.pages("model")] == ["High at noon."]
    assert [event.response.message.text for event in above.pages("model")] == ["", "At noon."]


def asking_captain(**given: object) -> Agent:
    """Its sub-agent asks which port is meant."""
    worker = pilot(
        calls("ask_user", question="Which port?", options=["Dover", "Calais"]),
        says("High at noon.").expecting(result="Dover"),
        tools=["ask_user"],
    )
    return captain(subagents=[worker], **({"storage": MemoryStorage()} | given))


async def test_what_a_sub_agent_asks_is_told_and_answered_where_a_person_began() -> None:
    async with asking_captain() as agent, agent.session("s") as session:
        with pytest.raises(TurnUnfinished, match="waits for an answer: Which port"):
            await session.run("When?")
        status = await session.refresh()
        (asked,) = status.questions
        assert (status.state, asked.options, len(asked.path)) == ("waiting", ("Dover", "Calais"), 1)
        with pytest.raises(InvalidInput, match="'Oslo' is not one of the answers"):
            await session.answer("Oslo")
        await session.answer("dover", question_id=asked.question_id, by="ann")
        with pytest.raises(ApprovalRefused, match="it was answered by ann before"):
            await session.answer("Calais", question_id=asked.question_id)
        assert (await session.turn_result()).text == "At noon."
        assert (await session.refresh()).questions == ()


@DOORS
async def test_a_run_of_an_agent_whose_sub_agent_asks_says_so(ask: Callable) -> None:
    async with asking_captain() as agent:
        with pytest.raises(TurnUnfinished, match="Which port"):
            await ask(agent, "When?")


async def test_a_sub_agent_is_asked_no_longer_when_the_turn_above_is_cancelled() -> None:
    async with asking_captain() as agent, agent.session("s") as session:
        with pytest.raises(TurnUnfinished):
            await session.run("When?")
        (asked,) = (await session.refresh()).questions
        await session.cancel()
        assert (await session.refresh()).questions == ()
        with pytest.raises((ApprovalRefused, NotFound)):
            await session.answer("Dover", question_id=asked.question_id)
        assert (await session.turn_result()).stop == "cancelled"


async def test_a_sub_agent_that_nobody_answers_in_time_goes_on_without_an_answer() -> None:
    worker = pilot(
        calls("ask_user", question="Which port?"),
        says("High at noon.").expecting(result="nobody answered in time"),
        tools=["ask_user"],
        approval_timeout_s=0.05,
    )
    store = MemoryStorage()
    async with captain(subagents=[worker], storage=store) as agent, agent.session("s") as session:
        await session.send("When?")
        async with asyncio.timeout(10):
            while (await session.refresh()).state != "idle":  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert (await session.turn_result()).text == "At noon."
        told = [each for each in await entries(store, "s") if isinstance(each, QuestionAnswered)]
        assert [each.expired for each in told] == [True]
