"""`${VAR}` in agent files, and secrets: from the environment alone, and in no message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.agent_files import AgentSpec, read_agent
from gnomon.errors import GnomonError, InvalidInput, MissingKey

Read = Callable[..., AgentSpec]
SECRET = "opensesame"  # it looks like nothing in particular


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def given(text: str, **env: str) -> AgentSpec:
        path = tmp_path / "a.yaml"
        path.write_text(text, "utf-8")
        return read_agent(path, env=env)

    return given


def refused(read: Read, text: str, **env: str) -> GnomonError:
    with pytest.raises(GnomonError) as caught:
        read(text, **env)
    return caught.value


# --- references --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("${A}", "one"),
        ("x ${A} y ${A}", "x one y one"),
        ("${NONE:-other words}", "other words"),
        ("${EMPTY:-other}", "other"),
        ("${A:-other}", "one"),
        ("${NONE:-}x", "x"),
        ("a$${A}", "a${A}"),
        ("costs $5, $A and $$", "costs $5, $A and $$"),
        ("${EMPTY}.", "."),
    ],
)
def test_a_reference_is_replaced(text: str, wanted: str, read: Read) -> None:
    assert read(f"model: demo\nsystem: '{text}'", A="one", EMPTY="").instructions == wanted


def test_what_a_variable_holds_is_not_read_again(read: Read) -> None:
    assert read("model: demo\nsystem: '${A}'", A="${B}").instructions == "${B}"


def test_references_stand_in_models_names_numbers_and_nested_settings(read: Read) -> None:
    text = """\
