"""What the parts of the suite of `Storage` share: what a back end fills in, and how one is opened."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import ClassVar, cast

from gnomon.contracts.storage import Storage
from gnomon.testing._suite import Contract, skip
from gnomon.types.records import AuditLog

__all__ = ["SOAK", "StorageSuite", "opened"]

SOAK = os.environ.get("GNOMON_SOAK") == "1"


class StorageSuite(Contract[Storage]):
    """What a back end tells of itself. Only `open` must be filled in."""

    limit_s: ClassVar[float] = 900.0 if SOAK else 120.0

    opener: ClassVar[str] = "gnomon.registry:storage"
    """Where another process finds the function that makes a store of a URL."""

    appends: ClassVar[int] = 250 if SOAK else 25
    """How many events each of the writers appends that are in one another's way."""

    def url(self, storage: Storage) -> str | None:
        """By which another process opens the very same store; `None` when no other can."""
        return None

    def fresh_url(self) -> str | None:
        """The URL of a store that nobody has migrated yet; `None` when there is none."""
        return None

    def old_urls(self) -> Sequence[str]:
        """The URLs of stores with some rows in them, as each released version has left them."""
        return ()

    def interrupt(self, storage: Storage) -> Awaitable[object] | None:
        """Break the connections under the store, and let it find them again; `None` when it has none."""
        return None

    async def tamper(self, storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
        """Put this in place of an audit row behind the store's back, or nothing; whether it could."""
        return await _tampered(storage, stored, forged)

    async def make_newer(self, storage: Storage) -> bool:
        """Mark the schema as one that only later code knows; whether it could."""
        return False

    def shared_url(self, storage: Storage) -> str:
        return self.url(storage) or skip(self, "a URL by which another process opens the same store")

    @asynccontextmanager
    async def another(self, storage: Storage) -> AsyncGenerator[Storage, None]:
        """The same store, opened once more."""
        async with opened(self.opener, self.shared_url(storage)) as other:
            yield other


@asynccontextmanager
async def opened(opener: str, url: str) -> AsyncGenerator[Storage, None]:
    module, _, name = opener.partition(":")
    storage = cast("Callable[[str], Storage]", getattr(import_module(module), name))(url)
    try:
        yield storage
    finally:
        await storage.close()


async def _tampered(storage: Storage, stored: AuditLog, forged: AuditLog | None) -> bool:
    """By the primitives of a store that is made of them."""
    from gnomon.storage._audit import audit_row
    from gnomon.storage._records import RecordStorage

    if not isinstance(storage, RecordStorage):
        return False
    rows = storage._rows  # pyright: ignore[reportPrivateUsage] - behind the store's back
    if forged is not None:
        return await rows.write(storage.tenant, audit_row(forged), None)
    return await rows.delete(storage.tenant, "audit", audit_row(stored).id)
