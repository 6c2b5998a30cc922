"""What OpenAI is sent, with the types of its own library as the judge."""

from __future__ import annotations

from base64 import b64encode
from time import thread_time
from typing import Any

import msgspec
import pytest
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

from gnomon.errors import BadRequest
from gnomon.providers._responses_body import responses_body
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
    UnknownPart,
)
from gnomon.types.requests import OneTool, Reasoning, Request
from sdk_types import read_as

MODEL = "gpt-6.1-sol"
PNG = b"\x89PNG\r\n\x1a\n and so on"
PDF = b"%PDF-1.7 and so on"
WEATHER = ToolDef(
    name="weather",
    description="How it is outside.",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
OPEN = ToolDef(name="anything", schema={"type": "object", "properties": {"more": {"type": "object"}}})
REASONING = (
    '{"id": "rs_1",  "type":"reasoning","summary":[],"encrypted_content":"gAA\\u00e9/=","status":null}'
)


def sent(request: Request, *, model: str = MODEL, **settings: Any) -> tuple[dict[str, Any], list[str]]:
    body, warnings = responses_body(
        request, vendor="openai", model=model, extra=settings.pop("extra", {}), **settings
    )
    return read_as(ResponseCreateParamsStreaming, body), [warning.code for warning in warnings]


def asked(*parts: Part | str, **fields: Any) -> Request:
    return Request(messages=(Message.user(*parts or ("Hello",)),), **fields)


def items(*messages: Message) -> list[Any]:
    return sent(Request(messages=messages))[0]["input"]


def own(text: str = "", model: str = MODEL, provider: str = "openai", item: str | None = None) -> Thinking:
    kept = item or f'{{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"{text}"}}'
    return Thinking(text, "gAA", provider=provider, model=model, meta={"item": kept})


# --- the whole ---------------------------------------------------------------------


def test_a_plain_question_is_streamed_and_not_stored() -> None:
    body, warnings = sent(asked("Hello", system="Be brief."))
    assert body == {
        "model": MODEL,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "instructions": "Be brief.",
        "input": [{"role": "user", "content": "Hello"}],
    }
    assert warnings == []


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4.1", "chatgpt-4o-latest", "gpt-5-chat-latest"])
def test_a_model_that_never_thinks_is_not_asked_for_encrypted_thinking(model: str) -> None:
    assert "include" not in sent(asked(), model=model)[0]


@pytest.mark.parametrize("model", ["gpt-5", "o3", "gpt-6-astra", "some-model-of-tomorrow"])
def test_any_other_model_is(model: str) -> None:
    assert sent(asked(), model=model)[0]["include"] == ["reasoning.encrypted_content"]


def test_every_system_text_is_kept_in_its_place() -> None:
    request = Request(
        system="First.",
        messages=(Message.system("Second."), Message.user("Hi"), Message.system("Third.", "Fourth.")),
    )
    body, _ = sent(request)
    assert body["instructions"] == "First."
    assert body["input"] == [
        {"role": "system", "content": "Second."},
        {"role": "user", "content": "Hi"},
        {
            "role": "system",
            "content": [{"type": "input_text", "text": "Third."}, {"type": "input_text", "text": "Fourth."}],
        },
    ]


def test_numbers_are_sent_when_they_are_given_and_zero_is_one() -> None:
    body, warnings = sent(asked(temperature=0.0, top_p=0.5, max_tokens=64, metadata={"run": "7"}))
    assert (body["temperature"], body["top_p"], body["max_output_tokens"]) == (0.0, 0.5, 64)
    assert body["metadata"] == {"run": "7"}
    assert warnings == []


def test_what_the_api_does_not_take_is_warned_about() -> None:
    request = Request(messages=(Message.user("Hi", name="Ada"),), top_k=5, stop=("END",))
    body, warnings = responses_body(request, vendor="openai", model=MODEL, extra={})
    assert [warning.code for warning in warnings] == ["unsupported_parameter"] * 3
    said = " ".join(warning.message for warning in warnings)
    assert all(word in said for word in ("names", "top_k", "stop"))
    assert b"Ada" not in body
    assert b"END" not in body


def test_extra_has_the_last_word_and_stands_beside_what_is_there() -> None:
    extra: dict[str, object] = {
        "store": True,
        "prompt_cache_key": "mine",
        "tools": [{"type": "web_search"}],
        "text": {"verbosity": "low"},
        "parallel_tool_calls": False,
    }
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body, _ = sent(asked(tools=(WEATHER,), output_schema=schema), extra=extra)
    assert (body["store"], body["prompt_cache_key"], body["parallel_tool_calls"]) == (True, "mine", False)
    assert [tool["type"] for tool in body["tools"]] == ["function", "web_search"]
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"]["type"] == "json_schema"


# --- thinking ------------------------------------------------------------------------


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high"])
def test_an_effort_is_sent_with_the_wish_for_a_summary(effort: Any) -> None:
    body, warnings = sent(asked(thinking=Reasoning(effort=effort)))
    assert body["reasoning"] == {"effort": effort, "summary": "auto"}
    assert warnings == []


def test_no_thinking_needs_no_summary() -> None:
    assert sent(asked(thinking=Reasoning(effort="none")))[0]["reasoning"] == {"effort": "none"}


def test_a_summary_can_be_chosen_or_left_out() -> None:
    request = asked(thinking=Reasoning(effort="low"))
    assert sent(request, summary="detailed")[0]["reasoning"]["summary"] == "detailed"
    assert sent(request, summary=None)[0]["reasoning"] == {"effort": "low"}


def test_nothing_is_said_of_thinking_when_nothing_is_wanted() -> None:
    assert "reasoning" not in sent(asked())[0]


@pytest.mark.parametrize(
    ("budget", "effort"), [(0, "none"), (1024, "low"), (8000, "medium"), (32000, "high")]
)
def test_a_budget_becomes_the_nearest_effort_and_a_warning(budget: int, effort: str) -> None:
    body, warnings = sent(asked(thinking=Reasoning(budget_tokens=budget)))
    assert body["reasoning"]["effort"] == effort
    assert warnings == ["thinking_budget"]


def test_a_reasoning_item_returns_byte_for_byte() -> None:
    request = Request(messages=(Message.assistant(own(item=REASONING), "So it is."), Message.user("Why?")))
    body, warnings = responses_body(request, vendor="openai", model=MODEL, extra={})
    assert REASONING.encode() in body
    assert warnings == ()


@pytest.mark.parametrize(
    "part",
    [
        own("x", model="gpt-6-astra"),
        own("x", provider="anthropic"),
        Thinking("x"),
        Thinking(provider="openai"),
    ],
)
def test_the_thinking_of_another_is_left_out_with_a_warning(part: Thinking) -> None:
    request = Request(messages=(Message.assistant(part, "So it is."), Message.user("Why?")))
    body, warnings = sent(request)
    assert body["input"] == [
        {"type": "message", "role": "assistant", "content": "So it is."},
        {"role": "user", "content": "Why?"},
    ]
    assert warnings == ["thinking_dropped"]


def test_a_warning_is_given_once_however_long_the_conversation_is() -> None:
    said = Message.assistant(Thinking("x", provider="anthropic"), "Yes.")
    assert sent(Request(messages=(said,) * 50))[1] == ["thinking_dropped"]


# --- what the model said, and what it called -----------------------------------------


def test_an_answer_goes_back_without_ids_in_the_order_it_came() -> None:
    call = ToolCall("call_1", "weather", '{"city": "Oslo"}')
    message = Message.assistant(own("a"), Text("Let me see.", {"phase": "commentary"}), own("b"), call)
    assert items(message, Message.tool(ToolResult.of(call, "Snow"))) == [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "a"},
        {"type": "message", "role": "assistant", "content": "Let me see.", "phase": "commentary"},
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "b"},
        {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Oslo"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "Snow"},
    ]


