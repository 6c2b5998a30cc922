"""What is being said right now: deltas on their way to readers, outside the ledger.

Nothing here is true for long. The ledger's next event replaces what a reader has
drawn from deltas, and a reader that comes late gets the message so far.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeAlias
from weakref import WeakValueDictionary

from gnomon.types.events import Live, StreamEvent, ToolProgress

__all__ = ["Attempt", "Bus", "Channel", "LiveEvent"]

LiveEvent: TypeAlias = StreamEvent | ToolProgress


class Attempt:
    """The events of one attempt at a message, or of the calls of one, from the first on.

    A reader may show them once it has read the ledger up to `after_seq`, and stops
    with them at the next event of the ledger.
    """

    __slots__ = ("after_seq", "events", "is_over", "message_id", "number", "session_id", "turn_id")

    def __init__(
        self, session_id: str, turn_id: str, message_id: str, number: tuple[int, int], after_seq: int
    ) -> None:
        self.session_id = session_id
        self.turn_id = turn_id
        self.message_id = message_id
        self.number = number
        self.after_seq = after_seq
        self.events: list[LiveEvent] = []
        self.is_over = False

    def is_same(self, other: Attempt | None) -> bool:
        """Whether it is this one, or another feed of it: one that follows it anew gets it from the start."""
        if other is None or other is self:
            return other is self
        return (self.message_id, self.number, self.after_seq) == (
            other.message_id,
            other.number,
            other.after_seq,
        )

    def shown(self, at: int) -> Live | ToolProgress:
        """The event at that place, as a reader of the session gets it."""
        event = self.events[at]
        if isinstance(event, ToolProgress):
            return event
        return Live(self.session_id, self.turn_id, self.message_id, self.number, at, event)


class Channel:
    """Where one session's deltas go by: whoever runs it puts them in, any number of readers look."""

    __slots__ = ("__weakref__", "_ears", "current", "session_id")

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.current: Attempt | None = None
        self._ears: list[asyncio.Event] = []

    def begin(self, turn_id: str, message_id: str, number: tuple[int, int], after_seq: int) -> Attempt:
        """A new attempt: what came before it is over."""
        self.end()
        self.current = Attempt(self.session_id, turn_id, message_id, number, after_seq)
        self.ring()
        return self.current

    def put(self, event: LiveEvent) -> None:
        """One more event of the current attempt. Nobody is waited for."""
        assert self.current is not None
        self.current.events.append(event)
        if self._ears:
            self.ring()

    def end(self) -> None:
        """Nothing more comes of the current attempt. A reader that is in the midst of it keeps it."""
        if self.current is not None:
            self.current.is_over = True
            self.current = None
            self.ring()

    @contextmanager
    def listening(self) -> Generator[asyncio.Event, None, None]:
        """An event that is set whenever there is something new; the listener clears it."""
        ear = asyncio.Event()
        self._ears.append(ear)
        try:
            yield ear
        finally:
            self._ears.remove(ear)

    def ring(self) -> None:
        """Have every listener look."""
        for ear in self._ears:
            ear.set()


class Bus:
    """The channels of the sessions that somebody runs or reads here."""

    def __init__(self) -> None:
        self._channels: WeakValueDictionary[str, Channel] = WeakValueDictionary()

    def channel(self, session_id: str) -> Channel:
        """The channel of a session. It is there for as long as somebody holds it."""
        found = self._channels.get(session_id)
        if found is None:
            found = self._channels[session_id] = Channel(session_id)
        return found
