"""The chunks of Google's Gemini API, one by one: what the fixtures do not hold, and the way back."""

from __future__ import annotations

from base64 import b64encode
from time import process_time
from typing import Any

import msgspec
import pytest

from gemini_types import read_as_gemini
from gnomon.providers._converse import VendorFailure
from gnomon.providers._gemini import GeminiDecoder
from gnomon.providers._gemini_body import Ways, body_of
from gnomon.stream import StreamFold
from gnomon.types.codec import decode_message, encode_message
from gnomon.types.events import Finish, ProviderEvent, StreamWarning, TextDelta, ToolCallEnd, UsageUpdate
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    UnknownPart,
)
from gnomon.types.requests import Request, Response, Usage

MODEL = "gemini-3.8-flash"
SIGNATURE = "EqAB+/4="
PNG = b"\x89PNG\r\n\x1a\n and so on"


def chunk(*parts: dict[str, Any], usage: dict[str, int] | None = None, **candidate: Any) -> dict[str, Any]:
    said: dict[str, Any] = {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **candidate}],
        "modelVersion": "gemini-3.8-flash-001",
        "responseId": "r_1",
    }
    return {**said, "usageMetadata": usage} if usage else said


def ended(reason: str = "STOP", *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return chunk(*parts, finishReason=reason, **more)


def call(**fields: Any) -> dict[str, Any]:
    return {"functionCall": fields}


def events(*wire: dict[str, Any]) -> list[ProviderEvent]:
    decoder = GeminiDecoder("gemini", MODEL)
    found = [event for said in wire for event in decoder.feed(msgspec.json.encode(said))]
    assert decoder.done == any(isinstance(event, Finish) for event in found)
    return found


def answer(*wire: dict[str, Any]) -> Response:
    *before, last = events(*wire)
    assert isinstance(last, Finish)
    fold = StreamFold()
    for event in before:
        fold.add(event)
    return fold.finish(last, provider="gemini", model=MODEL)


def parts(*wire: dict[str, Any]) -> tuple[Part, ...]:
    return answer(*wire).message.content


def returned(*wire: dict[str, Any]) -> list[Any]:
    """The answer as it goes back with the next question, through a store."""
    said = decode_message(encode_message(answer(*wire).message))
    results = [ToolResult.of(made, "ok") for made in said.tool_calls]
    following = Message.tool(*results) if results else Message.user("B")
    body, warnings = body_of(Request(messages=(Message.user("A"), said, following)), MODEL, Ways())
    assert warnings == ()
    return read_as_gemini(body)["contents"][1]["parts"]


# --- texts, thoughts, signatures -----------------------------------------------------


def test_pieces_without_a_signature_become_one_and_return_as_one() -> None:
    wire = (chunk({"text": "Hel"}), chunk({"text": "lo"}, {"text": "."}), ended())
    assert parts(*wire) == (Text("Hello."),)
    assert returned(*wire) == [{"text": "Hello."}]


@pytest.mark.parametrize("last", ["lo.", ""])
def test_a_signed_piece_returns_on_its_own_to_the_letter(last: str) -> None:
    wire = (chunk({"text": "Hel"}), ended("STOP", {"text": last, "thoughtSignature": SIGNATURE}))
    (text,) = parts(*wire)
    assert isinstance(text, Text)
    assert text.text == "Hel" + last
    assert returned(*wire) == [{"text": "Hel"}, {"text": last, "thoughtSignature": SIGNATURE}]


def test_what_follows_a_signed_piece_is_another_part() -> None:
    wire = (chunk({"text": "A", "thoughtSignature": SIGNATURE}), chunk({"text": "B"}), ended())
    assert [part.text for part in parts(*wire) if isinstance(part, Text)] == ["A", "B"]
    assert returned(*wire) == [{"text": "A", "thoughtSignature": SIGNATURE}, {"text": "B"}]


def test_a_signature_behind_a_call_is_a_part_of_its_own() -> None:
    wire = (
        chunk(call(id="1", name="f", args={}) | {"thoughtSignature": "AAAA"}),
        ended("STOP", {"text": "", "thoughtSignature": SIGNATURE}),
    )
    assert [type(part) for part in parts(*wire)] == [ToolCall, Text]
    assert returned(*wire)[1] == {"text": "", "thoughtSignature": SIGNATURE}


def test_thoughts_are_noted_with_who_had_them_and_return() -> None:
    wire = (
        chunk({"text": "Hm. ", "thought": True}),
        chunk({"text": "Yes.", "thought": True}, {"text": "Hello."}),
        ended(),
    )
    assert parts(*wire) == (Thinking("Hm. Yes.", None, None, "gemini", MODEL), Text("Hello."))
    assert returned(*wire) == [{"text": "Hm. Yes.", "thought": True}, {"text": "Hello."}]


def test_parallel_calls_keep_the_signature_where_it_was() -> None:
    wire = (
        chunk(
            call(id="1", name="f", args={"x": 1}) | {"thoughtSignature": SIGNATURE},
            call(id="2", name="f", args={"x": 2}),
        ),
        ended(),
    )
    assert returned(*wire) == [
        {"functionCall": {"id": "1", "name": "f", "args": {"x": 1}}, "thoughtSignature": SIGNATURE},
        {"functionCall": {"id": "2", "name": "f", "args": {"x": 2}}},
    ]


# --- calls ---------------------------------------------------------------------------


def test_an_id_that_comes_twice_or_not_at_all_is_made_up() -> None:
    found = parts(chunk(call(id="1", name="f"), call(id="1", name="g"), call(name="h")), ended())
    ids = [part.id for part in found if isinstance(part, ToolCall)]
    assert ids[0] == "1"
    assert len(set(ids)) == 3


@pytest.mark.parametrize(
    ("reason", "truncated"), [("STOP", False), ("MAX_TOKENS", True), ("MALFORMED_FUNCTION_CALL", True)]
)
def test_a_last_call_without_arguments_is_sound_unless_the_answer_was_cut_off(
    reason: str, truncated: bool
) -> None:
    (made,) = parts(chunk(call(id="1", name="ping")), ended(reason))
    assert isinstance(made, ToolCall)
    assert made.truncated is truncated
    assert made.arguments == ("" if truncated else "{}")


def test_a_call_without_arguments_that_another_part_follows_is_sound() -> None:
    ping, _ = parts(chunk(call(id="1", name="ping"), call(id="2", name="f", args={})), ended("MAX_TOKENS"))
    assert ping == ToolCall("1", "ping", "{}", 0)


def piece(path: str, more: bool = True, **value: Any) -> dict[str, Any]:
    return call(partialArgs=[{"jsonPath": path, **value}], willContinue=more)


def test_arguments_in_pieces_are_put_together() -> None:
    """Google Cloud streams them so, when it is asked to."""
    made, last = parts(
        chunk(call(id="1", name="save", willContinue=True) | {"thoughtSignature": SIGNATURE}),
        chunk(piece("$.place.name", stringValue="New ", willContinue=True)),
        chunk(piece("$.place.name", stringValue="Delhi")),
        chunk(piece("$.list[0]", numberValue=12), piece("$.list[1].deep", boolValue=False)),
        chunk(piece("$['a b']", nullValue=None), piece('$.x["y.z"]', stringValue="é")),
        chunk(call()),
        chunk(call(id="2", name="ping", args={"a": 1})),
        ended(),
    )
    assert isinstance(made, ToolCall)
    assert made.parsed() == {
        "place": {"name": "New Delhi"},
        "list": [12, {"deep": False}],
        "a b": None,
        "x": {"y.z": "é"},
    }
    assert '"list":[12,' in made.arguments  # and not 12.0
    assert made.meta["gemini_signature"] == SIGNATURE
    assert not made.truncated
    assert last == ToolCall("2", "ping", '{"a":1}', 1)


def test_a_name_that_is_said_again_goes_on_with_the_call() -> None:
    (made,) = parts(
        chunk(call(name="f", willContinue=True)),
        chunk(call(name="f", partialArgs=[{"jsonPath": "$.a", "stringValue": "x"}], willContinue=False)),
        ended(),
    )
    assert isinstance(made, ToolCall)
    assert made.arguments == '{"a":"x"}'


@pytest.mark.parametrize("reason", ["MAX_TOKENS", "STOP"])
def test_a_call_whose_pieces_do_not_end_is_truncated(reason: str) -> None:
    said = answer(
        chunk(call(id="1", name="f", willContinue=True)),
        chunk(piece("$.a", stringValue="x", willContinue=True)),
        ended(reason),
    )
    assert said.tool_calls == (ToolCall("1", "f", '{"a":"x"}', 0, truncated=True),)
    assert said.stop_reason == "max_tokens"


@pytest.mark.parametrize("path", ["", "$", "place", "$.a[", "$.a[7]", "$.a.b"])
def test_a_path_that_leads_nowhere_cannot_be_read(path: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        events(
            chunk(call(name="f", args={"a": [1]}, willContinue=True)),
            chunk(piece("$.a", stringValue="x"), piece(path, stringValue="y")),
        )


# --- other parts ---------------------------------------------------------------------


def test_what_a_model_draws_or_says_aloud_is_a_part() -> None:
    def blob(kind: str) -> dict[str, Any]:
        return {"inlineData": {"mimeType": kind, "data": b64encode(PNG).decode()}}

    image, audio, other = parts(
        chunk(blob("image/png") | {"thoughtSignature": SIGNATURE}, blob("audio/L16;rate=24000")),
        ended("STOP", blob("video/mp4")),
    )
    assert image == Image(
        data=PNG, media_type="image/png", meta={"gemini_signature": SIGNATURE, "gemini_model": MODEL}
    )
    assert audio == Audio(data=PNG, media_type="audio/L16;rate=24000")
    assert other == File(data=PNG, media_type="video/mp4")


def test_parts_of_the_vendors_own_survive_the_round_trip() -> None:
    code = {
        "executableCode": {"language": "PYTHON", "code": "print(1)", "id": "c1"},
        "thoughtSignature": SIGNATURE,
    }
    done = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n", "id": "c1"}}
    drawn = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}, "thought": True}
    wire = (chunk({"text": "Let me see."}, code), chunk(done, drawn), ended("STOP", {"text": "One."}))
    kinds = [part.kind for part in parts(*wire) if isinstance(part, UnknownPart)]
    assert kinds == ["gemini.executableCode", "gemini.codeExecutionResult", "gemini.inlineData"]
    assert returned(*wire) == [{"text": "Let me see."}, code, done, drawn, {"text": "One."}]


