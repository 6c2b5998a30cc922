"""Primitives that bear a lost connection: tried again where that is safe, and never counted twice.

When a connection breaks, nobody knows whether the last write went through. So a
write that is refused after a break is looked up: if what is there is what was to
be written, it did go through.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from time import monotonic
from typing import TypeVar

from gnomon.errors import StorageError, Unavailable, WrongSchema
from gnomon.storage._bells import Bell
from gnomon.storage._rows import SCHEMA, Found, Group, Lost, Row, Rows, Span

__all__ = ["PATIENCE_S", "Steady"]

PATIENCE_S = 10.0
"""How long a call goes on trying when the store is away."""

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0

_T = TypeVar("_T")


class _Tries:
    """The tries of one call."""

    def __init__(self, rows: Rows, patience_s: float) -> None:
        self._rows = rows
        self._until = monotonic() + patience_s
        self._pause_s = _FIRST_PAUSE_S
        self.broke = False
        """Whether a try ended with a lost connection, so that it may have gone through."""

    async def again(self, lost: Lost) -> None:
        """Wait a moment, or give up."""
        self.broke = True
        pause_s = random.uniform(0.5, 1.0) * self._pause_s  # noqa: S311 - to spread, not to hide
        if monotonic() + pause_s > self._until:
            message = f"{self._rows.name} store {self._rows.where} cannot be reached: {lost}"
            hint = "whether the last write went through is not known; it is not counted as stored"
            raise Unavailable(message, hint=hint) from lost
        self._pause_s = min(_LONGEST_PAUSE_S, self._pause_s * 2)
        await asyncio.sleep(pause_s)


class Steady:
    """The primitives of a back end, for the records above: checked, and tried again."""

    def __init__(self, rows: Rows, patience_s: float = PATIENCE_S) -> None:
        self.rows = rows
        self.tenants: set[str] = set()
        """The tenants that are known to be on the store's list."""
        self.sessions: dict[tuple[str, str], tuple[int, int]] = {}
        """The revision and last_seq of rows of sessions, by tenant and id, as they were written from here."""
        self._patience_s = patience_s
        self._is_ready = False
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def where(self) -> str:
        return f"{self.rows.name} store {self.rows.where}"

    # --- rows

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        await self._ready()
        tries = self._tries()
        while True:
            try:
                if await self.rows.write(tenant, row, expect):
                    return True
                return tries.broke and await self._holds(tenant, row)
            except Lost as lost:
                await tries.again(lost)

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        await self._ready()
        return await self._repeated(lambda: self.rows.get(tenant, kind, id))

    async def find(self, tenant: str, span: Span) -> list[Found]:
        await self._ready()
        return await self._repeated(lambda: self.rows.find(tenant, span))

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        await self._ready()
        tries = self._tries()
        while True:
            try:
                if await self.rows.delete(tenant, kind, id, expect):
                    return True
                # What is gone after a break was most likely removed by the try that broke.
                return tries.broke and await self.rows.get(tenant, kind, id) is None
            except Lost as lost:
                await tries.again(lost)

    # --- logs

    async def append(self, tenant: str, session_id: str, group: Group, row: Row | None = None) -> bool:
        self._check_open()
        if not self._is_ready:
            await self._ready()
        tries: _Tries | None = None
        while True:
            try:
                done = await self._appended(tenant, session_id, group, row)
                if not done and tries is not None:
                    done = await self._went_through(tenant, session_id, group, row)
            except Lost as lost:
                tries = tries or self._tries()
                await tries.again(lost)
            else:
                if done:
                    self.rows.bells.ring((tenant, session_id))
                return done

    def _appended(self, tenant: str, session_id: str, group: Group, row: Row | None) -> Awaitable[bool]:
        if row is None:
            return self.rows.append(tenant, session_id, group)
        return self.rows.append_and_write(tenant, session_id, group, row)

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        await self._ready()
        return await self._repeated(lambda: self.rows.read(tenant, session_id, after_seq, limit))

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        await self._ready()
        return await self._repeated(lambda: self.rows.cut(tenant, session_id, through))

    def listening(self, tenant: str, session_id: str) -> AbstractAsyncContextManager[Bell]:
        return self.rows.listening(tenant, session_id)

    # --- the store as a whole

    async def version(self) -> int:
        self._check_open()
        return await self._repeated(self.rows.version)

    async def migrate(self) -> None:
        self._check_open()
        self._refuse_newer(await self._repeated(self.rows.version))
        await self._repeated(self.rows.migrate)
        self._is_ready = True

    async def close(self) -> None:
        is_elsewhere = self._is_elsewhere()
        if is_elsewhere and not self._is_over():
            raise self._of_another_loop()
        self._is_closed = True
        self.rows.bells.ring_all()  # who waits finds the store closed
        # What went with its event loop cannot be let go of, nor need it be.
        with suppress(RuntimeError) if is_elsewhere else nullcontext():
            await self.rows.close()

    # --- inside

    async def _ready(self) -> None:
        """Before the first call: the tables must be there, and be ours to read."""
        self._check_open()
        if self._is_ready:
            return
        found = await self._repeated(self.rows.version)
        self._refuse_newer(found)
        if found < SCHEMA:
            said = "has no tables yet" if found == 0 else f"has tables of version {found}; this is {SCHEMA}"
            hint = "call migrate() on the store, or run: gnomon db migrate"
            raise WrongSchema(f"{self.where} {said}", hint=hint)
        self._is_ready = True

    def _refuse_newer(self, found: int) -> None:
        if found > SCHEMA:
            message = f"{self.where} has tables of version {found}, newer than the {SCHEMA} this gnomon knows"
            raise WrongSchema(message, hint="upgrade gnomon; nothing was changed")

    def _check_open(self) -> None:
        if self._is_closed:
            raise StorageError(f"{self.where} is closed", hint="open it anew")
        if self._is_elsewhere():
            raise self._of_another_loop()

    def _is_elsewhere(self) -> bool:
        """Whether its connections are of another event loop, in which they hang or break here."""
        if not self.rows.is_of_one_loop:
            return False
        here = asyncio.get_running_loop()
        self._loop = self._loop or here
        return self._loop is not here

    def _is_over(self) -> bool:
        """Whether nobody uses its connections any more."""
        return self._is_closed or (self._loop is not None and self._loop.is_closed())

    def _of_another_loop(self) -> StorageError:
        hint = "open one store in each event loop, and close it there"
        return StorageError(f"{self.where} belongs to another event loop", hint=hint)

    def _tries(self) -> _Tries:
        return _Tries(self.rows, self._patience_s)

    async def _repeated(self, call: Callable[[], Awaitable[_T]]) -> _T:
        """For what may be done twice."""
        tries = self._tries()
        while True:
            try:
                return await call()
            except Lost as lost:
                await tries.again(lost)

    async def _holds(self, tenant: str, row: Row) -> bool:
        found = await self._repeated(lambda: self.rows.get(tenant, row.kind, row.id))
        return found is not None and (found.revision, found.body) == (row.revision, row.body)

    async def _went_through(self, tenant: str, session_id: str, group: Group, row: Row | None) -> bool:
        """Whether an append that broke is in the log after all; then the row with it may still be missing."""
        done = await self._has(tenant, session_id, group)
        if done and row is not None and not await self._holds(tenant, row):
            await self.write(tenant, row, None)
        return done

    async def _has(self, tenant: str, session_id: str, group: Group) -> bool:
        found = await self._repeated(lambda: self.rows.read(tenant, session_id, group.first - 1, 1))
        return bool(found) and (found[0].first, found[0].body) == (group.first, group.body)
