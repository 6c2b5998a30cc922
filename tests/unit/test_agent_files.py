"""Agents from files: how a file is laid out, what each field becomes, and what is said of a wrong one."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon import registry
from gnomon.agent_files import AgentSpec, UnusedKey, read_agent, read_agents
from gnomon.errors import ConfigError, GnomonError, InvalidInput
from gnomon.types.requests import Reasoning

Write = Callable[[str], Path]

FULL = """\
name: orders
description: Looks after orders
model: openai:gpt-5
settings:
  base_url: https://proxy.example/v1
  headers: {x-team: orders}
instructions: Be brief.
tools: [calculate, refund]
budget: {rounds: 10, tokens: 50000, cost: 0.5, seconds: 60}
temperature: 0
max_tokens: 1000
thinking: low
storage: sqlite:///orders.db
permissions: plan
on_change: pause
output_schema:
  type: object
  properties: {total: {type: number}}
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> Path:
        path = tmp_path / "agents.yaml"
        path.write_text(text, "utf-8")
        return path

    return written


def said_of(path: Path, name: str | None = None, **env: str) -> GnomonError:
    with pytest.raises(GnomonError) as caught:
        read_agent(path, name, env=env)
    return caught.value


# --- one agent ------------------------------------------------------------------


def test_every_field_of_an_agent_is_read(write: Write, tmp_path: Path) -> None:
    assert read_agent(write(FULL), env={}) == AgentSpec(
        name="orders",
        description="Looks after orders",
        model="openai:gpt-5",
        settings={"base_url": "https://proxy.example/v1", "headers": {"x-team": "orders"}},
        instructions="Be brief.",
        tools=("calculate", "refund"),
        budget={"rounds": 10, "tokens": 50_000, "cost": 0.5, "seconds": 60.0},
        temperature=0.0,
        max_tokens=1000,
        thinking=Reasoning(effort="low"),
        storage=f"sqlite:///{os.path.realpath(tmp_path)}/orders.db",
        permissions="plan",
        on_change="pause",
        output_schema={"type": "object", "properties": {"total": {"type": "number"}}},
    )


def test_what_is_not_set_is_none(write: Write) -> None:
    spec = read_agent(write("name: small\nmodel: demo\ntemperature: null\ntools: []\n"), env={})
    assert spec == AgentSpec(name="small", model="demo")


def test_a_file_with_one_agent_names_it_if_nothing_else_does(write: Write) -> None:
    assert read_agent(write("model: demo"), env={}).name == "agents"


def test_toml_and_json_say_the_same(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text('name = "orders"\nmodel = "demo"\ntools = ["now"]\n[budget]\nrounds = 3\n')
    plain = tmp_path / "a.json"
    plain.write_text('{"name": "orders", "model": "demo", "tools": ["now"], "budget": {"rounds": 3}}')
    wanted = AgentSpec(name="orders", model="demo", tools=("now",), budget={"rounds": 3})
    assert read_agent(toml, env={}) == read_agent(str(plain), env={}) == wanted


def test_a_schema_for_editors_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"$schema": "https://example.org/agent.json", "name": "a", "model": "demo"}')
    assert read_agent(path, env={}) == AgentSpec(name="a", model="demo")


def test_the_settings_make_a_provider(write: Write) -> None:
    spec = read_agent(write(FULL), env={})
    assert registry.provider(spec.model, {**spec.settings, "key": "k"}).model == "gpt-5"


# --- several --------------------------------------------------------------------

SEVERAL = """\
defaults:
  model: {provider: openai, model: gpt-5, base_url: "https://proxy.example/v1"}
  temperature: 0.5
  budget: {rounds: 5, tokens: 100}
agents:
  - name: first
  - id: second
    name: The Second
    model: {model: gpt-5-mini}
    budget: {rounds: 2}
"""


def test_defaults_hold_where_an_agent_says_nothing(write: Write) -> None:
    first, second = read_agents(write(SEVERAL), env={})
    settings: dict[str, object] = {"base_url": "https://proxy.example/v1"}
    assert first == AgentSpec(
        name="first",
        model="openai:gpt-5",
        settings=settings,
        temperature=0.5,
        budget={"rounds": 5, "tokens": 100},
    )
    assert second == AgentSpec(
        name="second",
        title="The Second",
        model="openai:gpt-5-mini",
        settings=settings,
        temperature=0.5,
        budget={"rounds": 2, "tokens": 100},
    )


