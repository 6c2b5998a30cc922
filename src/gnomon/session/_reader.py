"""The events of a session for one reader: the ledger in its order, and the deltas that belong in between.

A reader has its own place and its own pace. It follows the ledger; what is being
said right now is shown only where the ledger has come to, and is left for the
ledger's next event as soon as there is one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from datetime import datetime

from gnomon.engine.ledger import Ledger, Read
from gnomon.engine.live import Attempt, Channel
from gnomon.session._sockets import follow
from gnomon.stream import PullStream
from gnomon.types.events import (
    CancelRequested,
    Claimed,
    Event,
    MessageReceived,
    QuestionAnswered,
    Released,
    SessionEvent,
    ToolFinished,
    ToolIntent,
)

__all__ = ["Reader"]

_BESIDE = (MessageReceived, CancelRequested, QuestionAnswered, ToolIntent, ToolFinished)
"""What others write while something is being said, or comes of one call while others report on."""


class Reader(PullStream[SessionEvent]):
    """A stream of events that knows its place."""

    def __init__(
        self,
        open_ledger: Callable[[], Awaitable[Ledger]],
        channel: Channel,
        owner: str,
        after: int,
        admit: Callable[[Ledger], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(self._read())
        self._admit = admit
        """Asked before anything is shown of a session that was not there when it was opened."""
        self._open_ledger = open_ledger
        self._channel = channel
        self._here = owner
        self._position = after
        self.at: datetime | None = None
        """When the last event of the ledger was written."""
        self._attempt: Attempt | None = None
        self._at = 0
        self._left: Attempt | None = None
        """What the ledger has put an end to. Elsewhere it may be said for a moment longer."""
        self._epoch = 0
        """Of the last claim that is known: one that was superseded may speak on until it hears of it."""
        self._following: asyncio.Task[None] | None = None
        self._followed = ""

    @property
    def position(self) -> int:
        """The seq up to which everything was read."""
        return self._position

    async def _read(self) -> AsyncGenerator[SessionEvent, None]:
        ledger = await self._open_ledger()
        self._epoch = ledger.fold.epoch
        admit = self._admit if not ledger.fold.seq else None
        source = ledger.watch(self._position)
        coming: asyncio.Task[Read] | None = None
        if ledger.fold.owner is not None:  # the claim may lie before the place from which it is read
            self._follow_owner(ledger.fold.owner)
        with self._channel.listening() as news:
            try:
                while True:
                    if coming is None:
                        coming = asyncio.ensure_future(_next(source))
                        coming.add_done_callback(lambda _: news.set())
                    await self._until(coming, news)
                    if admit is not None:
                        await admit(ledger)
                        admit = None
                    for event in self._spoken():
                        yield event
                    if coming.done():
                        read, coming = coming.result(), None
                        for event in self._rest(read):
                            yield event
                        self._follow(read.entry)
                        self._position, self.at = read.seq, read.at
                        yield _shown(read.entry)
            finally:
                await self._end(coming, source)

    async def _until(self, coming: asyncio.Task[Read], news: asyncio.Event) -> None:
        """Until there is something to show."""
        while not coming.done() and not self._has_news():
            news.clear()
            self._check()
            await news.wait()

    def _check(self) -> None:
        """Before it waits; for whoever has a reason not to."""

    def _has_news(self) -> bool:
        current = self._current()
        return current is not None and (current is not self._attempt or len(current.events) > self._at)

    def _current(self) -> Attempt | None:
        """What is being said, where the reader has come to it."""
        current = self._channel.current
        if current is None or current.after_seq > self._position or current.is_same(self._left):
            return None
        return None if 0 < current.number[0] < self._epoch else current

    def _spoken(self) -> list[SessionEvent]:
        """What was said since the last look."""
        current = self._current()
        if current is not None and current is not self._attempt:
            self._at = self._at if current.is_same(self._attempt) else 0
            self._attempt = current
        return self._unread()

    def _rest(self, read: Read) -> list[SessionEvent]:
        """What the ledger's next event puts an end to: shown once more to its end, then left."""
        rest = self._unread() if self._attempt is not None and self._attempt.after_seq < read.seq else []
        if not isinstance(read.entry, _BESIDE):
            self._attempt, self._left = None, self._attempt or self._left
        return rest

    def _unread(self) -> list[SessionEvent]:
        attempt = self._attempt
        if attempt is None:
            return []
        new = range(self._at, len(attempt.events))
        self._at = max(self._at, len(attempt.events))
        return [attempt.shown(at) for at in new]

    def _follow(self, entry: Event) -> None:
        """What is run by another process of this machine is followed there."""
        if isinstance(entry, Claimed):
            self._epoch = max(self._epoch, entry.epoch)
            self._follow_owner(entry.owner)
        elif isinstance(entry, Released):
            self._unfollow()

    def _follow_owner(self, owner: str) -> None:
        if owner not in (self._here, self._followed):
            self._unfollow()
            self._followed = owner
            self._following = asyncio.ensure_future(follow(owner, self._channel))

    def _unfollow(self) -> None:
        if self._following is not None:
            self._following.cancel()
        self._followed = ""

    async def _end(self, coming: asyncio.Task[Read] | None, source: PullStream[Read]) -> None:
        self._unfollow()
        tasks = [task for task in (coming, self._following) if task is not None]
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError, StopAsyncIteration, Exception):
                await task
        await source.aclose()


async def _next(source: PullStream[Read]) -> Read:
    return await source.__anext__()


def _shown(entry: Event) -> SessionEvent:
    return entry  # pyright: ignore[reportReturnType] - a ledger holds nothing but its own entries
