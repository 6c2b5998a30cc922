"""Azure OpenAI: a deployment of yours, by the v1 API or, with a version, by the one before it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal, TypeAlias
from urllib.parse import quote

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon._token import Token
from gnomon.errors import ConfigError
from gnomon.providers._azure import AzureChatDecoder, AzureResponsesDecoder, chat_quirks
from gnomon.providers._body import model_names
from gnomon.providers._chat_body import chat_body
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._responses_body import Summary, responses_body
from gnomon.types.requests import Request

__all__ = ["AzureProvider"]

_Api: TypeAlias = Literal["responses", "chat"]

_ACCOUNT = Account(vendor="azure", variables=("AZURE_OPENAI_API_KEY",), header="api-key", prefix="")
_HOME = re.compile(r"https://([\w-]+\.)+azure\.(com|us|cn)(:\d+)?(/|$)", re.IGNORECASE)
_NOWHERE = "https://your-resource.openai.azure.com"
_OF_V1 = ("v1", "preview", "latest")  # versions that the v1 API has itself


class AzureProvider(HTTPProvider):
    """Models of OpenAI at Azure. The model is the name of your deployment.

    `endpoint` is the address of your resource, `https://….openai.azure.com`, or `AZURE_OPENAI_ENDPOINT`;
    `base_url`, in its place, is the whole address before `/responses` or `/chat/completions`.

    The v1 API is asked, by Responses or with `api="chat"` by Chat Completions. With a dated `api_version`
    or with `deployment` it is the API before it: Chat Completions at the deployment's own address. The
    version of a deployment is looked for in `OPENAI_API_VERSION` too.

    The key is looked for in `AZURE_OPENAI_API_KEY`. In its place `token` may be a function that gives a
    token of Entra ID, asked before every request; `AZURE_OPENAI_AD_TOKEN` is one that does not change.
    `base_model` says which model is deployed, where the name of the deployment does not.
    `extra` goes into the body of every request, over what Gnomon puts there.
    """

    name = "azure"

    def __init__(
        self,
        *,
        model: str | None = None,
        key: str | None = None,
        token: Token | None = None,
        endpoint: str | None = None,
        base_url: str | None = None,
        api: _Api | None = None,
        api_version: str | None = None,
        deployment: str | None = None,
        base_model: str | None = None,
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
        if api not in (None, "responses", "chat"):
            raise ConfigError(f"api {api!r} of provider 'azure' is not known", hint="responses or chat")
        self.model = model or deployment or ""
        self._deployment = deployment
        self._base_model = base_model
        self._version = _version(api_version, deployment)
        self._is_dated = self._version is not None and self._version not in _OF_V1
        self._api: _Api = api or ("chat" if self._is_dated else "responses")
        self._quirks = chat_quirks(self._version if self._is_dated else None)
        self._summary: Summary | None = summary
        self._extra = dict(extra or {})
        self._has_address, address = _address(endpoint, base_url, dated=self._is_dated)
        secret, token = _credentials(key, token)
        self._http = connected(
            _ACCOUNT,
            address,
            key=secret,
            token=token,
            headers=headers,
            limits=limits_from(connect_s, first_byte_s, idle_s, total_s),
            proxy=proxy,
            ca=ca,
        )

    async def list_models(self) -> tuple[str, ...]:
        """The models that can be deployed, by name; Azure does not list the deployments to a key."""
        self._expect_settings()
        return await model_names(self._http, self._at("/models"))

    def _ask(self, request: Request) -> Asked:
        self._expect_settings()
        model = request.model or self.model
        if not model:
            raise ConfigError(
                "provider 'azure' has no model", hint="it is the name of your deployment: azure:my-deployment"
            )
        return self._ask_chat(request, model) if self._api == "chat" else self._ask_responses(request, model)

    def _ask_responses(self, request: Request, model: str) -> Asked:
        body, warnings = responses_body(
            request,
            vendor=self.name,
            model=model,
            extra=self._extra,
            summary=self._summary,
            known_as=self._base_model,
            file_urls=False,
        )
        decoder = AzureResponsesDecoder(self.name, model)
        return Asked(path=self._at("/responses"), body=body, decoder=decoder, model=model, warnings=warnings)

    def _ask_chat(self, request: Request, model: str) -> Asked:
        body, warnings = chat_body(
            request, vendor=self.name, model=model, quirks=self._quirks, extra=self._extra
        )
        place = "/chat/completions"
        if self._is_dated and "/deployments/" not in self._http.base_url:
            place = f"/deployments/{quote(self._deployment or model, safe='')}{place}"
        decoder = AzureChatDecoder(self.name, model, self._quirks)
        return Asked(path=self._at(place), body=body, decoder=decoder, model=model, warnings=warnings)

    def _at(self, path: str) -> str:
        return f"{path}?api-version={quote(self._version, safe='')}" if self._version else path

    def _expect_settings(self) -> None:
        if not self._has_address:
            raise ConfigError(
                "provider 'azure' does not know your resource",
                hint="set AZURE_OPENAI_ENDPOINT, or endpoint in [providers.azure] of your configuration",
            )
        if _HOME.match(self._http.base_url) and not self._http.authorised:
            raise _ACCOUNT.missing()


def _version(given: str | None, deployment: str | None) -> str | None:
    """The version of the API before v1, if that is the one to ask."""
    if given or not deployment:
        return given or None  # what the environment says of it alone is not a wish for the older API
    found = os.environ.get("OPENAI_API_VERSION")
    if not found:
        raise ConfigError(
            "provider 'azure' has a deployment and no api_version",
            hint="set api_version or OPENAI_API_VERSION; or leave out deployment and name it as the model",
        )
    return found


def _address(endpoint: str | None, base_url: str | None, *, dated: bool) -> tuple[bool, str]:
    """Where the API is, and whether that is known: who only looks at a provider need not say it."""
    if base_url:
        if endpoint:
            raise ConfigError("provider 'azure' has an endpoint and a base_url", hint="set one of the two")
        return True, base_url
    found = endpoint or os.environ.get("AZURE_OPENAI_ENDPOINT")
    resource = re.sub(r"/+(openai(/v1)?/*)?$", "", found or _NOWHERE)  # as Azure's own pages show it, too
    return bool(found), f"{resource}/openai" if dated else f"{resource}/openai/v1"


def _credentials(key: str | None, token: Token | None) -> tuple[str | None, Token | None]:
    """What was given, or else what the environment has: its token before its key."""
    if key and token:
        raise ConfigError("provider 'azure' has a key and a token", hint="set one of the two")
    if token:
        return None, token
    if not key and (given := os.environ.get("AZURE_OPENAI_AD_TOKEN")):
        return None, _unchanging(given)
    return found_key(_ACCOUNT, key), None


def _unchanging(text: str) -> Token:
    async def token() -> str:
        return text

    return token
