"""The sub-agents of `Agent` keep what a sub-agent promises, in memory and on a file."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import mkdtemp

import pytest
from test_sessions import AgentBench, Stores

import storing
from gnomon import Agent
from gnomon.contracts.provider import Provider
from gnomon.contracts.storage import Storage
from gnomon.contracts.tool import Tool
from gnomon.storage.memory import MemoryStorage
from gnomon.testing.session import Bench
from gnomon.testing.subagent import SubagentContract


class OfAgent(SubagentContract):
    __test__ = False

    def stores(self) -> Stores:
        """Opens the same new store, each time with a connection of its own."""
        raise NotImplementedError

    @asynccontextmanager
    async def open(
        self, provider: Provider, *, tools: Sequence[Tool] = (), **agent_options: object
    ) -> AsyncGenerator[Bench, None]:
        stores = self.stores()
        async with stores() as witness:
            bench = AgentBench(None, stores, witness)  # type: ignore[arg-type]
            async with bench.another(provider, tools=tools, **agent_options) as opened:
                yield opened

    def as_tool(
        self, provider: Provider, *, name: str = "helper", tools: Sequence[Tool] = (), **agent_options: object
    ) -> Tool:
        return Agent(provider, name=name, tools=tools, **agent_options).as_tool()


class TestMemory(OfAgent):
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
