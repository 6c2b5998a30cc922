"""What one table of an agent file sets: an agent's, or the defaults under it.

Every key of ours and of Chronos's `agents.yaml` stands here once: with the field it sets, with the reason
why it is refused, or with what is said when it has no effect. Nothing is passed over in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gnomon.agent_files._place import Found, Place, is_table, unknown, wrong
from gnomon.errors import ConfigError, InvalidInput

__all__ = ["Layer", "read_layer", "table_in", "unused"]

_FIELDS = {
    "description": "description",
    "instructions": "instructions",
    "instructions_file": "prompt_file",
    "system": "prompt",
    "system_prompt": "prompt",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "tools": "tools",
    "workspace": "workspace",
    "sandbox": "sandbox",
    "permissions": "permissions",
    "permission_mode": "permissions",
    "rules": "rules",
    "approval_timeout_s": "approval_timeout_s",
    "guardrails": "guardrails",
    "hooks": "hooks",
    "compactor": "compactor",
    "context_tokens": "context_tokens",
    "subagents": "subagents",
    "sub_agents": "subagents",
    "skills": "skills",
    "memory": "memory",
    "on_change": "on_change",
    "output_schema": "output_schema",
}
_MODEL = {
    "provider": "provider",
    "model": "model",
    "temperature": "temperature",
    "max_tokens": "max_tokens",
    "base_url": "setting base_url",
    "endpoint": "setting endpoint",
    "deployment": "setting deployment",
    "api_version": "setting api_version",
    "org_id": "setting organization",
    "timeout_sec": "setting total_s",
    "key": "key",
    "api_key": "key",
    "key_env": "key_env",
}
_BUDGET = {name: f"budget {name}" for name in ("rounds", "tokens", "cost", "seconds")}
_THINKING = {"effort": "effort", "budget_tokens": "thinking_tokens"}
_STORAGE = {"backend": "backend", "dsn": "dsn", "url": "url"}
_NAMES = ("id", "name")

_NOT_YET = {
    "mcp_servers": "tools of MCP servers cannot be used yet",
    "graph": "graphs are not run",
    "use_skills": "skills are not chosen by name; their folders stand in `skills`",
    "knowledge": "knowledge cannot be set in a file yet",
}
"""Without these the agent would do other things than the file says."""

_NO_EFFECT = {
    "user_id": "whose a session is, is said where the session is made",
    "capabilities": "nothing chooses between agents by them",
    "stream": "every run can be streamed",
    "debug": "it has no meaning here",
    "tracing": "the ledger of a session keeps every step",
    "durable": "a session survives when the agent has a store",
    "num_history_runs": "a session remembers all of its turns",
    "context": "`compactor` and `context_tokens` say it",
}
_NO_EFFECT_REASONING = {
    "strategy": "say in `instructions` how to think",
    "summary": "it is a setting of the provider",
}
_NO_EFFECT_STORAGE: dict[str, str] = dict.fromkeys(
    ("max_open_conns", "max_idle_conns", "conn_max_lifetime_sec"), "a store looks after its connections"
)


class Layer(NamedTuple):
    """Field → what the file says, and remarks about keys that have no effect."""

    fields: dict[str, Found]
    remarks: list[str]

    def put(self, field: str, found: Found) -> None:
        if field in self.fields:
            raise ConfigError(f"{found.place} says the same as `{self.fields[field].place.key}`: keep one")
        self.fields[field] = found


def read_layer(table: dict[str, object], place: Place) -> Layer:
    """The table with each key in its field; values are looked at when they are used."""
    layer = Layer({}, [])
    for name, value in table.items():
        found = Found(value, place.under(table, name))
        if value is None or name in _NAMES:
            continue
        if name in _FIELDS:
            layer.put(_FIELDS[name], found)
        elif name in _PARTS:
            _PARTS[name](layer, found)
        elif name in _NOT_YET:
            _refuse(found, _NOT_YET[name])
        elif name in _NO_EFFECT:
            layer.remarks.extend(unused(found, _NO_EFFECT[name]))
        else:
            known = (*_NAMES, *_FIELDS, *_PARTS, *_NOT_YET, *_NO_EFFECT)
            raise unknown(found.place, name, known)
    return layer


def unused(found: Found, why: str) -> list[str]:
    """A remark, unless it is switched off anyway."""
    return [f"{found.place} has no effect: {why}"] if found.value else []


def table_in(found: Found, expected: str = "a table") -> dict[str, object]:
    table = found.value
    if not is_table(table):
        raise wrong(found, expected)
    return table


def _refuse(found: Found, why: str) -> None:
    if found.value:
        raise ConfigError(f"{found.place}: {why}", hint="leave it out")


# --- the tables in it -----------------------------------------------------------


def _spread(
    layer: Layer, found: Found, fields: dict[str, str], *, ignored: Iterable[str] = (), otherwise: str = ""
) -> None:
    """Each key of the table in its field; an unknown one is refused."""
    table = table_in(found)
    for name, value in table.items():
        place = found.place.under(table, name)
        if name in fields:
            if value is not None:
                layer.put(fields[name], Found(value, place))
        elif name not in ignored:
            raise unknown(place, name, fields, otherwise=otherwise)


def _remark(layer: Layer, found: Found, reasons: dict[str, str]) -> None:
    table = table_in(found)
    for name in reasons.keys() & table.keys():
        item = Found(table[name], found.place.under(table, name))
        if item.value != "none":  # a strategy of that name is none
            layer.remarks.extend(unused(item, reasons[name]))


def _model(layer: Layer, found: Found) -> None:
    if not isinstance(found.value, str):
        otherwise = "what only the provider knows stands in `settings`, beside `model`"
        table_in(found, 'a model such as "openai:gpt-5", or a table with `provider` and `model`')
        _spread(layer, found, _MODEL, otherwise=otherwise)
        return
    provider, _, model = _cut(found.value)
    layer.put("provider", Found(provider, found.place))
    if model:
        layer.put("model", Found(model, found.place))


def _cut(text: str) -> tuple[str, str, str]:
    """`provider:model`; a colon inside `${VAR:-default}` is none of that."""
    if text.strip().startswith("${"):
        return text.strip(), "", ""
    cut = min((at for at in (text.find(":"), text.find("/")) if at >= 0), default=len(text))
    return text[:cut].strip(), text[cut : cut + 1], text[cut + 1 :].strip()


def _settings(layer: Layer, found: Found) -> None:
    """Free, because only the provider knows them; it refuses what it does not know."""
    table = table_in(found)
    for name, value in table.items():
        item = Found(value, found.place.under(table, name))
        if name == "model":
            raise InvalidInput(f"{item.place} is set by `model` beside `settings`")
        if value is not None:
            layer.put(name if name in ("key", "key_env") else f"setting {name}", item)


def _budget(layer: Layer, found: Found) -> None:
    _spread(layer, found, _BUDGET)


def _storage(layer: Layer, found: Found) -> None:
    if isinstance(found.value, str):
        layer.put("url", found)
        return
    table_in(found, "the URL of a store, or a table with `backend` and `dsn`")
    _spread(layer, found, _STORAGE, ignored=_NO_EFFECT_STORAGE)
    _remark(layer, found, _NO_EFFECT_STORAGE)


def _thinking(layer: Layer, found: Found) -> None:
    if isinstance(found.value, str):
        layer.put("effort", found)
    else:
        table_in(found, "an effort such as low, or a table with `effort` or `budget_tokens`")
        _spread(layer, found, _THINKING)


def _reasoning(layer: Layer, found: Found) -> None:
    _spread(layer, found, {**_THINKING, "native": "native"}, ignored=_NO_EFFECT_REASONING)
    _remark(layer, found, _NO_EFFECT_REASONING)


_PARTS: dict[str, Callable[[Layer, Found], None]] = {
    "model": _model,
    "settings": _settings,
    "budget": _budget,
    "storage": _storage,
    "thinking": _thinking,
    "reasoning": _reasoning,
}
