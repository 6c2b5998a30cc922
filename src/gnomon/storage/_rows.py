"""What a back end supplies: rows that are found in order, and logs that only grow.

Everything a `Storage` promises is written once above these few primitives. A
row has a place in each of its kind's indexes: a part, and a sort key within it.
Keys are text that compares by its UTF-8 bytes on every back end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import ClassVar, NamedTuple, Protocol

import msgspec

from gnomon.storage._bells import Bell, Bells

__all__ = [
    "FIRST_INDEXES",
    "INDEXES",
    "READ_BYTES",
    "SCHEMA",
    "Found",
    "Group",
    "Locks",
    "Lost",
    "Place",
    "Row",
    "Rows",
    "Span",
]

SCHEMA = 1
"""The schema that this code reads and writes; each back end has the way there from every earlier one."""

READ_BYTES = 4_000_000
"""A read of a log ends after about so much, however many groups were asked for."""

FIRST_INDEXES: Mapping[str, tuple[str, ...]] = {
    "sessions": ("all", "agent", "user", "due", "wake", "touched"),
    "memory": ("all", "agent", "user", "session", "touched"),
    "audit": ("session",),
    "heads": (),
    "traces": ("session", "touched"),
    "checkpoints": ("session",),
    "blobs": ("touched",),
    "tenants": ("all",),
    "owners": (),
}
"""The kinds of rows and their indexes in schema 1, as the first migration makes them: never changed."""

INDEXES = FIRST_INDEXES
"""Every kind of row, and the indexes by which it is found."""


class Lost(Exception):
    """The connection broke or the server is away: what was asked may have been done, or not."""


class Place(NamedTuple):
    """Where a row stands in an index: sort keys are unique within a part."""

    part: str
    sort: str


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `revision` is the writer's own count; a back end never reads `body`."""

    kind: str
    id: str
    body: bytes
    revision: int = 1
    places: Mapping[str, Place] = {}


class Found(msgspec.Struct, frozen=True, gc=False):
    """A row as it was found; `sort` is its key in the index that was read."""

    id: str
    revision: int
    body: bytes
    sort: str = ""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of an index: keys above one and below another, both exclusive; "" is no bound."""

    kind: str
    index: str
    part: str = ""
    above: str = ""
    below: str = ""
    descending: bool = False
    limit: int = 50
    bodies: bool = True


class Group(msgspec.Struct, frozen=True, gc=False):
    """The events `first` to `last` of a log, appended as one."""

    first: int
    last: int
    body: bytes


class Locks(Protocol):
    """Names that are held by a living process, and let go by the system when it dies."""

    def holding(self, name: str) -> AbstractAsyncContextManager[bool]:
        """Hold the name until the block is left; gives `False` when another holds it."""
        ...

    async def is_held(self, name: str) -> bool: ...


class Rows(ABC):
    """The primitives of one database.

    - every method may raise `Lost`, and then may be called again: the layer above finds
      out whether a write went through. Other failures are `StorageError`s that say what to do.
    - all of a tenant's keys begin with the tenant.
    - a call that is cancelled may have been done or not, and must leave the connection usable.
    """

    name: ClassVar[str]
    is_of_one_loop: ClassVar[bool] = False
    """Whether its connections work only in the event loop in which they were made."""
    poll_s: ClassVar[float] = 1.0
    """How long a reader that waits trusts the bell alone, before it looks again by itself."""

    def __init__(self, where: str) -> None:
        self.where = where
        """The database, for messages: never with a password."""
        self.durability = ""
        """How long what was acknowledged lasts, in a few words."""
        self.bells = Bells()
        self.locks: Locks | None = None
        """Where the database has no locks of its own, the records above use rows that are renewed."""

    @abstractmethod
    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        """Store the row and its places in the stead of the earlier ones, whole or not at all.

        `expect` is the revision that must be stored now, 0 for none, `None` for any;
        `False` when it is another, and then nothing has changed.
        """

    @abstractmethod
    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        """The row as it was last written; never an older one."""

    @abstractmethod
    async def find(self, tenant: str, span: Span) -> list[Found]:
        """The rows of a stretch in its order, at most `limit`; what was written before is among them.

        Fewer than `limit` means that there are no more. Without `bodies` the body may be empty.
        """

    @abstractmethod
    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        """Remove the row and its places; `False` when there is none, or none of that revision."""

    @abstractmethod
    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        """Durably add the group to the log, if its tail is `first - 1`; `False` when it is not."""

    async def append_and_write(self, tenant: str, session_id: str, group: Group, row: Row) -> bool:
        """The same, and then the row, whatever stood there; where it can, in one transaction."""
        done = await self.append(tenant, session_id, group)
        if done:
            await self.write(tenant, row, None)
        return done

    @abstractmethod
    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        """The groups whose `last` is above `after_seq`, in order, at most `limit`.

        It may end after `READ_BYTES`, and where they hold `limit` events above `after_seq`, but gives
        at least one where there is one.
        """

    @abstractmethod
    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        """Remove the groups whose `last` is at most `through`, or all; how many events that were.

        After all are gone the log may begin anew, or go on at its number: the layer above never asks
        for the last group but to forget the whole log.
        """

    @abstractmethod
    async def version(self) -> int:
        """The schema that is there; 0 for none."""

    @abstractmethod
    async def migrate(self) -> None:
        """Bring the schema to `SCHEMA`, whoever else does so at the same time."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of connections and files; twice is fine."""

    def listening(self, tenant: str, session_id: str) -> AbstractAsyncContextManager[Bell]:
        """A bell that rings when this process has appended to the log or, where it can, another has."""
        return self.bells.listening((tenant, session_id))
