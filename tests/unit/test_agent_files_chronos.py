"""Chronos's `agents.yaml`: every key of it is read, refused or remarked upon."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import pytest

from gnomon import registry
from gnomon.agent_files import AgentSpec, UnusedKey, read_agent, read_agents
from gnomon.errors import ConfigError
from gnomon.types.requests import Reasoning

USUAL = """\
defaults:
  model:
    provider: openai
    model: gpt-5
    api_key: ${OPENAI_API_KEY}
    org_id: org-1
    timeout_sec: 120
  storage:
    backend: sqlite
    dsn: .chronos/sessions.db
agents:
  - id: tides
    name: Tide Watcher
    description: Says when the water turns
    system_prompt: |
      You know the tides.
    instructions:
      - Name the harbour.
      - Use metres.
    tools:
      - name: calculate
        permission: allow
      - {name: now, requires_confirmation: false, requires_user_input: false}
    reasoning: {native: true, effort: high, budget_tokens: 4096}
    permission_mode: auto-approve
    output_schema: {type: object}
    stream: false
    sub_agents: []
  - id: local
    model:
      provider: ollama
      model: llama3.2
      base_url: http://localhost:11434
    storage: {backend: none}
    system: Be brief.
  - id: azure
    model:
      provider: azure
      deployment: my-deployment
      endpoint: https://mine.openai.azure.com
      api_version: 2024-10-21
      key_env: AZURE_KEY
