"""The process that `test_storage_kill.py` kills: it writes to several sessions at once, and says on stdout
what was acknowledged, line by line, the moment it was.

`killed_writer.py URL` writes until it is killed, or until a line comes on stdin.
`killed_writer.py URL open` says "ready", waits for a line, then opens the store and reads all of it.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import uuid
from contextlib import suppress

import msgspec

from gnomon import registry
from gnomon.contracts.storage import Storage, SupportsBlobs
from gnomon.engine.ledger import Ledger
from gnomon.errors import Conflict, Unavailable
from gnomon.types.events import MessageReceived, ToolIntent
from gnomon.types.messages import Message
from gnomon.types.records import AuditLog, SessionRecord, utc_now

SESSIONS = 4
SIZES = (20, 2_000, 60_000)  # the last is kept aside, as a blob


class Said(msgspec.Struct, omit_defaults=True):
    """One acknowledgement."""

    kind: str
    session: str = ""
    name: str = ""
    seq: int = 0


def say(kind: str, session: str = "", name: str = "", seq: int = 0) -> None:
    # One write of less than a page: a reader of the pipe gets it whole or not at all.
    os.write(1, msgspec.json.encode(Said(kind, session, name, seq)) + b"\n")


def text_of(name: str, size: int) -> str:
    return f"{name}:{size}:" + "x" * size


class Writer:
    """One session, written to in every way there is."""

    def __init__(self, storage: Storage, session: str) -> None:
        self._storage = storage
        self._session = session
        self._run = uuid.uuid4().hex[:8]
        self._count = 0
        self._chance = random.Random()
        self._ledger = Ledger(storage, session)

    async def write_until(self, stop: asyncio.Event) -> None:
        await self._patiently(self._begin)
        steps = (self._send, self._send, self._group, self._group, self._row, self._point, self._audit)
        while not stop.is_set():
            self._count += 1
            await self._patiently(self._chance.choice(steps))

    async def _patiently(self, step: object) -> None:
        """What is tried again after the store was away is the same step, under the same name."""
        while True:
            try:
                await step()  # type: ignore[operator]
                return
            except Unavailable:
                say("away", self._session)
                self._ledger = Ledger(self._storage, self._session)
                await self._patiently(self._ledger.refresh)

    @property
    def _name(self) -> str:
        return f"{self._session}-{self._run}-{self._count}"

    async def _begin(self) -> None:
        now = utc_now()
        row = SessionRecord(id=self._session, created_at=now, updated_at=now, user_id="somebody")
        with suppress(Conflict):  # an earlier run made it
            await self._storage.create_session(row)
        self._ledger = await Ledger.open(self._storage, self._session)

    async def _send(self) -> None:
        text = text_of(self._name, SIZES[self._count % len(SIZES)])
        seq = await self._ledger.append(MessageReceived(self._name, Message.user(text)))
        say("message", self._session, self._name, seq)

    async def _group(self) -> None:
        size = 2 + self._count % 4
        name = f"{self._name}-{uuid.uuid4().hex[:6]}"  # tried again, it is another one
        entries = [ToolIntent(name, f"{at}/{size}", "tool", "key") for at in range(1, size + 1)]
        say("group", self._session, name, await self._ledger.append(*entries))

    async def _row(self) -> None:
        row = await self._ledger.project("running", runnable=self._chance.random() < 0.5)
        say("row", self._session, seq=row.last_seq)

    async def _point(self) -> None:
        await self._ledger.checkpoint()
        say("point", self._session, seq=self._ledger.fold.seq)

    async def _audit(self) -> None:
        name = f"{self._name}-{uuid.uuid4().hex[:6]}"
        row = AuditLog(id=name, session_id=self._session, actor="a", action="b", created_at=utc_now())
        say("audit", self._session, name, (await self._storage.append_audit_log(row)).seq)
        if isinstance(self._storage, SupportsBlobs):
            content = text_of(name, 500).encode()
            say("blob", name=await self._storage.put_blob(content))


async def write(url: str) -> None:
    storage = registry.storage(url)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, stop.set)
    await storage.migrate()
    say("open")
    try:
        await asyncio.gather(*(Writer(storage, f"s{at}").write_until(stop) for at in range(SESSIONS)))
    finally:
        asyncio.get_running_loop().remove_reader(0)
        await storage.close()


async def read(url: str) -> None:
    storage = registry.storage(url)
    await storage.migrate()
    for at in range(SESSIONS):
        await Ledger(storage, f"s{at}").refresh()
    await storage.close()
    say("read")


if __name__ == "__main__":
    if sys.argv[2:] == ["open"]:
        say("ready")
        sys.stdin.readline()
        asyncio.run(read(sys.argv[1]))
    else:
        asyncio.run(write(sys.argv[1]))
