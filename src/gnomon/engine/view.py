"""The messages that a model is shown, each with its place in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gnomon.types.messages import Message

__all__ = ["View"]


class View:
    """The current view of a ledger: it starts where the last compaction said."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self._places: list[int] = [0] * len(self._messages)

    @property
    def messages(self) -> Sequence[Message]:
        return self._messages

    def add(self, seq: int, message: Message) -> None:
        self._messages.append(message)
        self._places.append(seq)

    def early(self, view_start: int) -> tuple[int, ...]:
        """The places of those that are shown though they stand before the start: they waited until then."""
        return tuple(seq for seq in self._places if 0 < seq < view_start)

    def start(self, view_start: int, head: Sequence[Message] = ()) -> None:
        """Leave out what stands before that place, but for the head that takes its place."""
        placed = zip(self._places, self._messages, strict=True)
        kept = [(seq, message) for seq, message in placed if seq >= view_start]
        # Before all events, so that the next compaction drops it.
        self._show([*((0, message) for message in head), *kept])

    def replace(self, seq: int, message: Message | None) -> Message | None:
        """Show another message at that place, or none; gives the one that stood there."""
        old = next((other for at, other in zip(self._places, self._messages, strict=True) if at == seq), None)
        placed = zip(self._places, self._messages, strict=True)
        shown = [(at, message if at == seq else other) for at, other in placed]
        self._show([(at, other) for at, other in shown if other is not None])
        return old

    def _show(self, placed: Sequence[tuple[int, Message]]) -> None:
        self._places, self._messages = [at for at, _ in placed], [message for _, message in placed]

    def places(self) -> Sequence[int]:
        """Where each message stands; 0 is before all events."""
        return self._places
