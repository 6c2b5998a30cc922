"""Vectors of hashed words and pieces of words: no model, no server, no download."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from math import fsum, log, sqrt
from struct import pack
from typing import NamedTuple, Self
from zlib import crc32

import numpy
from numpy.typing import NDArray

from gnomon.embedders._batches import above_zero
from gnomon.embedders._frequent import FREQUENT
from gnomon.embedders._texts import asked
from gnomon.embedders._words import LONGEST_WORD, grams_of, prior, tokens_of
from gnomon.errors import ConfigError, ModelNotFound
from gnomon.types.documents import EmbeddingRequest, Embeddings, Vector

__all__ = ["HashedEmbedder"]

_VERSION = "v1"
_DIMENSIONS = 512
_MOST_DIMENSIONS = 999_999
_MODEL = re.compile(rf"{_VERSION}-(\d{{1,6}})")

_PIECE = 0x9E3779B9  # keeps a piece and a word of the same letters apart
_LEAST = 0.02
_GRAMS = 1.2
"""What the pieces of a word weigh together, beside the word itself, which weighs one; measured."""
_TOKENS_AT_ONCE = 4_096
"""Of one text, so that its pieces are not all in memory together."""
_SLICE_CHARACTERS = 200_000
_INLINE_CHARACTERS = 20_000


class HashedEmbedder:
    """Vectors that say which words two texts share, and which parts of words.

    They come from the text alone: the same in every process and on every machine,
    in any language, also in one that is written without spaces. What is meant and
    said in other words is not seen; for that, ask a model.

    Words that are frequent everywhere count for little. `fit` learns from texts of
    your own which ones those are. An empty text has the zero vector.
    """

    name = "hashed"

    def __init__(self, *, model: str | None = None, dimensions: int | None = None) -> None:
        above_zero(dimensions=dimensions)
        self.dimensions = _agreed(model, dimensions)
        self._weights = _Weights({}, 0)

    @property
    def model(self) -> str:
        """The way of making them: vectors of two models must not be compared."""
        return f"{_VERSION}-{self.dimensions}{self._weights.mark}"

    def fit(self, texts: Iterable[str]) -> Self:
        """Another embedder, which has learned from these texts how much each word tells."""
        made = type(self)(dimensions=self.dimensions)
        made._weights = _learned(texts)
        return made

    async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
        wanted = asked(request, vendor=self.name, model=self.model)
        if wanted.model != self.model:
            raise ModelNotFound(
                f"there is no model {wanted.model!r} here", vendor=self.name, hint=f"it is {self.model!r}"
            )
        vectors: list[Vector] = []
        for some in _slices(wanted.texts):
            if sum(map(len, some)) <= _INLINE_CHARACTERS:
                vectors += self._vectors(some)
            else:  # long enough for others on this loop to notice
                vectors += await asyncio.to_thread(self._vectors, some)
        return Embeddings(vectors=tuple(vectors), model=self.model)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _vectors(self, texts: Sequence[str]) -> list[Vector]:
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> Vector:
        counts = Counter(tokens_of(text))
        if not counts:
            return (0.0,) * self.dimensions
        sums = numpy.zeros(self.dimensions)
        given = iter(counts.items())
        while some := list(islice(given, _TOKENS_AT_ONCE)):
            sums += self._sums(some)
        return _of_length_one(sums)

    def _sums(self, counts: Sequence[tuple[str, int]]) -> NDArray[numpy.float64]:
        features = [_features_of(token) for token, _ in counts]
        # Roots, not logarithms: those are the same on every machine, to the last bit.
        strengths = [self._weights.of(token) * sqrt(count) for token, count in counts]
        lengths = [len(feature.hashes) for feature in features]
        hashes = numpy.concatenate([feature.hashes for feature in features])
        weights = numpy.concatenate([feature.weights for feature in features])
        signed = numpy.where(hashes >> numpy.uint64(63), weights, -weights) * numpy.repeat(strengths, lengths)
        places = (hashes % numpy.uint64(self.dimensions)).astype(numpy.int64)
        return numpy.bincount(places, signed, self.dimensions).astype(numpy.float64)


def _of_length_one(sums: NDArray[numpy.float64]) -> Vector:
    length = sqrt(fsum((sums * sums).tolist()))  # in an order that no processor chooses
    unit = sums / length if length else sums
    return tuple(unit.astype(numpy.float32).tolist())


def _slices(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Runs of about so many characters, so that a call that was cancelled ends soon."""
    start = size = 0
    for at, text in enumerate(texts):
        size += len(text)
        if size >= _SLICE_CHARACTERS:
            yield texts[start : at + 1]
            start, size = at + 1, 0
    if start < len(texts):
        yield texts[start:]