id: agent-${N}
model: ${MODEL:-openai:gpt-5}
temperature: ${T}
budget: {rounds: "${N}"}
tools: ["${TOOL}"]
settings: {headers: {x-team: "${TEAM}"}, extra: {list: ["${N}", 2]}}
storage: redis://${HOST}/0
permissions: ${MODE}
"""
    env = {"N": "7", "T": "0.5", "TOOL": "now", "TEAM": "blue", "HOST": "cache", "MODE": "auto-approve"}
    assert read(text, **env) == AgentSpec(
        name="agent-7",
        model="openai:gpt-5",
        temperature=0.5,
        budget={"rounds": 7},
        tools=("now",),
        settings={"headers": {"x-team": "blue"}, "extra": {"list": ["7", 2]}},
        storage="redis://cache/0",
        permissions="bypass",
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${GONE}", "line 2: `system` uses ${GONE}, which is not set (set it, or write ${GONE:-default})"),
        ("${}", "has a `${` that is no reference"),
        ("${A", "has a `${` that is no reference"),
        ("${A-b}", "has a `${` that is no reference"),
        ("${A:?b}", "has a `${` that is no reference"),
        ("${1}", "has a `${` that is no reference"),
        ("${GONE:-${A}}", "has a `${` that is no reference"),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(text: str, said: str, read: Read) -> None:
    error = refused(read, f"model: demo\nsystem: '{text}'", A="x")
    assert isinstance(error, InvalidInput)
    assert said in str(error)


def test_a_variable_that_is_not_text_is_refused(read: Read) -> None:
    assert "${A}, which is not UTF-8 text" in str(refused(read, "model: demo\nsystem: ${A}", A="\udcff"))


def test_what_a_variable_holds_is_in_no_message(read: Read) -> None:
    for line in (
        "temperature: ${A}",
        "tools: ['${A}/']",
        "permissions: ${A}",
        "budget: {rounds: '${A}'}",
        "storage: ${A}",
        "storage: {backend: '${A}'}",
        "storage: {backend: postgres, dsn: '${A}'}",
        "on_change: ${A}",
        "thinking: ${A}",
    ):
        error = refused(read, f"model: demo\n{line}", A=SECRET)
        assert SECRET not in str(error), line
        assert SECRET not in repr(error.__cause__), line


# --- keys --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "model: {provider: openai, api_key: '${MY_KEY}'}",
        "model: {provider: openai, key: ' ${MY_KEY} '}",
        "model: {provider: openai, key_env: MY_KEY}",
        "model: openai\nsettings: {key: '${MY_KEY}'}",
        "model: openai\nsettings: {key_env: MY_KEY}",
    ],
)
def test_a_key_comes_from_the_environment(text: str, read: Read) -> None:
    assert read(text, MY_KEY=f"{SECRET}\n").settings == {"key": SECRET}


@pytest.mark.parametrize(
    "line",
    [
        f"api_key: {SECRET}",
        f"api_key: '{SECRET}${{MY_KEY}}'",
        f"api_key: '${{MY_KEY:-{SECRET}}}'",
        f"key: {SECRET}",
    ],
)
def test_a_key_in_clear_is_refused_with_the_way_out(line: str, read: Read) -> None:
    error = refused(read, f"model:\n  provider: openai\n  {line}\n", MY_KEY="x")
    assert "line 3: `model." in str(error)
    assert "holds a key in clear (write ${VAR} in its place, and set that variable)" in str(error)
    assert SECRET not in str(error)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("key_env: MY_KEY", "names MY_KEY, which is not set"),
        ("key_env: EMPTY_KEY", "names EMPTY_KEY, which is not set"),
        ("api_key: '${MY_KEY}'", "names MY_KEY, which is not set"),
        (f"key_env: {SECRET}", "names a variable, which is not set"),
        ("key_env: AB12CD34EF56", "names a variable, which is not set"),
    ],
)
def test_a_key_that_is_not_there_is_missing(line: str, said: str, read: Read) -> None:
    error = refused(read, f"model: {{provider: openai, {line}}}", EMPTY_KEY=" ")
    assert isinstance(error, MissingKey)
    assert said in str(error)
    assert SECRET not in str(error)


def test_the_name_of_a_variable_is_a_name(read: Read) -> None:
    error = refused(read, f"model: {{provider: openai, key_env: '{SECRET}-1'}}")
    assert "should be the name of a variable such as OPENAI_API_KEY" in str(error)
    assert SECRET not in str(error)
    assert "should be a reference such as" in str(refused(read, "model: {provider: openai, api_key: 5}"))


def test_a_key_said_twice_is_refused(read: Read) -> None:
    text = "model: {provider: openai, key_env: A, key: '${A}'}"
    assert "`model.key_env` says the same as `model.key`" in str(refused(read, text, A="x"))


def test_the_key_of_the_defaults_is_the_agents_own_or_none(read: Read) -> None:
    text = "defaults: {model: {provider: openai, key_env: SHARED}}\nagents: [{name: a, model: {%s}}]"
    assert read(text % "model: x", SHARED="s").settings == {"key": "s"}
    assert read(text % "api_key: '${OWN}'", OWN="o").settings == {"key": "o"}
    assert read(text % "provider: anthropic", SHARED="s").settings == {}


@pytest.mark.parametrize(
    "line",
    [
        "settings: {auth_token: opensesame}",
        "settings: {headers: {authorization: Bearer opensesame}}",
        "settings: {headers: {x-api-key: opensesame}}",
        "settings: {headers: {cookie: 'a=opensesame${A}'}}",
        "settings: {extra: {deep: [sk-opensesame-1234567890]}}",
        "settings: {proxy: 'http://me:opensesame@proxy:80'}",
        "storage: postgresql://me:opensesame@host/db",
        "storage: {backend: postgres, dsn: 'postgres://me:opensesame@host/db'}",
        "storage: redis://host/0?password=opensesame",
    ],
)
def test_a_secret_in_clear_is_refused_wherever_it_stands(line: str, read: Read) -> None:
    error = refused(read, f"model: demo\n{line}", A="x")
    assert "holds a secret in clear (write ${VAR} in its place" in str(error)
    assert SECRET not in str(error)


@pytest.mark.parametrize(
    "line",
    [
        "settings: {auth_token: '${A}'}",
        "settings: {headers: {authorization: 'Bearer ${A}'}}",
        "settings: {extra: {prompt_cache_key: team-7, max_tokens: 5}}",
        "settings: {proxy: 'http://me:${A}@proxy:80'}",
        "storage: postgresql://me:${A}@host/db",
        "storage: postgresql://me@host/db",
        "storage: ${A}://host",
    ],
)
def test_a_secret_by_reference_and_what_is_none_are_taken(line: str, read: Read) -> None:
    spec = read(f"model: demo\n{line}", A=SECRET)
    assert spec.settings or spec.storage


def test_a_spec_shows_no_secret(read: Read) -> None:
    text = "model: {provider: openai, key_env: A}\nstorage: postgresql://me:${A}@host/db"
    spec = read(text, A=SECRET)
    assert spec.settings == {"key": SECRET}
    assert repr(spec) == "AgentSpec(name='a', model='openai', settings=['key'], storage='postgresql')"
    assert str(spec) == repr(spec)