def test_a_call_that_was_cut_off_is_sent_as_what_it_is() -> None:
    (item,) = items(Message.assistant(ToolCall("c", "weather", '{"ci', truncated=True)))
    assert (item["arguments"], item["status"]) == ('{"ci', "incomplete")


def test_an_id_too_long_for_the_vendor_is_the_same_short_one_in_call_and_result() -> None:
    call = ToolCall("x" * 65, "weather")
    other = ToolCall("x" * 66, "weather")
    made = items(Message.assistant(call, other), Message.tool(ToolResult.of(call, "Snow")))
    assert made[0]["call_id"] == made[2]["call_id"] != made[1]["call_id"]
    assert len(made[0]["call_id"]) <= 64
    assert items(Message.assistant(ToolCall("y" * 64, "weather")))[0]["call_id"] == "y" * 64


def test_a_name_that_the_vendor_would_not_read_back_is_rewritten() -> None:
    (item,) = items(Message.assistant(ToolCall("c", "functions.get weather")))
    assert item["name"] == "functions_get_weather"


def test_an_empty_message_is_no_item() -> None:
    assert items(Message.user(), Message.assistant(""), Message.user("Hi")) == [
        {"role": "user", "content": "Hi"}
    ]


@pytest.mark.parametrize(("status", "output"), [("ok", ""), ("error", "error"), ("cancelled", "cancelled")])
def test_an_empty_result_says_what_became_of_the_call(status: Any, output: str) -> None:
    (item,) = items(Message.tool(ToolResult("c", status=status)))
    assert item["output"] == output


