"""Where a turn is written down: the ledger of a session, or nowhere but in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, cast

from gnomon.engine.clock import Clock, SystemClock
from gnomon.engine.fold import Fold
from gnomon.errors import Conflict
from gnomon.types.events import LedgerEntry, ToolFinished
from gnomon.types.messages import Message

__all__ = ["TRIES", "Journal", "Scratch", "crowded"]

TRIES = 1_000
"""How often a write that others were quicker than is tried at the new end."""


def crowded(session_id: str) -> Conflict:
    """After so many tries."""
    return Conflict(f"session {session_id!r} is written by too many at once")


class Journal(Protocol):
    """What a runner writes to. `Ledger` is the one that lasts."""

    session_id: str
    fold: Fold
    user_id: str
    """Whose session it is, as far as that is known; empty for nobody's."""
    proved_at: float
    is_shared: bool
    """Whether others can see it, so that it has to be claimed."""

    @property
    def is_lost(self) -> bool:
        """Whether another runner has taken the session, as far as is known."""
        ...

    async def try_append(self, entries: Sequence[LedgerEntry], after: int) -> bool:
        """Add the entries as one, after that place. `False`: others were first, and are in the fold."""
        ...

    def note(self, facts: Sequence[LedgerEntry]) -> None:
        """What came about and is to be written next: a journal that nobody else sees knows it at once."""
        ...

    async def check_free(self, owner: str, *, take_over: bool = False) -> None:
        """`Conflict` while another that is alive has the session."""
        ...

    async def prove(self) -> None:
        """Look whether the session is still ours; `Superseded` when it is not."""
        ...

    async def full_output(self, call_id: str) -> str | None:
        """The whole text of a result that was cut."""
        ...


class Scratch:
    """A journal of one run that nobody else can see, and that ends with it."""

    is_shared = False
    is_lost = False

    def __init__(
        self,
        session_id: str,
        messages: Iterable[Message] = (),
        clock: Clock | None = None,
        *,
        user_id: str = "",
    ) -> None:
        self.session_id = session_id
        self.user_id = user_id
        self.fold = Fold(messages=messages)
        self._clock = clock or SystemClock()
        self.proved_at = 0.0
        self._full: dict[str, str] = {}
        self._noted = 0

    def note(self, facts: Sequence[LedgerEntry]) -> None:
        self._noted += len(facts)
        self._take(facts, None)

    async def try_append(self, entries: Sequence[LedgerEntry], after: int) -> bool:
        self._take(entries[self._noted :], self._clock.now())
        self._noted = 0
        return True

    def _take(self, entries: Sequence[LedgerEntry], now: datetime | None) -> None:
        fold = self.fold
        for entry in entries:
            fold.take(fold.seq + 1, entry, now)
            if entry.__class__ is ToolFinished and (finished := cast(ToolFinished, entry)).full:
                self._full[finished.result.call_id] = finished.full

    async def check_free(self, owner: str, *, take_over: bool = False) -> None:
        """It is nobody else's."""

    async def prove(self) -> None:
        """It is ours."""

    async def full_output(self, call_id: str) -> str | None:
        return self._full.get(call_id)
