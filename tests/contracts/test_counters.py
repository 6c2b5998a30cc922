"""Every token counter keeps its word: one small class each."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gnomon.contracts.counter import TokenCounter
from gnomon.counters.calibrated import CalibratedCounter
from gnomon.counters.estimating import EstimatingCounter
from gnomon.testing import TokenCounterContract


class TestEstimating(TokenCounterContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[TokenCounter]:
        yield EstimatingCounter()


class TestCalibrated(TokenCounterContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[TokenCounter]:
        yield CalibratedCounter(model="a-model")


class TestCalibratedForOpenAI(TokenCounterContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[TokenCounter]:
        yield CalibratedCounter(model="gpt-5.4").for_model("a-model").for_model("gpt-4o-mini")


class TestCalibratedForAnthropic(TokenCounterContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[TokenCounter]:
        yield CalibratedCounter(model="claude-opus-5-5")


class TestCalibratedForGemini(TokenCounterContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[TokenCounter]:
        yield CalibratedCounter(model="gemini-3.5-flash")
