"""What was said, in the shape that the conventions give to messages; of media, only what and how much."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Meta,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)

__all__ = ["arguments_of", "message_of", "result_of"]


def message_of(message: Message) -> Meta:
    return {"role": message.role, "parts": [_part(part) for part in message.content]}


def arguments_of(call: ToolCall) -> object:
    """The arguments as an object; as the text that came, where that is no JSON."""
    try:
        return call.parsed()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return call.arguments


def result_of(result: ToolResult) -> object:
    """The text of a result; its parts, where there is more to it."""
    return _told(result.content)


def _told(content: Sequence[Part]) -> object:
    if all(isinstance(part, Text) for part in content):
        return "".join(part.text for part in content if isinstance(part, Text))
    return [_part(part) for part in content]


def _part(part: Part) -> Meta:
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Thinking(text=text):
            return {"type": "reasoning", "content": text}
        case ToolCall(id=call_id, name=name):
            return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments_of(part)}
        case ToolResult(call_id=call_id):
            return {"type": "tool_call_response", "id": call_id, "response": _told(part.content)}
        case Image() | Audio() | File():
            return _media(part)
        case UnknownPart(kind=kind):
            return {"type": kind}


def _media(part: Image | Audio | File) -> Meta:
    modality = {Image: "image", Audio: "audio", File: "document"}[type(part)]
    if part.url is not None and not part.url.startswith("data:"):
        return {"type": "uri", "modality": modality, "mime_type": part.media_type, "uri": part.url}
    return {"type": modality, "mime_type": part.media_type, "bytes": len(part.data or part.url or "")}
