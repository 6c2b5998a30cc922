from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import get_args

import msgspec
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from strategies import json_values, metas, new_kinds, values_of

from gnomon import errors
from gnomon.errors import AskUser, ContractError, GnomonError, InvalidInput, RateLimited, TurnUnfinished
from gnomon.types.codec import (
    decode_event,
    decode_message,
    encode_event,
    encode_message,
    error_event,
    exception_of,
)
from gnomon.types.events import (
    ApprovalRequested,
    Compacted,
    Done,
    Error,
    Event,
    Finish,
    Live,
    MessageCompleted,
    MessageReceived,
    PartEnd,
    StreamWarning,
    TextDelta,
    ToolFinished,
    ToolProgress,
    Unknown,
    UsageUpdate,
)
from gnomon.types.messages import Image, Message, Part, Text, ToolCall, ToolResult, UnknownPart
from gnomon.types.requests import Response, Usage

HOLOGRAM = {"type": "hologram", "depth": 3, "layers": [{"name": "back"}, None]}
CARRIED = UnknownPart("hologram", {name: value for name, value in HOLOGRAM.items() if name != "type"})

events = values_of(Event)


def plain(event: object) -> dict[str, object]:
    return json.loads(msgspec.json.encode(event))


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode()


# --- what is known ----------------------------------------------------------


@given(events)
def test_an_event_comes_back_as_it_went(event: Event) -> None:
    wire = encode_event(event)
    again = decode_event(wire)
    assert again == event
    assert type(again) is type(event)
    assert encode_event(again) == wire
    assert decode_event(wire.decode()) == event


@given(events)
def test_an_event_is_one_line(event: Event) -> None:
    assert b"\n" not in encode_event(event)
    assert b"\r" not in encode_event(event)


@given(values_of(Message))
def test_a_message_comes_back_as_it_went(message: Message) -> None:
    wire = encode_message(message)
    assert decode_message(wire) == message
    assert encode_message(decode_message(wire)) == wire


def test_every_kind_of_event_has_a_tag_of_its_own() -> None:
    kinds = [*get_args(Event), Finish]
    tags = [kind.__struct_config__.tag for kind in kinds]
    assert len(set(tags)) == len(kinds)


@given(events, st.dictionaries(new_kinds, json_values, min_size=1, max_size=3))
def test_an_unknown_field_is_ignored(event: Event, more: dict[str, object]) -> None:
    assert decode_event(json.dumps({**plain(event), **more})) == event


# --- kinds of events that only a newer peer knows ---------------------------


@given(new_kinds, metas)
def test_an_unknown_kind_is_carried_whole(kind: str, data: dict[str, object]) -> None:
    data.pop("type", None)
    event = decode_event(json.dumps({"type": kind, **data}))
    assert event == Unknown(kind, data)
    assert decode_event(encode_event(event)) == event


@given(events)
def test_an_event_that_an_older_peer_carried_becomes_itself_again(event: Event) -> None:
    assume(not isinstance(event, Unknown))
    fields = plain(event)
    carried = Unknown(str(fields.pop("type")), fields)
    assert decode_event(encode_event(carried)) == event


@pytest.mark.parametrize("kind", ["future", "usage"])
@pytest.mark.parametrize("data", [{"type": 5}, {"type": "text_delta", "index": 0, "text": "not this"}])
def test_a_carried_event_keeps_its_kind_whatever_its_fields_are_called(
    kind: str, data: dict[str, object]
) -> None:
    event = Unknown(kind, data)
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize("name", ["event", "part", "content", "message", "response", "result", "summary"])
@pytest.mark.parametrize("value", [{}, {"x": 1}, {"type": 5}, [{}], [5], "text", None], ids=str)
def test_an_unknown_kind_may_call_its_fields_what_it_likes(name: str, value: object) -> None:
    """A field of a newer event may have the name of one of ours and mean something else."""
    assert decode_event(line(type="future", **{name: value})) == Unknown("future", {name: value})


def live(event: object) -> bytes:
    place = {"session_id": "s", "turn_id": "t", "message_id": "m", "attempt": [1, 2], "idx": 7}
    return line(type="live", **place, event=event)


def test_a_live_event_of_a_newer_kind_keeps_its_place() -> None:
    """A reader that lost the place would see a gap, and ask for everything again."""
    event = decode_event(live({"type": "smell", "strength": 3}))
    assert event == Live("s", "t", "m", (1, 2), 7, Unknown("smell", {"strength": 3}))
    assert decode_event(encode_event(event)) == event


