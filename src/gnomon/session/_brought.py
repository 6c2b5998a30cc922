"""A message that a session is woken with: it is written together with the claim of whoever answers it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from gnomon.engine.ledger import Ledger
from gnomon.types.events import MessageReceived
from gnomon.types.records import SessionRecord

__all__ = ["Brought", "telling"]


class Brought:
    """One such message. `row` is that of a session which is new; `news` wakes whoever waits for an answer."""

    def __init__(self, received: MessageReceived, row: SessionRecord | None, news: asyncio.Event) -> None:
        self.received = received
        self.row = row
        self._news = news
        self._error: Exception | None = None

    def fail(self, error: Exception) -> None:
        self._error = error
        self._news.set()

    def check(self) -> None:
        """Raise what kept the message from being written."""
        if self._error is not None:
            raise self._error


@contextmanager
def telling(brought: Sequence[Brought], ledger: Ledger | None) -> Generator[None, None, None]:
    """Whoever brought a message hears why it could not be written; of what comes later the ledger tells."""
    try:
        yield
    except BaseException as error:
        told = (
            error
            if isinstance(error, Exception)
            else RuntimeError("stopped before it was known to be written")
        )
        for each in brought:
            if ledger is None or each.received.message_id not in ledger.fold.recent:
                each.fail(told)
        raise
