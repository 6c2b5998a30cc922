"""How other processes hear of an append: NOTIFY after the commit, and one connection that listens.

A NOTIFY inside the transaction of an append would hold a lock of the whole database
until its commit, and so put all commits in a row. It comes after it, for many
appends at once, and may be lost: whoever waits looks again by itself.
"""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from hashlib import blake2b
from secrets import token_urlsafe

from gnomon.errors import GnomonError
from gnomon.storage._bells import Bell, Bells
from gnomon.storage._keys import joined
from gnomon.storage._postgres_appends import Log
from gnomon.storage._postgres_link import Connection, Link
from gnomon.storage._rows import Lost

__all__ = ["Ringing"]

_LINGER_S = 0.01
"""Between two notes: what was appended meanwhile goes into the second."""

_MOST = 500
"""A note is shorter than 8,000 bytes."""

_PAUSE_S = 1.0
_CHECK_S = 30.0

# Nothing is lost with a note, so it waits for no disk; the setting ends with its own transaction.
_NOTIFY = "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, $2)"


class Ringing:
    """Rings the bells of all processes that watch a log."""

    def __init__(self, link: Link, bells: Bells, schema: str) -> None:
        self._link = link
        self._bells = bells
        self._channel = f"gnomon_{_short(schema)}"
        self._us = token_urlsafe(6)
        self._due: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._watched: dict[str, list[Log]] = {}
        self._hearing: asyncio.Task[None] | None = None
        self._is_closed = False

    def tell(self, logs: Iterable[Log]) -> None:
        """Have the others told, soon."""
        if self._is_closed:
            return
        self._due.update(_name(log) for log in logs)
        if self._telling is None and self._due:
            self._telling = asyncio.ensure_future(self._tell_all())

    @asynccontextmanager
    async def listening(self, log: Log) -> AsyncGenerator[Bell, None]:
        name = _name(log)
        self._watched.setdefault(name, []).append(log)
        try:
            if self._hearing is None or self._hearing.done():
                self._hearing = asyncio.ensure_future(self._hear())
            async with self._bells.listening(log) as bell:
                yield bell
        finally:
            self._watched[name].remove(log)
            if not self._watched[name]:
                del self._watched[name]
            if not self._watched:
                await self._stop_hearing()

    async def close(self) -> None:
        self._is_closed = True
        if self._telling is not None:
            self._telling.cancel()
            await asyncio.wait({self._telling})
        await self._stop_hearing()

    async def _tell_all(self) -> None:
        try:
            while self._due:
                some = [self._due.pop() for _ in range(min(len(self._due), _MOST))]
                note = f"{self._us}:{','.join(some)}"
                with suppress(Lost, GnomonError):
                    await self._link.run(lambda connection, note=note: self._tell(connection, note))
                await asyncio.sleep(_LINGER_S)
        finally:
            self._telling = None

    async def _tell(self, connection: Connection, note: str) -> None:
        await connection.execute(_NOTIFY, self._channel, note, timeout=self._link.timeout_s)

    async def _hear(self) -> None:
        while True:
            with suppress(Lost, GnomonError):
                connection = await self._link.open()
                try:
                    with self._link.translated():
                        await self._hear_on(connection)
                finally:
                    await self._link.shut(connection)
            await asyncio.sleep(_PAUSE_S)

    async def _hear_on(self, connection: Connection) -> None:
        broken = asyncio.Event()
        connection.add_termination_listener(lambda _: broken.set())
        await connection.add_listener(self._channel, self._heard)
        self._bells.ring_all()  # for what was appended before we listened
        while not broken.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_S):
                    await broken.wait()
            await connection.execute("SELECT 1", timeout=self._link.timeout_s)

    def _heard(self, connection: object, pid: int, channel: str, note: str) -> None:
        sender, _, names = note.partition(":")
        if sender == self._us:  # who is in this process has heard it already
            return
        for name in names.split(","):
            for log in self._watched.get(name, ()):
                self._bells.ring(log)

    async def _stop_hearing(self) -> None:
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.cancel()
            await asyncio.wait({hearing})


def _name(log: Log) -> str:
    return _short(joined(*log))


def _short(text: str) -> str:
    return urlsafe_b64encode(blake2b(text.encode(), digest_size=9).digest()).decode()
