"""What Mistral streams, read: chunks of thinking, of text, and references between them."""

from __future__ import annotations

from time import thread_time
from typing import Any

import msgspec
import pytest
from mistralai.client.models import CompletionChunk

from gnomon.providers._converse import VendorFailure
from gnomon.providers._mistral import CHUNKS_META, MistralDecoder
from gnomon.types.events import Finish, PartEnd, ProviderEvent, TextDelta, ThinkingDelta, ToolCallEnd
from gnomon.types.messages import Text, Thinking

MODEL = "mistral-medium-3-5"


def chunk(content: object = None, finish: str | None = None, **fields: Any) -> bytes:
    """One event; a chunk that Mistral's own library would not take is none."""
    delta = {"content": content, **{k: v for k, v in fields.items() if k == "tool_calls"}}
    made = {
        "id": "cmpl-1",
        "object": "chat.completion.chunk",
        "created": 1773842038,
        "model": MODEL,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **{k: v for k, v in fields.items() if k == "usage"},
    }
    CompletionChunk.model_validate(made)
    return msgspec.json.encode(made)


def thinking(*texts: str, **fields: object) -> dict[str, object]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text} for text in texts], **fields}


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def reference(*ids: int | str) -> dict[str, object]:
    return {"type": "reference", "reference_ids": list(ids)}


def read(*events: bytes) -> list[ProviderEvent]:
    decoder = MistralDecoder("mistral", MODEL)
    found = [made for event in (*events, b"[DONE]") for made in decoder.feed(event)]
    assert decoder.done
    return found


def ends(events: list[ProviderEvent]) -> list[PartEnd]:
    return [event for event in events if isinstance(event, PartEnd)]


def test_thinking_comes_first_and_then_the_answer() -> None:
    events = read(
        chunk(""),
        chunk([thinking("17 * 20 ")]),
        chunk([thinking("is 340.")]),
        chunk([thinking("", closed=True), text("3")]),
        chunk("9"),
        chunk("1", "stop"),
    )
    assert events[:2] == [ThinkingDelta(0, "17 * 20 "), ThinkingDelta(0, "is 340.")]
    assert events[2:6] == [
        PartEnd(0, Thinking("17 * 20 is 340.", provider="mistral", model=MODEL)),
        TextDelta(1, "3"),
        TextDelta(1, "9"),
        TextDelta(1, "1"),
    ]
    assert events[6] == Finish(stop_reason="end_turn", id="cmpl-1", raw_stop_reason="stop", model=MODEL)


def test_a_thought_after_a_text_is_another_part() -> None:
    events = read(
        chunk([thinking("a")]), chunk([text("b")]), chunk("b"), chunk([thinking("c"), text("d")], "stop")
    )
    deltas = [event for event in events if isinstance(event, TextDelta | ThinkingDelta)]
    assert [(delta.index, delta.text) for delta in deltas] == [
        (0, "a"),
        (1, "b"),
        (1, "b"),
        (2, "c"),
        (3, "d"),
    ]
    assert [end.index for end in ends(events)] == [0, 2]


def test_the_signature_of_a_thought_is_kept() -> None:
    events = read(
        chunk([thinking("hm")]), chunk([thinking("", signature="c2ln", closed=True), text("Yes")], "stop")
    )
    assert ends(events) == [
        PartEnd(0, Thinking("hm", signature="c2ln", provider="mistral", model=MODEL)),
    ]


def test_references_are_kept_where_they_stood() -> None:
    events = read(
        chunk("It was "),
        chunk("in "),
        chunk("Oslo "),
        chunk([reference(0, "b")]),
        chunk([text(", "), text("in"), reference(2)]),
        chunk(" winter."),
        chunk("", "stop"),
    )
    (end,) = ends(events)
    assert isinstance(end.part, Text)
    assert end.part.text == "It was in Oslo , in winter."
    assert msgspec.json.decode(str(end.part.meta[CHUNKS_META])) == [
        text("It was in Oslo "),
        reference(0, "b"),
        text(", in"),
        reference(2),
        text(" winter."),
    ]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == end.part.text


def test_references_inside_a_thought_are_kept() -> None:
    inner = {"type": "thinking", "thinking": [text("See "), reference(1)]}
    events = read(chunk([inner]), chunk("Yes", "stop"))
    (end,) = ends(events)
    assert isinstance(end.part, Thinking)
    assert end.part.meta == {CHUNKS_META: msgspec.json.encode([text("See "), reference(1)]).decode()}


def test_words_without_references_need_no_end() -> None:
    assert ends(read(chunk("Hi"), chunk([text(" there")]), chunk("", "stop"))) == []


def test_chunks_of_an_unknown_kind_are_passed_over() -> None:
    events = read(chunk([{"type": "hologram", "light": 1}, text("Hi")]), chunk("", "stop"))
    assert [event for event in events if isinstance(event, TextDelta)] == [TextDelta(0, "Hi")]


def test_a_call_whose_id_is_the_word_null_has_none() -> None:
    call = {"id": "null", "function": {"name": "now", "arguments": "{}"}, "index": 0}
    events = read(chunk("", "tool_calls", tool_calls=[call, call]))
    first, second = (event.call for event in events if isinstance(event, ToolCallEnd))
    assert first.id != second.id
    assert "null" not in (first.id, second.id)


def test_arguments_may_come_as_an_object() -> None:
    call = {"id": "D681PevKs", "function": {"name": "weather", "arguments": {"city": "Paris"}}, "index": 0}
    events = read(chunk("", "tool_calls", tool_calls=[call]))
    (end,) = (event for event in events if isinstance(event, ToolCallEnd))
    assert (end.call.id, end.call.arguments) == ("D681PevKs", '{"city":"Paris"}')


@pytest.mark.parametrize(("word", "reason"), [("length", "max_tokens"), ("model_length", "max_tokens")])
def test_a_limit_is_a_limit(word: str, reason: str) -> None:
    finish = read(chunk("Hi", word))[-1]
    assert isinstance(finish, Finish)
    assert (finish.stop_reason, finish.raw_stop_reason) == (reason, word)


def test_an_answer_that_the_service_broke_off_has_failed() -> None:
    with pytest.raises(VendorFailure):
        read(chunk("Hi"), chunk("", "error"))


def test_a_token_costs_little() -> None:
    decoder = MistralDecoder("mistral", MODEL)
    events = [chunk(f"word{number} ") for number in range(2000)]
    start = thread_time()
    for event in events:
        decoder.feed(event)
    assert (thread_time() - start) / len(events) < 20e-6  # about 1.5 µs; the machine may be busy
