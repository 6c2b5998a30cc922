"""Ledger events in, spans out: the same events always give the same spans, with the same ids."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias

from gnomon.tracing._ids import span_id
from gnomon.tracing._open import OpenSpan
from gnomon.tracing._turn import TurnSpans, note_compaction
from gnomon.types.events import (
    ApprovalDecided,
    Compacted,
    Event,
    Guarded,
    LedgerEntry,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    TurnStarted,
)
from gnomon.types.messages import Message
from gnomon.types.records import Trace

__all__ = ["Placed", "Tracer", "spans"]

Placed: TypeAlias = tuple[int, Event, datetime]
"""An event with its place in the ledger, and when it was written."""

_OF_NO_TURN = (QuestionAnswered, ApprovalDecided)
"""What does not say to which turn it belongs: to the one that is open."""


def spans(session_id: str, reads: Iterable[Placed], *, content: bool = False) -> tuple[Trace, ...]:
    """The spans of these events, which begin before or with a turn; what is open has no end.

    What was said is in them only with `content`.
    """
    tracer = Tracer(session_id, content=content)
    made: list[Trace] = []
    for seq, entry, at in reads:
        made += tracer.take(seq, entry, at)
    return (*made, *tracer.rest())


class Tracer:
    """Makes the spans of a session out of its events, one turn after another."""

    def __init__(self, session_id: str, *, content: bool = False) -> None:
        self._session_id = session_id
        self._content = content
        self._turn: TurnSpans | None = None
        self._has_begun = False
        self._waiting: dict[str, Message] = {}

    def take(self, seq: int, entry: Event, at: datetime) -> tuple[Trace, ...]:
        """The next event; the spans of what has ended with it: a turn, or a compaction between turns."""
        match entry:
            case MessageReceived(message_id=message_id, message=message):
                if self._content:
                    self._waiting[message_id] = message
                return ()
            case Guarded(position="input", message_id=message_id) if message_id in self._waiting:
                self._guard(entry)
                return self._taken(seq, entry, at)
            case Compacted(turn_id=""):
                return (self._compacted(seq, entry, at),)
            case TurnStarted():
                left = self.rest()
                self._begin(entry, at)
                return left
            case _ if isinstance(entry, LedgerEntry):
                return self._taken(seq, entry, at)
            case _:
                return ()

    def rest(self) -> tuple[Trace, ...]:
        """The spans of the turn that is open."""
        return () if self._turn is None else self._turn.traces()

    def _begin(self, started: TurnStarted, at: datetime) -> None:
        self._turn = TurnSpans(self._session_id, started, at, content=self._content)
        self._has_begun = True
        self._hear(started.inputs or tuple(self._waiting))

    def _hear(self, message_ids: Iterable[str]) -> None:
        for message_id in message_ids:
            message = self._waiting.pop(message_id, None)
            if message is not None and self._turn is not None:
                self._turn.hear(message_id, message)

    def _guard(self, guarded: Guarded) -> None:
        """A message that waits is shown as the model will be shown it, or not at all."""
        del self._waiting[guarded.message_id]
        if guarded.message is not None:
            self._waiting[guarded.message_id] = guarded.message

    def _taken(self, seq: int, entry: Event, at: datetime) -> tuple[Trace, ...]:
        turn = self._turn_of(entry, at)
        if turn is None:
            return ()
        if isinstance(entry, ModelStarted):
            self._hear(entry.inputs)
        turn.take(seq, entry, at)
        if not turn.is_over:
            return ()
        self._turn = None
        return turn.traces()

    def _turn_of(self, entry: Event, at: datetime) -> TurnSpans | None:
        """The turn that an event belongs to, if it is open; a log may also begin in the midst of one."""
        turn_id = getattr(entry, "turn_id", None)
        if turn_id and not self._has_begun:
            self._begin(TurnStarted(turn_id, "", ""), at)
        turn = self._turn
        if turn is None or (turn_id != turn.id and not isinstance(entry, _OF_NO_TURN)):
            return None
        return turn

    def _compacted(self, seq: int, compacted: Compacted, at: datetime) -> Trace:
        """One that somebody asked for, between turns."""
        name = span_id(self._session_id, "", "compaction", seq)
        span = OpenSpan(name, compacted.compactor or "compaction", "compaction", at, None)
        note_compaction(span, compacted, at)
        return span.trace(self._session_id)
