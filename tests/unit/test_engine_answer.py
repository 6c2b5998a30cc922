"""The output an agent is to give: asked for natively or by a tool, and repaired a few times."""

from __future__ import annotations

import msgspec
import pytest

from gnomon import Agent, Budget, InvalidOutput, Message, ToolCall, TurnFinished, tool
from gnomon.engine.answer import OUTPUT_TOOL, Answer
from gnomon.engine.output import OutputType
from gnomon.errors import ConfigError, Overloaded
from gnomon.providers.scripted import Line, ScriptedProvider, calls


class Place(msgspec.Struct):
    """Where it is."""

    city: str
    floor: int


GOOD, BAD = '{"city": "Rome", "floor": 2}', '{"city": "Rome"}'
ROME = Place("Rome", 2)


def given(city: str = "Rome", **more: object) -> Line:
    return calls(OUTPUT_TOOL, city=city, **more)


def agent(*script: object, mode: str = "native", **more: object) -> Agent[Place]:
    return Agent(
        ScriptedProvider(script),  # type: ignore[arg-type]
        output=Place,
        output_mode=mode,  # type: ignore[arg-type]
        **more,  # type: ignore[arg-type]
    )


async def test_a_vendor_that_can_be_held_to_a_schema_is_given_it() -> None:
    made = agent(GOOD)
    assert (await made.run("where?")).output == ROME
    assert isinstance(made.provider, ScriptedProvider)
    (request,) = made.provider.requests
    assert request.output_schema is not None
    assert (request.tools, request.tool_choice) == ((), None)


async def test_another_gets_a_tool_whose_arguments_are_the_output() -> None:
    made = agent(given(floor=2), mode="tool")
    turn = await made.run("where?")
    assert (turn.output, turn.stop, turn.rounds) == (ROME, "tool_use", 1)
    assert isinstance(made.provider, ScriptedProvider)
    (request,) = made.provider.requests
    assert (request.output_schema, request.tool_choice) == (None, "required")
    (offered,) = request.tools
    assert offered.name == OUTPUT_TOOL
    assert "Where it is." in offered.description


@pytest.mark.parametrize(
    ("mode", "bad", "good"),
    [("native", BAD, GOOD), ("tool", given(), given(floor=2)), ("tool", "Rome!", given(floor=2))],
)
async def test_what_does_not_fit_is_told_and_asked_for_again(mode: str, bad: object, good: object) -> None:
    made = agent(bad, good, mode=mode)
    turn = await made.run("where?")
    assert (turn.output, turn.rounds) == (ROME, 2)
    assert isinstance(made.provider, ScriptedProvider)
    last = made.provider.requests[1].messages[-1]
    said = last.text or last.tool_results[0].text
    assert "not accepted" in said or "does not have the form" in said


@pytest.mark.parametrize(("mode", "bad"), [("native", BAD), ("tool", given()), ("tool", "Rome!")])
async def test_after_too_many_times_it_is_the_end(mode: str, bad: object) -> None:
    made = agent(bad, bad, bad, GOOD, mode=mode)
    with pytest.raises(InvalidOutput):
        await made.run("where?")
    assert isinstance(made.provider, ScriptedProvider)
    assert len(made.provider.requests) == 3
    async with agent(bad, bad, bad, mode=mode).stream("where?") as run:
        with pytest.raises(InvalidOutput):
            [event async for event in run]
    assert run.turn.stop == "failed"


async def test_a_turn_that_is_cut_short_has_no_output_and_is_not_asked_again() -> None:
    turn = await agent(Line(text=BAD, stop_reason="max_tokens"), GOOD).run("where?")
    assert (turn.stop, turn.rounds) == ("max_tokens", 1)
    with pytest.raises(InvalidOutput, match="without its output"):
        turn.output


