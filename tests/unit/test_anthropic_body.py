"""What Anthropic is sent, with the types of its own library as the judge."""

from __future__ import annotations

from base64 import b64decode, b64encode
from time import process_time
from typing import Any

import msgspec
import pytest
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.message_create_params import MessageCreateParamsStreaming

from gnomon.errors import BadRequest
from gnomon.providers._messages_body import Ways, body_of, count_body_of
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
from sdk_types import read_as

MODEL = "claude-opus-5-5"
OLD = "claude-haiku-4-5"
PNG = b"\x89PNG\r\n\x1a\n and so on"
PDF = b"%PDF-1.7 and so on"
MARK = {"type": "ephemeral"}
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
CALL = ToolCall("toolu_1", "weather", '{"city":  "Paris"}')
SEARCH = UnknownPart(
    "anthropic.server_tool_use",
    {"json": '{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query": "x"}}'},
)
FOUND = UnknownPart(
    "anthropic.web_search_tool_result",
    {"json": '{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}'},
)


def sent(request: Request, *, model: str = MODEL, **ways: Any) -> tuple[dict[str, Any], list[str]]:
    """The body, which the library must know, and the codes of the warnings; unmarked unless asked for."""
    body, warnings = body_of(request, model, Ways(**{"cache": False, **ways}))
    return read_as(MessageCreateParamsStreaming, body), [warning.code for warning in warnings]


def asked(*parts: Part | str, **fields: Any) -> Request:
    return Request(messages=(Message.user(*parts or ("Hello",)),), **fields)


def turns(*messages: Message, model: str = MODEL) -> list[Any]:
    return sent(Request(messages=messages), model=model)[0]["messages"]


def codes(*messages: Message, model: str = MODEL) -> list[str]:
    return sent(Request(messages=messages), model=model)[1]


def thought(
    text: str = "Well.", signature: str | None = "Ev+/=", model: str = MODEL, **more: Any
) -> Thinking:
    return Thinking(text, signature, provider="anthropic", model=model, **more)


# --- the whole ---------------------------------------------------------------------


