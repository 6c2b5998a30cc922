"""Google's routes of LiteLLM's proxy: what they get wrong, and what Google's own client makes of them.

What is marked as a gap is asked by hand, without any code of ours between, and is expected to fail until
LiteLLM (here 1.106.2, litellm/google_genai/adapters/transformation.py) does as Google's API does.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from google.genai import Client, errors, types
from google_asking import by_hand
from httpx import AsyncClient
from litellm_proxy import Proxy, name_of
from llama_servers import LlamaServer
from real_asking import answer, user

from gnomon.errors import BadRequest, ModelNotFound
from gnomon.providers.gemini import GeminiProvider
from gnomon.types.messages import Message, ToolDef

if not os.environ.get("GNOMON_PROXIES"):
    pytest.skip(
        "LiteLLM's proxy takes minutes to install: `make test-proxies` does it, and runs these",
        allow_module_level=True,
    )

SMALL = name_of("smollm2", "vllm")
RANDOM = name_of("random", "vllm")
STREAM = "streamGenerateContent?alt=sse"
ODD = 'naïve 日本語 😀 "quoted" \\ </tool_call>'


def gap(seen: str) -> pytest.MarkDecorator:
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"LiteLLM: {seen}")


def _said(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    config = {"temperature": 0.0, "maxOutputTokens": 5}
    return {"contents": [{"role": "user", "parts": list(parts)}], "generationConfig": config, **more}


def _writing(text: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {"text": {"const": text}},
        "required": ["text"],
        "additionalProperties": False,
    }


# --- what LiteLLM gets wrong -----------------------------------------------------------


@gap("the last chunk of a stream says 0 tokens of everything; the same answer in one piece is counted")
async def test_a_stream_says_what_it_used(proxy: Proxy, smollm2: LlamaServer) -> None:
    whole = await by_hand(proxy, SMALL, _said({"text": "Hi"}))
    streamed = await by_hand(proxy, SMALL, _said({"text": "Hi"}), STREAM)
    if whole.usage["promptTokenCount"] < 2:
        pytest.fail("it counts nothing any more")
    assert streamed.usage == whole.usage


@gap("answers have neither responseId nor modelVersion")
async def test_an_answer_says_which_it_is_and_whose(proxy: Proxy, smollm2: LlamaServer) -> None:
    reply = await by_hand(proxy, SMALL, _said({"text": "Hi"}))
    assert {"responseId", "modelVersion"} <= reply.chunks[0].keys()


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


@gap("inlineData is left out without a word (200); it is read when it is spelt inline_data (500)")
async def test_an_image_reaches_the_server(proxy: Proxy, smollm2: LlamaServer) -> None:
    """The server has no eyes: it refuses what reaches it."""
    snake = {"inline_data": {"mime_type": "image/png", "data": PIXEL}}
    camel = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    if (await by_hand(proxy, SMALL, _said({"text": "Hi"}, snake))).status != 500:
        pytest.fail("the server takes images, or they are no longer sent")
    assert (await by_hand(proxy, SMALL, _said({"text": "Hi"}, camel))).status == 500


@gap("of systemInstruction only the first part is sent on")
async def test_all_instructions_reach_the_server(proxy: Proxy, smollm2: LlamaServer) -> None:
    one = {"systemInstruction": {"parts": [{"text": "Greet."}]}}
    two = {"systemInstruction": {"parts": [{"text": "Greet."}, {"text": "Be brief, kind and good."}]}}
    short = await by_hand(proxy, SMALL, _said({"text": "Hi"}, **one))
    long = await by_hand(proxy, SMALL, _said({"text": "Hi"}, **two))
    assert long.usage["promptTokenCount"] > short.usage["promptTokenCount"]


@gap("allowedFunctionNames is not read: any function may be called")
async def test_only_the_function_that_is_named_is_called(proxy: Proxy, random_model: LlamaServer) -> None:
    names = [f"tool_{number}" for number in range(12)]
    body = _said({"text": "Call"}, tools=[{"functionDeclarations": [{"name": name} for name in names]}])
    body["toolConfig"] = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["tool_11"]}}
    body["generationConfig"] = {"maxOutputTokens": 200}
    called = set[str]()
    for _ in range(6):
        reply = await by_hand(proxy, RANDOM, body)
        called |= {part["functionCall"]["name"] for part in reply.parts if "functionCall" in part}
    if not called:
        pytest.fail("nothing was called")
    assert called == {"tool_11"}


@gap("ids of earlier calls are made anew from the name; asked by Messages, two calls of one name become one")
async def test_two_calls_of_one_function_reach_the_server(proxy: Proxy, random_model: LlamaServer) -> None:
    model = name_of("random", "anthropic")
    apart = await by_hand(proxy, model, _called("now", "add"))
    alike = await by_hand(proxy, model, _called("add", "add"))
    assert alike.usage["promptTokenCount"] == apart.usage["promptTokenCount"]


def _called(*names: str) -> dict[str, Any]:
    calls = [{"id": f"call_{at}", "name": name, "args": {"number": at}} for at, name in enumerate(names)]
    results = [{"id": call["id"], "name": call["name"], "response": {"output": "1"}} for call in calls]
    contents = [
        {"role": "user", "parts": [{"text": "Call"}]},
        {"role": "model", "parts": [{"functionCall": call} for call in calls]},
        {"role": "user", "parts": [{"functionResponse": result} for result in results]},
    ]
    tools = [{"functionDeclarations": [{"name": "now"}, {"name": "add"}]}]
    return {"contents": contents, "tools": tools, "generationConfig": {"maxOutputTokens": 5}}


@gap("in one piece, a call that the limit cuts is a call without arguments, which nobody made")
async def test_a_call_that_the_limit_cuts_is_not_another_call(
    proxy: Proxy, random_model: LlamaServer
) -> None:
    body = _forced("x" * 300)
    body["generationConfig"] = {"maxOutputTokens": 90}
    reply = await by_hand(proxy, RANDOM, body)
    if reply.chunks[0]["candidates"][0]["finishReason"] != "MAX_TOKENS":
        pytest.fail("the limit is not met")
    assert {"functionCall": {"name": "write", "args": {}}} not in reply.parts


@gap("parameters_json_schema, as Google's own client spells it, is not read: calls have no arguments")
async def test_a_schema_is_kept_to_as_googles_client_sends_it(
    proxy: Proxy, random_model: LlamaServer
) -> None:
    reply = await by_hand(proxy, RANDOM, _forced(ODD, spelt="parameters_json_schema"))
    calls = [part["functionCall"] for part in reply.parts if "functionCall" in part]
    if not calls:
        pytest.fail("nothing was called")
    assert calls[0]["args"] == {"text": ODD}


def _forced(text: str, spelt: str = "parametersJsonSchema") -> dict[str, Any]:
    declared = {"name": "write", spelt: _writing(text)}
    return {
        "contents": [{"role": "user", "parts": [{"text": "Call"}]}],
        "tools": [{"functionDeclarations": [declared]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"maxOutputTokens": 400},
    }


@gap("countTokens does not read generateContentRequest: it counts an empty prompt, 3 tokens")
async def test_a_whole_request_is_counted(proxy: Proxy) -> None:
    contents = _said({"text": "word " * 50})["contents"]
    bare = await by_hand(proxy, SMALL, {"contents": contents}, "countTokens")
    whole = {"generateContentRequest": {"model": f"models/{SMALL}", "contents": contents}}
    counted = await by_hand(proxy, SMALL, whole, "countTokens")
    if bare.chunks[0]["totalTokens"] < 50:
        pytest.fail("it counts nothing any more")
    assert counted.chunks[0]["totalTokens"] >= bare.chunks[0]["totalTokens"]


@gap("errors are in OpenAI's form: the code is text, and there is no status")
async def test_an_error_has_googles_form(proxy: Proxy) -> None:
    reply = await by_hand(proxy, "of-nobody", _said({"text": "Hi"}))
    assert reply.status == 400
    assert reply.chunks[0]["error"]["code"] == 400
    assert reply.chunks[0]["error"]["status"] == "INVALID_ARGUMENT"


@gap("/v1beta/models is not there (404)")
async def test_the_models_are_listed(proxy: Proxy) -> None:
    assert (await by_hand(proxy, "", None)).status == 200


# --- what our provider makes of it ----------------------------------------------------------


@asynccontextmanager
async def _provider(proxy: Proxy, model: str) -> AsyncGenerator[GeminiProvider, None]:
    provider = GeminiProvider(model=model, base_url=proxy.url, key=proxy.key)
    try:
        yield provider
    finally:
        await provider.close()


async def test_a_list_of_models_that_is_not_there_is_said_to_be_missing(proxy: Proxy) -> None:
    async with _provider(proxy, SMALL) as provider:
        with pytest.raises(ModelNotFound) as caught:
            await provider.list_models()
    assert caught.value.status == 404


async def test_tokens_are_counted_by_the_route_as_far_as_it_reads_what_is_asked(proxy: Proxy) -> None:
    async with _provider(proxy, SMALL) as provider:
        assert await provider.count_tokens((Message.user("word " * 50),), ()) == 3


# --- Google's own client, beside ours -------------------------------------------------------
# It is asked first: what it leaves to the loop when it goes is done while ours is asked.


async def _read_by_google(
    proxy: Proxy, model: str, text: str, config: types.GenerateContentConfig | None = None
) -> list[types.GenerateContentResponse]:
    """By httpx: over aiohttp it makes a class that aiohttp warns of. LiteLLM has no routes for its `v1`."""
    async with AsyncClient(trust_env=False) as http:
        options = types.HttpOptions(base_url=proxy.url, api_version="v1beta", httpx_async_client=http)
        client = Client(api_key=proxy.key, http_options=options)
        stream = await client.aio.models.generate_content_stream(model=model, contents=text, config=config)
        return [chunk async for chunk in stream]


def _parts(chunks: list[types.GenerateContentResponse]) -> list[types.Part]:
    candidates = [candidate for chunk in chunks for candidate in chunk.candidates or ()]
    contents = [candidate.content for candidate in candidates if candidate.content]
    return [part for content in contents for part in content.parts or ()]


async def test_googles_client_reads_the_same_text(proxy: Proxy, smollm2: LlamaServer) -> None:
    text = "Hi, naïve 日本語 😀"
    config = types.GenerateContentConfig(system_instruction="Greet.", temperature=0.0, max_output_tokens=20)
    smollm2.exchanges["google-genai"] += 1
    theirs = await _read_by_google(proxy, SMALL, text, config)
    async with _provider(proxy, SMALL) as provider:
        request = user(text, system="Greet.", temperature=0.0, max_tokens=20)
        ours = await answer(smollm2, provider, request)
    assert ours.text == "".join(part.text or "" for part in _parts(theirs)) != ""
    last = theirs[-1].candidates
    assert last is not None
    assert ours.response.raw_stop_reason == getattr(last[0].finish_reason, "value", None)


async def test_googles_client_reads_the_same_call(proxy: Proxy, random_model: LlamaServer) -> None:
    text = types.Schema(type=types.Type.STRING, enum=[ODD])
    schema = types.Schema(type=types.Type.OBJECT, properties={"text": text}, required=["text"])
    declared = types.FunctionDeclaration(name="write", parameters=schema)
    calling = types.FunctionCallingConfig(mode=types.FunctionCallingConfigMode.ANY)
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[declared])],
        tool_config=types.ToolConfig(function_calling_config=calling),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        max_output_tokens=400,
    )
    random_model.exchanges["google-genai"] += 1
    parts = _parts(await _read_by_google(proxy, RANDOM, "Call", config))
    theirs = [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]
    async with _provider(proxy, RANDOM) as provider:
        tool = ToolDef(name="write", schema=_writing(ODD))
        request = user("Call", tools=(tool,), tool_choice="required", max_tokens=400)
        ours = await answer(random_model, provider, request)
    assert ours.calls
    assert theirs
    assert all((call.name, call.parsed()) == ("write", {"text": ODD}) for call in ours.calls)
    assert all(call == ("write", {"text": ODD}) for call in theirs)


async def test_googles_client_is_told_the_same_of_an_unknown_model(
    proxy: Proxy, smollm2: LlamaServer
) -> None:
    with pytest.raises(errors.ClientError) as theirs:
        await _read_by_google(proxy, "of-nobody", "Hi")
    async with _provider(proxy, "of-nobody") as provider:
        with pytest.raises(BadRequest) as ours:
            await answer(smollm2, provider, user("Hi"))
    assert ours.value.status == theirs.value.code == 400
    assert ours.value.message == theirs.value.message
