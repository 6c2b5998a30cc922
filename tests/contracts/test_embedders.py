"""Every embedder keeps its word: one small class each."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import ClassVar, Literal

from embedding_server import EmbeddingServer
from gnomon.contracts.embedder import Embedder
from gnomon.embedders.cached import CachedEmbedder
from gnomon.embedders.hashed import HashedEmbedder
from gnomon.embedders.ollama import OllamaEmbedder
from gnomon.embedders.openai import OpenAIEmbedder
from gnomon.testing import EmbedderContract
from ollama_standin import OllamaStandIn


class TestOpenAI(EmbedderContract):
    encoding_format: ClassVar[Literal["base64", "float"]] = "base64"

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        async with EmbeddingServer(key=self.key) as server:
            embedder = OpenAIEmbedder(
                key=self.key,
                base_url=f"{server.url}/v1",
                batch_texts=7,
                batch_tokens=400,
                encoding_format=self.encoding_format,
            )
            yield embedder
            await embedder.close()


class TestOpenAIInDigits(TestOpenAI):
    encoding_format = "float"


class TestOllama(EmbedderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        async with OllamaStandIn() as server:
            embedder = OllamaEmbedder(
                model="nomic-embed-text", key=self.key, base_url=server.url, batch_texts=7, batch_tokens=400
            )
            yield embedder
            await embedder.close()


class TestHashed(EmbedderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        yield HashedEmbedder(dimensions=64)


class TestHashedThatHasLearned(EmbedderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        yield HashedEmbedder().fit(["The tide comes in.", "The train comes at eight."])


class TestCached(EmbedderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        async with EmbeddingServer(key=self.key) as server:
            inner = OpenAIEmbedder(key=self.key, base_url=f"{server.url}/v1", batch_texts=7)
            embedder = CachedEmbedder(inner)
            yield embedder
            await embedder.close()


class TestCachedInAFile(EmbedderContract):
    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        with tempfile.TemporaryDirectory() as folder:
            async with OllamaStandIn() as server:
                inner = OllamaEmbedder(model="nomic-embed-text", base_url=server.url, key=self.key)
                embedder = CachedEmbedder(
                    inner, path=Path(folder) / "cache.db", most_entries=5, most_stored=20
                )
                yield embedder
                await embedder.close()
