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

_MODES: dict[object, Permissions] = {
    "bypass": "bypass",
    "auto-approve": "bypass",  # Chronos's word for it
    "plan": "plan",
    "deny": "deny",
}
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
    if mode in ("ask", "prompt"):
        raise ConfigError(
            f"{found.place}: nobody can be asked before a call yet", hint="write bypass, plan or deny"
        )
    if not isinstance(mode, str) or mode not in _MODES:
        raise wrong(found, PERMISSIONS.expected, shown=True)
    return _MODES[mode]


def tools_from(
    found: Found | None, env: Mapping[str, str], remarks: list[str], *, asks_nobody: bool
) -> tuple[str, ...]:
    """The names, each once. `asks_nobody` is what the agent says of all its tools."""
    if found is None:
        return ()
    items = found.value
    if not is_list(items):
        raise wrong(found, "a list of tool names")
    names: list[str] = []
    for number, item in enumerate(items):
        one = Found(item, found.place.item(number))
        name = (
            converted(one, TOOL, env)
            if isinstance(item, str)
            else _from_table(one, env, remarks, asks_nobody)
        )
        if name in names:
            raise InvalidInput(f"{one.place} names the tool {name!r} a second time")
        names.append(name)
    return tuple(names)


def _from_table(found: Found, env: Mapping[str, str], remarks: list[str], asks_nobody: bool) -> str:
    table = table_in(found, "the name of a tool, or a table with `name`")
    for key, value in table.items():
        item = Found(value, found.place.under(table, key))
        if key in _WORDS:
            remarks.extend(unused(item, _WORDS[key]))
        elif key in _LEAVE:
            _check_leave(item, key, asks_nobody)
        elif key != "name":
            raise unknown(item.place, key, ("name", *_LEAVE, *_WORDS))
    return converted(Found(table.get("name"), found.place.under(table, "name")), TOOL, env)


def _check_leave(found: Found, key: str, asks_nobody: bool) -> None:
    """Refuses a leave that nobody would be asked for: to make the call all the same would be worse."""
    is_permission = key == "permission"
    if found.value is None or found.value == ("allow" if is_permission else False):
        return
    if is_permission and found.value == "deny":
        raise ConfigError(f"{found.place}: a tool that may not be called is left out of the list")
    if found.value != ("require_approval" if is_permission else True):
        raise wrong(found, _LEAVE[key], shown=True)
    if key == "requires_user_input" or not asks_nobody:
        hint = "leave the tool out"
        hint += (
            ""
            if key == "requires_user_input"
            else ", or write `permissions: bypass` to have no question asked"
        )
        raise ConfigError(f"{found.place}: nobody can be asked before a call yet", hint=hint)
