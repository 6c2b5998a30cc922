"""OpenAI's embeddings, and those of every server that has the same endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon._http import Reply
from gnomon._openai import billing_headers, is_home, openai_address
from gnomon.embedders._batches import above_zero
from gnomon.embedders._service import BatchLimits, Said, ServiceEmbedder, read_said, tokens_read
from gnomon.embedders._vectors import from_base64, rounded
from gnomon.types.documents import Embeddings, Vector

__all__ = ["OpenAIEmbedder"]

_ACCOUNT = Account(vendor="openai", variables=("OPENAI_API_KEY",), kind="embedder")
_MODEL = "text-embedding-3-small"

# As documented for POST /embeddings.
_MOST_TEXTS = 2048
_MOST_TOKENS = 300_000
_MOST_TOKENS_EACH = 8192


class _Item(msgspec.Struct):
    embedding: str | list[float]
    index: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None


class _Answer(Said):
    data: list[_Item] | None = None
    model: str | None = None
    usage: _Usage | None = None


class OpenAIEmbedder(ServiceEmbedder):
    """Vectors by `POST /embeddings`, of OpenAI or of a server that is like it.

    The key is looked for in `OPENAI_API_KEY`, another address in `OPENAI_BASE_URL`.
    `dimensions` asks for shorter vectors, where the model has them. `batch_texts`
    and `batch_tokens` are the most that goes into one request, `concurrency` how
    many are under way at once. `encoding_format` is for a server that knows no
    base64. `extra` goes into the body of every request, over what Gnomon puts there.
    """

    name = "openai"
    _path = "/embeddings"

    def __init__(
        self,
        *,
        model: str = _MODEL,
        dimensions: int | None = None,
        key: str | None = None,
        base_url: str | None = None,
        organization: str | None = None,
        project: str | None = None,
        batch_texts: int = _MOST_TEXTS,
        batch_tokens: int = _MOST_TOKENS,
        concurrency: int = 4,
        encoding_format: Literal["base64", "float"] = "base64",
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
        proxy: str | None = None,
        ca: str | None = None,
        connect_s: float | None = None,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        above_zero(dimensions=dimensions)
        address = openai_address(base_url)
        self.model = model
        self.dimensions = dimensions
        self._encoding_format = encoding_format
        self._extra = dict(extra or {})
        self._is_home = is_home(address)
        self._limits = BatchLimits(
            texts=batch_texts,
            tokens=batch_tokens,
            each_tokens=_MOST_TOKENS_EACH if self._is_home else None,
            at_once=concurrency,
        )
        self._http = connected(
            _ACCOUNT,
            address,
            key=found_key(_ACCOUNT, key),
            headers={**billing_headers(address, organization, project), **(headers or {})},
            limits=limits_from(connect_s, first_byte_s, idle_s, total_s),
            proxy=proxy,
            ca=ca,
        )

    @property
    def space(self) -> str:
        """What tells its vectors from others of the same name and model, for whoever keeps them."""
        place = "" if self._is_home else self._http.base_url
        added = msgspec.json.encode(self._extra, order="sorted").decode() if self._extra else ""
        return place + added

    def _body(self, texts: Sequence[str], model: str) -> dict[str, object]:
        body: dict[str, object] = {"model": model, "input": texts, "encoding_format": self._encoding_format}
        if self.dimensions is not None:
            body["dimensions"] = self.dimensions
        return body

    def _read(self, reply: Reply, body: bytes) -> Embeddings:
        answer = read_said(reply, body, _Answer)
        usage = tokens_read(answer.usage and answer.usage.prompt_tokens)
        return Embeddings(vectors=_in_order(answer.data or []), model=answer.model, usage=usage)

    def _expect_ready(self) -> None:
        if self._is_home and not self._http.authorised:
            raise _ACCOUNT.missing()


def _in_order(items: list[_Item]) -> tuple[Vector, ...]:
    """By `index`, which a server that keeps the order may leave out."""
    places = [at if item.index is None else item.index for at, item in enumerate(items)]
    if sorted(places) != list(range(len(items))):
        raise ValueError(f"its vectors do not say one place each: {places[:9]}")
    vectors = dict(zip(places, map(_vector, items), strict=True))
    return tuple(vectors[at] for at in range(len(items)))


def _vector(item: _Item) -> Vector:
    given = item.embedding
    return from_base64(given) if isinstance(given, str) else rounded(given)