def test_a_plain_question_is_streamed() -> None:
    body, warnings = sent(asked("Hello", system="Be brief."))
    assert body == {
        "model": MODEL,
        "system": [{"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 64_000,
        "stream": True,
    }
    assert warnings == []


def test_a_conversation_that_says_nothing_is_refused() -> None:
    with pytest.raises(BadRequest, match="nothing to send"):
        sent(asked(" \n"))


def test_half_a_character_is_refused_in_a_sentence() -> None:
    with pytest.raises(BadRequest, match="half a character"):
        sent(asked("\ud83d"))


def test_extra_wins_and_is_put_together_with_what_is_there() -> None:
    searching = {"type": "web_search_20250305", "name": "web_search"}
    extra = {"output_config": {"effort": "max"}, "tools": [searching], "max_tokens": 9}
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    body, _ = sent(asked(tools=(WEATHER,), output_schema=schema), extra=extra)
    assert body["max_tokens"] == 9
    assert body["output_config"]["effort"] == "max"
    assert body["output_config"]["format"]["schema"]["required"] == ["n"]
    assert [tool["name"] for tool in body["tools"]] == ["weather", "web_search"]


def test_another_way_to_think_in_extra_takes_the_place_of_ours() -> None:
    request = asked(thinking=Reasoning(effort="low"))
    body, _ = sent(request, model="claude-opus-5", extra={"thinking": {"type": "disabled"}})
    assert body["thinking"] == {"type": "disabled"}


def test_tokens_are_counted_of_the_conversation_and_the_tools() -> None:
    body = count_body_of(asked("Hello", tools=(WEATHER,)), MODEL, Ways())
    read = read_as(MessageCountTokensParams, body)
    assert read.keys() == {"model", "messages", "tools"}


# --- turns -------------------------------------------------------------------------


def test_turns_of_one_role_become_one() -> None:
    assert turns(Message.user("A"), Message.user("B"), Message.assistant("C"), Message.user("D")) == [
        {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]},
        {"role": "assistant", "content": "C"},
        {"role": "user", "content": "D"},
    ]


@pytest.mark.parametrize("blank", ["", " ", "\n\n\t"])
def test_blank_texts_are_left_out(blank: str) -> None:
    said = turns(
        Message.user("A", blank), Message.assistant(blank, CALL), Message.tool(ToolResult.of(CALL, blank))
    )
    assert said[0]["content"] == [{"type": "text", "text": "A"}]
    assert [block["type"] for block in said[1]["content"]] == ["tool_use"]
    assert said[2]["content"] == [{"type": "tool_result", "tool_use_id": "toolu_1"}]
    assert (
        turns(Message.user("A"), Message.assistant(blank), Message.user("B"))[0]["content"][1]["text"] == "B"
    )


def test_the_user_speaks_first() -> None:
    messages = (Message.assistant("Good morning."), Message.user("Hello"))
    assert [turn["role"] for turn in turns(*messages)] == ["user", "assistant", "user"]
    assert codes(*messages) == ["turn_added"]


def test_an_answer_at_the_end_is_begun_where_the_model_goes_on_from_it() -> None:
    messages = (Message.user("A"), Message.assistant("The answer is \n"))
    assert turns(*messages, model=OLD)[-1] == {
        "role": "assistant", "content": [{"type": "text", "text": "The answer is"}],
    }  # fmt: skip
    assert codes(*messages, model=OLD) == []


def test_elsewhere_the_model_is_asked_to_go_on() -> None:
    messages = (Message.user("A"), Message.assistant("The answer is "))
    assert [turn["role"] for turn in turns(*messages)] == ["user", "assistant", "user"]
    assert codes(*messages) == ["turn_added"]


def test_names_of_speakers_are_warned_about() -> None:
    assert codes(Message.user("Hello", name="ada")) == ["name_dropped"]


def test_a_conversation_that_has_grown_begins_with_the_same_bytes() -> None:
    """What prompt caches and signed thinking hold on to."""
    story = [
        Message.system("Be kind."),
        Message.user("A"),
        Message.assistant(thought(), "B", ToolCall("1.1", "a.b", "{}")),
        Message.tool(ToolResult("1.1", "a.b", (Text("C"),))),
        Message.system("Rhyme from here."),
        Message.assistant(ToolCall("1.1", "weather", "[1]")),
        Message.tool(ToolResult("1.1", "weather", (Text("D"),), "error")),
        Message.assistant("E"),
        Message.user("F"),
    ]
    whole = turns(*story)
    for length in (2, 4, 5, 7, 9):
        part = turns(*story[:length])
        assert msgspec.json.encode(part) == msgspec.json.encode(whole[: len(part)])


# --- instructions ------------------------------------------------------------------


def test_instructions_stand_in_front_in_their_order() -> None:
    request = Request(messages=(Message.system("B", "C"), Message.user("Hello")), system="A")
    body, warnings = sent(request)
    assert [block["text"] for block in body["system"]] == ["A", "B", "C"]
    assert warnings == []


def test_instructions_in_the_middle_keep_their_place() -> None:
    messages = (Message.user("A"), Message.system("S"), Message.assistant("B"), Message.user("C"))
    assert turns(*messages)[1] == {"role": "system", "content": [{"type": "text", "text": "S"}]}
    assert [turn["role"] for turn in turns(*messages)] == ["user", "system", "assistant", "user"]
    assert codes(*messages) == []


def test_instructions_before_a_users_turn_follow_it() -> None:
    messages = (Message.user("A"), Message.assistant("B"), Message.system("S"), Message.user("C"))
    assert [turn["role"] for turn in turns(*messages)] == ["user", "assistant", "user", "system"]
    assert codes(*messages) == ["system_moved"]


def test_instructions_never_come_between_calls_and_results() -> None:
    story = (Message.user("A"), Message.assistant(CALL), Message.system("S"))
    messages = (*story, Message.tool(ToolResult.of(CALL, "18")))
    assert [turn["role"] for turn in turns(*messages)] == ["user", "assistant", "user", "system"]


@pytest.mark.parametrize("model", ["claude-sonnet-5", OLD])
def test_instructions_go_to_the_front_where_a_model_takes_them_nowhere_else(model: str) -> None:
    request = Request(
        messages=(Message.user("A"), Message.system("S"), Message.assistant("B"), Message.user("C"))
    )
    body, warnings = sent(request, model=model)
    assert body["system"] == [{"type": "text", "text": "S"}]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert warnings == ["system_moved"]


# --- calls and results -------------------------------------------------------------


def test_arguments_go_back_as_they_came() -> None:
    body, _ = body_of(Request(messages=(Message.user("A"), Message.assistant(CALL))), MODEL, Ways())
    assert b'"input":{"city":  "Paris"}' in body


@pytest.mark.parametrize("arguments", ['{"city": "Pa', "[1]", "3", '"x"', "null", "{} {}"])
def test_arguments_that_are_no_object_are_shown_inside_of_one(arguments: str) -> None:
    call = ToolCall("toolu_1", "weather", arguments, truncated=True)
    said = turns(Message.user("A"), Message.assistant(call), Message.tool(ToolResult.of(call, "cut off")))
    assert said[1]["content"][0]["input"] == {"INVALID_JSON": arguments}


def test_results_of_one_round_stand_first_in_one_turn() -> None:
    second = ToolCall("toolu_2", "weather", "{}")
    said = turns(
        Message.user("A"),
        Message.assistant("Let me look.", CALL, second),
        Message.tool(ToolResult.of(CALL, "18")),
        Message.user("Hurry."),
        Message.tool(ToolResult.of(second, "19")),
    )
    assert len(said) == 3
    assert [block["type"] for block in said[2]["content"]] == ["tool_result", "tool_result", "text"]
    assert [block.get("tool_use_id") for block in said[2]["content"]] == ["toolu_1", "toolu_2", None]


@pytest.mark.parametrize(
    ("status", "failed"),
    [("ok", False), ("error", True), ("denied", True), ("cancelled", True), ("timeout", True),
     ("truncated", True), ("interrupted", True), ("unknown", True)],
)  # fmt: skip
def test_a_result_says_whether_it_failed(status: ToolStatus, failed: bool) -> None:
    said = turns(
        Message.user("A"), Message.assistant(CALL), Message.tool(ToolResult.of(CALL, "x", status=status))
    )
    assert said[2]["content"][0].get("is_error", False) is failed


def test_a_failure_without_words_says_what_it_is() -> None:
    said = turns(
        Message.user("A"), Message.assistant(CALL), Message.tool(ToolResult.of(CALL, status="denied"))
    )
    assert said[2]["content"][0]["content"] == "denied"


def test_a_result_may_hold_images_and_files() -> None:
    result = ToolResult.of(CALL, "A map:", Image(data=PNG), File(data=PDF))
    said = turns(Message.user("A"), Message.assistant(CALL), Message.tool(result))
    assert [block["type"] for block in said[2]["content"][0]["content"]] == ["text", "image", "document"]


def test_images_of_a_failed_result_follow_it() -> None:
    """The vendor takes text only in a result that is an error."""
    result = ToolResult.of(CALL, "Broken:", Image(data=PNG), status="error")
    messages = (Message.user("A"), Message.assistant(CALL), Message.tool(result))
    content = turns(*messages)[2]["content"]
    assert [block["type"] for block in content] == ["tool_result", "image"]
    assert content[0]["content"] == "Broken:"
    assert codes(*messages) == ["part_moved"]


def test_ids_of_other_vendors_are_rewritten_alike_and_never_twice() -> None:
    calls = [ToolCall(name, "weather", "{}") for name in ("a.b", "a_b", "a/b", "")]
    results = [ToolResult.of(call, "x") for call in calls]
    said = turns(Message.user("A"), Message.assistant(*calls), Message.tool(*results))
    ids = [block["id"] for block in said[1]["content"]]
    assert ids == ["a_b", "a_b_2", "a_b_3", "call"]
    assert [block["tool_use_id"] for block in said[2]["content"]] == ids


def test_ids_that_another_vendor_uses_again_are_told_apart() -> None:
    call = ToolCall("call_0", "weather", "{}")
    said = turns(
        Message.user("A"),
        Message.assistant(call),
        Message.tool(ToolResult.of(call, "first")),
        Message.assistant(call),
        Message.tool(ToolResult.of(call, "second")),
    )
    assert said[1]["content"][0]["id"] == said[2]["content"][0]["tool_use_id"] == "call_0"
    assert said[3]["content"][0]["id"] == said[4]["content"][0]["tool_use_id"] == "call_0_2"


def test_a_name_that_a_model_made_up_does_not_spoil_the_conversation() -> None:
    call = ToolCall("c1", "functions.weather: now!", "{}")
    said = turns(
        Message.user("A"), Message.assistant(call), Message.tool(ToolResult.of(call, "no such tool"))
    )
    assert said[1]["content"][0]["name"] == "functions_weather__now_"


def test_a_result_without_its_call_is_shown_as_what_it_is() -> None:
    messages = (Message.user("A"), Message.tool(ToolResult("gone", "weather", (Text("18"),))))
    assert turns(*messages) == [
        {"role": "user", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "18"}]}
    ]
    assert codes(*messages) == ["result_moved"]


