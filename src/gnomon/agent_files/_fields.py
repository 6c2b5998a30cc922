"""The layers of one agent → its `AgentSpec`: each field filled in and of the right kind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple, TypeVar, cast

from gnomon._trust import real_path
from gnomon.agent_files import _kinds as kinds
from gnomon.agent_files._around import (
    folders_from,
    made_from,
    made_list_from,
    memory_from,
    names_from,
    workspace_from,
)
from gnomon.agent_files._kinds import Kind, converted
from gnomon.agent_files._layer import Layer, table_in
from gnomon.agent_files._place import Found, Place, wrong
from gnomon.agent_files._spec import AgentSpec
from gnomon.agent_files._stores import store_url
from gnomon.agent_files._text import read_text
from gnomon.agent_files._tools import permissions_from, tools_from
from gnomon.agent_files._values import filled, keep, key_from, key_of_variable, plain, refuse_secrets
from gnomon.errors import ConfigError, InvalidInput
from gnomon.types.requests import Reasoning

__all__ = ["Named", "merged", "name_in", "spec_from"]

_T = TypeVar("_T")

_PROVIDERS = {"google": "gemini", "custom": "compatible"}
"""Names of Chronos that are others here."""


class Named(NamedTuple):
    """An agent of the file, by what it is called."""

    name: str
    title: str | None
    table: dict[str, object]
    place: Place


def name_in(table: dict[str, object], place: Place, env: Mapping[str, str], key: str | None = None) -> Named:
    """`id`, or the key it stands under, or `name`; a `name` beside one of those is its title."""
    said = {
        part: converted(Found(table[part], place.under(table, part)), kinds.NAME, env)
        for part in ("id", "name")
        if table.get(part) is not None
    }
    name = said.get("id") or (key and converted(Found(key, place), kinds.NAME, {})) or said.get("name")
    if name is None:
        raise InvalidInput(f"{_about(place)}has no name", hint="write `name` into it")
    title = said.get("name")
    return Named(name, title if title != name else None, table, place)


def _about(place: Place) -> str:
    """How a sentence about all of an agent begins, which may be all of a file."""
    return f"{place} " if place.key else f"{place}: the agent "


def merged(own: Layer, defaults: Layer) -> Layer:
    """The agent's fields over the defaults. Nothing of one provider or store is handed to another."""
    under = dict(defaults.fields)
    if _differs("provider", own, under):
        under = {name: found for name, found in under.items() if not _is_of_the_provider(name)}
    if "url" in own.fields or _differs("backend", own, under):
        under = {name: found for name, found in under.items() if name not in ("backend", "dsn", "url")}
    if "key" in own.fields or "key_env" in own.fields:
        under = {name: found for name, found in under.items() if name not in ("key", "key_env")}
    if "prompt" in own.fields or "prompt_file" in own.fields:
        under = {name: found for name, found in under.items() if name not in ("prompt", "prompt_file")}
    return Layer({**under, **own.fields}, [*defaults.remarks, *own.remarks])


def _differs(field: str, own: Layer, under: Mapping[str, Found]) -> bool:
    return field in own.fields and (field not in under or own.fields[field].value != under[field].value)


def _is_of_the_provider(field: str) -> bool:
    return field in ("provider", "model", "key", "key_env") or field.startswith("setting ")


def spec_from(named: Named, layer: Layer, env: Mapping[str, str], folder: str) -> AgentSpec:
    """The agent, with every reference in it filled in."""
    fields, reader = layer.fields, _Reader(named, layer, env, folder)
    tools, asked = tools_from(fields.get("tools"), env, layer.remarks)
    permissions = permissions_from(fields.get("permissions"), env)
    if asked and permissions is None:
        permissions = "auto"  # where nothing else is said, all runs but what needs leave
    return AgentSpec(
        name=named.name,
        title=named.title,
        description=reader.one("description", kinds.TEXT),
        model=reader.model(),
        settings=reader.settings(),
        instructions=reader.instructions(),
        tools=tools,
        workspace=workspace_from(fields.get("workspace"), env, folder),
        sandbox=made_from(fields.get("sandbox"), env),
        budget=reader.budget(),
        temperature=reader.one("temperature", kinds.TEMPERATURE),
        max_tokens=reader.one("max_tokens", kinds.TOKENS),
        thinking=reader.thinking(),
        storage=store_url(fields, env, folder),
        permissions=permissions,
        rules=(*(reader.one("rules", kinds.LINES) or ()), *(f"ask {name}" for name in asked)),
        approval_timeout_s=reader.one("approval_timeout_s", kinds.SECONDS),
        guardrails=made_list_from(fields.get("guardrails"), env),
        hooks=made_list_from(fields.get("hooks"), env),
        compactor=made_from(fields.get("compactor"), env),
        context_tokens=reader.one("context_tokens", kinds.TOKENS),
        subagents=names_from(fields.get("subagents"), env),
        skills=folders_from(fields.get("skills"), env, folder),
        memory=memory_from(fields.get("memory"), env),
        on_change=reader.one("on_change", kinds.ON_CHANGE),
        output_schema=reader.output_schema(),
    )


