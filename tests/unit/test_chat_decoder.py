"""Chat Completions, chunk by chunk: what the decoder makes of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gnomon.providers._chat import ChatDecoder, ChatQuirks
from gnomon.providers._converse import VendorFailure
from gnomon.stream import StreamFold
from gnomon.types.events import Finish, ToolCallStart, UsageUpdate
from gnomon.types.messages import Text, Thinking
from gnomon.types.requests import Response, Usage

SERVER = ChatQuirks(needs_done=False, names_stop=True)
DONE = b"[DONE]"


def chunk(finish: str | None = None, /, **delta: object) -> dict[str, object]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def call(
    index: int | None = 0, name: str | None = None, arguments: object = None, **more: object
) -> dict[str, Any]:
    made: dict[str, Any] = {"function": {"name": name, "arguments": arguments}, **more}
    return made if index is None else {**made, "index": index}


def calls(*deltas: dict[str, Any]) -> dict[str, object]:
    return chunk(tool_calls=list(deltas))


def events_of(*chunks: object, quirks: ChatQuirks = SERVER) -> list[Any]:
    decoder = ChatDecoder("acme", "acme-1", quirks)
    found: list[Any] = []
    for item in chunks:
        found += decoder.feed(item if isinstance(item, bytes) else msgspec.json.encode(item))
    return found if decoder.done else [*found, *decoder.end()]


def answer(*chunks: object, quirks: ChatQuirks = SERVER) -> Response:
    """The response, folded under the rules that `Stream` checks."""
    fold = StreamFold()
    *events, last = events_of(*chunks, quirks=quirks)
    for event in events:
        fold.add(event)
    assert isinstance(last, Finish), f"the stream ended with {last}"
    return fold.finish(last)


def called(*chunks: object) -> list[tuple[str, str]]:
    response = answer(*chunks, DONE)
    assert len({found.id for found in response.tool_calls}) == len(response.tool_calls)
    return [(found.name, found.arguments) for found in response.tool_calls]


TWO = [("weather", '{"city":"Rome"}'), ("clock", '{"zone":"UTC"}')]


# --- which call a delta belongs to ---------------------------------------------------


def test_a_delta_belongs_to_its_id_before_its_index() -> None:
    assert (
        called(
            calls(call(0, "weather", "", id="a"), call(1, "clock", "", id="b")),
            calls(call(0, None, '{"zone":', id="b"), call(0, None, '{"city":', id="a")),
            calls(call(1, None, '"Rome"}', id="a"), call(1, None, '"UTC"}', id="b")),
        )
        == TWO
    )


def test_a_delta_without_an_id_belongs_to_its_index() -> None:
    assert (
        called(
            calls(call(0, "weather", "", id="a")),
            calls(call(1, "clock", "", id="b")),
            calls(call(0, None, '{"city":"Rome"}')),
            calls(call(1, None, '{"zone":"UTC"}')),
        )
        == TWO
    )


def test_a_delta_without_id_and_index_belongs_to_the_call_being_streamed() -> None:
    assert (
        called(
            calls(call(None, "weather", '{"city":', id="a")),
            calls(call(None, None, '"Rome"}')),
            calls(call(None, "clock", '{"zone":', id="b")),
            calls(call(None, None, '"UTC"}')),
        )
        == TWO
    )


def test_a_new_id_opens_a_new_call_under_the_same_index() -> None:
    assert (
        called(
            calls(call(0, "weather", '{"city":', id="a")),
            calls(call(0, None, '"Rome"}')),
            calls(call(0, "clock", '{"zone":', id="b")),
            calls(call(0, None, '"UTC"}')),
        )
        == TWO
    )


@pytest.mark.parametrize("more", [{}, {"id": ""}, {"id": None}])
def test_calls_without_ids_in_one_chunk_are_several(more: dict[str, object]) -> None:
    both = [call(None, *TWO[0], **more), call(None, *TWO[1], **more)]
    assert called(calls(*both)) == TWO
    assert called(calls(*({**one, "index": 0} for one in both))) == TWO


def test_two_calls_of_the_same_tool_without_ids_and_under_one_index_are_two() -> None:
    twice = [("clock", '{"zone":"UTC"}')] * 2
    assert called(*(calls(call(0, *one)) for one in twice)) == twice
    assert called(calls(call(0, "now", ""), call(0, "now", ""))) == [("now", "{}"), ("now", "{}")]


def test_an_id_that_is_repeated_on_every_delta_is_one_call() -> None:
    assert (
        called(*(calls(call(0, "weather", piece, id="a")) for piece in ("", '{"city":', '"Rome"}')))
        == TWO[:1]
    )


def test_an_id_that_two_calls_have_is_made_unique() -> None:
    first, second = answer(calls(call(0, *TWO[0], id="a")), calls(call(1, *TWO[1], id="a")), DONE).tool_calls
    assert (first.id, first.name, second.name) == ("a", "weather", "clock")
    assert second.id not in ("", "a")


def test_an_id_that_comes_late_is_still_the_same_call() -> None:
    assert called(calls(call(0, "weather", '{"city":')), calls(call(0, None, '"Rome"}', id="a"))) == TWO[:1]


def test_a_name_may_come_in_pieces_or_be_null_later() -> None:
    assert (
        called(calls(call(0, "wea", id="a")), calls(call(0, "ther")), calls(call(0, None, '{"city":"Rome"}')))
        == TWO[:1]
    )


def test_the_start_of_a_call_carries_the_whole_name() -> None:
    events = events_of(calls(call(0, "wea", id="a")), calls(call(0, "ther", "{}")), DONE)
    assert [event for event in events if isinstance(event, ToolCallStart)] == [
        ToolCallStart(0, "a", "weather")
    ]


def test_arguments_that_come_as_an_object_are_text() -> None:
    assert called(calls(call(0, "weather", {"city": "Rome"}, id="a"))) == TWO[:1]


def test_no_arguments_are_an_empty_object_unless_a_limit_cut_them_off() -> None:
    assert called(calls(call(0, "now", "", id="a"))) == [("now", "{}")]
    cut = answer(calls(call(0, "now", "", id="a")), chunk("length"), DONE)
    assert cut.tool_calls[0].truncated
    assert cut.stop_reason == "max_tokens"


def test_arguments_that_are_cut_off_are_truncated_whatever_the_label() -> None:
    cut = answer(calls(call(0, "weather", '{"city":"Ro', id="a")), chunk("tool_calls"), DONE)
    assert cut.tool_calls[0].truncated
    assert cut.tool_calls[0].arguments == '{"city":"Ro'
    assert cut.stop_reason == "max_tokens"


def test_the_older_function_call_is_one_call_with_an_id_of_its_own() -> None:
    response = answer(
        chunk(function_call={"name": "weather", "arguments": ""}),
        chunk(function_call={"arguments": '{"city":'}),
        chunk(function_call={"arguments": '"Rome"}'}),
        chunk("function_call"),
        DONE,
    )
    (only,) = response.tool_calls
    assert (only.name, only.arguments, bool(only.id)) == (*TWO[0], True)
    assert (response.stop_reason, response.raw_stop_reason) == ("tool_use", "function_call")


def test_an_empty_delta_opens_no_call() -> None:
    assert called(calls({}), calls({"index": 0, "id": "", "function": {}})) == []


def test_vendor_data_of_a_call_is_kept_as_text_with_who_made_it() -> None:
    response = answer(
        calls(call(0, "now", "{}", id="a", extra_content={"google": {"thought_signature": "Ci=="}})), DONE
    )
    assert response.tool_calls[0].meta == {
        "provider": "acme",
        "model": "acme-1",
        "extra_content": '{"google":{"thought_signature":"Ci=="}}',
    }


# --- text and thinking ---------------------------------------------------------------


def test_text_around_calls_is_one_block() -> None:
    response = answer(
        chunk(content="First "), calls(call(0, "now", "{}", id="a")), chunk(content="this."), DONE
    )
    assert [type(part).__name__ for part in response.message.content] == ["Text", "ToolCall"]
    assert response.text == "First this."


def test_nothing_but_empty_content_opens_no_block() -> None:
    assert (
        answer(chunk(role="assistant", content=""), chunk(content=None), chunk("stop"), DONE).message.content
        == ()
    )


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_is_one_part_that_says_who_thought_it(field: str) -> None:
    response = answer(chunk(**{field: "Add "}), chunk(**{field: "them."}), chunk(content="5"), DONE)
    assert response.message.content == (
        Thinking("Add them.", provider="acme", model="acme-1", meta={"field": field}),
        Text("5"),
    )


def test_thinking_under_two_names_is_thought_once() -> None:
    assert answer(chunk(reasoning="Add.", reasoning_content="Add."), DONE).message.thinking == "Add."


def test_pieces_of_reasoning_details_become_one_and_their_signature_stays() -> None:
    def detail(**fields: object) -> dict[str, object]:
        return {"type": "reasoning.text", "format": "f", "index": 0, **fields}

    response = answer(
        chunk(reasoning="Add ", reasoning_details=[detail(text="Add ")]),
        chunk(reasoning="them.", reasoning_details=[detail(text="them.")]),
        chunk(reasoning_details=[detail(signature="c2ln")]),
        chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "gAAA", "index": 1}]),
        chunk(reasoning_details=[detail(text="More.", index=2)]),
        DONE,
    )
    (thought,) = response.message.content
    assert isinstance(thought, Thinking)
    assert (thought.text, thought.signature, thought.redacted) == ("Add them.More.", "c2ln", "gAAA")
    assert msgspec.json.decode(str(thought.meta["reasoning_details"])) == [
        detail(text="Add them.", signature="c2ln"),
        {"type": "reasoning.encrypted", "data": "gAAA", "index": 1},
        detail(text="More.", index=2),
    ]


def test_what_follows_a_signature_is_a_detail_of_its_own() -> None:
    first = {"type": "reasoning.text", "text": "Add.", "signature": "c2ln"}
    second = {"type": "reasoning.text", "text": "More.", "signature": "bmV4dA=="}
    response = answer(chunk(reasoning_details=[first]), chunk(reasoning_details=[second]), DONE)
    (thought,) = response.message.content
    assert isinstance(thought, Thinking)
    assert msgspec.json.decode(str(thought.meta["reasoning_details"])) == [first, second]


def test_encrypted_thinking_without_text_is_a_part_of_its_own() -> None:
    response = answer(chunk(reasoning_details=[{"type": "reasoning.encrypted", "data": "gAAA"}]), DONE)
    (thought,) = response.message.content
    assert isinstance(thought, Thinking)
    assert thought.redacted == "gAAA"
    assert thought.text == ""


def test_content_may_be_a_list_of_parts() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
        {"type": "text", "text": "5"},
    ]
    response = answer(chunk(content=parts), DONE)
    assert (response.message.thinking, response.text) == ("Hm.", "5")


def test_a_refusal_is_text_that_says_so() -> None:
    response = answer(chunk(refusal="I will "), chunk(refusal="not."), chunk("stop"), DONE)
    assert response.message.content == (Text("I will not.", meta={"refusal": True}),)
    assert (response.stop_reason, response.raw_stop_reason) == ("refusal", "stop")


def test_a_whole_message_in_place_of_deltas_is_read() -> None:
    whole = {"choices": [{"index": 0, "message": {"content": "5"}, "finish_reason": "stop"}]}
    assert answer(whole, DONE).text == "5"


def test_a_message_beside_the_deltas_is_not_read_twice() -> None:
    both = [
        {"choices": [{"index": 0, "delta": {"content": text}, "message": {"content": "sum so far"}}]}
        for text in ("Moon", "light")
    ]
    last = {"choices": [{"index": 0, "message": {"content": "Moonlight"}, "finish_reason": "stop"}]}
    assert answer(*both, last, DONE).text == "Moonlight"


def test_other_choices_and_unknown_fields_are_passed_over() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "not me"}, "finish_reason": "stop"}]}
    strange = {
        **chunk(content="me", audio={"id": "a"}, annotations=[{}]),
        "citations": ["x"],
        "provider": "P",
    }
    response = answer(
        chunk(content="It is "), other, strange, {"choices": []}, {"type": "ping"}, chunk("length"), DONE
    )
    assert (response.text, response.stop_reason) == ("It is me", "max_tokens")


# --- how it ends ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("label", "reason"),
    [
        ("stop", "end_turn"),
        ("eos", "end_turn"),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
        ("insufficient_system_resource", "other"),
        ("whatever", "other"),
    ],
)
def test_a_finish_reason_has_one_meaning(label: str, reason: str) -> None:
    response = answer(chunk(content="5"), chunk(label), DONE)
    assert (response.stop_reason, response.raw_stop_reason) == (reason, label)


def test_calls_under_stop_are_calls_and_none_under_tool_calls_is_an_end() -> None:
    assert answer(calls(call(0, "now", "{}", id="a")), chunk("stop"), DONE).stop_reason == "tool_use"
    assert answer(chunk(content="5"), chunk("tool_calls"), DONE).stop_reason == "end_turn"


def test_a_stop_sequence_is_known_where_the_server_names_it() -> None:
    def last(found: object) -> dict[str, object]:
        return {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", "stop_reason": found}]}

    assert answer(last("END"), DONE).stop_reason == "stop_sequence"
    assert answer(last(151645), DONE).stop_reason == "end_turn"
    assert answer(last("END"), DONE, quirks=ChatQuirks()).stop_reason == "end_turn"


def test_openai_is_not_done_before_its_mark_and_a_server_is_when_the_bytes_end() -> None:
    said = (chunk(content="5"), chunk("stop"))
    assert not any(isinstance(event, Finish) for event in events_of(*said, quirks=ChatQuirks()))
    assert answer(*said).text == "5"
    assert not any(isinstance(event, Finish) for event in events_of(chunk(content="5")))


def test_the_mark_alone_ends_an_answer_of_which_no_reason_was_given() -> None:
    response = answer(chunk(content="5"), DONE)
    assert (response.stop_reason, response.raw_stop_reason) == ("other", None)


def test_what_comes_after_the_finish_reason_still_counts() -> None:
    response = answer(chunk("stop", content="4"), chunk(content="2"), DONE)
    assert response.text == "42"


def test_id_and_model_are_those_that_the_server_says_first() -> None:
    first, later = (
        {**chunk(content="5"), "id": "c-1", "model": "m-2026"},
        {**chunk("stop"), "id": "c-2", "model": ""},
    )
    response = answer(first, later, DONE)
    assert (response.id, response.model) == ("c-1", "m-2026")


# --- errors --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "message", "code"),
    [
        ({"error": {"message": "busy", "code": 503, "type": "server"}}, "busy", "503"),
        ({"error": "busy"}, "busy", None),
        ({"error": {"message": "busy"}, "choices": [{"index": 0, "finish_reason": "error"}]}, "busy", None),
        ({"choices": [{"index": 0, "delta": {}, "error": {"message": "busy", "code": 502}}]}, "busy", "502"),
        ({"object": "error", "message": "busy", "code": 503}, "busy", "503"),
        ({"type": "error", "message": "busy"}, "busy", None),
        ({"detail": "busy"}, "busy", None),
        ({"message": "busy", "code": "x"}, "busy", "x"),
        ({"choices": None, "x_groq": {"id": "r", "error": "busy"}}, "busy", None),
        ({"choices": "nonsense", "error": {"message": "busy"}}, "busy", None),
    ],
)
def test_an_error_inside_a_stream_is_a_failure_with_its_words(
    said: object, message: str, code: str | None
) -> None:
    with pytest.raises(VendorFailure) as caught:
        events_of(chunk(content="5"), said)
    assert (caught.value.complaint.message, caught.value.complaint.code) == (message, code)


def test_the_finish_reason_error_is_a_failure() -> None:
    with pytest.raises(VendorFailure):
        events_of(chunk(content="5"), chunk("error"))


def test_a_null_error_is_none() -> None:
    assert answer({**chunk(content="5"), "error": None}, {**chunk("stop"), "error": {}}, DONE).text == "5"


@pytest.mark.parametrize("said", [b"nonsense", b'{"choices": [', b'{"choices": 5}', b"[1]"])
def test_what_is_no_chunk_cannot_be_decoded(said: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        events_of(said)


# --- tokens --------------------------------------------------------------------------


def usage(**said: object) -> Usage:
    return answer(chunk(content="5"), chunk("stop"), {"choices": [], "usage": said}, DONE).usage


def test_tokens_from_a_cache_are_no_input_tokens() -> None:
    said = usage(
        prompt_tokens=100,
        completion_tokens=20,
        total_tokens=120,
        prompt_tokens_details={"cached_tokens": 60, "cache_write_tokens": 30},
        completion_tokens_details={"reasoning_tokens": 5},
    )
    assert said == Usage(
        input_tokens=10, output_tokens=20, cache_read_tokens=60, cache_write_tokens=30, reasoning_tokens=5
    )


def test_what_is_not_reported_is_not_known() -> None:
    assert usage(prompt_tokens=3, completion_tokens=4) == Usage(input_tokens=3, output_tokens=4)
    assert answer(chunk(content="5"), DONE).usage == Usage()
    assert usage(prompt_tokens=None, completion_tokens="many") == Usage()


def test_deepseek_names_its_cache_in_its_own_way() -> None:
    said = usage(
        prompt_tokens=374, completion_tokens=61, prompt_cache_hit_tokens=256, prompt_cache_miss_tokens=118
    )
    assert said == Usage(input_tokens=118, output_tokens=61, cache_read_tokens=256)


def test_thinking_that_is_counted_beside_the_output_is_added_by_the_vendors_own_total() -> None:
    beside = {"completion_tokens_details": {"reasoning_tokens": 7}}
    assert usage(prompt_tokens=10, completion_tokens=5, total_tokens=22, **beside).output_tokens == 12
    assert usage(prompt_tokens=10, completion_tokens=9, total_tokens=19, **beside).output_tokens == 9


def test_usage_on_every_chunk_is_a_snapshot_and_the_last_counts() -> None:
    def counted(tokens: int) -> dict[str, object]:
        return {**chunk(content="x"), "usage": {"prompt_tokens": 9, "completion_tokens": tokens}}

    chunks = (counted(1), counted(2), counted(2), chunk("stop"), DONE)
    assert answer(*chunks).usage == Usage(input_tokens=9, output_tokens=2)
    assert len([event for event in events_of(*chunks) if isinstance(event, UsageUpdate)]) == 2


def test_groq_counts_in_a_field_of_its_own() -> None:
    last = {**chunk("stop"), "x_groq": {"id": "req", "usage": {"prompt_tokens": 9, "completion_tokens": 2}}}
    assert answer(chunk(content="x"), last, DONE).usage == Usage(input_tokens=9, output_tokens=2)


@pytest.mark.parametrize("places", [("0", "1"), (0.0, 1.0)])
def test_a_place_may_be_written_as_text_or_with_a_point(places: tuple[object, object]) -> None:
    one, two = ({"index": place} for place in places)
    said = answer(
        calls({**one, "id": "a", "function": {"name": "f"}}, {**two, "id": "b", "function": {"name": "g"}}),
        calls({**one, "function": {"arguments": '{"x":1}'}}, {**two, "function": {"arguments": '{"y":2}'}}),
        chunk("tool_calls"),
    )
    assert [call.arguments for call in said.tool_calls] == ['{"x":1}', '{"y":2}']


def test_a_place_that_is_no_number_is_none() -> None:
    odd = {**call(None, "clock", "{}"), "index": "9" * 5000}
    assert called(calls(odd)) == [("clock", "{}")]
