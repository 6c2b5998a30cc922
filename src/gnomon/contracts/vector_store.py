"""Vectors, and the search for the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from gnomon.types.documents import Embedding, SearchResult

__all__ = ["And", "Eq", "Filter", "In", "Metric", "Or", "Range", "Scalar", "VectorStore"]

Metric: TypeAlias = Literal["cosine", "dot", "euclidean"]
Scalar: TypeAlias = str | int | float | bool


class Eq(msgspec.Struct, frozen=True, tag="eq"):
    """The field has this value."""

    field: str
    value: Scalar


class In(msgspec.Struct, frozen=True, tag="in"):
    """The field has one of these values."""

    field: str
    values: tuple[Scalar, ...]


class Range(msgspec.Struct, frozen=True, tag="range", omit_defaults=True, kw_only=True):
    """The field lies between these bounds; `None` is no bound, and `above` and `below` leave it out."""

    field: str
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None


class And(msgspec.Struct, frozen=True, tag="and"):
    """All of these hold; none at all hold too."""

    filters: tuple[Filter, ...]


class Or(msgspec.Struct, frozen=True, tag="or"):
    """At least one of these holds; of none at all, none does."""

    filters: tuple[Filter, ...]


Filter: TypeAlias = Eq | In | Range | And | Or
"""What a search may ask of the metadata. A field that is absent fits no condition."""


@runtime_checkable
class VectorStore(Protocol):
    """Keeps vectors in collections, and finds the nearest ones.

    Stable once two back ends keep it.

    - `create_collection` must make sure that there is one: it may be called again
      with the same dimension and metric, and must raise `Conflict` for others.
    - `upsert` must replace what has the same id, and must be visible to the next
      search. An id may be any string. Batches of any size must be taken.
    - `search` must give at most `top_k` results, the best first and by id among
      equals. A higher score must be better; the score of `cosine` must lie in
      [-1, 1] and be the same on every store.
    - a filter must be applied before the `top_k` are chosen, not to what is left.
    - an empty collection must give no results; one that is not there must raise
      `NotFound`.
    - a vector of the wrong length must raise `InvalidInput` that names both lengths,
      and nothing of its batch may be stored.
    - `delete` must pass over ids that are not there.
    - `close` must be safe to call twice.
    """

    async def create_collection(self, name: str, dimension: int, metric: Metric = "cosine") -> None: ...

    async def upsert(self, collection: str, embeddings: Sequence[Embedding]) -> None: ...

    async def search(
        self, collection: str, query: Sequence[float], top_k: int = 10, filter: Filter | None = None
    ) -> tuple[SearchResult, ...]: ...

    async def delete(self, collection: str, ids: Sequence[str]) -> None: ...

    async def close(self) -> None: ...
