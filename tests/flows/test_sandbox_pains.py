"""Commands that nobody has read: a pain of other frameworks, with the design that avoids it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from commanded import LEVELS, agent_on
from escapes import IN_PYTHON, IN_SHELL, Target, in_python
from faced import PATIENCE_S, results_in

from gnomon import Agent, ToolResult, Workspace
from gnomon.sandboxes._launcher import kernel
from gnomon.testing import Line, ScriptedProvider, calls, says
from gnomon.tools.workspace import Recipe

# --- 35 ---------------------------------------------------------------------------


async def results_of(agent: Agent, provider: ScriptedProvider) -> list[ToolResult]:
    async with asyncio.timeout(3 * PATIENCE_S):
        turn = await agent.run("Go.")
    provider.assert_finished()
    return results_in(turn)


def every_way(target: Target, folder: Path) -> tuple[dict[str, Mapping[str, str]], Line]:
    """All ways around a list of words, by what they are, and a turn in which a model takes each."""
    (folder / "reach.py").write_text(target.program)
    ways: dict[str, Mapping[str, str]] = {}
    for what, code in IN_PYTHON.items():
        ways[f"python, {what}"] = {"code": in_python(code, target.program)}
    for what, command in IN_SHELL.items():
        ways[f"shell, {what}"] = {"command": command}
    line = Line()
    for what, arguments in ways.items():
        line = line.calling(what.partition(",")[0], **arguments)
    return ways, line


@pytest.mark.parametrize("rung", LEVELS)
async def test_pain_35_a_blocklist_is_not_a_sandbox_so_each_way_around_one_runs_and_reaches_nothing(
    rung: str, tmp_path: Path
) -> None:
    """No word is forbidden; what the code gets to is what the system below lets it get to."""
    with Target() as target:
        ways, line = every_way(target, tmp_path)
        provider = ScriptedProvider([line, says("Hm.")])
        async with agent_on(rung, tmp_path, provider) as agent:
            results = await results_of(agent, provider)
        target.expect_untouched("after all of them")
    told = dict(zip(ways, results, strict=True))
    assert {what: reached(result) for what, result in told.items() if reached(result) != "0 []"} == {}
    assert {result.meta["level"] for result in results} == {LEVELS[rung]}


def reached(result: ToolResult) -> str:
    """What the program says that it got to; all that there is where it did not run."""
    found = re.search(r"reached (\d+ \[.*\])", result.text)
    return found[1] if found else result.text


async def test_pain_35_a_blocklist_is_not_a_sandbox_and_none_says_that_it_is_none(tmp_path: Path) -> None:
    """The same where nothing holds: what is tried above is there to be had."""
    with Target() as target:
        (tmp_path / "reach.py").write_text(target.program)
        provider = ScriptedProvider([calls("shell", command="python3 reach.py"), says("Oh.")])
        async with agent_on("nothing", tmp_path, provider, require="none") as agent:
            (result,) = await results_of(agent, provider)
        assert result.meta["level"] == "none"
        for what in (f"read {target.folder.file}", "connected to", "/cmdline"):
            assert what in reached(result)
        with pytest.raises(AssertionError, match="a folder of the host"):
            target.expect_untouched("after it")


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One without bubblewrap, and with a kernel without Landlock."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(kernel, "landlock_abi", lambda: 0)


@pytest.mark.usefixtures("bare_machine")
@pytest.mark.parametrize(
    "call", [calls("shell", command="echo > ran"), calls("python", code="open('ran', 'w')")]
)
async def test_pain_35_a_blocklist_is_not_a_sandbox_and_where_there_is_none_nothing_runs(
    call: Line, tmp_path: Path
) -> None:
    """Unless it is asked for: nobody falls back to running it all the same."""
    provider = ScriptedProvider([call, says("A pity.")])
    async with Agent(provider, tools=["python", "shell"], workspace=tmp_path) as agent:
        (result,) = await results_of(agent, provider)
    assert result.status == "error"
    assert "not run, since there is no sandbox to run it in" in result.text
    assert "level 'none', and 'process' is asked for" in result.text
    assert "install bubblewrap" in result.text
    assert os.listdir(tmp_path) == []
    provider = ScriptedProvider([call, says("As you wish.")])
    async with agent_on("all that there is", tmp_path, provider, require="none") as agent:
        (result,) = await results_of(agent, provider)
    assert (result.status, result.meta["level"]) == ("ok", "none")
    assert os.listdir(tmp_path) == ["ran"]


@pytest.mark.parametrize(("without", "required"), [(("bubblewrap",), "namespaces"), ((), "container")])
async def test_pain_35_a_blocklist_is_not_a_sandbox_and_below_what_is_asked_for_nothing_runs(
    without: Sequence[Any], required: Any, tmp_path: Path
) -> None:
    """Whatever else holds: what is asked for is asked for."""
    recipe = Recipe("process", {"without": without, "require": required})
    workspace = Workspace(tmp_path, sandbox=recipe)  # type: ignore[arg-type]
    provider = ScriptedProvider([calls("shell", command="echo > ran"), says("A pity.")])
    async with workspace, Agent(provider, tools=["shell"], workspace=workspace) as agent:
        (result,) = await results_of(agent, provider)
    assert result.status == "error"
    assert f"{required!r} is asked for" in result.text
    assert os.listdir(tmp_path) == []
