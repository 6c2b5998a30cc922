"""The fields of records that hold any JSON: how a value gets into each, and out again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from gnomon.contracts.storage import Storage
from gnomon.testing._storage_records import audit, checkpoint, memory, session, trace

__all__ = ["PLACES", "UPDATED", "Place"]

UPDATED = "updated "
"""What the id of a session begins with whose metadata was put there by an update."""


class Place(msgspec.Struct, frozen=True):
    """A field that is open: how to store a value in it, and how to read it back."""

    name: str
    write: Callable[[Storage, str, object], Awaitable[object]]
    read: Callable[[Storage, str], Awaitable[object]]
    is_bare: bool = False
    """Whether any value may stand there, or only a mapping of them."""

    def kept(self, value: object) -> object:
        return value if self.is_bare else {"v": value}

    async def stored(self, storage: Storage, name: str, value: object) -> object:
        await self.write(storage, name, self.kept(value))
        return await self.read(storage, name)


async def _metadata(storage: Storage, name: str) -> object:
    found = await storage.get_session(name)
    return found and found.metadata


async def _updated(storage: Storage, name: str, value: object) -> None:
    made = session(UPDATED + name)
    found = await storage.get_session(made.id)
    if found is None:
        await storage.create_session(made)
    await storage.update_session(session(made.id, metadata=value, revision=found.revision if found else 0))


async def _updated_metadata(storage: Storage, name: str) -> object:
    return await _metadata(storage, UPDATED + name)


async def _memory_value(storage: Storage, name: str) -> object:
    found = await storage.get_memory("", name)
    return found and found.value


async def _trace_attributes(storage: Storage, name: str) -> object:
    found = await storage.get_trace(f"a{name}")
    return found and found.attributes


async def _state(storage: Storage, name: str) -> object:
    found = await storage.get_checkpoint(name)
    return found and found.state


async def _detail(storage: Storage, name: str) -> object:
    found = await storage.list_audit_logs(name, 1)
    return found.items[0].detail if found.items else None


async def _input(storage: Storage, name: str) -> object:
    found = await storage.get_trace(f"i{name}")
    return found and found.input


async def _output(storage: Storage, name: str) -> object:
    found = await storage.get_trace(f"o{name}")
    return found and found.output


PLACES: tuple[Place, ...] = (
    Place(
        "SessionRecord.metadata",
        lambda storage, name, value: storage.create_session(session(name, metadata=value)),
        _metadata,
    ),
    Place("SessionRecord.metadata by update_session", _updated, _updated_metadata),
    Place(
        "MemoryRecord.value",
        lambda storage, name, value: storage.put_memory(memory(name, key=name, value=value)),
        _memory_value,
        is_bare=True,
    ),
    Place(
        "AuditLog.detail",
        lambda storage, name, value: storage.append_audit_log(audit(name, name, detail=value)),
        _detail,
    ),
    Place(
        "Trace.input",
        lambda storage, name, value: storage.insert_trace(trace(f"i{name}", input=value)),
        _input,
        is_bare=True,
    ),
    Place(
        "Trace.output",
        lambda storage, name, value: storage.insert_trace(trace(f"o{name}", output=value)),
        _output,
        is_bare=True,
    ),
    Place(
        "Trace.attributes",
        lambda storage, name, value: storage.insert_trace(trace(f"a{name}", attributes=value)),
        _trace_attributes,
    ),
    Place(
        "Checkpoint.state",
        lambda storage, name, value: storage.save_checkpoint(checkpoint(name, state=value)),
        _state,
    ),
)
