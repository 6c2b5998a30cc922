"""The sessions of `Agent` keep what a session promises, on every store that people begin with."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import cast

import pytest

import servers
import storing
from gnomon import Agent
from gnomon._payload import blobs_named, unpacked
from gnomon.contracts.provider import Provider
from gnomon.contracts.session import Session
from gnomon.contracts.storage import Storage, SupportsBlobs, read_events
from gnomon.contracts.tool import Tool
from gnomon.storage.memory import MemoryStorage
from gnomon.testing.session import Bench, SessionContract
from gnomon.types.codec import encode_event
from gnomon.types.events import LedgerEntry
from gnomon.types.records import LedgerEvent, SessionRecord, utc_now

Stores = Callable[[], AbstractAsyncContextManager[Storage]]


class AgentBench:
    """An agent on a store; what stands in the store is read through a connection of its own."""

    def __init__(self, agent: Agent, stores: Stores, witness: Storage) -> None:
        self._agent = agent
        self._stores = stores
        self._witness = witness

    def session(self, id: str) -> Session:
        return self._agent.session(id)

    @asynccontextmanager
    async def another(
        self, provider: Provider, *, tools: Sequence[Tool] = (), **agent_options: object
    ) -> AsyncGenerator[Bench, None]:
        async with (
            self._stores() as storage,
            Agent(provider, tools=tools, storage=storage, **agent_options) as agent,
        ):
            yield AgentBench(agent, self._stores, self._witness)

    async def ledger(self, id: str) -> list[LedgerEntry]:
        async with read_events(self._witness, id) as events:
            return [await self._entry(event) async for event in events]

    async def _entry(self, event: LedgerEvent) -> LedgerEntry:
        store = cast(SupportsBlobs, self._witness)
        blobs = {digest: await store.get_blob(digest) or b"" for digest in blobs_named(event)}
        return cast(LedgerEntry, unpacked(event, blobs))

    async def write(self, id: str, entries: Sequence[LedgerEntry]) -> None:
        now, agent = utc_now(), self._agent.name
        row = SessionRecord(
            id=id, agent_id=agent, created_at=now, updated_at=now, status="running", runnable=True
        )
        await self._witness.create_session(row)
        await self._witness.append_events(
            [
                LedgerEvent(
                    session_id=id,
                    seq=seq,
                    id=f"{id}-{seq}",
                    type=str(entry.__struct_config__.tag),
                    payload=encode_event(entry),
                    created_at=now,
                )
                for seq, entry in enumerate(entries, start=1)
            ]
        )


class OfAgent(SessionContract):
    """What the three have in common: an agent, and a store that can be opened as often as one likes."""

    __test__ = False

    def stores(self) -> Stores:
        """Opens the same new store, each time with a connection of its own."""
        raise NotImplementedError

    @asynccontextmanager
    async def open(
        self, provider: Provider, *, tools: Sequence[Tool] = (), **agent_options: object
    ) -> AsyncGenerator[Bench, None]:
        stores = self.stores()
        async with (
            stores() as witness,
            AgentBench(_NOBODY, stores, witness).another(provider, tools=tools, **agent_options) as bench,
        ):
            yield bench


_NOBODY = cast(Agent, None)


class TestMemory(OfAgent):
    """One store in this process; its runtimes share the object, and nothing else."""

    __test__ = True

    def stores(self) -> Stores:
        storage = MemoryStorage()

        @asynccontextmanager
        async def opened() -> AsyncGenerator[Storage, None]:
            yield storage

        return opened


class TestSQLite(OfAgent):
    __test__ = True

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self._folder = tmp_path

    def stores(self) -> Stores:
        path = Path(mkdtemp(dir=self._folder)) / "store.db"
        return lambda: storing.opened(path)


class TestPostgres(OfAgent):
    __test__ = True

    @classmethod
    def setup_class(cls) -> None:
        servers.shared("postgres")  # before the first check, which counts the sockets that are open

    def stores(self) -> Stores:
        url = f"{servers.shared('postgres').url}?schema=t{uuid.uuid4().hex}"
        return lambda: storing.opened(url)
