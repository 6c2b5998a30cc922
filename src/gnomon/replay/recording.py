"""The ledger of a session as a cassette: read from a store, or from an archive of one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from os import PathLike
from pathlib import Path
from typing import BinaryIO

import msgspec

from gnomon import registry
from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger, Read
from gnomon.errors import Damaged, InvalidInput, NotFound
from gnomon.upkeep.archive import import_

__all__ = ["Recording", "open_archive", "read_archive", "read_store"]

_SHOWN = 5


class Recording(msgspec.Struct, frozen=True):
    """Everything that happened in a session, in order."""

    session_id: str
    events: tuple[Read, ...]

    def __post_init__(self) -> None:
        for before, event in zip(self.events, self.events[1:], strict=False):
            if event.seq != before.seq + 1:
                found = f"event {event.seq} stands after event {before.seq}"
                raise Damaged(
                    f"the ledger of session {self.session_id!r} has a gap: {found}",
                    hint="gnomon db verify tells what is wrong with a store",
                )


async def read_store(storage: Storage, session_id: str) -> Recording:
    """The ledger of that session; `NotFound` when it has none."""
    reads = await Ledger(storage, session_id).refresh()
    if not reads:
        raise NotFound(f"session {session_id!r} has no events to replay", hint="gnomon sessions lists them")
    return Recording(session_id, tuple(reads))


async def read_archive(
    archive: str | PathLike[str] | BinaryIO, session_id: str | None = None, *, tenant: str = "default"
) -> Recording:
    """The ledger of a session in a file of `gnomon db export`; without an id, of the only one in it."""
    async with open_archive(archive) as store:
        view = store.scoped(tenant)
        return await read_store(view, session_id or await _only(view))


@asynccontextmanager
async def open_archive(archive: str | PathLike[str] | BinaryIO) -> AsyncGenerator[Storage, None]:
    """What is in a file of `gnomon db export`, as a store in memory."""
    store = registry.storage("memory://")
    try:
        await store.migrate()
        await _fill(store, archive)
        yield store
    finally:
        await store.close()


async def _fill(store: Storage, archive: str | PathLike[str] | BinaryIO) -> None:
    if not isinstance(archive, str | PathLike):
        await import_(store, archive)
        return
    try:
        file = Path(archive).open("rb")  # noqa: ASYNC230, SIM115 - opening waits for nothing
    except OSError as error:
        raise InvalidInput(f"the archive {str(archive)!r} cannot be read: {error.strerror}") from error
    with file:
        await import_(store, file)


async def _only(store: Storage) -> str:
    found: Sequence[str] = [row.id for row in (await store.list_sessions("", _SHOWN)).items]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NotFound("the archive has no sessions", hint="another tenant may have some: tenant=…")
    raise InvalidInput(
        f"the archive has several sessions, such as {', '.join(found)}", hint="name one of them"
    )