def test_a_live_event_that_is_live_only_for_a_newer_peer_keeps_its_place() -> None:
    event = decode_event(live({"type": "turn_cancelled", "turn_id": "t"}))
    assert event == Live("s", "t", "m", (1, 2), 7, Unknown("turn_cancelled", {"turn_id": "t"}))
    assert decode_event(encode_event(event)) == event


@pytest.mark.parametrize("inner", [{}, {"type": 5}, 5, None, "text_delta"], ids=str)
def test_a_live_event_around_nothing_is_carried_or_refused(inner: object) -> None:
    assert isinstance(outcome(live(inner)), Live | Unknown | InvalidInput)


def test_a_live_event_that_an_older_peer_carried_becomes_itself_again() -> None:
    carried = live({"type": "unknown", "kind": "text_delta", "data": {"index": 0, "text": "a"}})
    assert decode_event(carried) == Live("s", "t", "m", (1, 2), 7, TextDelta(0, "a"))


# --- kinds of parts that only a newer peer knows -----------------------------

MESSAGE = {"role": "assistant", "content": [{"type": "text", "text": "a"}, HOLOGRAM]}
RESULT = {"type": "tool_result", "call_id": "c", "content": [HOLOGRAM]}
RESPONSE = {"message": MESSAGE, "stop_reason": "end_turn"}
READ = Message("assistant", (Text("a"), CARRIED))
READ_RESULT = ToolResult("c", content=(CARRIED,))
ANSWERED = Response(message=READ, stop_reason="end_turn")

NESTED: list[tuple[dict[str, object], Event]] = [
    ({"type": "part_end", "index": 0, "part": HOLOGRAM}, PartEnd(0, CARRIED)),
    ({"type": "part_end", "index": 0, "part": RESULT}, PartEnd(0, READ_RESULT)),
    ({"type": "done", "response": RESPONSE}, Done(ANSWERED)),
    (
        {"type": "message_completed", "turn_id": "t", "message_id": "m", "response": RESPONSE},
        MessageCompleted("t", "m", ANSWERED),
    ),
    ({"type": "message_received", "message_id": "m", "message": MESSAGE}, MessageReceived("m", READ)),
    (
        {"type": "tool_progress", "turn_id": "t", "call_id": "c", "content": [HOLOGRAM]},
        ToolProgress("t", "c", (CARRIED,)),
    ),
    ({"type": "tool_finished", "turn_id": "t", "result": RESULT}, ToolFinished("t", READ_RESULT)),
    (
        {
            "type": "compacted",
            "turn_id": "t",
            "view_start": 1,
            "tokens_before": 2,
            "tokens_after": 1,
            "summary": MESSAGE,
        },
        Compacted("t", 1, 2, 1, READ),
    ),
]
NESTED += [
    (
        {
            "type": "live",
            "session_id": "s",
            "turn_id": "t",
            "message_id": "m",
            "attempt": [1, 2],
            "idx": 7,
            "event": inner,
        },
        Live("s", "t", "m", (1, 2), 7, event),  # type: ignore[arg-type]
    )
    for inner, event in NESTED[:3]
]


@pytest.mark.parametrize(("fields", "event"), NESTED, ids=[repr(event)[:24] for _, event in NESTED])
def test_an_unknown_part_is_carried_wherever_parts_stand(fields: dict[str, object], event: Event) -> None:
    found = decode_event(line(**fields))
    assert found == event
    assert decode_event(encode_event(found)) == event


def test_an_unknown_part_of_a_message_is_carried_at_every_depth() -> None:
    inner = {"type": "tool_result", "call_id": "inner", "content": [HOLOGRAM, {"type": "text", "text": "b"}]}
    outer = {"type": "tool_result", "call_id": "outer", "content": [inner, HOLOGRAM]}
    message = decode_message(line(role="tool", content=[outer]))
    expected = ToolResult("outer", content=(ToolResult("inner", content=(CARRIED, Text("b"))), CARRIED))
    assert message == Message("tool", (expected,))
    assert decode_message(encode_message(message)) == message


def test_the_parts_beside_an_unknown_one_keep_their_bytes_and_times() -> None:
    picture = Image(data=bytes(range(256)), media_type="image/png")
    call = ToolCall("c", "f", '{"a": 1}', 3, meta={"big": 2**63, "small": -1.5})
    fields = plain(Message("assistant", (picture, call)))
    fields["content"].append(HOLOGRAM)  # type: ignore[attr-defined]
    assert decode_message(line(**fields)) == Message("assistant", (picture, call, CARRIED))


