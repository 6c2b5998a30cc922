"""The stand-ins take what the vendors' own clients send, for every documented feature, and nothing more."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from ollama import AsyncClient, ResponseError
from openai import AsyncAzureOpenAI, AsyncOpenAI

import azure_standin
import ollama_standin
from azure_standin import AzureStandIn
from ollama_standin import OllamaStandIn

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASK: Any = {"role": "user", "content": "Is it warm?"}


def said(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


# --- Ollama: the official client


async def test_ollamas_client_chats_with_every_documented_feature() -> None:
    history = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is this?", "images": [PIXEL]},
        {
            "role": "assistant",
            "thinking": "Hm.",
            "tool_calls": [{"function": {"name": "w", "arguments": {"a": {"b": [1]}}}}],
        },
        {"role": "tool", "tool_name": "w", "content": "22 °C"},
    ]
    async with OllamaStandIn() as ollama:
        reply = await AsyncClient(ollama.url).chat(
            "llama3.2",
            history,
            tools=[{"type": "function", "function": {"name": "w", "description": "d", "parameters": CITY}}],
            think=True,
            logprobs=True,
            top_logprobs=2,
            options={
                "num_ctx": 4096,
                "num_predict": 9,
                "temperature": 0,
                "top_p": 0.9,
                "min_p": 0.1,
                "stop": ["x"],
            },
            keep_alive="5m",
        )
    assert reply.message.content == "You said: 22 °C "
    assert reply.message.thinking == "Let me see."
    assert (reply.done, reply.done_reason, reply.eval_count) == (True, "stop", 5)


async def test_ollamas_client_reads_the_stream_line_by_line() -> None:
    async with OllamaStandIn() as ollama:
        stream = await AsyncClient(ollama.url).chat(
            "llama3.2", [ASK], stream=True, think="high", keep_alive=-1
        )
        parts = [part async for part in stream]
    assert "".join(part.message.content or "" for part in parts) == "You said: Is it warm? "
    assert [part.done for part in parts] == [False] * (len(parts) - 1) + [True]


async def test_ollamas_client_gets_calls_without_ids_and_answers_that_fit_a_schema() -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": CITY}}
    async with OllamaStandIn() as ollama:
        client = AsyncClient(ollama.url)
        called = await client.chat("llama3.2", [ASK], tools=[tool])
        shaped = await client.chat("llama3.2", [ASK], format=CITY)
        plain = await client.chat("llama3.2", [ASK], format="json")
    calls = called.message.tool_calls or []
    assert [(call.function.name, call.function.arguments) for call in calls] == [("weather", {"city": "x"})]
    assert json.loads(shaped.message.content or "") == {"city": "x"}
    assert json.loads(plain.message.content or "") == {}


async def test_ollamas_client_embeds_texts_in_one_request_and_in_their_order() -> None:
    async with OllamaStandIn() as ollama:
        client = AsyncClient(ollama.url)
        both = await client.embed(
            "nomic-embed-text", ["one", "two"], truncate=False, dimensions=4, keep_alive="1h"
        )
        second = await client.embed("nomic-embed-text", "two", dimensions=4, options={"num_ctx": 512})
    assert [len(vector) for vector in both.embeddings] == [4, 4]
    assert both.embeddings[1] == second.embeddings[0]
    assert both.prompt_eval_count == 2


async def test_ollamas_client_lists_and_shows_models() -> None:
    async with OllamaStandIn(["qwen3:4b"]) as ollama:
        client = AsyncClient(ollama.url)
        listed = await client.list()
        shown = await client.show("qwen3:4b")
    assert [model.model for model in listed.models] == ["qwen3:4b"]
    assert "tools" in (shown.capabilities or [])


async def test_a_model_that_ollama_has_not_pulled_is_not_found() -> None:
    async with OllamaStandIn() as ollama:
        with pytest.raises(ResponseError, match="model 'qwen9' not found") as caught:
            await AsyncClient(ollama.url).chat("qwen9", [ASK])
    assert caught.value.status_code == 404


async def test_a_chat_without_messages_only_loads_the_model() -> None:
    async with OllamaStandIn() as ollama:
        reply = await AsyncClient(ollama.url).chat("llama3.2", [])
    assert (reply.done_reason, reply.message.content) == ("load", "")


# --- Ollama: what is not documented


@pytest.mark.parametrize(
    ("method", "path", "body", "reason"),
    [
        ("GET", "/api/chat", b"", "GET /api/chat is not documented"),
        ("POST", "/v1/chat/completions", b"{}", "is not documented"),
        ("POST", "/api/chat/", b"{}", "is not documented"),
        ("POST", "/api/chat?stream=false", b"{}", "no query is documented"),
        ("GET", "/api/tags", b"{}", "has a body"),
        ("POST", "/api/chat", b"{", "not JSON"),
        ("POST", "/api/chat", b'{"model":"m","model":"m","messages":[]}', "twice"),
        (
            "POST",
            "/api/chat",
            b'{"model":"m","messages":[],"options":{"temperature":NaN}}',
            "no number of JSON",
        ),
        ("POST", "/api/show", said(name="m"), "lacks 'model'"),
        ("POST", "/api/embed", said(model="m", input=[["a"]]), "the body.input[0]"),
        ("POST", "/api/embed", said(model="m", prompt="a"), "lacks 'input'"),
        ("POST", "/api/embed", said(model="m", input="a", encoding_format="float"), "'encoding_format'"),
    ],
)
def test_what_ollama_does_not_document_is_refused(method: str, path: str, body: bytes, reason: str) -> None:
    with pytest.raises(AssertionError) as caught:
        ollama_standin.check(method, path, body)
    assert reason in str(caught.value)


def call(**function: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [{"function": function}]}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"model": ""}, "the body.model"),
        ({"temperature": 0.5}, "'temperature'"),
        ({"max_tokens": 5}, "'max_tokens'"),
        ({"tool_choice": "auto"}, "'tool_choice'"),
        ({"stream": "true"}, "true or false is expected"),
        ({"think": 1}, "the body.think"),
        ({"think": ""}, "the body.think"),
        ({"format": "yaml"}, "the body.format"),
        ({"keep_alive": "5 minutes"}, "a duration"),
        ({"keep_alive": "-1"}, "a duration"),
        ({"keep_alive": True}, "a number is expected"),
        ({"top_logprobs": 21}, "outside 0 to 20"),
        ({"options": {"max_tokens": 5}}, "'max_tokens'"),
        ({"options": {"num_ctx": 4096.5}}, "a whole number is expected"),
        ({"options": {"num_ctx": True}}, "a whole number is expected"),
        ({"options": {"stop": [1]}}, "the body.options.stop[0]"),
        ({"options": {"temperature": None}}, "a number is expected"),
        ({"messages": {}}, "a list is expected"),
        ({"messages": [{"role": "developer", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "text is expected"),
        ({"messages": [{"role": "user"}]}, "lacks 'content'"),
        ({"messages": [{**ASK, "images": ["data:image/png;base64,aGk="]}]}, "base64 is expected"),
        ({"messages": [{**ASK, "tool_name": "w"}]}, "'tool_name'"),
        ({"messages": [{"role": "assistant"}]}, "lacks"),
        ({"messages": [call(name="w", arguments='{"a":1}')]}, "an object is expected"),
        ({"messages": [call(name="w", arguments={}, strict=True)]}, "'strict'"),
        ({"messages": [{"role": "tool", "content": "x", "name": "w"}]}, "'name'"),
        ({"tools": [{"type": "function", "function": {"name": "w"}}]}, "lacks 'parameters'"),
        (
            {"tools": [{"type": "function", "function": {"name": "w", "parameters": {}, "strict": True}}]},
            "'strict'",
        ),
        ({"tools": [{"name": "w", "parameters": {}}]}, "lacks 'type'"),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "w", "parameters": {"properties": {"a": True}}}}
                ]
            },
            "properties.a",
        ),
    ],
)
def test_a_field_that_ollama_does_not_document_is_refused(fields: dict[str, Any], reason: str) -> None:
    ollama_standin.check("POST", "/api/chat", said(model="m", messages=[ASK]))
    with pytest.raises(AssertionError) as caught:
        ollama_standin.check("POST", "/api/chat", said(**{"model": "m", "messages": [ASK], **fields}))
    assert reason in str(caught.value)


# --- Azure: the official client, on both surfaces

HISTORY: list[Any] = [
    {"role": "system", "content": "Be brief."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "What is this?"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
        ],
    },
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "22 °C"},
]
CHAT_TOOL: Any = {"type": "function", "function": {"name": "weather", "parameters": CITY, "strict": True}}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}


def on_deployments(azure: AzureStandIn, version: str = "2024-10-21") -> AsyncAzureOpenAI:
    return AsyncAzureOpenAI(azure_endpoint=azure.url, api_key=azure.key, api_version=version, max_retries=0)


def on_v1(azure: AzureStandIn, key: str | None = None) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=azure.v1_url, api_key=key or azure.key, max_retries=0)


async def test_azures_client_chats_with_a_deployment() -> None:
    async with AzureStandIn() as azure, on_deployments(azure) as client:
        reply = await client.chat.completions.create(
            model="gpt-5.2",
            messages=HISTORY,
            tools=[CHAT_TOOL],
            tool_choice={"type": "function", "function": {"name": "weather"}},
            parallel_tool_calls=False,
            temperature=0,
            top_p=0.5,
            stop=["x"],
            max_completion_tokens=50,
            logprobs=True,
            top_logprobs=2,
            seed=1,
            user="u",
        )
    assert reply.choices[0].message.content == 'You said: "22 °C"'
    assert azure.asked[0].path == "/openai/deployments/gpt-5.2/chat/completions?api-version=2024-10-21"


async def test_azures_client_reads_a_stream_that_begins_without_a_choice() -> None:
    async with AzureStandIn() as azure, on_deployments(azure) as client:
        stream = await client.chat.completions.create(
            model="gpt-5.2", messages=[ASK], stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices == []
    assert chunks[-1].usage is not None
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == (
        'You said: "Is it warm?"'
    )


async def test_azures_client_gets_calls_and_answers_that_fit_a_schema() -> None:
    async with AzureStandIn() as azure, on_deployments(azure, "2025-04-01-preview") as client:
        called = await client.chat.completions.create(
            model="gpt-5.2", messages=[ASK], tools=[CHAT_TOOL], reasoning_effort="low", metadata={"a": "b"}
        )
        shaped = await client.chat.completions.create(model="gpt-5.2", messages=[ASK], response_format=FORMAT)
    calls = called.choices[0].message.tool_calls or []
    assert calls[0].type == "function"
    assert calls[0].function.arguments == '{"city": "x"}'
    assert json.loads(shaped.choices[0].message.content or "") == {"city": "x"}


async def test_azures_client_embeds_on_both_surfaces() -> None:
    async with AzureStandIn() as azure:
        vectors = []
        for client in (on_deployments(azure), on_v1(azure)):
            async with client:
                reply = await client.embeddings.create(
                    model="text-embedding-3-small", input=["one", "two"], dimensions=4
                )
                vectors.append([entry.embedding for entry in reply.data])
    assert vectors[0] == vectors[1]
    assert [len(vector) for vector in vectors[0]] == [4, 4]


async def test_openais_client_responds_on_the_v1_surface() -> None:
    items: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
            ],
        },
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "Hm."}],
            "encrypted_content": "e",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "c1",
            "name": "weather",
            "arguments": "{}",
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "c1", "output": "22 °C"},
    ]
    async with AzureStandIn() as azure, on_v1(azure) as client:
        reply = await client.responses.create(
            model="gpt-5.2",
            input=items,
            instructions="Be kind.",
            include=["reasoning.encrypted_content"],
            store=False,
            reasoning={"effort": "xhigh", "summary": "auto"},
            text={"verbosity": "low"},
            tools=[
                {
                    "type": "function",
                    "name": "weather",
                    "parameters": CITY,
                    "strict": True,
                    "description": "d",
                }
            ],
            tool_choice="required",
            parallel_tool_calls=True,
            max_output_tokens=50,
            temperature=1,
            top_p=1,
            truncation="auto",
            metadata={"a": "b"},
            prompt_cache_key="k",
        )
        came: list[Any] = [*reply.output]
        again = await client.responses.create(model="gpt-5.2", input=[*items, *came, ASK])
    assert reply.output_text == 'You said: "22 °C"'
    assert again.output_text == 'You said: "Is it warm?"'


async def test_openais_client_streams_responses_with_text_calls_and_schemas() -> None:
    format: Any = {"type": "json_schema", "name": "city", "schema": CITY, "strict": True}
    tool: Any = {"type": "function", "name": "weather", "parameters": CITY, "strict": False}
    async with AzureStandIn() as azure, on_v1(azure) as client:
        stream = await client.responses.create(
            model="gpt-5.2",
            input="Hi",
            stream=True,
            text={"format": format},
            extra_query={"api-version": "preview"},
        )
        kinds = [event.type async for event in stream]
        async with client.responses.stream(model="gpt-5.2", input=[ASK], tools=[tool]) as calling:
            final = await calling.get_final_response()
    assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
    assert [item.type for item in final.output] == ["function_call"]


async def test_openais_client_chats_and_lists_models_on_the_v1_surface_with_a_token() -> None:
    async with AzureStandIn(token="entra.token") as azure, on_v1(azure, "entra.token") as client:
        reply = await client.chat.completions.create(
            model="gpt-5.2",
            messages=[{"role": "developer", "content": "Be brief."}, ASK],
            max_completion_tokens=50,
            reasoning_effort="minimal",
            verbosity="low",
        )
        models = [model.id async for model in client.models.list()]
    assert reply.choices[0].message.content == 'You said: "Is it warm?"'
    assert models == ["gpt-5.2", "text-embedding-3-small"]


async def test_a_wrong_key_and_an_unknown_deployment_are_told_as_azure_tells_them() -> None:
    async with AzureStandIn() as azure:
        async with on_v1(azure, "wrong") as client:
            with pytest.raises(
                openai.AuthenticationError, match="Access denied due to invalid subscription key"
            ):
                await client.models.list()
        async with on_deployments(azure) as client:
            with pytest.raises(openai.NotFoundError) as caught:
                await client.chat.completions.create(model="nobody", messages=[ASK])
    assert caught.value.code == "DeploymentNotFound"


# --- Azure: what is not documented

KEY = {"api-key": "k", "content-type": "application/json"}
CHAT = "/openai/deployments/d/chat/completions?api-version=2024-10-21"


@pytest.mark.parametrize(
    ("method", "path", "reason"),
    [
        ("POST", "/v1/responses", "is not documented"),
        ("POST", "/openai/responses?api-version=v1", "is not documented"),
        ("POST", "/openai/v1/responses/", "is not documented"),
        ("GET", "/openai/v1/responses", "is not documented"),
        ("POST", "/openai/v1/models", "is not documented"),
        ("POST", "/openai/v1/responses?api-version=2024-10-21", "no api-version '2024-10-21'"),
        ("POST", "/openai/v1/responses?stream=true", "no documented query"),
        ("POST", "/openai/deployments/d/chat/completions", "wants an api-version"),
        ("POST", "/openai/deployments/d/chat/completions?api-version=2024-10-22", "is not documented"),
        ("POST", "/openai/deployments/d/chat/completions?api-version=preview", "is not documented"),
        ("POST", f"{CHAT}&api-version=2024-10-21", "2 times"),
        ("POST", "/openai/deployments/d/responses?api-version=2024-10-21", "is not documented"),
        ("GET", "/openai/deployments/d/embeddings?api-version=2024-10-21", "is not documented"),
        ("POST", "/openai/deployments/a/b/embeddings?api-version=2024-10-21", "is not documented"),
    ],
)
def test_an_address_that_azure_does_not_document_is_refused(method: str, path: str, reason: str) -> None:
    with pytest.raises(AssertionError) as caught:
        azure_standin.check(method, path, b"{}", KEY)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({}, "neither"),
        ({"api-key": ""}, "neither"),
        ({"api-key": "k", "authorization": "Bearer t"}, "both"),
        ({"authorization": "t"}, "`Bearer` and a token"),
        ({"api-key": "k", "content-type": "text/plain"}, "content-type is 'text/plain'"),
    ],
)
def test_azure_wants_one_key_or_one_token(headers: dict[str, str], reason: str) -> None:
    json_headers = {"content-type": "application/json", **headers}
    with pytest.raises(AssertionError) as caught:
        azure_standin.check("POST", CHAT, said(messages=[ASK]), json_headers)
    assert reason in str(caught.value)


def test_headers_may_be_written_in_any_case() -> None:
    azure_standin.check(
        "POST", CHAT, said(messages=[ASK]), {"Api-Key": "k", "Content-Type": "application/json"}
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"store": False}, "'store'"),  # from 2024-12-01-preview on
        ({"reasoning_effort": "low"}, "'reasoning_effort'"),
        ({"modalities": ["text"]}, "'modalities'"),
        ({"prompt_cache_key": "k"}, "'prompt_cache_key'"),
        ({"service_tier": "auto"}, "'service_tier'"),
        ({"safety_identifier": "s"}, "'safety_identifier'"),
        ({"input": "x"}, "'input'"),
        ({"stream_options": {"include_usage": True}}, "only for a stream"),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, "'include_obfuscation'"),
        ({"temperature": 3}, "outside 0 to 2"),
        ({"top_logprobs": 2}, "wants logprobs"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "5 entries"),
        ({"tools": []}, "0 entries"),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}]}, "tools[0]"),
        ({"tools": [{**CHAT_TOOL, "name": "w"}]}, "'name'"),
        ({"tool_choice": "any"}, "tool_choice"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"messages": []}, "0 entries"),
        ({"messages": [{"role": "developer", "content": "x"}]}, "role"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "type"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "lacks 'tool_call_id'"),
        ({"messages": [{"role": "tool", "tool_call_id": "c", "content": "x", "name": "w"}]}, "'name'"),
        ({"messages": [{**ASK, "reasoning_content": "x"}]}, "'reasoning_content'"),
        ({"messages": [{**HISTORY[2], "content": ""}, {"role": "user"}]}, "lacks 'content'"),
    ],
)
def test_a_field_that_a_deployment_does_not_document_is_refused(fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(AssertionError) as caught:
        azure_standin.check("POST", CHAT, said(**{"messages": [ASK], **fields}))
    assert reason in str(caught.value)


def test_what_came_later_is_taken_from_the_version_that_brought_it() -> None:
    newer = CHAT.replace("2024-10-21", "2025-01-01-preview")
    later = said(
        messages=[{"role": "developer", "content": "x"}],
        store=True,
        reasoning_effort="high",
        modalities=["text"],
    )
    azure_standin.check("POST", newer, later)
    with pytest.raises(AssertionError):
        azure_standin.check("POST", CHAT, later)
    older = CHAT.replace("2024-10-21", "2024-06-01")
    with pytest.raises(AssertionError, match="'stream_options'"):
        azure_standin.check(
            "POST", older, said(messages=[ASK], stream=True, stream_options={"include_usage": True})
        )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"messages": [ASK]}, "'messages'"),
        ({"stop": ["x"]}, "'stop'"),
        ({"seed": 1}, "'seed'"),
        ({"stream": True, "stream_options": {"include_obfuscation": False}}, "'stream_options'"),
        ({"safety_identifier": "s"}, "'safety_identifier'"),
        ({"conversation": "c"}, "'conversation'"),
        ({"include": ["usage"]}, "include[0]"),
        ({"reasoning": {"effort": "max"}}, "reasoning.effort"),
        ({"text": {"format": {"type": "json_schema", "json_schema": {}}}}, "lacks 'name'"),
        ({"tools": [CHAT_TOOL]}, "lacks 'name'"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": [{"role": "tool", "content": "x"}]}, "role"),
        ({"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "content[0].type"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "lacks 'call_id'"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": {}}]}, "text is expected"),
        ({"input": [{"type": "reasoning", "encrypted_content": "e"}]}, "lacks 'summary'"),
        ({"metadata": {str(place): "x" for place in range(17)}}, "17 pairs"),
        ({"metadata": {"a": 1}}, "text is expected"),
    ],
)
def test_a_field_that_azures_responses_do_not_document_is_refused(
    fields: dict[str, Any], reason: str
) -> None:
    azure_standin.check("POST", "/openai/v1/responses", said(model="m", input="x"))
    with pytest.raises(AssertionError) as caught:
        azure_standin.check("POST", "/openai/v1/responses", said(**{"model": "m", "input": "x", **fields}))
    assert reason in str(caught.value)


# --- the server


@pytest.mark.parametrize("kind", [OllamaStandIn, AzureStandIn])
async def test_a_request_that_was_refused_fails_the_test_that_sent_it(kind: Any) -> None:
    answered = b""
    with pytest.raises(AssertionError, match="POST /nowhere is not documented"):
        async with kind() as standin:
            answered = await _raw(standin.url, b"POST /nowhere HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}")
    assert b"HTTP/1.1 400" in answered
    assert b"is not documented" in answered


async def test_the_failure_of_a_test_is_not_hidden_by_a_refused_request() -> None:
    ollama = OllamaStandIn()
    ollama.wrong.append("refused")
    with pytest.raises(ZeroDivisionError):
        async with ollama:
            raise ZeroDivisionError


async def test_a_body_may_come_in_chunks() -> None:
    async with OllamaStandIn() as ollama:
        head = b"POST /api/show HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
        answered = await _raw(ollama.url, head + b'9\r\n{"model":\r\nb\r\n"llama3.2"}\r\n0\r\n\r\n')
    assert b"HTTP/1.1 200" in answered
    assert ollama.asked[0].body == b'{"model":"llama3.2"}'


async def test_a_connection_that_says_nothing_is_closed_with_the_stand_in() -> None:
    async with OllamaStandIn() as ollama:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(ollama.url.rpartition(":")[2]))
        await asyncio.sleep(0.01)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    with pytest.raises(RuntimeError, match="inside its block"):
        ollama.url


async def _raw(url: str, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
    writer.write(request)
    answered = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    return answered
