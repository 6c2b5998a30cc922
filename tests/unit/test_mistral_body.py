"""Requests to Mistral, with the types of its own library and the rules of its service as judges."""

from __future__ import annotations

import re
from base64 import b64encode
from itertools import pairwise
from time import thread_time
from typing import Any

import msgspec
import pytest
from mistralai.client.models import ChatCompletionStreamRequest

from gnomon.errors import BadRequest
from gnomon.providers._chat_body import chat_body
from gnomon.providers._mistral import CHUNKS_META
from gnomon.providers._mistral_messages import MistralMessages, id_of_nine, quirks_for
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

MODEL = "mistral-medium-3-5"
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
CALL = ToolCall("D681PevKs", "weather", '{"city":"Paris"}')
RESULT = ToolResult("D681PevKs", "weather", (Text("18 °C"),))


def sent(
    *messages: Message, model: str = MODEL, extra: dict[str, object] | None = None, **fields: Any
) -> tuple[dict[str, Any], list[str]]:
    """The body and the codes of its warnings."""
    request = Request(messages=messages or (Message.user("Hi"),), **fields)
    body, warnings = chat_body(
        request,
        vendor="mistral",
        model=model,
        quirks=quirks_for(model),
        extra=extra or {},
        messages=MistralMessages,
    )
    made = read_as(ChatCompletionStreamRequest, body)
    expect_order(made["messages"])
    return made, [warning.code for warning in warnings]


def messages_of(*messages: Message, **fields: Any) -> list[dict[str, Any]]:
    body, warnings = sent(*messages, **fields)
    assert warnings == []
    return body["messages"]


FOLLOWERS = {
    "system": {"user", "assistant"},
    "user": {"user", "assistant"},
    "assistant": {"assistant", "user", "tool"},
    "tool": {"assistant", "tool"},
}


def expect_order(messages: list[dict[str, Any]]) -> None:
    """What the service checks of a conversation, by mistral-common (protocol/instruct/validator.py)."""
    for before, after in pairwise(messages):
        assert after["role"] in FOLLOWERS[before["role"]], f"{after['role']} after {before['role']}"
    last = messages[-1]
    assert last["role"] in ("user", "tool") or last.get("prefix") or len(messages) == 1
    for message in messages:
        calls = message.get("tool_calls", [])
        for call_id in [message.get("tool_call_id"), *(call["id"] for call in calls)]:
            assert call_id is None or re.fullmatch(r"[a-zA-Z0-9]{9}", call_id)
        for name in [message.get("name"), *(call["function"]["name"] for call in calls)]:
            assert name is None or re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)


# --- messages --------------------------------------------------------------------------


def test_words_are_sent_as_they_are() -> None:
    body, warnings = sent(
        Message.user("Hi"), Message.assistant("Hello."), Message.user("Bye"), system="Be brief"
    )
    assert body == {
        "model": MODEL,
        "stream": True,
        "messages": [
            {"role": "system", "content": "Be brief"},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Bye"},
        ],
    }
    assert warnings == []


def test_instructions_in_the_middle_are_moved_to_the_beginning() -> None:
    body, warnings = sent(
        Message.user("Hi"),
        Message.assistant("Hello."),
        Message.system("In French"),
        Message.user("Bye"),
        system="A",
    )
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "user"]
    assert body["messages"][0]["content"] == "A\n\nIn French"
    assert warnings == ["moved"]


def test_a_call_and_its_result_are_sent() -> None:
    made = messages_of(Message.user("?"), Message.assistant(CALL), Message.tool(RESULT))
    assert made[1:] == [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "D681PevKs",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city":"Paris"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "D681PevKs", "name": "weather", "content": "18 °C"},
    ]


def test_words_before_a_call_are_sent_with_it() -> None:
    made = messages_of(Message.user("?"), Message.assistant("Let me see.", CALL), Message.tool(RESULT))
    assert made[1]["content"] == "Let me see."
    assert len(made[1]["tool_calls"]) == 1


