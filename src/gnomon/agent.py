"""The front door: names or objects in, an `Agent` out. The only place that wires."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self, TypeAlias, cast

from gnomon import registry
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.provider import Provider
from gnomon.contracts.tool import Tool
from gnomon.engine.accounts import Accounts
from gnomon.engine.budget import Budget
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition, Toolbox
from gnomon.engine.run import Run
from gnomon.errors import ConfigError
from gnomon.facts.catalogue import Catalogue
from gnomon.tools.function import FunctionTool
from gnomon.types.messages import Content, Message, Part, as_parts
from gnomon.types.requests import Reasoning
from gnomon.types.steps import Turn

__all__ = ["Agent", "Prompt", "ToolLike"]

Prompt: TypeAlias = str | Part | Message | Sequence[Content]
"""What an agent is asked: text, an image, a whole message, or several of them in one list."""

ToolLike: TypeAlias = Tool | Callable[..., object] | str
"""A tool, a plain function, or the name of a registered tool."""


class Agent:
    """A model with instructions and tools.

    ```python
    agent = Agent("demo", instructions="Be brief.", tools=[weather])
    turn = await agent.run("Will it rain in Rome?")
    print(turn.text)
    ```

    An agent holds no conversation: what it should remember is passed as `messages`.
    `deps` is handed to its tools, as `ToolContext.deps`; no model sees it. `models` says what is
    known better here than in the facts that come with a release, such as
    `{"openai:gpt-5": {"input_price": 1.0, "output_price": 8.0}}`; `counter` estimates the tokens that a
    vendor does not report.
    """

    def __init__(
        self,
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: str | None = None,
        tools: Sequence[ToolLike] = (),
        budget: Budget | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock
        self._definition = Definition(
            name=name,
            provider=_provider(model, settings),
            tools=Toolbox(_tool(item) for item in _listed(tools)),
            budget=budget or Budget(),
            accounts=Accounts(_counter(counter), Catalogue(models)),
            instructions=instructions,
            temperature=temperature,
            max_tokens=max_tokens,
            thinking=thinking,
            deps=deps,
        )

    @property
    def name(self) -> str:
        return self._definition.name

    @property
    def provider(self) -> Provider:
        return self._definition.provider

    async def run(self, prompt: Prompt, *, messages: Sequence[Message] = ()) -> Turn:
        """The whole turn at once: the stream, read to its end."""
        async with self.stream(prompt, messages=messages) as run:
            async for _ in run:
                pass
            return run.turn

    def stream(self, prompt: Prompt, *, messages: Sequence[Message] = ()) -> Run:
        """The turn as it happens. Nothing is asked before the first event is read."""
        return Run(self._definition, _message(prompt), _messages(messages), self._clock)

    async def close(self) -> None:
        """Let go of what the provider holds open. May be called twice."""
        await self.provider.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _counter(given: object) -> Callable[[], TokenCounter]:
    """What gives the counter when there is something to count: a name that is wrong is said at once."""
    if given is None:
        return lambda: _made_counter("calibrated")
    if isinstance(given, str):
        registry.load("counters", given)
        return lambda: _made_counter(given)
    if isinstance(given, TokenCounter) and not isinstance(given, type):
        return lambda: given
    raise TypeError(f"a counter is a name such as 'calibrated' or a TokenCounter, not {type(given).__name__}")


def _made_counter(name: str) -> TokenCounter:
    made = cast("Callable[[], object]", registry.load("counters", name))()
    if not isinstance(made, TokenCounter):
        raise ConfigError(f"token counter {name!r} gave {type(made).__name__}, not a TokenCounter")
    return made


def _provider(model: object, settings: Mapping[str, object] | None) -> Provider:
    if isinstance(model, str):
        return registry.provider(model, settings)
    if isinstance(model, Provider):
        if settings:
            raise ConfigError("settings are for a model given by name; this provider is made already")
        return model
    raise TypeError(f"a model is a string such as 'demo' or a Provider, not {type(model).__name__}")


def _listed(tools: object) -> Sequence[object]:
    if isinstance(tools, Sequence) and not isinstance(tools, str | bytes):
        return cast("Sequence[object]", tools)
    raise TypeError(f"tools are given as a list, not as {type(cast(object, tools)).__name__}")


def _tool(item: object) -> Tool:
    if isinstance(item, str):
        item = registry.load("tools", item)
    if isinstance(item, Tool) and not isinstance(item, type):
        return item
    if callable(item):
        return FunctionTool(item)
    raise TypeError(f"a tool is a function, a Tool or a name, not {type(item).__name__}")


def _message(prompt: object) -> Message:
    if isinstance(prompt, Message):
        return prompt
    if isinstance(prompt, str | Part):
        return Message("user", as_parts((prompt,)))
    if isinstance(prompt, Sequence) and not isinstance(prompt, bytes | bytearray):
        return Message("user", as_parts(cast("Sequence[Content]", prompt)))
    raise TypeError(f"a prompt is text, parts or a Message, not {type(cast(object, prompt)).__name__}")


def _messages(messages: Sequence[Message]) -> Sequence[Message]:
    for message in cast("Sequence[object]", messages):
        if not isinstance(message, Message):
            raise TypeError(f"messages are a list of Message, and {type(message).__name__} was found in it")
    return messages
