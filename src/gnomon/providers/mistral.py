"""Mistral: its chat API, with thinking, tools, images, documents and audio."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon.providers._body import model_names
from gnomon.providers._chat_body import chat_body
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._mistral import MistralDecoder
from gnomon.providers._mistral_messages import MistralMessages, quirks_for
from gnomon.types.requests import Request

__all__ = ["MistralProvider"]

_ACCOUNT = Account(vendor="mistral", variables=("MISTRAL_API_KEY",))
_BASE_URL = "https://api.mistral.ai/v1"
_HOME = re.compile(r"https://([\w-]+\.)*mistral\.ai(:\d+)?(/|$)", re.IGNORECASE)
_MODEL = "mistral-medium-latest"


class MistralProvider(HTTPProvider):
    """Models of Mistral. The key is looked for in `MISTRAL_API_KEY`.

    `base_url` may name a region, such as `https://api.eu.mistral.ai/v1`. `extra` goes into the body
    of every request, over what Gnomon puts there: `random_seed`, `safe_prompt`, `prompt_cache_key`, …
    """

    name = "mistral"

    def __init__(
        self,
        *,
        model: str = _MODEL,
        key: str | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
        proxy: str | None = None,
        ca: str | None = None,
        connect_s: float | None = None,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        address = base_url or _BASE_URL
        self.model = model
        self._extra = dict(extra or {})
        self._is_home = _HOME.match(address) is not None
        self._http = connected(
            _ACCOUNT,
            address,
            key=found_key(_ACCOUNT, key),
            headers=headers,
            limits=limits_from(connect_s, first_byte_s, idle_s, total_s),
            proxy=proxy,
            ca=ca,
        )

    async def list_models(self) -> tuple[str, ...]:
        """The models that the key may use, by name."""
        self._expect_key()
        return await model_names(self._http)

    def _ask(self, request: Request) -> Asked:
        self._expect_key()
        model = request.model or self.model
        body, warnings = chat_body(
            request,
            vendor=self.name,
            model=model,
            quirks=quirks_for(model),
            extra=self._extra,
            messages=MistralMessages,
        )
        decoder = MistralDecoder(self.name, model)
        return Asked(path="/chat/completions", body=body, decoder=decoder, model=model, warnings=warnings)

    def _expect_key(self) -> None:
        if self._is_home and not self._http.authorised:
            raise _ACCOUNT.missing()
