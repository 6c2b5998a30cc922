"""What is made of the events of OpenAI's Responses API, also where they are not as documented."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from gnomon.providers._converse import VendorFailure
from gnomon.providers._responses import ResponsesDecoder
from gnomon.stream import StreamFold
from gnomon.types.events import (
    Finish,
    PartEnd,
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolCallStart,
)
from gnomon.types.messages import Text, Thinking, ToolCall, UnknownPart
from gnomon.types.requests import Response, Usage


def fed(*events: dict[str, Any]) -> list[ProviderEvent]:
    decoder = ResponsesDecoder("openai", "gpt-6")
    made = [event for data in events for event in decoder.feed(json.dumps(data).encode())]
    assert decoder.done == any(isinstance(event, Finish) for event in made)
    return made


def answer(*events: dict[str, Any]) -> Response:
    """The fold checks the contract on the way."""
    *steps, final = fed(*events)
    assert isinstance(final, Finish)
    fold = StreamFold()
    for step in steps:
        fold.add(step)
    return fold.finish(final)


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", **fields}


def delta(text: str, at: int = 0, part: int = 0) -> dict[str, Any]:
    return event("output_text.delta", delta=text, output_index=at, content_index=part)


def item(kind: str, at: int, what: str = "done", **fields: Any) -> dict[str, Any]:
    return event(f"output_item.{what}", output_index=at, item={"type": kind, **fields})


def end(kind: str = "completed", **fields: Any) -> dict[str, Any]:
    return event(kind, response={"id": "resp_1", "model": "gpt-6-2026", **fields})


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "output_text", "text": text, "annotations": []} for text in texts]


# --- text ------------------------------------------------------------------------------


def test_a_delta_is_one_event() -> None:
    assert fed(delta("Hel"), delta("lo")) == [TextDelta(0, "Hel"), TextDelta(0, "lo")]


def test_an_empty_delta_is_none() -> None:
    assert fed(delta("")) == []


def test_each_part_of_each_message_is_a_block_of_its_own() -> None:
    made = fed(delta("a", 0, 0), delta("b", 0, 1), delta("c", 2, 0), delta("d", 0, 0))
    assert [(step.index, step.text) for step in made if isinstance(step, TextDelta)] == [
        (0, "a"),
        (1, "b"),
        (2, "c"),
        (0, "d"),
    ]


def test_a_message_keeps_its_phase_and_its_sources() -> None:
    source = {"type": "url_citation", "url": "https://example.org", "title": "x"}
    content = [{"type": "output_text", "text": "Hi", "annotations": [source]}]
    made = fed(delta("Hi"), item("message", 0, phase="commentary", content=content))
    assert made[1:] == [PartEnd(0, Text("Hi", {"phase": "commentary", "annotations": [source]}))]


def test_a_text_that_no_delta_brought_comes_with_its_message() -> None:
    response = answer(item("message", 0, content=said("All ", "of it.")), end())
    assert [part.text for part in response.message.content if isinstance(part, Text)] == ["All ", "of it."]


def test_a_server_that_streams_nothing_but_the_end_is_understood() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "now", "arguments": "{}"}
    response = answer(end(output=[{"type": "message", "content": said("Hi")}, call]))
    assert (response.text, response.tool_calls) == ("Hi", (ToolCall("c", "now", "{}", 1),))


def test_what_was_streamed_is_not_said_again_at_the_end() -> None:
    message = {"type": "message", "content": said("Hi")}
    assert answer(delta("Hi"), item("message", 0, content=said("Hi")), end(output=[message])).text == "Hi"


def test_a_refusal_is_a_text_and_a_stop_reason() -> None:
    refusal = event("refusal.delta", delta="No.", output_index=0, content_index=0)
    done = item("message", 0, content=[{"type": "refusal", "refusal": "No."}])
    response = answer(refusal, done, end())
    assert response.message.content == (Text("No.", {"refusal": True}),)
    assert (response.stop_reason, response.raw_stop_reason) == ("refusal", "completed")


def test_a_refusal_that_comes_whole_is_one_too() -> None:
    content = [{"type": "refusal", "refusal": "No."}]
    assert answer(item("message", 0, content=content), end()).stop_reason == "refusal"
    assert answer(end(output=[{"type": "message", "content": content}])).stop_reason == "refusal"


# --- thinking --------------------------------------------------------------------------


def thought(text: str, part: int, at: int = 0) -> dict[str, Any]:
    return event("reasoning_summary_text.delta", delta=text, output_index=at, summary_index=part)


def test_an_empty_line_stands_between_the_parts_of_a_summary() -> None:
    made = fed(thought("One", 0), thought(".", 0), thought("Two", 1))
    assert made == [ThinkingDelta(0, "One"), ThinkingDelta(0, "."), ThinkingDelta(0, "\n\nTwo")]


def test_a_reasoning_item_is_kept_as_it_came() -> None:
    raw = '{"type":"reasoning", "id":"rs_1","encrypted_content":"gA\\u00e9","summary":[]}'
    data = f'{{"type":"response.output_item.done","output_index":0,"item":{raw}}}'.encode()
    (made,) = ResponsesDecoder("openai", "gpt-6").feed(data)
    assert made == PartEnd(0, Thinking("", "gAé", None, "openai", "gpt-6", {"item": raw}))


def test_the_model_noted_is_the_one_that_was_asked_for() -> None:
    done = item("reasoning", 0, encrypted_content="gA", summary=[])
    (part,) = answer(done, end(model="gpt-6-2026-09-29")).message.content
    assert isinstance(part, Thinking)
    assert (part.provider, part.model) == ("openai", "gpt-6")


def test_a_summary_that_no_delta_brought_comes_with_its_item() -> None:
    summary = [{"type": "summary_text", "text": text} for text in ("One", "Two")]
    assert answer(item("reasoning", 0, summary=summary), end()).message.thinking == "One\n\nTwo"


def test_thinking_of_which_nothing_is_told_is_no_part() -> None:
    added = item("reasoning", 0, "added", summary=[], encrypted_content="")
    assert answer(added, item("reasoning", 0, summary=[]), delta("Hi", 1), end()).message.content == (
        Text("Hi"),
    )


# --- calls -----------------------------------------------------------------------------


def call_delta(text: str, at: int = 0) -> dict[str, Any]:
    return event("function_call_arguments.delta", delta=text, output_index=at)


def called(at: int, what: str, **fields: Any) -> dict[str, Any]:
    return item("function_call", at, what, **{"call_id": f"call_{at}", "name": "now", **fields})


def test_calls_may_interleave() -> None:
    starts = (called(0, "added"), called(1, "added"))
    deltas = (call_delta('{"a"', 0), call_delta('{"b"', 1), call_delta(":1}", 0), call_delta(":2}", 1))
    response = answer(*starts, *deltas, called(1, "done"), called(0, "done"), end())
    assert [call.arguments for call in response.tool_calls] == ['{"a":1}', '{"b":2}']
    assert response.stop_reason == "tool_use"


def test_what_of_the_arguments_no_delta_brought_is_added() -> None:
    done = event("function_call_arguments.done", arguments='{"a":1}', output_index=0)
    for late in (done, called(0, "done", arguments='{"a":1}')):
        response = answer(called(0, "added"), call_delta('{"a"'), late, end())
        assert response.tool_calls[0].arguments == '{"a":1}'


def test_where_the_whole_says_something_else_the_deltas_count() -> None:
    response = answer(called(0, "added"), call_delta('{"a":1}'), called(0, "done", arguments="{}"), end())
    assert response.tool_calls[0].arguments == '{"a":1}'


def test_a_call_whose_start_was_not_told_of_comes_whole() -> None:
    made = fed(call_delta('{"a"'), called(0, "done", arguments='{"a":1}'))
    assert [type(step) for step in made[:1] + made[-1:]] == [ToolCallStart, ToolCallEnd]


def test_a_call_without_an_id_is_given_one_and_so_is_a_second_under_the_same() -> None:
    response = answer(
        called(0, "done", call_id=None), called(1, "done", call_id="c"), called(2, "done", call_id="c"), end()
    )
    ids = [call.id for call in response.tool_calls]
    assert ids[1] == "c"
    assert len(set(ids)) == 3
    assert all(ids)


def test_a_second_call_under_the_same_place_is_a_second_call() -> None:
    response = answer(
        called(0, "added"),
        call_delta("{}"),
        called(0, "added", call_id="other"),
        call_delta('{"b":2}'),
        end(),
    )
    assert [call.arguments for call in response.tool_calls] == ["{}", '{"b":2}']


@pytest.mark.parametrize("arguments", ["", '{"a'])
def test_a_call_that_a_limit_cut_off_is_truncated(arguments: str) -> None:
    stopped = end("incomplete", incomplete_details={"reason": "max_output_tokens"})
    for last in ((), (called(0, "done", status="incomplete", arguments=arguments),)):
        response = answer(called(0, "added"), call_delta(arguments), *last, stopped)
        assert response.tool_calls == (ToolCall("call_0", "now", arguments, 0, truncated=True),)
        assert response.stop_reason == "max_tokens"


def test_a_call_without_arguments_is_given_none() -> None:
    assert answer(called(0, "added"), called(0, "done", arguments=""), end()).tool_calls[0].arguments == "{}"


# --- the end ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reason", "stop"),
    [("max_output_tokens", "max_tokens"), ("content_filter", "content_filter"), ("steered", "other")],
)
def test_an_incomplete_answer_says_why(reason: str, stop: str) -> None:
    response = answer(delta("Hi"), end("incomplete", incomplete_details={"reason": reason}))
    assert (response.stop_reason, response.raw_stop_reason) == (stop, reason)


def test_an_incomplete_answer_need_not_say_why() -> None:
    response = answer(delta("Hi"), end("incomplete"))
    assert (response.stop_reason, response.raw_stop_reason) == ("other", "incomplete")


def test_the_classes_of_usage_do_not_overlap() -> None:
    usage = {
        "input_tokens": 2600,
        "input_tokens_details": {"cached_tokens": 2048, "cache_write_tokens": 512},
        "output_tokens": 96,
        "output_tokens_details": {"reasoning_tokens": 64},
        "total_tokens": 2696,
    }
    found = answer(end(usage=usage)).usage
    assert found == Usage(
        input_tokens=40,
        cache_read_tokens=2048,
        cache_write_tokens=512,
        output_tokens=96,
        reasoning_tokens=64,
    )
    assert found.total_tokens == usage["total_tokens"]


def test_what_was_not_counted_is_not_known() -> None:
    assert answer(end(usage={"input_tokens": 9, "output_tokens": 0})).usage == Usage(
        input_tokens=9, output_tokens=0
    )
    assert answer(end()).usage == Usage()


def test_a_server_that_counts_the_cache_beside_the_input_is_not_brought_below_zero() -> None:
    usage = {"input_tokens": 5, "input_tokens_details": {"cached_tokens": 90}}
    assert answer(end(usage=usage)).usage == Usage(input_tokens=5, cache_read_tokens=90)


def test_an_answer_that_breaks_off_is_not_done() -> None:
    decoder = ResponsesDecoder("openai", "gpt-6")
    decoder.feed(json.dumps(delta("Hi")).encode())
    assert (decoder.end(), decoder.done) == ((), False)


# --- complaints and strange things -----------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        {"type": "error", "code": "server_error", "message": "Sorry."},
        {"type": "error", "error": {"type": "server_error", "code": None, "message": "Sorry."}},
        end("failed", error={"code": "server_error", "message": "Sorry."}),
    ],
)
def test_a_complaint_has_its_name_and_words_in_every_shape(data: dict[str, Any]) -> None:
    with pytest.raises(VendorFailure) as caught:
        fed(data)
    complaint = caught.value.complaint
    assert (complaint.code or complaint.kind, complaint.message) == ("server_error", "Sorry.")


def test_a_complaint_without_a_name_is_not_called_error() -> None:
    with pytest.raises(VendorFailure) as caught:
        fed({"type": "error", "message": "Sorry."})
    assert (caught.value.complaint.code, caught.value.complaint.kind) == (None, None)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": None},
        event("hologram.delta", delta={"stdout": "x"}, output_index="first"),
        event("shell_call_output_content.delta", delta={"stdout": "x"}),
        item("hologram", 0, "added"),
        event("content_part.added", part={"type": "scent"}),
        event("created", response={"id": 7}),
        {"type": "keepalive", "sequence_number": 2},
    ],
)
def test_what_is_not_known_is_passed_over(data: dict[str, Any]) -> None:
    assert fed(data) == []


def test_an_item_of_the_vendors_own_is_carried_as_it_came() -> None:
    (made,) = fed(item("hologram", 0))
    assert made == PartEnd(0, UnknownPart("openai.hologram", {"json": '{"type": "hologram"}'}))


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"type":"response.output_text.delta","output_index":"x"}'])
def test_what_cannot_be_read_is_an_error_of_reading(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        ResponsesDecoder("openai", "gpt-6").feed(data)


def test_an_error_without_its_type_is_the_error_all_the_same() -> None:
    with pytest.raises(VendorFailure) as caught:
        fed({"error": {"message": "no credit", "code": "insufficient_quota"}})
    assert caught.value.complaint.code == "insufficient_quota"
    assert fed({"error": None}) == []


@pytest.mark.parametrize(
    "taker",
    [
        item("reasoning", 0, summary=[], encrypted_content="secret"),
        item("web_search_call", 0, "added", id="ws_1"),
        item("web_search_call", 0, id="ws_1"),
        event("reasoning_text.delta", delta="hm", output_index=0),
    ],
)
def test_a_call_ends_when_something_else_takes_its_place(taker: dict[str, Any]) -> None:
    """A server that numbers all items alike, and does not end a call."""
    begun = item("function_call", 0, "added", call_id="c_1", name="weather", arguments="")
    arguments = event("function_call_arguments.delta", delta='{"city":"Rome"}', output_index=0)
    found = answer(begun, arguments, taker, end())
    assert [(call.name, call.arguments) for call in found.tool_calls] == [("weather", '{"city":"Rome"}')]
