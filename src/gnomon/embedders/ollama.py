"""Embeddings of a model that Ollama runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon._http import Reply
from gnomon._ollama import is_cloud, server_address
from gnomon.embedders._batches import above_zero
from gnomon.embedders._service import BatchLimits, Said, ServiceEmbedder, read_said, tokens_read
from gnomon.embedders._vectors import rounded
from gnomon.errors import ModelNotFound, ProviderError
from gnomon.types.documents import Embeddings

__all__ = ["OllamaEmbedder"]

_CLOUD = Account(vendor="ollama", variables=("OLLAMA_API_KEY",), kind="embedder")
_OWN = Account(vendor="ollama", variables=(), kind="embedder")
_MODEL = "embeddinggemma"

# Ollama names no limits. A model on a processor gets through this much within the limit on the first byte.
_MOST_TEXTS = 256
_MOST_TOKENS = 100_000


class _Answer(Said):
    embeddings: list[list[float]] | None = None
    model: str | None = None
    prompt_eval_count: int | None = None


class OllamaEmbedder(ServiceEmbedder):
    """Vectors by Ollama's `POST /api/embed`; a text that is too long for the model is an error, never cut.

    The server is looked for in `OLLAMA_HOST`, and a key for Ollama's cloud in
    `OLLAMA_API_KEY`; a server of your own gets a key only when you give it one.
    `keep_alive` says how long the model stays loaded ("10m", or seconds), `options`
    are the model's own. `batch_texts` and `batch_tokens` are the most that goes into
    one request, `concurrency` how many are under way at once. `extra` goes into the
    body of every request, over what Gnomon puts there.
    """

    name = "ollama"
    _path = "/api/embed"

    def __init__(
        self,
        *,
        model: str = _MODEL,
        dimensions: int | None = None,
        base_url: str | None = None,
        key: str | None = None,
        keep_alive: str | float | None = None,
        options: Mapping[str, object] | None = None,
        batch_texts: int = _MOST_TEXTS,
        batch_tokens: int = _MOST_TOKENS,
        concurrency: int = 2,
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
        self.model = model
        self.dimensions = dimensions
        self._keep_alive = keep_alive
        self._options = dict(options or {})
        self._extra = dict(extra or {})
        self._limits = BatchLimits(texts=batch_texts, tokens=batch_tokens, at_once=concurrency)
        address = server_address(base_url)
        account = _CLOUD if is_cloud(address) else _OWN
        self._http = connected(
            account,
            address,
            key=found_key(account, key),
            headers=headers,
            limits=limits_from(connect_s, first_byte_s, idle_s, total_s),
            proxy=proxy,
            ca=ca,
        )

    @property
    def space(self) -> str:
        """What tells its vectors from others of the same name and model, for whoever keeps them."""
        added = {**self._options, **self._extra}
        # A name is what each server makes of it: `ollama create` gives any model any name.
        return self._http.base_url + (msgspec.json.encode(added, order="sorted").decode() if added else "")

    def _body(self, texts: Sequence[str], model: str) -> dict[str, object]:
        given = {
            "dimensions": self.dimensions,
            "keep_alive": self._keep_alive,
            "options": self._options or None,
        }
        chosen = {name: value for name, value in given.items() if value is not None}
        return {"model": model, "input": texts, "truncate": False, **chosen}

    def _read(self, reply: Reply, body: bytes) -> Embeddings:
        answer = read_said(reply, body, _Answer)
        vectors = tuple(map(rounded, answer.embeddings or []))
        return Embeddings(vectors=vectors, model=answer.model, usage=tokens_read(answer.prompt_eval_count))

    def _expect_ready(self) -> None:
        if is_cloud(self._http.base_url) and not self._http.authorised:
            raise _CLOUD.missing()

    def _explained(self, error: ProviderError, model: str) -> ProviderError:
        if isinstance(error, ModelNotFound):
            error.hint = f"fetch it: ollama pull {model}"
        return error
