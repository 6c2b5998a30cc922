"""What embedders over HTTP have in common: parts of a request, one exchange each, one answer out of all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeVar

import msgspec

from gnomon._complaint import complaint_from
from gnomon._http import HTTP, Reply
from gnomon.embedders._batches import above_zero, in_parallel, parts
from gnomon.embedders._texts import asked, expect_no_empty_text
from gnomon.errors import BadReply, BadRequest, ContextTooLong, ProviderError
from gnomon.types.documents import EmbeddingRequest, Embeddings, Vector
from gnomon.types.requests import Usage, add_usage

__all__ = ["BatchLimits", "Said", "ServiceEmbedder", "read_said", "tokens_read"]

# 2,048 vectors of 4,096 numbers, in digits, are about 100 MB.
_MOST_REPLY_BYTES = 256 * 1024 * 1024

# The fewest bytes that make a token, in text that anybody writes; English has four, Chinese two to three.
_BYTES_A_TOKEN = 2


class BatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may hold, and how many may be under way at once."""

    texts: int
    tokens: int
    each_tokens: int | None = None
    """The most that a text can count for: a longer one is refused by the service, whatever is beside it."""
    at_once: int

    def __post_init__(self) -> None:
        above_zero(batch_texts=self.texts, batch_tokens=self.tokens, concurrency=self.at_once)


class Said(msgspec.Struct):
    """A reply; a complaint may come under any status."""

    error: object = None


_S = TypeVar("_S", bound=Said)


class ServiceEmbedder(ABC):
    """An embedder that is one way to a service, and the words to ask in."""

    name: str
    model: str
    dimensions: int | None
    _path: str
    _http: HTTP
    _limits: BatchLimits
    _extra: Mapping[str, object]

    @abstractmethod
    def _body(self, texts: Sequence[str], model: str) -> dict[str, object]:
        """The request in the service's words."""

    @abstractmethod
    def _read(self, reply: Reply, body: bytes) -> Embeddings:
        """What the service says, in the order of the texts; `ValueError` for what is no answer."""

    @abstractmethod
    def _expect_ready(self) -> None:
        """Raises when something is missing that the service asks for."""

    def _explained(self, error: ProviderError, model: str) -> ProviderError:
        """The error, with what to do about it where that is special here."""
        return error

    async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
        wanted = asked(request, vendor=self.name, model=self.model)
        model = wanted.model or self.model
        if not wanted.texts:
            return Embeddings(vectors=(), model=model)
        self._expect_ready()
        expect_no_empty_text(wanted.texts, self.name)
        sizes = [self._size(text) for text in wanted.texts]
        places = parts(sizes, most=self._limits.texts, most_size=self._limits.tokens)
        answers = await in_parallel(
            lambda place: self._embedded(wanted.texts, place, model), places, self._limits.at_once
        )
        return self._joined(answers, model)

    async def close(self) -> None:
        await self._http.close()

    def _size(self, text: str) -> int:
        """About how many tokens it has, and rather too many."""
        size = len(text) if text.isascii() else len(text.encode(errors="replace"))
        tokens = -(-size // _BYTES_A_TOKEN)
        return tokens if self._limits.each_tokens is None else min(tokens, self._limits.each_tokens)

    async def _embedded(self, texts: Sequence[str], place: range, model: str) -> Embeddings:
        try:
            return await self._asked(texts, place, model)
        except ProviderError as error:
            if len(place) > 1 and _is_too_much(error):
                halves = (place[: len(place) // 2], place[len(place) // 2 :])
                return self._joined([await self._embedded(texts, half, model) for half in halves], model)
            if isinstance(error, ContextTooLong):
                error.hint = _longest(texts, place)
            raise self._explained(error, model) from error.__cause__

    async def _asked(self, texts: Sequence[str], place: range, model: str) -> Embeddings:
        chosen = [texts[at] for at in place]
        async with self._http.post(self._path, self._encoded(chosen, place, model), model=model) as reply:
            said = await reply.whole(_MOST_REPLY_BYTES)
            try:
                found = self._read(reply, said)
                self._expect_fitting(found.vectors, len(chosen))
            except ValueError as error:
                raise BadReply(
                    f"the answer is none: {error}",
                    vendor=self.name,
                    status=reply.status,
                    request_id=reply.request_id,
                ) from None
        return found

    def _encoded(self, texts: Sequence[str], place: range, model: str) -> bytes:
        try:
            return msgspec.json.encode({**self._body(texts, model), **self._extra})
        except UnicodeEncodeError:
            broken = [f"text {at}" for at, text in zip(place, texts, strict=True) if not _is_unicode(text)]
            what = broken[0] if broken else "a setting"
            raise BadRequest(f"{what} cannot be sent: it holds half a character", vendor=self.name) from None

    def _expect_fitting(self, vectors: Sequence[Vector], count: int) -> None:
        if len(vectors) != count:
            raise ValueError(f"{count} vectors were asked for, and {len(vectors)} came")
        lengths = sorted({len(vector) for vector in vectors})
        if len(lengths) > 1 or lengths == [0]:
            raise ValueError(f"its vectors have {' and '.join(map(str, lengths))} numbers")
        if self.dimensions not in (None, *lengths):
            raise ValueError(f"vectors of {self.dimensions} numbers were asked for, and {lengths[0]} came")
        if not all(isfinite(sum(vector)) for vector in vectors):  # one that is not makes the sum so
            raise ValueError("its vectors hold what is no number, or one without end")

    def _joined(self, answers: Sequence[Embeddings], model: str) -> Embeddings:
        """One answer; the caller cannot tell of how many parts it is made."""
        vectors = tuple(vector for answer in answers for vector in answer.vectors)
        if len({len(vector) for vector in vectors}) > 1:
            raise BadReply("vectors of one model came with different lengths", vendor=self.name)
        usage = add_usage(answer.usage for answer in answers)
        return Embeddings(vectors=vectors, model=answers[0].model or model, usage=usage)


def read_said(reply: Reply, body: bytes, kind: type[_S]) -> _S:
    """The reply as this type, or the error for a complaint that came with a status of success."""
    said = reply.read_as(body, kind)
    if said.error is not None:
        raise reply.failed(complaint_from({"error": said.error}))
    return said


def tokens_read(count: int | None) -> Usage:
    """What is below nothing was not reported."""
    return Usage(input_tokens=count if count is not None and count >= 0 else None)


def _is_too_much(error: ProviderError) -> bool:
    """Whether fewer texts at once would do. One that is too long by itself is too long in any company."""
    return error.status == 413 or error.vendor_code == "max_tokens_per_request"


def _longest(texts: Sequence[str], place: range) -> str:
    at = max(place, key=lambda at: len(texts[at]))
    return (
        f"text {at} is the longest, with {len(texts[at]):,} characters: split it, nothing is cut in silence"
    )


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
