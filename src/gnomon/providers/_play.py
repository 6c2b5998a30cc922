"""Plays a prepared reply as a real stream: the engine under `scripted` and `demo`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from gnomon.errors import ProviderError
from gnomon.types.events import (
    Finish,
    PartEnd,
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Message, Part, Text, Thinking, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Request, StopReason, Usage

__all__ = ["Call", "Reply", "Sleep", "limited", "middle_of_text", "play", "spoken"]

Sleep: TypeAlias = Callable[[float], Awaitable[object]]

_CHARACTERS_A_TOKEN = 4
_ATTACHMENT_TOKENS = 256
_PIECE = 12


class Call(msgspec.Struct, frozen=True):
    """A tool call to make: `arguments` is its JSON text, cut short when `truncated`."""

    name: str
    arguments: str = "{}"
    truncated: bool = False


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What a model is to say: thinking, then text, then calls.

    `error` is raised in place of the event number `error_after`, at once when that
    is `None`, and at the latest in place of the end. What is left `None` of the
    others is worked out from the content.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    signature: str | None = None
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    error: ProviderError | None = None
    error_after: int | None = None


async def play(
    reply: Reply,
    request: Request,
    *,
    provider: str,
    model: str,
    delay_s: float = 0.0,
    sleep: Sleep = asyncio.sleep,
) -> AsyncGenerator[ProviderEvent, None]:
    """The reply, event by event, with a pause before each but the first."""
    for number, event in enumerate(_events(reply, request, provider, model)):
        if reply.error is not None and (number >= (reply.error_after or 0) or type(event) is Finish):
            raise reply.error
        if delay_s and number:
            await sleep(delay_s)
        yield event


def spoken(reply: Reply, request: Request, *, provider: str, model: str) -> Message:
    """The message that a reply comes to when it is played to its end."""
    parts: list[Part] = []
    if reply.thinking:
        parts.append(Thinking(reply.thinking, reply.signature, provider=provider, model=model))
    if reply.text:
        parts.append(Text(reply.text))
    turn = _round(request.messages)
    for number, call in enumerate(reply.calls, start=1):
        arguments = call.arguments if call.truncated else call.arguments or "{}"
        parts.append(
            ToolCall(f"call_{turn}_{number}", call.name, arguments, len(parts), truncated=call.truncated)
        )
    return Message("assistant", tuple(parts))


def limited(reply: Reply, request: Request) -> Reply:
    """The reply as far as the request's stop sequences and `max_tokens` let it go."""
    stops = [at for stop in request.stop if stop and (at := reply.text.find(stop)) >= 0]
    if stops:
        reply = msgspec.structs.replace(
            reply, text=reply.text[: min(stops)], calls=(), stop_reason="stop_sequence"
        )
    if request.max_tokens is None or _said_tokens(reply) <= request.max_tokens:
        return reply
    return _cut(reply, max(request.max_tokens, 0))


def middle_of_text(reply: Reply) -> int:
    """How many events are played before the text is half said."""
    thinking = len(_pieces(reply.thinking)) + 1 if reply.thinking else 0
    return thinking + (len(_pieces(reply.text)) + 1) // 2


def _events(reply: Reply, request: Request, provider: str, model: str) -> Iterator[ProviderEvent]:
    for index, part in enumerate(spoken(reply, request, provider=provider, model=model).content):
        yield from _streamed(index, part)
    usage = reply.usage or _usage(reply, request)
    yield UsageUpdate(usage)
    reason = reply.stop_reason or ("tool_use" if reply.calls else "end_turn")
    yield Finish(stop_reason=reason, id=f"{provider}_{_round(request.messages)}", usage=usage, model=model)


def _streamed(index: int, part: Part) -> Iterator[ProviderEvent]:
    if isinstance(part, Thinking):
        yield from (ThinkingDelta(index, piece) for piece in _pieces(part.text))
        yield PartEnd(index, part)
    elif isinstance(part, Text):
        yield from (TextDelta(index, piece) for piece in _pieces(part.text))
    elif isinstance(part, ToolCall):
        yield ToolCallStart(index, part.id, part.name)
        size = max(1, min(_PIECE, (len(part.arguments) + 2) // 3))
        for at in range(0, len(part.arguments), size):
            yield ToolCallDelta(index, part.id, part.arguments[at : at + size])
        yield ToolCallEnd(index, part)


def _pieces(text: str) -> list[str]:
    """A word at a time, with the space after it."""
    return re.findall(r"\s*\S+\s?|\s+", text)


def _round(messages: Sequence[Message]) -> int:
    """The number of the answer to come: higher than any in sight, so that ids are not used twice.

    The ids themselves are looked at too, since earlier messages may have been left out.
    """
    said = [message for message in messages if message.role == "assistant"]
    for message in reversed(said):
        for call in message.tool_calls:
            if found := re.fullmatch(r"call_(\d{1,6})_\d+", call.id):
                return max(len(said), int(found[1])) + 1
    return len(said) + 1


# --- what it would cost ------------------------------------------------------


def _usage(reply: Reply, request: Request) -> Usage:
    return Usage(
        input_tokens=_sent_tokens(request),
        output_tokens=_said_tokens(reply),
        reasoning_tokens=_tokens(len(reply.thinking)),
    )


def _tokens(characters: int) -> int:
    return -(-characters // _CHARACTERS_A_TOKEN)


def _said_tokens(reply: Reply) -> int:
    calls = sum(_tokens(len(call.name) + len(call.arguments)) for call in reply.calls)
    return _tokens(len(reply.thinking)) + _tokens(len(reply.text)) + calls


def _sent_tokens(request: Request) -> int:
    parts = sum(_size(part) for message in request.messages for part in message.content)
    tools = sum(_tool_size(tool) for tool in request.tools)
    schema = len(msgspec.json.encode(request.output_schema)) if request.output_schema else 0
    return _tokens(len(request.system or "") + parts + tools + schema)


def _size(part: Part) -> int:
    if isinstance(part, Text | Thinking):
        return len(part.text)
    if isinstance(part, ToolCall):
        return len(part.name) + len(part.arguments)
    if isinstance(part, ToolResult):
        return sum(_size(inner) for inner in part.content)
    return _ATTACHMENT_TOKENS * _CHARACTERS_A_TOKEN


def _tool_size(tool: ToolDef) -> int:
    return len(tool.name) + len(tool.description) + len(msgspec.json.encode(tool.schema))


def _cut(reply: Reply, tokens: int) -> Reply:
    """The beginning of a reply that would be too long; a call in the middle of it stays open."""
    thinking = reply.thinking[: tokens * _CHARACTERS_A_TOKEN]
    tokens -= _tokens(len(thinking))
    text = reply.text[: tokens * _CHARACTERS_A_TOKEN]
    tokens -= _tokens(len(text))
    calls: list[Call] = []
    for call in reply.calls:
        room = tokens * _CHARACTERS_A_TOKEN - len(call.name)
        if room < len(call.arguments):
            calls += [Call(call.name, call.arguments[:room], truncated=True)] if room >= 0 else []
            break
        calls.append(call)
        tokens -= _tokens(len(call.name) + len(call.arguments))
    return msgspec.structs.replace(
        reply, thinking=thinking, text=text, calls=tuple(calls), stop_reason="max_tokens"
    )
