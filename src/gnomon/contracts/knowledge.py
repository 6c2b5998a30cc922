"""What an agent can look up."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import msgspec

from gnomon.types.documents import Document

__all__ = ["Knowledge", "LoadReport"]


class LoadReport(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What loading did, in documents; `failed` says of each source that could not be read why."""

    added: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: dict[str, str] = {}


@runtime_checkable
class Knowledge(Protocol):
    """A body of documents that can be searched.

    Stable once two back ends keep it.

    - `load` may be called again, also after it was killed half-way: it must embed
      only what changed, must remove what is gone, and must leave no duplicates.
    - a source that cannot be read must be reported, and must not stop the others.
    - `search` must give at most `top_k` documents, the best first, each with its
      source and its score.
    - it must use words as well as vectors where the store can.
    - before anything was loaded, `search` must give nothing.
    - `close` must be safe to call twice.
    """

    async def load(self) -> LoadReport:
        """Bring what is searched up to date with its sources."""
        ...

    async def search(self, query: str, top_k: int = 5) -> tuple[Document, ...]:
        """What the documents have to say about it."""
        ...

    async def close(self) -> None: ...