def test_sources_are_kept_once_each_behind_the_answer() -> None:
    grounding = {"webSearchQueries": ["x"], "groundingChunks": [{"web": {"uri": "https://x.org"}}]}
    citations = {"citationSources": [{"startIndex": 0, "endIndex": 3, "uri": "https://x.org"}]}
    text, *sources = parts(
        chunk({"text": "A"}, groundingMetadata={}),
        chunk({"text": "B"}, groundingMetadata=grounding),
        ended("STOP", groundingMetadata=grounding, citationMetadata=citations),
    )
    assert text == Text("AB")
    assert [(part.kind, msgspec.json.decode(str(part.data["json"]))) for part in sources] == [  # type: ignore[union-attr]
        ("gemini.groundingMetadata", grounding),
        ("gemini.citationMetadata", citations),
    ]


def test_only_the_first_of_several_answers_is_taken() -> None:
    two = {"candidates": [{"index": 1, "content": {"parts": [{"text": "other"}]}, "finishReason": "STOP"}]}
    assert parts(chunk({"text": "A"}), two, ended()) == (Text("A"),)


def test_an_empty_part_is_nothing() -> None:
    assert parts(chunk({}), ended("STOP", {"text": ""}, {"thought": True})) == ()


# --- the end -------------------------------------------------------------------------


