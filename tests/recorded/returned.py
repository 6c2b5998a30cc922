"""The next request: what our provider sends back of an answer, read again in the words of `told`."""

from __future__ import annotations

import json
from typing import Any

from anthropic.types import message_create_params as messages_params
from anthropic.types.beta import message_create_params as beta_params
from cassettes import Exchange, Wire, is_beta
from openai.types.chat import completion_create_params as chat_params
from openai.types.responses import response_create_params as responses_params
from replay import playing
from told import Fields, call, more_of, own, text, thinking

from gnomon.contracts.provider import Provider
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Message, ToolResult
from gnomon.types.requests import Request

__all__ = ["as_sent", "next_request", "parts_sent", "request_type"]


def request_type(exchange: Exchange, wire: Wire) -> Any:
    """The vendor's own type of a request."""
    if wire == "responses":
        return responses_params.ResponseCreateParams
    if wire == "chat":
        return chat_params.CompletionCreateParams
    return (beta_params if is_beta(exchange) else messages_params).MessageCreateParams


async def next_request(
    provider: Provider, exchange: Exchange, message: Message
) -> tuple[bytes, list[StreamWarning]]:
    """The body that continues the conversation after this message, and what was said of it."""
    calls = message.tool_calls
    results = [ToolResult.of(made, "done", status="truncated" if made.truncated else "ok") for made in calls]
    after = Message.tool(*results) if results else Message.user("go on")
    request = Request(messages=(Message.user("any"), message, after), max_tokens=64)
    async with playing(provider, exchange) as canned, provider.stream(request) as stream:
        warnings = [event async for event in stream if isinstance(event, StreamWarning)]
    return canned.calls[0].body, warnings


# --- what is in it ----------------------------------------------------------------


def parts_sent(wire: Wire, body: bytes) -> list[Fields]:
    """The parts of the model's answer, as the request has them."""
    sent = json.loads(body)
    if wire == "responses":
        return [_item(item) for item in sent["input"] if item.get("role") != "user" and not _is_result(item)]
    answers = [turn for turn in sent["messages"] if turn["role"] == "assistant"]
    read = _turn if wire == "messages" else _chat_message
    return [part for turn in answers for part in read(turn)]


def _is_result(item: Fields) -> bool:
    return item.get("type") == "function_call_output"


def _item(item: Fields) -> Fields:
    if item.get("role") == "assistant":
        return text(item["content"], phase=item.get("phase"))
    if item["type"] == "function_call":
        return call(item["call_id"], item["name"], item["arguments"], more_of(item))
    if item["type"] == "reasoning":
        said = "\n\n".join(piece["text"] for piece in (*item["summary"], *(item.get("content") or ())))
        return thinking(said, item.get("encrypted_content"), item=item)
    return own(item)


def _turn(turn: Fields) -> list[Fields]:
    if isinstance(turn["content"], str):
        return [text(turn["content"])]
    return [
        _block({name: block[name] for name in block if name != "cache_control"}) for block in turn["content"]
    ]


def _block(block: Fields) -> Fields:
    match block["type"]:
        case "text":
            return text(block["text"], sources=block.get("citations"))
        case "thinking":
            return thinking(block["thinking"], block["signature"])
        case "redacted_thinking":
            return thinking("", None, block["data"])
        case "tool_use":
            return call(block["id"], block["name"], json.dumps(block["input"]), more_of(block))
        case _:
            return own(block)


def _chat_message(message: Fields) -> list[Fields]:
    content = message.get("content") or []
    pieces = [{"type": "text", "text": content}] if isinstance(content, str) else content
    said = [text(piece[piece["type"]], refusal=piece["type"] == "refusal") for piece in pieces]
    calls = message.get("tool_calls", ())
    return said + [call(made["id"], **made["function"]) for made in calls]


# --- what should be ---------------------------------------------------------------


def as_sent(wire: Wire, part: Fields) -> Fields:
    """A part in the form in which a request can hold it: both sides are compared in it."""
    if part["kind"] == "call":
        arguments = "cut off" if _is_cut_off(part) else json.loads(part["arguments"])
        return {**part, "arguments": arguments, "truncated": _is_cut_off(part)}
    if part["kind"] == "text" and wire == "responses":
        return {**part, "sources": []}  # an answer's sources are no part of a question
    return part


def _is_cut_off(part: Fields) -> bool:
    """The Messages API takes objects only: what is no JSON is shown to the model inside of one."""
    return bool(part["truncated"]) or part["arguments"].startswith('{"INVALID_JSON":')
