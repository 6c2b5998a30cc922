"""What an agent is, once every name in it has become an object."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Literal, TypeAlias

import msgspec

from gnomon.contracts.hook import Hook, Step, SupportsAround
from gnomon.contracts.provider import Provider
from gnomon.contracts.tool import DEFAULT_TIMEOUT_S as DEFAULT_TOOL_TIMEOUT_S
from gnomon.contracts.tool import (
    SupportsEffects,
    SupportsLookup,
    SupportsOutputCap,
    SupportsProgress,
    SupportsTimeout,
    SupportsTouches,
    SupportsUnknown,
    Tool,
    Touches,
)
from gnomon.engine.accounts import Accounts
from gnomon.engine.answer import Answer
from gnomon.engine.budget import Budget
from gnomon.engine.context import Context
from gnomon.engine.guards import Guards
from gnomon.engine.instructions import Instructions, Source
from gnomon.engine.permissions import Mode, Rule, Verdict, decide
from gnomon.errors import ConfigError
from gnomon.stream import PullStream
from gnomon.types.events import RunEvent
from gnomon.types.messages import Message, ToolCall, ToolDef
from gnomon.types.requests import Reasoning, Request
from gnomon.types.steps import HookEvent

__all__ = [
    "DEFAULT_OUTPUT_CHARS",
    "DEFAULT_TOOL_TIMEOUT_S",
    "Around",
    "Definition",
    "OnChange",
    "Permissions",
    "Toolbox",
    "Traits",
]

OnChange: TypeAlias = Literal["continue", "pause", "refuse"]
"""What becomes of an open turn that began under another definition of its agent."""

Permissions: TypeAlias = Mode
"""Which calls run, and which are asked about first."""

Around: TypeAlias = Callable[[HookEvent, Step], Awaitable[PullStream[RunEvent]]]
"""What a hook does around a step."""

DEFAULT_OUTPUT_CHARS = 30_000
"""How much of a result a model is shown when its tool does not say."""


class Traits(msgspec.Struct, frozen=True):
    """What a tool offers, asked once: such a question costs more than a call."""

    timeout_s: float
    output_chars: int
    idempotent: bool
    lookup: SupportsLookup | None
    progress: SupportsProgress | None
    touches: SupportsTouches | None
    tell_unknown: bool


class Toolbox:
    """The tools of an agent, by name, and what a model is told of them."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ConfigError(f"two tools are called {tool.name!r}", hint="give one another name")
            self._tools[tool.name] = tool
        self._traits = {name: _traits(tool) for name, tool in self._tools.items()}
        self._definitions = {name: _definition(tool) for name, tool in self._tools.items()}
        self.definitions = tuple(self._definitions.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    @property
    def touching(self) -> frozenset[str]:
        """The names of those that say what a call would touch."""
        return frozenset(name for name, traits in self._traits.items() if traits.touches is not None)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def definition(self, tool: Tool) -> ToolDef:
        """What is known of a tool, also of one that is not the agent's own."""
        found = self._definitions.get(tool.name)
        return found if found is not None else _definition(tool)

    def traits(self, tool: Tool) -> Traits:
        found = self._traits.get(tool.name)
        return found if found is not None else _traits(tool)


class Definition:
    """Everything a turn needs to know of its agent. Does not change while a turn runs."""

    def __init__(
        self,
        *,
        name: str,
        provider: Provider,
        tools: Toolbox,
        budget: Budget,
        accounts: Accounts,
        instructions: Instructions | None = None,
        answer: Answer | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        permissions: Permissions = "bypass",
        rules: Sequence[Rule] = (),
        approval_timeout_s: float | None = None,
        on_change: OnChange = "continue",
        deps: object = None,
        hooks: Hook | None = None,
        guards: Guards | None = None,
        context: Context | None = None,
        sources: Sequence[Source] = (),
    ) -> None:
        self.name = name
        self.provider = provider
        self.tools = tools
        self.budget = budget
        self.accounts = accounts
        self.instructions = instructions
        self.answer = answer
        self.permissions: Permissions = permissions
        self.rules = tuple(rules)
        self.approval_timeout_s = approval_timeout_s
        self.may_ask = permissions in ("ask", "accept_edits") or any(
            rule.may_ask for rule in rules if permissions != "bypass"
        )
        """Whether a call may have to wait for leave, so that a run must be one that can."""
        self._looks = permissions == "accept_edits" or any(rule.touch_where for rule in rules)
        """Whether it matters what a call touches."""
        self.on_change: OnChange = on_change
        self.deps = deps
        self.hooks = hooks
        self.around = _around(hooks)
        self.guards = guards
        self.context = context
        self.sources = tuple(sources)
        self.tells_anew = callable(instructions) or bool(sources)
        """Whether what a model is told first is found out in each turn."""
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._thinking = thinking

    @property
    def model(self) -> str:
        return f"{self.provider.name}:{self.provider.model}"

    @cached_property
    def hash(self) -> str:
        """The same for agents that are defined alike. What a function does is not looked into."""
        told = self.instructions
        if callable(told):
            told = f"{getattr(told, '__module__', '')}.{getattr(told, '__qualname__', type(told).__name__)}"
        parts = (
            self.name,
            self.model,
            told,
            self.tools.definitions,
            self.answer.schema if self.answer is not None else None,
            self._temperature,
            self._max_tokens,
            self._thinking,
            self.permissions,
        )
        return sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:32]

    def verdict(self, call: ToolCall, tool: Tool, learned: Sequence[str] = ()) -> Verdict | None:
        """What becomes of a call; `None` where all runs. `learned` are rules that were saved since."""
        if self.permissions == "bypass" and not self.rules:
            return None
        rules = (*self.rules, *map(Rule.parse, learned)) if learned else self.rules
        touches = _touched(self.tools.traits(tool), call) if self._looks else None
        return decide(self.permissions, rules, self.tools.definition(tool), call.arguments, touches)

    def request(
        self, messages: Sequence[Message], system: str | None = None, extra: tuple[ToolDef, ...] = ()
    ) -> Request:
        """The next question to the model: the whole conversation, and every tool, every time."""
        answer = self.answer
        if answer is not None:
            extra = (*extra, *answer.tools)
        return Request(
            messages=tuple(messages),
            model=self.provider.model,
            system=system,
            tools=(*self.tools.definitions, *extra) if extra else self.tools.definitions,
            tool_choice=answer.tool_choice if answer is not None else None,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            thinking=self._thinking,
            output_schema=answer.native_schema if answer is not None else None,
        )


