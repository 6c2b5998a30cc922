"""Rules on what a call touches, as an agent keeps them: whatever a path is called, and part by part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from wired import asked_of

from gnomon import Agent, tool
from gnomon.contracts.tool import Touches
from gnomon.errors import ConfigError, TurnUnfinished
from gnomon.providers.scripted import Line
from gnomon.testing import ScriptedProvider, calls, says

RULES = ['allow shell(@command="git status *")', 'deny *(@paths="kept/**")']


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / "kept").mkdir(parents=True)
    (made / "kept" / "a.txt").write_text("as it was\n")
    (made / "link").symlink_to("kept")
    return made


def scripted(*called: object, told: str = "denied") -> ScriptedProvider:
    return ScriptedProvider([*called, says("Done.").expecting(result=told)])  # type: ignore[list-item]


@pytest.mark.parametrize("permissions", ["auto", "bypass"])
async def test_a_file_that_is_kept_from_an_agent_is_so_by_every_name(permissions: str, folder: Path) -> None:
    model = scripted(
        calls("read_file", path="link/a.txt"),
        calls("edit_file", path="link/../kept/a.txt", old="as", new="is").expecting(result="denied"),
        calls("shell", command="git status > kept/b").expecting(result="denied"),
    )
    tools = ["read_file", "edit_file", "shell"]
    async with Agent(model, tools=tools, workspace=folder, permissions=permissions, rules=RULES) as agent:
        await agent.run("Go.")
    assert [path.name for path in (folder / "kept").iterdir()] == ["a.txt"]
    assert (folder / "kept" / "a.txt").read_text() == "as it was\n"
    model.assert_finished()


async def test_a_link_that_an_earlier_call_has_turned_is_followed_anew(folder: Path) -> None:
    (folder / "other").symlink_to(".")
    turned, read = calls("shell", command="ln -sfn kept other"), calls("read_file", path="other/a.txt")
    model = scripted(Line(calls=(*turned.calls, *read.calls)))
    rules = ['allow shell(@command="ln *")', *RULES]
    async with Agent(model, tools=["read_file", "shell"], workspace=folder, rules=rules) as agent:
        turn = await agent.run("Go.")
    first, second = [result for message in turn.messages for result in message.tool_results]
    assert (first.status, second.status) == ("ok", "denied")
    model.assert_finished()


async def test_a_command_that_is_allowed_runs_and_one_with_another_part_waits(folder: Path) -> None:
    model = scripted(
        calls("shell", command="git status"), calls("shell", command="git status; touch made"), told="ok"
    )
    async with Agent(model, tools=["shell"], workspace=folder, permissions="ask", rules=RULES[:1]) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("Go.")
        (asked,) = await session.approvals()
        assert asked.reason.endswith(": no rule allows touch made")
        assert not (folder / "made").exists()
        await session.approve(asked.approval_id, arguments_hash=asked.arguments_hash)
        await session.turn_result()
    assert (folder / "made").exists()


async def test_code_may_do_what_a_rule_denies_so_that_somebody_is_asked(folder: Path) -> None:
    model = scripted(calls("python", code="open('kept/a.txt', 'w').write('')"))
    async with Agent(model, tools=["python"], workspace=folder, permissions="auto", rules=RULES) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("Go.")
        (asked,) = await session.approvals()
        assert "it cannot be told whether a rule that denies is about it" in asked.reason
        await session.deny(asked.approval_id)
        await session.turn_result()
    assert (folder / "kept" / "a.txt").read_text() == "as it was\n"


async def test_a_run_of_which_a_rule_that_denies_may_ask_goes_on_in_its_session(folder: Path) -> None:
    model = scripted(calls("python", code="6 * 7"), told="42")
    async with Agent(model, tools=["python"], workspace=folder, permissions="auto", rules=RULES) as agent:
        async with agent.stream("Go.") as run:
            async for _ in run:
                pass
        async with agent.session(run.session_id) as session:
            await session.approve()
            assert (await session.turn_result()).text == "Done."


@pytest.mark.parametrize("permissions", ["accept_edits", "auto", "bypass"])
@pytest.mark.parametrize(
    ("call", "told"),
    [
        (calls("read_file", path="/etc/hosts"), "path: '/etc/hosts' cannot be used: it leads out"),
        (calls("edit_file", path="a", odl="x", new="y"), "invalid arguments: "),
        (calls("shell", cmd="ls"), "invalid arguments: "),
        (calls("glob", pattern="../*"), "pattern: '../*' cannot be used: it has '..' in it"),
    ],
)
async def test_a_slip_of_the_pen_is_told_to_the_model_and_nobody_is_asked(
    call: Line, told: str, permissions: str, folder: Path
) -> None:
    model = scripted(call, told=told)
    tools = ["read_file", "edit_file", "shell", "glob"]
    async with Agent(model, tools=tools, workspace=folder, permissions=permissions, rules=RULES) as agent:
        turn = await agent.run("Go.")
    (result,) = [result for message in turn.messages for result in message.tool_results]
    assert (result.status, result.text[: len(told)]) == ("error", told)
    model.assert_finished()


async def test_a_host_that_is_denied_is_not_asked(folder: Path) -> None:
    model = scripted(calls("http_get", url="http://Docs.example.com:80/x"))
    rules = ['deny http_get(@host="*.example.com")']
    async with Agent(model, tools=["http_get"], workspace=folder, rules=rules) as agent:
        await agent.run("Go.")
    model.assert_finished()


# --- tools of one's own

ran: list[str] = []


def _shelf(arguments: Mapping[str, object]) -> Touches:
    return Touches(writes=(f"shelves/{arguments['name']}",))


@tool(touches=_shelf)
def put(name: str) -> str:
    """Put it there."""
    ran.append(name)
    return "put"


@tool
def drop(name: str) -> str:
    """Drop it."""
    ran.append(name)
    return "dropped"


async def test_a_tool_of_ones_own_is_judged_by_what_it_says_it_touches() -> None:
    ran.clear()
    model = scripted(calls("put", name="a"), calls("put", name="b").expecting(result="put"))
    async with Agent(model, tools=[put], rules=['deny put(@writes="shelves/b")']) as agent:
        await agent.run("Go.")
    assert ran == ["a"]
    model.assert_finished()


async def test_what_a_tool_does_not_say_is_asked_about_where_a_rule_may_be_about_it() -> None:
    ran.clear()
    model = ScriptedProvider([calls("drop", name="a")])
    async with Agent(
        model, tools=[put, drop], permissions="auto", rules=['deny *(@writes="shelves/b")']
    ) as agent:
        asked = await asked_of(agent.session(), "Go.")
        assert asked.reason.endswith("(drop does not say what it touches)")
    assert ran == []
    with pytest.raises(ConfigError, match="drop does not say what it touches"):
        Agent("demo", tools=[drop], rules=['deny drop(@writes="shelves/b")'])


class Odd:
    """A tool whose author was in a hurry."""

    name, description, read_only = "odd", "It is odd.", False
    parameters: dict[str, object] = {"type": "object"}

    def touches(self, arguments: str) -> Touches:
        raise RuntimeError("hunter2")

    async def execute(self, arguments: str, context: object) -> object:
        raise AssertionError("it ran")


async def test_a_tool_that_breaks_when_it_is_asked_what_it_touches_is_not_trusted() -> None:
    model = scripted(calls("odd"), told="it cannot be told")
    async with Agent(model, tools=[Odd()], rules=['deny odd(@writes="a")']) as agent:  # type: ignore[list-item]
        turn = await agent.run("Go.")
    assert "hunter2" not in repr(turn)
    model.assert_finished()
