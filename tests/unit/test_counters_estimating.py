"""Four characters a token."""

from __future__ import annotations

import pytest

from gnomon.counters.estimating import EstimatingCounter
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
    UnknownPart,
)

counter = EstimatingCounter()


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("字" * 8, 2)])
def test_four_characters_are_a_token_and_some_are_one(text: str, tokens: int) -> None:
    assert counter.count_text(text) == tokens
    assert counter.count_messages((Message.user(text),)) == tokens


def test_characters_of_several_parts_are_added_before_they_are_divided() -> None:
    assert counter.count_messages((Message.user("a", "b"), Message.assistant("c", "d"))) == 1


@pytest.mark.parametrize(
    ("part", "tokens"),
    [
        (Thinking("a" * 40), 10),
        (Thinking(redacted="x" * 40), 10),
        (ToolCall(id="1", name="look", arguments='{"a": 1}'), 3),
        (ToolResult(call_id="call", name="look", content=("a" * 40,)), 12),  # type: ignore[arg-type]
        (Image(data=b"x"), 1_000),
        (Image(url="https://example.org/a.png"), 1_000),
        (Audio(data=bytes(16_000)), 33),
        (File(data=b"x" * 400, name="four"), 102),
        (UnknownPart("kind", {"a": 1}), 3),
        (UnknownPart("four", {"a": 1j}), 4),
    ],
)
def test_every_part_counts(part: object, tokens: int) -> None:
    assert counter.count_messages((Message("user", (part,)),)) == tokens  # type: ignore[arg-type]


def test_the_name_of_who_speaks_and_tools_count() -> None:
    assert counter.count_messages((Message.user("abcd", name="anna"),)) == 2
    tool = ToolDef(name="look", description="Looks up", schema={"type": "object"})
    assert counter.count_messages((), (tool,)) == 3 + -(-len('{"type":"object"}') // 4)
