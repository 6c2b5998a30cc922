"""Models that an Ollama server runs, on this machine or another, and those of Ollama's cloud."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon._ollama import is_cloud, server_address
from gnomon.errors import ConfigError
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._ollama import OllamaDecoder
from gnomon.providers._ollama_body import Ways, ollama_body
from gnomon.providers._ollama_http import OllamaHTTP
from gnomon.types.requests import Request

__all__ = ["OllamaProvider"]

_CLOUD = Account(vendor="ollama", variables=("OLLAMA_API_KEY",))
_OWN = Account(vendor="ollama", variables=())


class _Model(msgspec.Struct):
    name: str


class _Models(msgspec.Struct):
    models: list[_Model]


class OllamaProvider(HTTPProvider):
    """Ollama, by its own chat API.

    The server is port 11434 of this machine unless `base_url` or `OLLAMA_HOST` says otherwise, in any
    of the forms that Ollama itself takes. `https://ollama.com` is its cloud, with a key that is
    looked for in `OLLAMA_API_KEY`; a server of your own gets a key only when you give it one.

    - `context` is the window in tokens (`num_ctx`); the server's own choice may be as small as 4096.
      A prompt that does not fit is `ContextTooLong`, and an answer that reaches the end of the window
      ends there. Left alone, Ollama would drop the beginning of the conversation without a word;
      `extra = { truncate = true, shift = true }` lets it.
    - `keep_alive` is how long the model stays in memory: `"10m"`, seconds, 0, or -1 for good.
    - `extra` goes into every request, over what Gnomon puts there: `{"options": {"seed": 7}}`.
    """

    name = "ollama"

    def __init__(
        self,
        *,
        model: str | None = None,
        key: str | None = None,
        base_url: str | None = None,
        context: int | None = None,
        keep_alive: str | float | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
        proxy: str | None = None,
        ca: str | None = None,
        connect_s: float | None = None,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        if context is not None and context < 1:
            raise ConfigError(f"context of provider 'ollama' is a number of tokens, not {context!r}")
        self.model = model or ""
        self._ways = Ways(vendor=self.name, context=context, keep_alive=keep_alive, extra=dict(extra or {}))
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
            kind=OllamaHTTP,
        )

    async def list_models(self) -> tuple[str, ...]:
        """The models that the server has, the latest first."""
        self._expect_key()
        listed = await self._http.get_as("/api/tags", _Models)
        return tuple(model.name for model in listed.models)

    def _ask(self, request: Request) -> Asked:
        self._expect_key()
        model = request.model or self.model
        if not model:
            raise ConfigError(
                "provider 'ollama' has no model of its own choice",
                hint="write ollama:MODEL; `gnomon models ollama` lists them",
            )
        body, warnings = ollama_body(request, model, self._ways)
        decoder = OllamaDecoder(self.name, model)
        return Asked(path="/api/chat", body=body, decoder=decoder, model=model, warnings=warnings)

    def _expect_key(self) -> None:
        if is_cloud(self._http.base_url) and not self._http.authorised:
            raise _CLOUD.missing()
