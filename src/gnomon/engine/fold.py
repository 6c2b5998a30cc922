"""What a session has come to: the sum of its events, taken in one after another.

The same events give the same fold, wherever they are read. A snapshot carries
what lies before the current view, so that a long session is opened from there.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gnomon.engine.view import View
from gnomon.types.events import (
    Claimed,
    Compacted,
    Event,
    MessageReceived,
    Released,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Message, Meta, ToolCall
from gnomon.types.requests import Usage, add_usage

__all__ = ["Fold", "Snapshot"]

_RECENT = 1_000
"""How many messages are remembered by their id, to know one that is sent again."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a checkpoint: where the view starts, what is open, totals; never messages."""

    view_start: int = 1
    owner: str | None = None
    epoch: int = 0
    turn_id: str | None = None
    open_calls: tuple[str, ...] = ()
    recent: dict[str, int] = {}
    usage: Usage = Usage()
    cost: float | None = 0.0
    version: int = 1


class Fold:
    """The state of a session after `seq` events."""

    def __init__(self, snapshot: Snapshot | None = None, seq: int = 0) -> None:
        start = snapshot or Snapshot()
        self.seq = start.view_start - 1
        """The last event that was taken in."""
        self.view_start = start.view_start
        self.owner, self.epoch = start.owner, start.epoch
        self.turn_id = start.turn_id
        self.usage, self.cost = start.usage, start.cost
        self.recent = dict(start.recent)
        """The ids of messages that came lately, and where they stand."""
        self._known = seq if snapshot is not None else 0
        self._view = View()

    @property
    def messages(self) -> Sequence[Message]:
        """What a model is shown: the current view."""
        return self._view.messages

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last message that have no result yet."""
        return self._view.open_calls

    @property
    def intents(self) -> dict[str, str]:
        """The open calls that had begun to run, and the key of each."""
        return self._view.intents

    def has_result(self, call_id: str) -> bool:
        return self._view.has_result(call_id)

    def snapshot(self) -> Snapshot:
        return Snapshot(
            view_start=self.view_start,
            owner=self.owner,
            epoch=self.epoch,
            turn_id=self.turn_id,
            open_calls=tuple(call.id for call in self.open_calls),
            recent=self.recent,
            usage=self.usage,
            cost=self.cost,
        )

    def state(self) -> Meta:
        """The snapshot as a checkpoint keeps it."""
        return msgspec.to_builtins(self.snapshot())

    def take(self, seq: int, event: Event) -> None:
        """The next event. Of those that the snapshot covers, only the view needs to know."""
        self._view.take(seq, event)
        self.seq = seq
        if seq > self._known:
            self._count(seq, event)

    def _count(self, seq: int, event: Event) -> None:
        match event:
            case Claimed(owner, epoch):
                self.owner, self.epoch = owner, epoch
            case Released(epoch=epoch) if epoch == self.epoch:
                self.owner = None
            case MessageReceived(message_id):
                self._remember(message_id, seq)
            case TurnStarted(turn_id):
                self.turn_id = turn_id
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self._settle(event)
            case Compacted(view_start=view_start):
                self.view_start = view_start
            case _:
                pass

    def _settle(self, ended: TurnFinished | TurnFailed | TurnCancelled) -> None:
        self.turn_id = None
        self.usage = add_usage((self.usage, ended.usage))
        known = self.cost is not None and ended.cost is not None
        self.cost = (self.cost or 0.0) + (ended.cost or 0.0) if known else None

    def _remember(self, message_id: str, seq: int) -> None:
        self.recent[message_id] = seq
        while len(self.recent) > _RECENT:
            del self.recent[next(iter(self.recent))]
