"""Names held by advisory locks of one connection: the server lets go of them when the process dies.

The connection may break while the process lives. Then it is opened again and the
names are taken again, which leaves a moment in which another can take one. That
is no harm: a lock says who is alive, and the log itself decides whose append counts.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from time import monotonic

from gnomon.errors import GnomonError, Unavailable
from gnomon.storage._keys import joined
from gnomon.storage._postgres_errors import FOREIGN
from gnomon.storage._postgres_link import Connection, Link
from gnomon.storage._rows import Lost

__all__ = ["AdvisoryLocks", "lock_key"]

log = logging.getLogger("gnomon.storage.postgres")

_BEAT_S = 3.0
"""How often the connection is tried, so that its loss is noticed."""

_PAUSE_S = 0.1

_TAKE, _LET_GO = "SELECT pg_try_advisory_lock($1)", "SELECT pg_advisory_unlock($1)"
_BEAT = "SELECT $1 = 0::bigint"

_ASK = (
    "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted "
    "AND mode = 'ExclusiveLock' AND classid::bigint = $1 AND objid::bigint = $2 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
)

# A machine that has lost its power says no goodbye: the server is to notice within about ten seconds.
_NOTICE = (
    "SELECT set_config('tcp_keepalives_idle', '4', false), "
    "set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false)"
)


class AdvisoryLocks:
    """`Locks` on one connection that is open for as long as a name is held."""

    def __init__(self, link: Link, schema: str, patience_s: float) -> None:
        self._link = link
        self._schema = schema
        self._patience_s = patience_s
        self._held: set[int] = set()
        self._turn = asyncio.Lock()
        self._connection: Connection | None = None
        self._broken = asyncio.Event()
        self._keeping: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def holding(self, name: str) -> AsyncGenerator[bool, None]:
        key = lock_key(self._schema, name)
        if not await self._taken(key):
            yield False
            return
        try:
            yield True
        finally:
            await self._let_go(key)

    async def is_held(self, name: str) -> bool:
        key = lock_key(self._schema, name)
        if key in self._held:
            return True
        halves = ((key >> 32) & 0xFFFFFFFF, key & 0xFFFFFFFF)
        return await self._patiently(lambda: self._link.run(lambda connection: self._ask(connection, halves)))

    async def close(self) -> None:
        self._held.clear()
        await self._end()

    # --- taking and letting go

    async def _taken(self, key: int) -> bool:
        async with self._turn:
            # The server lets one connection take a name twice, so it cannot be asked about our own.
            if key in self._held or not await self._patiently(lambda: self._asked(_TAKE, key)):
                return False
            self._held.add(key)
            if self._keeping is None:
                self._keeping = asyncio.ensure_future(self._keep())
            return True

    async def _let_go(self, key: int) -> None:
        self._held.discard(key)
        try:
            async with self._turn:
                if self._connection is not None:
                    with suppress(Lost, GnomonError):
                        await self._asked(_LET_GO, key)
                if not self._held:
                    await self._end()
        except asyncio.CancelledError:
            self._give_up()  # the name goes with the connection; the others are taken again
            raise

    async def _end(self) -> None:
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait({keeping})
        connection, self._connection = self._connection, None
        if connection is not None:
            await self._link.shut(connection)

    # --- the connection

    async def _keep(self) -> None:
        """Try the connection now and then, and open it again when it broke."""
        pause_s = _BEAT_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._broken.wait()
            self._broken.clear()
            pause_s = _PAUSE_S
            with suppress(Lost, GnomonError):
                async with self._turn:
                    await self._asked(_BEAT, 0)
                pause_s = _BEAT_S

    async def _asked(self, question: str, key: int) -> bool:
        connection = await self._connected()
        try:
            with self._link.translated():
                return bool(await connection.fetchval(question, key, timeout=self._link.timeout_s))
        except BaseException:
            self._give_up()  # what it holds, or not, is not known
            raise

    async def _connected(self) -> Connection:
        if self._connection is None:
            connection = await self._link.open()
            try:
                with self._link.translated():
                    await self._take_again(connection)
            except BaseException:
                connection.terminate()
                raise
            connection.add_termination_listener(self._broke)
            self._connection = connection
        return self._connection

    async def _take_again(self, connection: Connection) -> None:
        await connection.execute(_NOTICE, timeout=self._link.timeout_s)
        for key in tuple(self._held):
            if not await connection.fetchval(_TAKE, key, timeout=self._link.timeout_s):
                log.warning("a name was taken by another while the connection to the store was broken")

    def _broke(self, connection: object) -> None:
        if connection is self._connection:
            self._connection = None
            self._broken.set()

    def _give_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*FOREIGN):  # it may be back in its pool already
                connection.terminate()
        self._broken.set()

    # --- asking

    async def _ask(self, connection: Connection, halves: tuple[int, int]) -> bool:
        return bool(await connection.fetchval(_ASK, *halves, timeout=self._link.timeout_s))

    async def _patiently(self, ask: Callable[[], Awaitable[bool]]) -> bool:
        until = monotonic() + self._patience_s
        while True:
            try:
                return await ask()
            except Lost as lost:
                if monotonic() > until:
                    raise Unavailable(f"{self._link.settings.where} cannot be reached: {lost}") from lost
            await asyncio.sleep(_PAUSE_S)


def lock_key(schema: str, name: str) -> int:
    """The number by which the server knows a lock; the names of other schemas have other numbers."""
    digest = blake2b(joined(schema, name).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
