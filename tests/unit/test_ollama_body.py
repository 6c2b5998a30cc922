"""Requests to Ollama, with its documentation and the types of its own library as judges."""

from __future__ import annotations

from base64 import b64encode
from time import thread_time
from typing import Any

import msgspec
import pytest
from ollama._types import ChatRequest
from ollama._types import Message as TheirMessage

import ollama_standin
from gnomon.errors import BadRequest
from gnomon.providers._ollama_body import Ways, ollama_body
from gnomon.types.messages import (
    Audio,
    File,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
    UnknownPart,
)
from gnomon.types.requests import OneTool, Reasoning, Request
from sdk_types import read_as

MODEL = "qwen3:8b"
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 9
WAV = b"RIFF0000WAVE" + b"0" * 9
SHOWN = b64encode(PNG).decode()
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolDef(name="weather", description="The weather of a city", schema=CITY)
HEIGHT = ToolDef(name="height", schema=CITY)
CALL = ToolCall("call_1", "weather", '{"city": "Paris", "days": 1e2}')
RESULT = ToolResult("call_1", "weather", (Text("18 °C"),))


def sent(*messages: Message, ways: dict[str, Any] | None = None, **fields: Any) -> tuple[Any, list[str]]:
    """The body and the codes of its warnings."""
    request = Request(messages=messages or (Message.user("Hi"),), **fields)
    body, warnings = ollama_body(request, MODEL, Ways(vendor="ollama", **(ways or {})))
    ollama_standin.check("POST", "/api/chat", body)
    whole = msgspec.json.decode(body)
    assert (whole["model"], whole["stream"]) == (MODEL, True)
    for message in whole["messages"]:
        images = [{"value": shown} for shown in message.get("images", ())]  # as the library holds them
        TheirMessage.model_validate({**message, "images": images})
    known = {name: value for name, value in whole.items() if name not in ("truncate", "shift", "tools")}
    read_as(ChatRequest, msgspec.json.encode(known))
    return whole, [warning.code for warning in warnings]


def said(*messages: Message, **fields: Any) -> tuple[list[Any], list[str]]:
    body, codes = sent(*messages, **fields)
    return body["messages"], codes


def parameters(schema: dict[str, object]) -> dict[str, Any]:
    body, _ = sent(tools=(ToolDef(name="t", schema=schema),))
    return body["tools"][0]["function"]["parameters"]


# --- the whole ----------------------------------------------------------------------


def test_a_plain_question_is_sent_as_it_is_and_may_not_be_cut() -> None:
    body, codes = sent()
    assert body == {
        "model": MODEL,
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "truncate": False,
        "shift": False,
    }
    assert codes == []


def test_numbers_go_among_the_options_and_zero_is_a_number() -> None:
    body, codes = sent(
        temperature=0.0, top_p=0.5, top_k=7, max_tokens=99, stop=("END", "FIN"), ways={"context": 16_384}
    )
    assert body["options"] == {
        "num_ctx": 16_384,
        "num_predict": 99,
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 7,
        "stop": ["END", "FIN"],
    }
    assert codes == []


@pytest.mark.parametrize("keep", ["10m", 300, 0, -1])
def test_how_long_a_model_stays_is_sent(keep: str | float) -> None:
    assert sent(ways={"keep_alive": keep})[0]["keep_alive"] == keep


def test_what_a_user_adds_has_the_last_word_and_goes_beside_our_options() -> None:
    body, _ = sent(temperature=0.3, ways={"extra": {"options": {"seed": 7}, "truncate": True}})
    assert body["options"] == {"temperature": 0.3, "seed": 7}
    assert body["truncate"] is True


def test_metadata_is_not_taken_and_that_is_told() -> None:
    body, codes = sent(metadata={"user": "u1"})
    assert "metadata" not in body
    assert codes == ["unsupported_parameter"]