# --- thinking that goes back -------------------------------------------------------


def test_thinking_returns_in_its_place_and_unchanged() -> None:
    redacted = thought("", None, redacted="EvP8+/==")
    said = turns(
        Message.user("A"),
        Message.assistant(thought(" One ", "Ee+/"), "B", thought("", "Ef=="), redacted, CALL),
        Message.tool(ToolResult.of(CALL, "18")),
    )
    assert said[1]["content"] == [
        {"type": "thinking", "thinking": " One ", "signature": "Ee+/"},
        {"type": "text", "text": "B"},
        {"type": "thinking", "thinking": "", "signature": "Ef=="},
        {"type": "redacted_thinking", "data": "EvP8+/=="},
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}},
    ]


@pytest.mark.parametrize(
    "foreign",
    [
        thought(model="claude-opus-5"),
        Thinking("Hm.", "sig", provider="openai", model=MODEL),
        Thinking("Hm.", "sig"),
        thought(signature=None),
    ],
)
def test_thinking_of_another_is_left_out_with_a_warning(foreign: Thinking) -> None:
    messages = (Message.user("A"), Message.assistant(foreign, "B"), Message.user("C"))
    assert turns(*messages)[1]["content"] == [{"type": "text", "text": "B"}]
    assert codes(*messages) == ["thinking_dropped"]


