"""The hooks that retry, cache, limit and count keep what their kind promises."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gnomon import registry
from gnomon.contracts.hook import Hook
from gnomon.hooks.cache import CacheHook
from gnomon.hooks.cost import CostTracker
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.hooks.retry import RetryHook
from gnomon.testing.hook_kinds import (
    CacheHookContract,
    CostHookContract,
    RateLimitHookContract,
    RetryHookContract,
)


class TestRetryKind(RetryHookContract):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Hook, None]:
        yield RetryHook(base_s=0.001)


class TestCacheKind(CacheHookContract):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Hook, None]:
        yield CacheHook()


class TestRateLimitKind(RateLimitHookContract):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Hook, None]:
        hook = RateLimitHook(requests_per_minute=10)
        yield hook
        await hook.close()


class TestCostKind(CostHookContract):
    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Hook, None]:
        prices = {"suite:*": {"input_price": 1_000_000.0, "output_price": 1_000_000.0}}
        yield CostTracker(total=12.0, models=prices)


@pytest.mark.parametrize("kind", ["hooks", "guardrails", "compactors"])
def test_every_back_end_of_a_kind_runs_the_suite_of_its_contract(kind: str) -> None:
    """Its class is made in a file of this folder, in an `open` that a suite calls."""
    suites = "".join(path.read_text() for path in Path(__file__).parent.glob(f"test_{kind}*.py"))
    for name in registry.names(kind):
        made = registry.load(kind, name)
        assert inspect.isclass(made)
        assert f"{made.__name__}(" in suites, f"{made.__name__} runs no suite in tests/contracts"