@pytest.mark.parametrize(
    ("wanted", "think", "codes"),
    [
        (Reasoning(), True, []),
        (Reasoning(effort="none"), False, []),
        (Reasoning(budget_tokens=0), False, []),
        (Reasoning(effort="low"), "low", []),
        (Reasoning(effort="medium"), "medium", []),
        (Reasoning(effort="high"), "high", []),
        (Reasoning(effort="minimal"), "low", ["thinking_effort"]),
        (Reasoning(budget_tokens=1_000), "low", ["thinking_budget"]),
        (Reasoning(budget_tokens=30_000), "high", ["thinking_budget"]),
        (Reasoning(effort="medium", budget_tokens=9), "medium", ["thinking_budget"]),
    ],
)
def test_thinking_is_a_yes_a_no_or_a_word(wanted: Reasoning, think: object, codes: list[str]) -> None:
    body, told = sent(thinking=wanted)
    assert body["think"] == think
    assert type(body["think"]) is type(think)
    assert told == codes


def test_without_a_word_on_thinking_the_model_decides() -> None:
    assert "think" not in sent()[0]


def test_an_output_schema_is_the_format_and_keeps_its_references() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "type": "array", "items": {"$ref": "#/$defs/n"}}
    body, codes = sent(output_schema=schema)
    assert body["format"] == schema
    assert codes == []


def test_a_reference_to_nothing_in_an_output_schema_is_told() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}
    assert sent(output_schema=schema)[1] == ["schema"]


# --- messages -----------------------------------------------------------------------


def test_all_instructions_are_one_message_at_the_beginning() -> None:
    messages, codes = said(Message.system("Two."), Message.user("Hi"), system="One.")
    assert messages == [{"role": "system", "content": "One.\n\nTwo."}, {"role": "user", "content": "Hi"}]
    assert codes == []


def test_later_instructions_are_moved_there_and_that_is_told() -> None:
    messages, codes = said(Message.user("Hi"), Message.system("Late."), Message.user("Well?"))
    assert [message["content"] for message in messages] == ["Late.", "Hi", "Well?"]
    assert codes == ["moved"]


def test_several_texts_are_one() -> None:
    assert said(Message.user("One.", "Two."))[0][0]["content"] == "One.\n\nTwo."
    assert said(Message.assistant("One.", "Two."))[0][0]["content"] == "One.Two."


def test_a_name_of_a_speaker_is_not_taken_and_that_is_told() -> None:
    messages, codes = said(Message.user("Hi", name="ada"))
    assert messages == [{"role": "user", "content": "Hi"}]
    assert codes == ["unsupported_parameter"]


def test_an_empty_message_of_the_model_is_left_out_and_one_of_the_user_is_not() -> None:
    messages, _ = said(Message.user(""), Message.assistant(), Message.assistant(Text("")))
    assert messages == [{"role": "user", "content": ""}]


def test_an_unknown_part_is_not_sent_and_that_is_told() -> None:
    messages, codes = said(Message.user("Hi", UnknownPart("hologram", {})))
    assert messages == [{"role": "user", "content": "Hi"}]
    assert codes == ["unknown_part"]


# --- thinking, calls and results ----------------------------------------------------


def test_thinking_goes_back_to_the_model_that_did_it() -> None:
    thought = Thinking("Hm.", provider="ollama", model=MODEL)
    messages, codes = said(Message.user("Hi"), Message.assistant(thought, "Yes.", CALL))
    assert messages[1]["thinking"] == "Hm."
    assert (messages[1]["content"], len(messages[1]["tool_calls"])) == ("Yes.", 1)
    assert codes == []


@pytest.mark.parametrize(("provider", "model"), [("ollama", "llama3.2"), ("openai", MODEL), (None, None)])
def test_thinking_goes_to_no_other_model_and_that_is_told(provider: str | None, model: str | None) -> None:
    thought = Thinking("Hm.", signature="s", provider=provider, model=model)
    messages, codes = said(Message.assistant(thought, "Yes."))
    assert messages == [{"role": "assistant", "content": "Yes."}]
    assert codes == ["thinking_dropped"]


def test_a_message_of_thinking_alone_is_kept() -> None:
    thought = Thinking("Hm.", provider="ollama", model=MODEL)
    assert said(Message.assistant(thought))[0] == [{"role": "assistant", "content": "", "thinking": "Hm."}]