def test_an_answer_of_nothing_but_thinking_gets_an_end() -> None:
    messages = (Message.user("A"), Message.assistant(thought()), Message.user("Go on."))
    assert [block["type"] for block in turns(*messages)[1]["content"]] == ["thinking", "text"]
    assert codes(*messages) == ["turn_added"]


# --- blocks of the vendor's own ----------------------------------------------------


def test_blocks_of_the_vendors_tools_return_byte_for_byte() -> None:
    messages = (Message.user("A"), Message.assistant(SEARCH, FOUND, "B"), Message.user("C"))
    body, warnings = body_of(Request(messages=messages), MODEL, Ways())
    for part in (SEARCH, FOUND):
        assert str(part.data["json"]).encode() in body
    assert warnings == ()


def test_a_paused_turn_goes_back_as_it_is() -> None:
    messages = (Message.user("A"), Message.assistant("Let me look.", SEARCH))
    assert [block["type"] for block in turns(*messages)[-1]["content"]] == ["text", "server_tool_use"]
    assert codes(*messages) == []


def test_a_paused_call_that_was_not_continued_is_left_out() -> None:
    messages = (Message.user("A"), Message.assistant("Let me look.", SEARCH), Message.user("Never mind."))
    assert turns(*messages)[1]["content"] == [{"type": "text", "text": "Let me look."}]
    assert codes(*messages) == ["part_dropped"]
    alone = (Message.user("A"), Message.assistant(SEARCH), Message.user("Never mind."))
    assert all(turn["role"] == "user" for turn in turns(*alone))


def test_a_call_of_ours_inside_of_theirs_keeps_both() -> None:
    caller = '{"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}'
    call = msgspec.structs.replace(CALL, meta={"anthropic_call": caller})
    said = turns(Message.user("A"), Message.assistant(SEARCH, call), Message.tool(ToolResult.of(call, "18")))
    assert [block["type"] for block in said[1]["content"]] == ["server_tool_use", "tool_use"]
    assert said[1]["content"][1]["caller"]["tool_id"] == "srvtoolu_1"


def test_sources_go_back_with_the_text_they_belong_to() -> None:
    source = (
        '[{"type":"web_search_result_location","url":"u","title":"t",'
        '"cited_text":"c","encrypted_index":"E="}]'
    )
    part = Text("B", {"anthropic_citations": source})
    said = turns(Message.user("A"), Message.assistant(part), Message.user("C"))
    assert said[1]["content"][0]["citations"] == msgspec.json.decode(source)


@pytest.mark.parametrize(
    "part", [UnknownPart("hologram", {}), UnknownPart("anthropic.x", {"json": "{"}), Image(data=PNG)]
)
def test_what_an_answer_cannot_hold_is_left_out_with_a_warning(part: Part) -> None:
    messages = (Message.user("A"), Message.assistant("B", part), Message.user("C"))
    assert turns(*messages)[1]["content"] == [{"type": "text", "text": "B"}]
    assert codes(*messages) == ["part_dropped"]


