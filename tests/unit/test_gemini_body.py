"""What Gemini is sent, with the types of Google's own library as the judge."""

from __future__ import annotations

from base64 import b64decode, b64encode
from time import process_time
from typing import Any

import msgspec
import pytest

from gemini_types import read_as_count, read_as_gemini
from gnomon.errors import BadRequest
from gnomon.providers._gemini_body import Ways, body_of, count_body_of
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
    ToolStatus,
    UnknownPart,
)
from gnomon.types.requests import OneTool, Reasoning, Request

MODEL = "gemini-3.8-flash"
THIRD = "gemini-3.5-flash"
OLD = "gemini-2.5-flash"
PNG = b"\x89PNG\r\n\x1a\n and so on"
PDF = b"%PDF-1.7 and so on"
WAV = b"RIFF0000WAVEfmt and so on"
SIGNATURE = "EqAB+/4="
SKIP = "skip_thought_signature_validator"
WEATHER = ToolDef(
    name="weather",
    description="How it is outside.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
)
CALL = ToolCall("fc_1", "weather", '{"city":  "Paris"}')


def sent(request: Request, *, model: str = MODEL, **ways: Any) -> tuple[dict[str, Any], list[str]]:
    """The body, which the library must know, and the codes of the warnings."""
    body, warnings = body_of(request, model, Ways(**ways))
    return read_as_gemini(body), [warning.code for warning in warnings]


def asked(*parts: Part | str, **fields: Any) -> Request:
    return Request(messages=(Message.user(*parts or ("Hello",)),), **fields)


def turns(*messages: Message, model: str = MODEL) -> list[Any]:
    return sent(Request(messages=messages), model=model)[0]["contents"]


def codes(*messages: Message, model: str = MODEL) -> list[str]:
    return sent(Request(messages=messages), model=model)[1]


def signed(model: str = MODEL, **more: Any) -> dict[str, object]:
    return {"gemini_signature": SIGNATURE, "gemini_model": model, **more}


def answered(*said: Part | str, model: str = MODEL) -> list[Any]:
    """The model's turn, as it goes back."""
    return turns(Message.user("A"), Message.assistant(*said), Message.user("B"), model=model)[1]["parts"]


def result(*content: Part | str, status: ToolStatus = "ok", model: str = MODEL) -> list[Any]:
    """The turn of a result."""
    messages = (Message.user("A"), Message.assistant(CALL))
    return turns(*messages, Message.tool(ToolResult.of(CALL, *content, status=status)), model=model)[2][
        "parts"
    ]


# --- the whole ---------------------------------------------------------------------


def test_a_plain_question_is_contents_and_instructions() -> None:
    assert sent(asked("Hello", system="Be brief.")) == (
        {
            "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
            "systemInstruction": {"parts": [{"text": "Be brief."}]},
        },
        [],
    )


def test_a_conversation_that_says_nothing_is_refused() -> None:
    with pytest.raises(BadRequest, match="nothing to send"):
        sent(asked(""))


def test_half_a_character_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadRequest, match="half a character"):
        sent(asked("\ud83d"))


def test_extra_wins_and_is_put_together_with_what_is_there() -> None:
    extra = {
        "generationConfig": {"maxOutputTokens": 9, "seed": 3},
        "tools": [{"googleSearch": {}}],
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    }
    body, _ = sent(asked(tools=(WEATHER,), max_tokens=100, stop=("END",)), extra=extra)
    assert body["generationConfig"] == {"maxOutputTokens": 9, "seed": 3, "stopSequences": ["END"]}
    assert [list(tool) for tool in body["tools"]] == [["functionDeclarations"], ["googleSearch"]]
    assert body["safetySettings"] == extra["safetySettings"]


def test_tokens_are_counted_of_a_whole_request_and_on_google_cloud_of_its_fields() -> None:
    request = asked("Hello", tools=(WEATHER,), system="Be brief.")
    read = read_as_count(count_body_of(request, MODEL, Ways()))["generateContentRequest"]
    assert read["model"] == "models/gemini-3.8-flash"
    assert read.keys() == {"model", "contents", "tools", "systemInstruction"}
    cloud = read_as_gemini(count_body_of(request, MODEL, Ways(vertex=True)))
    assert cloud.keys() == {"contents", "tools", "systemInstruction"}


# --- turns -------------------------------------------------------------------------


