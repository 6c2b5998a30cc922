"""The agent as it is now: made to run again without doing anything, and compared with what it was."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from copy import copy
from datetime import datetime
from decimal import Decimal
from functools import cached_property

import msgspec

from gnomon.contracts.counter import SupportsLearning, TokenCounter
from gnomon.engine.accounts import Accounts
from gnomon.engine.definition import Definition
from gnomon.replay._answers import TapeProvider
from gnomon.replay._matching import Mismatch
from gnomon.replay._tape import Tape
from gnomon.replay._tools import recorded_tools
from gnomon.replay.provider import ReplayProvider
from gnomon.types.events import TurnStarted
from gnomon.types.messages import ToolDef
from gnomon.types.requests import Request, Response

__all__ = ["changes", "made_of"]

_PARAMETERS = (
    "tool_choice",
    "temperature",
    "top_p",
    "top_k",
    "max_tokens",
    "stop",
    "thinking",
    "output_schema",
)


def made_of(agent: Definition, tape: Tape) -> Definition:
    """The same agent, whose model and tools are those of the tape."""
    again = copy(agent)
    again.provider = TapeProvider(tape, name=agent.provider.name, model=agent.provider.model)
    again.tools = recorded_tools(agent.tools, tape)
    again.accounts = _QuietAccounts(agent.accounts)
    again.hooks = again.guards = again.context = None  # what stands around the loop is not run again
    again.sources = ()
    again.tells_anew = False
    if callable(agent.instructions):
        again.instructions = None
        tape.skip("the instructions are a function: what it said is not in the ledger", 0)
    return again


class _QuietAccounts(Accounts):
    """The accounts of an agent, which learn nothing from what was learned before."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    @cached_property
    def counter(self) -> TokenCounter:
        return self._accounts.counter

    @cached_property
    def learner(self) -> SupportsLearning | None:
        return self._accounts.learner

    def observe(self, request: Request, response: Response, now: float) -> None:
        pass

    def cost(self, response: Response, asked: str, when: datetime) -> Decimal | None:
        return self._accounts.cost(response, asked, when)


# --- what is defined otherwise ------------------------------------------------------


def changes(
    started: TurnStarted, agent: Definition, before: Definition | None, called: Sequence[str]
) -> Iterator[Mismatch]:
    """What is defined otherwise than when the turn began; `called` are the tools it has called since.

    `before` may be the definition of that time. Without it the ledger tells no more than that
    there is a change, where that is not of the name or the model.
    """
    if started.agent != agent.name:
        yield Mismatch("agent", "the agent has another name", started.agent, agent.name)
    if started.model != agent.model:
        yield Mismatch("model", "another model is asked", started.model, agent.model)
    same = _named_as(started, agent)
    if started.agent_hash in ("", same.hash):
        return
    gone = [name for name in called if agent.tools.get(name) is None]
    if before is not None and _named_as(started, before).hash == started.agent_hash:
        yield from _told_apart(_named_as(started, before), same)
    elif gone:
        yield from (Mismatch("tools", f"tool {name!r} is not offered any more", name) for name in gone)
    else:
        what = "the agent is defined otherwise: its instructions, tools, output, parameters or permissions"
        yield Mismatch("definition", what, started.agent_hash, same.hash)


def _named_as(started: TurnStarted, agent: Definition) -> Definition:
    """The agent under the name and with the model of that time."""
    provider, _, model = started.model.partition(":")
    again = copy(agent)
    again.name, again.provider = started.agent, ReplayProvider((), name=provider, model=model)
    again.__dict__.pop("hash", None)
    return again


def _told_apart(before: Definition, agent: Definition) -> Iterator[Mismatch]:
    was, now = _asking(before), _asking(agent)
    if was.system != now.system:
        lines = difflib.unified_diff(_lines(was.system), _lines(now.system), n=0, lineterm="")
        changed = " ".join(line for line in lines if not line.startswith(("---", "+++", "@@")))
        yield Mismatch("instructions", f"instructions changed: {changed}", was.system or "", now.system or "")
    yield from _tools_apart(was.tools, now.tools)
    for name in _PARAMETERS:
        if getattr(was, name) != getattr(now, name):
            yield Mismatch("parameters", f"{name} changed", *(_plain(getattr(it, name)) for it in (was, now)))
    if before.permissions != agent.permissions:
        yield Mismatch(
            "permissions", "permissions changed", _plain(before.permissions), _plain(agent.permissions)
        )


def _asking(agent: Definition) -> Request:
    told = agent.instructions
    return agent.request((), f"a function: {_name(told)}" if callable(told) else told)


def _name(function: object) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))


def _tools_apart(was: Sequence[ToolDef], now: Sequence[ToolDef]) -> Iterator[Mismatch]:
    before, after = ({tool.name: tool for tool in tools} for tools in (was, now))
    for name, tool in before.items():
        if name not in after:
            yield Mismatch("tools", f"tool {name!r} is not offered any more", name)
        elif tool != after[name]:
            both = (_plain(_apart(each, other)) for each, other in ((tool, after[name]), (after[name], tool)))
            yield Mismatch("tools", f"tool {name!r} is described otherwise", *both)
    for name in after:
        if name not in before:
            yield Mismatch("tools", f"tool {name!r} is new", "", name)
    if list(before) != list(after) and sorted(before) == sorted(after):
        yield Mismatch("tools", "the tools stand in another order", ", ".join(before), ", ".join(after))


def _apart(tool: ToolDef, other: ToolDef) -> dict[str, object]:
    fields: dict[str, object] = msgspec.structs.asdict(tool)
    return {name: value for name, value in fields.items() if value != getattr(other, name)}


def _lines(text: str | None) -> list[str]:
    return (text or "").splitlines()


def _plain(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
