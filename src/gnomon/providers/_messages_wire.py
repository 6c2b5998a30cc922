"""What Anthropic's Messages API sends, event by event.

Every field may be missing, and fields that are not known are passed over.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gnomon.types.requests import Usage

__all__ = [
    "DeltaIn",
    "EventIn",
    "Fields",
    "StartIn",
    "UsageIn",
    "read_event",
    "read_fallback",
    "read_fields",
    "read_kind",
    "read_kind_of_event",
    "read_raw_delta",
    "read_start",
    "usage_of",
]

Fields: TypeAlias = dict[str, msgspec.Raw]
"""An object whose values are left as they came."""


class DetailsIn(msgspec.Struct):
    thinking_tokens: int | None = None


class UsageIn(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: DetailsIn | None = None


class MessageIn(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: UsageIn | None = None


class DeltaIn(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None


class EventIn(msgspec.Struct):
    type: str | None = None
    index: int | None = None
    delta: DeltaIn | None = None
    content_block: msgspec.Raw = msgspec.Raw()
    message: MessageIn | None = None
    usage: UsageIn | None = None


class StartIn(msgspec.Struct):
    """A block as it is opened; what it may hold already is read in full only where it matters."""

    id: str | None = None
    name: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    input: msgspec.Raw = msgspec.Raw()
    citations: list[msgspec.Raw] | None = None


class FallbackIn(msgspec.Struct):
    """A block that says which model goes on after one has declined."""

    to: MessageIn | None = None


class RawDeltaIn(msgspec.Struct):
    delta: Fields = {}


class KindIn(msgspec.Struct):
    """Of a block or a delta whose other fields may be anything."""

    type: str = ""


class KindOfEventIn(msgspec.Struct):
    type: str = ""
    delta: KindIn | None = None


read_event = msgspec.json.Decoder(EventIn).decode
read_kind = msgspec.json.Decoder(KindIn).decode
read_kind_of_event = msgspec.json.Decoder(KindOfEventIn).decode
read_start = msgspec.json.Decoder(StartIn).decode
read_fallback = msgspec.json.Decoder(FallbackIn).decode
read_fields = msgspec.json.Decoder(Fields).decode
read_raw_delta = msgspec.json.Decoder(RawDeltaIn).decode


def usage_of(said: UsageIn) -> Usage | None:
    """The vendor's input tokens leave out what the cache read and wrote, as ours do."""
    if said == UsageIn():
        return None
    details = said.output_tokens_details
    return Usage(
        input_tokens=said.input_tokens,
        output_tokens=said.output_tokens,
        cache_read_tokens=said.cache_read_input_tokens,
        cache_write_tokens=said.cache_creation_input_tokens,
        reasoning_tokens=details.thinking_tokens if details else None,
    )
