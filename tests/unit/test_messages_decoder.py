"""The events of Anthropic's Messages API, one by one, and what a server that only resembles it may send."""

from __future__ import annotations

from time import process_time
from typing import Any

import msgspec
import pytest

from gnomon.providers._converse import VendorFailure
from gnomon.providers._messages import MessagesDecoder
from gnomon.providers._messages_body import Ways, body_of
from gnomon.stream import StreamFold
from gnomon.types.codec import decode_message, encode_message
from gnomon.types.events import (
    Finish,
    PartEnd,
    ProviderEvent,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Message, Part, Text, Thinking, ToolCall, UnknownPart
from gnomon.types.requests import Request, Response, Usage

MODEL = "claude-opus-5-5"


def block(index: int, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": fields}


def delta(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **fields}}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def text(index: int, *pieces: str) -> list[dict[str, Any]]:
    deltas = [delta(index, "text_delta", text=piece) for piece in pieces]
    return [block(index, type="text", text=""), *deltas, stop(index)]


def call(index: int, *pieces: str, **fields: Any) -> list[dict[str, Any]]:
    said = {"type": "tool_use", "id": f"toolu_{index}", "name": "weather", "input": {}, **fields}
    deltas = [delta(index, "input_json_delta", partial_json=piece) for piece in pieces]
    return [block(index, **said), *deltas, stop(index)]


def ended(stop_reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    said = {"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage or None}
    return [said, {"type": "message_stop"}]


def events(*wire: dict[str, Any]) -> list[ProviderEvent]:
    decoder = MessagesDecoder("anthropic", MODEL)
    found = [event for data in wire for event in decoder.feed(msgspec.json.encode(data))]
    assert decoder.done is any(isinstance(event, Finish) for event in found)
    assert decoder.end() == ()
    return found


def answer(*wire: dict[str, Any]) -> Response:
    """What the checked fold makes of it."""
    *said, last = events(*wire)
    assert isinstance(last, Finish)
    fold = StreamFold()
    for event in said:
        fold.add(event)  # type: ignore[arg-type]
    return fold.finish(last)


def parts(*wire: dict[str, Any]) -> tuple[Part, ...]:
    return answer(*wire).message.content


# --- blocks ------------------------------------------------------------------------


def test_a_piece_of_text_is_one_event() -> None:
    assert events(*text(0, "Hel", "lo")) == [TextDelta(0, "Hel"), TextDelta(0, "lo")]


def test_blocks_are_numbered_as_they_open() -> None:
    said = parts(*text(0, "A"), *call(1, "{}"), *text(2, "B"), *ended())
    assert said == (Text("A"), ToolCall("toolu_1", "weather", "{}", 1), Text("B"))


def test_blocks_may_interleave() -> None:
    first, second = call(0, '{"a"', ":1}"), text(1, "x", "y")
    mixed = [event for pair in zip(first, second, strict=True) for event in pair]
    assert parts(*mixed, *ended()) == (ToolCall("toolu_0", "weather", '{"a":1}', 0), Text("xy"))


def test_a_block_that_is_never_closed_ends_with_the_message() -> None:
    said = answer(*call(0, '{"a": 1}')[:-1], *text(1, "B")[:-1], *ended())
    assert said.message.content == (ToolCall("toolu_0", "weather", '{"a": 1}', 0), Text("B"))


def test_an_index_that_is_used_again_is_another_block() -> None:
    """By a server that only resembles the vendor: nothing melts together, and no id is used twice."""
    one, other = parts(*call(0, '{"a":1}', id="x")[:-1], *call(0, '{"b":2}', id="x"), *ended("tool_use"))
    assert isinstance(one, ToolCall)
    assert isinstance(other, ToolCall)
    assert (one.arguments, other.arguments) == ('{"a":1}', '{"b":2}')
    assert one.id == "x" != other.id


def test_a_text_that_was_not_opened_is_a_text_all_the_same() -> None:
    assert parts(delta(0, "text_delta", text="A"), delta(0, "text_delta", text="B"), *ended()) == (
        Text("AB"),
    )


def test_what_a_start_holds_already_belongs_to_it() -> None:
    assert parts(block(0, type="text", text="A"), delta(0, "text_delta", text="B"), *ended()) == (Text("AB"),)
    (cited,) = parts(block(0, type="text", text="A", citations=[{"n": 1}]), stop(0), *ended())
    assert cited == Text("A", {"anthropic_citations": '[{"n":1}]'})
    thinking = block(0, type="thinking", thinking="Hm", signature="Ee+/")
    assert parts(thinking, stop(0), *ended()) == (Thinking("Hm", "Ee+/", None, "anthropic", MODEL),)


def test_thinking_is_signed_and_names_who_was_asked() -> None:
    said = [
        block(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="Well, "),
        delta(0, "thinking_delta", thinking="now."),
        delta(0, "signature_delta", signature="Ee+/"),
        delta(0, "signature_delta", signature="=="),
        stop(0),
        block(1, type="redacted_thinking", data="EvP8+="),
        stop(1),
    ]
    assert parts(*said, *ended()) == (
        Thinking("Well, now.", "Ee+/==", None, "anthropic", MODEL),
        Thinking("", None, "EvP8+=", "anthropic", MODEL),
    )


# --- calls -------------------------------------------------------------------------


def test_a_call_has_a_start_its_pieces_and_an_end() -> None:
    assert events(*call(0, "", '{"city":', ' "Paris"}')) == [
        ToolCallStart(0, "toolu_0", "weather"),
        ToolCallDelta(0, "toolu_0", '{"city":'),
        ToolCallDelta(0, "toolu_0", ' "Paris"}'),
        ToolCallEnd(0, ToolCall("toolu_0", "weather", '{"city": "Paris"}', 0)),
    ]


@pytest.mark.parametrize("pieces", [(), ("",), ("", " ")])
def test_no_arguments_are_an_empty_object(pieces: tuple[str, ...]) -> None:
    (found,) = parts(*call(0, *pieces), *ended("tool_use"))
    assert isinstance(found, ToolCall)
    assert (found.arguments, found.truncated) == ("{}", False)


def test_white_space_before_arguments_belongs_to_them() -> None:
    pieces = [
        event.arguments for event in events(*call(0, " ", "\n{", "}")) if isinstance(event, ToolCallDelta)
    ]
    assert pieces == [" \n{", "}"]


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_no_arguments_before_a_limit_are_a_call_cut_off(reason: str) -> None:
    first, last = parts(*call(0), *call(1), *ended(reason))
    assert isinstance(first, ToolCall)
    assert isinstance(last, ToolCall)
    assert (first.truncated, last.truncated) == (False, True)


def test_half_an_object_is_a_call_cut_off() -> None:
    said = answer(*call(0, '{"city": "Pa'), *ended("tool_use"))
    assert said.tool_calls[0].truncated
    assert said.stop_reason == "max_tokens"


@pytest.mark.parametrize(
    ("pieces", "said"), [((), '{"city":"Rome"}'), (('{"city":"Paris"}',), '{"city":"Paris"}')]
)
def test_arguments_of_the_start_count_where_no_others_come(pieces: tuple[str, ...], said: str) -> None:
    (found,) = parts(*call(0, *pieces, input={"city": "Rome"}), *ended("tool_use"))
    assert isinstance(found, ToolCall)
    assert found.arguments == said


@pytest.mark.parametrize("given", [None, ""])
def test_a_call_without_an_id_gets_one(given: str | None) -> None:
    first, last = parts(*call(0, "{}", id=given), *call(1, "{}", id=given), *ended("tool_use"))
    assert isinstance(first, ToolCall)
    assert isinstance(last, ToolCall)
    assert first.id
    assert last.id
    assert first.id != last.id


def test_who_made_a_call_is_kept_where_it_is_not_the_model() -> None:
    caller = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
    direct, indirect = parts(
        *call(0, "{}", caller={"type": "direct"}), *call(1, "{}", caller=caller), *ended("tool_use")
    )
    assert isinstance(direct, ToolCall)
    assert isinstance(indirect, ToolCall)
    assert direct.meta == {}
    assert msgspec.json.decode(str(indirect.meta["anthropic_call"])) == {"caller": caller}


# --- what only the vendor can read -------------------------------------------------


def returned(message: Message) -> list[Any]:
    """The answer as it goes back with the next question."""
    request = Request(messages=(Message.user("A"), message, Message.user("B")), model=MODEL)
    body, warnings = body_of(request, MODEL, Ways())
    assert warnings == ()
    return msgspec.json.decode(body)["messages"][1]["content"]


def test_blocks_of_the_vendors_tools_survive_the_round_trip() -> None:
    search = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "caller": {"type": "direct"},
    }
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "encrypted_content": "Ev+/==", "page_age": None}],
    }
    said = answer(
        *text(0, "Let me look."),
        block(1, **search, input={}),
        delta(1, "input_json_delta", partial_json='{"query":'),
        delta(1, "input_json_delta", partial_json=' "x"}'),
        stop(1),
        block(2, **found),
        stop(2),
        *ended(),
    )
    text_part, *others = said.message.content
    assert text_part == Text("Let me look.")
    assert [part.kind for part in others if isinstance(part, UnknownPart)] == [
        "anthropic.server_tool_use",
        "anthropic.web_search_tool_result",
    ]
    stored = decode_message(encode_message(said.message))
    assert returned(stored)[1:] == [{**search, "input": {"query": "x"}}, found]


