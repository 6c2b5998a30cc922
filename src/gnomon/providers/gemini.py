"""Google's Gemini models, through the Gemini API or on Google Cloud."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from gnomon._connect import Account, connected, found_key, limits_from
from gnomon._token import Token
from gnomon.errors import BadReply, ConfigError
from gnomon.providers._converse import Asked, HTTPProvider
from gnomon.providers._gemini import GeminiDecoder
from gnomon.providers._gemini_body import Ways, body_of, count_body_of
from gnomon.providers._gemini_site import found_site
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request

__all__ = ["GeminiProvider"]

_ACCOUNT = Account(
    vendor="gemini", variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"), header="x-goog-api-key", prefix=""
)
# On Google Cloud a key of the Gemini API is of no use: none is looked for in the environment.
_CLOUD = Account(vendor="gemini", variables=(), header="x-goog-api-key", prefix="")
_PAGE = 1000
_MOST_PAGES = 100


class _Model(msgspec.Struct, rename="camel"):
    name: str
    supported_generation_methods: list[str] | None = None


class _Models(msgspec.Struct, rename="camel"):
    models: list[_Model] = []
    publisher_models: list[_Model] = []
    next_page_token: str | None = None


class _Count(msgspec.Struct, rename="camel"):
    total_tokens: int


class GeminiProvider(HTTPProvider):
    """Gemini, as Google serves it.

    The key is looked for in `GEMINI_API_KEY`, then in `GOOGLE_API_KEY`, another address in
    `GOOGLE_GEMINI_BASE_URL`. The address may end with a version of the API, or with the whole
    path that `/models/…` follows.

    - `project` and `location` ask Google Cloud (Vertex AI) instead, in that project and region;
      `location` is `global` unless said otherwise, or what `GOOGLE_CLOUD_LOCATION` says. It wants
      `token`, a function that gives an access token for every request, such as one of the
      `google-auth` package, or a `key` that Google Cloud has made. Another address is looked for
      in `GOOGLE_VERTEX_BASE_URL`.
    - `version` is the version of the API: `v1beta`, on Google Cloud `v1`.
    - `validated` has calls checked against the schema of their tool as they are written, where
      the choice is left to the model.
    - `show_thinking` asks for a summary of the thinking, where thinking is asked for.
    - `extra` goes into every request, over what Gnomon puts there; lists are added, so
      `{"tools": [{"googleSearch": {}}]}` lets it search, and `safetySettings` are set here too.
    """

    name = "gemini"

    def __init__(
        self,
        *,
        model: str = "gemini-3.8-flash",
        key: str | None = None,
        token: Token | None = None,
        project: str | None = None,
        location: str | None = None,
        base_url: str | None = None,
        version: str | None = None,
        validated: bool = False,
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
        self.model = model
        self._site = site = found_site(project, location, base_url, version)
        self._ways = Ways(
            provider=self.name,
            vertex=site.on_cloud,
            validated=validated,
            show_thinking=show_thinking,
            extra=extra or {},
        )
        if key and token:
            raise ConfigError("provider 'gemini' has a key and a token", hint="set one of the two")
        self._account = _CLOUD if site.on_cloud else _ACCOUNT
        self._http = connected(
            self._account,
            site.url,
            key=None if token else found_key(self._account, key),
            token=token,
            headers=headers,
            limits=limits_from(connect_s, first_byte_s, idle_s, total_s),
            proxy=proxy,
            ca=ca,
        )

    async def list_models(self) -> tuple[str, ...]:
        """Those that answer, as the vendor lists them."""
        self._expect_key()
        path = self._site.list_path
        found: list[str] = []
        more = ""
        for _ in range(_MOST_PAGES):
            page = await self._http.get_as(f"{path}?pageSize={_PAGE}{more}", _Models)
            found += [_short(model.name) for model in (*page.models, *page.publisher_models) if _talks(model)]
            if not page.next_page_token:
                return tuple(found)
            more = f"&pageToken={quote(page.next_page_token, safe='')}"
        raise BadReply(f"the list of models has more than {_MOST_PAGES} pages", vendor="gemini")

    async def count_tokens(self, messages: tuple[Message, ...], tools: tuple[ToolDef, ...]) -> int:
        """Of a prompt, as the vendor counts them."""
        self._expect_key()
        body = count_body_of(Request(messages=messages, tools=tools), self.model, self._ways)
        async with self._http.post(
            self._site.path_to(self.model, "countTokens"), body, model=self.model
        ) as reply:
            return reply.read_as(await reply.whole(), _Count).total_tokens

    def _ask(self, request: Request) -> Asked:
        self._expect_key()
        model = request.model or self.model
        path = self._site.path_to(model, "streamGenerateContent?alt=sse")
        body, warnings = body_of(request, model, self._ways)
        decoder = GeminiDecoder(self.name, model)
        return Asked(path=path, body=body, decoder=decoder, model=model, warnings=warnings)

    def _expect_key(self) -> None:
        if self._http.authorised or not self._site.is_home:
            return
        if self._account is _CLOUD:
            raise ConfigError(
                "provider 'gemini' has no token for Google Cloud",
                hint="pass token, a function that gives an access token, or a key of Google Cloud",
            )
        raise self._account.missing()


def _short(name: str) -> str:
    return name.rpartition("models/")[2] if "tunedModels/" not in name else name


def _talks(model: _Model) -> bool:
    methods = model.supported_generation_methods
    return methods is None or "generateContent" in methods