def test_meta_is_opaque_beside_an_unknown_part() -> None:
    """What only looks like parts, inside a bag of vendor data, is not ours to touch."""
    meta = {"content": [{"type": "web_search_call", "id": 1}, {"no": "type"}], "part": {"type": "item"}}
    fields = {
        "role": "assistant",
        "content": [{"type": "text", "text": "a", "meta": meta}, HOLOGRAM],
        "meta": meta,
    }
    message = decode_message(line(**fields))
    assert message == Message("assistant", (Text("a", meta), CARRIED), meta=meta)


@given(metas)
def test_the_fields_of_an_unknown_part_are_not_touched(data: dict[str, object]) -> None:
    data.pop("type", None)
    fields = {**data, "content": [{"type": "spark"}, {"no": "type"}], "part": {"type": "spark"}}
    message = decode_message(json.dumps({"role": "user", "content": [{"type": "future", **fields}]}))
    assert message == Message("user", (UnknownPart("future", fields),))


@given(values_of(Part))
@example(Text("a"))
@example(ToolResult("c", content=(Text("a"),)))
def test_a_part_that_an_older_peer_carried_becomes_itself_again(part: Part) -> None:
    assume(not isinstance(part, UnknownPart))
    fields = plain(part)
    carried = UnknownPart(str(fields.pop("type")), fields)
    assert decode_message(encode_message(Message("user", (carried,)))) == Message("user", (part,))
    assert decode_event(encode_event(PartEnd(0, carried))) == PartEnd(0, part)


def test_a_part_deep_inside_that_an_older_peer_carried_becomes_itself_again() -> None:
    carried = UnknownPart("text", {"text": "a"})
    result = ToolResult("c", content=(ToolResult("d", content=(carried,)),))
    found = decode_event(encode_event(Live("s", "t", "m", (1, 2), 7, PartEnd(0, result))))
    expected = ToolResult("c", content=(ToolResult("d", content=(Text("a"),)),))
    assert found == Live("s", "t", "m", (1, 2), 7, PartEnd(0, expected))


# --- values that only a newer peer knows ------------------------------------

NEWER_VALUES = [
    {"type": "done", "response": {"message": {"role": "assistant"}, "stop_reason": "bored"}},
    {
        "type": "tool_finished",
        "turn_id": "t",
        "result": {"type": "tool_result", "call_id": "c", "status": "late"},
    },
    {"type": "approval_decided", "approval_id": "a", "decision": "postponed", "by": "me"},
    {"type": "subagent_finished", "turn_id": "t", "subagent_id": "s", "status": "asleep"},
    {"type": "budget_warning", "turn_id": "t", "kind": "energy", "used": 1, "limit": 2},
    {"type": "turn_finished", "turn_id": "t", "stop": "sunset", "rounds": 1},
    {"type": "message_received", "message_id": "m", "message": {"role": "critic"}},
    {"type": "text_delta", "index": "first", "text": ["a"]},
    {"type": "usage", "usage": {"input_tokens": 1.5}},
]


@pytest.mark.parametrize("fields", NEWER_VALUES, ids=lambda fields: fields["type"])
def test_a_value_from_a_newer_peer_never_raises_and_loses_nothing(fields: dict[str, object]) -> None:
    event = decode_event(line(**fields))
    assert event == Unknown(str(fields["type"]), {n: v for n, v in fields.items() if n != "type"})
    assert decode_event(encode_event(event)) == event


def test_a_result_with_a_newer_status_is_carried_as_a_part() -> None:
    fields = {"call_id": "c", "status": "late", "content": [{"type": "text", "text": "a"}]}
    message = decode_message(line(role="tool", content=[{"type": "tool_result", **fields}]))
    assert message == Message("tool", (UnknownPart("tool_result", fields),))


def test_a_number_beyond_64_bits_is_carried_and_sent_on() -> None:
    event = decode_event(b'{"type": "future", "n": 123456789012345678901234567890}')
    assert decode_event(encode_event(event)) == Unknown("future", {"n": 123456789012345678901234567890})


# --- garbage ----------------------------------------------------------------

