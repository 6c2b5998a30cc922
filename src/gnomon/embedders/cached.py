"""A cache before any embedder: in memory, and in a file when one is named."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import msgspec

from gnomon import registry
from gnomon.contracts.embedder import Embedder
from gnomon.embedders._batches import above_zero
from gnomon.embedders._cache_file import VectorFile
from gnomon.embedders._flights import Flights, Landed, Wanted
from gnomon.embedders._memory import RecentVectors
from gnomon.embedders._texts import asked
from gnomon.embedders._vectors import from_bytes, to_bytes
from gnomon.errors import BadReply, ConfigError, InvalidInput
from gnomon.types.documents import EmbeddingRequest, Embeddings
from gnomon.types.requests import Usage, add_usage

__all__ = ["CachedEmbedder"]


class CachedEmbedder:
    """Asks another embedder only for what it has not embedded before.

    The other one is given as an object, or as `model` ("ollama:embeddinggemma")
    with its `settings`. The last `most_entries` vectors stay in memory, in no more
    than `most_bytes`. With a `path` they also stay in an SQLite file, of at most
    `most_stored` vectors, which other processes may use at the same time. A text is
    asked for once, however often it stands in a call and however many want it at
    the same moment. `usage` is what was really asked.
    """

    name = "cached"

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        model: str | None = None,
        settings: Mapping[str, object] | None = None,
        path: str | os.PathLike[str] | None = None,
        most_entries: int = 10_000,
        most_bytes: int = 64 * 1024 * 1024,
        most_stored: int = 1_000_000,
    ) -> None:
        above_zero(most_entries=most_entries, most_bytes=most_bytes, most_stored=most_stored)
        self._embedder = _wrapped(embedder, model, settings)
        self._recent = RecentVectors(most_entries, most_bytes)
        self._file = VectorFile(path, most_stored) if path is not None else None
        self._flights = Flights()

    @property
    def model(self) -> str:
        return self._embedder.model

    @property
    def dimensions(self) -> int | None:
        return getattr(self._embedder, "dimensions", None)

    @property
    def space(self) -> str:
        """What tells its vectors from others of the same name and model: all that they are kept under."""
        return self._space(self.model).hex()

    async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
        wanted = asked(request, vendor=self.name, model=self.model)
        model = wanted.model or self.model
        if not wanted.texts:
            return Embeddings(vectors=(), model=model)
        space = self._space(model)
        keys = [_key(space, text) for text in wanted.texts]
        found, usage = await self._found(dict(zip(keys, wanted.texts, strict=True)), model)
        vectors = {key: self._read(data) for key, data in found.items()}
        if len({len(vector) for vector in vectors.values()}) > 1:
            raise BadReply(
                "the vectors that were kept are not as long as those that come now",
                vendor=self.name,
                hint=f"the model {model!r} has changed: begin with an empty cache",
            )
        return Embeddings(vectors=tuple(vectors[key] for key in keys), model=model, usage=usage)

    async def close(self) -> None:
        try:
            if self._file is not None:
                await self._file.close()
        finally:
            await self._embedder.close()

    async def _found(self, texts: Wanted, model: str) -> tuple[dict[bytes, bytes], Usage]:
        found = self._recent.get(texts)
        missing = {key: text for key, text in texts.items() if key not in found}
        if not missing:
            return found, Usage(input_tokens=0)
        costs: list[Usage] = []
        for landed in await self._flights.landed(missing, lambda some: self._fetched(some, model)):
            found.update({key: data for key, data in landed.vectors.items() if key in texts})
            costs += filter(None, [landed.take_usage()])
        return found, add_usage(costs) if costs else Usage(input_tokens=0)

    async def _fetched(self, texts: Wanted, model: str) -> Landed:
        """From the file, and the rest from the embedder."""
        stored = await self._file.get(list(texts)) if self._file else {}
        self._recent.put(stored)
        missing = {key: text for key, text in texts.items() if key not in stored}
        if not missing:
            return Landed(stored, None)
        answer = await self._embedder.embed(EmbeddingRequest(tuple(missing.values()), model))
        if len(answer.vectors) != len(missing):
            what = f"{len(missing)} vectors were asked for, and {len(answer.vectors)} came"
            raise BadReply(what, vendor=self._embedder.name)
        fresh = dict(zip(missing, map(to_bytes, answer.vectors), strict=True))
        self._recent.put(fresh)
        if self._file:
            await self._file.put(fresh)
        return Landed({**stored, **fresh}, answer.usage)

    def _read(self, data: bytes) -> tuple[float, ...]:
        try:
            return from_bytes(data)
        except ValueError as error:
            place = self._file.path if self._file else "the cache"
            raise InvalidInput(f"a vector in {place} is damaged: {error}", hint="delete the file") from None

    def _space(self, model: str) -> bytes:
        """What a vector depends on beside its text."""
        extra = getattr(self._embedder, "space", "")
        parts = (self._embedder.name, model, self.dimensions, extra)
        return blake2b(msgspec.json.encode(parts), digest_size=16).digest()


def _key(space: bytes, text: str) -> bytes:
    return blake2b(text.encode(errors="surrogatepass"), key=space, digest_size=24).digest()


def _wrapped(embedder: Embedder | None, model: str | None, settings: Mapping[str, object] | None) -> Embedder:
    if embedder is None and model is not None:
        return registry.embedder(model, settings)
    if embedder is None or model is not None or settings is not None:
        raise ConfigError(
            "embedder 'cached' needs one other embedder",
            hint="write cached:openai:text-embedding-3-small, or CachedEmbedder(OpenAIEmbedder(…))",
        )
    return embedder
