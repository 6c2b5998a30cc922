"""Every compactor keeps its word: one small class each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from gnomon.compactors.summarize import SummarizeCompactor
from gnomon.compactors.truncate import TruncateCompactor
from gnomon.contracts.compactor import Compactor
from gnomon.counters.estimating import EstimatingCounter
from gnomon.testing import CompactorContract
from gnomon.types.messages import Message


class TestTruncate(CompactorContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Compactor]:
        yield TruncateCompactor()


class TestTruncateToTheBrim(CompactorContract):
    """By another counter, which counts together what it rounds up when it stands alone."""

    def count(self, messages: Sequence[Message]) -> int:
        return EstimatingCounter().count_messages(messages)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Compactor]:
        yield TruncateCompactor(keep=1.0, counter="estimating")


class TestSummarize(CompactorContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Compactor]:
        yield SummarizeCompactor(provider=self.model())


class TestSummarizeInParts(CompactorContract):
    """A model with a small window: what is left out is summed up in parts, and the parts are."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Compactor]:
        yield SummarizeCompactor(provider=self.model(), window=1_800, summary_tokens=600)