def test_another_provider_gets_nothing_of_the_first_ones_settings(write: Write) -> None:
    text = SEVERAL.replace("model: {model: gpt-5-mini}", "model: anthropic:claude")
    second = read_agent(write(text), "second", env={})
    assert (second.model, second.settings) == ("anthropic:claude", {})


def test_an_agent_is_found_by_name_or_title_whatever_the_capitals(write: Write) -> None:
    path = write(SEVERAL)
    assert {read_agent(path, name, env={}).name for name in ("second", "SECOND", "the second")} == {"second"}


def test_one_of_several_must_be_named(write: Write) -> None:
    error = said_of(write(SEVERAL))
    assert "has several agents: first, second" in str(error)
    assert "no agent called 'third' (it has first, second)" in str(said_of(write(SEVERAL), "third"))


def test_the_only_one_of_a_list_needs_no_name(write: Write) -> None:
    assert read_agent(write("agents: [{name: a, model: demo}]"), env={}).name == "a"


def test_agents_may_stand_in_a_table_by_name(tmp_path: Path) -> None:
    path = tmp_path / "agents.toml"
    path.write_text('[agents.orders]\nmodel = "demo"\n[agents.stock]\nname = "Stock"\nmodel = "demo"\n')
    assert [(spec.name, spec.title) for spec in read_agents(path, env={})] == [
        ("orders", None),
        ("stock", "Stock"),
    ]
    path.write_text("[agents.orders]\nmodel = 3\n")
    assert "`agents.orders.model` should be a model" in str(said_of(path))