@pytest.mark.parametrize(
    "call_id", ["call_0fypS1hVX", "toolu_01A09q90qw90lq917835lq9", "x", "", "nine-char", "é" * 9]
)
def test_a_foreign_id_becomes_one_of_nine_for_the_call_and_its_result_alike(call_id: str) -> None:
    body, warnings = sent(
        Message.user("?"),
        Message.assistant(ToolCall(call_id, "weather", "{}")),
        Message.tool(ToolResult(call_id, "weather", (Text("18 °C"),))),
    )
    made = body["messages"]
    assert warnings == ["ids_rewritten"]
    assert made[1]["tool_calls"][0]["id"] == made[2]["tool_call_id"] == id_of_nine(call_id)
    assert made[2]["tool_call_id"] != call_id


def test_ids_stay_apart_and_stay_the_same() -> None:
    ids = [f"call_{number}" for number in range(20_000)]
    assert len({id_of_nine(call_id) for call_id in ids}) == len(ids)
    assert id_of_nine("call_0") == "mupIKT56D"
    assert id_of_nine("D681PevKs") == "D681PevKs"


def test_a_name_that_another_vendor_took_is_made_fit() -> None:
    call = ToolCall("D681PevKs", "files.read it", "{}")
    made = messages_of(
        Message.user("?"),
        Message.assistant(call),
        Message.tool(ToolResult("D681PevKs", "files.read it", (Text("a"),))),
    )
    assert made[1]["tool_calls"][0]["function"]["name"] == made[2]["name"] == "files_read_it"