def test_turns_of_one_role_become_one_and_empty_texts_are_left_out() -> None:
    messages = (Message.user("A", ""), Message.user("B"), Message.assistant(""), Message.assistant("C"))
    assert turns(*messages, Message.user("D")) == [
        {"role": "user", "parts": [{"text": "A"}, {"text": "B"}]},
        {"role": "model", "parts": [{"text": "C"}]},
        {"role": "user", "parts": [{"text": "D"}]},
    ]


def test_the_user_speaks_first() -> None:
    messages = (Message.assistant("Good morning."), Message.user("Hello"))
    assert [turn["role"] for turn in turns(*messages)] == ["user", "model", "user"]
    assert codes(*messages) == ["turn_added"]


@pytest.mark.parametrize(("model", "roles"), [(OLD, ["user", "model"]), (MODEL, ["user", "model", "user"])])
def test_an_answer_at_the_end_is_begun_where_the_model_goes_on_from_it(model: str, roles: list[str]) -> None:
    messages = (Message.user("A"), Message.assistant("The answer is"))
    assert [turn["role"] for turn in turns(*messages, model=model)] == roles
    assert codes(*messages, model=model) == ([] if model == OLD else ["turn_added"])


def test_every_system_text_is_kept_in_order_and_a_late_one_is_warned_about() -> None:
    request = Request(
        messages=(Message.system("B"), Message.user("x"), Message.system("C", Image(data=PNG))), system="A"
    )
    body, warnings = sent(request)
    assert body["systemInstruction"]["parts"] == [{"text": "A"}, {"text": "B"}, {"text": "C"}]
    assert warnings == ["part_dropped", "system_moved"]


def test_names_of_speakers_are_warned_about() -> None:
    assert codes(Message.user("Hello", name="ada")) == ["name_dropped"]


def test_a_conversation_that_has_grown_begins_with_the_same_bytes() -> None:
    story = [
        Message.user("A"),
        Message.assistant(Text("B", signed()), CALL),
        Message.tool(ToolResult.of(CALL, "C")),
        Message.assistant(ToolCall("fc_2", "weather", "[1]")),
        Message.tool(ToolResult("fc_2", "weather", (Text("D"),), "error")),
        Message.assistant("E"),
        Message.user("F"),
    ]
    whole = turns(*story)
    for length in (1, 3, 5, 7):
        part = turns(*story[:length])
        assert msgspec.json.encode(part) == msgspec.json.encode(whole[: len(part)])


# --- signatures and thinking ---------------------------------------------------------


def test_a_signature_returns_on_every_kind_of_part() -> None:
    code = '{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"EqAB+/4="}'
    said = answered(
        Thinking("Well.", SIGNATURE, provider="gemini", model=MODEL),
        Text("Hello.", signed()),
        Image(data=PNG, media_type="image/png", meta=signed()),
        UnknownPart("gemini.executableCode", {"json": code, "model": MODEL}),
        Text("", signed()),
    )
    assert [part["thoughtSignature"] for part in said] == [SIGNATURE] * 5
    assert said[0] == {"text": "Well.", "thought": True, "thoughtSignature": SIGNATURE}
    assert said[1] == {"text": "Hello.", "thoughtSignature": SIGNATURE}
    assert said[4] == {"text": "", "thoughtSignature": SIGNATURE}


def test_a_part_that_was_signed_at_its_end_returns_as_the_two_that_it_was() -> None:
    thought = Thinking("One. Two.", SIGNATURE, None, "gemini", MODEL, {"gemini_signed_from": 5})
    assert answered(thought, Text("Hello.", signed(gemini_signed_from=6))) == [
        {"text": "One. ", "thought": True},
        {"text": "Two.", "thought": True, "thoughtSignature": SIGNATURE},
        {"text": "Hello."},
        {"text": "", "thoughtSignature": SIGNATURE},
    ]


def test_signatures_of_another_model_are_left_out() -> None:
    code = '{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"EqAB+/4="}'
    messages = (
        Message.user("A"),
        Message.assistant(
            Thinking("Well.", SIGNATURE, provider="gemini", model=OLD),
            Text("Hello.", signed(OLD)),
            Text("", signed(OLD)),
            UnknownPart("gemini.executableCode", {"json": code, "model": OLD}),
        ),
        Message.user("B"),
    )
    assert turns(*messages)[1]["parts"] == [
        {"text": "Hello."},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
    ]
    assert set(codes(*messages)) == {"thinking_dropped"}