def test_a_result_takes_images_and_files_beside_its_text() -> None:
    result = ToolResult("c", content=(Text("A map:"), Image(data=PNG), File(data=PDF, name="a.pdf")))
    (item,) = items(Message.tool(result))
    assert [part["type"] for part in item["output"]] == ["input_text", "input_image", "input_file"]
    assert item["output"][1]["image_url"] == "data:image/png;base64," + b64encode(PNG).decode()


def test_a_part_that_is_not_known_is_warned_about() -> None:
    body, warnings = sent(asked("Hi", UnknownPart("hologram"), UnknownPart("scent")))
    assert body["input"] == [{"role": "user", "content": "Hi"}]
    assert warnings == ["unknown_part", "unknown_part"]


# --- tools -----------------------------------------------------------------------------


def test_tools_stand_in_the_order_of_their_names() -> None:
    one = sent(asked(tools=(WEATHER, OPEN)))[0]["tools"]
    assert [tool["name"] for tool in one] == ["anything", "weather"]
    assert one == sent(asked(tools=(OPEN, WEATHER)))[0]["tools"]


def test_a_tool_is_strict_only_where_its_schema_is_meant_so() -> None:
    loose, strict = sent(asked(tools=(WEATHER, OPEN)))[0]["tools"]
    assert (strict["strict"], strict["parameters"]) == (True, WEATHER.schema)
    assert (loose["strict"], loose["parameters"]) == (False, OPEN.schema)
    assert strict["description"] == "How it is outside."
    assert "description" not in loose


def test_a_tool_without_a_schema_takes_an_object() -> None:
    (tool,) = sent(asked(tools=(ToolDef(name="now"),)))[0]["tools"]
    assert tool["parameters"]["type"] == "object"


@pytest.mark.parametrize(
    ("choice", "form"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (OneTool("weather"), {"type": "function", "name": "weather"}),
    ],
)
def test_a_tool_choice_has_the_vendors_form(choice: Any, form: object) -> None:
    assert sent(asked(tools=(WEATHER,), tool_choice=choice))[0]["tool_choice"] == form


def test_a_choice_among_no_tools_is_not_sent() -> None:
    assert "tool_choice" not in sent(asked(tool_choice="auto"))[0]


# --- media -----------------------------------------------------------------------------


def test_an_image_goes_by_address_or_by_value_with_its_detail() -> None:
    by_address = Image(url="https://example.org/a.heic", meta={"detail": "low"})
    (item,) = items(Message.user("Look:", by_address, Image(data=PNG)))
    assert item["content"][1:] == [
        {"type": "input_image", "detail": "low", "image_url": "https://example.org/a.heic"},
        {
            "type": "input_image",
            "detail": "auto",
            "image_url": "data:image/png;base64," + b64encode(PNG).decode(),
        },
    ]


def test_a_file_goes_by_address_or_by_value_with_its_name() -> None:
    by_value = (File(data=PDF, name="plan.pdf"), File(data=PDF))
    (item,) = items(Message.user(File(url="https://example.org/a.pdf"), *by_value))
    address, named, nameless = item["content"]
    assert address == {"type": "input_file", "file_url": "https://example.org/a.pdf"}
    assert named["filename"] == "plan.pdf"
    assert nameless["filename"] == "file.pdf"
    assert named["file_data"] == "data:application/pdf;base64," + b64encode(PDF).decode()


