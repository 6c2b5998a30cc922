"""The messages that a model is shown, each with its place in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gnomon.types.messages import Message

__all__ = ["View"]


class View:
    """The current view of a ledger: it starts where the last compaction said."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self._places = [0] * len(self._messages)

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    def add(self, seq: int, message: Message) -> None:
        self._messages.append(message)
        self._places.append(seq)

    def early(self, view_start: int) -> tuple[int, ...]:
        """The places of those that are shown though they stand before the start: they waited until then."""
        return tuple(seq for seq in self._places if 0 < seq < view_start)

    def start(self, view_start: int, summary: Message | None) -> None:
        """Leave out what stands before that place."""
        placed = zip(self._places, self._messages, strict=True)
        kept = [(seq, message) for seq, message in placed if seq >= view_start]
        if summary is not None:
            kept.insert(0, (0, summary))  # before all events, so that the next compaction drops it
        self._places, self._messages = [seq for seq, _ in kept], [message for _, message in kept]
