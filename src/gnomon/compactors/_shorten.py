"""Long texts by their head and their tail."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gnomon.types.messages import Message, Part, Text, ToolResult

__all__ = ["LEAST_CHARS", "longest_result", "shortened", "shortened_results"]

LEAST_CHARS = 200
"""Less of a text says nothing any more."""


def shortened(text: str, limit: int) -> str:
    """At most so many characters, the mark in the middle of them included."""
    if len(text) <= limit:
        return text
    mark = f"\n[… {len(text)} characters, shortened to fit the model's window …]\n"
    room = max(limit - len(mark), 0)
    head, tail = room - room // 3, room // 3
    return f"{text[:head]}{mark}{text[len(text) - tail :]}"


def longest_result(messages: Iterable[Message]) -> int:
    """The characters of the longest text that a tool gave."""
    return max(map(len, _result_texts(messages)), default=0)


def shortened_results(messages: Iterable[Message], limit: int) -> tuple[Message, ...]:
    """The messages with at most so many characters in each text of a tool; those that change are new ones."""
    return tuple(_message(message, limit) for message in messages)


def _result_texts(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for result in message.tool_results:
            yield from (part.text for part in result.content if type(part) is Text)


def _message(message: Message, limit: int) -> Message:
    if longest_result((message,)) <= limit:
        return message
    content = tuple(_result(part, limit) if type(part) is ToolResult else part for part in message.content)
    return msgspec.structs.replace(message, content=content)


def _result(result: ToolResult, limit: int) -> ToolResult:
    return msgspec.structs.replace(result, content=tuple(_part(part, limit) for part in result.content))


def _part(part: Part, limit: int) -> Part:
    if type(part) is Text and len(part.text) > limit:
        return msgspec.structs.replace(part, text=shortened(part.text, limit))
    return part
