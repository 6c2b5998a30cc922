"""The local model keeps its word: a real one, small enough to run here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from gnomon.contracts.provider import Provider
from gnomon.providers.local import LocalProvider
from gnomon.testing import ProviderContract
from gnomon.types.requests import Request
from local_model import needs_local

pytestmark = needs_local


def _provider() -> LocalProvider:
    # Without the cache: what is kept of an earlier request is counted apart, and so differs.
    return LocalProvider(temperature=0, seed=1, cache=False)


@pytest.fixture(scope="module", autouse=True)
def _loaded_once() -> Iterator[None]:
    """Each check opens a provider and closes it; this one keeps the model in memory meanwhile."""
    provider = _provider()
    provider._process(provider.model)
    yield
    asyncio.run(provider.close())


class TestLocal(ProviderContract):
    """It cannot call tools, and does not say that it could."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Provider]:
        provider = _provider()
        try:
            yield provider
        finally:
            await provider.close()

    def request(self, scenario: str) -> Request | None:
        if scenario in ("thinking", "tool", "tools"):
            return None
        request = super().request("text" if scenario == "failure" else scenario)
        assert request is not None
        if scenario == "failure":
            return msgspec.structs.replace(request, model="no-such-file.gguf")
        return msgspec.structs.replace(request, max_tokens=6)
