"""What was asked for here: the messages to be answered, and who waits for which session.

An agent that adopts nothing runs a session for as far as this goes, and no further.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TypeAlias

from gnomon.engine.ledger import Ledger

__all__ = ["Asked", "Tell"]

Tell: TypeAlias = Callable[[Exception], None]


def _unheard(_: Exception) -> None:
    """Whoever waits for the outcome alone waits on: what failed is tried again."""


class Asked:
    def __init__(self) -> None:
        self._messages: dict[str, set[str]] = {}
        """By session: messages that are to be answered, until a turn is seen to take them."""
        self._waiting: dict[str, list[Tell]] = {}

    def add(self, session_id: str, message_id: str) -> None:
        """That message is to be answered, by whoever can."""
        self._messages.setdefault(session_id, set()).add(message_id)

    def drop(self, session_id: str, message_id: str) -> None:
        """It was not sent after all."""
        self._messages.get(session_id, set()).discard(message_id)

    def may_begin(self, ledger: Ledger) -> bool:
        """Whether a turn is to begin: one of the messages waits, be it behind those of others."""
        asked, fold = self._messages.get(ledger.session_id), ledger.fold
        if not asked:
            return False
        asked -= {at for at in asked if at in fold.recent and at not in fold.waiting}
        if not asked:
            del self._messages[ledger.session_id]
        return not asked.isdisjoint(fold.waiting)

    def is_waited_for(self, ledger: Ledger) -> bool:
        """Whether the session is to be looked at again when it cannot be run now."""
        return ledger.session_id in self._waiting or self.may_begin(ledger)

    @contextmanager
    def waiting(self, session_id: str, tell: Tell = _unheard) -> Generator[None, None, None]:
        """Somebody waits for the session, and is told what its runner here fails with."""
        self._waiting.setdefault(session_id, []).append(tell)
        try:
            yield
        finally:
            waiting = self._waiting[session_id]
            waiting.remove(tell)
            if not waiting:
                del self._waiting[session_id]

    def tell(self, session_id: str, error: Exception) -> None:
        for tell in tuple(self._waiting.get(session_id, ())):
            tell(error)

    def tell_all(self, error: Exception) -> None:
        for session_id in tuple(self._waiting):
            self.tell(session_id, error)
