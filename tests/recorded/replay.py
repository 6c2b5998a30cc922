"""Recorded answers through our providers: an HTTP client that plays them, and keeps what was sent."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from cassettes import Exchange, Wire

from gnomon._transport import Outgoing
from gnomon.contracts.provider import Provider
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.providers.compatible import CompatibleProvider
from gnomon.providers.openai import OpenAIProvider
from gnomon.types.messages import Message
from gnomon.types.requests import Request, Response

__all__ = ["Canned", "answered", "cut", "playing", "providers_for"]


class Canned:
    """A transport that gives one recorded answer, in the pieces it is told to."""

    def __init__(self, exchange: Exchange, pieces: Iterable[bytes]) -> None:
        self._exchange = exchange
        self._pieces = list(pieces)
        self.calls: list[Outgoing] = []

    async def open(self, call: Outgoing) -> _Reply:
        self.calls.append(call)
        return _Reply(self._exchange, self._pieces)

    async def close(self) -> None:
        pass


class _Reply:
    def __init__(self, exchange: Exchange, pieces: list[bytes]) -> None:
        self.status = exchange.status
        self.headers = exchange.headers
        self._pieces = deque(pieces)

    async def read(self) -> bytes:
        return self._pieces.popleft() if self._pieces else b""

    def is_at_end(self) -> bool:
        return not self._pieces

    def abort(self, error: Exception | None = None) -> None:
        self._pieces.clear()


def cut(body: bytes, random: Random) -> list[bytes]:
    """The body in pieces of any length, most of them short; now and then byte by byte."""
    pieces: list[bytes] = []
    start = 0
    while start < len(body):
        size = random.choice((1, 1, 2, 3, 7, random.randrange(1, 40), random.randrange(1, 1500)))
        pieces.append(body[start : start + size])
        start += size
    return pieces


def providers_for(exchange: Exchange, wire: Wire) -> list[Provider]:
    """Those of ours that speak with such a service, set to the model that was asked."""
    model = exchange.question.get("model") or "claude-opus-4-7"
    match wire:
        case "responses":
            return [OpenAIProvider(model=model, key="none")]
        case "messages":
            return [AnthropicProvider(model=model, key="none")]
        case "chat":
            far = CompatibleProvider(model=model, key="none", base_url="https://models.test/v1")
            return [OpenAIProvider(model=model, key="none", api="chat"), far]


@asynccontextmanager
async def playing(
    provider: Any, exchange: Exchange, pieces: Iterable[bytes] | None = None
) -> AsyncIterator[Canned]:
    """The provider, talking to a recording for once. What it sends is in `calls`."""
    canned = Canned(exchange, [exchange.body] if pieces is None else pieces)
    provider._http._transport = canned
    yield canned
    await provider.close()


async def answered(provider: Provider, exchange: Exchange, pieces: Iterable[bytes] | None = None) -> Response:
    async with playing(provider, exchange, pieces):
        return await provider.complete(Request(messages=(Message.user("any"),), max_tokens=64))