def test_an_end_that_needs_a_word_has_one() -> None:
    said = answer(ended("MALFORMED_FUNCTION_CALL", finishMessage="Malformed call: print(weather("))
    assert said.message.content == ()
    assert said.stop_reason == "other"
    assert said.warnings == (
        "gemini ended the answer with MALFORMED_FUNCTION_CALL: Malformed call: print(weather(",
    )
    (warning,) = [event for event in events(ended("SOMETHING_NEW")) if isinstance(event, StreamWarning)]
    assert warning == StreamWarning("gemini ended the answer with SOMETHING_NEW", "finish_something_new")
    assert answer(ended()).warnings == ()


@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION", "SPII", "IMAGE_SAFETY", "MODEL_ARMOR"])
def test_a_filter_is_a_filter_by_any_name(reason: str) -> None:
    said = answer(chunk({"text": "Well"}), ended(reason))
    assert (said.stop_reason, said.raw_stop_reason, said.text) == ("content_filter", reason, "Well")


def test_a_reason_that_is_none_yet_does_not_end_the_answer() -> None:
    wire = (
        chunk({"text": "A"}, finishReason="FINISH_REASON_UNSPECIFIED"),
        ended("CONTINUATION", {"text": "B"}),
    )
    said = answer(*wire)
    assert (said.text, said.stop_reason, said.raw_stop_reason) == ("AB", "max_tokens", "CONTINUATION")


def test_a_blocked_prompt_says_why() -> None:
    feedback = {"blockReason": "MODEL_ARMOR", "blockReasonMessage": "not this"}
    said = answer(
        {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3, "totalTokenCount": 3}}
    )
    assert (said.stop_reason, said.raw_stop_reason) == ("content_filter", "MODEL_ARMOR")
    assert said.warnings == ("gemini ended the answer with MODEL_ARMOR: not this",)
    assert said.usage == Usage(input_tokens=3)


def test_who_answered_is_told() -> None:
    said = answer(chunk({"text": "A"}), ended())
    assert (said.id, said.model) == ("r_1", "gemini-3.8-flash-001")