class _Reader:
    """The fields of one agent, one method for each that is more than a value."""

    def __init__(self, named: Named, layer: Layer, env: Mapping[str, str], folder: str) -> None:
        self._named = named
        self._fields = layer.fields
        self._env = env
        self._folder = folder

    def one(self, field: str, kind: Kind[_T]) -> _T | None:
        found = self._fields.get(field)
        return None if found is None else converted(found, kind, self._env)

    def model(self) -> str:
        provider, model = self.one("provider", kinds.PROVIDER), self.one("model", kinds.MODEL)
        if provider is None:
            hint = "write `model: openai:gpt-5`, or `provider` and `model` in a table"
            raise InvalidInput(f"{_about(self._named.place)}has no model", hint=hint)
        if model is not None and (":" in provider or "/" in provider):
            raise wrong(self._fields["provider"], "the name of a provider alone, with the model beside it")
        provider = _PROVIDERS.get(provider.lower(), provider)
        return provider if model is None else f"{provider}:{model}"

    def settings(self) -> dict[str, object]:
        settings: dict[str, object] = {}
        for field, found in self._fields.items():
            if field.startswith("setting "):
                name = field.removeprefix("setting ")
                refuse_secrets(found, name)
                settings[name] = filled(found, self._env)
        key = self._key()
        return settings if key is None else {**settings, "key": key}

    def _key(self) -> str | None:
        key, variable = self._fields.get("key"), self._fields.get("key_env")
        if key and variable:
            raise ConfigError(f"{variable.place} says the same as `{key.place.key}`: keep one")
        if key:
            return key_from(key, self._env)
        return key_of_variable(variable, self._env) if variable else None

    def instructions(self) -> str | None:
        prompt, file = self._fields.get("prompt"), self._fields.get("prompt_file")
        if prompt and file:
            raise ConfigError(f"{file.place} says the same as `{prompt.place.key}`: keep one")
        parts = [self.one("prompt", kinds.TEXT) or "", self._prompt_file(), "\n".join(self._rules())]
        return "\n\n".join(part for text in parts if (part := text.strip())) or None

    def _prompt_file(self) -> str:
        """Its text is taken as it stands: a `${` in it is a plain one."""
        name = self.one("prompt_file", kinds.FILE)
        if name is None:
            return ""
        return read_text(real_path(os.path.join(self._folder, os.path.expanduser(name))))

    def _rules(self) -> list[str]:
        found = self._fields.get("instructions")
        if found is None:
            return []
        if isinstance(found.value, list):
            return converted(found, kinds.RULES, self._env)
        return [converted(found, Kind[str](kinds.TEXT.type, kinds.RULES.expected), self._env)]

    def budget(self) -> dict[str, int | float]:
        read = {name: self.one(f"budget {name}", kind) for name, kind in kinds.BUDGET.items()}
        return {name: value for name, value in read.items() if value is not None}

    def thinking(self) -> Reasoning | None:
        native = self.one("native", kinds.FLAG)
        effort, tokens = self.one("effort", kinds.EFFORT), self.one("thinking_tokens", kinds.TOKENS)
        if native is False or (native is None and effort is None and tokens is None):
            return None
        if effort is None and tokens is None:
            effort = "medium"
        return Reasoning(effort=effort, budget_tokens=tokens)

    def output_schema(self) -> dict[str, object] | None:
        """As it stands: `$` means something else in a schema."""
        found = self._fields.get("output_schema")
        if found is None:
            return None
        table_in(found, "a table, with a JSON Schema in it")
        return cast("dict[str, object]", plain(found, keep)) or None
