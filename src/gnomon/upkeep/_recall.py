"""A tenant's memory brought into a store; what is there under the same id is not written over."""

from __future__ import annotations

from contextlib import aclosing
from hashlib import sha256
from typing import NamedTuple

import msgspec

from gnomon.contracts.storage import Storage
from gnomon.errors import Conflict
from gnomon.types.records import MemoryRecord
from gnomon.upkeep._tally import Tally
from gnomon.upkeep._walk import memory
from gnomon.upkeep.hashes import Digest, memory_hash

__all__ = ["MemoryLanding"]

_encode = msgspec.json.Encoder(order="deterministic").encode


class _Print(NamedTuple):
    """What is kept of a record that is there: enough to tell whether it is the same, or an earlier state."""

    digest: bytes
    born_s: float
    touched_s: float


class MemoryLanding:
    """A store finds memory by its key and not by its id: the ids that are there are listed at the start."""

    def __init__(self, store: Storage, tally: Tally) -> None:
        self._store = store
        self._tally = tally
        self._digest = Digest()
        self._there: dict[str, _Print] | None = None
        self._came: set[str] = set()

    async def take(self, record: MemoryRecord) -> None:
        if record.id in self._came:
            raise Conflict(f"memory {record.id!r} came twice", hint="does somebody else write?")
        self._came.add(record.id)
        self._digest.add(record)
        there = await self._listed()
        found, came = there.pop(record.id, None), _print(record)
        if found is not None and found.digest == came.digest:
            return
        if found is not None and not (found.born_s == came.born_s and found.touched_s < came.touched_s):
            hint = "nothing was written over; delete it there, or choose another store"
            raise Conflict(f"memory {record.id!r} is another one in the target", hint=hint)
        await self._store.put_memory(record)
        self._tally.memory += 1
        self._tally.bytes += len(_encode(record))

    @property
    def hash(self) -> str:
        """Of what came."""
        return self._digest.hexdigest()

    async def finish(self) -> None:
        """What came is there. What else is there does not count."""
        others = frozenset(await self._listed())
        if await memory_hash(self._store, without=others) != self.hash:
            raise Conflict(
                "the memory in the target is not what was written", hint="does somebody else write?"
            )

    async def _listed(self) -> dict[str, _Print]:
        if self._there is None:
            self._there = {}
            async with aclosing(memory(self._store)) as records:
                async for record in records:
                    self._there[record.id] = _print(record)
        return self._there


def _print(record: MemoryRecord) -> _Print:
    digest = sha256(_encode(record)).digest()
    return _Print(digest, record.created_at.timestamp(), record.updated_at.timestamp())
