"""What a runtime stands on: its store, with its tables, and that it is known as alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress

from gnomon.contracts.storage import Storage, SupportsOwners
from gnomon.engine.ledger import Ledger
from gnomon.errors import StorageError
from gnomon.session._sockets import LiveServer

__all__ = ["Footing"]


class Footing:
    """Made when it is first needed. The store is closed with it when it `owns_store`.

    `left` is a store that nobody has closed in an event loop that is over.
    """

    is_closed: bool = False

    def __init__(
        self,
        name: str,
        make: Callable[[], Storage],
        owner: str,
        sockets: LiveServer,
        *,
        owns_store: bool,
        left: Storage | None,
    ) -> None:
        self._name = name
        self._make = make
        self._owner = owner
        self._sockets = sockets
        self._owns_store = owns_store
        self._left = left
        self._storage: asyncio.Future[Storage] | None = None
        self._held: asyncio.Future[None] | None = None
        self._standing: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()

    def check_open(self) -> None:
        if self.is_closed:
            raise RuntimeError(f"the agent {self._name!r} is closed")

    async def storage(self) -> Storage:
        """The store, with its tables."""
        self.check_open()
        if self._storage is None or (self._storage.done() and self._storage.exception() is not None):
            self._storage = asyncio.ensure_future(self._migrated())
        return await asyncio.shield(self._storage)

    async def kept(self) -> Storage:
        """The same, also while all is being let go of: what is to be kept is kept."""
        return await (self.storage() if self._storage is None else asyncio.shield(self._storage))

    async def _migrated(self) -> Storage:
        await self._close_left()
        storage = self._make()
        try:
            await storage.migrate()
        except BaseException:
            if self._owns_store:  # the next try makes another
                with suppress(StorageError):
                    await storage.close()
            raise
        return storage

    @property
    def left_open(self) -> Storage | None:
        """A store of its own that nobody has closed."""
        made = self._storage
        if not self._owns_store or made is None or self.is_closed or not made.done() or made.cancelled():
            return self._left
        return made.result() if made.exception() is None else None

    async def _close_left(self) -> None:
        left, self._left = self._left, None
        if left is not None:
            with suppress(StorageError):  # some can be closed in their own loop alone, and it is over
                await left.close()

    async def hold(self) -> None:
        """Be known as alive, before the first session is claimed."""
        if self._held is None or (self._held.done() and self._held.exception() is not None):
            self._held = asyncio.get_running_loop().create_future()
            # In a task, which a loop that ends ends in order, also when nobody closes the agent.
            self._standing = asyncio.ensure_future(self._stand(self._held))
        await asyncio.shield(self._held)

    async def _stand(self, held: asyncio.Future[None]) -> None:
        try:
            storage = await self.storage()
            owned = storage.holding(self._owner) if isinstance(storage, SupportsOwners) else nullcontext()
            async with owned:
                await self._sockets.open()
                held.set_result(None)
                await self._leaving.wait()
        except BaseException as error:
            if held.done():
                raise
            held.set_exception(error)
        finally:
            await self._sockets.close()

    async def close(self, opening: Iterable[asyncio.Future[Ledger]]) -> None:
        """Let go of it; of ledgers that are being opened, when they are there."""
        self._leaving.set()
        for beginning in (self._standing, self._storage, *opening):
            if beginning is not None:  # what has begun is let go of when it is there
                await asyncio.wait({beginning})
        if self._owns_store and self._storage is not None and self._storage.exception() is None:
            await self._storage.result().close()
        await self._close_left()
