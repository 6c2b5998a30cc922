"""What stands around an agent of a file: rules, guardrails, hooks, a compactor, other agents, skills."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gnomon._trust import real_path
from gnomon.agent_files._kinds import FILE, FLAG, NAME, TEXTS, TOOL, Kind, converted
from gnomon.agent_files._layer import table_in
from gnomon.agent_files._place import Found, is_list, is_table, unknown, wrong
from gnomon.agent_files._spec import Made, WorkspaceSpec
from gnomon.agent_files._values import filled, refuse_secrets
from gnomon.errors import InvalidInput

__all__ = ["folders_from", "made_from", "made_list_from", "memory_from", "names_from", "workspace_from"]


def made_list_from(found: Found | None, env: Mapping[str, str]) -> tuple[Made, ...]:
    """Guardrails or hooks, each by its name, or by a table with `name` and its settings."""
    return tuple(_made(item, env) for item in _items(found, "a list of names, or of tables with `name`"))


def made_from(found: Found | None, env: Mapping[str, str]) -> Made | None:
    return None if found is None else _made(found, env)


def names_from(found: Found | None, env: Mapping[str, str]) -> tuple[str, ...]:
    """Other agents of the file, each once."""
    names = [converted(item, NAME, env) for item in _items(found, "a list of names of agents")]
    if len(set(names)) < len(names):
        assert found is not None
        raise InvalidInput(f"{found.place} names an agent a second time")
    return tuple(names)


def folders_from(found: Found | None, env: Mapping[str, str], folder: str) -> tuple[str, ...]:
    """Folders with skills, counted from the file's own."""
    kind = Kind[str](FILE.type, "the path of a folder with skills")
    named = (converted(item, kind, env) for item in _items(found, "a list of folders with skills"))
    return tuple(_real(name, folder) for name in named)


def memory_from(found: Found | None, env: Mapping[str, str]) -> bool:
    return found is not None and converted(found, FLAG, env)


def workspace_from(found: Found | None, env: Mapping[str, str], folder: str) -> WorkspaceSpec | None:
    """A folder, counted from the file's own, or a table with `root` and what holds there."""
    if found is None:
        return None
    kind = Kind[str](FILE.type, "a folder, or a table with `root`")
    if not is_table(found.value):
        return WorkspaceSpec(root=_real(converted(found, kind, env), folder))
    items = {
        key: Found(value, found.place.under(found.value, key))
        for key, value in found.value.items()
        if value is not None
    }
    for key, item in items.items():
        if key not in WorkspaceSpec.__struct_fields__:
            raise unknown(item.place, key, WorkspaceSpec.__struct_fields__)
    root, read_only = items.get("root"), items.get("read_only")
    hosts, secrets = items.get("hosts"), items.get("secrets")
    return WorkspaceSpec(
        root=_real(converted(root, kind, env), folder) if root else None,
        read_only=read_only is not None and converted(read_only, FLAG, env),
        hosts=converted(hosts, TEXTS, env) if hosts else (),
        secrets=converted(secrets, TEXTS, env) if secrets else (),
    )


def _real(path: str, folder: str) -> str:
    return real_path(os.path.join(folder, os.path.expanduser(path)))


def _items(found: Found | None, expected: str) -> list[Found]:
    if found is None:
        return []
    if not is_list(found.value):
        raise wrong(found, expected)
    return [Found(item, found.place.item(number)) for number, item in enumerate(found.value)]


def _made(found: Found, env: Mapping[str, str]) -> Made:
    kind = Kind[str](TOOL.type, "a registered name: letters, digits, _ and -")
    if not is_table(found.value):
        return Made(name=converted(found, kind, env))
    table = table_in(found)
    name = converted(Found(table.get("name"), found.place.under(table, "name")), kind, env)
    settings = {key: value for key, value in table.items() if key != "name" and value is not None}
    for key, value in settings.items():
        item = Found(value, found.place.under(table, key))
        refuse_secrets(item, key)
        settings[key] = filled(item, env)
    return Made(name=name, settings=settings)
