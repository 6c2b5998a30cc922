"""Our providers, pointed at a real server, and what the tests ask them and expect of every answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from llama_servers import LlamaServer

from gnomon.contracts.provider import Provider
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.providers.compatible import LlamaCppProvider
from gnomon.providers.openai import OpenAIProvider
from gnomon.stream import StreamFold
from gnomon.types.events import Done, StreamEvent, ToolCallDelta, ToolCallEnd, ToolCallStart
from gnomon.types.messages import Message, ToolCall
from gnomon.types.requests import Request, Response

__all__ = [
    "ALL",
    "LABELS_LIMITS",
    "SEED",
    "SOAK",
    "WIRES",
    "Answer",
    "answer",
    "asked",
    "in_one_piece",
    "made",
    "user",
]

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or "1")

KEY = "sk-of-the-locked-server-0123456789"
"""What the server of the fixture `locked` asks for."""

WIRES = ("llamacpp", "openai", "anthropic")
"""Chat Completions, Responses and Messages: one provider each."""
ALL = (*WIRES, "openai_chat")
LABELS_LIMITS = ("llamacpp", "anthropic", "openai_chat")
"""Where llama.cpp says that a limit ended the answer; in Responses it calls every answer completed."""


def made(kind: str, server: LlamaServer, *, key: str | None = None, at: str = "", **extra: Any) -> Provider:
    """`extra` goes into the body: settings of llama.cpp that are not ours."""
    url = server.url + at
    if kind == "llamacpp":
        return LlamaCppProvider(model=server.model, base_url=f"{url}/v1", extra=extra, key=key)
    if kind == "openai":
        return OpenAIProvider(model=server.model, base_url=f"{url}/v1", extra=extra, key=key)
    if kind == "openai_chat":
        return OpenAIProvider(model=server.model, base_url=f"{url}/v1", extra=extra, key=key, api="chat")
    # llama.cpp answers under any name; this one takes a temperature, and may be made to call a tool.
    return AnthropicProvider(
        model="claude-sonnet-4-6", version="2023-06-01", base_url=url, extra=extra, key=key
    )


def user(text: str, **settings: object) -> Request:
    return msgspec.structs.replace(Request(messages=(Message.user(text),)), **settings)


class Answer(msgspec.Struct, frozen=True):
    """All events of one answer, and what they come to."""

    events: tuple[StreamEvent, ...]
    response: Response

    @property
    def text(self) -> str:
        return self.response.text

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        return self.response.tool_calls

    @property
    def warnings(self) -> tuple[str, ...]:
        return self.response.warnings


async def answer(server: LlamaServer, provider: Provider, request: Request) -> Answer:
    """The answer, after what holds for every one: one `Done` at the end, the fold, the rules of calls."""
    by_chat = getattr(provider, "_api", None) == "chat"
    server.exchanges[f"{provider.name} (chat)" if by_chat else provider.name] += 1
    async with provider.stream(request) as stream:
        events = [event async for event in stream]
        response = stream.response
    assert [type(event) for event in events].count(Done) == 1
    assert isinstance(events[-1], Done)
    assert _folded(events) == response.message
    _expect_call_rules(events)
    return Answer(tuple(events), response)


async def asked(server: LlamaServer, kind: str, request: Request, **extra: Any) -> Answer:
    """One question to a new provider, which is closed again."""
    provider = made(kind, server, **extra)
    try:
        return await answer(server, provider, request)
    finally:
        await provider.close()


async def in_one_piece(
    server: LlamaServer, kind: str, request: Request, *, path: str | None = None, **extra: Any
) -> dict[str, Any]:
    """The server's own answer to the very same body, but for `stream`; or what another path makes of it."""
    provider: Any = made(kind, server, **extra)
    sent = provider._ask(request)
    usual = sent.path if kind == "anthropic" else "/v1" + sent.path
    return await server.post(path or usual, {**msgspec.json.decode(sent.body), "stream": False})


def _folded(events: Sequence[StreamEvent]) -> Message:
    """What a reader at the far end of a wire makes of the events, without the end to tell it."""
    fold = StreamFold()
    for event in events[:-1]:
        fold.add(event)
    return fold.message


def _expect_call_rules(events: Sequence[StreamEvent]) -> None:
    """S3 to S5, found out without the code that promises them."""
    started = [event for event in events if isinstance(event, ToolCallStart)]
    ended = [event for event in events if isinstance(event, ToolCallEnd)]
    ids = [event.id for event in started]
    assert len(set(ids)) == len(ids), f"an id was used twice: {ids}"
    assert sorted(ids) == sorted(event.call.id for event in ended), "not one end a start"
    for start, end in ((start, end) for start in started for end in ended if start.id == end.call.id):
        deltas = [event for event in events if isinstance(event, ToolCallDelta) and event.id == start.id]
        places = [events.index(start), *map(events.index, deltas), events.index(end)]
        assert places[0] == min(places), "a piece before its call"
        assert places[-1] == max(places), "a piece after its call"
        assert (start.name, start.index) == (end.call.name, end.index)
        assert "".join(delta.arguments for delta in deltas) in (end.call.arguments, "")
