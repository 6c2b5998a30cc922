"""What an agent is, once every name in it has become an object."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gnomon.contracts.provider import Provider
from gnomon.contracts.tool import DEFAULT_TIMEOUT_S as DEFAULT_TOOL_TIMEOUT_S
from gnomon.contracts.tool import SupportsEffects, SupportsTimeout, Tool
from gnomon.engine.accounts import Accounts
from gnomon.engine.budget import Budget
from gnomon.errors import ConfigError
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Reasoning, Request

__all__ = ["DEFAULT_TOOL_TIMEOUT_S", "Definition", "Toolbox"]


class Toolbox:
    """The tools of an agent, by name, and what a model is told of them."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._tools:
                raise ConfigError(f"two tools are called {tool.name!r}", hint="give one another name")
            self._tools[tool.name] = tool
        # What a tool offers is asked once, here: such a question costs more than a call.
        self._limits = {name: _limit_s(tool) for name, tool in self._tools.items()}
        self.definitions = tuple(_definition(tool) for tool in self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def timeout_s(self, tool: Tool) -> float:
        return self._limits[tool.name]


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
        instructions: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        deps: object = None,
    ) -> None:
        self.name = name
        self.provider = provider
        self.tools = tools
        self.budget = budget
        self.accounts = accounts
        self.instructions = instructions
        self.deps = deps
        self._temperature = temperature
        self._max_tokens = max_tokens
        self._thinking = thinking

    @property
    def model(self) -> str:
        return f"{self.provider.name}:{self.provider.model}"

    def request(self, messages: Sequence[Message]) -> Request:
        """The next question to the model: the whole conversation, and every tool, every time."""
        return Request(
            messages=tuple(messages),
            model=self.provider.model,
            system=self.instructions,
            tools=self.tools.definitions,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            thinking=self._thinking,
        )


def _limit_s(tool: Tool) -> float:
    limit = tool.timeout_s if isinstance(tool, SupportsTimeout) else None
    return DEFAULT_TOOL_TIMEOUT_S if limit is None else limit


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