async def test_the_output_that_a_failed_turn_does_not_have_comes_with_what_to_do_about_it() -> None:
    async with Agent("demo:flaky", output=int) as busy:
        session = busy.session()
        with pytest.raises(Overloaded):
            await session.run("where?")
        turn = await session.turn_result()
    with pytest.raises(InvalidOutput, match=r"without its output: demo: .* is busy \(ask again\)"):
        turn.output


async def test_a_limit_ends_the_repairs_too() -> None:
    turn = await agent(BAD, GOOD, budget=Budget(rounds=1)).run("where?")
    assert turn.stop == "rounds"


async def test_tools_run_before_the_output_is_given() -> None:
    @tool
    def look() -> str:
        return "seen"

    made = agent(calls("look"), given(floor=2).expecting(result="seen"), mode="tool", tools=[look])
    assert (await made.run("where?")).output == ROME


async def test_an_output_given_beside_another_call_waits_for_it() -> None:
    ran: list[str] = []

    @tool
    def note() -> None:
        ran.append("noted")

    both = given(floor=2).calling("note")
    turn = await agent(both, mode="tool", tools=[note]).run("where?")
    assert (turn.output, ran) == (ROME, ["noted"])


async def test_the_partial_output_of_either_kind_is_shown_as_it_comes() -> None:
    for made in (agent(GOOD), agent(given(floor=2), mode="tool")):
        async with made.stream("where?") as run:
            seen = [partial async for partial in run.partials()]
        assert seen[-1] == {"city": "Rome", "floor": 2}
        assert isinstance(run.turn.output, Place)


async def test_partials_begin_anew_with_each_message() -> None:
    async with agent('{"city": "Oslo"}', GOOD).stream("where?") as run:
        seen = [partial async for partial in run.partials()]
    assert {"city": "Oslo"} in seen
    assert seen[-1] == {"city": "Rome", "floor": 2}


def test_nothing_said_is_no_output() -> None:
    answer = Answer(OutputType(Place), "native")
    with pytest.raises(InvalidOutput, match="has said nothing"):
        answer.value([Message.user("where?")])


def test_the_last_message_counts_and_the_tools_arguments_before_its_text() -> None:
    answer = Answer(OutputType(Place), "tool")
    call = ToolCall("c", OUTPUT_TOOL, GOOD)
    assert answer.value([Message.assistant(BAD), Message.assistant("so:", call)]) == ROME
    assert answer.result(call).text == "accepted"
    assert answer.result(ToolCall("c", OUTPUT_TOOL, BAD)).status == "error"


def test_a_mode_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="output_mode is 'maybe'"):
        agent(mode="maybe")


async def test_the_end_says_what_the_model_said() -> None:
    async with agent(GOOD).stream("where?") as run:
        ended = [event async for event in run if isinstance(event, TurnFinished)]
    assert [event.stop for event in ended] == ["end_turn"]


@pytest.mark.parametrize("mode", ["native", "tool"])
async def test_nothing_is_an_output_where_the_type_allows_it(mode: str) -> None:
    line = calls(OUTPUT_TOOL, result=None) if mode == "tool" else '{"result": null}'
    made: Agent[object] = Agent(
        ScriptedProvider([line]),
        output=int | None,  # type: ignore[arg-type]
        output_mode=mode,  # type: ignore[arg-type]
    )
    turn = await made.run("?")
    assert turn.has_output
    assert turn.output is None


@tool(name=OUTPUT_TOOL)
def namesake(number: int) -> str:
    """A tool that happens to be called like the one that takes an output."""
    return f"got {number}"


async def test_a_tool_of_the_same_name_is_a_tool_like_any_other_where_there_is_no_such_tool() -> None:
    plain = Agent(ScriptedProvider([calls(OUTPUT_TOOL, number=1), "Done."]), tools=[namesake])
    assert (await plain.run("?")).text == "Done."
    native = agent(calls(OUTPUT_TOOL, number=1), GOOD, tools=[namesake])
    async with native.stream("?") as run:
        shown = [partial async for partial in run.partials()]
    assert run.turn.output == ROME
    assert {"number": 1} not in shown