def _agreed(model: str | None, dimensions: int | None) -> int:
    """How long a vector is, said by either."""
    named = _MODEL.fullmatch(model) if model else None
    if model and (named is None or not int(named[1])):
        raise ConfigError(f"model {model!r} of embedder 'hashed' is not known", hint="write v1-512, or none")
    if named and dimensions not in (None, int(named[1])):
        raise ConfigError(f"model {model!r} of embedder 'hashed' has not {dimensions} dimensions")
    if dimensions is not None and dimensions > _MOST_DIMENSIONS:
        raise ConfigError(
            f"embedder 'hashed' has at most {_MOST_DIMENSIONS:,} dimensions, not {dimensions:,}"
        )
    return int(named[1]) if named else dimensions or _DIMENSIONS


# --- what a token is made of --------------------------------------------------------


class _Features(NamedTuple):
    hashes: NDArray[numpy.uint64]
    weights: NDArray[numpy.float64]


def _features_of(token: str) -> _Features:
    """Kept for words; what is longer is none, will hardly come again, and may be of any size."""
    return _kept_features(token) if len(token) <= LONGEST_WORD else _features(token)


@lru_cache(maxsize=16_384)
def _kept_features(token: str) -> _Features:
    return _features(token)


def _features(token: str) -> _Features:
    """The word itself, and its pieces."""
    grams = grams_of(token)
    sums = [crc32(_bytes(token)), *(crc32(_bytes(gram), _PIECE) for gram in grams)]
    weights = [1.0, *[_GRAMS / sqrt(len(grams))] * len(grams)] if grams else [1.0]
    return _Features(_mixed(numpy.array(sums, numpy.uint64)), numpy.array(weights))


def _mixed(sums: NDArray[numpy.uint64]) -> NDArray[numpy.uint64]:
    """Every bit of a sum on every bit of the hash: the sums of words that are alike are alike."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        sums = (sums ^ (sums >> numpy.uint64(shift)) ^ numpy.uint64(shift)) * numpy.uint64(factor)
    return sums ^ (sums >> numpy.uint64(31))


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


# --- how much a token tells ---------------------------------------------------------


class _Weights:
    """By how many of the texts it stands in, or by what is known of words in general."""

    def __init__(self, counts: Mapping[int, int], texts: int) -> None:
        self._counts = counts
        self._texts = texts
        self.mark = f"-{_fingerprint(counts, texts)}" if texts else ""

    def of(self, token: str) -> float:
        known = prior(token)
        count = self._counts.get(_id(token), 0) if self._texts else 0
        if not count:
            return known
        learned = log((1 + self._texts) / (1 + count)) / log(1 + self._texts)
        # Rounded: the last digits of a logarithm are not the same on every machine.
        learned = round(max(learned, _LEAST), 6)
        return min(learned, known) if token in FREQUENT else learned


def _learned(texts: Iterable[str]) -> _Weights:
    given: list[str] = [texts] if isinstance(texts, str) else list(texts)
    counts: Counter[int] = Counter()
    for text in given:
        counts.update({_id(token) for token in tokens_of(text)})
    # A word of one text has shown nothing yet, and most words are such.
    return _Weights({key: count for key, count in counts.items() if count > 1}, len(given))


def _id(token: str) -> int:
    """Not Python's own hash, which is another in every process."""
    return int.from_bytes(blake2b(_bytes(token), digest_size=8).digest(), "little")


def _fingerprint(counts: Mapping[int, int], texts: int) -> str:
    digest = blake2b(pack("<Q", texts), digest_size=6)
    for key in sorted(counts):
        digest.update(pack("<QQ", key, counts[key]))
    return digest.hexdigest()