# --- images and files --------------------------------------------------------------


@pytest.mark.parametrize(
    "part", [Image(data=PNG), Image(url="data:image/png;base64," + b64encode(PNG).decode())]
)
def test_an_image_goes_as_base64_with_its_kind(part: Image) -> None:
    source = turns(Message.user("Look.", part))[0]["content"][1]["source"]
    assert source["media_type"] == "image/png"
    assert b64decode(source["data"]) == PNG


def test_an_image_may_be_an_address() -> None:
    block = turns(Message.user(Image(url="https://example.org/a.png")))[0]["content"][0]
    assert block == {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}


def test_a_pdf_goes_as_bytes_or_as_an_address() -> None:
    by_value = File(data=PDF, name="plan.pdf")
    by_address = File(url="https://example.org/plan.pdf")
    first, second = turns(Message.user(by_value, by_address))[0]["content"]
    assert first["title"] == "plan.pdf"
    assert b64decode(first["source"]["data"]) == PDF
    assert second["source"] == {"type": "url", "url": "https://example.org/plan.pdf"}


@pytest.mark.parametrize("media_type", ["text/plain", "text/csv; charset=utf-8", "application/json", None])
def test_a_file_of_text_goes_as_text(media_type: str | None) -> None:
    block = turns(Message.user(File(data="ä,b\n".encode(), media_type=media_type, name="t.csv")))[0][
        "content"
    ][0]
    assert block["source"] == {"type": "text", "media_type": "text/plain", "data": "ä,b\n"}


@pytest.mark.parametrize(
    "part", [File(data=PNG), File(url="https://example.org/a.png", media_type="image/png")]
)
def test_a_file_that_is_an_image_goes_as_one(part: File) -> None:
    assert turns(Message.user(part))[0]["content"][0]["type"] == "image"


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Audio(data=b"RIFF"), "audio"),
        (Audio(url="https://example.org/a.wav"), "audio"),
        (Image(data=b"<svg/>", media_type="image/svg+xml"), "image/svg"),
        (Image(data=b"?"), "unknown"),
        (Image(data=PNG + bytes(7_500_000)), "7.5 MB"),
        (File(data=PDF + bytes(24_000_000)), "24 MB"),
        (File(data=b"\xff\xfe\x00", media_type="application/zip"), "application/zip"),
        (File(url="https://example.org/a.docx"), "address"),
    ],
)
def test_what_the_vendor_does_not_read_is_refused_before_it_is_sent(part: Part, says: str) -> None:
    with pytest.raises(BadRequest, match=says) as caught:
        sent(asked("Look.", part))
    assert caught.value.vendor == "anthropic"
    assert caught.value.hint


def test_audio_of_an_earlier_turn_does_not_spoil_the_conversation() -> None:
    messages = (Message.user("Listen.", Audio(data=b"RIFF")), Message.assistant("B"), Message.user("C"))
    assert [block["type"] for block in turns(*messages)[0]["content"]] == ["text", "text"]
    assert codes(*messages) == ["part_dropped"]


# --- tools -------------------------------------------------------------------------


def test_a_tool_is_strict_where_that_changes_nothing() -> None:
    body, warnings = sent(asked(tools=(WEATHER, OPEN)))
    assert [tool["name"] for tool in body["tools"]] == ["anything", "weather"]
    assert "strict" not in body["tools"][0]
    assert body["tools"][0]["input_schema"] == OPEN.schema
    assert body["tools"][1]["strict"] is True
    assert body["tools"][1]["input_schema"] == WEATHER.schema
    assert warnings == []
    assert "strict" not in sent(asked(tools=(WEATHER,)), strict=False)[0]["tools"][0]


def test_a_request_is_strict_about_twenty_tools_and_no_more() -> None:
    tools = tuple(msgspec.structs.replace(WEATHER, name=f"tool_{n:02}") for n in range(25))
    body, _ = sent(asked(tools=tools))
    assert sum(tool.get("strict", False) for tool in body["tools"]) == 20


def test_a_request_is_strict_about_few_optional_properties() -> None:
    some = {f"p{n}": {"type": "string"} for n in range(10)}
    schema = {"type": "object", "properties": some, "additionalProperties": False}
    tools = tuple(ToolDef(name=f"tool_{n}", schema=schema) for n in range(4))
    body, _ = sent(asked(tools=tools))
    assert [tool.get("strict", False) for tool in body["tools"]] == [True, True, False, False]