DEEP = 100_000
GARBAGE: dict[str, bytes | str] = {
    "nothing": b"",
    "blank": b"  \n",
    "words": b"hello there",
    "a byte order mark": b"\xef\xbb\xbf{}",
    "an array": b'[{"type": "text_delta"}]',
    "an array cut off": b"[1,",
    "a string": b'"text_delta"',
    "a string cut off": b'"text',
    "a number": b"5",
    "null": b"null",
    "no type": b"{}",
    "no type but fields": b'{"index": 0, "text": "a"}',
    "a type that is a number": b'{"type": 5}',
    "a type that is null": b'{"type": null}',
    "a type that is an object": b'{"type": {"type": "text_delta"}}',
    "a known kind cut off": b'{"type": "text_delta", "index": 0, "text": "a',
    "an unknown kind cut off": b'{"type": "future", "x":',
    "a type cut off": b'{"type": "text_de',
    "two events": b'{"type": "future"}{"type": "future"}',
    "a comma too many": b'{"type": "future",}',
    "bad UTF-8 in a known kind": b'{"type": "text_delta", "index": 0, "text": "\xff"}',
    "bad UTF-8 in an unknown kind": b'{"type": "future", "x": "\xff"}',
    "bad UTF-8 in a key": b'{"\xff": 1, "type": "future"}',
    "bad UTF-8 alone": b"\xff\xfe\x00",
    "half a surrogate pair": b'{"type": "future", "x": "\\ud800"}',
    "half a surrogate pair as text": '{"type": "future", "x": "\ud800"}',
    "UTF-16": '{"type": "future"}'.encode("utf-16"),
    "a number too large": b'{"type": "future", "x": 1e400}',
    "a number too long": b'{"type": "future", "x": ' + b"1" * 5000 + b"}",
    "not a number": b'{"type": "future", "x": NaN}',
    "deep arrays": b"[" * DEEP,
    "deep arrays in an unknown kind": b'{"type": "future", "x": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "deep objects in an unknown kind": b'{"type": "future", "x": '
    + b'{"x":' * DEEP
    + b"1"
    + b"}" * DEEP
    + b"}",
    "deep objects in a known kind": b'{"type": "usage", "x": ' + b'{"x":' * DEEP + b"1" + b"}" * DEEP + b"}",
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_invalid_input_and_nothing_else(garbage: bytes | str) -> None:
    with pytest.raises(InvalidInput, match="not an event"):
        decode_event(garbage)


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE)
def test_a_garbage_message_is_invalid_input_and_nothing_else(garbage: bytes | str) -> None:
    with pytest.raises(InvalidInput, match="not a message"):
        decode_message(garbage)


@pytest.mark.parametrize("depth", [10, 100, 300, 500, 700, 900, 990, 2000])
@pytest.mark.parametrize("pair", ["[]", "{}", "parts"])
def test_nesting_is_read_or_refused_at_any_depth(depth: int, pair: str) -> None:
    """Between what the parser takes and what Python's own stack takes there must be no third way."""
    opening, closing = {
        "[]": ("[", "]"),
        "{}": ('{"x":', "}"),
        "parts": ('{"type": "tool_result", "call_id": "c", "content": [', "]}"),
    }[pair]
    core = '{"type": "hologram"}' if pair == "parts" else "1"
    nested = opening * depth + core + closing * depth
    for text in (
        f'{{"type": "future", "x": {nested}}}',
        f'{{"type": "part_end", "index": 0, "part": {nested}}}',
    ):
        try:
            event = decode_event(text)
        except InvalidInput:
            continue
        assert isinstance(event, get_args(Event))


def test_a_line_of_ten_megabytes_is_read() -> None:
    size = 10 * 2**20
    assert decode_event(encode_event(TextDelta(0, "a" * size))) == TextDelta(0, "a" * size)
    assert decode_event(line(type="future", x="a" * size)) == Unknown("future", {"x": "a" * size})


def test_ten_megabytes_of_garbage_are_refused_in_a_short_message() -> None:
    with pytest.raises(InvalidInput) as caught:
        decode_event(b'{"type": "future", "x": "' + b"a" * 10 * 2**20)
    assert len(str(caught.value)) < 500


def outcome(data: bytes | str) -> object:
    try:
        return decode_event(data)
    except InvalidInput as error:
        return error


@given(st.one_of(st.binary(), st.text(), st.text(st.characters(), max_size=20)))
@example("\ud800")
def test_any_bytes_are_an_event_or_invalid_input(data: bytes | str) -> None:
    assert isinstance(outcome(data), (*get_args(Event), InvalidInput))


@given(json_values)
def test_any_json_is_an_event_or_invalid_input(value: object) -> None:
    assert isinstance(outcome(json.dumps(value)), (*get_args(Event), InvalidInput))


@given(events, st.data())
def test_a_damaged_event_is_an_event_or_invalid_input(event: Event, data: st.DataObject) -> None:
    wire = bytearray(encode_event(event))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(wire)))
        wire[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=3))
    found = outcome(bytes(wire))
    assert isinstance(found, (*get_args(Event), InvalidInput))
    if not isinstance(found, InvalidInput):
        assert decode_event(encode_event(found)) == found  # type: ignore[arg-type]