def test_the_first_call_of_a_step_is_signed_or_says_that_it_is_not() -> None:
    """Gemini 3 answers 400 to a step whose first call has no signature."""
    own = ToolCall("fc_1", "weather", "{}", meta=signed())
    second = ToolCall("fc_2", "weather", "{}")
    parallel = answered(own, second)
    assert [part.get("thoughtSignature") for part in parallel] == [SIGNATURE, None]
    foreign = answered(ToolCall("fc_1", "weather", "{}", meta=signed(OLD)), second)
    assert [part.get("thoughtSignature") for part in foreign] == [SKIP, None]
    assert [part.get("thoughtSignature") for part in answered(CALL, second, model=OLD)] == [None, None]


def test_thinking_of_somebody_else_is_not_sent() -> None:
    messages = (
        Message.user("A"),
        Message.assistant(Thinking("Hm.", "sig", provider="anthropic", model="claude-opus-5-5"), "B"),
        Message.user("C"),
    )
    assert turns(*messages)[1]["parts"] == [{"text": "B"}]
    assert codes(*messages) == ["thinking_dropped"]


@pytest.mark.parametrize(
    ("model", "thinking", "config", "warnings"),
    [
        (MODEL, Reasoning(effort="low"), {"thinkingLevel": "LOW"}, []),
        (MODEL, Reasoning(effort="minimal"), {"thinkingLevel": "LOW"}, ["effort"]),
        (MODEL, Reasoning(effort="none"), {"thinkingLevel": "LOW"}, ["thinking"]),
        (MODEL, Reasoning(budget_tokens=8000), {"thinkingLevel": "MEDIUM"}, ["thinking"]),
        (THIRD, Reasoning(effort="minimal"), {"thinkingLevel": "MINIMAL"}, []),
        ("gemini-3-pro-preview", Reasoning(effort="medium"), {"thinkingLevel": "HIGH"}, ["effort"]),
        ("gemini-9-flash", Reasoning(effort="high"), {"thinkingLevel": "HIGH"}, []),
        (OLD, Reasoning(effort="medium"), {"thinkingBudget": 8192}, []),
        (OLD, Reasoning(effort="none"), {"thinkingBudget": 0}, []),
        (OLD, Reasoning(budget_tokens=99_999), {"thinkingBudget": 24_576}, ["thinking"]),
        ("gemini-2.5-pro", Reasoning(effort="none"), {"thinkingBudget": 128}, ["thinking"]),
        ("gemini-2.5-flash-lite", Reasoning(budget_tokens=100), {"thinkingBudget": 512}, ["thinking"]),
    ],
)
def test_thinking_goes_by_level_or_by_budget(
    model: str, thinking: Reasoning, config: dict[str, Any], warnings: list[str]
) -> None:
    body, found = sent(asked(thinking=thinking), model=model)
    assert body["generationConfig"]["thinkingConfig"] == {**config, "includeThoughts": True}
    assert found == warnings


def test_thoughts_are_not_shown_to_who_does_not_want_them() -> None:
    body, _ = sent(asked(thinking=Reasoning(effort="low")), show_thinking=False)
    assert body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "LOW"}


@pytest.mark.parametrize("model", ["gemma-3-27b-it", "gemini-2.0-flash", "gemini-2.5-flash-image"])
def test_a_model_whose_thinking_cannot_be_set_gets_no_setting(model: str) -> None:
    body, warnings = sent(asked(thinking=Reasoning(effort="low")), model=model)
    assert "generationConfig" not in body
    assert warnings == ["thinking"]


# --- tools ---------------------------------------------------------------------------


def test_a_tool_is_declared_with_its_json_schema() -> None:
    ping = ToolDef(name="ping", schema={"type": "object", "properties": {}, "additionalProperties": False})
    body, warnings = sent(asked(tools=(WEATHER, ping)))
    assert body["tools"] == [
        {
            "functionDeclarations": [
                {
                    "name": "weather",
                    "description": "How it is outside.",
                    "parametersJsonSchema": WEATHER.schema,
                },
                {"name": "ping"},
            ]
        }
    ]
    assert warnings == []


def test_an_object_of_any_properties_is_no_function_without_parameters() -> None:
    schema = {"type": "object", "additionalProperties": {"type": "string"}}
    body, _ = sent(asked(tools=(ToolDef(name="save", schema=schema),)))
    assert body["tools"][0]["functionDeclarations"][0]["parametersJsonSchema"] == {**schema, "properties": {}}