def test_a_block_of_a_kind_that_nobody_knows_survives_with_its_pieces() -> None:
    said = [
        block(0, type="compaction", content=None, more={"a": [1.50]}),
        delta(0, "compaction_delta", content="Earlier.", encrypted_content="E="),
        stop(0),
        *text(1, "Hello."),
    ]
    content = returned(answer(*said, *ended()).message)
    expected = {"type": "compaction", "content": "Earlier.", "more": {"a": [1.5]}, "encrypted_content": "E="}
    assert content[0] == expected


def test_sources_are_kept_with_their_text() -> None:
    sources = [{"type": "char_location", "cited_text": "a"}, {"type": "page_location", "cited_text": "b"}]
    said = answer(
        block(0, type="text", text="", citations=[]),
        delta(0, "citations_delta", citation=sources[0]),
        delta(0, "text_delta", text="Green."),
        delta(0, "citations_delta", citation=sources[1]),
        stop(0),
        *ended(),
    )
    assert returned(said.message) == [{"type": "text", "text": "Green.", "citations": sources}]


@pytest.mark.parametrize(
    "odd",
    [
        {"type": "future_event", "delta": {"text": [1]}, "usage": "none", "message": 3, "index": "x"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "shimmer_delta", "text": {"a": 1}}},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "thinking_delta", "thinking": "?"}},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_stop", "index": 7},
        {"type": "ping"},
        {},
    ],
)
def test_what_is_not_known_is_passed_over(odd: dict[str, Any]) -> None:
    opened, *rest = text(0, "A", "B")
    assert parts(odd, opened, odd, *rest, *ended()) == (Text("AB"),)