@given(events, st.data())
def test_an_event_with_other_values_is_an_event_or_invalid_input(event: Event, data: st.DataObject) -> None:
    """Unlike damaged bytes, this always reaches the code behind the parser."""
    fields = plain(event)
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(json_values)
    found = outcome(json.dumps(fields))
    assert isinstance(found, (*get_args(Event), InvalidInput))
    if not isinstance(found, InvalidInput):
        assert decode_event(encode_event(found)) == found  # type: ignore[arg-type]


@given(st.one_of(st.binary(), st.text(st.characters(), max_size=20), json_values.map(json.dumps)))
def test_any_bytes_are_a_message_or_invalid_input(data: bytes | str) -> None:
    try:
        found: object = decode_message(data)
    except InvalidInput as error:
        found = error
    assert isinstance(found, Message | InvalidInput)


@pytest.mark.parametrize(
    "content", ["text", ["text"], [HOLOGRAM, "text"], [HOLOGRAM, None], {"type": "text"}], ids=str
)
def test_content_that_is_no_list_of_objects_is_no_message(content: object) -> None:
    with pytest.raises(InvalidInput, match="not a message"):
        decode_message(line(role="user", content=content))


def test_a_role_that_is_not_ours_is_no_message() -> None:
    with pytest.raises(InvalidInput, match=r"not a message.*role"):
        decode_message(b'{"role": "critic", "content": []}')


# --- errors on a wire -------------------------------------------------------


def test_an_error_of_ours_keeps_code_retryable_and_hint() -> None:
    event = error_event(RateLimited("slow down", vendor="acme", status=429, hint="wait a minute"))
    assert (event.code, event.retryable, event.hint) == ("rate_limited", True, "wait a minute")
    assert "acme: slow down [status 429]" in event.message
    assert decode_event(encode_event(event)) == event


def test_an_error_that_was_told_not_to_retry_stays_so_on_the_wire() -> None:
    assert not error_event(RateLimited("no money left", retryable=False)).retryable


def test_a_foreign_error_is_internal_and_holds_no_secret() -> None:
    event = error_event(KeyError("api_key=abcdef123456"))
    assert (event.code, event.retryable) == ("internal", False)
    assert event.message.startswith("KeyError: ")
    assert "abcdef123456" not in event.message


def test_a_contract_error_names_its_rule_on_the_wire() -> None:
    assert "S6" in error_event(ContractError("two ends", rule="S6")).message


@pytest.mark.parametrize("name", [name for name in errors.__all__ if name[0].isupper()])
def test_an_error_that_was_told_is_raised_as_what_it_was(name: str) -> None:
    kind = getattr(errors, name)
    special = kind in (AskUser, ContractError, TurnUnfinished)  # these are made of more than a text
    told = Error(kind.code, "no luck", not kind.retryable, "try")
    raised = exception_of(told)
    assert type(raised) is (GnomonError if special else kind)
    assert error_event(raised) == told


def test_a_foreign_error_that_was_told_says_that_it_is_internal() -> None:
    raised = exception_of(error_event(KeyError("x")))
    assert (type(raised), str(raised)) == (GnomonError, "internal error: KeyError: 'x'")


def test_an_error_of_a_newer_peer_is_one_of_ours_with_its_code() -> None:
    assert error_event(exception_of(Error("tomorrow", "new"))) == Error("tomorrow", "new")


def test_small_events_are_small_on_the_wire() -> None:
    assert encode_event(TextDelta(0, "hi")) == b'{"type":"text_delta","index":0,"text":"hi"}'
    assert encode_event(Error("c", "m")) == b'{"type":"error","code":"c","message":"m"}'
    assert encode_event(UsageUpdate(Usage(input_tokens=0))) == b'{"type":"usage","usage":{"input_tokens":0}}'


def test_times_on_the_wire_are_text_in_utc() -> None:
    when = datetime(2024, 2, 29, 1, 2, 3, 4, tzinfo=UTC)
    wire = encode_event(ApprovalRequested("t", "a", ToolCall("c", "f"), "h", expires_at=when))
    assert b'"2024-02-29T01:02:03.000004Z"' in wire
    assert decode_event(wire) == ApprovalRequested("t", "a", ToolCall("c", "f"), "h", expires_at=when)
    assert decode_event(encode_event(StreamWarning("w"))) == StreamWarning("w")
