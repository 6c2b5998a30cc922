"""Agents from files, through the front door."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon import Agent
from gnomon.agent_files import read_agent
from gnomon.errors import ConfigError, GuardrailTripped, NotTrusted, TurnUnfinished

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


# --- what stands around an agent -------------------------------------------------

AROUND = """
[defaults]
model = "demo"

[agents.boss]
tools = ["save_note", "calculate"]
permissions = "ask"
rules = ["allow spawn", 'deny save_note(text="secret")']
approval_timeout_s = 60
guardrails = ["pii", { name = "blocklist", terms = ["${TIDE_TERM:-forbidden}"] }]
hooks = ["logging", { name = "cost", session = 2.5 }]
compactor = "truncate"
context_tokens = 4000
memory = true
subagents = ["clerk"]

[agents.clerk]
tools = ["calculate"]
compactor = { name = "truncate", keep = 0.5 }
"""


def around(tmp_path: Path) -> Path:
    path = tmp_path / "agents.toml"
    path.write_text(AROUND)
    return path


async def test_an_agent_of_a_file_asks_for_leave_and_hands_work_to_another_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TIDE_TERM", raising=False)
    async with Agent.from_file(around(tmp_path), "boss") as boss:
        turn = await boss.run("let a helper work out 12*(3+4)")
        assert "84" in turn.text
        with pytest.raises(TurnUnfinished, match="leave to call save_note"):
            await boss.run("save a note: hello")
        with pytest.raises(GuardrailTripped, match="blocklist"):
            await boss.run("this is forbidden")


def test_the_agent_has_the_tools_of_its_memory(tmp_path: Path) -> None:
    names = Agent.from_file(around(tmp_path), "boss").definition.tools.names
    assert {"save_note", "calculate", "spawn", "remember", "recall"} <= set(names)


def test_skills_beside_a_file_are_read_from_a_trusted_folder_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "skills" / "tides").mkdir(parents=True)
    about = "---\nname: tides\ndescription: How to read a table of tides.\n---\nLook at the moon.\n"
    (tmp_path / "skills" / "tides" / "SKILL.md").write_text(about)
    path = tmp_path / "agents.toml"
    path.write_text('name = "sailor"\nmodel = "demo"\nskills = ["skills"]\n')
    assert read_agent(path).skills == (str((tmp_path / "skills").resolve()),)
    with pytest.raises(NotTrusted, match=r"agent 'sailor' of .*skills is not trusted"):
        Agent.from_file(path)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('guardrails = ["pi"]', "no guardrail called 'pi' (did you mean 'pii'?)"),
        ('guardrails = ["blocklist"]', "'blocklist' cannot be made without settings"),
        ('guardrails = [{ name = "pii", kind = 1 }]', "guardrail 'pii' cannot be made with these settings"),
        ('hooks = ["logger"]', "no hook called 'logger'"),
        ('compactor = "cut"', "no compactor called 'cut'"),
        ('rules = ["perhaps now"]', "perhaps"),
        ("context_tokens = 100", "context_tokens need a compactor"),
        ('subagents = ["nobody"]', "has no agent called 'nobody'"),
        ('subagents = ["orders"]', "agents work for one another in a circle: orders → orders"),
    ],
)
def test_what_stands_around_and_cannot_be_made_is_refused_with_the_file(
    tmp_path: Path, line: str, said: str
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(f'name = "orders"\nmodel = "demo"\n{line}\n')
    with pytest.raises(ConfigError) as caught:
        Agent.from_file(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)


def test_a_circle_of_several_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text('defaults.model = "demo"\n[agents.a]\nsubagents = ["b"]\n[agents.b]\nsubagents = ["a"]\n')
    with pytest.raises(ConfigError, match="a → b → a"):
        Agent.from_file(path, "a")


def test_what_a_setting_says_is_not_shown(tmp_path: Path) -> None:
    spec = read_agent(around(tmp_path), "boss", env={"TIDE_TERM": "hush-hush"})
    assert spec.guardrails[1].settings == {"terms": ["hush-hush"]}
    assert "hush-hush" not in repr(spec)