def test_the_same_tools_in_another_order_are_the_same_bytes() -> None:
    one = body_of(asked(tools=(WEATHER, OPEN)), MODEL, Ways())
    assert one == body_of(asked(tools=(OPEN, WEATHER)), MODEL, Ways())


def test_a_tool_without_a_schema_takes_nothing() -> None:
    schema = sent(asked(tools=(ToolDef(name="ping"),)))[0]["tools"][0]["input_schema"]
    assert (schema["type"], schema["properties"], schema["additionalProperties"]) == ("object", {}, False)


def test_long_arguments_may_be_streamed_as_they_are_written() -> None:
    assert sent(asked(tools=(WEATHER,)), eager=True)[0]["tools"][0]["eager_input_streaming"] is True
    assert "eager_input_streaming" not in sent(asked(tools=(WEATHER,)))[0]["tools"][0]


@pytest.mark.parametrize("name", ["a.b", "", "x" * 129, "naïve"])
def test_a_tool_of_a_name_that_is_not_taken_is_refused(name: str) -> None:
    with pytest.raises(BadRequest, match="name"):
        sent(asked(tools=(ToolDef(name=name),)))


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        (OneTool("weather"), {"type": "tool", "name": "weather"}),
        (None, None),
    ],
)
def test_a_tool_may_be_chosen(choice: Any, said: Any) -> None:
    body, warnings = sent(asked(tools=(WEATHER,), tool_choice=choice), model=OLD)
    assert body.get("tool_choice") == said
    assert warnings == []


@pytest.mark.parametrize("model", [MODEL, "claude-sonnet-5-5", "claude-fable-5-2", "claude-something-newer"])
def test_where_no_tool_can_be_forced_that_is_said(model: str) -> None:
    body, warnings = sent(asked(tools=(WEATHER,), tool_choice="required"), model=model)
    assert body["tool_choice"] == {"type": "auto"}
    assert warnings == ["tool_choice"]


def test_a_choice_without_tools_is_none() -> None:
    assert "tool_choice" not in sent(asked(tool_choice="auto"))[0]


def test_a_forced_call_comes_without_thinking() -> None:
    request = asked(tools=(WEATHER,), tool_choice="required", thinking=Reasoning(effort="low"))
    body, warnings = sent(request, model="claude-opus-4-8")
    assert "thinking" not in body
    assert warnings == ["thinking"]


# --- thinking ----------------------------------------------------------------------


@pytest.mark.parametrize(("effort", "said"), [("low", "low"), ("medium", "medium"), ("high", "high")])
def test_an_effort_steers_how_much_it_thinks(effort: Any, said: str) -> None:
    body, warnings = sent(asked(thinking=Reasoning(effort=effort)))
    assert body["thinking"] == {"type": "adaptive", "display": "summarized"}
    assert body["output_config"] == {"effort": said}
    assert warnings == []


def test_the_least_effort_is_low() -> None:
    body, warnings = sent(asked(thinking=Reasoning(effort="minimal")))
    assert body["output_config"] == {"effort": "low"}
    assert warnings == ["effort"]


def test_thinking_need_not_be_shown() -> None:
    body, _ = sent(asked(thinking=Reasoning(effort="low")), show_thinking=False)
    assert body["thinking"] == {"type": "adaptive"}


@pytest.mark.parametrize(
    ("model", "off"),
    [("claude-opus-5", "disabled"), ("claude-haiku-5-5", "disabled"), ("claude-sonnet-5-5", "between_tools"),
     (OLD, "disabled"), ("claude-opus-4-8", "disabled")],
)  # fmt: skip
def test_thinking_is_turned_off_in_the_models_own_way(model: str, off: str) -> None:
    body, warnings = sent(asked(thinking=Reasoning(effort="none")), model=model)
    assert body["thinking"] == {"type": off}
    assert "output_config" not in body
    assert warnings == []


@pytest.mark.parametrize("model", [MODEL, "claude-fable-5", "claude-mythos-5-1", "claude-opus-6"])
def test_a_model_that_always_thinks_is_asked_for_little(model: str) -> None:
    body, warnings = sent(asked(thinking=Reasoning(effort="none")), model=model)
    assert "thinking" not in body
    assert body["output_config"] == {"effort": "low"}
    assert warnings == ["thinking"]


