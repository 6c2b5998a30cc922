"""The lines of Ollama's chat API, as events: what its fixtures do not show."""

from __future__ import annotations

from base64 import b64encode
from time import thread_time
from typing import Any

import msgspec
import pytest

from gnomon.providers._converse import VendorFailure
from gnomon.providers._ollama import OllamaDecoder
from gnomon.types.events import (
    Finish,
    PartEnd,
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Image, Thinking, UnknownPart
from gnomon.types.requests import Usage

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 9


def line(message: dict[str, Any] | None = None, **fields: Any) -> bytes:
    said = {"role": "assistant", "content": "", **(message or {})}
    return msgspec.json.encode({"model": "qwen3:8b", "message": said, "done": False, **fields})


def last(**fields: Any) -> bytes:
    return line(**{"done": True, "done_reason": "stop", **fields})


def events_of(*lines: bytes) -> list[ProviderEvent]:
    decoder = OllamaDecoder("ollama", "qwen3")
    return [event for data in lines for event in decoder.feed(data)]


def calls_in(events: list[ProviderEvent]) -> list[tuple[str, str, str]]:
    ended = [event.call for event in events if isinstance(event, ToolCallEnd)]
    return [(call.id, call.name, call.arguments) for call in ended]


# --- text and thinking --------------------------------------------------------------


def test_one_text_and_one_thought_however_they_take_turns() -> None:
    lines = (line({"thinking": "a"}), line({"content": "b"}), line({"thinking": "c"}), line({"content": "d"}))
    events = events_of(*lines, last())
    assert events == [
        ThinkingDelta(0, "a"),
        TextDelta(1, "b"),
        ThinkingDelta(0, "c"),
        TextDelta(1, "d"),
        PartEnd(0, Thinking("ac", provider="ollama", model="qwen3")),
        Finish(stop_reason="end_turn", raw_stop_reason="stop", model="qwen3:8b"),
    ]


def test_text_in_the_last_line_and_after_a_thought_in_the_same_line_is_kept() -> None:
    events = events_of(line({"thinking": "a", "content": "b"}), last(message={"content": "c"}))
    assert [event for event in events if isinstance(event, TextDelta)] == [
        TextDelta(1, "b"),
        TextDelta(1, "c"),
    ]


def test_empty_pieces_are_nothing() -> None:
    assert events_of(line(), line({"content": None, "thinking": "", "tool_calls": None})) == []


# --- calls --------------------------------------------------------------------------


def test_arguments_are_the_text_of_the_line() -> None:
    text = '{"n": 1e2,  "deep": {"b":[1, 2]}, "big": 123456789012345678901234567890}'
    data = b'{"message":{"tool_calls":[{"id":"c1","function":{"name":"f","arguments":%b}}]}}' % text.encode()
    assert events_of(data) == [
        ToolCallStart(0, "c1", "f"),
        ToolCallDelta(0, "c1", text),
        ToolCallEnd(0, events_of(data)[-1].call),  # type: ignore[union-attr]
    ]
    assert calls_in(events_of(data)) == [("c1", "f", text)]


@pytest.mark.parametrize(
    ("arguments", "read"), [(b'"{\\"a\\": 1}"', '{"a": 1}'), (b"null", "{}"), (b'""', "{}"), (b"{}", "{}")]
)
def test_arguments_in_other_forms_are_read(arguments: bytes, read: str) -> None:
    data = b'{"message":{"tool_calls":[{"id":"c","function":{"name":"f","arguments":%b}}]}}' % arguments
    assert calls_in(events_of(data)) == [("c", "f", read)]


def test_a_call_without_an_id_or_with_one_that_is_taken_gets_its_own() -> None:
    calls = [{"id": given, "function": {"name": "f", "arguments": {}}} for given in ("c1", "c1", "", None, 7)]
    found = [
        call_id
        for call_id, _, _ in calls_in(
            events_of(line({"tool_calls": calls[:3]}), line({"tool_calls": calls[3:]}))
        )
    ]
    assert found[0] == "c1"
    assert len(set(found)) == len(found) == 5
    assert all(found)


def test_an_entry_that_calls_nothing_is_no_call() -> None:
    assert events_of(line({"tool_calls": [{"id": "c1"}, {}]})) == []


# --- how it ends --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stopped"),
    [
        ("stop", "end_turn"),
        ("length", "max_tokens"),
        ("load", "other"),
        ("unload", "other"),
        ("new", "other"),
    ],
)
def test_the_reason_of_the_end(reason: str, stopped: str) -> None:
    end = events_of(last(done_reason=reason))[-1]
    assert isinstance(end, Finish)
    assert (end.stop_reason, end.raw_stop_reason) == (stopped, reason)