def test_a_block_of_an_unknown_kind_may_hold_anything() -> None:
    (found,) = parts(block(0, type="hologram", text=[1], id=3, input=None), stop(0), *ended())
    assert isinstance(found, UnknownPart)
    assert found.kind == "anthropic.hologram"


@pytest.mark.parametrize(
    "data", [b"", b"no", b"[]", b'{"type":"message_start","message":3}', b'{"type":"content_block_start"}']
)
def test_what_cannot_be_read_is_an_error(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        MessagesDecoder("anthropic", MODEL).feed(data)


# --- the end, the counts, the complaints -------------------------------------------


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("end_turn", "end_turn"),
        ("max_tokens", "max_tokens"),
        ("model_context_window_exceeded", "max_tokens"),
        ("stop_sequence", "stop_sequence"),
        ("refusal", "refusal"),
        ("pause_turn", "other"),
        ("compaction", "other"),
        (None, "other"),
    ],
)
def test_the_reason_to_stop_is_told_in_our_words_and_in_theirs(said: str | None, means: str) -> None:
    found = answer(*text(0, "A"), *ended(said))
    assert (found.stop_reason, found.raw_stop_reason) == (means, said)


def test_without_the_last_event_there_is_no_end() -> None:
    assert not any(isinstance(event, Finish) for event in events(*text(0, "A"), *ended()[:-1]))


