"""Sessions of every kind go again as they went: no model is asked, no tool is run, nothing is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from replay_stage import Tools, opening, recorded, replayed_same, taped
from session_stage import answered, write

from gnomon import Agent, Budget, tool
from gnomon.engine.capping import FULL_CHARS, capped
from gnomon.errors import GnomonError, Overloaded, TurnUnfinished
from gnomon.providers.scripted import ScriptedProvider, calls, fails, says
from gnomon.replay import read_store, replay
from gnomon.session.local import LocalSession
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_patience import Gate, within
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    Claimed,
    Compacted,
    Error,
    Guarded,
    LedgerEntry,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolIntent,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    Unknown,
)
from gnomon.types.messages import Message, Text, ToolCall, ToolResult
from gnomon.types.requests import Usage


async def test_turns_with_tools_go_again_without_a_model_and_without_a_tool() -> None:
    tools = Tools()
    script = [
        calls("weather", city="Rome").calling("weather", city="Oslo").calling("book", room=3),
        says("Take an umbrella."),
        says("You are welcome."),
    ]
    provider = ScriptedProvider(script)
    async with Agent(provider, tools=tools.all) as agent:
        session = agent.session("s")
        await session.run("Where?")
        await session.run("Thanks.")
        ran, asked = list(tools.ran), len(provider.requests)
        found = await replayed_same(session)
        assert (found.turns, found.rounds, found.first) == (2, 3, None)
        assert found.skipped == ()
        assert (tools.ran, len(provider.requests)) == (ran, asked)


async def test_a_question_and_its_answer_come_at_the_same_place() -> None:
    tools = Tools()
    async with Agent(ScriptedProvider([calls("permit"), says("done")]), tools=tools.all) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("go")
        assert (await replayed_same(session)).rounds == 1  # as far as it has come
        await session.answer("yes")
        await session.turn_result()
        found = await replayed_same(session)
        assert (found.turns, found.rounds) == (1, 2)
        assert tools.ran == ["permit"]


async def test_an_answer_to_one_of_two_questions_comes_after_its_question() -> None:
    @tool(read_only=True)
    def ask() -> str:
        """Ask a person."""
        raise AssertionError("it is not to be run")

    both = [ToolCall(f"c{n}", "ask", "{}", n) for n in (1, 2)]
    async with Agent(ScriptedProvider([]), tools=[ask]) as agent:
        entries = (
            *opening(agent),
            answered(*both),
            QuestionAsked("t1", "c1", "one?"),
            QuestionAnswered("c1", (Text("yes"),)),
            QuestionAsked("t1", "c2", "two?"),
            QuestionAnswered("c2", (Text("no"),)),
            Claimed("b", 2),
            ToolFinished("t1", ToolResult.of(both[0], "yes")),
            ToolFinished("t1", ToolResult.of(both[1], "no")),
            ModelStarted("t1", "m2", (2, 1)),
            answered("thanks", message_id="m2"),
            TurnFinished("t1", "end_turn", 2),
        )
        (await replay(taped(*entries), agent=agent)).check(whole=True)


async def test_a_result_that_was_longer_than_is_kept_ends_the_replay_of_its_turn() -> None:
    call = ToolCall("c1", "weather", '{"city": "Rome"}')
    shown, full = capped(ToolResult.of(call, "x" * (FULL_CHARS + 1)), 30_000)
    async with Agent(ScriptedProvider([]), tools=Tools().all) as agent:
        finished = ToolFinished("t1", shown, full=full)
        found = await replay(taped(*opening(agent), answered(call), finished), agent=agent)
        found.check()
        assert [each.what for each in found.skipped] == ["a result was longer than is kept"]


async def test_messages_that_steer_and_that_wait_come_at_the_same_place() -> None:
    gate = Gate()
    script = [calls("hold"), says("steered").expecting(), says("queued")]
    async with Agent(ScriptedProvider(script, verbatim=False), tools=[held_tool("hold", gate)]) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached()
        await session.send("two")
        await session.send("rather this", when_busy="steer")
        gate.open()
        await within("both turns", session.turn_result())
        found = await replayed_same(session)
        assert (found.turns, found.rounds) == (2, 3)
        entries = [read.entry for read in (await recorded(session)).events]
        assert any(isinstance(entry, ModelStarted) and entry.inputs for entry in entries)


@pytest.mark.parametrize("mode", ["now", "after_step"])
@pytest.mark.parametrize("read_only", [True, False])
async def test_a_turn_that_was_cancelled_in_a_call_is_cancelled_there_again(
    mode: str, read_only: bool
) -> None:
    gate, tools = Gate(), Tools()
    hold = held_tool("hold", gate, read_only=read_only)
    script = [calls("weather", city="Rome").calling("hold").calling("book", room=1), says("next")]
    async with Agent(ScriptedProvider(script), tools=[*tools.all, hold]) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached()
        cancelling = asyncio.create_task(session.cancel(mode, reason="enough"))
        if mode == "after_step":
            await asyncio.sleep(0.05)
            gate.open()
        await within("the cancel", cancelling)
        await session.run("two")
        found = await replayed_same(session)
        assert (found.turns, found.rounds) == (2, 2)


@pytest.mark.parametrize("events", [0, 3])
async def test_a_turn_whose_reader_left_in_the_midst_of_an_answer_ends_there_again(events: int) -> None:
    provider = ScriptedProvider([says("one two three four five six"), says("next")])
    store = MemoryStorage()
    async with Agent(provider, storage=store) as agent:
        seen = 0
        async with agent.stream("go") as run:
            async for event in run:
                seen += type(event).__name__ == "TextDelta"
                if seen >= events and type(event).__name__ in ("ModelStarted", "TextDelta"):
                    break
        found = await replayed_same(agent.session(run.session_id))
        assert (found.turns, found.rounds) == (1, 1 if events else 0)


async def test_a_cancel_in_the_midst_of_an_answer_comes_there_again() -> None:
    provider = ScriptedProvider([says("one two three four five six"), says("next")], delay_s=0.02)
    async with Agent(provider) as agent:
        session = agent.session("s")
        async with session.stream("go") as run:
            async for event in run:
                if type(event).__name__ == "TextDelta":
                    await session.cancel()
                    break
        await session.run("more")
        assert (await replayed_same(session)).turns == 2


async def test_a_turn_that_failed_fails_again_with_the_same_error() -> None:
    provider = ScriptedProvider([fails(Overloaded("busy")), says("fine")])
    async with Agent(provider) as agent:
        session = agent.session("s")
        with pytest.raises(Overloaded):
            await session.run("one")
        await session.run("two")
        found = await replayed_same(session)
        assert (found.turns, found.rounds) == (2, 1)


async def test_an_output_that_was_mended_is_mended_again() -> None:
    script = [says("none"), says('{"result": [1]}'), says("a"), says("b"), says("c")]
    async with Agent(ScriptedProvider(script), output=list[int]) as agent:
        session = agent.session("s")
        assert (await session.run("one")).output == [1]
        with pytest.raises(GnomonError):
            await session.run("two")
        assert (await replayed_same(session)).rounds == 5


async def test_an_output_that_a_tool_took_is_taken_again() -> None:
    script = [calls("final_output", result="x"), calls("final_output", result=[2])]
    async with Agent(ScriptedProvider(script), output=list[int], output_mode="tool") as agent:
        session = agent.session("s")
        assert (await session.run("one")).output == [2]
        assert (await replayed_same(session)).rounds == 2


async def test_a_result_that_was_cut_is_cut_again_and_can_be_read() -> None:
    @tool(read_only=True, max_output_chars=90)
    def pages() -> str:
        """Pages."""
        return "abcdefghij" * 100

    script = [calls("pages"), calls("read_output", call_id="call_1_1", offset=500, length=20), says("read")]
    async with Agent(ScriptedProvider(script), tools=[pages]) as agent:
        session = agent.session("s")
        await session.run("go")
        assert (await replayed_same(session)).rounds == 3


@pytest.mark.parametrize("budget", [Budget(rounds=1), Budget(tokens=1), Budget(seconds=1e-9)])
async def test_a_turn_that_a_budget_ended_is_ended_by_it_again(budget: Budget) -> None:
    tools = Tools()
    async with Agent(
        ScriptedProvider([calls("weather", city="Rome"), says("never")]), tools=tools.all, budget=budget
    ) as agent:
        session = agent.session("s")
        turn = await session.run("go")
        assert turn.stop in ("rounds", "tokens", "seconds")
        await replayed_same(session)
        free = Agent(ScriptedProvider([]), tools=tools.all)
        first = (await replay(session, agent=free)).first
        assert first is not None
        assert (first.kind, first.what) == ("end", "the turn ended here, and goes on now")


@pytest.mark.parametrize("permissions", ["plan", "deny"])
async def test_calls_that_were_denied_are_denied_again(permissions: str) -> None:
    tools = Tools()
    script = [calls("weather", city="Rome").calling("book", room=1), says("no")]
    async with Agent(ScriptedProvider(script), tools=tools.all, permissions=permissions) as agent:
        session = agent.session("s")
        await session.run("go")
        await replayed_same(session)
        found = await replay(session, agent=Agent(ScriptedProvider([]), tools=tools.all))
        first = next(each for each in found.differences if each.kind == "call")
        assert "was not run, and is now" in first.what


async def test_a_session_can_be_replayed_when_it_was_forked_at_any_place() -> None:
    store, held = MemoryStorage(), Gate()
    held.open()
    tools = [StageTool("look", read_only=True), held_tool("save", held)]
    script = [
        calls("look").calling("save"),
        says("nothing"),
        says('{"result": [1]}'),
        says('{"result": [2]}'),
    ]
    async with Agent(ScriptedProvider(script), output=list[int], tools=tools, storage=store) as agent:
        session = agent.session("s")
        await session.run("one")
        await session.run("two")
        count = len((await recorded(session)).events)
        runs = held.arrivals
    provider = ScriptedProvider(lambda request: says('{"result": [3]}'))
    async with Agent(provider, output=list[int], tools=tools, storage=store) as agent:
        for at in range(1, count + 1):
            fork = await agent.session("s").fork(at)
            await replayed_same(fork)
            await fork.run("three")
            await replayed_same(fork)
    assert held.arrivals == runs


async def test_a_recording_that_ends_anywhere_is_replayed_as_far_as_it_goes() -> None:
    tools = Tools()
    script = [calls("weather", city="Rome").calling("book", room=3), calls("book", room=4), says("done")]
    async with Agent(ScriptedProvider(script), tools=tools.all) as agent:
        session = agent.session("s")
        await session.run("go")
        whole = (await recorded(session)).events
        ran = list(tools.ran)
        for end in range(1, len(whole) + 1):
            (await replay(taped(*(read.entry for read in whole[:end])), agent=agent)).check()
        assert tools.ran == ran


# --- runners that were lost ---------------------------------------------------------


async def crashed(agent: Agent, store: MemoryStorage, *entries: LedgerEntry) -> LocalSession:
    """A session whose runner was lost after these entries, and that another went on with."""
    await write(store, *opening(agent), *entries)
    session = agent.session("s")
    await within("the end", session.turn_result())
    return session


async def test_an_attempt_that_was_lost_with_its_runner_is_lost_again() -> None:
    store = MemoryStorage()
    async with Agent(ScriptedProvider([says("at last")]), storage=store) as agent:
        session = await crashed(agent, store)
        found = await replayed_same(session)
        assert (found.turns, found.rounds) == (1, 1)
        entries = [read.entry for read in (await recorded(session)).events]
        assert sum(isinstance(entry, ModelStarted) for entry in entries) == 2


@pytest.mark.parametrize("options", [{"idempotent": True}, {"on_unknown": "tell"}, {"read_only": True}])
async def test_a_call_that_was_lost_with_its_runner_is_recovered_as_it_was(options: dict) -> None:
    store, runs = MemoryStorage(), []

    @tool(**options)
    def send() -> str:
        """Send."""
        runs.append(1)
        return "sent"

    async with Agent(ScriptedProvider([says("ok")], verbatim=False), tools=[send], storage=store) as agent:
        call = ToolCall("c1", "send")
        intent = () if "read_only" in options else (ToolIntent("t1", "c1", "send", "key"),)
        session = await crashed(agent, store, answered(call), *intent)
        before = len(runs)
        assert (await replayed_same(session)).rounds == 2
        assert len(runs) == before


@pytest.mark.parametrize("found", ["it", "nothing", "no way to know"])
async def test_what_a_lookup_found_is_found_again(found: str) -> None:
    store, looked = MemoryStorage(), []

    async def look(key: str, arguments: str) -> ToolResult | None:
        looked.append(key)
        if found == "no way to know":
            raise RuntimeError("the service is away")
        return ToolResult("", "send", ("sent before",)) if found == "it" else None

    @tool(lookup=look)
    def send() -> str:
        """Send."""
        return "sent"

    async with Agent(ScriptedProvider([says("ok")], verbatim=False), tools=[send], storage=store) as agent:
        entries = (answered(ToolCall("c1", "send")), ToolIntent("t1", "c1", "send", "key"))
        if found == "no way to know":
            await write(store, *opening(agent), *entries)
            session = agent.session("s")
            with pytest.raises(TurnUnfinished):
                await session.turn_result()
            await session.answer(run_again=True)
            await session.turn_result()
        else:
            session = await crashed(agent, store, *entries)
        before = len(looked)
        assert (await replayed_same(session)).rounds == 2
        assert len(looked) == before > 0


async def test_an_unknown_outcome_that_a_person_told_is_told_again() -> None:
    store, tools = MemoryStorage(), Tools()
    async with Agent(ScriptedProvider([says("ok")], verbatim=False), tools=tools.all, storage=store) as agent:
        call = ToolCall("c1", "book", '{"room": 2}')
        await write(store, *opening(agent), answered(call), ToolIntent("t1", "c1", "book", "key"))
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.turn_result()
        await session.answer("it was booked")
        await session.turn_result()
        await replayed_same(session)
        assert tools.ran == []


async def test_one_of_two_calls_is_lost_with_its_runner() -> None:
    store, tools = MemoryStorage(), Tools()
    async with Agent(ScriptedProvider([says("ok")], verbatim=False), tools=tools.all, storage=store) as agent:
        both = [ToolCall(f"c{n}", "weather", f'{{"city": "{n}"}}', n) for n in (1, 2)]
        finished = ToolFinished("t1", ToolResult.of(both[0], "sun"))
        session = await crashed(agent, store, answered(*both), finished)
        await replayed_same(session)
        assert tools.ran == ["weather 2"]


async def test_a_turn_that_was_paused_and_resumed_goes_again() -> None:
    tools = Tools()
    async with Agent(ScriptedProvider([]), tools=tools.all) as agent:
        told = agent._definition.hash
        entries = (
            *opening(agent, agent_hash="old"),
            Claimed("b", 2),
            TurnPaused("t1", "old", "changed"),
            TurnResumed("t1", told, "resume"),
            Claimed("c", 3),
            ModelStarted("t1", "m1", (3, 1)),
            answered("hi"),
            TurnFinished("t1", "end_turn", 1),
        )
        found = await replay(taped(*entries), agent=agent)
        assert [each.kind for each in found.differences] == ["definition"]
        assert found.rounds == 1


# --- what is taken as it was recorded -----------------------------------------------


async def test_what_stands_around_the_loop_is_taken_as_recorded_and_said() -> None:
    tools = Tools()
    call = ToolCall("c1", "book", '{"room": 2}')
    async with Agent(ScriptedProvider([]), tools=tools.all) as agent:
        entries = (
            *opening(agent),
            answered(call),
            ApprovalRequested("t1", "a1", call, "hash"),
            ApprovalDecided("a1", "approved", "ada"),
            Claimed("b", 2),
            ToolIntent("t1", "c1", "book", "key"),
            ToolFinished("t1", ToolResult.of(call, "booked")),
            Guarded(turn_id="t1", guardrail="pii", position="tool_results", reason="mail", replaced=True),
            Compacted("t1", 9, 100, 10, head=(Message.user("in short"),), usage=Usage(input_tokens=1)),
            Unknown("from_tomorrow"),
            ModelStarted("t1", "m2", (2, 1)),
            answered("fine", message_id="m2"),
            TurnFinished("t1", "end_turn", 2),
        )
        found = await replay(taped(*entries), agent=agent)
        found.check()
        assert [(each.turn, each.seq) for each in found.skipped] == [
            (1, 7),
            (1, 11),
            (1, 12),
            (1, 13),
        ]
        with pytest.raises(AssertionError, match=r"not replayed whole: turn 1 .event 7.: the approval"):
            found.check(whole=True)
        assert tools.ran == []


@pytest.mark.parametrize("at", ["input", "output"])
async def test_a_turn_that_a_guardrail_stopped_is_not_said_to_differ(at: str) -> None:
    failed = TurnFailed("t1", Error("guardrail_tripped", "blocklist: a word"))
    guarded = Guarded(turn_id="t1", guardrail="b", position=at, reason="a word", message_id="u1")
    async with Agent(ScriptedProvider([])) as agent:
        begun = opening(agent)
        entries = (
            (*begun[:3], guarded, failed) if at == "input" else (*begun, answered("bad"), guarded, failed)
        )
        found = await replay(taped(*entries), agent=agent)
        found.check()
        assert {each.what for each in found.skipped} & {
            "the turn ended before the model was asked",
            "the turn was ended by 'guardrail_tripped'",
        }


async def test_a_turn_that_failed_with_a_call_open_is_not_said_to_differ() -> None:
    call = ToolCall("c1", "weather", '{"city": "Rome"}')
    async with Agent(ScriptedProvider([]), tools=Tools().all) as agent:
        closed = ToolFinished("t1", ToolResult.of(call, "no result", status="interrupted"))
        failed = TurnFailed("t1", Error("definition_changed", "changed"))
        found = await replay(taped(*opening(agent), answered(call), closed, failed), agent=agent)
        found.check()
        assert found.skipped[-1].what == "the turn failed while a call was open"


async def test_a_turn_that_failed_before_a_call_was_begun_is_not_said_to_differ() -> None:
    call = ToolCall("c1", "book", '{"room": 1}')
    async with Agent(ScriptedProvider([]), tools=Tools().all) as agent:
        closed = ToolFinished("t1", ToolResult.of(call, "not run", status="interrupted"))
        failed = TurnFailed("t1", Error("definition_changed", "changed"))
        found = await replay(taped(*opening(agent), answered(call), closed, failed), agent=agent)
        found.check()
        assert [each.what for each in found.skipped] == ["the turn was ended by 'definition_changed'"]


async def test_a_check_of_the_output_that_breaks_breaks_again() -> None:
    @dataclass
    class Checked:
        value: int

        def __post_init__(self) -> None:
            raise KeyError("a mistake in the check")

    async with Agent(ScriptedProvider([says('{"value": 1}')]), output=Checked) as agent:
        session = agent.session("s")
        with pytest.raises(GnomonError):
            await session.run("go")
        await replayed_same(session)


async def test_a_turn_that_failed_before_another_runner_did_anything_is_not_said_to_differ() -> None:
    call = ToolCall("c1", "permit")
    async with Agent(ScriptedProvider([]), tools=Tools().all) as agent:
        entries = (
            *opening(agent),
            answered(call),
            ToolIntent("t1", "c1", "permit", "key"),
            QuestionAsked("t1", "c1", "May I?"),
            QuestionAnswered("c1", (Text("yes"),)),
            Claimed("b", 2),
            ToolFinished("t1", ToolResult.of(call, "no result", status="interrupted")),
            TurnFailed("t1", Error("definition_changed", "changed")),
        )
        found = await replay(taped(*entries), agent=agent)
        found.check()
        assert [each.what for each in found.skipped] == ["the turn failed before it was gone on with"]


async def test_instructions_that_are_a_function_are_not_called_and_said_to_be_left_out() -> None:
    called = []

    def told() -> str:
        called.append(1)
        return "Be brief."

    async with Agent(ScriptedProvider([says("hi")]), instructions=told) as agent:
        session = agent.session("s")
        await session.run("go")
        found = await replayed_same(session)
        assert len(called) == 1
        assert [str(each) for each in found.skipped] == [
            "the session: the instructions are a function: what it said is not in the ledger"
        ]


async def test_a_ledger_whose_first_events_were_pruned_is_replayed_from_there() -> None:
    async with Agent(ScriptedProvider([says("one"), says("two")])) as agent:
        session = agent.session("s")
        await session.run("a")
        await session.run("b")
        events = (await recorded(session)).events
        second = [at for at, read in enumerate(events) if isinstance(read.entry, MessageReceived)][1]
        found = await replay(taped(*(read.entry for read in events[second:]), first=second + 1), agent=agent)
        found.check()
        assert (found.turns, found.rounds) == (1, 1)
        assert [each.what for each in found.skipped] == ["the first events are not there any more"]


async def test_the_agent_of_a_replay_learns_nothing_from_it() -> None:
    tools = Tools()
    async with Agent(ScriptedProvider([says("hi")]), tools=tools.all) as agent:
        session = agent.session("s")
        await session.run("go")
        again = Agent("demo", tools=tools.all)
        observed: list[object] = []
        again._definition.accounts.observe = lambda *given: observed.append(given)  # type: ignore[method-assign]
        await replay(session, agent=again)
        assert observed == []
        assert "_runtime" not in vars(again) or again._runtime is None


async def test_every_session_of_one_store_can_be_replayed_at_once() -> None:
    tools, store = Tools(), MemoryStorage()

    def script(request: object) -> object:
        return says("done") if request.messages[-1].role == "tool" else calls("weather", city="Rome")

    async with Agent(ScriptedProvider(script), tools=tools.all, storage=store) as agent:
        sessions = [agent.session(f"s{n}") for n in range(5)]
        await asyncio.gather(*(session.run("go") for session in sessions))
        recordings = [await read_store(store, session.id) for session in sessions]
        found = await asyncio.gather(*(replay(each, agent=agent) for each in recordings))
        assert [(each.rounds, each.first) for each in found] == [(2, None)] * 5
