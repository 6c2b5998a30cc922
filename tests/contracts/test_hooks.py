"""Every hook keeps its word: one small class each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gnomon.contracts.hook import Hook
from gnomon.hooks.chain import Chain
from gnomon.hooks.cost import CostTracker
from gnomon.hooks.logging import LoggingHook
from gnomon.hooks.metrics import MetricsHook
from gnomon.hooks.retry import RetryHook
from gnomon.testing import HookContract


class TestLogging(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield LoggingHook()


class TestLoggingWithContent(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield LoggingHook(content=True, limit=60)


class TestRetry(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield RetryHook(tools=["tide"])


class TestRetryBeforeAnythingIsShown(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield RetryHook(mid_stream=False)


class TestCost(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield CostTracker(
            run=1.0, session=2.0, user=3.0, total=1_000_000.0, user_of=lambda event: event.session_id
        )


class TestMetrics(HookContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield MetricsHook()


class TestChain(HookContract):
    """Several keep their word as one does."""

    limit_s = 180.0

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Hook]:
        yield Chain([LoggingHook(), MetricsHook(), RetryHook(tools=["tide"]), CostTracker(total=1_000_000.0)])
