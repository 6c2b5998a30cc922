"""Calls of a turn: what may run, what is shown of long results, who is told of progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator

import pytest
from session_stage import StagedStorage, answered, ledger_of, make_row, opening, write

from gnomon import Agent, tool
from gnomon.contracts.tool import ToolContext
from gnomon.engine.patience import left_alone
from gnomon.errors import AskUser, Unavailable
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_patience import Gate
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.types.events import QuestionAsked, RunEvent, ToolFinished, ToolIntent, ToolProgress
from gnomon.types.messages import Text, ToolCall, ToolResult
from gnomon.types.requests import Request

DURABLE = pytest.mark.parametrize("durable", [False, True], ids=["scratch", "ledger"])


def results(request: Request) -> list[ToolResult]:
    return [result for message in request.messages for result in message.tool_results]


# --- what may run


@pytest.mark.parametrize(("permissions", "ran"), [("bypass", 2), ("plan", 1), ("deny", 0)])
async def test_an_agent_runs_what_it_may_and_the_model_is_told_of_the_rest(permissions, ran: int) -> None:
    look, save = StageTool("look", read_only=True), StageTool("save")
    script = ScriptedProvider([calls("look").calling("save"), says("Done.")])
    async with Agent(script, tools=[look, save], permissions=permissions) as agent:
        await agent.run("go")
    assert look.runs + save.runs == ran
    statuses = [result.status for result in results(script.requests[1])]
    assert statuses == ["ok"] * ran + ["denied"] * (2 - ran)
    if ran == 1:
        assert (
            "in mode plan only what reads may run, and save changes something"
            in results(script.requests[1])[1].text
        )


async def test_a_tool_that_asks_where_nobody_can_answer_tells_the_model_what_it_would_have_asked() -> None:
    async def ask(context: ToolContext) -> str:
        raise AskUser("Which of the two?")

    script = ScriptedProvider([calls("ask"), says("Then not.")])
    async with Agent(script, tools=[StageTool("ask", ask)]) as agent:
        assert (await agent.run("go")).text == "Then not."
    (result,) = results(script.requests[1])
    assert (result.status, "Which of the two?" in result.text) == ("error", True)


# --- long results


@tool(read_only=True, max_output_chars=30)
def book() -> str:
    """A long text."""
    return "".join(f"{at:03d} " for at in range(100))


def read_on(request: Request) -> Line:
    """The model asks for a part of what it was not shown."""
    return calls("read_output", call_id=results(request)[0].call_id, offset=200, length=8)


@DURABLE
async def test_a_model_can_read_what_was_left_out_of_a_result(durable: bool) -> None:
    store = MemoryStorage() if durable else None
    script = ScriptedProvider([calls("book").expecting(tools=["book"]), read_on, says("Fifty.")])
    async with Agent(script, tools=[book], storage=store) as agent:
        assert (await agent.run("go")).text == "Fifty."
    assert "050 " not in results(script.requests[1])[0].text
    assert "050 051 " in results(script.requests[2])[1].text


@DURABLE
async def test_a_tool_of_that_name_of_the_agents_own_is_the_one_that_is_offered(durable: bool) -> None:
    own = StageTool("read_output", read_only=True)
    script = ScriptedProvider(
        [calls("book"), calls("read_output").expecting(tools=["book", "read_output"]), says("Done.")]
    )
    async with Agent(script, tools=[book, own], storage=MemoryStorage() if durable else None) as agent:
        await agent.run("go")
    assert own.runs == 1


# --- progress


class Reports(StageTool):
    """One that reports as often as it is let to."""

    def __init__(self, name: str, *steps: Gate, ends: bool = True) -> None:
        super().__init__(name, read_only=True)
        self._steps = steps
        self._ends = ends

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        for number, step in enumerate(self._steps):
            await step.wait()
            yield ToolProgress("", "", (Text(f"{self.name} {number}"),))
        if self._ends:
            yield await self.execute(arguments, context)


def told(events: list[RunEvent]) -> list[str]:
    return [event.content[0].text for event in events if isinstance(event, ToolProgress)]  # type: ignore[union-attr]


async def test_what_a_call_reported_while_another_was_waited_for_is_told_before_its_result() -> None:
    """The second one is over by the time it is its turn: its reports still come first."""
    first, second = Gate(), Gate()
    second.open()
    tools = [held_tool("slow", first, read_only=True), Reports("quick", second)]
    script = ScriptedProvider([calls("slow").calling("quick"), says("Done.")])
    async with Agent(script, tools=tools) as agent, agent.stream("go") as run:
        events: list[RunEvent] = []
        async for event in run:
            events.append(event)
            if told([event]):
                first.open()
    assert told(events) == ["quick 0"]
    kinds = [type(event) for event in events]
    assert kinds.index(ToolProgress) < kinds.index(ToolFinished)


async def test_a_report_that_comes_with_the_end_of_its_call_is_told() -> None:
    first, last = Gate(), Gate()
    first.open()
    script = ScriptedProvider([calls("quick"), says("Done.")])
    async with Agent(script, tools=[Reports("quick", first, last)]) as agent, agent.stream("go") as run:
        events: list[RunEvent] = []
        async for event in run:
            events.append(event)
            if told([event]) == ["quick 0"]:
                last.open()
                for _ in range(20):  # the reader takes its time: the call ends meanwhile
                    await asyncio.sleep(0)
    assert told(events) == ["quick 0", "quick 1"]


async def test_a_tool_that_reports_and_gives_no_result_has_failed(caplog) -> None:
    gate = Gate()
    gate.open()
    script = ScriptedProvider([calls("endless"), says("Done.")])
    async with Agent(script, tools=[Reports("endless", gate, ends=False)]) as agent:
        await agent.run("go")
    assert results(script.requests[1])[0].status == "error"
    assert "tool 'endless' ended without a result" in caplog.text


async def test_what_is_reported_after_the_time_is_up_is_not_told() -> None:
    gates = [Gate(), Gate()]

    class Stubborn(StageTool):
        async def execute_stream(self, arguments: str, context: ToolContext):
            yield ToolProgress("", "", (Text("in time"),))
            try:
                await gates[0].wait()
            finally:
                await asyncio.sleep(0)
                yield ToolProgress("", "", (Text("too late"),))

    tools = [Stubborn("stubborn", read_only=True, timeout_s=0.05)]
    script = ScriptedProvider([calls("stubborn"), says("Done.")])
    async with Agent(script, tools=tools) as agent, agent.stream("go") as run:
        events = [event async for event in run]
    assert told(events) == ["in time"]
    assert [event.result.status for event in events if isinstance(event, ToolFinished)] == ["timeout"]


async def test_a_report_that_comes_when_the_run_has_just_failed_harms_nothing(caplog) -> None:
    """The store fails with one call written and another still at work: nobody is there to be told."""
    store, first, last = StagedStorage(), Gate(), Gate()
    first.open()

    async def fail() -> None:
        if quick.runs:
            last.open()
            raise Unavailable("the store is away")

    quick, slow = StageTool("quick", read_only=True), Reports("slow", first, last)
    store.before_append = fail
    script = ScriptedProvider([calls("quick").calling("slow"), says("Done.")])
    async with Agent(script, tools=[quick, slow], storage=store) as agent:
        with pytest.raises(Unavailable):
            await agent.run("go")
        store.before_append = StagedStorage().before_append
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR], caplog.text


# --- calls that had begun


async def test_a_call_of_a_tool_that_only_reads_by_now_is_simply_run_again() -> None:
    """It was one with effects when its runner was lost; the agent was changed since."""
    store, look = MemoryStorage(), StageTool("look", read_only=True)
    script = ScriptedProvider(says("Done."), verbatim=False)
    async with Agent(script, tools=[look], storage=store) as agent:
        await make_row(store)
        lost = ToolCall("c1", "look", index=0)
        begun = ToolIntent("t1", "c1", "look", "k1")
        await write(store, *opening(agent, agent_hash="another"), answered(lost), begun)
        assert (await agent.session("s").turn_result()).text == "Done."
        assert look.runs == 1
        assert not [entry for entry in await ledger_of(store) if isinstance(entry, QuestionAsked)]


async def test_a_call_of_a_tool_that_is_not_there_any_more_is_asked_about() -> None:
    """It had begun, and may have had its effect: to say that there is no such tool would hide that."""
    store = MemoryStorage()
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        await make_row(store)
        lost = ToolCall("c1", "save", index=0)
        begun = ToolIntent("t1", "c1", "save", "k1")
        await write(store, *opening(agent, agent_hash="another"), answered(lost), begun)
        await agent._live().run_segment("default", "s")
        (asked,) = (await agent.session("s").refresh()).questions
        assert (asked.call_id, asked.unknown) == ("c1", True)


# --- time


async def test_a_tool_that_does_not_end_when_told_to_is_left_alone_and_counted(caplog, monkeypatch) -> None:
    monkeypatch.setattr("gnomon.engine.patience.GRACE_S", 0.05)
    gate = Gate()

    async def deaf(context: ToolContext) -> str:
        while not gate._open.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    before = left_alone()
    script = ScriptedProvider([calls("deaf"), says("Done.")])
    async with Agent(script, tools=[StageTool("deaf", deaf, timeout_s=0.05)]) as agent:
        assert (await agent.run("go")).text == "Done."
        assert results(script.requests[1])[0].status == "timeout"
        assert left_alone() == before + 1
        assert "'deaf' goes on though it was told to end" in caplog.text
        gate.open()
        for _ in range(10):
            await asyncio.sleep(0)
    assert left_alone() == before


async def test_a_limit_is_held_while_a_call_waits_for_its_place_and_is_over_with_the_call() -> None:
    kept: list[ToolContext] = []

    async def queue(context: ToolContext) -> str:
        kept.append(context)
        context.hold_timer()
        await asyncio.sleep(0.2)
        context.start_timer()
        return "had its place"

    script = ScriptedProvider([calls("queue"), says("Done.")])
    async with Agent(script, tools=[StageTool("queue", queue, timeout_s=0.1)]) as agent:
        await agent.run("go")
    assert results(script.requests[1])[0].text == "had its place"
    kept[0].start_timer()  # by code that has not noticed its end, such as a thread's
