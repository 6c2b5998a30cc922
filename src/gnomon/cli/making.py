"""The agent of the command: with what was typed and set, or as its session began."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import msgspec

from gnomon import config, registry
from gnomon.agent import Agent
from gnomon.cli.choice import DEMO, Choice, chosen, discovered, settings_for
from gnomon.cli.keeping import Place
from gnomon.cli.kept import AGENT, Kept, here
from gnomon.engine.budget import Budget
from gnomon.engine.permissions import Mode
from gnomon.errors import InvalidInput

if TYPE_CHECKING:
    from gnomon.cli.ask import Question
    from gnomon.types.records import SessionRecord

__all__ = [
    "HELPER",
    "Kit",
    "as_it_began",
    "command_agent",
    "going_on",
    "kept_of",
    "kit_as_it_began",
    "kit_for",
]

HELPER = "helper"
"""The sub-agent that the demo model has."""

_DEMO_TOOLS = ("calculate", "now", "save_note")
_RULES = ("allow spawn",)
"""To hand work on changes nothing: whoever does it asks for leave by itself."""
_RUNNER_LOGS = ("gnomon.driver", "gnomon.session")
"""What they would say on stderr is the command's own error, or no news to whoever typed it."""


class Kit(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent has to work with, and what it may do unasked."""

    tools: tuple[str, ...] = ()
    permissions: Mode = "bypass"
    has_helper: bool = False
    compactor: str | None = None
    workspace: str | None = None


def kit_for(question: Question, settings: config.Config, choice: Choice) -> Kit:
    """The tools that were named. The demo model, where none were, has some to show what can be done."""
    if settings.tools is None and registry.parse_model(choice.model).provider == DEMO:
        return Kit(tools=_DEMO_TOOLS, permissions=question.permissions or "ask", has_helper=True)
    return _with_tools(tuple(settings.tools or ()), question.permissions)


def _with_tools(tools: tuple[str, ...], permissions: Mode | None, began_in: str = "") -> Kit:
    """Tools of files and commands work in this folder; what they change is asked about, unless told."""
    from gnomon.tools.workspace import SupportsWorkspace

    if not any(isinstance(registry.load("tools", name), SupportsWorkspace) for name in tools):
        return Kit(tools=tools, permissions=permissions or "bypass")
    if began_in not in ("", here()):
        raise InvalidInput(f"the session began in {began_in!r}, where its tools work", hint="go there first")
    return Kit(tools=tools, permissions=permissions or "ask", workspace=_project(tools))


def _project(tools: tuple[str, ...]) -> str:
    """This folder, unless it is one that holds all that somebody has."""
    try:
        folder = os.path.realpath(os.getcwd())
    except OSError:
        raise InvalidInput("this folder was deleted", hint="go to one that is there") from None
    if folder in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise InvalidInput(
            f"{', '.join(tools)} would work in {folder!r}, with all that is yours in it",
            hint="go to the folder of a project first",
        )
    return folder


def kit_as_it_began(question: Question, settings: config.Config, choice: Choice, row: SessionRecord) -> Kit:
    """The kit of the session, but for what was typed now; `settings` are those that it began with."""
    kept = Kept.of(row.metadata)
    if kept.tools is None:
        return kit_for(question, settings, choice)
    kit = _with_tools(tuple(settings.tools or ()), question.permissions or kept.permissions, kept.cwd)
    return msgspec.structs.replace(kit, has_helper=kept.has_helper and not question.tool)


def command_agent(settings: config.Config, choice: Choice, kit: Kit, where: Place | None) -> Agent:
    """An agent that runs what was asked for and no other session: that would be paid for by nobody's wish."""
    for name in _RUNNER_LOGS:
        logging.getLogger(name).addHandler(logging.NullHandler())
    provider = registry.parse_model(choice.model).provider
    limits = {
        name: limit for name, limit in msgspec.structs.asdict(settings.budget).items() if limit is not None
    }
    own = {**settings_for(provider, settings), **choice.settings}
    return Agent(
        choice.model,
        name=AGENT,
        instructions=settings.system,
        tools=kit.tools,
        workspace=kit.workspace,
        storage=where.url if where is not None else None,
        permissions=kit.permissions,
        rules=_RULES if kit.has_helper else (),
        subagents=[_helper(settings, choice, kit, own)] if kit.has_helper else [],
        budget=Budget(**limits),
        adopt=False,
        settings=own,
        models=settings.models,
        compactor=kit.compactor,
    )


def _helper(settings: config.Config, choice: Choice, kit: Kit, own: dict[str, object]) -> Agent:
    """The same model with the same tools, in a session of its own; it hands nothing on."""
    return Agent(
        choice.model,
        name=HELPER,
        tools=kit.tools,
        permissions=kit.permissions,
        adopt=False,
        settings=own,
        models=settings.models,
    )


def kept_of(settings: config.Config, choice: Choice, kit: Kit) -> Kept:
    return Kept(
        cwd=here(),
        model=choice.model,
        tools=kit.tools,
        system=settings.system,
        permissions=kit.permissions if kit.workspace or kit.permissions != "bypass" else None,
        has_helper=kit.has_helper,
        is_discovered=bool(choice.settings),
    )


def going_on(
    question: Question,
    loaded: config.Config,
    row: SessionRecord,
    where: Place,
    *,
    compactor: str | None = None,
) -> Agent:
    """The agent that the session began with, but for what was typed now."""
    if row.agent_id != AGENT:
        raise InvalidInput(
            f"session {row.id!r} is of the agent {row.agent_id!r}, which this command does not know",
            hint="go on with it in the program that has this agent",
        )
    settings = as_it_began(question, loaded, row)
    choice = _choice(question, settings, Kept.of(row.metadata))
    kit = msgspec.structs.replace(kit_as_it_began(question, settings, choice, row), compactor=compactor)
    return command_agent(settings, choice, kit, where)


def as_it_began(question: Question, loaded: config.Config, row: SessionRecord) -> config.Config:
    """The settings that the session began with, but for what was typed now."""
    kept = Kept.of(row.metadata)
    return msgspec.structs.replace(
        loaded,
        model=question.model or kept.model or loaded.model,
        system=loaded.system if question.system is not None or kept.model is None else kept.system,
        tools=loaded.tools if question.tool or kept.tools is None else kept.tools,
    )


def _choice(question: Question, settings: config.Config, kept: Kept) -> Choice:
    if settings.model is None:
        return chosen(settings, os.environ)
    if kept.is_discovered and question.model is None:
        return discovered(settings.model, settings, os.environ)
    return Choice(settings.model, "as before")
