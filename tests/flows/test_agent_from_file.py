"""Agents from files, through the front door."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon import Agent
from gnomon.errors import ConfigError

FILE = """
[agents.first]
model = "demo"
instructions = "Be brief."
tools = ["calculate"]

[agents.second]
model = "demo"
output_schema = { type = "object" }
"""


async def test_an_agent_from_a_file_answers_with_the_tools_that_the_file_names(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text(FILE)
    async with Agent.from_file(path, "first") as agent:
        assert agent.name == "first"
        assert "84" in (await agent.run("what is 12*(3+4)?")).text


def test_what_a_file_asks_for_and_cannot_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text(FILE)
    with pytest.raises(ConfigError, match="'second' has an output_schema"):
        Agent.from_file(path, "second")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('model = "dmo"', "no provider called 'dmo' (did you mean 'demo'?)"),
        ('model = "demo"\ntools = ["calculat"]', "no tool called 'calculat' (did you mean 'calculate'?)"),
        ('model = "demo"\nstorage = "sqlte:///x.db"', "no storage called 'sqlte' (did you mean 'sqlite'?)"),
        ('model = "demo"\nsettings.delay = 3', "takes no setting 'delay'"),
    ],
)
def test_a_name_in_a_file_that_nothing_has_is_refused_with_the_file(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'name = "orders"\n{line}\n')
    with pytest.raises(ConfigError) as caught:
        Agent.from_file(path)
    assert str(caught.value).startswith(f"agent 'orders' of {path}: ")
    assert said in str(caught.value)
