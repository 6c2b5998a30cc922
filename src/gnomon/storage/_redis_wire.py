"""Connections to Redis: what is sent is sent once, answered within a limit, and its errors are ours.

The driver repeats a command when the connection breaks, and then nobody can tell a
write that went through from one that came too late. So commands go over the
driver's connections, and past what repeats them.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Protocol, TypeAlias, cast

from redis import exceptions as told

from gnomon.errors import AccessDenied, StorageError, StorageFull
from gnomon.storage._redis_scripts import Script
from gnomon.storage._rows import Lost

__all__ = ["BROKEN", "Connection", "Pool", "Reply", "Wire", "Word"]

Word: TypeAlias = bytes | str | int
Reply: TypeAlias = bytes | int | list["Reply"] | dict[bytes, "Reply"] | None

SLOWEST_BYTES_S = 2_000_000
"""What is large may take longer: a line is given time as if it carried so much."""

BROKEN = (told.RedisError, OSError, ValueError)
"""What the driver raises: a reply that is no Redis's makes it raise a `ValueError`."""

_AWAY = frozenset(
    {"ASK", "BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "MOVED", "NOREPLICAS", "READONLY"}
    | {"TRYAGAIN"}
)
"""What a server says that is busy, or is not the one that writes now: nothing was done, and it may pass."""

_WITHIN = re.compile(r"^Error running script .*: -([A-Z]+) ")


class Connection(Protocol):
    """As much of the driver's connection as is used here."""

    @property
    def is_connected(self) -> bool: ...
    async def connect(self) -> None: ...
    async def disconnect(self, nowait: bool = False) -> None: ...
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

    def __init__(self, pool: Pool, where: str, *, timeout_s: float, connections: int, is_ours: bool) -> None:
        self.pool = pool
        self.where = where
        self.timeout_s = timeout_s
        self._is_ours = is_ours
        self._room = asyncio.Semaphore(connections)
        self._is_closed = False
        self._running: dict[asyncio.Timeout, asyncio.Event] = {}

    async def run(self, script: Script, key: str, *words: Word, size: int = 0) -> Reply:
        """What the script gives for the key; `size` is how much goes over the line, where that is much."""
        try:
            return await self.ask("EVALSHA", script.digest, 1, key, *words, size=size)
        except _NotKnown:  # a server that was started anew; nothing was run
            return await self.ask("EVAL", script.source, 1, key, *words, size=size)

    async def ask(self, *words: Word, size: int = 0) -> Reply:
        """The reply to one command."""
        (reply,) = await self.ask_all([words], size=size)
        if isinstance(reply, told.RedisError):
            raise self.translated(reply) from reply
        return reply

    async def ask_all(
        self, commands: Sequence[Sequence[Word]], *, size: int = 0
    ) -> list[Reply | told.RedisError]:
        """The replies to several commands that are sent together; one that is refused has its error there."""
        self._check_open()
        limit_s = self.timeout_s + size / SLOWEST_BYTES_S
        limit = asyncio.timeout(limit_s)
        self._running[limit] = left = asyncio.Event()
        try:
            async with limit, self._room:
                return await self._exchanged(commands)
        except TimeoutError:
            self._check_open()
            raise Lost(f"no answer within {limit_s:.3g} s") from None
        except BROKEN as error:
            raise self.translated(error) from error
        finally:
            del self._running[limit]
            left.set()

    async def close(self) -> None:
        """End what is under way, and let go of the connections."""
        self._is_closed = True
        running = tuple(self._running.items())
        for limit, _ in running:
            with suppress(RuntimeError):  # it has just ended
                limit.reschedule(0)
        for _, left in running:
            await left.wait()
        if self._is_ours:
            with suppress(*BROKEN):
                await self.pool.aclose()

    def translated(self, error: Exception) -> Exception:
        """The driver's error as one of ours."""
        text = str(error)
        code = _code(error, text)
        if isinstance(error, told.AuthenticationError | told.AuthorizationError):
            hint = "check the user and the password in the URL"
            return AccessDenied(f"redis store {self.where} does not let us in: {text}", hint=hint)
        if code == "NOPERM":
            hint = "the user needs all commands on the keys and channels that begin with the prefix"
            return AccessDenied(f"redis store {self.where} does not let us do that: {text}", hint=hint)
        if isinstance(error, told.NoScriptError):
            return _NotKnown()
        if code == "OOM" or "No space left" in text:
            return StorageFull(f"redis store {self.where} is full: {text}", hint="raise maxmemory, or prune")
        if code in _AWAY:
            return Lost(text if code in text else f"{code} {text}")
        if isinstance(error, told.ResponseError):
            return self._refused(text)
        return self._broken(error, text)

    def _refused(self, text: str) -> StorageError:
        if "DB index is out of range" in text:
            hint = "the number at the end of the URL; a server has 16 databases unless told otherwise"
            return StorageError(f"redis store {self.where} has no such database", hint=hint)
        return StorageError(f"redis store {self.where} refused a command: {text}")

    def _broken(self, error: Exception, text: str) -> Exception:
        if isinstance(error.__context__, ssl.SSLCertVerificationError):
            hint = "add ssl_ca_certs=… to the URL, with the file of the authority that signed it"
            return StorageError(
                f"the certificate of redis store {self.where} does not hold: {text}", hint=hint
            )
        if isinstance(error, told.InvalidResponse | ValueError):
            return StorageError(f"what answers at {self.where} is not Redis", hint="check the port, and TLS")
        return Lost(text)

    async def _exchanged(self, commands: Sequence[Sequence[Word]]) -> list[Reply | told.RedisError]:
        connection = await self.pool.get_connection()
        try:
            await connection.send_packed_command(connection.pack_commands(commands))
            return [await _reply(connection) for _ in commands]
        finally:
            await self.pool.release(connection)

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"redis store {self.where} is closed", hint="open it anew")


class _NotKnown(Exception):
    """The server does not remember the script."""


async def _reply(connection: Connection) -> Reply | told.RedisError:
    try:
        return await connection.read_response()
    except told.ResponseError as error:  # the connection is fine, and the next reply follows
        return error


def _code(error: Exception, text: str) -> str:
    """The word that says what happened; what happened within a script is wrapped, differently by version."""
    if "ACL failure in script" in text:
        return "NOPERM"
    if (within := _WITHIN.search(text)) is not None:
        return within[1]
    return cast("str | None", getattr(error, "status_code", None)) or text.partition(" ")[0]
