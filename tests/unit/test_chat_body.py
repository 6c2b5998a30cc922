"""Requests in the words of Chat Completions, with the types of OpenAI's own library as judge."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming

from gnomon.errors import BadRequest
from gnomon.providers._chat import ChatQuirks
from gnomon.providers._chat_body import chat_body
from gnomon.providers._vendors import VENDORS
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

OPENAI = ChatQuirks()
PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 9
WAV = b"RIFF0000WAVE" + b"0" * 9
PDF = b"%PDF-1.7" + b"0" * 9
SHOWN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}}

WEATHER = ToolDef(
    name="weather",
    description="The weather of a city",
    schema={
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
)
LOOSE = ToolDef(name="loose", schema={"type": "object", "properties": {"city": {"type": "string"}}})


def sent(
    *messages: Message,
    quirks: ChatQuirks = OPENAI,
    vendor: str = "openai",
    model: str = "m-1",
    extra: dict[str, object] | None = None,
    **fields: Any,
) -> tuple[dict[str, Any], list[str]]:
    """The body and the codes of its warnings; what goes to OpenAI is checked by its own types."""
    request = Request(messages=messages or (Message.user("Hi"),), **fields)
    body, warnings = chat_body(request, vendor=vendor, model=model, quirks=quirks, extra=extra or {})
    if quirks is OPENAI and not extra:
        read_as(CompletionCreateParamsStreaming, body)
    return msgspec.json.decode(body), [warning.code for warning in warnings]


def to(
    vendor: str, *messages: Message, model: str = "m-1", **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    quirks = VENDORS[vendor].quirks_for(model)
    return sent(*messages, quirks=quirks, vendor=vendor, model=model, **fields)


def messages_of(*messages: Message, **fields: Any) -> list[dict[str, Any]]:
    body, warnings = sent(*messages, **fields)
    assert warnings == []
    return body["messages"]


# --- messages --------------------------------------------------------------------------


def test_a_plain_conversation_is_strings_in_order() -> None:
    said = messages_of(
        Message.user("Hi"), Message.assistant("Hello."), Message.user("Bye"), system="Be brief."
    )
    assert said == [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "Bye"},
    ]


def test_the_request_asks_for_a_stream_with_usage() -> None:
    body, _ = sent()
    assert (body["model"], body["stream"], body["stream_options"]) == ("m-1", True, {"include_usage": True})
    assert "stream_options" not in to("together")[0]


def test_system_texts_are_all_kept_in_order_where_openai_takes_them_anywhere() -> None:
    said = messages_of(Message.system("B"), Message.user("Hi"), Message.system("C"), system="A")
    assert [(one["role"], one["content"]) for one in said] == [
        ("developer", "A"),
        ("developer", "B"),
        ("user", "Hi"),
        ("developer", "C"),
    ]


def test_system_texts_are_one_at_the_beginning_where_a_template_wants_that() -> None:
    body, warnings = to("llamacpp", Message.system("B"), Message.user("Hi"), Message.system("C"), system="A")
    assert body["messages"] == [
        {"role": "system", "content": "A\n\nB\n\nC"},
        {"role": "user", "content": "Hi"},
    ]
    assert warnings == ["moved"]
    assert to("llamacpp", Message.system("B"), Message.user("Hi"), system="A")[1] == []


def test_several_texts_are_a_list_or_joined() -> None:
    parts = Message.user("One", "Two")
    assert messages_of(parts)[0]["content"] == [
        {"type": "text", "text": "One"},
        {"type": "text", "text": "Two"},
    ]
    assert to("deepseek", parts)[0]["messages"][0]["content"] == "One\n\nTwo"


def test_a_name_is_sent_or_warned_about() -> None:
    assert messages_of(Message.user("Hi", name="Ada"))[0]["name"] == "Ada"
    body, warnings = to("groq", Message.user("Hi", name="Ada"))
    assert (body["messages"], warnings) == ([{"role": "user", "content": "Hi"}], ["unsupported_parameter"])


def test_an_empty_user_message_is_valid_and_an_empty_answer_is_left_out() -> None:
    said = messages_of(Message("user"), Message("assistant"), Message.user("Hi"))
    assert said == [{"role": "user", "content": ""}, {"role": "user", "content": "Hi"}]


def test_a_refusal_goes_back_as_one() -> None:
    refusal = Message.assistant(Text("No.", meta={"refusal": True}))
    assert messages_of(refusal)[0]["content"] == [{"type": "refusal", "refusal": "No."}]
    assert to("groq", refusal)[0]["messages"][0]["content"] == "No."


def test_an_unknown_part_is_warned_about() -> None:
    body, warnings = sent(Message.user("Hi", UnknownPart("hologram")))
    assert (body["messages"][0]["content"], warnings) == ("Hi", ["unknown_part"])


# --- media -----------------------------------------------------------------------------


def test_images_go_by_value_and_by_address() -> None:
    content = messages_of(Message.user("Look", Image(data=PNG), Image(url="https://a.example/b.png")))[0][
        "content"
    ]
    assert content == [
        {"type": "text", "text": "Look"},
        SHOWN,
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
    ]


def test_audio_goes_by_value_with_its_format() -> None:
    content = messages_of(Message.user(Audio(data=WAV), Audio(data=b"ID3x", media_type="audio/mpeg")))[0][
        "content"
    ]
    assert [part["input_audio"]["format"] for part in content] == ["wav", "mp3"]
    assert content[0]["input_audio"]["data"] == b64encode(WAV).decode()


def test_a_file_goes_by_value_with_its_name() -> None:
    (part,) = messages_of(Message.user(File(data=PDF, name="a.pdf")))[0]["content"]
    assert part == {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{b64encode(PDF).decode()}"},
    }


@pytest.mark.parametrize(
    ("vendor", "part", "words"),
    [
        ("compatible", Audio(url="https://a.example/b.wav"), "audio by address"),
        ("compatible", Audio(data=b"OggS", media_type="audio/ogg"), "audio/ogg"),
        ("compatible", File(url="https://a.example/b.pdf"), "files by address"),
        ("lmstudio", Image(url="https://a.example/b.png"), "images by address"),
        ("deepseek", Image(data=PNG), "images cannot"),
        ("groq", File(data=PDF), "files cannot"),
    ],
)
def test_what_a_vendor_does_not_take_is_refused_before_it_is_sent(vendor: str, part: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words) as caught:
        to(vendor, Message.user(part))
    assert caught.value.hint


def test_openrouter_takes_a_file_by_address() -> None:
    body, _ = to("openrouter", Message.user(File(url="https://a.example/b.pdf", name="b.pdf")))
    assert body["messages"][0]["content"][0]["file"]["file_data"] == "https://a.example/b.pdf"


# --- calls and results -------------------------------------------------------------------


def test_calls_and_their_results_keep_their_order() -> None:
    calls = Message.assistant(
        "Wait.", ToolCall("a", "weather", '{"city": "Rome"}'), ToolCall("b", "weather", '{"city": "Oslo"}')
    )
    results = Message.tool(
        ToolResult("a", "weather", (Text("18"),)), ToolResult("b", "weather", (Text("3"),))
    )
    said = messages_of(Message.user("Hi"), calls, results, tools=(WEATHER,))
    assert said[1:] == [
        {
            "role": "assistant",
            "content": "Wait.",
            "tool_calls": [
                {
                    "id": "a",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Rome"}'},
                },
                {
                    "id": "b",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "18"},
        {"role": "tool", "tool_call_id": "b", "content": "3"},
    ]


def test_an_image_in_a_result_is_moved_behind_all_the_results() -> None:
    calls = Message.assistant(ToolCall("a", "shot"), ToolCall("b", "now"))
    one, two = ToolResult("a", "shot", (Image(data=PNG),)), ToolResult("b", "now", (Text("noon"),))
    for results in ((Message.tool(one, two),), (Message.tool(one), Message.tool(two))):
        body, warnings = sent(Message.user("Hi"), calls, *results, Message.user("Well?"))
        assert [said["role"] for said in body["messages"]] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "user",
            "user",
        ]
        assert body["messages"][4]["content"] == [{"type": "text", "text": "From the result of shot:"}, SHOWN]
        assert body["messages"][2]["content"]
        assert warnings == ["moved"]


def test_an_image_that_a_tool_shows_to_a_model_without_eyes_does_not_stop_the_conversation() -> None:
    shot = Message.tool(ToolResult("a", "shot", (Text("Here."), Image(data=PNG))))
    body, warnings = to("deepseek", Message.user("Hi"), Message.assistant(ToolCall("a", "shot")), shot)
    assert body["messages"][2]["content"] == "Here."
    assert body["messages"][3]["content"].startswith("From the result of shot:\n\n(Image left out")
    assert warnings == ["media_left_out", "moved"]


def test_a_result_without_words_says_what_became_of_the_call() -> None:
    results = Message.tool(ToolResult("a", "rm", status="denied"), ToolResult("b", "now"))
    said = messages_of(Message.assistant(ToolCall("a", "rm"), ToolCall("b", "now")), results)
    assert [one["content"] for one in said[1:]] == ["denied", ""]


def test_an_id_that_is_too_long_is_replaced_alike_in_call_and_result() -> None:
    long = "x" * 64
    said = messages_of(Message.assistant(ToolCall(long, "now")), Message.tool(ToolResult(long, "now")))
    given = said[0]["tool_calls"][0]["id"]
    assert given == said[1]["tool_call_id"]
    assert len(given) <= 40


def test_arguments_that_were_cut_off_are_sent_as_they_are_or_as_text_inside_json() -> None:
    cut = Message.assistant(ToolCall("a", "weather", '{"city":"Ro', truncated=True))
    assert messages_of(cut)[0]["tool_calls"][0]["function"]["arguments"] == '{"city":"Ro'
    body, warnings = to("vllm", cut)
    arguments = body["messages"][0]["tool_calls"][0]["function"]["arguments"]
    assert msgspec.json.decode(arguments) == {"cut_off": '{"city":"Ro'}
    assert warnings == ["arguments_rewritten"]


# --- thinking that returns ------------------------------------------------------------------


def thought(vendor: str, model: str = "m-1", **fields: Any) -> Message:
    return Message.assistant(
        Thinking("Hm.", provider=vendor, model=model, **fields), "Wait.", ToolCall("a", "now")
    )


@pytest.mark.parametrize(
    ("vendor", "field"),
    [
        ("deepseek", "reasoning_content"),
        ("vllm", "reasoning"),
        ("groq", "reasoning"),
        ("llamacpp", "reasoning_content"),
    ],
)
def test_thinking_returns_to_who_thought_it_where_that_is_wanted(vendor: str, field: str) -> None:
    body, warnings = to(vendor, thought(vendor))
    assert (body["messages"][0][field], warnings) == ("Hm.", [])


@pytest.mark.parametrize("vendor", ["openai", "xai", "perplexity", "compatible"])
def test_thinking_is_left_out_without_a_word_where_the_vendor_does_not_want_it(vendor: str) -> None:
    body, warnings = sent(thought("openai")) if vendor == "openai" else to(vendor, thought(vendor))
    assert set(body["messages"][0]) == {"role", "content", "tool_calls"}
    assert warnings == []


@pytest.mark.parametrize("who", [("anthropic", "m-1"), ("vllm", "m-2")])
def test_thinking_of_another_model_is_dropped_with_a_warning(who: tuple[str, str]) -> None:
    body, warnings = to("vllm", thought(*who), Message.user("Go on"))
    assert b"Hm." not in msgspec.json.encode(body)
    assert warnings == ["thinking_dropped"]


def test_deepseek_gets_its_thinking_back_whichever_of_its_models_thought_it() -> None:
    body, warnings = to("deepseek", thought("deepseek", "m-2"))
    assert (body["messages"][0]["reasoning_content"], warnings) == ("Hm.", [])


def test_deepseek_finds_the_field_in_every_message_of_the_models() -> None:
    body, _ = to("deepseek", Message.user("Hi"), Message.assistant("Hello."), thought("anthropic"))
    assert [said.get("reasoning_content") for said in body["messages"]] == [None, "", ""]


def test_reasoning_details_return_byte_for_byte_and_to_nobody_else() -> None:
    details = '[{"type":"reasoning.text","text":"Hm.","signature":"c2ln/+==","index":0,"n":1.50}]'
    said = thought("openrouter", meta={"reasoning_details": details})
    request = Request(messages=(said,))
    quirks = VENDORS["openrouter"].quirks
    body, _ = chat_body(request, vendor="openrouter", model="m-1", quirks=quirks, extra={})
    assert f'"reasoning_details":{details}'.encode() in body
    assert '"reasoning"' not in body.decode()
    other, warnings = chat_body(request, vendor="openrouter", model="m-2", quirks=quirks, extra={})
    assert b"c2ln" not in other
    assert [warning.code for warning in warnings] == ["thinking_dropped"]


def test_vendor_data_of_a_call_returns_byte_for_byte_and_to_nobody_else() -> None:
    kept: dict[str, object] = {
        "provider": "compatible",
        "model": "m-1",
        "extra_content": '{"google":{"thought_signature":"Ci=="}}',
    }
    said = Message.assistant(ToolCall("a", "now", meta=kept))
    body, _ = to("compatible", said)
    assert body["messages"][0]["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "Ci=="}}
    for other in (to("compatible", said, model="m-2"), to("vllm", said)):
        assert "extra_content" not in other[0]["messages"][0]["tool_calls"][0]


# --- tools -------------------------------------------------------------------------------------


def test_a_tool_is_strict_when_its_schema_can_be_said_exactly_and_only_then() -> None:
    body, warnings = sent(tools=(WEATHER, LOOSE))
    exact, loose = (tool["function"] for tool in body["tools"])
    assert (exact["strict"], exact["parameters"]) == (True, WEATHER.schema)
    assert (loose["strict"], loose["parameters"]) == (False, LOOSE.schema)
    assert warnings == []
    assert "strict" not in to("compatible", tools=(WEATHER,))[0]["tools"][0]["function"]


def test_a_tool_without_a_schema_takes_an_empty_object() -> None:
    function = to("compatible", tools=(ToolDef(name="now"),))[0]["tools"][0]["function"]
    assert function["parameters"]["type"] == "object"


@pytest.mark.parametrize("choice", ["auto", "none", "required"])
def test_a_tool_choice_is_a_word(choice: Any) -> None:
    assert sent(tools=(WEATHER,), tool_choice=choice)[0]["tool_choice"] == choice


def test_one_tool_is_named_or_is_the_only_one_shown() -> None:
    chosen: Any = {"tools": (WEATHER, LOOSE), "tool_choice": OneTool("weather")}
    body, _ = sent(**chosen)
    assert body["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    for vendor in ("llamacpp", "lmstudio", "perplexity"):
        body, warnings = to(vendor, **chosen)
        assert [tool["function"]["name"] for tool in body["tools"]] == ["weather"]
        assert (body["tool_choice"], warnings) == ("required", ["tool_choice"])


def test_a_choice_without_tools_is_not_sent() -> None:
    body, warnings = sent(tool_choice="required")
    assert ("tool_choice" in body, warnings) == (False, ["tool_choice"])


# --- structured output ---------------------------------------------------------------------------


def test_an_output_schema_is_strict_for_openai_and_as_it_is_for_servers() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    strict = sent(output_schema=schema)[0]["response_format"]["json_schema"]
    assert strict["strict"] is True
    assert strict["schema"]["additionalProperties"] is False
    plain = to("vllm", output_schema=schema)[0]["response_format"]
    assert plain == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def test_what_a_strict_schema_loses_is_warned_about() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "string", "minLength": 3}}, "required": ["n"]}
    assert sent(output_schema=schema)[1] == ["schema"]


def test_deepseek_is_told_of_a_schema_in_words() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    body, warnings = to("deepseek", output_schema=schema, system="Be brief.")
    assert body["response_format"] == {"type": "json_object"}
    assert '"integer"' in body["messages"][1]["content"]
    assert warnings == ["schema"]


# --- numbers ---------------------------------------------------------------------------------------


def test_sampling_is_sent_as_it_is_and_zero_is_a_value() -> None:
    body, warnings = sent(temperature=0.0, top_p=0.5, max_tokens=10, stop=("END", "STOP"))
    assert (body["temperature"], body["top_p"], body["stop"]) == (0.0, 0.5, ["END", "STOP"])
    assert (body["max_completion_tokens"], warnings) == (10, [])
    assert to("vllm", max_tokens=10)[0]["max_tokens"] == 10


def test_top_k_goes_to_servers_that_take_it_and_is_warned_about_elsewhere() -> None:
    assert to("vllm", top_k=5)[0]["top_k"] == 5
    body, warnings = sent(top_k=5)
    assert ("top_k" in body, warnings) == (False, ["unsupported_parameter"])


def test_metadata_goes_where_it_is_taken() -> None:
    given: Any = {"metadata": {"run": "7"}}
    assert to("fireworks", **given)[0]["metadata"] == {"run": "7"}
    assert sent(**given)[1] == ["unsupported_parameter"]
    assert sent(**given, extra={"store": True})[0]["metadata"] == {"run": "7"}
    assert to("groq", **given)[1] == ["unsupported_parameter"]


def test_extra_has_the_last_word() -> None:
    body, _ = sent(temperature=0.5, extra={"temperature": 1, "seed": 7})
    assert (body["temperature"], body["seed"]) == (1, 7)


# --- how much to think -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vendor", "model", "wanted", "fields", "warned"),
    [
        ("groq", "openai/gpt-oss-20b", Reasoning(effort="high"), {"reasoning_effort": "high"}, False),
        ("groq", "openai/gpt-oss-20b", Reasoning(effort="minimal"), {"reasoning_effort": "low"}, True),
        (
            "groq",
            "qwen/qwen3-32b",
            Reasoning(effort="high"),
            {"reasoning_effort": "default", "reasoning_format": "parsed"},
            True,
        ),
        ("together", "m", Reasoning(effort="none"), {"reasoning": {"enabled": False}}, False),
        (
            "deepseek",
            "m",
            Reasoning(effort="low"),
            {"thinking": {"type": "enabled"}, "reasoning_effort": "low"},
            False,
        ),
        ("deepseek", "m", Reasoning(effort="none"), {"thinking": {"type": "disabled"}}, False),
        ("openrouter", "m", Reasoning(effort="low"), {"reasoning": {"effort": "low"}}, False),
        (
            "openrouter",
            "m",
            Reasoning(effort="low", budget_tokens=500),
            {"reasoning": {"max_tokens": 500}},
            False,
        ),
        ("fireworks", "m", Reasoning(budget_tokens=500), {"reasoning_effort": 500}, False),
        ("fireworks", "gpt-oss-120b", Reasoning(budget_tokens=500), {"reasoning_effort": "low"}, True),
        ("xai", "grok-4.3", Reasoning(effort="none"), {"reasoning_effort": "none"}, False),
        ("xai", "grok-4.20-0309-reasoning", Reasoning(effort="low"), {}, True),
        ("cerebras", "gpt-oss-120b", Reasoning(effort="none"), {"reasoning_effort": "low"}, True),
        (
            "vllm",
            "m",
            Reasoning(effort="medium"),
            {"chat_template_kwargs": {"enable_thinking": True}, "reasoning_effort": "medium"},
            False,
        ),
        (
            "llamacpp",
            "m",
            Reasoning(effort="none"),
            {"chat_template_kwargs": {"enable_thinking": False}},
            False,
        ),
        ("compatible", "m", Reasoning(budget_tokens=9_000), {"reasoning_effort": "high"}, True),
    ],
)
def test_thinking_is_asked_for_in_each_vendors_words(
    vendor: str, model: str, wanted: Reasoning, fields: dict[str, object], warned: bool
) -> None:
    plain, _ = to(vendor, model=model)
    body, warnings = to(vendor, model=model, thinking=wanted)
    assert {name: body[name] for name in body.keys() - plain.keys()} == fields
    assert bool(warnings) is warned


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high"])
def test_openai_takes_every_effort(effort: Any) -> None:
    assert sent(thinking=Reasoning(effort=effort))[0]["reasoning_effort"] == effort


# --- one after the other -----------------------------------------------------------------------------


def test_the_same_thing_is_warned_about_once_however_often_it_happens() -> None:
    said = [thought("anthropic") for _ in range(5)]
    assert to("groq", *said)[1] == ["thinking_dropped"]


@pytest.mark.parametrize(("made_up", "sent_as"), [("my tool é", "my_tool__"), ("", "_"), ("a.b", "a_b")])
def test_a_name_that_a_model_made_up_does_not_spoil_the_conversation(made_up: str, sent_as: str) -> None:
    said = messages_of(
        Message.user("Hi"),
        Message.assistant(ToolCall("c_1", made_up, "{}")),
        Message.tool(ToolResult("c_1", made_up, (Text("there is no such tool"),), "error")),
    )
    assert said[1]["tool_calls"][0]["function"]["name"] == sent_as


@pytest.mark.parametrize("vendor", ["compatible", "deepseek", "fireworks", "openrouter"])
def test_a_budget_of_nothing_is_no_thinking(vendor: str) -> None:
    body, warnings = to(vendor, thinking=Reasoning(budget_tokens=0))
    assert (body, warnings) == to(vendor, thinking=Reasoning(effort="none"))


def test_the_name_of_a_tool_that_there_is_goes_back_as_it_is() -> None:
    """Models also call `functions.weather` where there is `weather`: https://github.com/microsoft/semantic-kernel/issues/5825."""
    tool = ToolDef(name="files.read")
    said = sent(Message.user("Hi"), Message.assistant(ToolCall("c_1", "files.read", "{}")), tools=(tool,))[0]
    assert said["messages"][1]["tool_calls"][0]["function"]["name"] == "files.read"