def test_the_others_are_not_looked_into(write: Write) -> None:
    path = write(
        "agents:\n- {name: a, model: demo}\n- {name: b, mcp_servers: [x], model: 'openai:${NOPE}'}\n"
    )
    assert read_agent(path, "a", env={}).model == "demo"
    with pytest.raises(ConfigError, match=r"agents\[1\].mcp_servers"):
        read_agents(path, env={})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents: []", "has no agents in it"),
        ("defaults: {model: demo}", "has no agents in it"),
        ("agents: demo", "`agents` should be a list of agents"),
        ("agents: [demo]", "`agents[0]` should be a table, found text"),
        ("agents: [{model: demo}]", "`agents[0]` has no name"),
        (
            "agents: [{name: a, model: demo}, {id: A, model: demo}]",
            "`agents[1]` is called 'A', as `agents[0]`",
        ),
        ("defaults: {name: a}\nagents: [{name: a, model: demo}]", "`defaults.name` cannot be shared"),
        ("defaults: 3\nagents: [{name: a, model: demo}]", "`defaults` should be a table"),
        ("agnets: [{name: a}]\ndefaults: {}", "did you mean `agents`?"),
        ("- name: a", "should hold a table, found a list"),
        ("", "should hold a table, found nothing"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(text: str, said: str, write: Write) -> None:
    assert said in str(said_of(write(text)))


# --- what is wrong is named -------------------------------------------------------


def test_an_unknown_key_is_named_with_its_place_and_the_nearest(write: Write) -> None:
    path = write("agents:\n  - name: a\n    model: demo\n  - name: b\n    modle: demo\n")
    error = said_of(path, "b")
    assert type(error) is ConfigError
    assert str(error) == f"{path}, line 5: `agents[1].modle` is not a known key (did you mean `model`?)"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("model: 3", "`model` should be a model such as"),
        ("model: {modle: x}", "`model.modle` is not a known key (did you mean `model`?)"),
        ("model: {zzz: x}", "what only the provider knows stands in `settings`"),
        ("model: {model: gpt-5}", "the agent has no model"),
        ("model: {provider: 'a:b', model: c}", "`model.provider` should be the name of a provider alone"),
        ("model: {provider: 3}", "should be the name of a provider such as openai, found a whole number, 3"),
        ("model: ' '", "`model` should be the name of a provider"),
        ("settings: 3", "`settings` should be a table"),
        ("settings: {model: x}", "`settings.model` is set by `model`"),
        ("instructions: 3", "`instructions` should be text, or a list of texts, found a whole number, 3"),
        ("instructions: [3]", "`instructions` should be text, or a list of texts, found a list"),
        (
            "instructions: a\nsystem: b\nsystem_prompt: c",
            "`system_prompt` says the same as `system`: keep one",
        ),
        ("tools: now", "`tools` should be a list of tool names, found text"),
        ("tools: [os.system]", "`tools[0]` should be the name of a registered tool"),
        ("tools: ['pkg.mod:function']", "`tools[0]` should be the name of a registered tool"),
        ("tools: [now, now]", "`tools[1]` names the tool 'now' a second time"),
        ("tools: [3]", "`tools[0]` should be the name of a tool, or a table with `name`"),
        ("tools: [{nmae: now}]", "did you mean `name`?"),
        ("tools: [{permission: allow}]", "`tools[0].name` should be the name of a registered tool"),
        ("budget: 3", "`budget` should be a table"),
        (
            "budget: {rounds: 0}",
            "`budget.rounds` should be a whole number above zero, found a whole number, 0",
        ),
        ("budget: {rounds: true}", "should be a whole number above zero, found true or false"),
        ("budget: {rounds: '3'}", '`budget.rounds` should be a whole number above zero, found text "3"'),
        ("budget: {cost: -1}", "`budget.cost` should be a number above zero"),
        ("budget: {round: 1}", "did you mean `rounds`?"),
        ("temperature: -1", "`temperature` should be a number from 0 to 100"),
        ("temperature: .nan", "`temperature` should be a number from 0 to 100"),
        ("model: {provider: demo, temperature: 1}\ntemperature: 1", "`temperature` says the same as"),
        ("max_tokens: 1.5", "`max_tokens` should be a whole number above zero"),
        ("thinking: much", "`thinking` should be none, minimal, low, medium or high"),
        ("thinking: 3", "`thinking` should be an effort such as low"),
        ("thinking: {efort: low}", "did you mean `effort`?"),
        ("permissions: all", "`permissions` should be ask, accept_edits, auto, plan, deny or bypass, found"),
        ("permissions: [plan]", "auto, plan, deny or bypass, found a list"),
        ("rules: ask pay", "`rules` should be a list of rules such as `ask pay`"),
        ("approval_timeout_s: 0", "should be a number of seconds above zero"),
        ("guardrails: pii", "should be a list of names, or of tables with `name`"),
        ("guardrails: [{terms: [x]}]", "`guardrails[0].name` should be a registered name"),
        ("hooks: [7]", "`hooks[0]` should be a registered name"),
        ("hooks: [{name: cost, token: abc}]", "`hooks[0].token` holds a secret in clear"),
        ("compactor: [truncate]", "`compactor` should be a registered name"),
        ("context_tokens: many", "should be a whole number above zero"),
        ("subagents: [b, b]", "`subagents` names an agent a second time"),
        ("skills: [{name: x}]", "`skills[0]` should be the path of a folder with skills"),
        ("memory: {enabled: true}", "`memory` should be true or false"),
        ("on_change: stop", "`on_change` should be continue, pause or refuse"),
        ("output_schema: 3", "`output_schema` should be a table"),
        ("description: [a]", "`description` should be text, found a list"),
        ("name: ''", "`name` should be a name of up to 200 characters"),
        ('name: "a\\nb"', "`name` should be a name"),
        ("id: 3", "`id` should be a name"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(line: str, said: str, write: Write) -> None:
    text = line if line.startswith(("model", "name", "id")) else f"model: demo\n{line}"
    if line.startswith(("name", "id")):
        text += "\nmodel: demo"
    assert said in str(said_of(write(text)))


def test_a_wrong_default_is_named_where_it_stands(write: Write) -> None:
    text = "defaults:\n  temperature: hot\nagents:\n  - {name: a, model: demo}\n"
    assert "line 2: `defaults.temperature` should be" in str(said_of(write(text)))


def test_a_date_is_not_a_value(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('model = "demo"\n[settings]\nsince = 2024-10-21\n')
    assert "`settings.since` is a date, which is not read (write it in quotes)" in str(said_of(path))


def test_a_name_is_found_whatever_its_capitals_and_has_an_end(write: Write) -> None:
    path = write("agents: [{name: Orders, model: demo}, {name: b, model: demo}]")
    assert read_agent(path, "orders", env={}).name == "Orders"
    assert read_agent(write(f"name: {'n' * 200}\nmodel: demo"), env={}).name == "n" * 200
    assert "found text of 201 characters" in str(said_of(write(f"name: {'n' * 201}\nmodel: demo")))


def test_nothing_in_a_table_is_not_set(write: Write) -> None:
    assert read_agent(write("model: {provider: demo, model: null}"), env={}).model == "demo"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("agents:\n- name: a\n  model: demo\n- name: b\n", "line 4: `agents[1]` has no model"),
        (
            "agents:\n- name: b\n  model: demo\n  tools:\n  - {}\n",
            "line 4: `agents[0].tools[0].name`",
        ),
        (
            "agents:\n- &a {name: b, model: demo}\n- <<: *a\n  name: c\n  modle: x\n",
            "line 5: `agents[1].modle`",
        ),
        ("agents:\n- &a\n  name: b\n  modle: x\n- <<: *a\n  name: c\n", "line 4: `agents[1].modle`"),
    ],
)
def test_the_line_is_that_of_the_key_or_of_what_it_stands_in(text: str, said: str, write: Write) -> None:
    with pytest.raises(ConfigError) as caught:
        read_agent(write(text), "c" if "name: c" in text else "b", env={})
    assert said in str(caught.value)


def test_a_file_of_instructions_stands_for_the_prompt(write: Write, tmp_path: Path) -> None:
    (tmp_path / "brief.md").write_text("Be brief.")
    text = "defaults: {model: demo, system: Be long.}\nagents: [{name: a, instructions_file: brief.md%s}]"
    assert read_agent(write(text % ""), env={}).instructions == "Be brief."
    assert "`agents[0].instructions_file` says the same as `agents[0].system`" in str(
        said_of(write(text % ", system: Be kind."))
    )


# --- paths ----------------------------------------------------------------------


def test_paths_stand_beside_the_file_wherever_one_is(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "brief.md").write_text("Be brief. ${PLAIN}\n")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path = write("model: demo\ninstructions_file: elsewhere/../prompts/brief.md\nstorage: sqlite:///x.db\n")
    monkeypatch.chdir(folder)
    for name in (path, Path("..") / path.name):
        spec = read_agent(name, env={})
        assert spec.instructions == "Be brief. ${PLAIN}"
        assert spec.storage == f"sqlite:///{os.path.realpath(tmp_path)}/x.db"


def test_a_link_to_a_file_counts_where_it_stands(write: Write, tmp_path: Path) -> None:
    path = write("model: demo\nstorage: sqlite:///x.db")
    here = tmp_path / "here"
    here.mkdir()
    (here / "linked.yaml").symlink_to(path)
    assert read_agent(here / "linked.yaml", env={}).storage == f"sqlite:///{os.path.realpath(here)}/x.db"


def test_a_file_of_instructions_that_is_not_there_is_named(write: Write, tmp_path: Path) -> None:
    path = write("model: demo\ninstructions_file: gone.md")
    assert str(said_of(path)) == f"{os.path.realpath(tmp_path)}/gone.md does not exist"


@pytest.mark.parametrize(
    ("storage", "url"),
    [
        ("sqlite:///a b.db", "sqlite:///{folder}/a%20b.db"),
        ("sqlite:///a%20b.db?synchronous=normal", "sqlite:///{folder}/a%20b.db?synchronous=normal"),
        ("sqlite:////var/lib/x.db", "sqlite:////var/lib/x.db"),
        ("postgresql://user@host/db", "postgresql://user@host/db"),
        ("none", None),
        ("memory://", None),
        ("{backend: sqlite, dsn: sub/x.db}", "sqlite:///{folder}/sub/x.db"),
        ("{backend: sqlite, dsn: 'file:x.db'}", "sqlite:///{folder}/x.db"),
        ("{backend: sqlite, dsn: 'sqlite:///x.db'}", "sqlite:///{folder}/x.db"),
        ("{backend: sqlite, dsn: ':memory:'}", None),
        ("{backend: Postgres, dsn: 'postgres://user@host/db'}", "postgres://user@host/db"),
        ("{backend: redis, dsn: 'rediss://host/0'}", "rediss://host/0"),
        ("{backend: mongodb, dsn: 'mongodb+srv://host/db'}", "mongodb+srv://host/db"),
        ("{backend: dynamo, dsn: 'dynamodb://region/table'}", "dynamodb://region/table"),
        ("{backend: none}", None),
        ("{url: 'redis://host/0'}", "redis://host/0"),
    ],
)
def test_a_store_becomes_a_url(storage: str, url: str | None, write: Write, tmp_path: Path) -> None:
    spec = read_agent(write(f"model: demo\nstorage: {storage}"), env={})
    assert spec.storage == (url and url.format(folder=os.path.realpath(tmp_path)))


async def made(url: str) -> None:
    storage = registry.storage(url)
    await storage.migrate()
    await storage.close()


def test_the_url_of_an_sqlite_file_opens_that_file(write: Write, tmp_path: Path) -> None:
    url = read_agent(write("model: demo\nstorage: 'sqlite:///an odd#name%3F.db'"), env={}).storage
    asyncio.run(made(url or ""))
    assert (tmp_path / "an odd#name?.db").is_file()


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("orders.db", "`storage` should be the URL of a store"),
        ("3", "`storage` should be the URL of a store, or a table"),
        ("{backend: oracle, dsn: x}", "`storage.backend` should be sqlite, postgres"),
        ("{backend: sqlite}", "`storage.backend` needs a `dsn` beside it"),
        (
            "{backend: postgres, dsn: 'host=db user=me'}",
            "`storage.dsn` should be a URL such as postgresql://",
        ),
        ("{backend: postgres, dsn: 'redis://host'}", "`storage.dsn` should be a URL such as postgresql://"),
        ("{backend: sqlite, dsn: ''}", "`storage.dsn` should be text"),
        ("{url: 'redis://host/0', backend: redis}", "`storage.backend` says the same as `storage.url`"),
        ("{bakend: sqlite}", "did you mean `backend`?"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(storage: str, said: str, write: Write) -> None:
    assert said in str(said_of(write(f"model: demo\nstorage: {storage}")))


def test_an_agents_own_store_takes_nothing_from_the_default_one(write: Write) -> None:
    text = "defaults: {model: demo, storage: {backend: sqlite, dsn: x.db}}\nagents:\n"
    text += "- {name: a, storage: {backend: none}}\n- {name: b, storage: 'redis://host/0'}\n"
    text += "- {name: c, storage: {dsn: y.db}}\n- {name: d, storage: {backend: postgres}}\n"
    path = write(text)
    assert read_agent(path, "a", env={}).storage is None
    assert read_agent(path, "b", env={}).storage == "redis://host/0"
    assert (read_agent(path, "c", env={}).storage or "").endswith("/y.db")
    assert "needs a `dsn`" in str(said_of(path, "d"))


# --- what it is good for ----------------------------------------------------------


def test_instructions_are_the_prompt_and_then_the_rules(write: Write) -> None:
    text = "model: demo\nsystem_prompt: |\n  You help.\ninstructions: [Be brief., Be kind.]\n"
    assert read_agent(write(text), env={}).instructions == "You help.\n\nBe brief.\nBe kind."


def test_thinking_may_be_a_budget(write: Write) -> None:
    spec = read_agent(write("model: demo\nthinking: {budget_tokens: 2048}"), env={})
    assert spec.thinking == Reasoning(budget_tokens=2048)


def test_a_schema_is_taken_as_it_stands(tmp_path: Path) -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"const": "${NOT_SET}"}}}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"model": "demo", "output_schema": schema}))
    assert read_agent(path, env={}).output_schema == schema


