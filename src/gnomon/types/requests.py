"""What a model is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

from gnomon.types.messages import Message, Meta, ToolCall, ToolDef

__all__ = [
    "OneTool",
    "Reasoning",
    "Request",
    "Response",
    "Spent",
    "StopReason",
    "ToolChoice",
    "Usage",
    "add_usage",
    "spent",
]

StopReason: TypeAlias = Literal[
    "end_turn", "max_tokens", "tool_use", "stop_sequence", "content_filter", "refusal", "other"
]


class OneTool(msgspec.Struct, frozen=True):
    """`tool_choice` that names the one tool to call."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | OneTool


class Reasoning(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How much to think: an effort, or a budget in tokens."""

    effort: Literal["none", "minimal", "low", "medium", "high"] | None = None
    budget_tokens: int | None = None


class Request(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One question to a model. What is `None` is left to the vendor; temperature 0 is a value."""

    messages: tuple[Message, ...]
    model: str | None = None
    system: str | None = None
    tools: tuple[ToolDef, ...] = ()
    tool_choice: ToolChoice | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    thinking: Reasoning | None = None
    output_schema: Meta | None = None
    metadata: dict[str, str] = {}


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Tokens of one response, in classes that never overlap.

    `input_tokens` leaves out cache reads and writes; `reasoning_tokens` is the
    part of `output_tokens` that was spent on thinking. `None` was not reported.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    reasoning_tokens: int | None = None
    estimated: bool = False

    @property
    def total_tokens(self) -> int | None:
        classes = (self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)
        known = [count for count in classes if count is not None]
        return sum(known) if known else None


class Spent(Usage, frozen=True, omit_defaults=True, kw_only=True):
    """What an attempt used that came to nothing, and where it was spent."""

    provider: str | None = None
    model: str | None = None


def spent(usage: Usage, provider: str | None = None, model: str | None = None) -> Spent:
    """This usage, with the place where it was spent."""
    return Spent(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        estimated=usage.estimated,
        provider=provider,
        model=model,
    )


def add_usage(usages: Iterable[Usage]) -> Usage:
    """The sum over several responses; a class nobody reported stays `None`."""
    usages = [usage for usage in usages if usage != _NOTHING]
    if len(usages) == 1 and type(usages[0]) is Usage:
        return usages[0]
    totals: dict[str, int] = {}
    estimated = False
    for usage in usages:
        estimated = estimated or usage.estimated
        for name in _CLASSES:
            count: int | None = getattr(usage, name)
            if count is not None:
                totals[name] = totals.get(name, 0) + count
    return Usage(estimated=estimated, **totals)


_NOTHING = Usage()
_CLASSES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")


class Response(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One whole answer. `discarded` keeps the usage of attempts that failed on the way to it."""

    message: Message
    stop_reason: StopReason
    id: str | None = None
    provider: str | None = None
    model: str | None = None
    raw_stop_reason: str | None = None
    usage: Usage = Usage()
    warnings: tuple[str, ...] = ()
    discarded: tuple[Spent, ...] = ()

    @property
    def text(self) -> str:
        return self.message.text

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self.message.tool_calls
