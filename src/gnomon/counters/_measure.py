"""What there is to count in a message: weights of text, tokens of images, calls and results.

Numbers of no model yet: what each of them is worth to one is in `_fit`. The texts of several
messages are weighed as one: most are short, and every call would cost more than the text.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import add
from typing import NamedTuple

import msgspec

from gnomon.counters._media import audio_tokens, file_tokens, image_part_tokens
from gnomon.counters._text import UNIT, weigh, weigh_others
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
    ToolDef,
    ToolResult,
    UnknownPart,
)

__all__ = ["NOTHING", "Columns", "measure", "measure_tools", "schema_weight"]

_SEALED_CHARACTERS = 6
"""Encrypted text is base64 of something longer than what was thought: so many characters a token."""


class Columns(NamedTuple):
    """Weights of text in ASCII and in other scripts, tokens of images, calls and results, bytes of media."""

    ascii: int
    other: int
    images: int
    exchanges: int
    held: int

    def plus(self, more: Columns) -> Columns:
        return Columns(*map(add, self, more))


NOTHING = Columns(0, 0, 0, 0, 0)


def measure(messages: Iterable[Message], model: str) -> Columns:
    """All of them together."""
    texts: list[str] = []
    found = NOTHING
    exchanges = 0
    for message in messages:
        if message.name is not None:
            texts.append(message.name)
        for part in message.content:
            if type(part) is Text:  # the kinds that most messages are made of come first, without a call
                texts.append(part.text)
            elif type(part) is ToolCall:
                texts += (part.name, part.arguments)
                exchanges += 1
            elif type(part) is ToolResult:
                exchanges += 1
                found = _result(part, model, texts, found)
            else:
                found = found.plus(_other_part(part, model, texts))
    ascii_, other = _weights("".join(texts))
    return found.plus(Columns(ascii_, other, 0, exchanges, 0))


def measure_tools(tools: Iterable[ToolDef]) -> Columns:
    """What a model is told of them, all of it as one text."""
    texts = [f"{tool.name}{tool.description}{_json(tool.schema) if tool.schema else ''}" for tool in tools]
    return NOTHING._replace(ascii=weigh("".join(texts)))


def schema_weight(schema: Meta) -> int:
    """As JSON."""
    return weigh(_json(schema)) if schema else 0


def _json(value: object) -> str:
    """What JSON cannot hold is taken as it prints: counting never fails."""
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return _printed(value)


def _printed(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a foreign object may do anything, and one may be too deep to print
        return type(value).__name__


def _weights(text: str) -> tuple[int, int]:
    other = weigh_others(text)
    return weigh(text) - other, other


def _result(result: ToolResult, model: str, texts: list[str], found: Columns) -> Columns:
    """Without the name of the call, which vendors do not repeat."""
    for part in result.content:
        if type(part) is Text:
            texts.append(part.text)
        else:
            found = found.plus(_other_part(part, model, texts))
    return found


def _other_part(part: Part, model: str, texts: list[str]) -> Columns:
    """A part that is more than a text; its texts are put with the others."""
    match part:
        case Thinking():
            texts.append(part.text)
            held = len(part.signature or "") + len(part.redacted or "")
            return Columns(0 if part.text else _sealed(part) * UNIT, 0, 0, 0, held)
        case Image():
            return Columns(0, 0, image_part_tokens(part, model), 0, _held(part))
        case Audio():
            return Columns(audio_tokens(part) * UNIT, 0, 0, 0, _held(part))
        case File():
            texts.append(part.name or "")
            return Columns(file_tokens(part) * UNIT, 0, 0, 0, _held(part))
        case UnknownPart():  # the vendor's own, which goes back as it came
            texts += (part.kind, _json(part.data))
            return NOTHING
        case _:  # inside of a result, where a call or another result has no place
            return measure((Message("tool", (part,)),), model)


def _held(part: Image | Audio | File) -> int:
    """An address may hold all that it is the address of."""
    return len(part.data or part.url or "")


def _sealed(part: Thinking) -> int:
    """Tokens of what was thought and is not shown. A signature beside a text is a seal, and no text."""
    return max(1, len(part.redacted or part.signature or "") // _SEALED_CHARACTERS)
