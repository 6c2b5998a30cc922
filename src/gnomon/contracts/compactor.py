"""Making a long conversation fit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response

__all__ = ["Ask", "Compactor", "SupportsAsking"]

Ask: TypeAlias = Callable[[Request], Awaitable[Response]]
"""How a compactor asks the model of the agent it works for: hooks see it, and its spend is counted.

A request without a model goes to the agent's own.
"""


@runtime_checkable
class Compactor(Protocol):
    """Makes a shorter view of a conversation.

    Experimental.

    - the result must come to at most `budget` tokens, or `compact` must raise
      `ContextTooLong` (C1).
    - a call and its result must stay together or go together. The system prompt
      and the first message of the user must stay (C2).
    - it is a view: `messages` must not be changed, and the ledger keeps them all (C3).
    - what tools were asked and what they answered must be part of what a summary is
      made from (C4).
    - a conversation that fits must come back as it is.
    """

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        """What the model is to see from now on."""
        ...


@runtime_checkable
class SupportsAsking(Protocol):
    """A compactor that has a model write for it.

    Experimental.

    - `compact_asking` must keep what `compact` keeps, and must ask through `ask` alone.
    """

    async def compact_asking(
        self, messages: Sequence[Message], budget: int, ask: Ask
    ) -> tuple[Message, ...]: ...
