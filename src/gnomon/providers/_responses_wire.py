"""What OpenAI's Responses API streams, as it comes, and what its pieces say in our words.

A field is an `object` where it may hold anything: there are kinds of events that
give it another meaning, and one that is not known must never fail.
"""

from __future__ import annotations

from typing import cast

import msgspec

from gnomon.types.messages import Meta
from gnomon.types.requests import Usage

__all__ = [
    "ANNOTATIONS",
    "CALL",
    "ITEM",
    "PHASE",
    "REFUSAL",
    "EventIn",
    "ItemIn",
    "PieceIn",
    "ResponseIn",
    "call_meta",
    "pieces_of",
    "read_event",
    "read_item",
    "read_kind",
    "read_piece",
    "read_response",
    "text_in",
    "text_meta",
    "thinking_text",
    "usage_of",
]

ITEM = "item"
"""In the meta of a `Thinking`: the reasoning item, as the text it came in."""

CALL = "openai_call"
"""In the meta of a `ToolCall`: JSON text of what else the vendor says of it and wants back."""

PHASE = "phase"
"""In the meta of a `Text`: whether it is commentary or the answer; the vendor wants it back."""

REFUSAL = "refusal"
"""In the meta of a `Text`: it is the vendor's refusal."""

ANNOTATIONS = "annotations"
"""In the meta of a `Text`: the sources it cites, in the vendor's words."""

_ABSENT = msgspec.Raw(b"null")


class EventIn(msgspec.Struct, gc=False):
    type: str | None = None
    delta: object = None
    output_index: int | None = None
    item_id: object = None
    content_index: int | None = 0
    summary_index: int | None = 0
    arguments: object = None
    item: msgspec.Raw = _ABSENT
    part: msgspec.Raw = _ABSENT
    response: msgspec.Raw = _ABSENT


class PieceIn(msgspec.Struct, gc=False):
    """A part of a message, or of a reasoning item."""

    type: object = None
    text: object = None
    refusal: object = None
    annotations: object = None


class ItemIn(msgspec.Struct, gc=False):
    type: object = None
    id: object = None
    status: object = None
    call_id: object = None
    name: object = None
    arguments: object = None
    namespace: object = None
    caller: object = None
    phase: object = None
    encrypted_content: object = None
    content: object = None
    summary: object = None


class _Cached(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Reasoned(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Counts(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Cached | None = None
    output_tokens_details: _Reasoned | None = None


class _Incomplete(msgspec.Struct, gc=False):
    reason: str | None = None


class ResponseIn(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    error: object = None
    incomplete_details: _Incomplete | None = None
    output: list[msgspec.Raw] | None = None
    usage: _Counts | None = None


class _KindIn(msgspec.Struct, gc=False):
    type: str | None = None


read_event = msgspec.json.Decoder(EventIn).decode
read_item = msgspec.json.Decoder(ItemIn).decode
read_piece = msgspec.json.Decoder(PieceIn).decode
read_kind = msgspec.json.Decoder(_KindIn).decode
read_response = msgspec.json.Decoder(ResponseIn).decode


def text_in(value: object) -> str:
    return value if isinstance(value, str) else ""


def pieces_of(content: object) -> list[PieceIn]:
    if not isinstance(content, list):
        return []
    parts = cast("list[object]", content)
    return [msgspec.convert(part, PieceIn) if isinstance(part, dict) else PieceIn() for part in parts]


def text_meta(item: ItemIn, piece: PieceIn) -> Meta:
    meta: Meta = {}
    if phase := text_in(item.phase):
        meta[PHASE] = phase
    if piece.type == "refusal":
        meta[REFUSAL] = True
    if piece.annotations:
        meta[ANNOTATIONS] = piece.annotations
    return meta


def call_meta(item: ItemIn) -> Meta:
    """Where a function stands, and who called it, if it was not the model."""
    said = {"namespace": item.namespace, "caller": item.caller}
    kept = {name: value for name, value in said.items() if value not in (None, {"type": "direct"})}
    return {CALL: msgspec.json.encode(kept).decode()} if kept else {}


def thinking_text(item: ItemIn) -> str:
    summary = [text_in(piece.text) for piece in (*pieces_of(item.summary), *pieces_of(item.content))]
    return "\n\n".join(text for text in summary if text)


def usage_of(counts: _Counts) -> Usage:
    """The vendor counts what was cached as a part of the input, and the thinking as one of the output."""
    cached = counts.input_tokens_details or _Cached()
    fresh = counts.input_tokens
    if fresh is not None:
        apart = (cached.cached_tokens or 0) + (cached.cache_write_tokens or 0)
        # A server that counts them beside the input would be brought below zero.
        fresh = fresh - apart if apart <= fresh else fresh
    return Usage(
        input_tokens=fresh,
        output_tokens=counts.output_tokens,
        cache_read_tokens=cached.cached_tokens,
        cache_write_tokens=cached.cache_write_tokens,
        reasoning_tokens=(counts.output_tokens_details or _Reasoned()).reasoning_tokens,
    )