def test_counts_are_running_totals_and_what_is_left_out_stays() -> None:
    start = {
        "id": "msg_1",
        "model": "claude-opus-5-5-20260922",
        "usage": {"input_tokens": 7, "output_tokens": 1, "cache_read_input_tokens": 5},
    }
    details = {"thinking_tokens": 3}
    said = [
        {"type": "message_start", "message": start},
        *ended(output_tokens=9, output_tokens_details=details),
    ]
    first, second = (event.usage for event in events(*said) if isinstance(event, UsageUpdate))
    assert first == Usage(input_tokens=7, output_tokens=1, cache_read_tokens=5)
    assert second == Usage(input_tokens=7, output_tokens=9, cache_read_tokens=5, reasoning_tokens=3)
    found = answer(*said)
    assert (found.usage, found.id, found.model) == (second, "msg_1", "claude-opus-5-5-20260922")


def test_what_was_not_counted_is_not_made_up() -> None:
    assert answer(*text(0, "A"), *ended()).usage == Usage()
    assert not any(isinstance(event, UsageUpdate) for event in events(*ended()))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "overloaded_error", "message": "Overloaded"}, ("Overloaded", None, "overloaded_error")),
        (
            {
                "type": "rate_limit_error",
                "message": "Slow.",
                "details": {"error_code": "ramp_limit_exceeded"},
            },
            ("Slow.", "ramp_limit_exceeded", "rate_limit_error"),
        ),
        ({"type": "api_error", "message": "Oh.", "details": [3]}, ("Oh.", None, "api_error")),
        (None, ("", None, "error")),
    ],
)
def test_a_complaint_inside_the_stream_is_one(error: object, expected: tuple[object, ...]) -> None:
    with pytest.raises(VendorFailure) as caught:
        events(*text(0, "A"), {"type": "error", "error": error})
    complaint = caught.value.complaint
    assert (complaint.message, complaint.code, complaint.kind) == expected


def test_a_part_ends_only_where_there_is_more_to_say_of_it() -> None:
    assert not any(isinstance(event, PartEnd) for event in events(*text(0, "A")))


# --- what it costs -----------------------------------------------------------------


def test_a_piece_of_text_costs_about_a_microsecond() -> None:
    """The bound is wide: machines differ."""
    piece = msgspec.json.encode(delta(0, "text_delta", text=" token"))

    def seconds() -> float:
        decoder = MessagesDecoder("anthropic", MODEL)
        decoder.feed(msgspec.json.encode(block(0, type="text", text="")))
        start = process_time()
        for _ in range(10_000):
            decoder.feed(piece)
        return process_time() - start

    assert min(seconds() for _ in range(5)) / 10_000 < 10e-6


def test_a_limit_inside_the_arguments_of_the_vendors_own_tool_is_a_limit_and_no_failure() -> None:
    own = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}
    said = answer(
        *text(0, "Let me look."),
        block(1, **own),
        delta(1, "input_json_delta", partial_json='{"query": "wea'),
        stop(1),
        *ended("max_tokens"),
    )
    assert said.stop_reason == "max_tokens"
    part = said.message.content[1]
    assert isinstance(part, UnknownPart)
    assert part.data["cut_off"] == '{"query": "wea'
    again, _ = body_of(
        Request(messages=(Message.user("?"), said.message, Message.user("Go on"))), MODEL, Ways()
    )
    assert b"srvtoolu_1" not in again


@pytest.mark.parametrize("odd", [{}, {"type": "error", "message": "busy"}, {"type": "error", "index": "x"}])
def test_an_error_of_another_shape_is_the_error_all_the_same(odd: dict[str, Any]) -> None:
    with pytest.raises(VendorFailure) as caught:
        events({**odd, "error": {"type": "overloaded_error", "message": "busy"}})
    assert caught.value.complaint.kind == "overloaded_error"
