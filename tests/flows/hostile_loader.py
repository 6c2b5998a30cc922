"""Fills a store with what would run if anything were to load it as more than data, and reads it back.

`hostile_loader.py URL PATH` says which of the interpreter's doors to running code were opened meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime

from gnomon import Message, registry
from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.errors import Damaged
from gnomon.types.events import MessageReceived
from gnomon.types.messages import Text
from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, MemoryRecord, SessionRecord, Trace

URL, PATH = sys.argv[1:]
MARKER = f"{PATH}-executed"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DOORS = ("pickle.", "marshal.", "exec", "compile", "import", "os.system", "os.exec", "subprocess.", "ctypes.")
TABLES = ("sessions", "memory", "traces", "checkpoints", "audit", "heads", "events")


class Bomb:
    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch '{MARKER}'",)


BOMB = pickle.dumps(Bomb())
VALUES: list[object] = [
    {"__reduce__": ["os.system", [f"touch '{MARKER}'"]]},
    {"py/object": "os.system", "py/reduce": [{"py/function": "os.system"}, {"py/tuple": ["true"]}]},
    {"__class__": "Bomb", "__module__": "__main__"},
    {"$type": "System.Diagnostics.Process", "lc": 1, "type": "constructor", "id": ["os", "system"]},
    "!!python/object/apply:os.system ['true']",
    "__import__('os').system('true')",
    BOMB.decode("latin-1"),
]

opened: list[str] = []
_watched = [False]


@contextmanager
def watched() -> Iterator[None]:
    _watched[0] = True
    yield
    _watched[0] = False


def watch() -> None:
    """From now on; a hook cannot be taken away again."""
    sys.addaudithook(lambda name, _: opened.append(name) if _watched[0] and name.startswith(DOORS) else None)


async def fill(storage: Storage) -> None:
    made = {"session_id": "s", "created_at": NOW}
    await storage.create_session(
        SessionRecord(id="s", created_at=NOW, updated_at=NOW, metadata={"v": VALUES})
    )
    for n, value in enumerate(VALUES):
        await storage.put_memory(
            MemoryRecord(id=str(n), key=str(n), value=value, created_at=NOW, updated_at=NOW)
        )
    await storage.insert_trace(
        Trace(id="t", session_id="s", name="n", kind="k", started_at=NOW, input=VALUES)
    )
    await storage.append_audit_log(AuditLog(id="a", actor="a", action="b", detail={"v": VALUES}, **made))
    ledger = Ledger(storage, "s")
    for n, value in enumerate(VALUES):
        part = Text(json.dumps(value), meta={"v": value})
        await ledger.append(MessageReceived(f"m{n}", Message.user(part)))
    await storage.save_checkpoint(Checkpoint(id="c", seq=1, state={"x": VALUES}, **made))
    raw = LedgerEvent(session_id="raw", seq=1, id="r", type="x", payload=BOMB, created_at=NOW)
    await storage.append_event(raw)


async def load(storage: Storage) -> None:
    """Everything comes back as it was, and the pickle in the place of an event is refused."""
    row, trace = await storage.get_session("s"), await storage.get_trace("t")
    point = await storage.get_checkpoint("c")
    assert row is not None
    assert row.metadata == {"v": VALUES}
    assert trace is not None
    assert trace.input == VALUES
    assert point is not None
    assert point.state == {"x": VALUES}
    assert [memory.value for memory in (await storage.list_memory()).items] == VALUES
    assert (await storage.list_audit_logs("s")).items[0].detail == {"v": VALUES}
    ledger = await Ledger.open(storage, "s")
    received = [waiting.received.message for waiting in ledger.fold.waiting.values()]
    assert [message.content[0].meta["v"] for message in received] == VALUES
    assert (await storage.list_events("raw")).items[0].payload == BOMB
    assert await refused(Ledger.open(storage, "raw"))


async def refused(call: object) -> bool:
    try:
        await call  # type: ignore[misc]
    except Damaged:
        return True
    return False


def overwrite() -> None:
    """Put a pickle in the place of every body, as somebody would who can write the file."""
    for table in TABLES:
        with closing(sqlite3.connect(PATH, isolation_level=None)) as connection:
            connection.execute(f"UPDATE {table} SET body = ?", (BOMB,))


async def load_overwritten(storage: Storage) -> list[bool]:
    calls = (
        storage.get_session("s"),
        storage.list_memory(),
        storage.get_trace("t"),
        storage.get_checkpoint("c"),
        storage.list_audit_logs("s"),
        storage.list_events("s"),
    )
    return [await refused(call) for call in calls]


async def main() -> list[bool]:
    storage = registry.storage(URL)
    await storage.migrate()
    await fill(storage)
    await load(storage)  # whatever is imported late is imported now
    watch()
    with watched():
        await load(storage)
    await storage.close()
    overwrite()
    storage = registry.storage(URL)
    with watched():
        refusals = await load_overwritten(storage)
    await storage.close()
    return refusals


refusals = asyncio.run(main())
print(json.dumps({"opened": opened, "refused": all(refusals), "executed": os.path.exists(MARKER)}))