def test_calls_have_their_arguments_as_objects_and_results_name_their_tool() -> None:
    other = ToolCall("odd id/€", "height", "")
    messages, codes = said(
        Message.assistant(CALL, other), Message.tool(RESULT, ToolResult("odd id/€", "", (Text("8 m"),)))
    )
    assert messages == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "call_1",
                    "function": {"index": 0, "name": "weather", "arguments": {"city": "Paris", "days": 100}},
                },
                {"id": "odd id/€", "function": {"index": 1, "name": "height", "arguments": {}}},
            ],
        },
        {"role": "tool", "content": "18 °C", "tool_name": "weather", "tool_call_id": "call_1"},
        {"role": "tool", "content": "8 m", "tool_name": "height", "tool_call_id": "odd id/€"},
    ]
    assert codes == []


def test_arguments_are_sent_as_they_were_written() -> None:
    body, _ = ollama_body(Request(messages=(Message.assistant(CALL),)), MODEL, Ways(vendor="ollama"))
    assert b'"arguments":{"city": "Paris", "days": 1e2}' in body


@pytest.mark.parametrize("text", ['{"city": "Par', "[1]", '"Paris"', "nonsense"])
def test_arguments_that_are_no_object_are_shown_inside_of_one(text: str) -> None:
    messages, codes = said(Message.assistant(ToolCall("c", "weather", text, truncated=True)))
    assert messages[0]["tool_calls"][0]["function"]["arguments"] == {"cut_off": text}
    assert codes == ["arguments_rewritten"]


def test_a_result_without_a_text_says_what_became_of_the_call() -> None:
    messages, _ = said(
        Message.assistant(CALL), Message.tool(ToolResult("call_1", "weather", status="denied"))
    )
    assert messages[1]["content"] == "denied"
    assert said(Message.tool(ToolResult("call_1", "weather")))[0][0]["content"] == ""


def test_an_image_in_a_result_goes_into_a_user_message_after_all_results() -> None:
    shown = ToolResult("call_1", "weather", (Image(data=PNG),))
    other = ToolResult("call_2", "height", (Text("8 m"),))
    messages, codes = said(
        Message.assistant(CALL), Message.tool(shown), Message.tool(other), Message.user("So?")
    )
    assert [message["role"] for message in messages] == ["assistant", "tool", "tool", "user", "user"]
    assert messages[1]["content"] == "The result is shown in the next message."
    assert messages[3] == {"role": "user", "content": "From the result of weather:", "images": [SHOWN]}
    assert codes == ["moved"]


def test_what_a_tool_gives_and_cannot_be_sent_does_not_end_the_conversation() -> None:
    result = ToolResult("call_1", "weather", (Text("See"), Image(url="https://example.org/a.png")))
    messages, codes = said(Message.tool(result))
    assert "Image left out" in messages[1]["content"]
    assert codes == ["media_left_out", "moved"]


def test_results_in_a_user_message_leave_no_empty_one_behind() -> None:
    messages, _ = said(Message.assistant(CALL), Message("user", (RESULT,)))
    assert [message["role"] for message in messages] == ["assistant", "tool"]


def test_an_image_that_a_model_made_goes_into_a_user_message() -> None:
    messages, codes = said(Message.assistant("Here.", Image(data=PNG)), Message.user("Thanks"))
    assert [message["role"] for message in messages] == ["assistant", "user", "user"]
    assert messages[1]["images"] == [SHOWN]
    assert codes == ["moved"]


# --- images, audio, files -----------------------------------------------------------


@pytest.mark.parametrize(
    "part",
    [
        Image(data=PNG),
        Image(url=f"data:image/png;base64,{SHOWN}"),
        File(data=PNG, media_type="image/png", name="a.png"),
    ],
)
def test_an_image_is_sent_as_base64_beside_the_text(part: Image | File) -> None:
    messages, codes = said(Message.user("Look", part))
    assert messages == [{"role": "user", "content": "Look", "images": [SHOWN]}]
    assert codes == []


@pytest.mark.parametrize(
    "part",
    [Image(url="https://e.org/a.png"), Audio(url="https://e.org/a.wav"), File(url="https://e.org/a.txt")],
)
def test_nothing_can_be_sent_by_its_address(part: Image | Audio | File) -> None:
    with pytest.raises(BadRequest, match="by its address") as caught:
        said(Message.user(part))
    assert caught.value.vendor == "ollama"
    assert caught.value.hint


def test_audio_is_sent_as_the_server_takes_it_which_is_wav_beside_the_images() -> None:
    messages, _ = said(Message.user("Listen", Audio(data=WAV), Image(data=PNG)))
    assert messages[0]["images"] == [b64encode(WAV).decode(), SHOWN]
    with pytest.raises(BadRequest, match="audio/mpeg"):
        said(Message.user(Audio(data=b"ID3" + b"0" * 9)))


