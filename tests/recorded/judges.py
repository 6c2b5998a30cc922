"""The vendors' own libraries as judges: the same bytes go through their HTTP client, decoder and accumulator.

What they come to is written down in the words of `told`, by rules that stand here a second time,
and not as the providers have them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anthropic
import httpx2
import openai
from anthropic.lib.streaming._beta_messages import accumulate_event
from cassettes import Exchange, Wire
from told import Fields, Told, call, more_of, own, text, thinking

from gnomon.types.requests import Usage

__all__ = ["judged"]


def judged(exchange: Exchange, wire: Wire) -> Told:
    """What the official library makes of a recorded stream."""
    _played.exchange = exchange
    return _JUDGES[wire]()


class _Played:
    """An HTTP client for the libraries, one for all recordings: making it takes longer than most answers."""

    def __init__(self) -> None:
        self.exchange: Exchange | None = None
        self.http = httpx2.Client(transport=httpx2.MockTransport(self._answer))

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        assert self.exchange is not None
        headers = {"content-type": "text/event-stream", **self.exchange.headers}
        return httpx2.Response(self.exchange.status, headers=headers, content=self.exchange.body)


_QUESTION: Any = {"role": "user", "content": "any"}
_played = _Played()
_openai = openai.OpenAI(api_key="none", http_client=_played.http, max_retries=0)
_anthropic = anthropic.Anthropic(api_key="none", http_client=_played.http, max_retries=0)


# --- OpenAI, Responses ------------------------------------------------------------


def _by_responses() -> Told:
    with _openai.responses.stream(model="any", input="any") as stream:
        events: list[Any] = list(stream)
    response = next(event.response for event in events if event.type in _ENDS)
    parts = [part for item in _with_first_secrets(response.output, events) for part in _item(item)]
    details = response.incomplete_details
    raw = "completed" if response.status == "completed" else (details and details.reason) or "incomplete"
    return Told(
        id=response.id,
        model=response.model,
        stop_reason=_stopped(raw, parts),
        raw_stop_reason=raw,
        usage=_responses_usage(response.usage),
        parts=parts,
    )


_ENDS = ("response.completed", "response.incomplete")


def _with_first_secrets(output: list[Any], events: list[Any]) -> list[Any]:
    """The service encrypts anew for its last event. Both are good; the first is there when its item ends."""
    done = {event.item.id: event.item for event in events if event.type == "response.output_item.done"}
    for item in output:
        if getattr(item, "encrypted_content", None):
            item.encrypted_content = done[item.id].encrypted_content
    return output


def _item(item: Any) -> list[Fields]:
    if item.type == "message":
        return [_piece(item, piece) for piece in item.content]
    if item.type == "function_call":
        return [call(item.call_id, item.name, item.arguments, more_of(item.to_dict()))]
    if item.type == "reasoning":
        return _reasoning(item)
    return [own(item.to_dict())]


def _piece(item: Any, piece: Any) -> Fields:
    if piece.type == "refusal":
        return text(piece.refusal, refusal=True, phase=item.phase)
    return text(piece.text, sources=[note.to_dict() for note in piece.annotations], phase=item.phase)


def _reasoning(item: Any) -> list[Fields]:
    """With an empty line between its parts; one that says nothing and can be sent to nobody is no part."""
    said = "\n\n".join(piece.text for piece in (*item.summary, *(item.content or ())))
    signature = item.encrypted_content
    return [thinking(said, signature, item=item.to_dict())] if said or signature else []


def _responses_usage(said: Any) -> Usage:
    read, written = said.input_tokens_details.cached_tokens, _extra(said.input_tokens_details)
    return Usage(
        input_tokens=said.input_tokens - (read or 0) - (written or 0),
        output_tokens=said.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=said.output_tokens_details.reasoning_tokens,
    )


def _extra(details: Any) -> int | None:
    """Written to the cache: newer services count it."""
    return getattr(details, "cache_write_tokens", None)


# --- OpenAI, Chat Completions -------------------------------------------------------


def _by_chat() -> Told:
    with _openai.chat.completions.stream(model="any", messages=[_QUESTION]) as stream:
        whole = stream.get_final_completion()
    choice = whole.choices[0]
    said = choice.message
    parts = [text(said.content)] if said.content else []
    parts += [text(said.refusal, refusal=True)] if said.refusal else []
    parts += [call(made.id, made.function.name, made.function.arguments) for made in said.tool_calls or ()]
    return Told(
        id=whole.id,
        model=whole.model,
        stop_reason=_stopped(choice.finish_reason, parts),
        raw_stop_reason=choice.finish_reason,
        usage=_chat_usage(whole.usage),
        parts=parts,
    )


def _chat_usage(said: Any) -> Usage:
    if said is None:
        return Usage()
    read, written = said.prompt_tokens_details.cached_tokens, _extra(said.prompt_tokens_details)
    return Usage(
        input_tokens=said.prompt_tokens - (read or 0) - (written or 0),
        output_tokens=said.completion_tokens,
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=said.completion_tokens_details.reasoning_tokens,
    )


# --- Anthropic, Messages ------------------------------------------------------------


def _by_messages() -> Told:
    snapshot, arguments = _accumulated()
    parts = [_block(block, arguments.get(number, "")) for number, block in enumerate(snapshot.content)]
    parts = [part for part in parts if part != text("")]
    usage, details = snapshot.usage, snapshot.usage.output_tokens_details
    return Told(
        id=snapshot.id,
        model=snapshot.model,
        stop_reason=_stopped(snapshot.stop_reason, parts),
        raw_stop_reason=snapshot.stop_reason,
        usage=Usage(
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_input_tokens,
            cache_write_tokens=usage.cache_creation_input_tokens,
            reasoning_tokens=details.thinking_tokens if details else None,
        ),
        parts=parts,
    )


def _accumulated() -> tuple[Any, dict[int, str]]:
    """The message, and the argument text of each call, of which the library keeps the values alone."""
    snapshot: Any = None
    buffers: dict[int, bytes] = {}
    arguments: dict[int, str] = {}
    for event in _anthropic.beta.messages.create(
        model="any", max_tokens=1, messages=[_QUESTION], stream=True
    ):
        if snapshot is None and event.type != "message_start":
            continue
        if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            arguments[event.index] = arguments.get(event.index, "") + event.delta.partial_json
        try:
            snapshot = accumulate_event(
                event=event, current_snapshot=snapshot, json_bufs=buffers, request_headers=httpx2.Headers()
            )
        except ValueError:
            assert event.type == "content_block_delta"  # argument text that is no JSON: the text counts
    return snapshot, arguments


def _block(block: Any, arguments: str) -> Fields:
    match block.type:
        case "text":
            return text(block.text, sources=[cited.to_dict() for cited in block.citations or ()])
        case "thinking":
            return thinking(block.thinking, block.signature)
        case "redacted_thinking":
            return thinking("", None, block.data)
        case "tool_use":
            arguments = arguments or json.dumps(block.input, separators=(",", ":"))  # it came with the start
            return call(block.id, block.name, arguments, more_of(block.to_dict()))
        case "compaction":
            return own(block.to_dict(exclude_none=True))  # the library adds fields that were not sent
        case _:
            return own(block.to_dict())


# --- all ------------------------------------------------------------------------------

_STOPPED = {
    "completed": "end_turn",
    "stop": "end_turn",
    "end_turn": "end_turn",
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "tool_calls": "tool_use",
    "tool_use": "tool_use",
    "stop_sequence": "stop_sequence",
    "content_filter": "content_filter",
    "refusal": "refusal",
}


def _stopped(label: str | None, parts: list[Fields]) -> str:
    """Where label and content disagree, the content counts (S16)."""
    calls = [part for part in parts if part["kind"] == "call"]
    said = _STOPPED.get(label or "", "other")
    if any(part["truncated"] for part in calls):
        return "max_tokens"
    if said == "end_turn" and any(part.get("refusal") for part in parts):
        return "refusal"
    if calls and said in ("end_turn", "stop_sequence", "other"):
        return "tool_use"
    return said


_JUDGES: dict[Wire, Callable[[], Told]] = {
    "responses": _by_responses,
    "chat": _by_chat,
    "messages": _by_messages,
}
