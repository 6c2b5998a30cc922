"""How many tokens something comes to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self, runtime_checkable

from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request, Response

__all__ = ["SupportsLearning", "TokenCounter"]


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens, or estimates them well enough to plan with.

    Stable since 0.1.

    - a counter must not use the network, and must not wait for anything.
    - `count_messages` must count every part of a message, tool calls, results,
      images and audio too, and the schemas of the tools.
    - nothing must count as 0, and more of the same must not count as less.
    - the engine fills in usage that a vendor did not report with this count and
      marks it estimated; it must not be zero for a text that is not empty (U3).
    """

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        """The tokens of a prompt made of these."""
        ...

    def count_text(self, text: str) -> int:
        """The tokens of a plain text."""
        ...


@runtime_checkable
class SupportsLearning(Protocol):
    """A counter that gets better by what vendors report, for each model."""

    def for_model(self, model: str) -> Self:
        """What was learned, for counting as this model does; it holds nothing of what was counted before."""
        ...

    def count_request(self, request: Request) -> int:
        """The tokens of a whole request, as the model that it asks for counts them."""
        ...

    def observe(self, request: Request, response: Response) -> None:
        """Take note of what a request came to. Must not raise for odd input, and must not wait."""
        ...
