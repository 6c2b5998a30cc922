"""Services and servers that speak OpenAI's Chat Completions, each by its own name."""

from __future__ import annotations

import os
from collections.abc import Mapping

import msgspec

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon.errors import ConfigError
from gnomon.providers._body import model_names
from gnomon.providers._chat import ChatDecoder, ChatQuirks
from gnomon.providers._chat_body import chat_body
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._vendors import VENDORS
from gnomon.types.requests import Request

__all__ = [
    "CerebrasProvider",
    "CompatibleProvider",
    "DeepSeekProvider",
    "FireworksProvider",
    "GroqProvider",
    "LMStudioProvider",
    "LiteLLMProvider",
    "LlamaCppProvider",
    "OpenRouterProvider",
    "PerplexityProvider",
    "TogetherProvider",
    "VLLMProvider",
    "XAIProvider",
]


class CompatibleProvider(HTTPProvider):
    """Any server that speaks OpenAI's Chat Completions.

    `base_url` is its address, up to and without `/chat/completions`; it is also looked
    for in `COMPATIBLE_BASE_URL`, a key in `COMPATIBLE_API_KEY`. `quirks` says where the
    server differs: `{"replay": "reasoning_content"}` sends the model its thoughts back.
    `extra` goes into the body of every request, over what Gnomon puts there.
    """

    name = "compatible"

    def __init__(
        self,
        *,
        model: str | None = None,
        key: str | None = None,
        base_url: str | None = None,
        quirks: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
        proxy: str | None = None,
        ca: str | None = None,
        connect_s: float | None = None,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        self._vendor = VENDORS[self.name]
        self._account = Account(vendor=self.name, variables=(self._vendor.key_variable,))
        self._own_quirks = dict(quirks or {})
        self.model = model or self._vendor.model
        self._quirks(self.model)  # what is wrong with them is said at once
        self._extra = dict(extra or {})
        address = self._address(base_url)
        self._needs_key = self._vendor.needs_key and address.rstrip("/") == self._vendor.base_url
        self._http = connected(
            self._account,
            address,
            key=found_key(self._account, key),
            headers=headers,
            limits=limits_from(connect_s, first_byte_s, idle_s, total_s),
            proxy=proxy,
            ca=ca,
        )

    async def list_models(self) -> tuple[str, ...]:
        """The models that the service offers, by name."""
        self._expect_key()
        return await model_names(self._http)

    def _ask(self, request: Request) -> Asked:
        self._expect_key()
        model = request.model or self.model
        if not model:
            raise ConfigError(
                f"provider {self.name!r} has no model of its own choice",
                hint=f"write {self.name}:MODEL; `gnomon models {self.name}` lists them",
            )
        quirks = self._quirks(model)
        body, warnings = chat_body(request, vendor=self.name, model=model, quirks=quirks, extra=self._extra)
        decoder = ChatDecoder(self.name, model, quirks)
        return Asked(path="/chat/completions", body=body, decoder=decoder, model=model, warnings=warnings)

    def _quirks(self, model: str) -> ChatQuirks:
        usual = self._vendor.quirks_for(model)
        if not self._own_quirks:
            return usual
        return _changed(usual, self._own_quirks, self.name)

    def _address(self, given: str | None) -> str:
        variable = f"{self.name.upper()}_BASE_URL"
        found = given or os.environ.get(variable) or self._vendor.base_url
        if not found:
            raise ConfigError(
                f"provider {self.name!r} needs the address of its server",
                hint=f"set base_url in [providers.{self.name}] of your configuration, or {variable}",
            )
        return found

    def _expect_key(self) -> None:
        if self._needs_key and not self._http.authorised:
            raise self._account.missing()


def _changed(usual: ChatQuirks, given: Mapping[str, object], name: str) -> ChatQuirks:
    known = msgspec.to_builtins(usual)
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ConfigError(
            f"provider {name!r} knows no quirk {unknown[0]!r}", hint="known: " + ", ".join(known)
        )
    try:
        return msgspec.convert({**known, **given}, ChatQuirks)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the quirks of provider {name!r} cannot be used: {error}") from error


# One class a name, for the registry: what tells them apart is data in `_vendors.py`.


class GroqProvider(CompatibleProvider):
    """Open models on Groq's own processors. The key is looked for in `GROQ_API_KEY`."""

    name = "groq"


class TogetherProvider(CompatibleProvider):
    """Open models at Together AI. The key is looked for in `TOGETHER_API_KEY`."""

    name = "together"


class DeepSeekProvider(CompatibleProvider):
    """DeepSeek's own models. The key is looked for in `DEEPSEEK_API_KEY`."""

    name = "deepseek"


class OpenRouterProvider(CompatibleProvider):
    """Models of many vendors through OpenRouter. The key is looked for in `OPENROUTER_API_KEY`."""

    name = "openrouter"


class FireworksProvider(CompatibleProvider):
    """Open models at Fireworks AI. The key is looked for in `FIREWORKS_API_KEY`."""

    name = "fireworks"


class PerplexityProvider(CompatibleProvider):
    """Perplexity's models that search the web. The key is looked for in `PERPLEXITY_API_KEY`."""

    name = "perplexity"


class XAIProvider(CompatibleProvider):
    """xAI's Grok models. The key is looked for in `XAI_API_KEY`."""

    name = "xai"


class CerebrasProvider(CompatibleProvider):
    """Open models on Cerebras' wafers. The key is looked for in `CEREBRAS_API_KEY`."""

    name = "cerebras"


class VLLMProvider(CompatibleProvider):
    """A vLLM server; port 8000 of this machine unless `base_url` or `VLLM_BASE_URL` says otherwise."""

    name = "vllm"


class LlamaCppProvider(CompatibleProvider):
    """A llama.cpp server; port 9931 of this machine unless `base_url` or `LLAMACPP_BASE_URL` says otherwise.

    Releases before autumn 2026 listen on port 8080.
    """

    name = "llamacpp"


class LMStudioProvider(CompatibleProvider):
    """LM Studio; port 1234 of this machine unless `base_url` or `LMSTUDIO_BASE_URL` says otherwise."""

    name = "lmstudio"


class LiteLLMProvider(CompatibleProvider):
    """A LiteLLM proxy; port 4000 of this machine unless `base_url` or `LITELLM_BASE_URL` says otherwise."""

    name = "litellm"
