"""The turn that answers one message, put together from the ledger as it is read."""

from __future__ import annotations

from datetime import datetime

from gnomon.engine.turn import TurnState
from gnomon.types.events import Event, MessageReceived, ModelStarted, TurnStarted
from gnomon.types.messages import Message

__all__ = ["Answered"]


class Answered:
    """Reads on until the turn that took the message has ended."""

    def __init__(self, message_id: str) -> None:
        self._message_id = message_id
        self._received: dict[str, Message] = {}
        self._is_ours = False
        self._latest: TurnState | None = None

    @property
    def turn(self) -> TurnState | None:
        """The turn that took the message, once one has."""
        return self._latest if self._is_ours else None

    def take(self, entry: Event, at: datetime | None, seq: int) -> bool:
        """Whether that was the end of it."""
        if isinstance(entry, MessageReceived):
            self._received[entry.message_id] = entry.message
        elif isinstance(entry, TurnStarted):
            self._latest = TurnState(entry, at, seq)
            self._include(entry.inputs)
        elif self._latest is not None:
            if isinstance(entry, ModelStarted):
                self._include(entry.inputs)
            self._latest.take(entry, at)
        return self.turn is not None and self.turn.ended is not None

    def _include(self, inputs: tuple[str, ...]) -> None:
        assert self._latest is not None
        self._latest.messages += [self._received[at] for at in inputs if at in self._received]
        self._is_ours = self._is_ours or self._message_id in inputs
