"""OpenAI: the Responses API, and Chat Completions for whoever needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon._openai import billing_headers, is_home, openai_address
from gnomon.errors import ConfigError
from gnomon.providers._body import model_names
from gnomon.providers._chat import ChatDecoder, ChatQuirks
from gnomon.providers._chat_body import chat_body
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._responses import ResponsesDecoder
from gnomon.providers._responses_body import Summary, responses_body
from gnomon.types.requests import Request

__all__ = ["OpenAIProvider"]

_ACCOUNT = Account(vendor="openai", variables=("OPENAI_API_KEY",))
_MODEL = "gpt-6.1-sol"
_CHAT = ChatQuirks()


class OpenAIProvider(HTTPProvider):
    """Models of OpenAI, by their Responses API; `api="chat"` asks by Chat Completions instead.

    The key is looked for in `OPENAI_API_KEY`, another address in `OPENAI_BASE_URL`.
    `summary` is how the model sums up what it thought, when it is asked to think.
    `extra` goes into the body of every request, over what Gnomon puts there.
    """

    name = "openai"

    def __init__(
        self,
        *,
        model: str = _MODEL,
        key: str | None = None,
        base_url: str | None = None,
        api: Literal["responses", "chat"] = "responses",
        organization: str | None = None,
        project: str | None = None,
        summary: Summary | None = "auto",
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
        proxy: str | None = None,
        ca: str | None = None,
        connect_s: float | None = None,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        if api not in ("responses", "chat"):
            raise ConfigError(f"api {api!r} of provider 'openai' is not known", hint="responses or chat")
        address = openai_address(base_url)
        self.model = model
        self._api = api
        self._summary: Summary | None = summary
        self._extra = dict(extra or {})
        self._is_home = is_home(address)
        self._http = connected(
            _ACCOUNT,
            address,
            key=found_key(_ACCOUNT, key),
            headers={**billing_headers(address, organization, project), **(headers or {})},
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
        return self._ask_chat(request, model) if self._api == "chat" else self._ask_responses(request, model)

    def _ask_responses(self, request: Request, model: str) -> Asked:
        body, warnings = responses_body(
            request, vendor=self.name, model=model, extra=self._extra, summary=self._summary
        )
        decoder = ResponsesDecoder(self.name, model)
        return Asked(path="/responses", body=body, decoder=decoder, model=model, warnings=warnings)

    def _ask_chat(self, request: Request, model: str) -> Asked:
        body, warnings = chat_body(request, vendor=self.name, model=model, quirks=_CHAT, extra=self._extra)
        decoder = ChatDecoder(self.name, model, _CHAT)
        return Asked(path="/chat/completions", body=body, decoder=decoder, model=model, warnings=warnings)

    def _expect_key(self) -> None:
        if self._is_home and not self._http.authorised:
            raise _ACCOUNT.missing()