def test_the_real_environment_is_used_unless_another_is_given(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_FILES_TEST", "from the environment")
    assert (
        read_agent(write("model: demo\nsystem: ${AGENT_FILES_TEST}")).instructions == "from the environment"
    )


def test_a_warning_is_given_once_for_a_file_and_points_at_the_caller(write: Write) -> None:
    path = write("defaults: {model: demo, debug: true}\nagents: [{name: a}, {name: b}]\n")
    with pytest.warns(UnusedKey) as caught:
        read_agents(path, env={})
    assert [str(one.message) for one in caught] == [
        f"{path}, line 1: `defaults.debug` has no effect: it has no meaning here"
    ]
    assert caught[0].filename == __file__


def test_a_missing_file_and_an_unknown_ending_are_named(tmp_path: Path) -> None:
    assert "does not exist" in str(said_of(tmp_path / "gone.yaml"))
    assert "agent files end in .yaml" in str(said_of(tmp_path / "agents.ini"))
    assert isinstance(said_of(tmp_path / "gone.yaml"), InvalidInput)


# --- the examples -----------------------------------------------------------------

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_examples_are_read_and_say_the_same() -> None:
    said = [read_agents(EXAMPLES / name, env={}) for name in ("agents.yaml", "agents.toml")]
    assert said[0] == said[1]
    assert [spec.name for spec in said[0]] == ["guide", "clerk"]


def test_the_tools_and_providers_of_the_examples_are_there() -> None:
    for spec in read_agents(EXAMPLES / "agents.yaml", env={}):
        assert registry.provider(spec.model, spec.settings)
        assert [registry.load("tools", name) for name in spec.tools]