def test_a_file_of_text_is_sent_as_text_and_another_is_refused() -> None:
    note = File(data="\ufeffgrüße".encode(), media_type="text/plain", name="note.txt")
    assert said(Message.user("Read", note))[0][0]["content"] == "Read\n\nnote.txt:\n\ngrüße"
    for data, kind in (
        (b"%PDF-1.7 plain", "application/pdf"),
        (b"\xff\xd8\0", None),
        (b"a\0b", "text/plain"),
    ):
        with pytest.raises(BadRequest, match="takes images and text"):
            said(Message.user(File(data=data, media_type=kind)))


# --- tools --------------------------------------------------------------------------


def test_a_tool_is_shown_with_its_schema() -> None:
    body, codes = sent(tools=(WEATHER,))
    function = {"name": "weather", "description": "The weather of a city", "parameters": CITY}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert codes == []


def test_a_tool_without_arguments_has_an_empty_object() -> None:
    assert parameters({}) == {"type": "object", "properties": {}}
    assert parameters({"type": "object"}) == {"type": "object", "properties": {}}


def test_references_are_written_out_for_the_server_does_not_read_them() -> None:
    schema = {
        "$defs": {"place": {"type": "object", "properties": {"lat": {"type": "number"}}}},
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/place", "description": "where"}},
    }
    made = parameters(schema)
    assert made["properties"]["at"] == {
        "type": "object",
        "properties": {"lat": {"type": "number"}},
        "description": "where",
    }
    assert "$ref" not in msgspec.json.encode(made).decode()


def test_a_recursion_that_had_to_end_is_told() -> None:
    schema = {
        "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}},
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/tree"}},
    }
    assert sent(tools=(ToolDef(name="t", schema=schema),))[1] == ["schema"]


def test_what_the_server_would_drop_stands_in_the_description_too() -> None:
    made = parameters(
        {
            "type": "object",
            "properties": {
                "n": {"type": "integer", "minimum": 1, "description": "how many"},
                "who": {
                    "type": "object",
                    "properties": {"mail": {"type": "string", "format": "email"}},
                    "required": ["mail"],
                },
                "odd": {"oneOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]},
                "any": True,
            },
            "required": ["n"],
        }
    )
    found = made["properties"]
    assert found["n"]["description"] == "how many (minimum: 1)"
    assert found["who"]["description"] == '(required: ["mail"])'
    assert found["who"]["properties"]["mail"]["description"] == '(format: "email")'
    assert found["odd"]["anyOf"][0]["description"] == "(maxLength: 3)"
    assert "oneOf" not in found["odd"]
    assert found["any"] == {}
    assert made["required"] == ["n"]


@pytest.mark.parametrize(
    ("choice", "shown"),
    [
        (None, ["weather", "height"]),
        ("auto", ["weather", "height"]),
        ("required", ["weather", "height"]),
        ("none", []),
        (OneTool("height"), ["height"]),
        (OneTool("nobody"), ["weather", "height"]),
    ],
)
def test_a_choice_of_tools_is_told_and_shown_as_far_as_it_can_be(choice: Any, shown: list[str]) -> None:
    body, codes = sent(tools=(WEATHER, HEIGHT), tool_choice=choice)
    assert [tool["function"]["name"] for tool in body.get("tools", ())] == shown
    assert codes == ([] if choice in (None, "auto") else ["tool_choice"])


# --- speed --------------------------------------------------------------------------


def best_of(count: int, messages: int) -> float:
    times: list[float] = []
    for _ in range(count):
        said = [
            Message.user(f"question {n}") if n % 2 else Message.assistant(f"answer {n}")
            for n in range(messages)
        ]
        request = Request(messages=tuple(said))
        start = thread_time()
        ollama_body(request, MODEL, Ways(vendor="ollama"))
        times.append(thread_time() - start)
    return min(times)


def test_a_long_conversation_is_encoded_quickly_and_in_linear_time() -> None:
    small, large = best_of(9, 1_000), best_of(9, 8_000)
    assert small < 0.01  # about 0.5 ms on a quiet machine
    assert large < 8 * small * 4
