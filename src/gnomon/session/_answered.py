"""The turn that answers one message, put together from the ledger as it is written."""

from __future__ import annotations

import asyncio

from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Read
from gnomon.engine.turn import TurnState
from gnomon.types.events import MessageReceived, ModelStarted, TurnStarted
from gnomon.types.messages import Message

__all__ = ["Answered"]


class Answered:
    """Follows a ledger until the turn that took the message has ended. `running` is the turn that is open."""

    def __init__(self, message_id: str, running: TurnState | None = None) -> None:
        self.message_id = message_id
        self._received: dict[str, Message] = {}
        self._is_ours = False
        self._latest = running.copy() if running is not None else None
        self.news = asyncio.Event()

    @classmethod
    def open_in(cls, fold: Fold) -> Answered | None:
        """The turn that is open, or else the one that the first message that waits will begin."""
        first = next((waiting.received.message_id for waiting in fold.waiting.values()), "")
        if fold.open_turn is None and not first:
            return None
        made = cls(first, fold.open_turn)
        made._is_ours = fold.open_turn is not None
        made._received = {at: waiting.received.message for at, waiting in fold.waiting.items()}
        return made

    @property
    def is_sent(self) -> bool:
        """Whether the message stands in the ledger."""
        return self.message_id in self._received

    @property
    def turn(self) -> TurnState | None:
        """The turn that took the message, once one has."""
        return self._latest if self._is_ours else None

    @property
    def open_turn(self) -> TurnState | None:
        """The turn that is open, be it this one or one before it."""
        return self._latest if self._latest is not None and self._latest.ended is None else None

    @property
    def is_over(self) -> bool:
        return self._is_ours and self._latest is not None and self._latest.ended is not None

    def take(self, read: Read) -> None:
        """The next event; after the end there is nothing more to know."""
        entry = read.entry
        if self.is_over:
            return
        if isinstance(entry, MessageReceived):
            self._received[entry.message_id] = entry.message
        elif isinstance(entry, TurnStarted):
            self._latest = TurnState(entry, read.at, read.seq)
            self._include(entry.inputs)
        elif self._latest is not None:
            if isinstance(entry, ModelStarted):
                self._include(entry.inputs)
            self._latest.take(entry, read.at)
        self.news.set()

    def _include(self, inputs: tuple[str, ...]) -> None:
        assert self._latest is not None
        self._latest.messages += [self._received[at] for at in inputs if at in self._received]
        self._is_ours = self._is_ours or self.message_id in inputs
