"""Google's routes of the proxy, asked without our transport: by hand, and in one piece."""

from __future__ import annotations

import asyncio
import json
import urllib.error
import urllib.request
from typing import Any, NamedTuple

import msgspec
from litellm_proxy import Proxy

from gnomon.providers.gemini import GeminiProvider
from gnomon.types.events import Finish
from gnomon.types.requests import Request, Usage

__all__ = ["Reply", "by_hand", "counted"]

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Reply(NamedTuple):
    """What the proxy said: one chunk, or as many as its stream has."""

    status: int
    chunks: list[dict[str, Any]]

    @property
    def parts(self) -> list[dict[str, Any]]:
        candidates = [candidate for chunk in self.chunks for candidate in chunk.get("candidates", ())]
        return [part for candidate in candidates for part in candidate["content"]["parts"]]

    @property
    def usage(self) -> dict[str, Any]:
        return self.chunks[-1]["usageMetadata"]


async def by_hand(
    proxy: Proxy, model: str, body: dict[str, Any] | None, method: str = "generateContent"
) -> Reply:
    """No body asks for the list of models."""
    path = f"/{model}:{method}" if body is not None else ""
    return await asyncio.to_thread(_fetched, f"{proxy.url}/v1beta/models{path}", proxy.key, body)


async def counted(proxy: Proxy, model: str, request: Request) -> Usage:
    """What our provider reads of the usage when what it asks for comes in one piece."""
    provider: Any = GeminiProvider(model=model, base_url=proxy.url, key=proxy.key)
    asked = provider._ask(request)
    await provider.close()
    reply = await by_hand(proxy, model, msgspec.json.decode(asked.body))
    finish = [
        event
        for event in asked.decoder.feed(msgspec.json.encode(reply.chunks[0]))
        if isinstance(event, Finish)
    ]
    assert finish, reply
    return finish[0].usage or Usage()


def _fetched(url: str, key: str, body: dict[str, Any] | None) -> Reply:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json", "x-goog-api-key": key})
    try:
        with _direct.open(request, timeout=60) as reply:
            return Reply(reply.status, _chunks(reply.read().decode()))
    except urllib.error.HTTPError as error:
        with error:
            return Reply(error.code, _chunks(error.read().decode()))


def _chunks(text: str) -> list[dict[str, Any]]:
    events = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(each) for each in events or [text]]