def test_between_a_tool_and_the_user_the_model_speaks() -> None:
    body, warnings = sent(
        Message.user("?"), Message.assistant(CALL), Message.tool(RESULT), Message.user("Well?")
    )
    assert [message["role"] for message in body["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]
    assert body["messages"][3]["content"]
    assert warnings == ["rewritten"]


def test_a_conversation_that_ends_with_the_model_is_a_prefix() -> None:
    body, warnings = sent(Message.user("Capital of France?"), Message.assistant("The capital is"))
    assert body["messages"][-1] == {"role": "assistant", "content": "The capital is", "prefix": True}
    assert warnings == ["prefix"]


def test_a_message_of_nothing_is_left_out() -> None:
    made = messages_of(Message.user("Hi"), Message.assistant(Text("")), Message.user("Still there?"))
    assert [message["role"] for message in made] == ["user", "user"]


def test_a_call_that_a_limit_cut_off_is_sent_as_json() -> None:
    cut = ToolCall("D681PevKs", "weather", '{"city":"Par', truncated=True)
    body, warnings = sent(Message.user("?"), Message.assistant(cut), Message.tool(RESULT))
    arguments = body["messages"][1]["tool_calls"][0]["function"]["arguments"]
    assert msgspec.json.decode(arguments) == {"cut_off": '{"city":"Par'}
    assert warnings == ["arguments_rewritten"]


def test_a_result_that_failed_without_a_word_says_so() -> None:
    made = messages_of(
        Message.user("?"),
        Message.assistant(CALL),
        Message.tool(ToolResult("D681PevKs", "weather", (), "denied")),
    )
    assert made[2]["content"] == "denied"


def test_the_name_of_a_speaker_is_not_sent() -> None:
    body, warnings = sent(Message(role="user", content=(Text("Hi"),), name="Ann"))
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert warnings == ["unsupported_parameter"]


def test_an_unknown_part_is_not_sent() -> None:
    body, warnings = sent(Message(role="user", content=(Text("Hi"), UnknownPart(kind="hologram"))))
    assert body["messages"] == [{"role": "user", "content": "Hi"}]
    assert warnings == ["unknown_part"]


# --- thinking --------------------------------------------------------------------------


def test_its_own_thinking_returns_as_a_chunk() -> None:
    thought = Thinking("17 * 20 is 340", signature="c2ln", provider="mistral", model=MODEL)
    made = messages_of(Message.user("?"), Message.assistant(thought, "391"), Message.user("And times 3?"))
    assert made[1]["content"] == [
        {"type": "thinking", "thinking": [{"type": "text", "text": "17 * 20 is 340"}], "signature": "c2ln"},
        {"type": "text", "text": "391"},
    ]


def test_thinking_before_a_call_returns_with_it() -> None:
    thought = Thinking("I must look", provider="mistral", model=MODEL)
    made = messages_of(Message.user("?"), Message.assistant(thought, CALL), Message.tool(RESULT))
    assert made[1]["content"] == [{"type": "thinking", "thinking": [{"type": "text", "text": "I must look"}]}]
    assert made[1]["tool_calls"][0]["id"] == "D681PevKs"


def test_thinking_of_several_chunks_returns_as_it_was() -> None:
    chunks = '[{"type":"text","text":"See "},{"type":"reference","reference_ids":[0, 1]}]'
    thought = Thinking("See ", provider="mistral", model=MODEL, meta={CHUNKS_META: chunks})
    made = messages_of(Message.user("?"), Message.assistant(thought, "391"), Message.user("So?"))
    assert made[1]["content"][0] == {"type": "thinking", "thinking": msgspec.json.decode(chunks)}


def test_references_return_with_the_text_they_stood_in() -> None:
    cited = '{"type":"reference","reference_ids":[0]}'
    chunks = '[{"type":"text","text":"In Oslo "},' + cited + ',{"type":"text","text":"."}]'
    said = Text("In Oslo .", meta={CHUNKS_META: chunks})
    made = messages_of(Message.user("?"), Message.assistant(said), Message.user("So?"))
    assert made[1]["content"] == msgspec.json.decode(chunks)


@pytest.mark.parametrize(("provider", "model"), [("anthropic", MODEL), ("mistral", "mistral-small-latest")])
def test_thinking_of_another_model_is_dropped(provider: str, model: str) -> None:
    thought = Thinking("hm", signature="s", provider=provider, model=model)
    body, warnings = sent(Message.user("?"), Message.assistant(thought, "391"), Message.user("So?"))
    assert body["messages"][1] == {"role": "assistant", "content": "391"}
    assert warnings == ["thinking_dropped"]


@pytest.mark.parametrize(
    ("model", "wanted", "word", "warnings"),
    [
        (MODEL, Reasoning(effort="high"), "high", []),
        (MODEL, Reasoning(effort="none"), "none", []),
        (MODEL, Reasoning(budget_tokens=0), "none", []),
        (MODEL, Reasoning(effort="low"), "high", ["thinking_effort"]),
        (MODEL, Reasoning(effort="minimal"), "none", ["thinking_effort"]),
        (MODEL, Reasoning(budget_tokens=4000), "high", ["thinking_budget", "thinking_effort"]),
        ("mistral-large-4-0", Reasoning(effort="low"), "low", []),
        ("mistral-large-4", Reasoning(effort="medium"), "medium", []),
        ("zai-glm-5-3", Reasoning(effort="none"), "low", ["thinking_effort"]),
    ],
)
def test_how_much_to_think_is_said_in_words_that_the_model_knows(
    model: str, wanted: Reasoning, word: str, warnings: list[str]
) -> None:
    body, said = sent(model=model, thinking=wanted)
    assert body["reasoning_effort"] == word
    assert said == warnings


# --- tools and formats -----------------------------------------------------------------


def test_a_tool_is_strict_only_where_that_changes_nothing() -> None:
    body, warnings = sent(tools=(WEATHER, LOOSE))
    strict, loose = (tool["function"] for tool in body["tools"])
    assert strict == {
        "name": "weather",
        "description": "The weather of a city",
        "strict": True,
        "parameters": WEATHER.schema,
    }
    assert loose["strict"] is False
    assert loose["parameters"] == LOOSE.schema
    assert warnings == []


@pytest.mark.parametrize(
    ("choice", "word"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        (OneTool("weather"), {"type": "function", "function": {"name": "weather"}}),
    ],
)
def test_a_tool_is_chosen(choice: Any, word: object) -> None:
    body, _ = sent(tools=(WEATHER,), tool_choice=choice)
    assert body["tool_choice"] == word


def test_an_answer_is_held_to_a_schema() -> None:
    body, warnings = sent(output_schema=WEATHER.schema)
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": WEATHER.schema, "strict": True},
    }
    assert warnings == []


def test_numbers_are_sent_under_the_vendors_names() -> None:
    body, warnings = sent(
        temperature=0.0, top_p=0.5, top_k=9, max_tokens=64, stop=("END",), metadata={"user": "7"}
    )
    assert {name: body[name] for name in body.keys() - {"model", "messages", "stream"}} == {
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 9,
        "max_tokens": 64,
        "stop": ["END"],
        "metadata": {"user": "7"},
    }
    assert warnings == []


def test_what_the_user_adds_is_in_the_body() -> None:
    body, _ = sent(extra={"random_seed": 7, "safe_prompt": True, "prompt_cache_key": "k"})
    assert (body["random_seed"], body["safe_prompt"], body["prompt_cache_key"]) == (7, True, "k")


# --- media -----------------------------------------------------------------------------


def test_media_are_sent_from_addresses() -> None:
    made = messages_of(
        Message.user(
            "Look",
            Image(url="https://a.example/b.png"),
            Audio(url="https://a.example/b.mp3"),
            File(url="https://a.example/b.pdf", name="b.pdf"),
        )
    )
    assert made[0]["content"] == [
        {"type": "text", "text": "Look"},
        {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
        {"type": "input_audio", "input_audio": "https://a.example/b.mp3"},
        {"type": "document_url", "document_url": "https://a.example/b.pdf", "document_name": "b.pdf"},
    ]


def test_media_are_sent_from_bytes() -> None:
    made = messages_of(Message.user(Image(data=PNG), Audio(data=WAV), File(data=PDF)))
    assert made[0]["content"] == [
        SHOWN,
        {"type": "input_audio", "input_audio": b64encode(WAV).decode()},
        {
            "type": "document_url",
            "document_url": f"data:application/pdf;base64,{b64encode(PDF).decode()}",
        },
    ]


def test_an_image_that_is_too_large_or_of_another_kind_is_refused() -> None:
    with pytest.raises(BadRequest, match=r"12 MB.*10 MB"):
        sent(Message.user(Image(data=PNG + b"0" * 12_000_000)))
    with pytest.raises(BadRequest, match="image/bmp"):
        sent(Message.user(Image(data=b"BM", media_type="image/bmp")))


def test_an_image_of_a_tool_stays_in_its_result() -> None:
    made = messages_of(
        Message.user("?"),
        Message.assistant(CALL),
        Message.tool(ToolResult("D681PevKs", "weather", (Text("A map"), Image(data=PNG)))),
    )
    assert made[2]["content"] == [{"type": "text", "text": "A map"}, SHOWN]


def test_a_document_of_a_tool_is_moved() -> None:
    body, warnings = sent(
        Message.user("?"),
        Message.assistant(CALL),
        Message.tool(ToolResult("D681PevKs", "weather", (File(data=PDF, name="a.pdf"),))),
    )
    roles = [message["role"] for message in body["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert body["messages"][-1]["content"][1]["type"] == "document_url"
    assert warnings == ["moved", "rewritten"]


def test_a_tools_image_that_cannot_be_sent_is_told_of() -> None:
    body, warnings = sent(
        Message.user("?"),
        Message.assistant(CALL),
        Message.tool(ToolResult("D681PevKs", "weather", (Image(data=b"BM", media_type="image/bmp"),))),
    )
    assert "image/bmp" in body["messages"][2]["content"][0]["text"]
    assert warnings == ["media_left_out"]


# --- what it costs ---------------------------------------------------------------------


def test_a_long_conversation_is_written_in_no_time() -> None:
    def took(count: int) -> float:
        pairs = [(Message.user(f"Ask {n}"), Message.assistant(f"Say {n}")) for n in range(count // 2)]
        messages = (*(message for pair in pairs for message in pair), Message.user("?"))
        request = Request(messages=messages)
        start = thread_time()
        chat_body(
            request,
            vendor="mistral",
            model=MODEL,
            quirks=quirks_for(MODEL),
            extra={},
            messages=MistralMessages,
        )
        return thread_time() - start

    assert min(took(1000) for _ in range(20)) < 0.005
