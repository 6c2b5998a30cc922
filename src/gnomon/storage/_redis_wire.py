"""Connections to Redis: what is sent is sent once, and answered within a limit.

The driver repeats a command when the connection breaks, and then nobody can tell a
write that went through from one that came too late. So commands go over the
driver's connections, and past what repeats them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

from redis import exceptions as told

from gnomon.errors import StorageError
from gnomon.storage._redis_checks import QUESTIONS, Reply, Trust, Word
from gnomon.storage._redis_errors import BROKEN, NotKnown, cause, translated
from gnomon.storage._redis_scripts import Script
from gnomon.storage._rows import Lost

__all__ = ["Connection", "Pool", "Wire"]

SLOWEST_BYTES_S = 2_000_000
"""What is large may take longer: a line is given time as if it carried so much."""


class Connection(Protocol):
    """As much of the driver's connection as is used here."""

    @property
    def is_connected(self) -> bool: ...
    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
    def register_connect_callback(self, callback: Callable[[Connection], None]) -> None: ...
    def pack_commands(self, commands: Iterable[Iterable[Word]]) -> list[bytes]: ...
    async def send_packed_command(self, command: Iterable[bytes], check_health: bool = True) -> None: ...
    async def read_response(self, *, timeout: float | None = None, push_request: bool = False) -> Reply: ...


class Pool(Protocol):
    """As much of the driver's pool as is used here."""

    async def get_connection(self) -> Connection: ...
    async def release(self, connection: Connection) -> None: ...
    def make_connection(self) -> Connection: ...
    async def aclose(self) -> None: ...


class Wire:
    """One server, over at most so many connections at a time."""

    def __init__(
        self, pool: Pool, trust: Trust, *, timeout_s: float, connections: int, is_ours: bool
    ) -> None:
        self.pool = pool
        self.timeout_s = timeout_s
        self._trust = trust
        self._is_ours = is_ours
        self._room = asyncio.Semaphore(connections)
        self._trusted: WeakSet[Connection] = WeakSet()
        self._is_closed = False
        self._running: dict[asyncio.Timeout, asyncio.Event] = {}

    async def run(self, script: Script, key: str, *words: Word, size: int = 0) -> Reply:
        """What the script gives for the key; `size` is how much goes over the line, where that is much."""
        try:
            return await self.ask("EVALSHA", script.digest, 1, key, *words, size=size)
        except NotKnown:  # a server that was started anew; nothing was run
            return await self.ask("EVAL", script.source, 1, key, *words, size=size)

    async def ask(self, *words: Word, size: int = 0) -> Reply:
        """The reply to one command."""
        self._check_open()
        limit_s = self.timeout_s + size / SLOWEST_BYTES_S
        limit = asyncio.timeout(limit_s)
        self._running[limit] = ended = asyncio.Event()
        try:
            async with limit, self._room:
                return await self._asked(words)
        except TimeoutError:
            self._check_open()
            raise Lost(f"no answer within {limit_s:.3g} s") from None
        except BROKEN as error:
            raise translated(error, self._trust.where) from cause(error)
        finally:
            del self._running[limit]
            ended.set()

    async def close(self) -> None:
        """End what is under way, and let go of the connections."""
        self._is_closed = True
        running = tuple(self._running.items())
        for limit, _ in running:
            with suppress(RuntimeError):  # it has just ended
                limit.reschedule(0)
        for _, ended in running:
            await ended.wait()
        if self._is_ours:
            with suppress(*BROKEN):
                await self.pool.aclose()

    async def _asked(self, words: Sequence[Word]) -> Reply:
        connection = await self.pool.get_connection()
        try:
            if connection not in self._trusted:
                await self._get_to_know(connection)
            await connection.send_packed_command(connection.pack_commands([words]))
            return await connection.read_response()
        finally:
            await self.pool.release(connection)

    async def _get_to_know(self, connection: Connection) -> None:
        """Whoever answers on a new connection may be another server than before."""
        await connection.send_packed_command(connection.pack_commands(QUESTIONS))
        self._trust.judge([await _reply(connection) for _ in QUESTIONS])
        connection.register_connect_callback(self._trusted.discard)
        self._trusted.add(connection)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"redis store {self._trust.where} is closed", hint="open it anew")


async def _reply(connection: Connection) -> Reply | told.RedisError:
    try:
        return await connection.read_response()
    except told.ResponseError as error:  # the connection is fine, and the next reply follows
        return error
