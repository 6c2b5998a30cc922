"""Agents from files: YAML, TOML or JSON, one agent in it or several, as plain data that was checked.

    one agent           its fields at the top of the file
    several             `agents`, a list or a table by name, with what they share in `defaults`

Chronos's `agents.yaml` is such a file. What it may say that has no meaning here is refused where the agent
would do something else without it, and is named in a warning where not. A file is named by the user, so it
may set addresses; it imports nothing: tools are names.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path

from gnomon._trust import one_line, real_path
from gnomon.agent_files._fields import Named, merged, name_in, spec_from
from gnomon.agent_files._layer import Layer, read_layer, table_in, unused
from gnomon.agent_files._place import Found, Place, Table, is_list, is_table, unknown, wrong
from gnomon.agent_files._spec import AgentSpec, Made, OnChange, Permissions, WorkspaceSpec
from gnomon.agent_files._text import read_tables
from gnomon.errors import InvalidInput

__all__ = [
    "AgentSpec",
    "Made",
    "OnChange",
    "Permissions",
    "UnusedKey",
    "WorkspaceSpec",
    "read_agent",
    "read_agents",
]

_NO_EFFECT = {
    "teams": "each agent stands for itself",
    "skills_dir": "an agent names its folders in `skills`",
    "deployment": "tools run in this process",
    "sandbox": "an agent says where its commands run, in its own `sandbox`",
    "name": "it names a deployment",
}


class UnusedKey(UserWarning):
    """An agent file says something that has no effect here."""


def read_agent(
    path: Path | str, name: str | None = None, *, env: Mapping[str, str] | None = None
) -> AgentSpec:
    """The agent of that name or title, or the only one; the others are not looked into."""
    file = _File(path, env)
    spec = file.spec(_chosen(file, name))
    file.warn()
    return spec


def read_agents(path: Path | str, *, env: Mapping[str, str] | None = None) -> tuple[AgentSpec, ...]:
    """Every agent of the file, in its order."""
    file = _File(path, env)
    specs = tuple(file.spec(agent) for agent in file.agents)
    file.warn()
    return specs


class _File:
    """An agent file: who is in it, and what they share."""

    def __init__(self, path: Path | str, env: Mapping[str, str] | None) -> None:
        self.path = os.fspath(path)
        self._env = os.environ if env is None else env
        # Where the file was named: it may be a link into a folder that has nothing else beside it.
        self._folder = real_path(os.path.dirname(self.path) or ".")
        self._place = Place(self.path)
        self._remarks: list[str] = []
        self._defaults = Layer({}, [])
        table = read_tables(self.path)
        table.pop("$schema", None)  # for editors
        self.agents = self._several(table) if table.keys() & {"agents", "defaults"} else [self._one(table)]

    def _one(self, table: dict[str, object]) -> Named:
        key = (
            None if table.get("id") or table.get("name") else os.path.splitext(os.path.basename(self.path))[0]
        )
        return name_in(table, self._place, self._env, key)

    def _several(self, table: dict[str, object]) -> list[Named]:
        agents: list[Named] = []
        for name, value in table.items():
            found = Found(value, self._place.under(table, name))
            if name == "agents":
                agents = self._listed(found)
            elif name == "defaults":
                self._defaults = read_layer(_shared(found), found.place)
            elif name in _NO_EFFECT:
                self._remarks += unused(found, _NO_EFFECT[name])
            else:
                raise unknown(found.place, name, ("agents", "defaults", *_NO_EFFECT))
        if not agents:
            raise InvalidInput(f"{one_line(self.path)} has no agents in it", hint="list them under `agents`")
        _refuse_twins(agents)
        return agents

    def _listed(self, found: Found) -> list[Named]:
        value, place = found
        if is_table(value):
            places = [(key, Found(item, place.under(value, key))) for key, item in value.items()]
        elif is_list(value):
            places = [(None, Found(item, place.item(number))) for number, item in enumerate(value)]
        else:
            raise wrong(found, "a list of agents, or a table of them by name")
        return [name_in(table_in(item), _first_line(item), self._env, key) for key, item in places]

    def spec(self, agent: Named) -> AgentSpec:
        layer = merged(read_layer(agent.table, agent.place), self._defaults)
        spec = spec_from(agent, layer, self._env, self._folder)
        self._remarks += layer.remarks
        return spec

    def warn(self) -> None:
        for remark in dict.fromkeys(self._remarks):
            warnings.warn(remark, UnusedKey, stacklevel=3)


def _shared(found: Found) -> dict[str, object]:
    table = table_in(found)
    for name in ("id", "name"):
        if table.get(name):
            raise InvalidInput(f"{found.place.under(table, name)} cannot be shared: each agent has its own")
    return table


def _first_line(found: Found) -> Place:
    """A list does not say where its items stand, and the first key of one does."""
    lines = found.value.lines.values() if isinstance(found.value, Table) else ()
    return found.place._replace(line=min(lines, default=found.place.line))


def _refuse_twins(agents: list[Named]) -> None:
    seen: dict[str, Named] = {}
    for agent in agents:
        twin = seen.setdefault(agent.name.lower(), agent)
        if twin is not agent:
            raise InvalidInput(
                f"{agent.place} is called {agent.name!r}, as `{twin.place.key}` is",
                hint="names differ by more than capitals",
            )


def _chosen(file: _File, name: str | None) -> Named:
    names = ", ".join(one_line(agent.name, most=60) for agent in file.agents)
    if name is None:
        if len(file.agents) > 1:
            raise InvalidInput(f"{one_line(file.path)} has several agents: {names}", hint="name one of them")
        return file.agents[0]
    wanted = name.lower()
    found = [agent for agent in file.agents if agent.name.lower() == wanted]
    found += [agent for agent in file.agents if (agent.title or "").lower() == wanted]
    if not found:
        raise InvalidInput(
            f"{one_line(file.path)} has no agent called {one_line(name, most=60)!r}", hint=f"it has {names}"
        )
    return found[0]
