"""The way to a PostgreSQL server: a pool for what is short, and connections of their own for what lasts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from typing import Any, Protocol, TypeVar, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]
import msgspec

from gnomon.errors import ConfigError, StorageError
from gnomon.storage._postgres_errors import FOREIGN, explained, is_undone, leaves_connection
from gnomon.storage._rows import Lost

__all__ = ["Connection", "Link", "Settings"]

_REPEATS = 20
"""How often a transaction that the server has undone for another's sake is sent again."""

_PAUSE_S = 0.02
_STOP_S = 1.0
_CLOSE_S = 2.0

_connect = cast("Callable[..., Awaitable[object]]", asyncpg.connect)  # pyright: ignore[reportUnknownMemberType]
_create_pool = cast("Callable[..., Any]", asyncpg.create_pool)  # pyright: ignore[reportUnknownMemberType]

_T = TypeVar("_T")


class Connection(Protocol):
    """What we use of a connection of asyncpg, which does not say its types."""

    async def execute(self, query: str, *values: object, timeout: float | None = None) -> str: ...

    async def fetch(
        self, query: str, *values: object, timeout: float | None = None
    ) -> list[tuple[Any, ...]]: ...

    async def fetchrow(
        self, query: str, *values: object, timeout: float | None = None
    ) -> tuple[Any, ...] | None: ...

    async def fetchval(self, query: str, *values: object, timeout: float | None = None) -> Any: ...

    def transaction(self, *, isolation: str) -> AbstractAsyncContextManager[object]: ...

    async def add_listener(self, channel: str, callback: Callable[..., None]) -> None: ...

    def add_termination_listener(self, callback: Callable[[object], None]) -> None: ...

    def get_server_pid(self) -> int: ...

    def get_settings(self) -> Any: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def terminate(self) -> None: ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How a store talks to its server. The address may hold a password, and so is not shown."""

    where: str
    dsn: str | None
    connections: int
    statement_cache_size: int
    timeout_s: float

    def __repr__(self) -> str:
        return f"Settings({self.where})"


class Link:
    """The connections of one store, made when they are needed first."""

    def __init__(self, settings: Settings, client: asyncpg.Pool | None) -> None:
        self.settings = settings
        self._client: Any = client
        self._pool: Any = None
        self._opening = asyncio.Lock()
        self._greeted: set[int] = set()
        self._is_closed = False
        self.durability = ""
        """What the server says of it; known after the first answer."""

    @property
    def timeout_s(self) -> float:
        return self.settings.timeout_s

    async def run(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        """What the work gives. It must be one transaction: where the server undoes it, it is done again."""
        for _ in range(_REPEATS):
            try:
                return await self._done(work)
            except FOREIGN as error:
                if not is_undone(error):
                    raise self._explained(error) from error
            await asyncio.sleep(random.uniform(0, _PAUSE_S))  # noqa: S311 - to spread, not to hide
        raise Lost("the server has undone the transaction again and again, for others that were in its way")

    async def open(self) -> Connection:
        """A connection for one user alone, who asks under `translated` and shuts it."""
        self._check_open()
        with self.translated():
            connection = await self._lone()
            try:
                await self._greet(connection)
            except BaseException:
                _abort(connection)
                raise
            return connection

    async def shut(self, connection: Connection) -> None:
        """Also where it came from a pool: it listens, or holds locks, which nobody shall inherit."""
        with suppress(*FOREIGN):
            await connection.close(timeout=_CLOSE_S)

    @contextmanager
    def translated(self) -> Generator[None, None, None]:
        try:
            yield
        except FOREIGN as error:
            raise self._explained(error) from error

    async def close(self) -> None:
        """Let the calls that are under way come to their end, but not for long."""
        self._is_closed = True
        pool, self._pool = self._pool, None
        if pool is None or self._client is not None:
            return
        with suppress(*FOREIGN):
            async with asyncio.timeout(_CLOSE_S):
                await pool.close()  # it ends them all when it is interrupted
        await asyncio.sleep(0)  # a socket is closed one step after its connection

    # --- inside

    async def _done(self, work: Callable[[Connection], Awaitable[_T]]) -> _T:
        pool = await self._opened()
        connection: Connection = await pool.acquire(timeout=self.timeout_s)
        stop_s: float | None = None
        try:
            await self._greet_given(connection)
            return await work(connection)
        except (asyncio.CancelledError, TimeoutError):
            # The driver has asked the server to stop. Until it says that it did, the work could still
            # be done, after what the caller does next; but nobody waits long for a server that hangs.
            stop_s = _STOP_S
            raise
        except BaseException as error:
            if not leaves_connection(error):
                _abort(connection)
            raise
        finally:
            with suppress(*FOREIGN):  # what was done is done, whatever becomes of the connection
                await pool.release(connection, timeout=stop_s)

    async def _opened(self) -> Any:
        self._check_open()
        if self._client is not None and self._client.is_closing():
            raise StorageError("the pool that the store was given is closed", hint="keep it for as long")
        async with self._opening:
            if self._pool is None:
                self._pool = await (self._client if self._client is not None else self._own_pool())
        return self._pool

    def _own_pool(self) -> Any:
        return _create_pool(
            min_size=0,
            max_size=self.settings.connections,
            init=self._greet,
            reset=_leave_as_it_is,
            **self._address(),
        )

    def _address(self) -> dict[str, Any]:
        dsn = self.settings.dsn or ""
        named = {} if "application_name=" in dsn else {"server_settings": {"application_name": "gnomon"}}
        return {
            "dsn": dsn,
            "timeout": self.timeout_s,
            "command_timeout": self.timeout_s,
            "statement_cache_size": self.settings.statement_cache_size,
            "target_session_attrs": "read-write",
            **named,
        }

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"{self.settings.where} is closed", hint="open it anew")

    async def _lone(self) -> Connection:
        if self._client is None:
            return cast(Connection, await _connect(**self._address()))
        pool = await self._opened()
        return await pool.acquire(timeout=self.timeout_s)

    async def _greet_given(self, connection: Connection) -> None:
        """A pool of somebody else's hands out connections that we have not seen yet."""
        if self._client is None or (pid := connection.get_server_pid()) in self._greeted:
            return
        await self._greet(connection)
        self._greeted.add(pid)

    async def _greet(self, connection: Connection) -> None:
        """A connection may be used if what it writes lasts, on a server that writes."""
        encoding = connection.get_settings().server_encoding
        if encoding != "UTF8":
            message = (
                f"{self.settings.where}: the database is encoded in {encoding}, which does not hold all text"
            )
            raise StorageError(message, hint="create another with CREATE DATABASE … ENCODING 'UTF8'")
        found = await connection.fetchrow(_GREETING, timeout=self.timeout_s)
        is_standby, commit, fsync = found or (False, "on", "on")
        if is_standby:
            raise Lost("the server is a standby, whose answers may be old")
        if commit == "off":
            await self._wait_for_commits(connection)
        self.durability = _LASTING if fsync == "on" else _FLEETING

    async def _wait_for_commits(self, connection: Connection) -> None:
        if self._client is None:
            await connection.execute("SET synchronous_commit = on", timeout=self.timeout_s)
            return
        hint = "make it with server_settings={'synchronous_commit': 'on'}"
        raise ConfigError("the pool has synchronous_commit off: what was stored could be lost", hint=hint)

    def _explained(self, error: BaseException) -> BaseException:
        if self._is_closed:
            return StorageError(f"{self.settings.where} was closed in the meantime", hint="open it anew")
        return explained(error, self.settings.where)


_GREETING = "SELECT pg_is_in_recovery(), current_setting('synchronous_commit'), current_setting('fsync')"

_LASTING = "on the server's disk before it is acknowledged"
_FLEETING = "the server has fsync off: what was acknowledged may be gone when its machine stops"


def _abort(connection: Connection) -> None:
    with suppress(*FOREIGN):  # it may be back in its pool already
        connection.terminate()


async def _leave_as_it_is(connection: object) -> None:
    """Our calls leave nothing behind on a connection: no round trip is needed to clean it."""