@pytest.mark.parametrize(
    ("counts", "usage"),
    [
        (
            {
                "promptTokenCount": 100, "cachedContentTokenCount": 60, "toolUsePromptTokenCount": 5,
                "candidatesTokenCount": 7, "thoughtsTokenCount": 20, "totalTokenCount": 132,
            },
            Usage(input_tokens=45, output_tokens=27, cache_read_tokens=60, reasoning_tokens=20),
        ),
        (  # the total has no room for the thoughts: they are in the answer already
            {
                "promptTokenCount": 10, "candidatesTokenCount": 27, "thoughtsTokenCount": 20,
                "totalTokenCount": 37,
            },
            Usage(input_tokens=10, output_tokens=27, reasoning_tokens=20),
        ),
        ({"promptTokenCount": 10, "totalTokenCount": 10}, Usage(input_tokens=10)),
        ({"thoughtsTokenCount": 4}, Usage(output_tokens=4, reasoning_tokens=4)),
    ],
)  # fmt: skip
def test_usage_is_in_classes_that_do_not_overlap(counts: dict[str, int], usage: Usage) -> None:
    said = answer(ended(usage=counts))
    assert said.usage == usage
    if "totalTokenCount" in counts:
        assert usage.total_tokens == counts["totalTokenCount"]


def test_usage_is_told_at_the_first_chance_and_at_the_end() -> None:
    found = events(
        *(chunk({"text": "x"}, usage={"promptTokenCount": 9, "candidatesTokenCount": n}) for n in (1, 2, 3)),
        ended(usage={"promptTokenCount": 9, "candidatesTokenCount": 4}),
    )
    counted = [event.usage.output_tokens for event in found if isinstance(event, UsageUpdate)]
    assert counted == [1, 4]


def test_an_error_inside_says_what_was_spent() -> None:
    error = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    with pytest.raises(VendorFailure) as failure:
        events(chunk({"text": "A"}, usage={"promptTokenCount": 9}), error)
    assert failure.value.complaint.code == "UNAVAILABLE"
    assert failure.value.usage == Usage(input_tokens=9)


def test_a_call_ends_where_its_arguments_do() -> None:
    """Nobody waits for the end of the answer to see a whole call."""
    found = events(chunk(call(id="1", name="f", args={"x": 1})))
    assert isinstance(found[-1], ToolCallEnd)


def test_the_next_piece_of_a_text_costs_little() -> None:
    data = msgspec.json.encode(chunk({"text": "The answer"}, usage={"promptTokenCount": 9}))
    decoder = GeminiDecoder("gemini", MODEL)
    decoder.feed(data)

    def seconds() -> float:
        start = process_time()
        for _ in range(5_000):
            decoder.feed(data)
        return (process_time() - start) / 5_000

    assert decoder.feed(data) == (TextDelta(0, "The answer"),)
    assert min(seconds() for _ in range(5)) < 10e-6


# --- what no documentation says ----------------------------------------------------------


def test_a_field_without_a_value_is_one_that_is_not_there() -> None:
    """What stands between Gemini and us may write out every field that it knows."""
    blank = {"error": None, "usageMetadata": None, "promptFeedback": None}
    piece = {"text": "Hi", "inlineData": None, "functionCall": None, "thoughtSignature": None}
    none = {"text": None, "inlineData": None, "functionCall": None}
    wire = (
        {**chunk(piece, usage={"promptTokenCount": 3}), "error": None},
        {**chunk(none), **blank},
        {**ended(), **blank},
    )
    found = answer(*wire)
    assert found.message.content == (Text("Hi"),)
    assert found.usage == Usage(input_tokens=3)


@pytest.mark.parametrize(
    "places",
    [("$.a", "$.a.b"), ("$.a", "$.a[0]"), ("$.a[0]", "$.a.b"), ("$.a.b", "$.a[0]"), ("$.a", "$[0]")],
)
@pytest.mark.parametrize("value", [{"boolValue": True}, {"numberValue": 1}, {"stringValue": "x"}])
def test_pieces_of_arguments_that_do_not_go_together_cannot_be_read(
    places: tuple[str, str], value: dict[str, object]
) -> None:
    first, second = places
    pieces = [{"jsonPath": first, "stringValue": "x"}, {"jsonPath": second, **value}]
    with pytest.raises(msgspec.DecodeError):
        events(chunk(call(name="weather", willContinue=True, partialArgs=pieces)))


def test_one_candidate_is_read_and_ends_the_answer_once() -> None:
    twice = ended("STOP", {"text": "a"})
    twice["candidates"] *= 2
    assert parts(twice) == (Text("a"),)
    empty = {"content": {"parts": []}}
    strange = {"content": {"parts": [{"hologram": {}}]}}
    assert parts({"candidates": [empty, strange]}, ended()) == ()


def test_an_error_beside_a_text_is_not_passed_over() -> None:
    broken = {**chunk({"text": "b"}), "error": {"code": 503, "message": "no", "status": "UNAVAILABLE"}}
    with pytest.raises(VendorFailure, match="no"):
        events(chunk({"text": "a"}), broken)
