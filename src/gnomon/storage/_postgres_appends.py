"""Appends that share a commit: what waits while batches are under way goes out as the next.

A hundred sessions that append at the same time cost two statements and two syncs of
the server's disk: while it is at the one half, the other is read and prepared here.
A caller hears of its append after that commit, never before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from gnomon.errors import StorageError
from gnomon.storage._rows import Group, Lost

__all__ = ["Append", "Appends", "Log"]

_SENDERS = 2
_WORTH_HALVING = 16
_MOST = 500
_MOST_BYTES = 8_000_000
"""A batch ends after so much, so that it is sent within the time of one answer."""

_CLOSE_S = 2.0

Log: TypeAlias = tuple[str, str]
"""A tenant and a session."""


class Append(msgspec.Struct, eq=False):
    log: Log
    group: Group
    done: asyncio.Future[bool]


class Appends:
    """The queue before the statement that appends. `send` gives the logs that took their group.

    A log is in one batch at a time, so that its groups arrive in the order they were given.
    """

    def __init__(self, send: Callable[[Sequence[Append]], Awaitable[set[Log]]]) -> None:
        self._send = send
        self._waiting: list[Append] = []
        self._senders: set[asyncio.Task[None]] = set()
        self._under_way: list[set[Log]] = []
        self._is_closed = False

    async def add(self, log: Log, group: Group) -> bool:
        """Whether the group is now the end of its log. Who is cancelled does not cancel the others."""
        if self._is_closed:  # a sender that began now would outlive it
            raise StorageError("the store was closed in the meantime", hint="open it anew")
        append = Append(log, group, asyncio.get_running_loop().create_future())
        self._waiting.append(append)
        if len(self._senders) < _SENDERS:
            self._senders.add(asyncio.ensure_future(self._send_all()))
        return await append.done

    async def close(self) -> None:
        """Send what waits, but not for long."""
        self._is_closed = True
        if self._senders:
            _, late = await asyncio.wait(set(self._senders), timeout=_CLOSE_S)
            for sender in late:
                sender.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _send_all(self) -> None:
        batch: Sequence[Append] = ()
        try:
            while batch := self._next_batch():
                await self._send_one(batch)
                # Those who were answered may have their next append ready: it still joins the next batch.
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            reason = "the store was closed while it appended; this is not counted as stored"
            _fail([*batch, *self._waiting], lambda: StorageError(reason))
            self._waiting.clear()
            raise
        finally:
            # Not when the task is over, a turn of the loop later: who appends in between would wait for good.
            self._senders -= {asyncio.current_task()}

    async def _send_one(self, batch: Sequence[Append]) -> None:
        logs = {append.log for append in batch}
        self._under_way.append(logs)
        try:
            await self._settle(batch)
        finally:
            self._under_way.remove(logs)

    def _next_batch(self) -> Sequence[Append]:
        """One append a log, as far as they fit, in the one order that keeps batches from deadlock."""
        waiting = [append for append in self._waiting if not append.done.done()]  # the others were cancelled
        batch: dict[Log, Append] = {}
        size, most = 0, self._share(len(waiting))
        self._waiting = []
        for at, append in enumerate(waiting):
            if append.log in batch or any(append.log in logs for logs in self._under_way):
                self._waiting.append(append)
                continue
            size += len(append.group.body)
            if batch and (len(batch) == most or size > _MOST_BYTES):
                self._waiting += waiting[at:]
                break
            batch[append.log] = append
        return [batch[log] for log in sorted(batch)]

    def _share(self, waiting: int) -> int:
        """How many may go now, so that as many are left for each sender that is free."""
        free = _SENDERS - len(self._under_way)
        return _MOST if waiting < _WORTH_HALVING else min(_MOST, -(-waiting // free))

    async def _settle(self, batch: Sequence[Append]) -> None:
        try:
            took = await self._send(batch)
        except Lost as lost:
            reason = str(lost)
            _fail(batch, lambda: Lost(reason))
        except Exception as error:  # noqa: BLE001 - who waits must hear of it, whatever it is
            if len(batch) == 1:
                cause = error
                _fail(batch, lambda: cause)
                return
            for append in batch:  # nothing was stored: alone, each gets the answer that is due to it
                await self._settle([append])
        else:
            for append in batch:
                if not append.done.done():
                    append.done.set_result(append.log in took)


def _fail(appends: Iterable[Append], made: Callable[[], Exception]) -> None:
    for append in appends:
        if not append.done.done():
            append.done.set_exception(made())
