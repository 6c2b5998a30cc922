"""Agents at work for another: each in a session of its own, while whoever asked for it holds nothing open.

A call of such a tool starts a session, under an id that follows from the call, and the turn is put
aside. When the session has ended, its outcome is written to the ledger of the one above, which goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from gnomon.contracts.tool import ToolContext, Touches
from gnomon.engine.budget import Budget
from gnomon.engine.definition import Definition
from gnomon.engine.turn import TurnState
from gnomon.errors import ConfigError, InvalidArguments, ToolFailed
from gnomon.types.events import SubagentFinished, SubagentStarted
from gnomon.types.messages import Meta, ToolCall, ToolResult

__all__ = [
    "CHILD",
    "ENDED",
    "MAX_DEPTH",
    "MAX_RUNNING",
    "TOO_DEEP",
    "Family",
    "Spawn",
    "Subagents",
    "Task",
    "check_names",
    "child_id",
    "family",
    "members",
    "outcome",
    "share_of",
    "task_of",
]

_N = TypeVar("_N", int, float)

CHILD = "sub_"
"""What the id of such a session begins with."""
MAX_DEPTH = 4
"""How deep sub-agents may go: the root is at 0."""
MAX_RUNNING = 8
"""How many sub-agents of one turn run at a time."""


ENDED = "the turn that it worked for has ended"
TOO_DEEP = f"sub-agents may not go deeper than {MAX_DEPTH}"


class Task(NamedTuple):
    """What is to be done, and by whom."""

    agent: Definition
    text: str


class Family(Protocol):
    """The sessions below one that is run, and its place among them."""

    @property
    def depth(self) -> int: ...

    async def start(self, started: SubagentStarted, task: Task, budget: Budget) -> None:
        """Have a sub-agent work; one that was started before goes on."""
        ...

    async def cancel(self, session_ids: Sequence[str], reason: str) -> None:
        """End what they do."""
        ...


class Subagents:
    """A tool behind which other agents work. With one, the task is all there is to say."""

    read_only = False
    destructive = False
    idempotent = False

    def __init__(self, agents: Sequence[Definition], name: str, description: str) -> None:
        self.name = name
        self.description = description
        self.agents = {agent.name: agent for agent in agents}
        if len(self.agents) < len(agents):
            raise ConfigError("two sub-agents have the same name", hint="give one Agent(name=…) another")

    @property
    def parameters(self) -> Meta:
        task: Meta = {
            "type": "string",
            "description": "what is to be done, with all that has to be known for it",
        }
        if len(self.agents) == 1:
            return _object({"task": task})
        who: Meta = {"type": "string", "enum": list(self.agents), "description": "who is to do it"}
        return _object({"agent": who, "task": task})

    def touches(self, arguments: str) -> Touches:
        """Nothing by itself: what its agents call is judged by their own rules."""
        return Touches()

    def task(self, arguments: str) -> Task:
        """Who is asked for what; `InvalidArguments` says what is wrong."""
        try:
            asked = msgspec.json.decode(arguments or "{}", type=_Asked)
        except msgspec.DecodeError as error:
            raise InvalidArguments(f"{self.name}: {error}") from None
        if not asked.task.strip():
            raise InvalidArguments(f"{self.name}: the task is empty")
        chosen = asked.agent if len(self.agents) > 1 else next(iter(self.agents))
        agent = self.agents.get(chosen)
        if agent is None:
            raise InvalidArguments(
                f"{self.name}: there is no agent {chosen!r}; there are {', '.join(self.agents)}"
            )
        return Task(agent, asked.task)

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        """Never by itself: whoever runs the calls starts a session."""
        raise ToolFailed(f"{self.name} starts a session, which only a run of an agent can")


class _Asked(msgspec.Struct):
    task: str
    agent: str = ""


class Spawn(NamedTuple):
    """A call that a sub-agent is to see to."""

    started: SubagentStarted
    task: Task


def _object(properties: Meta) -> Meta:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def members(agent: Definition) -> Iterator[Definition]:
    """The agents that may work for this one, directly."""
    for name in agent.tools.names:
        tool = agent.tools.get(name)
        if isinstance(tool, Subagents):
            yield from tool.agents.values()


def family(agent: Definition) -> Iterator[Definition]:
    """The agents that may work for this one, and those that may work for them."""
    for member in members(agent):
        yield member
        yield from family(member)


def check_names(agent: Definition) -> None:
    """Raises `ConfigError` where two of them have one name: by it a session is gone on with."""
    known = {agent.name: agent}
    for each in family(agent):
        if known.setdefault(each.name, each) is not each:
            raise ConfigError(
                f"two agents that work together are called {each.name!r}: a session is known by that name",
                hint="give each an Agent(name=…) of its own",
            )


def task_of(turn: TurnState, agent: Definition, call_id: str) -> Task | None:
    """What is to be done for a call of the turn; `None` where the agent has no such tool any more."""
    call = next((call for call in turn.calls if call.id == call_id), None)
    tool = agent.tools.get(call.name) if call is not None else None
    if call is None or not isinstance(tool, Subagents):
        return None
    try:
        return tool.task(call.arguments)
    except InvalidArguments:
        return None


def child_id(key: str) -> str:
    """The id of the session that sees to the call of that key: the same, however often it is started."""
    return f"{CHILD}{sha256(f'subagent {key}'.encode()).hexdigest()[:32]}"


def share_of(
    budget: Budget, agent: Budget, turn: TurnState, count: int, seconds: float | None = None
) -> Budget:
    """What one of so many may use: no more than its own budget, and its part of what is left above.

    They work side by side, so each may have all the `seconds` that are left; those of the budget, where
    the turn above does not run.
    """
    left = budget.seconds if seconds is None else seconds
    tokens = (
        None if budget.tokens is None else max(budget.tokens - (turn.usage.total_tokens or 0), 1) // count
    )
    cost = None
    if budget.cost is not None and turn.cost is not None:
        cost = max(budget.cost - float(turn.cost), 1e-9) / count
    return Budget(
        rounds=agent.rounds,
        tokens=_least(agent.tokens, None if tokens is None else max(tokens, 1)),
        seconds=_least(agent.seconds, None if left is None else max(left, 1e-3)),
        cost=_least(agent.cost, cost),
    )


def _least(one: _N | None, other: _N | None) -> _N | None:
    if one is None or other is None:
        return one if other is None else other
    return min(one, other)


def outcome(call: ToolCall, finished: SubagentFinished) -> ToolResult:
    """What a sub-agent came to, as the model of the one above is told."""
    match finished.status:
        case "finished":
            return ToolResult.of(call, finished.output or "(it ended without a word)")
        case "budget":
            text = f"it reached a limit before it was done; so far: {finished.output}"
            return ToolResult.of(call, text)
        case "cancelled":
            return ToolResult.of(call, f"cancelled; so far: {finished.output}", status="cancelled")
        case "failed":
            why = finished.error.message if finished.error is not None else "it failed"
            return ToolResult.of(call, f"it failed: {why}", status="error")
