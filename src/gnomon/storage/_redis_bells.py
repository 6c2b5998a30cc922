"""How a reader hears of appends by other processes: one connection, subscribed to the logs that are watched.

A channel a log, so that nobody is told of what nobody here reads. What is missed while the
connection is away is found by looking: every subscription that begins rings its bells.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex

from gnomon.storage._bells import Bell, Bells
from gnomon.storage._redis_checks import Reply
from gnomon.storage._redis_errors import BROKEN
from gnomon.storage._redis_wire import Connection, Wire

__all__ = ["Ear"]

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 10.0


class Ear:
    """Listens for as long as the store is open, once somebody has watched a log."""

    def __init__(self, wire: Wire, bells: Bells) -> None:
        self.token = token_hex(8)
        """Sent along with our own appends: of those the bells have heard already."""
        self._wire = wire
        self._bells = bells
        self._watched: dict[bytes, tuple[tuple[str, str], int]] = {}
        """By channel: whose bells, and how many readers."""
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        self._pause_s = _FIRST_PAUSE_S

    @asynccontextmanager
    async def listening(self, channel: str, key: tuple[str, str]) -> AsyncGenerator[Bell, None]:
        name = channel.encode()
        async with self._bells.listening(key) as bell:
            _, readers = self._watched.get(name, (key, 0))
            self._watched[name] = (key, readers + 1)
            try:
                if not readers:
                    await self._begin(name)
                yield bell
            finally:
                await self._end(name)

    async def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _begin(self, channel: bytes) -> None:
        if (self._task is None or self._task.done()) and not self._is_closed:
            self._task = asyncio.ensure_future(self._listen())
        await self._say(b"SUBSCRIBE", channel)

    async def _end(self, channel: bytes) -> None:
        key, readers = self._watched.pop(channel)
        if readers > 1:
            self._watched[channel] = (key, readers - 1)
        else:
            await self._say(b"UNSUBSCRIBE", channel)

    async def _say(self, *words: bytes) -> None:
        """While there is no connection there is nobody to tell: a new one subscribes to all."""
        connection = self._connection
        if connection is not None and connection.is_connected:
            with suppress(*BROKEN):  # whoever listens finds out, and connects again
                await connection.send_packed_command(connection.pack_commands([words]), check_health=False)

    async def _listen(self) -> None:
        while self._watched:
            connection = self._wire.pool.make_connection()
            with suppress(*BROKEN):
                try:
                    await self._hear(connection)
                finally:
                    self._connection = None
                    await connection.disconnect(nowait=True)
            await asyncio.sleep(self._pause_s)
            self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)

    async def _hear(self, connection: Connection) -> None:
        async with asyncio.timeout(self._wire.timeout_s):
            await connection.connect()
        if not self._watched:
            return
        self._connection = connection  # first: who begins to watch while this is sent says so itself
        await connection.send_packed_command(
            connection.pack_commands([(b"SUBSCRIBE", *self._watched)]), check_health=False
        )
        while True:
            self._heard(await connection.read_response(timeout=math.inf, push_request=True))

    def _heard(self, reply: Reply) -> None:
        match reply:
            case [b"subscribe", bytes(channel), int()]:
                self._pause_s = _FIRST_PAUSE_S
                self._ring(channel)
            case [b"message", bytes(channel), bytes(token)] if token.decode() != self.token:
                self._ring(channel)
            case _:
                pass

    def _ring(self, channel: bytes) -> None:
        if channel in self._watched:
            self._bells.ring(self._watched[channel][0])