@pytest.mark.parametrize("reason", [None, ""])
def test_an_end_without_a_reason_is_an_end(reason: str | None) -> None:
    end = events_of(last(done_reason=reason))[-1]
    assert isinstance(end, Finish)
    assert (end.stop_reason, end.raw_stop_reason) == ("end_turn", None)


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        ({"prompt_eval_count": 26, "eval_count": 9}, Usage(input_tokens=26, output_tokens=9)),
        ({"eval_count": 9}, Usage(output_tokens=9)),  # older servers leave out a prompt they had in the cache
        (
            {"prompt_eval_count": 26, "prompt_eval_cached_count": 20, "eval_count": 9},
            Usage(input_tokens=6, cache_read_tokens=20, output_tokens=9),
        ),
        (
            {"prompt_eval_count": 26, "prompt_eval_cached_count": 0, "eval_count": 9},
            Usage(input_tokens=26, cache_read_tokens=0, output_tokens=9),
        ),
    ],
)
def test_usage_is_in_classes_that_do_not_overlap(counts: dict[str, int], usage: Usage) -> None:
    assert UsageUpdate(usage) in events_of(last(**counts))


@pytest.mark.parametrize("counts", [{}, {"eval_count": None}, {"eval_count": "many"}])
def test_usage_that_was_not_reported_is_not_made_up(counts: dict[str, Any]) -> None:
    assert not [event for event in events_of(last(**counts)) if isinstance(event, UsageUpdate)]


def test_the_end_is_known_and_bytes_that_end_before_it_are_no_end() -> None:
    decoder = OllamaDecoder("ollama", "qwen3")
    decoder.feed(line({"content": "Hi"}))
    assert decoder.end() == ()
    assert not decoder.done
    decoder.feed(last())
    assert decoder.done


# --- what goes wrong ----------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b'{"error":"it broke"}',
        b'{"error":{"message":"it broke","type":"api_error"}}',
        b'{"error":"{\\"error\\":{\\"code\\":500,\\"message\\":\\"it broke\\"}}"}',
        b'{"error":"it broke","message":"not of the usual form"}',
        b'{"error":"it broke","message":{"content":"half"},"done":true}',
        b'{"error":"it broke","message":{"content":"half"},"done":false}',
    ],
)
@pytest.mark.parametrize("before", [(), (line({"content": "Hi"}),)])
def test_a_complaint_in_any_form_is_one(data: bytes, before: tuple[bytes, ...]) -> None:
    with pytest.raises(VendorFailure) as caught:
        events_of(*before, data)
    assert caught.value.complaint.message == "it broke"


def test_what_is_unknown_is_passed_over() -> None:
    assert events_of(b'{"status":"warming up"}', b"{}", line({"mood": 1}, novel={"a": []})) == []


@pytest.mark.parametrize("data", [b"[1]", b'"text"', b'{"message":"text"}', b"{]", b"<html>"])
def test_what_is_no_line_of_an_answer_cannot_be_read(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        events_of(data)


def test_a_line_cut_anywhere_is_half_a_line() -> None:
    whole = line({"content": "thé"}, done=False, joules=1.25e-3, deep={"a": [None, True]})
    for at in range(1, len(whole)):
        assert events_of(whole[:at]) == [], whole[:at]


def test_half_a_line_is_where_the_bytes_have_ended_unless_more_comes() -> None:
    decoder = OllamaDecoder("ollama", "qwen3")
    decoder.feed(line({"content": "Hi"}))
    assert decoder.feed(b'{"message":{"content":"th') == ()
    assert decoder.end() == ()
    for more in (line({"content": "Hi"}), b'{"message":', last()):
        with pytest.raises(msgspec.DecodeError):
            decoder.feed(more)


# --- images -------------------------------------------------------------------------


def test_an_image_that_a_model_makes_is_a_part_of_the_answer() -> None:
    events = events_of(line({"content": "Look"}), line({"images": [b64encode(PNG).decode(), "no base64!"]}))
    assert events[1:] == [
        PartEnd(1, Image(data=PNG, media_type="image/png")),
        PartEnd(2, UnknownPart("ollama.image", {"data": "no base64!"})),
    ]


# --- speed --------------------------------------------------------------------------


def test_a_token_costs_little() -> None:
    data = line({"content": " word"}, created_at="2026-11-15T10:00:00.123456Z")
    times: list[float] = []
    for _ in range(5):
        decoder = OllamaDecoder("ollama", "qwen3")
        decoder.feed(data)
        start = thread_time()
        for _ in range(5_000):
            decoder.feed(data)
        times.append((thread_time() - start) / 5_000)
    assert min(times) < 20e-6  # about 1 µs on a quiet machine
