"""Anthropic's Claude models, through the Messages API."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeVar

import msgspec

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon.errors import ConfigError
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._messages import MessagesDecoder
from gnomon.providers._messages_body import LATEST_VERSION, Cache, Ways, body_of, count_body_of
from gnomon.providers._messages_models import family_of
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request

__all__ = ["AnthropicProvider"]

_URL = "https://api.anthropic.com"
_KEY = Account(vendor="anthropic", variables=("ANTHROPIC_API_KEY",), header="x-api-key", prefix="")
_TOKEN = Account(vendor="anthropic", variables=("ANTHROPIC_AUTH_TOKEN",))
_EITHER = Account(vendor="anthropic", variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"))
# Models that think within a budget do it between tool calls only when told so; the others always do.
_INTERLEAVED = "interleaved-thinking-2025-05-14"
_PAGE = 1000

_T = TypeVar("_T")


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]
    has_more: bool = False
    last_id: str | None = None


class _Count(msgspec.Struct):
    input_tokens: int


class AnthropicProvider(HTTPProvider):
    """Claude, as Anthropic serves it.

    The key is looked for in `ANTHROPIC_API_KEY`, a token in `ANTHROPIC_AUTH_TOKEN`,
    another address in `ANTHROPIC_BASE_URL`.

    - `cache` marks the tools, the instructions and the last turns for the prompt
      cache; `"1h"` keeps them for an hour in place of five minutes.
    - `strict` has the vendor check arguments against the schema of a tool, where that
      does not change what the schema means.
    - `eager` streams long arguments as they are written; they may then be no JSON.
    - `show_thinking` asks for a summary of the thinking, where thinking is asked for.
    - `version` is the version of the API; `2023-06-01` still takes a temperature.
    - `extra` goes into every request, over what Gnomon puts there; lists are added, so
      `{"tools": [{"type": "web_search_20260318", "name": "web_search"}]}` lets it search.
    """

    name = "anthropic"

    def __init__(
        self,
        *,
        model: str = "claude-opus-5-5",
        key: str | None = None,
        auth_token: str | None = None,
        base_url: str | None = None,
        version: str = LATEST_VERSION,
        cache: Cache = True,
        strict: bool = True,
        eager: bool = False,
        show_thinking: bool = True,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, object] | None = None,
        proxy: str | None = None,
        ca: str | None = None,
        connect_s: float | None = None,
        first_byte_s: float | None = None,
        idle_s: float | None = None,
        total_s: float | None = None,
    ) -> None:
        if cache not in (True, False, "1h"):
            raise ConfigError(f"cache of provider 'anthropic' is true, false or \"1h\", not {cache!r}")
        self.model = model
        self._ways = Ways(
            provider=self.name,
            version=version,
            cache=cache,
            strict=strict,
            eager=eager,
            show_thinking=show_thinking,
            extra=extra or {},
        )
        address = base_url or os.environ.get("ANTHROPIC_BASE_URL") or _URL
        url = address.rstrip("/").removesuffix("/v1")
        account, secret = _credentials(key, auth_token)
        self._http = connected(
            account,
            url,
            key=secret,
            headers=_headers(version, model, headers or {}),
            limits=limits_from(connect_s, first_byte_s, idle_s, total_s),
            proxy=proxy,
            ca=ca,
        )

    async def list_models(self) -> tuple[str, ...]:
        """The newest first, as the vendor lists them."""
        self._expect_key()
        found: list[str] = []
        path = f"/v1/models?limit={_PAGE}"
        while path:
            page = await self._http.get_as(path, _Models)
            found += [model.id for model in page.data]
            more = page.has_more and page.last_id
            path = f"/v1/models?limit={_PAGE}&after_id={page.last_id}" if more else ""
        return tuple(found)

    async def count_tokens(self, messages: tuple[Message, ...], tools: tuple[ToolDef, ...]) -> int:
        """Of a prompt, as the vendor counts them."""
        self._expect_key()
        body = count_body_of(Request(messages=messages, tools=tools), self.model, self._ways)
        async with self._http.post("/v1/messages/count_tokens", body, model=self.model) as reply:
            return reply.read_as(await reply.whole(), _Count).input_tokens

    def _ask(self, request: Request) -> Asked:
        self._expect_key()
        model = request.model or self.model
        body, warnings = body_of(request, model, self._ways)
        decoder = MessagesDecoder(self.name, model)
        return Asked(path="/v1/messages", body=body, decoder=decoder, model=model, warnings=warnings)

    def _expect_key(self) -> None:
        if self._http.base_url == _URL and not self._http.authorised:
            raise _EITHER.missing()


def _credentials(key: str | None, token: str | None) -> tuple[Account, str | None]:
    """What was given, else what the environment has; a key before a token."""
    for account, given in ((_KEY, key), (_TOKEN, token)):
        if given and (found := found_key(account, given)):
            return account, found
    for account in (_KEY, _TOKEN):
        if found := found_key(account, None):
            return account, found
    return _KEY, None


def _headers(version: str, model: str, given: Mapping[str, str]) -> dict[str, str]:
    sent = {"anthropic-version": version} | {name.lower(): value for name, value in given.items()}
    if family_of(model).thinks == "budget":
        betas = sent.get("anthropic-beta")
        sent["anthropic-beta"] = f"{betas},{_INTERLEAVED}" if betas else _INTERLEAVED
    return sent