"""
ENV = {"OPENAI_API_KEY": "k-1", "AZURE_KEY": "k-2"}


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "agents.yaml"
    path.write_text(text, "utf-8")
    return path


def test_a_usual_file_is_read_without_a_remark(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tides, local, azure = read_agents(write(tmp_path, USUAL), env=ENV)
    store = f"sqlite:///{os.path.realpath(tmp_path)}/.chronos/sessions.db"
    assert tides == AgentSpec(
        name="tides",
        title="Tide Watcher",
        description="Says when the water turns",
        model="openai:gpt-5",
        settings={"organization": "org-1", "total_s": 120, "key": "k-1"},
        instructions="You know the tides.\n\nName the harbour.\nUse metres.",
        tools=("calculate", "now"),
        thinking=Reasoning(effort="high", budget_tokens=4096),
        storage=store,
        permissions="bypass",
        output_schema={"type": "object"},
    )
    assert local == AgentSpec(
        name="local",
        model="ollama:llama3.2",
        settings={"base_url": "http://localhost:11434"},
        instructions="Be brief.",
    )
    assert azure == AgentSpec(
        name="azure",
        model="azure",
        settings={
            "deployment": "my-deployment",
            "endpoint": "https://mine.openai.azure.com",
            "api_version": "2024-10-21",
            "key": "k-2",
        },
        storage=store,
    )


def test_the_providers_take_what_was_read(tmp_path: Path) -> None:
    for spec in read_agents(write(tmp_path, USUAL), env=ENV):
        assert registry.provider(spec.model, spec.settings).name == spec.model.partition(":")[0]


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [("google", "gemini"), ("Google", "gemini"), ("custom", "compatible"), ("groq", "groq")],
)
def test_a_provider_of_another_name_is_ours(theirs: str, ours: str, tmp_path: Path) -> None:
    one, two = f"{{provider: {theirs}, model: m/x}}", f"{{provider: {theirs}}}"
    text = f"agents: [{{id: a, model: {one}}}, {{id: b, model: {two}}}]"
    assert [spec.model for spec in read_agents(write(tmp_path, text), env={})] == [f"{ours}:m/x", ours]


@pytest.mark.parametrize(
    "line",
    [
        "mcp_servers: [{name: db, command: npx}]",
        "graph: {nodes: []}",
        "use_skills: [x]",
        "knowledge: {files: [a]}",
    ],
)
def test_what_the_agent_could_not_do_without_is_refused(line: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"agents:\n  - id: a\n    model: demo\n    {line}\n")
    with pytest.raises(ConfigError) as caught:
        read_agent(path, env={})
    assert str(caught.value).startswith(f"{path}, line 4: `agents[0].{line.partition(':')[0]}`: ")
    assert caught.value.hint == "leave it out"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("user_id: me", "user_id"),
        ("capabilities: [a]", "capabilities"),
        ("stream: true", "stream"),
        ("debug: true", "debug"),
        ("tracing: true", "tracing"),
        ("durable: true", "durable"),
        ("num_history_runs: 5", "num_history_runs"),
        ("context: {max_tokens: 5}", "context"),
        ("reasoning: {strategy: cot}", "reasoning.strategy"),
        ("reasoning: {summary: true}", "reasoning.summary"),
        ("storage: {backend: none, max_open_conns: 5}", "storage.max_open_conns"),
        ("tools: [{name: now, description: The time}]", "tools[0].description"),
        ("tools: [{name: now, parameters: {type: object}}]", "tools[0].parameters"),
    ],
)
def test_what_has_no_effect_is_said(line: str, key: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"agents:\n  - id: a\n    model: demo\n    {line}\n")
    with pytest.warns(UnusedKey) as caught:
        read_agent(path, env={})
    assert [str(one.message).partition(" has no effect: ")[0] for one in caught] == [
        f"{path}, line 4: `agents[0].{key}`"
    ]


@pytest.mark.parametrize("key", ["teams", "skills_dir", "deployment", "sandbox", "name"])
def test_what_is_about_more_than_an_agent_is_said(key: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"agents: [{{id: a, model: demo}}]\n{key}: [x]\n")
    with pytest.warns(UnusedKey, match=f"line 2: `{key}` has no effect"):
        read_agent(path, env={})


def test_a_remark_is_not_made_of_what_is_off(tmp_path: Path) -> None:
    line = "stream: false, capabilities: [], mcp_servers: [], reasoning: {strategy: none, summary: false}"
    text = f"teams: []\nagents: [{{id: a, model: demo, {line}}}]"
    assert read_agent(write(tmp_path, text), env={}) == AgentSpec(name="a", model="demo")


@pytest.mark.parametrize(
    ("reasoning", "thinking"),
    [
        ("{native: true}", Reasoning(effort="medium")),
        ("{native: true, budget_tokens: 9}", Reasoning(budget_tokens=9)),
        ("{effort: low}", Reasoning(effort="low")),
        ("{native: false, effort: low}", None),
        ("{}", None),
    ],
)
def test_native_reasoning_is_thinking(reasoning: str, thinking: Reasoning | None, tmp_path: Path) -> None:
    assert read_agent(write(tmp_path, f"model: demo\nreasoning: {reasoning}"), env={}).thinking == thinking


@pytest.mark.parametrize(
    ("tool", "mode", "said"),
    [
        ("requires_user_input: true", "bypass", "`tools[0].requires_user_input`: nobody can be asked"),
        ("permission: deny", "bypass", "a tool that may not be called is left out"),
        ("permission: perhaps", "bypass", "should be allow, require_approval or deny"),
        ("requires_confirmation: 3", "bypass", "should be true or false"),
    ],
)
def test_leave_that_has_no_meaning_here_is_refused(tool: str, mode: str, said: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"model: demo\npermissions: {mode}\ntools: [{{name: now, {tool}}}]")
    with pytest.raises(ConfigError) as caught:
        read_agent(path, env={})
    assert said in str(caught.value)


@pytest.mark.parametrize("tool", ["permission: require_approval", "requires_confirmation: true"])
def test_where_no_question_is_wanted_none_is_missed(tool: str, tmp_path: Path) -> None:
    text = f"model: demo\npermission_mode: bypass\ntools: [{{name: now, {tool}}}]"
    assert read_agent(write(tmp_path, text), env={}).tools == ("now",)


@pytest.mark.parametrize(("mode", "meant"), [("prompt", "ask"), ("auto-approve", "bypass"), ("ask", "ask")])
def test_modes_have_other_names_there(mode: str, meant: str, tmp_path: Path) -> None:
    assert read_agent(write(tmp_path, f"model: demo\npermission_mode: {mode}"), env={}).permissions == meant


@pytest.mark.parametrize("tool", ["permission: require_approval", "requires_confirmation: true"])
def test_a_tool_that_asks_first_is_a_rule(tool: str, tmp_path: Path) -> None:
    text = f"model: demo\ntools: [calculate, {{name: now, {tool}}}]"
    spec = read_agent(write(tmp_path, text), env={})
    assert (spec.tools, spec.permissions, spec.rules) == (("calculate", "now"), "auto", ("ask now",))
    spec = read_agent(write(tmp_path, f"{text}\npermissions: plan\nrules: [deny x]"), env={})
    assert (spec.permissions, spec.rules) == ("plan", ("deny x", "ask now"))


def test_sub_agents_are_subagents(tmp_path: Path) -> None:
    text = "agents:\n  - {id: a, model: demo, sub_agents: [b]}\n  - {id: b, model: demo}\n"
    assert read_agent(write(tmp_path, text), "a", env={}).subagents == ("b",)
