"""Which tools an agent of a file has, and whether anybody is asked before a call."""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.agent_files._kinds import PERMISSIONS, TOOL, converted
from gnomon.agent_files._layer import table_in, unused
from gnomon.agent_files._place import Found, is_list, unknown, wrong
from gnomon.agent_files._spec import Permissions
from gnomon.agent_files._values import filled
from gnomon.errors import ConfigError, InvalidInput

__all__ = ["permissions_from", "tools_from"]

_CHRONOS = {"auto-approve": "bypass", "prompt": "ask"}
"""Its words for modes."""
_LEAVE = {
    "permission": "allow, require_approval or deny",
    "requires_confirmation": "true or false",
    "requires_user_input": "true or false",
}
_WORDS = {
    "description": "a tool says itself what it is for",
    "parameters": "a tool says itself what it takes",
}


def permissions_from(found: Found | None, env: Mapping[str, str]) -> Permissions | None:
    if found is None:
        return None
    mode = filled(found, env)
    if isinstance(mode, str) and mode in _CHRONOS:
        found = found._replace(value=_CHRONOS[mode])
    return converted(found, PERMISSIONS, env)


def tools_from(
    found: Found | None, env: Mapping[str, str], remarks: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names, each once, and which of them need leave."""
    if found is None:
        return (), ()
    items = found.value
    if not is_list(items):
        raise wrong(found, "a list of tool names")
    names: list[str] = []
    asked: list[str] = []
    for number, item in enumerate(items):
        one = Found(item, found.place.item(number))
        name, asks = (
            (converted(one, TOOL, env), False) if isinstance(item, str) else _from_table(one, env, remarks)
        )
        if name in names:
            raise InvalidInput(f"{one.place} names the tool {name!r} a second time")
        names.append(name)
        asked += [name] if asks else []
    return tuple(names), tuple(asked)


def _from_table(found: Found, env: Mapping[str, str], remarks: list[str]) -> tuple[str, bool]:
    """The name of the tool, and whether a call of it needs leave."""
    asks = False
    table = table_in(found, "the name of a tool, or a table with `name`")
    for key, value in table.items():
        item = Found(value, found.place.under(table, key))
        if key in _WORDS:
            remarks.extend(unused(item, _WORDS[key]))
        elif key in _LEAVE:
            asks = _needs_leave(item, key) or asks
        elif key != "name":
            raise unknown(item.place, key, ("name", *_LEAVE, *_WORDS))
    return converted(Found(table.get("name"), found.place.under(table, "name")), TOOL, env), asks


def _needs_leave(found: Found, key: str) -> bool:
    is_permission = key == "permission"
    if found.value is None or found.value == ("allow" if is_permission else False):
        return False
    if is_permission and found.value == "deny":
        raise ConfigError(f"{found.place}: a tool that may not be called is left out of the list")
    if found.value != ("require_approval" if is_permission else True):
        raise wrong(found, _LEAVE[key], shown=True)
    if key == "requires_user_input":
        raise ConfigError(
            f"{found.place}: nobody can be asked for the arguments of a call", hint="leave the tool out"
        )
    return True