def test_a_name_that_no_tool_may_have_is_refused() -> None:
    with pytest.raises(BadRequest, match="takes no tool of the name '1 of them'"):
        sent(asked(tools=(ToolDef(name="1 of them"),)))


@pytest.mark.parametrize(
    ("choice", "calling"),
    [
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        (OneTool("weather"), {"mode": "ANY", "allowedFunctionNames": ["weather"]}),
    ],
)
def test_a_choice_of_tools_is_a_mode(choice: Any, calling: dict[str, Any]) -> None:
    body, _ = sent(asked(tools=(WEATHER,), tool_choice=choice))
    assert body["toolConfig"] == {"functionCallingConfig": calling}


def test_calls_are_validated_where_that_is_wanted_and_the_choice_is_free() -> None:
    body, _ = sent(asked(tools=(WEATHER,)), validated=True)
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "VALIDATED"}}
    body, _ = sent(asked(tools=(WEATHER,), tool_choice="required"), validated=True)
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY"}}
    assert "toolConfig" not in sent(asked(tools=(WEATHER,)))[0]


def test_a_choice_among_no_tools_is_warned_about() -> None:
    body, warnings = sent(asked(tool_choice="required"))
    assert "toolConfig" not in body
    assert warnings == ["tool_choice"]


def test_arguments_go_back_to_the_letter() -> None:
    body, _ = body_of(
        Request(
            messages=(
                Message.user("A"),
                Message.assistant(CALL),
                Message.tool(ToolResult.of(CALL, "ok")),
            )
        ),
        MODEL,
        Ways(),
    )
    assert b'"args":{"city":  "Paris"}' in body


@pytest.mark.parametrize(
    ("arguments", "args"),
    [("", {}), ('{"city": "Pa', {"INVALID_JSON": '{"city": "Pa'}), ("[1]", {"INVALID_JSON": "[1]"})],
)
def test_arguments_that_are_no_object_are_shown_inside_of_one(arguments: str, args: dict[str, Any]) -> None:
    call = ToolCall("fc_1", "weather", arguments, truncated=True)
    assert answered(call)[0]["functionCall"] == {"id": "fc_1", "name": "weather", "args": args}


def test_odd_names_of_a_conversation_are_made_fit() -> None:
    call = ToolCall("toolu/1:ü", "1 weather!", "{}")
    said = turns(Message.user("A"), Message.assistant(call), Message.tool(ToolResult.of(call, "ok")))
    assert said[1]["parts"][0]["functionCall"] == {"id": "toolu/1:ü", "name": "_1_weather_", "args": {}}
    assert said[2]["parts"][0]["functionResponse"]["name"] == "_1_weather_"
    assert said[2]["parts"][0]["functionResponse"]["id"] == "toolu/1:ü"


def test_results_stand_in_one_turn_right_after_their_calls() -> None:
    second = ToolCall("fc_2", "weather", "{}")
    said = turns(
        Message.user("A"),
        Message.assistant(CALL, second),
        Message.user("Be quick."),
        Message.tool(ToolResult.of(CALL, "18 degrees")),
        Message.tool(ToolResult.of(second, "")),
    )
    assert [turn["role"] for turn in said] == ["user", "model", "user", "user"]
    assert [part["functionResponse"] for part in said[2]["parts"]] == [
        {"id": "fc_1", "name": "weather", "response": {"output": "18 degrees"}},
        {"id": "fc_2", "name": "weather", "response": {"output": ""}},
    ]
    assert said[3]["parts"] == [{"text": "Be quick."}]


def test_text_beside_a_result_is_the_users_own_turn() -> None:
    mixed = Message("user", (Text("And now?"), ToolResult.of(CALL, "18")))
    said = turns(Message.user("A"), Message.assistant(CALL), mixed)
    assert [[next(iter(part)) for part in turn["parts"]] for turn in said[2:]] == [
        ["functionResponse"],
        ["text"],
    ]


@pytest.mark.parametrize(("content", "error"), [(("No such city.",), "No such city."), ((), "timeout")])
def test_a_failed_call_is_told_as_an_error(content: tuple[str, ...], error: str) -> None:
    assert result(*content, status="timeout")[0]["functionResponse"]["response"] == {"error": error}


