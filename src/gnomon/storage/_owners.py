"""Which runners are alive: a runner holds its name for as long as it lives.

A back end that can tell at once (a lock on a file, a lock of the session with
the server) offers `Locks`. Elsewhere a row is renewed again and again; it is
trusted for several beats, since clocks differ by a little.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from secrets import token_hex

from msgspec.json import encode

from gnomon.errors import Conflict, StorageError
from gnomon.storage._keys import joined
from gnomon.storage._part import Part
from gnomon.storage._rows import Row
from gnomon.storage._values import checked_name
from gnomon.types.records import utc_now

__all__ = ["BEAT_S", "TRUSTED_S", "Owners"]

BEAT_S = 3.0
TRUSTED_S = 15.0
"""A runner whose last beat is older than this is dead."""


class Owners(Part):
    @asynccontextmanager
    async def holding(self, owner: str) -> AsyncGenerator[None, None]:
        """Hold the name until the block is left; `Conflict` while another holds it."""
        checked_name("the owner", owner)
        locks = self._rows.rows.locks
        if locks is None:
            async with self._beating(owner):
                yield
            return
        async with locks.holding(joined(self._tenant, owner)) as is_ours:
            if not is_ours:
                raise _taken(owner)
            yield

    async def is_held(self, owner: str) -> bool:
        """Whether the runner of that name is alive."""
        checked_name("the owner", owner)
        locks = self._rows.rows.locks
        if locks is not None:
            return await locks.is_held(joined(self._tenant, owner))
        found = await self._rows.get(self._tenant, "owners", owner)
        return found is not None and _now_us() - found.revision < TRUSTED_S * 1e6

    @asynccontextmanager
    async def _beating(self, owner: str) -> AsyncGenerator[None, None]:
        found = await self._rows.get(self._tenant, "owners", owner)
        if found is not None and _now_us() - found.revision < TRUSTED_S * 1e6:
            raise _taken(owner)
        mine = encode({"holder": token_hex(8)})
        if not await self._rows.write(self._tenant, _beat(owner, mine), found.revision if found else 0):
            raise _taken(owner)
        beats = asyncio.ensure_future(self._beat(owner, mine))
        try:
            yield
        finally:
            beats.cancel()
            await asyncio.wait({beats})
            with suppress(StorageError):  # it will be taken for dead in a moment
                await self._let_go(owner, mine)

    async def _beat(self, owner: str, mine: bytes) -> None:
        """Until another has the name: one who hung for long must not take it back, nor away, unasked."""
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(StorageError):
                found = await self._rows.get(self._tenant, "owners", owner)
                if found is not None and found.body != mine:
                    return
                await self._rows.write(self._tenant, _beat(owner, mine), found.revision if found else 0)

    async def _let_go(self, owner: str, mine: bytes) -> None:
        found = await self._rows.get(self._tenant, "owners", owner)
        if found is not None and found.body == mine:
            await self._rows.delete(self._tenant, "owners", owner, found.revision)


def _now_us() -> int:
    return int(utc_now().timestamp() * 1e6)


def _beat(owner: str, mine: bytes) -> Row:
    return Row(kind="owners", id=owner, body=mine, revision=_now_us())


def _taken(owner: str) -> Conflict:
    return Conflict(f"the name {owner!r} is held by another that is alive", hint="use a name of your own")
