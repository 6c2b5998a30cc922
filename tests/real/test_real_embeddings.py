"""Embeddings from a real llama.cpp server, of a tiny model with random weights, by the embedder of OpenAI.

One slot: with several, llama.cpp gives a text another vector when others are beside it.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import ClassVar

import pytest
from llama_servers import CannotStart, LlamaServer, running

import counted
from gnomon.contracts.embedder import Embedder
from gnomon.embedders.cached import CachedEmbedder
from gnomon.embedders.openai import OpenAIEmbedder
from gnomon.errors import BadReply, ProviderError, Unauthorized
from gnomon.testing import EmbedderContract
from gnomon.types.documents import EmbeddingRequest, Vector

KEY = EmbedderContract.key
TEXTS = ["The tide comes in.", "東京は日本の首都です。", "A café 🙂", "x"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LlamaServer]:
    folder = tmp_path_factory.mktemp("embeddings")
    with ExitStack() as stack:
        try:
            weights = _weights(folder / "random.gguf")
            made = running(weights, "embeddings", folder, tokens=512, slots=1, key=KEY, gives="embeddings")
            started = stack.enter_context(made)
        except CannotStart as reason:
            if os.environ.get("CI") == "true":
                pytest.fail(f"no server for embeddings: {reason}", pytrace=False)
            pytest.skip(f"no server for embeddings: {reason}")
        yield started
        counted.exchanges.update(started.exchanges)


def _weights(path: Path) -> Path:
    if importlib.util.find_spec("gguf") is None:
        raise CannotStart("gguf, which writes the random model, is not installed")
    from random_model import write_random_model  # slow to import

    write_random_model(path)
    return path


def made(server: LlamaServer, key: str = KEY, **settings: object) -> OpenAIEmbedder:
    server.exchanges["openai (embeddings)"] += 1
    given = {"model": server.model, "base_url": f"{server.url}/v1", "key": key, **settings}
    return OpenAIEmbedder(**given)  # type: ignore[arg-type]


async def embedded(embedder: Embedder, texts: list[str]) -> tuple[Vector, ...]:
    try:
        return (await embedder.embed(texts)).vectors
    finally:
        await embedder.close()


async def test_base64_and_digits_are_the_same_vectors(server: LlamaServer) -> None:
    packed = await embedded(made(server), TEXTS)
    digits = await embedded(made(server, encoding_format="float"), TEXTS)
    assert {len(vector) for vector in packed} == {64}
    assert packed == digits


async def test_the_server_counts_what_it_reads(server: LlamaServer) -> None:
    embedder = made(server, batch_texts=1, concurrency=2)
    together = await embedder.embed(TEXTS)
    alone = [(await embedder.embed([text])).usage.input_tokens or 0 for text in TEXTS]
    await embedder.close()
    assert together.usage.input_tokens == sum(alone) > len(TEXTS)
    assert together.model == server.model


async def test_the_server_is_asked_once_through_a_cache(server: LlamaServer) -> None:
    cached = CachedEmbedder(made(server))
    first = await cached.embed(TEXTS)
    again = await cached.embed(TEXTS[::-1])
    await cached.close()
    assert again.vectors == first.vectors[::-1]
    assert (first.usage.input_tokens or 0) > 0
    assert again.usage.input_tokens == 0


async def test_shorter_vectors_which_the_server_does_not_make_are_found_out(server: LlamaServer) -> None:
    with pytest.raises(BadReply, match="vectors of 16 numbers were asked for, and 64 came"):
        await embedded(made(server, dimensions=16), TEXTS)


async def test_a_text_that_is_too_long_is_an_error_and_is_not_cut(server: LlamaServer) -> None:
    with pytest.raises(ProviderError, match="tokens"):
        await embedded(made(server), ["word " * 2000])


async def test_a_wrong_key_is_refused_and_not_shown(server: LlamaServer) -> None:
    with pytest.raises(Unauthorized) as caught:
        await embedded(made(server, key="wrong-key-0123456789"), TEXTS)
    assert "wrong-key-0123456789" not in str(caught.value)


class TestLlamaCpp(EmbedderContract):
    """The whole suite. llama.cpp answers under any name, so a text that is too long stands for what fails."""

    many = 12
    server: ClassVar[LlamaServer]

    @pytest.fixture(autouse=True)
    def _served(self, server: LlamaServer) -> None:
        type(self).server = server

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Embedder]:
        embedder = made(self.server, batch_texts=5, batch_tokens=300)
        yield embedder
        await embedder.close()

    def failure(self) -> EmbeddingRequest | None:
        return EmbeddingRequest(("word " * 2000,))