def test_a_result_without_its_call_is_plain_content() -> None:
    messages = (Message.user("A"), Message.tool(ToolResult("gone", "weather", (Text("18"),))))
    assert turns(*messages) == [{"role": "user", "parts": [{"text": "A"}, {"text": "18"}]}]
    assert codes(*messages) == ["result_moved"]


def test_media_stand_inside_of_a_result_where_the_model_takes_them_there() -> None:
    picture = Image(data=PNG)
    (inside,) = result("A map:", picture, File(url="https://x.org/a.pdf"))
    assert inside["functionResponse"]["response"] == {"output": "A map:"}
    assert inside["functionResponse"]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": b64encode(PNG).decode()}},
        {"fileData": {"fileUri": "https://x.org/a.pdf", "mimeType": "application/pdf"}},
    ]
    response, beside = result("A map:", picture, model=OLD)
    assert "parts" not in response["functionResponse"]
    assert beside["inlineData"]["mimeType"] == "image/png"
    history = (Message.user("A"), Message.assistant(CALL), Message.tool(ToolResult.of(CALL, picture)))
    assert codes(*history) == []
    assert codes(*history, model=OLD) == ["part_moved"]


def test_audio_in_a_result_stands_behind_it_and_what_is_refused_is_told() -> None:
    response, audio = result("Listen:", Audio(data=WAV))
    assert response["functionResponse"]["response"] == {"output": "Listen:"}
    assert audio["inlineData"]["mimeType"] == "audio/wav"
    (told,) = result(Image(data=b"GIF89a and so on"))
    assert "takes no image of the kind image/gif" in told["functionResponse"]["response"]["output"]


# --- images, audio, files ------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "kind", "data"),
    [
        (Image(data=PNG), "image/png", PNG),
        (Image(data=PNG, media_type="image/jpg"), "image/jpeg", PNG),
        (Image(url=f"data:image/png;base64,{b64encode(PNG).decode()}"), "image/png", PNG),
        (Audio(data=WAV), "audio/wav", WAV),
        (Audio(data=WAV, media_type="audio/x-wav"), "audio/wav", WAV),
        (File(data=PDF, name="plan.pdf"), "application/pdf", PDF),
        (File(data=b"a,b\n1,2", media_type="text/csv"), "text/csv", b"a,b\n1,2"),
        (File(data=b'{"a": 1}', media_type="application/json"), "text/plain", b'{"a": 1}'),
        (File(data=b"....", media_type="video/mp4"), "video/mp4", b"...."),
    ],
)
def test_what_is_given_by_value_stands_in_line(part: Part, kind: str, data: bytes) -> None:
    found = sent(asked("Look:", part))[0]["contents"][0]["parts"][1]["inlineData"]
    assert (found["mimeType"], b64decode(found["data"])) == (kind, data)


