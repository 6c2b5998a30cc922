"""Four characters a token, whatever the model: the rule of thumb, for when nothing better is wanted."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
)

__all__ = ["EstimatingCounter"]

CHARACTERS_A_TOKEN = 4
IMAGE_TOKENS = 1_000
"""An image, however large; vendors say 85 to 1,600."""
BYTES_A_TOKEN_OF_AUDIO = 500
"""Half a kilobyte: 32 tokens for a second of MP3 at 128 kbit/s."""


class EstimatingCounter:
    """Counts every part of a message by its characters; learns nothing, and needs no model's name."""

    def count_messages(self, messages: Sequence[Message], tools: Sequence[ToolDef] = ()) -> int:
        characters = sum(map(_message, messages)) + sum(map(_tool, tools))
        return _tokens(characters)

    def count_text(self, text: str) -> int:
        return _tokens(len(text))


def _tokens(characters: int) -> int:
    """Rounded up: a text that is not empty is a token at least."""
    return -(-characters // CHARACTERS_A_TOKEN)


def _message(message: Message) -> int:
    return len(message.name or "") + sum(map(_part, message.content))


def _tool(tool: ToolDef) -> int:
    return len(tool.name) + len(tool.description) + _size(tool.schema)


def _part(part: Part) -> int:
    match part:
        case Text():
            return len(part.text)
        case Thinking():
            return len(part.text) + len(part.signature or "") + len(part.redacted or "")
        case ToolCall():
            return len(part.name) + len(part.arguments)
        case ToolResult():
            return len(part.name) + len(part.call_id) + sum(map(_part, part.content))
        case Image():
            return IMAGE_TOKENS * CHARACTERS_A_TOKEN
        case Audio():
            return CHARACTERS_A_TOKEN * (1 + _bytes(part) // BYTES_A_TOKEN_OF_AUDIO)
        case File():
            return len(part.name or "") + CHARACTERS_A_TOKEN + _bytes(part)
        case _:
            return len(part.kind) + _size(part.data)


def _bytes(part: Audio | File) -> int:
    return len(part.data) if part.data is not None else IMAGE_TOKENS * CHARACTERS_A_TOKEN


def _size(value: object) -> int:
    """In characters of JSON; what JSON cannot hold is as long as it prints."""
    if not value:
        return 0
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError):
        return _printed_size(value)


def _printed_size(value: object) -> int:
    try:
        return len(repr(value))
    except Exception:  # noqa: BLE001 - a foreign object may do anything, and one may be too deep to print
        return len(type(value).__name__)