def test_a_budget_is_no_longer_kept_by_newer_models() -> None:
    body, warnings = sent(asked(thinking=Reasoning(budget_tokens=5000)))
    assert body["thinking"]["type"] == "adaptive"
    assert warnings == ["thinking"]


@pytest.mark.parametrize(
    ("thinking", "max_tokens", "budget", "most", "codes"),
    [
        (Reasoning(budget_tokens=5000), None, 5000, 37_000, []),
        (Reasoning(budget_tokens=60_000), None, 60_000, 64_000, []),
        (Reasoning(budget_tokens=90_000), None, 63_999, 64_000, ["thinking"]),
        (Reasoning(budget_tokens=5000), 8000, 5000, 8000, []),
        (Reasoning(budget_tokens=5000), 5000, 4999, 5000, ["thinking"]),
        (Reasoning(budget_tokens=100), 8000, 1024, 8000, ["thinking"]),
        (Reasoning(effort="minimal"), None, 1024, 33_024, []),
        (Reasoning(effort="high"), None, 24_000, 56_000, []),
        (Reasoning(effort="high"), 3000, 2999, 3000, []),
        (Reasoning(effort="low"), 1000, None, 1000, ["thinking"]),
    ],
)
def test_a_budget_always_leaves_room_for_the_answer(
    thinking: Reasoning, max_tokens: int | None, budget: int | None, most: int, codes: list[str]
) -> None:
    body, warnings = sent(asked(thinking=thinking, max_tokens=max_tokens), model=OLD)
    assert body["max_tokens"] == most
    assert body.get("thinking", {}).get("budget_tokens") == budget
    assert "output_config" not in body
    assert warnings == codes


def test_opus_4_5_takes_a_budget_and_an_effort() -> None:
    body, _ = sent(
        asked(thinking=Reasoning(effort="low", budget_tokens=2000)), model="claude-opus-4-5-20251101"
    )
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    assert body["output_config"] == {"effort": "low"}


def test_thinking_does_not_begin_between_calls_and_their_results() -> None:
    """A model with a budget refuses it when the calls were made without."""
    messages = (Message.user("A"), Message.assistant(CALL), Message.tool(ToolResult.of(CALL, "18")))
    request = Request(messages=messages, thinking=Reasoning(effort="low"))
    body, warnings = sent(request, model=OLD)
    assert "thinking" not in body
    assert warnings == ["thinking"]
    said = Message.assistant(thought(model=OLD), CALL)
    request = msgspec.structs.replace(request, messages=(messages[0], said, messages[2]))
    assert sent(request, model=OLD)[0]["thinking"]["type"] == "enabled"


@pytest.mark.parametrize(
    ("model", "most"),
    [(MODEL, 64_000), (OLD, 32_000), ("claude-3-7-sonnet-20250219", 16_000), ("claude-opus-4-1", 16_000),
     ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 32_000), ("claude-opus-4-5@20251101", 32_000),
     ("my-own-model", 4_096), ("claude-of-tomorrow", 32_000)],
)  # fmt: skip
def test_there_is_always_a_limit_on_the_answer(model: str, most: int) -> None:
    assert sent(asked(), model=model)[0]["max_tokens"] == most
    assert sent(asked(max_tokens=7), model=model)[0]["max_tokens"] == 7


# --- the other fields --------------------------------------------------------------


def test_an_output_schema_is_the_format_of_the_answer() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}
    body, warnings = sent(asked(output_schema=schema))
    said = body["output_config"]["format"]
    assert said["type"] == "json_schema"
    assert said["schema"]["additionalProperties"] is False
    assert "minimum" not in said["schema"]["properties"]["n"]
    assert set(warnings) == {"schema"}


@pytest.mark.parametrize("version", ["2026-10-21", "2027-01-01"])
def test_the_current_api_takes_no_temperature(version: str) -> None:
    body, warnings = sent(asked(temperature=0.0, top_p=0.5, top_k=3), model=OLD, version=version)
    assert not body.keys() & {"temperature", "top_p", "top_k"}
    assert warnings == ["sampling"]


def old_way(request: Request, model: str = OLD) -> tuple[dict[str, Any], list[str]]:
    """By the version before, whose fields the library has dropped."""
    body, warnings = body_of(request, model, Ways(version="2023-06-01"))
    return msgspec.json.decode(body), [warning.code for warning in warnings]