@pytest.mark.parametrize(
    ("part", "file"),
    [
        (Image(url="https://x.org/a.png"), {"fileUri": "https://x.org/a.png", "mimeType": "image/png"}),
        (
            File(url="https://generativelanguage.googleapis.com/v1beta/files/abc", media_type="video/mp4"),
            {
                "fileUri": "https://generativelanguage.googleapis.com/v1beta/files/abc",
                "mimeType": "video/mp4",
            },
        ),
        (Audio(url="gs://bucket/a.mp3"), {"fileUri": "gs://bucket/a.mp3", "mimeType": "audio/mpeg"}),
        (
            File(url="https://www.youtube.com/watch?v=9hE5-98ZeCg"),
            {"fileUri": "https://www.youtube.com/watch?v=9hE5-98ZeCg"},
        ),
    ],
)
def test_what_is_given_by_address_is_named(part: Part, file: dict[str, str]) -> None:
    assert sent(asked("Look:", part))[0]["contents"][0]["parts"][1] == {"fileData": file}


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (Image(data=b"GIF89a and so on"), "no image of the kind image/gif"),
        (Audio(data=b"?"), "no audio of the kind unknown"),
        (File(data=b"PK\x03\x04\0\0", media_type="application/zip"), "no application/zip"),
        (Image(data=PNG + bytes(80_000_000)), "80 MB and gemini takes 75 MB at most"),
        (File(data=PDF + bytes(60_000_000)), "60 MB and gemini takes 50 MB at most"),
    ],
)
def test_what_is_known_to_be_refused_is_refused_before_it_is_sent(part: Part, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        sent(asked(part))


def test_a_part_that_nobody_knows_is_warned_about() -> None:
    assert codes(Message.user("A", UnknownPart("hologram"))) == ["part_dropped"]
    messages = (Message.user("A"), Message.assistant("B", UnknownPart("anthropic.x", {"json": "{}"})))
    assert codes(*messages, Message.user("C")) == ["part_dropped"]


def test_what_was_said_of_an_answer_is_not_sent_back() -> None:
    sources = UnknownPart("gemini.groundingMetadata", {"json": '{"webSearchQueries":["x"]}'})
    assert answered("B", sources) == [{"text": "B"}]
    assert codes(Message.user("A"), Message.assistant("B", sources), Message.user("C")) == []


# --- the rest ------------------------------------------------------------------------


def test_sampling_is_sent_to_who_samples() -> None:
    request = asked(temperature=0.0, top_p=0.9, top_k=40)
    body, warnings = sent(request, model=THIRD)
    assert body["generationConfig"] == {"temperature": 0.0, "topP": 0.9, "topK": 40}
    assert warnings == []
    body, warnings = sent(request)
    assert "generationConfig" not in body
    assert warnings == ["sampling"]


def test_five_stop_sequences_are_sent() -> None:
    body, warnings = sent(asked(stop=("a", "", "b", "c", "d", "e", "f"), max_tokens=7))
    assert body["generationConfig"] == {"maxOutputTokens": 7, "stopSequences": ["a", "b", "c", "d", "e"]}
    assert warnings == ["stop"]


def test_an_output_schema_is_the_form_of_the_answer() -> None:
    schema = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "minimum": 1},
            "at": {"type": "string", "format": "date-time", "minLength": 3},
        },
        "required": ["n"],
    }
    body, warnings = sent(asked(output_schema=schema, tools=(WEATHER,)))
    config = body["generationConfig"]
    assert config["responseMimeType"] == "application/json"
    properties = config["responseJsonSchema"]["properties"]
    assert properties["n"] == {"type": "integer", "minimum": 1}
    assert properties["at"]["format"] == "date-time"
    assert "minLength" not in properties["at"]
    assert warnings == ["schema"]


def test_a_model_that_takes_no_schema_beside_tools_is_told_of_it() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    body, warnings = sent(asked(output_schema=schema, tools=(WEATHER,), system="Be brief."), model=OLD)
    assert "generationConfig" not in body
    assert '"required":["n"]' in body["systemInstruction"]["parts"][1]["text"]
    assert warnings == ["schema"]
    assert "generationConfig" in sent(asked(output_schema=schema), model=OLD)[0]


def test_a_list_may_stand_at_the_top_of_an_output_schema() -> None:
    body, _ = sent(asked(output_schema={"type": "array", "items": {"type": "string"}}))
    assert body["generationConfig"]["responseJsonSchema"]["type"] == "array"


def test_metadata_are_labels_on_google_cloud_and_warned_about_elsewhere() -> None:
    request = asked(metadata={"team": "north", "purpose": "Contract check"})
    body, warnings = sent(request, vertex=True)
    assert body["labels"] == {"team": "north"}
    assert warnings == ["metadata"]
    body, warnings = sent(request)
    assert "labels" not in body
    assert warnings == ["metadata"]


def test_a_long_conversation_costs_what_its_length_says() -> None:
    def seconds(count: int) -> float:
        messages = [Message.user("q") if n % 2 == 0 else Message.assistant("a") for n in range(count)]
        request = Request(messages=(*messages, Message.user("?")))
        start = process_time()
        body_of(request, MODEL, Ways())
        return process_time() - start

    short, long = (min(seconds(count) for _ in range(5)) for count in (1_000, 8_000))
    assert short < 0.02
    assert long < 24 * max(short, 0.0005)


@pytest.mark.parametrize("model", [MODEL, OLD])
def test_what_was_answered_once_is_no_reason_to_refuse(model: str) -> None:
    """Another vendor took it; whoever goes on with Gemini cannot take it back."""
    shown = Image(data=b"II*\0 and so on", media_type="image/tiff")
    said = (Message.user("Look", shown), Message.assistant("I see."), Message.user("And now?"))
    body, warned = sent(Request(messages=said), model=model)
    assert "takes no image of the kind image/tiff" in body["contents"][0]["parts"][1]["text"]
    assert warned == ["part_dropped"]
    with pytest.raises(BadRequest, match="image/tiff"):
        sent(Request(messages=said[:1]), model=model)
