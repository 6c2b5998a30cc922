"""Texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from gnomon.types.documents import EmbeddingRequest, Embeddings

__all__ = ["Embedder"]


@runtime_checkable
class Embedder(Protocol):
    """Something that turns texts into vectors.

    Stable since 0.1.

    - `name` must be the registry's name and `model` the model that is asked when
      a request names none; vectors of two models must not be compared.
    - `embed` must give one vector a text, in the order of the texts, all of one
      length. A list of texts may stand for a request; a bare string must count
      as one text.
    - it must split what the service cannot take at once, by count and by size,
      and the caller must not be able to tell.
    - no texts must give no vectors, without asking the service. A text that cannot
      be embedded, an empty one say, must be an error or have a vector; it must not be
      left out, and no text may be cut in silence.
    - usage must be the sum over the parts; what was not reported must be `None` (U3).
    - errors must be `ProviderError`s, and must not contain a key (S12).
    - an embedder that caches must be bounded, must ask once for a text that is
      there twice or asked for at the same time, and may outlive the process.
    - `close` must be safe to call twice.
    """

    @property
    def name(self) -> str: ...

    @property
    def model(self) -> str: ...

    async def embed(self, request: EmbeddingRequest | Sequence[str]) -> Embeddings:
        """One vector a text."""
        ...

    async def close(self) -> None:
        """Let go of pooled connections."""
        ...
