"""Tasks that are handed to other agents: who is asked, what they may use, and what comes back."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gnomon import Agent
from gnomon.contracts.tool import ToolContext
from gnomon.engine.budget import Budget
from gnomon.engine.subagents import Subagents, child_id, members, outcome, share_of
from gnomon.engine.turn import TurnState
from gnomon.errors import ConfigError, InvalidArguments, ToolFailed
from gnomon.providers.scripted import ScriptedProvider
from gnomon.types.events import Error, SubagentFinished, TurnStarted
from gnomon.types.messages import ToolCall
from gnomon.types.requests import Usage

CALL = ToolCall("call_1", "spawn", '{"agent":"ann","task":"look"}')


def agent(name: str, **settings: object) -> Agent[str]:
    return Agent(ScriptedProvider(["hello"]), name=name, **settings)  # type: ignore[arg-type]


def crew(*names: str) -> Subagents:
    return Subagents([agent(name).definition for name in names], "spawn", "Hands out work.")


def turn(tokens: int = 0, cost: str = "0") -> TurnState:
    made = TurnState(TurnStarted("turn_1", "boss", "m"))
    made.count((Usage(input_tokens=tokens, output_tokens=0),), Decimal(cost))
    return made


def test_one_agent_needs_no_name_and_several_do() -> None:
    assert list(crew("ann").parameters["properties"]) == ["task"]  # type: ignore[call-overload]
    both = crew("ann", "bob")
    assert both.parameters["required"] == ["agent", "task"]
    assert both.parameters["properties"]["agent"]["enum"] == ["ann", "bob"]  # type: ignore[index]
    assert both.task('{"agent":"bob","task":"dig"}').agent.name == "bob"
    alone = crew("ann")
    assert alone.task('{"task":"dig"}') == (alone.agents["ann"], "dig")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('{"agent":"eve","task":"dig"}', "there is no agent 'eve'; there are ann, bob"),
        ('{"agent":"ann","task":"  "}', "the task is empty"),
        ('{"agent":"ann"}', "missing required field `task`"),
        ('{"agent":"ann","task":3}', "Expected `str`"),
        ("[1]", "spawn"),
        ("{", "spawn"),
        ("", "missing required field"),
    ],
)
def test_a_task_that_cannot_be_read_is_told_to_the_model(arguments: str, told: str) -> None:
    with pytest.raises(InvalidArguments, match="spawn") as raised:
        crew("ann", "bob").task(arguments)
    assert told in str(raised.value)


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="the same name"):
        crew("ann", "ann")


async def test_the_tool_does_nothing_by_itself() -> None:
    with pytest.raises(ToolFailed, match="only a run of an agent"):
        await crew("ann").execute("{}", ToolContext(call_id="", session_id="", turn_id=""))


def test_members_are_those_behind_the_tools() -> None:
    ann, bob = agent("ann"), agent("bob")
    boss = agent("boss", tools=[ann.as_tool()], subagents=[bob])
    assert [member.name for member in members(boss.definition)] == ["ann", "bob"]
    assert list(members(ann.definition)) == []


def test_the_id_of_a_session_follows_from_the_call() -> None:
    assert child_id("key") == child_id("key") != child_id("other")
    assert child_id("key").startswith("sub_")


def test_a_share_is_a_part_of_what_is_left_and_no_more_than_the_agents_own() -> None:
    above = Budget(tokens=1_000, cost=1.0)
    share = share_of(above, Budget(rounds=3), turn(tokens=400, cost="0.4"), 3)
    assert (share.rounds, share.tokens, share.cost) == (3, 200, pytest.approx(0.2))
    assert share_of(above, Budget(tokens=50), turn(), 2).tokens == 50
    assert share_of(Budget(), Budget(), turn(), 2) == Budget()


def test_each_may_have_all_the_time_that_is_left_and_no_more_than_the_agents_own() -> None:
    above = Budget(seconds=60)
    assert share_of(above, Budget(), turn(), 3, 20.0).seconds == 20
    assert share_of(above, Budget(seconds=5), turn(), 3, 20.0).seconds == 5
    assert share_of(above, Budget(), turn(), 3).seconds == 60, "the one above does not run"
    assert 0 < (share_of(above, Budget(seconds=5), turn(), 3, -1.0).seconds or 0) < 0.01


def test_a_share_of_nothing_is_not_without_limit() -> None:
    share = share_of(Budget(tokens=10, cost=0.1), Budget(), turn(tokens=99, cost="5"), 4)
    assert share.tokens == 1
    assert share.cost is not None
    assert 0 < share.cost < 1e-6


@pytest.mark.parametrize(
    ("finished", "text", "status"),
    [
        (SubagentFinished("t", "s", "finished", output="done"), "done", "ok"),
        (SubagentFinished("t", "s", "finished"), "(it ended without a word)", "ok"),
        (SubagentFinished("t", "s", "budget", output="half"), "so far: half", "ok"),
        (SubagentFinished("t", "s", "cancelled", output="half"), "cancelled; so far: half", "cancelled"),
        (SubagentFinished("t", "s", "failed", error=Error("x", "no key")), "it failed: no key", "error"),
        (SubagentFinished("t", "s", "failed"), "it failed", "error"),
    ],
)
def test_what_a_sub_agent_came_to_is_told_as_the_result(
    finished: SubagentFinished, text: str, status: str
) -> None:
    result = outcome(CALL, finished)
    assert text in result.text
    assert (result.status, result.call_id) == (status, "call_1")
