"""What is searched: documents, vectors, and what a search gives."""

from __future__ import annotations

import msgspec

from gnomon.types.messages import Meta
from gnomon.types.requests import Usage

__all__ = ["Document", "Embedding", "EmbeddingRequest", "Embeddings", "SearchResult", "Vector"]

Vector = tuple[float, ...]


class EmbeddingRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    texts: tuple[str, ...]
    model: str | None = None


class Embeddings(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One vector a text, in the order of the texts."""

    vectors: tuple[Vector, ...]
    model: str | None = None
    usage: Usage = Usage()


class Embedding(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    vector: Vector
    metadata: Meta = {}
    content: str = ""


class SearchResult(msgspec.Struct, frozen=True):
    """`score` is higher for better, cosine in [-1, 1] on every store."""

    embedding: Embedding
    score: float


class Document(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A piece of knowledge with its citation: `span` is (start, end) in characters of the source."""

    id: str
    content: str
    source: str = ""
    span: tuple[int, int] | None = None
    metadata: Meta = {}
    score: float | None = None