def test_a_file_that_is_an_image_is_sent_as_one() -> None:
    (item,) = items(Message.user(File(data=PNG, name="a.png")))
    assert item["content"][0]["type"] == "input_image"


def test_an_image_of_the_models_own_moves_into_a_user_message() -> None:
    body, warnings = sent(Request(messages=(Message.assistant("Here:", Image(data=PNG)),)))
    first, second = body["input"]
    assert (first["role"], second["role"], second["content"][1]["type"]) == (
        "assistant",
        "user",
        "input_image",
    )
    assert warnings == ["moved"]


@pytest.mark.parametrize("kind", ["image/heic", None])
def test_an_image_of_a_kind_the_vendor_does_not_take_is_refused(kind: str | None) -> None:
    with pytest.raises(BadRequest, match=kind or "unknown") as caught:
        sent(asked(Image(data=b"????", media_type=kind)))
    assert "PNG" in str(caught.value)


def test_a_file_larger_than_the_vendor_takes_is_refused_before_it_is_sent() -> None:
    with pytest.raises(BadRequest, match=r"60 MB and openai takes 50 MB"):
        sent(asked(File(data=bytes(60_000_000), media_type="application/pdf")))


@pytest.mark.parametrize("audio", [Audio(data=b"RIFF1234WAVE"), Audio(url="https://example.org/a.wav")])
def test_audio_is_refused_with_a_way_out(audio: Audio) -> None:
    with pytest.raises(BadRequest, match="audio") as caught:
        sent(asked("Listen:", audio))
    assert 'api = "chat"' in str(caught.value)


def test_audio_in_an_earlier_answer_or_result_is_left_out_with_a_warning() -> None:
    audio = Audio(data=b"RIFF1234WAVE")
    result = Message.tool(ToolResult("c", content=(Text("It says:"), audio)))
    body, warnings = sent(Request(messages=(Message.assistant("Hm.", audio), result)))
    assert [item.get("output") for item in body["input"]] == [None, "It says:"]
    assert warnings == ["dropped"]


# --- structured output -----------------------------------------------------------------


def test_an_output_schema_is_strict_and_says_what_is_lost() -> None:
    schema = {
        "title": "My answer!",
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
    }
    form = sent(asked(output_schema=schema))[0]["text"]["format"]
    assert (form["type"], form["strict"], form["name"]) == ("json_schema", True, "My_answer")
    assert form["schema"]["required"] == ["a", "b"]
    assert form["schema"]["additionalProperties"] is False
    lossy = {**schema, "properties": {"a": {"not": {"type": "string"}}}}
    assert "schema" in sent(asked(output_schema=lossy))[1]


def test_a_schema_without_a_title_has_a_name_all_the_same() -> None:
    body, _ = sent(asked(output_schema={"type": "object", "properties": {}, "additionalProperties": False}))
    assert body["text"]["format"]["name"] == "answer"


# --- speed -----------------------------------------------------------------------------


def test_a_conversation_of_a_thousand_messages_is_written_in_little_time() -> None:
    def written() -> float:
        messages = tuple(
            Message.user(f"Question {n}") if n % 2 else Message.assistant(f"Answer {n}") for n in range(1000)
        )
        begin = thread_time()
        body, _ = responses_body(Request(messages=messages), vendor="openai", model=MODEL, extra={})
        spent = thread_time() - begin
        assert len(msgspec.json.decode(body)["input"]) == 1000
        return spent

    assert min(written() for _ in range(5)) < 0.01  # about 1 ms on an idle machine


@pytest.mark.parametrize("given", [Image(data=b"no image"), Image(url="data:")])
def test_what_a_tool_gave_and_the_vendor_refuses_does_not_end_the_conversation(given: Part) -> None:
    """The result stays in the conversation, so each later request would fail as well."""
    said = (
        Message.user("Look"),
        Message.assistant(ToolCall("c_1", "weather", "{}")),
        Message.tool(ToolResult("c_1", "weather", (Text("Here:"), given))),
    )
    body, codes_ = sent(Request(messages=said))
    assert "left out" in msgspec.json.encode(body).decode()
    assert codes_ == ["media_left_out"]