def _touched(traits: Traits, call: ToolCall) -> Touches | None:
    """What a call would touch, as its tool says it; `None` where it does not say."""
    if traits.touches is None:
        return None
    try:
        return traits.touches.touches(call.arguments)
    except Exception as error:  # noqa: BLE001 - of somebody else: in a doubt it is asked, and not broken
        return Touches(unknown=f"it cannot be told what this call would touch: {type(error).__name__}")


def _around(hook: Hook | None) -> Around | None:
    """What the hook does around a step; `None` also for a chain of which none does."""
    return hook.around if isinstance(hook, SupportsAround) and getattr(hook, "is_around", True) else None


def _traits(tool: Tool) -> Traits:
    limit = tool.timeout_s if isinstance(tool, SupportsTimeout) else None
    cap = tool.max_output_chars if isinstance(tool, SupportsOutputCap) else None
    return Traits(
        timeout_s=DEFAULT_TOOL_TIMEOUT_S if limit is None else limit,
        output_chars=DEFAULT_OUTPUT_CHARS if cap is None else cap,
        idempotent=isinstance(tool, SupportsEffects) and tool.idempotent,
        lookup=tool if isinstance(tool, SupportsLookup) else None,
        progress=tool if isinstance(tool, SupportsProgress) else None,
        touches=tool if isinstance(tool, SupportsTouches) else None,
        tell_unknown=isinstance(tool, SupportsUnknown) and tool.on_unknown == "tell",
    )


def _definition(tool: Tool) -> ToolDef:
    effects = tool if isinstance(tool, SupportsEffects) else None
    return ToolDef(
        name=tool.name,
        description=tool.description,
        schema=tool.parameters,
        read_only=tool.read_only,
        destructive=effects.destructive if effects else False,
        idempotent=effects.idempotent if effects else False,
    )
