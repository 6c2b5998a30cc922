"""What is otherwise now is named: the definition, calls and results, how turns end, the ledger itself."""

from __future__ import annotations

from typing import Literal

import pytest
from replay_stage import Tools, changed, edited, opening, recorded, taped, without
from session_stage import answered

from gnomon import Agent, Budget, ToolContext, tool
from gnomon.errors import Damaged, InvalidInput, TurnUnfinished
from gnomon.providers.scripted import ScriptedProvider, calls, hallucinates, says
from gnomon.replay import Difference, Recording, Replay, replay
from gnomon.replay._matching import Mismatch, mismatch
from gnomon.replay._tape import Tape
from gnomon.replay._tools import recorded_tools
from gnomon.replay.report import short
from gnomon.types.events import (
    Claimed,
    Compacted,
    Error,
    Event,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Image, Message, ToolCall, ToolResult
from gnomon.types.requests import Reasoning

SCRIPT = [calls("weather", city="Rome").calling("book", room=3), says("Booked."), says("Bye.")]


async def taken(agent: Agent) -> Recording:
    """Two turns of it."""
    session = agent.session("s")
    await session.run("go")
    await session.run("more")
    return await recorded(session)


def agent_of(*tools: object, **options: object) -> Agent:
    return Agent(ScriptedProvider(SCRIPT), tools=list(tools), **{"instructions": "Be brief.", **options})


def only(found: Replay, *kinds: str) -> list[Difference]:
    return [each for each in found.differences if each.kind in kinds]


# --- the definition -----------------------------------------------------------------


@tool(read_only=True)
def weather(city: str, days: int) -> str:
    """The weather of a city, for some days."""
    raise AssertionError("it is not to be run")


CHANGES = [
    ({"instructions": "Be long.\nAnd kind."}, "instructions", "-Be brief. +Be long. +And kind."),
    ({"instructions": None}, "instructions", "-Be brief."),
    ({"temperature": 0.5}, "parameters", "temperature changed"),
    ({"max_tokens": 9}, "parameters", "max_tokens changed"),
    ({"thinking": Reasoning(effort="low")}, "parameters", "thinking changed"),
    ({"output": list[str]}, "parameters", "output_schema changed"),
    ({"permissions": "plan"}, "permissions", "permissions changed"),
    ({"name": "other"}, "agent", "the agent has another name"),
]


@pytest.mark.parametrize(("options", "kind", "what"), CHANGES, ids=lambda it: str(it)[:30])
async def test_a_change_of_the_agent_is_named(options: dict, kind: str, what: str) -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        ran = list(tools.ran)
        found = await replay(recording, agent=agent_of(*tools.all, **options), before=agent)
        assert found.first is not None
        assert found.first.kind == kind
        assert what in found.first.what
        assert (found.first.turn, found.first.round, found.first.seq) == (1, 1, 3)
        assert len(only(found, kind)) == 1  # though there are two turns
        assert tools.ran == ran


async def test_without_the_agent_of_that_time_it_is_said_that_there_is_a_change() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        for before in (None, agent_of(*tools.all, temperature=1.0)):  # one that was not the agent then
            found = await replay(recording, agent=agent_of(*tools.all, temperature=0.5), before=before)
            assert [each.kind for each in found.differences] == ["definition"]
            assert "instructions, tools, output, parameters or permissions" in found.differences[0].what


async def test_another_model_is_the_only_difference_where_it_is() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        other = Agent("openai:gpt-5", tools=tools.all, instructions="Be brief.")
        found = await replay(recording, agent=other)
        assert [(each.kind, each.expected, each.found) for each in found.differences] == [
            ("model", "scripted:scripted", "openai:gpt-5")
        ]


async def test_a_turn_of_an_older_version_that_has_no_hash_is_not_compared_by_it() -> None:
    async with agent_of() as agent:
        entries = (*opening(agent, agent_hash=""), answered("hi"), TurnFinished("t1", "end_turn", 1))
        (await replay(taped(*entries), agent=agent_of(temperature=0.5))).check()


async def test_a_tool_that_is_gone_is_named_with_and_without_the_agent_of_that_time() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        for before in (agent, None):
            found = await replay(recording, agent=agent_of(tools.book, tools.permit), before=before)
            assert found.first is not None
            assert (found.first.kind, found.first.what) == ("tools", "tool 'weather' is not offered any more")
            (result,) = only(found, "result")
            assert result.what == "tool 'weather' is not offered any more"
            assert result.expected == "ok: rain in Rome"


async def test_a_tool_with_effects_that_is_gone_is_named() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        found = await replay(recording, agent=agent_of(tools.weather, tools.permit))
        (call,) = only(found, "call")
        assert call.what == "tool 'book' is not offered any more"


async def test_tools_that_are_new_changed_or_in_another_order_are_named() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        new = agent_of(tools.weather, tools.book)
        found = await replay(recording, agent=agent, before=new)  # it was not that one then
        found.check()
        async with new:
            found = await replay(await taken(new), agent=agent, before=new)
        assert [each.what for each in found.differences] == ["tool 'permit' is new"]
        found = await replay(recording, agent=agent_of(*tools.all[::-1]), before=agent)
        assert [each.what for each in found.differences] == ["the tools stand in another order"]
        found = await replay(recording, agent=agent_of(weather, *tools.all[1:]), before=agent)
        assert found.first is not None
        assert found.first.what == "tool 'weather' is described otherwise"
        assert "for some days" in found.first.found
        assert "read_only" not in found.first.found


async def test_a_recorded_call_that_does_not_fit_the_tool_any_more_is_named() -> None:
    tools = Tools()

    @tool(read_only=True, name="weather")
    def renamed(town: str = "") -> str:
        """The weather of a town."""
        raise AssertionError("it is not to be run")

    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        for made, what in ((weather, "'days' is missing"), (renamed, "'city' is not known")):
            found = await replay(recording, agent=agent_of(made, *tools.all[1:]))
            (call,) = only(found, "call")
            assert call.what == f"the call does not fit the tool 'weather' any more: {what}"


@pytest.mark.parametrize("now", ["reads", "acts"])
async def test_a_tool_that_has_effects_now_or_has_none_any_more_is_named(now: str) -> None:
    tools = Tools()

    @tool(read_only=now == "reads")
    def book(room: int) -> str:
        """Book a room."""
        return "booked"

    @tool(read_only=now != "reads")
    def booked(room: int) -> str:
        """Book a room."""
        return "booked"

    booked.name = "book"
    async with agent_of(tools.weather, booked) as agent:
        found = await replay(await taken(agent), agent=agent_of(tools.weather, book))
        (call,) = only(found, "call")
        wanted = (
            "had side effects, and only reads now"
            if now == "reads"
            else "only read, and has side effects now"
        )
        assert call.what == f"the call of 'book' {wanted}"


async def test_calls_that_are_denied_now_are_named() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        denied: list[str] = []
        modes: tuple[Literal["plan", "deny"], ...] = ("plan", "deny")
        for permissions in modes:
            found = await replay(recording, agent=agent_of(*tools.all, permissions=permissions))
            denied += [each.what for each in only(found, "call", "result")]
        assert denied == ["the call of 'book' is denied now", "the call of 'weather' is denied now"]


async def test_a_result_that_is_cut_elsewhere_now_is_named() -> None:
    @tool(read_only=True, max_output_chars=50)
    def pages() -> str:
        """Pages."""
        return "abcdefghij" * 20

    @tool(read_only=True, name="pages")
    def whole() -> str:
        """Pages."""
        raise AssertionError("it is not to be run")

    script = [calls("pages"), says("ok")]
    async with Agent(ScriptedProvider(script), tools=[pages]) as agent:
        session = agent.session("s")
        await session.run("go")
        found = await replay(session, agent=Agent(ScriptedProvider([]), tools=[whole]))
        assert found.first is not None
        assert found.first.what == "the result of 'pages' is shown otherwise"
        assert found.first.found.startswith("ok: abcdefghij")
        assert len(found.first.found) <= 410


async def test_an_output_that_does_not_fit_any_more_is_named() -> None:
    async with Agent(ScriptedProvider([says('{"result": [1]}'), says("bye")]), output=list[int]) as agent:
        session = agent.session("s")
        await session.run("go")
        recording = await recorded(session)
        other = Agent(ScriptedProvider([]), output=list[str])
        found = await replay(recording, agent=other)
        (end,) = only(found, "end")
        assert end.what == "the turn ended here, and goes on now"
        assert "does not have the form" in end.found
        free = Agent(ScriptedProvider([]))
        (await replay(recording, agent=free, before=agent)).first
        assert only(await replay(recording, agent=free, before=agent), "parameters")


async def test_a_budget_that_ends_a_turn_earlier_is_named_at_its_place() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        found = await replay(await taken(agent), agent=agent_of(*tools.all, budget=Budget(rounds=1)))
        (end,) = found.differences
        assert (end.kind, end.turn, end.round) == ("end", 1, 1)
        assert end.what == "the turn ends here, and went on"
        assert end.found == "the turn ends with 'rounds' after 1 round"
        assert (found.turns, found.rounds) == (2, 2)  # the second turn is replayed all the same


# --- a ledger that somebody has changed ---------------------------------------------


def stops_with(stop: str, rounds: int) -> object:
    def change(entry: Event) -> Event:
        return changed(entry, stop=stop, rounds=rounds) if isinstance(entry, TurnFinished) else entry

    return change


async def test_another_end_than_the_loop_comes_to_is_named() -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        for stop, rounds in (("max_tokens", 2), ("end_turn", 5)):
            found = await replay(edited(recording, stops_with(stop, rounds)), agent=agent)
            assert found.first is not None
            assert (found.first.kind, found.first.what) == ("end", "the turn ends otherwise")


@pytest.mark.parametrize(
    ("kind", "nth", "what"),
    [
        (ToolFinished, 0, "the call of 'weather' has no result in the recording"),
        (ToolFinished, 1, "the call of 'book' has no result in the recording"),
        (MessageCompleted, 0, "the model has no answer in the recording"),
        (MessageCompleted, 1, "the model has no answer in the recording"),
        (ToolIntent, 0, "the call of 'book' only read, and has side effects now"),
        (ModelStarted, 1, "something else is done here"),
        (TurnFinished, 0, "the turn ends here, and went on"),
    ],
)
async def test_an_entry_that_was_taken_out_is_missed(kind: type, nth: int, what: str) -> None:
    tools = Tools()
    async with agent_of(*tools.all) as agent:
        recording = await taken(agent)
        ran = list(tools.ran)
        found = await replay(without(recording, kind, nth), agent=agent)
        assert found.first is not None
        assert found.first.what == what
        assert tools.ran == ran


async def test_a_call_that_was_renamed_is_seen() -> None:
    def rename(entry: Event) -> Event:
        if not isinstance(entry, MessageCompleted) or not entry.message.tool_calls:
            return entry
        content = [
            changed(part, name="wether") if part.name == "weather" else part for part in entry.message.content
        ]
        message = changed(entry.message, content=tuple(content))
        return changed(entry, response=changed(entry.response, message=message))

    tools = Tools()
    async with agent_of(*tools.all) as agent:
        found = await replay(edited(await taken(agent), rename), agent=agent)
        assert found.first is not None
        assert found.first.what == "tool 'wether' is not offered any more"


async def test_blocks_that_cannot_have_come_in_that_order_are_seen() -> None:
    both = (ToolCall("c1", "book", "{}", 4), ToolCall("c2", "book", "{}", 2))
    async with Agent(ScriptedProvider([])) as agent:
        found = await replay(taped(*opening(agent), answered(*both)), agent=agent)
        assert found.first is not None
        assert found.first.what == "the turn ends here, and went on"
        assert "block 4 of a recorded message stands behind block 2" in found.first.found


def test_a_ledger_with_a_gap_is_damaged() -> None:
    whole = taped(TurnStarted("t", "a", "m"), TurnFinished("t", "end_turn", 0), Claimed("x", 1))
    with pytest.raises(Damaged, match="event 3 stands after event 1"):
        Recording("s", (whole.events[0], whole.events[2]))


async def test_a_turn_that_answers_another_message_is_named() -> None:
    async with Agent(ScriptedProvider([])) as agent:
        begun = opening(agent, inputs=("u2",))
        second = MessageReceived("u2", Message.user("second"))
        entries = (begun[0], second, *begun[1:], answered("hi"), TurnFinished("t1", "end_turn", 1))
        found = await replay(taped(*entries), agent=agent)
        assert found.first is not None
        assert (found.first.expected, found.first.found) == ("u2", "u1")


async def test_a_question_that_nobody_is_asked_any_more_is_named() -> None:
    tools = Tools()
    async with Agent(ScriptedProvider([calls("permit"), says("ok")]), tools=tools.all) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("go")
        await session.answer("yes")
        await session.turn_result()
        found = await replay(session, agent=Agent(ScriptedProvider([]), tools=tools.all, permissions="deny"))
        assert [each.what for each in only(found, "call")] == ["the call of 'permit' is denied now"]

        def reworded(entry: Event) -> Event:
            return changed(entry, unknown=True) if isinstance(entry, QuestionAsked) else entry

        found = await replay(edited(await recorded(session), reworded), agent=agent)
        assert found.first is not None
        assert found.first.what == "a person is asked something else"


async def test_a_question_without_its_answer_is_missed() -> None:
    tools = Tools()
    async with Agent(ScriptedProvider([calls("permit"), says("ok")]), tools=tools.all) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("go")
        await session.answer("yes")
        await session.turn_result()
        found = await replay(without(await recorded(session), QuestionAnswered), agent=agent)
        assert found.first is not None
        assert found.first.what == "the turn waits here, and went on"
        assert found.first.expected == "the result of 'permit' is ok: yes"


async def test_a_tool_that_was_not_there_and_is_now_is_named() -> None:
    tools = Tools()
    script = [hallucinates("weather", city="Rome"), says("no")]
    async with Agent(ScriptedProvider(script)) as agent:
        session = agent.session("s")
        await session.run("go")
        found = await replay(session, agent=Agent(ScriptedProvider([]), tools=[tools.weather]))
        (call,) = only(found, "call")
        assert call.what == "the call of 'weather' was not run, and is now"
        assert call.expected.startswith("there is no tool called 'weather'")
        assert tools.ran == []


@pytest.mark.parametrize("asked", ['{"city": "Oslo"}', "not JSON", "[1]"])
async def test_a_call_with_other_arguments_than_the_recorded_is_named(asked: str) -> None:
    async with Agent(ScriptedProvider([]), tools=Tools().all) as agent:
        call = ToolCall("c1", "weather", '{"city": "Rome"}')
        finished = ToolFinished("t1", ToolResult.of(call, "rain"))
        told: list[Mismatch] = []
        tape = Tape(taped(*opening(agent), answered(call), finished), lambda found, seq: told.append(found))
        tape.take_to(5)
        weather_again = recorded_tools(agent._definition.tools, tape).get("weather")
        assert weather_again is not None
        await weather_again.execute('{ "city" : "Rome" }', ToolContext(call_id="c1"))
        assert told == []
        await weather_again.execute(asked, ToolContext(call_id="c1"))
        assert told == [Mismatch("call", "'weather' is called with other arguments", call.arguments, asked)]


async def test_instructions_that_became_a_function_are_named() -> None:
    def told() -> str:
        raise AssertionError("it is not to be called")

    async with agent_of(*Tools().all) as agent:
        found = await replay(
            await taken(agent), agent=agent_of(*Tools().all, instructions=told), before=agent
        )
        assert found.first is not None
        assert "+a function: " in found.first.what


async def test_a_request_that_is_not_the_recorded_view_is_named() -> None:
    async with agent_of() as agent:
        session = agent.session("s")
        agent._definition.provider = ScriptedProvider([says("hi")])
        await session.run("go")
        request = agent._definition.request
        agent._definition.request = lambda messages, *rest: request((*messages, Message.user("psst")), *rest)
        found = await replay(session, before=agent_of())
        (first,) = [each for each in found.differences if each.kind == "messages"]
        assert first.what == "the message sent differs at index 1"
        assert (first.expected, first.found) == ("", "psst")


# --- the words ----------------------------------------------------------------------

CALL = ToolCall("c1", "book")
PAIRS = [
    (
        ModelStarted("t", "m", (1, 1), ("a",)),
        ModelStarted("t", "m", (1, 1)),
        "the model is told other messages",
    ),
    (
        MessageReceived("fix_1", Message.user("a")),
        MessageReceived("fix_2", Message.user("b")),
        "the model is told otherwise that its output does not fit",
    ),
    (answered("a"), answered("b"), "the recorded answer does not come out of the stream as it was"),
    (ToolIntent("t", "c1", "a", "k"), ToolIntent("t", "c2", "a", "k"), "another call is run next"),
    (
        ToolFinished("t", ToolResult.of(CALL, "a")),
        ToolFinished("t", ToolResult("c9", "book", ("a",))),
        "the calls end in another order",
    ),
    (
        ToolFinished("t", ToolResult.of(CALL, Image(url="data:x"))),
        ToolFinished("t", ToolResult.of(CALL, "a")),
        "the result of 'book' is shown otherwise",
    ),
    (QuestionAsked("t", "c1", "a?"), QuestionAsked("t", "c1", "b?"), "a person is asked something else"),
    (
        TurnFailed("t", Error("overloaded", "x")),
        TurnFailed("t", Error("refused", "x")),
        "the turn fails with another error",
    ),
    (
        ToolIntent("t", "c1", "book", "k"),
        QuestionAsked("t", "c1", "?"),
        "a person was asked about the call of 'book', and is not now",
    ),
    (
        QuestionAsked("t", "c1", "?"),
        ToolIntent("t", "c1", "book", "k"),
        "a person is asked about the call of 'book' now",
    ),
    (TurnCancelled("t"), ModelStarted("t", "m", (1, 1)), "the turn ends here, and went on"),
    (TurnStarted("t", "a", "m"), answered("b"), "something else is done here"),
    (
        MessageReceived("fix_1", Message.user("a")),
        ModelStarted("t", "m", (1, 1)),
        "the output does not fit any more, and the model is told so",
    ),
    (
        ModelStarted("t", "m", (1, 1)),
        MessageReceived("fix_1", Message.user("a")),
        "the output did not fit, and does now",
    ),
    (
        ToolIntent("t", "c1", "book", "k"),
        ToolFinished("t", ToolResult.of(CALL, "no", status="denied")),
        "the call of 'book' was not run, and is now",
    ),
    (Compacted("t", 1, 2, 3), ModelStarted("t", "m", (1, 1)), "something else is done here"),
]


@pytest.mark.parametrize(("found", "expected", "what"), PAIRS, ids=lambda it: str(it)[:40])
def test_each_kind_of_difference_has_its_words(found: Event, expected: Event, what: str) -> None:
    wrong = mismatch(found, expected, "book")
    assert wrong is not None
    assert wrong.what == what
    assert wrong.expected != wrong.found
    assert mismatch(expected, expected, "book") is None


def test_what_has_no_meaning_for_the_turn_is_no_difference() -> None:
    assert mismatch(TurnCancelled("a", "x"), TurnCancelled("b", "y"), "") is None
    assert (
        mismatch(ModelStarted("a", "m", (1, 1), ("fix_1",)), ModelStarted("b", "n", (2, 3), ("fix_2",)), "")
        is None
    )
    was = TurnFinished("a", "end_turn", 1, cost=0.5)
    assert mismatch(changed(was, turn_id="b", cost=None), was, "") is None


def test_a_difference_is_bounded_and_says_where_it_is() -> None:
    assert short("ab" * 1_000, 100).startswith("abab")
    assert len(short("ab" * 1_000, 100)) <= 103
    found = Difference(turn=2, turn_id="t", round=3, seq=9, kind="end", what="it ends", found="so")
    assert str(found) == "turn 2, round 3 (event 9): it ends\n  recorded: (nothing)\n  now:      so"
    bare = Difference(turn=2, turn_id="t", round=3, seq=9, kind="end", what="it ends")
    assert str(bare) == "turn 2, round 3 (event 9): it ends"
    with pytest.raises(
        AssertionError, match=r"session s goes otherwise now: turn 2, round 3 \(event 9\): it ends"
    ):
        Replay(session_id="s", turns=2, rounds=1, differences=(bare,)).check()
    Replay(session_id="s", turns=2, rounds=1).check(whole=True)


async def test_a_recording_needs_an_agent() -> None:
    with pytest.raises(InvalidInput, match="agent="):
        await replay(taped(TurnStarted("t", "a", "m")))
