"""The hooks that limit and cache keep their word: one small class each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from unittest.mock import patch

from gnomon.contracts.hook import Hook
from gnomon.hooks._shared import Need
from gnomon.hooks.cache import CacheHook
from gnomon.hooks.chain import Chain
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.testing import HookContract

PLENTY = 1e12


class TestRateLimit(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield RateLimitHook(requests_per_minute=PLENTY, tokens_per_minute=PLENTY, concurrent=1_000)


class TestRateLimitOneAtATime(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield RateLimitHook(concurrent=1, key=lambda event: event.name)


class Plenty:
    """A server that has room for everybody."""

    async def take(self, key: str, ticket: str, need: Need) -> float:
        return 0.0

    async def leave(self, key: str, ticket: str, request_s: float, token_s: float) -> None: ...

    async def shut(self, key: str, seconds: float) -> None: ...

    async def renew(self, key: str, tickets: tuple[str, ...]) -> None: ...

    async def close(self) -> None: ...


class TestRateLimitShared(HookContract):
    """With real servers it is asked in tests/flows; ten thousand steps would take minutes there."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        with patch("gnomon.hooks._lanes.store_at", lambda url: Plenty()):
            yield RateLimitHook(
                tokens_per_minute=PLENTY, concurrent=1_000, shared="redis://localhost", on_lost="raise"
            )


class TestCache(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield CacheHook(entries=500, tools={"tide"}, tool_calls=True)


class TestLimitsInAChain(HookContract):
    """The cache asks nobody for what it has; what it has not, waits its turn."""

    limit_s = 180.0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield Chain([CacheHook(entries=500), RateLimitHook(requests_per_minute=PLENTY)])