def test_the_version_before_takes_a_temperature() -> None:
    body, warnings = old_way(asked(temperature=0.0, top_k=3))
    assert (body["temperature"], body["top_k"], warnings) == (0.0, 3, [])


def test_temperature_and_top_p_do_not_go_together() -> None:
    body, warnings = old_way(asked(temperature=0.0, top_p=0.5))
    assert "top_p" not in body
    assert body["temperature"] == 0.0
    assert warnings == ["sampling"]


def test_nothing_is_sampled_otherwise_while_it_thinks() -> None:
    body, warnings = old_way(asked(temperature=0.0, thinking=Reasoning(effort="low")))
    assert "temperature" not in body
    assert warnings == ["sampling"]


def test_models_that_take_no_temperature_get_none() -> None:
    body, warnings = old_way(asked(temperature=0.0), MODEL)
    assert "temperature" not in body
    assert warnings == ["sampling"]


def test_stop_sequences_are_sent() -> None:
    body, warnings = sent(asked(stop=("###", "\n")))
    assert body["stop_sequences"] == ["###"]
    assert warnings == ["stop"]


def test_metadata_is_the_user() -> None:
    body, warnings = sent(asked(metadata={"user_id": "u1", "purpose": "test"}))
    assert body["metadata"] == {"user_id": "u1"}
    assert warnings == ["metadata"]


# --- the prompt cache --------------------------------------------------------------


def marked(request: Request, **ways: Any) -> list[tuple[str, Any]]:
    """Where the marks are, and what they say."""
    body, _ = sent(request, **{"cache": True, **ways})
    found = [(f"tool {tool['name']}", tool.get("cache_control")) for tool in body.get("tools", ())]
    found += [(block["text"], block.get("cache_control")) for block in body.get("system", ())]
    for turn in body["messages"]:
        blocks = turn["content"] if isinstance(turn["content"], list) else []
        found += [(block.get("text", block["type"]), block.get("cache_control")) for block in blocks]
    return [(where, mark) for where, mark in found if mark is not None]


def test_what_stays_the_same_is_marked_at_its_end() -> None:
    messages = (
        Message.user("A"),
        Message.assistant("B", CALL),
        Message.tool(ToolResult.of(CALL, "18")),
        Message.assistant("D"),
        Message.user("E", "F"),
    )
    request = Request(messages=messages, system="S", tools=(WEATHER, OPEN))
    expected = [("tool weather", MARK), ("S", MARK), ("tool_result", MARK), ("F", MARK)]
    assert marked(request) == expected
    assert marked(msgspec.structs.replace(request, messages=(*messages, Message.system("G")))) == expected


def test_marks_may_last_an_hour_or_be_left_out() -> None:
    assert marked(asked("A"), cache="1h") == [("A", {"type": "ephemeral", "ttl": "1h"})]
    assert marked(asked("A"), cache=False) == []


# --- what it costs -----------------------------------------------------------------


def test_a_long_conversation_is_written_in_about_a_millisecond() -> None:
    """A thousand messages; ten times as many cost ten times as much. The bounds are wide: machines differ."""

    def seconds(count: int) -> float:
        said = (Message.user, Message.assistant)
        request = Request(messages=tuple(said[n % 2](f"Message number {n}.") for n in range(count - 1)))
        start = process_time()
        body_of(request, MODEL, Ways())
        return process_time() - start

    small, large = (min(seconds(count) for _ in range(10)) for count in (1_001, 10_001))
    assert small < 0.01
    assert large < 40 * small


@pytest.mark.parametrize("given", [Image(data=b"no image"), Image(url="data:"), Audio(data=b"RIFF0000WAVE")])
def test_what_a_tool_gave_and_the_vendor_refuses_does_not_end_the_conversation(given: Part) -> None:
    """The result stays in the conversation, so each later request would fail as well."""
    said = (
        Message.user("Look"),
        Message.assistant(ToolCall("c_1", "weather", "{}")),
        Message.tool(ToolResult("c_1", "weather", (Text("Here:"), given))),
    )
    body, codes_ = sent(Request(messages=said))
    assert "left out" in msgspec.json.encode(body).decode()
    assert codes_ == ["part_dropped"]


@pytest.mark.parametrize("choice", ["required", OneTool("weather")])
def test_the_choice_of_a_tool_where_there_is_none_is_not_dropped_in_silence(choice: Any) -> None:
    body, codes_ = sent(asked(tool_choice=choice))
    assert "tool_choice" not in body
    assert codes_ == ["tool_choice"]
