"""The records of a scope in a store. Nothing here is waited for longer than its limit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from gnomon._begun import is_meant_for_us
from gnomon.contracts.storage import MemoryStore
from gnomon.engine.patience import Late, Patience
from gnomon.errors import InvalidInput, Unavailable
from gnomon.memory._scope import Scope
from gnomon.types.records import MemoryRecord

__all__ = ["Shelf", "StoreSource"]

StoreSource: TypeAlias = MemoryStore | Callable[[], MemoryStore | Awaitable[MemoryStore]]
"""A store, or a function that gives one when it is needed."""

_PAGE = 500

_T = TypeVar("_T")


class Shelf:
    """Reads and writes the records of one agent's users."""

    def __init__(self, store: StoreSource, *, timeout_s: float, max_entries: int) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._max_entries = max_entries

    async def seen(self, scope: Scope) -> list[MemoryRecord]:
        """All that is remembered, as far as it is seen from there."""
        return await self._within(self._seen(scope))

    async def put(self, scope: Scope, record: MemoryRecord) -> bool:
        """Stores the record, unless the same is there; tells whether anything has changed."""
        return await self._within(self._put(scope, record))

    async def drop(self, scope: Scope, key: str) -> bool:
        """Deletes what is seen under the key; tells whether there was anything."""
        return await self._within(self._drop(scope, key))

    async def drop_all(self, scope: Scope) -> int:
        """Deletes all of a user's, of every session too; each deletion has the limit to itself."""
        store, count = await self._within(self._opened()), 0
        for record in await self._within(self._owned(store, scope)):
            count += await self._within(store.delete_memory(record.id))
        return count

    # --- within the limit

    async def _within(self, work: Coroutine[Any, Any, _T]) -> _T:
        try:
            return await Patience(self._timeout_s).wait_for(work, "memory")
        except Late:
            raise Unavailable(f"the store of memory did not answer within {self._timeout_s:g} s") from None
        except asyncio.CancelledError as error:
            if is_meant_for_us(error):
                raise
            raise Unavailable("the store of memory was interrupted") from error

    async def _opened(self) -> MemoryStore:
        given: object = self._store
        if not isinstance(given, MemoryStore):
            given = cast("Callable[[], object]", given)()
            given = cast(object, await given) if inspect.isawaitable(given) else given
        if not isinstance(given, MemoryStore):
            raise InvalidInput(f"the function that gives the store of memory gave {type(given).__name__}")
        return given

    async def _owned(self, store: MemoryStore, scope: Scope) -> list[MemoryRecord]:
        """All of the user's; what the store gives beside them is passed over."""
        owned: list[MemoryRecord] = []
        cursor: str | None = None
        while True:
            page = await store.list_memory(scope.agent_id, "", _PAGE, user_id=scope.user_id, cursor=cursor)
            owned += filter(scope.owns, page.items)
            if (cursor := page.next) is None:
                return owned

    async def _seen(self, scope: Scope) -> list[MemoryRecord]:
        return [record for record in await self._owned(await self._opened(), scope) if scope.shows(record)]

    async def _put(self, scope: Scope, record: MemoryRecord) -> bool:
        store = await self._opened()
        known = await store.get_memory(scope.agent_id, record.key, user_id=scope.user_id)
        if known is None or known.id != record.id:
            # It is new, or the latest of this key is of another session, or was put by somebody else.
            owned = await self._owned(store, scope)
            known = next((other for other in owned if other.id == record.id), None)
            if known is None and len(owned) >= self._max_entries:
                found = (
                    f"memory is full: {len(owned)} entries are there, and {self._max_entries} are the most"
                )
                raise InvalidInput(found, hint="forget some first")
        if known is not None and known.value == record.value:
            return False  # a new time alone would move it in the prompt, which would be paid for anew
        created_at = record.created_at if known is None else known.created_at
        await store.put_memory(msgspec.structs.replace(record, created_at=created_at))
        return True

    async def _drop(self, scope: Scope, key: str) -> bool:
        store, dropped = await self._opened(), False
        for record in await self._seen(scope):
            if record.key == key:
                dropped = await store.delete_memory(record.id) or dropped
        return dropped
