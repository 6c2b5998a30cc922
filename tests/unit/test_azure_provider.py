"""Azure OpenAI as a provider: where it is, in whose name it is asked, and what its filter says."""

from __future__ import annotations

from asyncio import to_thread
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai import AzureOpenAI, OpenAI
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming

import azure_shapes
from azure_standin import AzureStandIn, check
from gnomon import registry
from gnomon.contracts.provider import SupportsModels
from gnomon.errors import (
    BadRequest,
    ConfigError,
    MissingKey,
    ModelNotFound,
    RateLimited,
    Refused,
    Unauthorized,
)
from gnomon.providers.azure import AzureProvider
from gnomon.testing import Wire
from gnomon.testing._fixtures import Fixture
from gnomon.testing._server import FaultServer, ReceivedRequest, ServerReply
from gnomon.types.messages import Audio, File, Image, Message, ToolDef, ToolResult
from gnomon.types.requests import Reasoning, Request, Response
from sdk_types import read_as

HELLO = Request(messages=(Message.user("Hello"),), system="Be brief")
WIRES = Path(__file__).parent.parent / "wire"
KEY = "0123456789abcdef0123456789abcdef"
DATED = "2024-10-21"
SETTINGS = (
    "AZURE_OPENAI_API_KEY",
    "AZURE_OPENAI_AD_TOKEN",
    "AZURE_OPENAI_ENDPOINT",
    "OPENAI_API_VERSION",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


def events(*data: object, done: bool = True) -> bytes:
    lines = [b"data: " + msgspec.json.encode(item) + b"\n\n" for item in data]
    return b"".join(lines) + (b"data: [DONE]\n\n" if done else b"")


def chunk(content: str | None, finish: str | None = None, **fields: object) -> dict[str, object]:
    choice = {"index": 0, "delta": {"content": content} if content else {}, "finish_reason": finish, **fields}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "gpt-6",
        "choices": [choice],
    }


def response(kind: str, **fields: object) -> dict[str, object]:
    status = kind.removeprefix("response.")
    return {
        "type": kind,
        "sequence_number": 3,
        "response": {"id": "resp_1", "object": "response", "model": "gpt-6", "status": status, **fields},
    }


CHAT = events(chunk("Hi", None), chunk(None, "stop"))
RESPONSES = events(
    {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hi"},
    response("response.completed", output=[]),
    done=False,
)


def replied(body: bytes) -> ServerReply:
    return ServerReply(headers=(("content-type", "text/event-stream"),), body=body)


def answered(request: ReceivedRequest) -> ServerReply:
    return replied(CHAT if "/chat/completions" in request.path else RESPONSES)


async def asked(server: FaultServer, provider: AzureProvider) -> ReceivedRequest:
    try:
        assert (await provider.complete(HELLO)).text == "Hi"
    finally:
        await provider.close()
    return server.requests[-1]


# --- where it is -----------------------------------------------------------------------


async def test_the_v1_api_is_asked_by_responses() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, AzureProvider(model="mine", key=KEY, endpoint=root(server)))
    assert request.path == "/openai/v1/responses"
    assert request.headers["api-key"] == KEY
    assert "authorization" not in request.headers
    body = read_as(ResponseCreateParamsStreaming, request.body)
    assert (body["model"], body["instructions"]) == ("mine", "Be brief")


async def test_the_v1_api_is_asked_by_chat() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, AzureProvider(model="mine", key=KEY, endpoint=root(server), api="chat"))
    assert request.path == "/openai/v1/chat/completions"
    body = read_as(CompletionCreateParamsStreaming, request.body)
    assert body["messages"][0] == {"role": "system", "content": "Be brief"}


async def test_with_a_version_the_deployment_is_asked_at_its_own_address() -> None:
    async with FaultServer(answered) as server:
        provider = AzureProvider(model="my model/1", key=KEY, endpoint=root(server), api_version=DATED)
        request = await asked(server, provider)
    assert request.path == f"/openai/deployments/my%20model%2F1/chat/completions?api-version={DATED}"


async def test_the_version_of_the_environment_goes_with_a_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_VERSION", DATED)
    async with FaultServer(answered) as server:
        named = await asked(server, AzureProvider(key=KEY, endpoint=root(server), deployment="mine"))
        plain = await asked(server, AzureProvider(model="mine", key=KEY, endpoint=root(server)))
    assert named.path == f"/openai/deployments/mine/chat/completions?api-version={DATED}"
    assert plain.path == "/openai/v1/responses"


def test_a_deployment_needs_a_version() -> None:
    with pytest.raises(ConfigError, match="no api_version"):
        AzureProvider(deployment="mine")


@pytest.mark.parametrize("end", ["", "/", "/openai/v1/", "/openai/v1", "/openai"])
async def test_the_address_may_be_copied_from_anywhere(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    async with FaultServer(answered) as server:
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", root(server) + end)
        request = await asked(server, AzureProvider(model="mine", key=KEY))
    assert request.path == "/openai/v1/responses"


async def test_a_base_url_is_taken_as_it_is() -> None:
    async with FaultServer(answered) as server:
        request = await asked(
            server, AzureProvider(model="mine", key=KEY, base_url=f"{root(server)}/gate/v1")
        )
        dated = AzureProvider(
            model="m", key=KEY, base_url=f"{root(server)}/openai/deployments/mine", api_version=DATED
        )
        other = await asked(server, dated)
    assert request.path == "/gate/v1/responses"
    assert other.path == f"/openai/deployments/mine/chat/completions?api-version={DATED}"


def root(server: FaultServer) -> str:
    return server.url.removesuffix("/v1")


async def test_without_an_address_nobody_is_asked() -> None:
    provider = AzureProvider(model="mine", key=KEY)
    with pytest.raises(ConfigError, match="resource"):
        await provider.complete(HELLO)
    with pytest.raises(ConfigError, match="resource"):
        await provider.list_models()


async def test_without_a_model_nobody_is_asked() -> None:
    provider = registry.provider("azure", {"key": KEY, "endpoint": "http://127.0.0.1:9"})
    with pytest.raises(ConfigError, match="no model"):
        await provider.complete(HELLO)


@pytest.mark.parametrize(
    "settings",
    [
        {"api": "realtime"},
        {"endpoint": "http://a.example", "base_url": "http://a.example/v1"},
        {"key": KEY, "token": lambda: "t"},
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AzureProvider(model="mine", **settings)


# --- in whose name ---------------------------------------------------------------------


async def test_a_token_is_fetched_for_every_request_and_sent_instead_of_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    tokens = iter(("first-token", "second-token"))
    async with FaultServer(answered) as server:
        provider = AzureProvider(model="mine", token=lambda: next(tokens), endpoint=root(server))
        await provider.complete(HELLO)
        await provider.complete(HELLO)
        await provider.close()
    sent = [request.headers.get("authorization") for request in server.requests]
    assert sent == ["Bearer first-token", "Bearer second-token"]
    assert all("api-key" not in request.headers for request in server.requests)


async def test_the_environments_token_comes_before_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    async with FaultServer(answered) as server:
        by_key = await asked(server, AzureProvider(model="mine", endpoint=root(server)))
        monkeypatch.setenv("AZURE_OPENAI_AD_TOKEN", "token-of-entra")
        by_token = await asked(server, AzureProvider(model="mine", endpoint=root(server)))
        by_given = await asked(server, AzureProvider(model="mine", key="given-key", endpoint=root(server)))
    assert by_key.headers["api-key"] == KEY
    assert by_token.headers["authorization"] == "Bearer token-of-entra"
    assert "api-key" not in by_token.headers
    assert by_given.headers["api-key"] == "given-key"
    assert "authorization" not in by_given.headers


@pytest.mark.parametrize(
    "endpoint",
    ["https://mine.openai.azure.com", "https://mine.services.ai.azure.com/", "https://m.openai.azure.us"],
)
async def test_azure_is_not_asked_without_a_key(endpoint: str) -> None:
    provider = AzureProvider(model="mine", endpoint=endpoint)
    with pytest.raises(MissingKey, match="azure"):
        await provider.complete(HELLO)


async def test_a_token_that_is_refused_is_not_repeated() -> None:
    def refused(request: ReceivedRequest) -> ServerReply:
        echo = {"error": {"code": "401", "message": f"Access denied: {request.headers['authorization']}"}}
        return ServerReply(status=401, body=msgspec.json.encode(echo))

    async with FaultServer(refused) as server:
        provider = AzureProvider(model="mine", token=lambda: "eyJ0eXAi-secret", endpoint=root(server))
        with pytest.raises(Unauthorized) as caught:
            await provider.complete(HELLO)
        await provider.close()
    assert "eyJ0eXAi" not in str(caught.value)


# --- what is asked ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "thinks"),
    [
        ({"model": "gpt-6"}, True),
        ({"model": "gpt-4o"}, False),
        ({"model": "mine"}, True),
        ({"model": "mine", "base_model": "gpt-4o"}, False),
        ({"model": "gpt-4-but-newer", "base_model": "gpt-6"}, True),
    ],
)
async def test_thinking_is_asked_back_of_a_model_that_thinks(settings: dict[str, Any], thinks: bool) -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, AzureProvider(key=KEY, endpoint=root(server), **settings))
    assert ("include" in read_as(ResponseCreateParamsStreaming, request.body)) is thinks


FULL = Request(
    messages=(Message.user("Hello"),),
    max_tokens=9,
    metadata={"user": "7"},
    thinking=Reasoning(effort="low"),
    output_schema={"type": "object", "properties": {}, "additionalProperties": False},
    tools=(ToolDef(name="now", schema={"type": "object", "properties": {}, "additionalProperties": False}),),
)


@pytest.mark.parametrize("version", azure_shapes.DEPLOYMENT_VERSIONS)
async def test_a_version_is_sent_what_it_takes_and_no_more(version: str) -> None:
    async with FaultServer(answered) as server:
        provider = AzureProvider(model="mine", key=KEY, endpoint=root(server), api_version=version)
        response = await provider.complete(FULL)
        await provider.close()
    (request,) = server.requests
    check(request.method, request.path, request.body, request.headers)
    body = msgspec.json.decode(request.body)
    assert ("reasoning_effort" in body) is (version >= "2024-12-01")
    assert any("thinking" in text for text in response.warnings) is ("reasoning_effort" not in body)
    assert 9 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert body["response_format"]["type"] == ("json_schema" if version >= "2024-08-01" else "json_object")


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_the_v1_api_is_sent_everything(api: Any) -> None:
    async with FaultServer(answered) as server:
        provider = AzureProvider(model="mine", key=KEY, endpoint=root(server), api=api, api_version="preview")
        await provider.complete(FULL)
        await provider.close()
    (request,) = server.requests
    check(request.method, request.path, request.body, request.headers)
    assert request.path.startswith("/openai/v1/")
    assert request.path.endswith("?api-version=preview")


@pytest.mark.parametrize(
    ("settings", "part", "taken"),
    [
        ({}, File(data=b"%PDF-1.7", name="a.pdf"), True),
        ({}, File(url="https://a.example/a.pdf"), False),
        ({"api": "chat"}, Audio(data=b"RIFF0000WAVE"), True),
        ({"api_version": "2025-01-01-preview"}, Audio(data=b"RIFF0000WAVE"), True),
        ({"api_version": DATED}, Audio(data=b"RIFF0000WAVE"), False),
        ({"api_version": DATED}, File(data=b"%PDF-1.7", name="a.pdf"), False),
        ({"api_version": DATED}, Image(data=b"\x89PNG\r\n\x1a\n"), True),
    ],
)
async def test_media_are_sent_or_refused(settings: dict[str, Any], part: Any, taken: bool) -> None:
    request = Request(messages=(Message.user("Look", part),))
    async with FaultServer(answered) as server:
        provider = AzureProvider(model="mine", key=KEY, endpoint=root(server), **settings)
        if taken:
            await provider.complete(request)
        else:
            with pytest.raises(BadRequest, match=r"address|cannot be sent"):
                await provider.complete(request)
        await provider.close()
    assert len(server.requests) == int(taken)
    for sent in server.requests:
        check(sent.method, sent.path, sent.body, sent.headers)


async def test_a_whole_round_goes_well_at_a_strict_stand_in() -> None:
    """Both surfaces, a tool and its result; what the stand-in does not take fails at its end."""
    surfaces: list[dict[str, Any]] = [{}, {"api": "chat"}, {"api_version": DATED}]
    for settings in surfaces:
        async with AzureStandIn(("mine",), key=KEY) as azure:
            provider = AzureProvider(model="mine", key=KEY, endpoint=azure.url, **settings)
            request = Request(messages=(Message.user("What is the time?"),), tools=FULL.tools)
            first = await provider.complete(request)
            (call,) = first.tool_calls
            said_so_far = (*request.messages, first.message, Message.tool(ToolResult.of(call, "noon")))
            second = await provider.complete(msgspec.structs.replace(request, messages=said_so_far))
            await provider.close()
        assert call.name == "now"
        assert "noon" in second.text


async def test_a_token_of_entra_is_taken_by_the_stand_in() -> None:
    async with AzureStandIn(("mine",), token="eyJ0eXAi.entra") as azure:
        provider = AzureProvider(model="mine", token=lambda: "eyJ0eXAi.entra", endpoint=azure.url)
        assert "Hello" in (await provider.complete(HELLO)).text
        assert await provider.list_models() == ("mine",)
        await provider.close()


async def test_the_models_are_listed_by_name() -> None:
    body = b'{"object":"list","data":[{"id":"gpt-6","status":"succeeded"},{"id":"gpt-5.5"}]}'
    async with FaultServer(lambda _: ServerReply(body=body)) as server:
        provider = AzureProvider(key=KEY, endpoint=root(server))
        assert isinstance(provider, SupportsModels)
        assert await provider.list_models() == ("gpt-5.5", "gpt-6")
        await provider.close()
        dated = AzureProvider(key=KEY, endpoint=root(server), api_version=DATED)
        await dated.list_models()
        await dated.close()
    assert [request.path for request in server.requests] == [
        "/openai/v1/models",
        f"/openai/models?api-version={DATED}",
    ]


# --- the content filter ----------------------------------------------------------------

SAFE = {"filtered": False, "severity": "safe"}
VERDICTS = {"hate": SAFE, "violence": {"filtered": True, "severity": "medium"}, "sexual": SAFE}
INNER = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": VERDICTS}
FILTERED = {
    "message": "The response was filtered due to the prompt triggering the content management policy.",
    "type": None,
    "param": "prompt",
    "code": "content_filter",
    "status": 400,
}


@pytest.mark.parametrize(
    "more",
    [
        {"innererror": INNER},
        {"content_filters": [{"blocked": True, "source_type": "prompt", "content_filter_results": VERDICTS}]},
    ],
)
async def test_a_prompt_that_the_filter_stops_is_refused_by_what_it_found(more: dict[str, object]) -> None:
    body = msgspec.json.encode({"error": {**FILTERED, **more}})
    async with FaultServer(lambda _: ServerReply(status=400, body=body)) as server:
        provider = AzureProvider(model="mine", key=KEY, endpoint=root(server))
        with pytest.raises(
            Refused, match=r"content management policy.*filtered: violence \(medium\)\)"
        ) as caught:
            await provider.complete(HELLO)
        await provider.close()
    assert "hate" not in str(caught.value)
    assert (caught.value.vendor_code, caught.value.status) == ("content_filter", 400)
    assert not caught.value.retryable


async def test_the_same_inside_a_stream_is_the_same_error() -> None:
    body = events({"error": {**FILTERED, "innererror": INNER}})
    async with FaultServer(lambda _: replied(body)) as server:
        provider = AzureProvider(model="mine", key=KEY, endpoint=root(server), api="chat")
        with pytest.raises(Refused, match=r"violence \(medium\)"):
            await provider.complete(HELLO)
        await provider.close()


async def complete(body: bytes, **settings: Any) -> Response:
    async with FaultServer(lambda _: replied(body)) as server:
        provider = AzureProvider(model="mine", key=KEY, endpoint=root(server), **settings)
        try:
            return await provider.complete(HELLO)
        finally:
            await provider.close()


async def test_an_answer_that_the_filter_cuts_off_says_why() -> None:
    prompt = {"prompt_index": 0, "content_filter_results": {"hate": SAFE, "jailbreak": {"detected": True}}}
    body = events(
        {"id": "", "object": "", "created": 0, "model": "", "prompt_filter_results": [prompt], "choices": []},
        chunk("Once", content_filter_results={"hate": SAFE}),
        chunk(" upon", content_filter_results={"hate": SAFE}),
        chunk(None, "content_filter", content_filter_results=VERDICTS),
        chunk(None, content_filter_results=VERDICTS, content_filter_offsets={"check_offset": 44}),
    )
    response = await complete(body, api="chat")
    assert response.text == "Once upon"
    assert (response.stop_reason, response.model, response.id) == ("content_filter", "gpt-6", "c1")
    assert response.warnings == (
        "the content filter found something, and let it pass: jailbreak",
        "the content filter stopped the answer: violence (medium)",
    )


async def test_the_filter_is_heard_by_responses_too() -> None:
    filters = [{"blocked": True, "source_type": "completion", "content_filter_results": VERDICTS}]
    body = events(
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Once"},
        response(
            "response.incomplete",
            incomplete_details={"reason": "content_filter"},
            output=[],
            content_filters=filters,
        ),
        done=False,
    )
    response_ = await complete(body)
    assert (response_.text, response_.stop_reason) == ("Once", "content_filter")
    assert response_.warnings == ("the content filter stopped the answer: violence (medium)",)


async def test_words_that_look_like_a_verdict_are_none() -> None:
    text = '{"content_filter_results":{"violence":{"filtered":true}}}'
    response_ = await complete(events(chunk(text), chunk(text), chunk(None, "stop")), api="chat")
    assert response_.text == text * 2
    assert response_.warnings == ()


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (404, {"code": "DeploymentNotFound", "message": "The API deployment does not exist."}, ModelNotFound),
        (
            401,
            {"code": "PermissionDenied", "message": "The principal lacks the required data action"},
            Unauthorized,
        ),
        (429, {"code": "429", "message": "Requests have exceeded token rate limit"}, RateLimited),
    ],
)
async def test_azures_own_errors_are_the_usual_ones(
    status: int, error: dict[str, str], kind: type[Exception]
) -> None:
    body = msgspec.json.encode({"error": error})
    async with FaultServer(lambda _: ServerReply(status=status, body=body)) as server:
        provider = AzureProvider(model="mine", key=KEY, endpoint=root(server))
        with pytest.raises(kind):
            await provider.complete(HELLO)
        await provider.close()


# --- beside the vendor's own client ----------------------------------------------------


def replay(fixture: Fixture) -> ServerReply:
    return ServerReply(status=fixture.status, headers=fixture.headers, body=fixture.body)


def said(response: Response) -> tuple[str, list[tuple[str, str]]]:
    return response.text, [(call.name, call.arguments or "{}") for call in response.tool_calls]


def theirs_by_chat(client: OpenAI) -> tuple[str, list[tuple[str, str]]]:
    text: list[str] = []
    calls: list[tuple[object, list[str], list[str]]] = []
    stream = client.chat.completions.create(
        model="mine", messages=[{"role": "user", "content": "Hello"}], stream=True
    )
    for item in stream:
        for choice in item.choices or ():
            if choice.delta is not None:  # the last chunks of the asynchronous filter have none
                text += [piece for piece in (choice.delta.content, choice.delta.refusal) if piece]
                _take_calls(item, calls)
    return "".join(text), [("".join(name), "".join(pieces) or "{}") for _, name, pieces in calls]


def _take_calls(item: ChatCompletionChunk, calls: list[tuple[object, list[str], list[str]]]) -> None:
    for delta in item.choices[0].delta.tool_calls or ():
        key = next((call for call in reversed(calls) if call[0] == delta.index), None)
        named = delta.function.name if delta.function else None
        if key is None or named:
            key = (delta.index, [named or ""], [])
            calls.append(key)
        key[2].append((delta.function.arguments if delta.function else None) or "")


def theirs_by_responses(client: OpenAI) -> tuple[str, list[tuple[str, str]]]:
    text: list[str] = []
    names: dict[int, str] = {}
    arguments: dict[int, str] = {}
    stream = client.responses.create(model="mine", input="Hello", stream=True)
    for event in stream:
        if event.type == "response.output_text.delta" or event.type == "response.refusal.delta":
            text.append(event.delta)
        elif event.type == "response.output_item.added" and event.item.type == "function_call":
            names[event.output_index] = event.item.name
            arguments[event.output_index] = ""
        elif event.type == "response.function_call_arguments.delta":
            arguments[event.output_index] += event.delta
        elif event.type == "response.output_item.done" and event.item.type == "function_call":
            names[event.output_index] = event.item.name
            arguments[event.output_index] = event.item.arguments
    return "".join(text), [(names[place], arguments[place] or "{}") for place in names]


async def test_the_vendors_own_client_hears_the_same_from_a_deployment() -> None:
    for fixture in Wire(WIRES / "azure_chat").answers():
        async with FaultServer(lambda _, fixture=fixture: replay(fixture)) as server:
            ours = AzureProvider(model="mine", key=KEY, endpoint=root(server), api_version=DATED)
            heard = said(await ours.complete(HELLO))
            await ours.close()
            with azure_client(server) as client:
                assert heard == await to_thread(theirs_by_chat, client), fixture.name
        mine, other = server.requests
        assert (mine.path, mine.headers["api-key"]) == (other.path, other.headers["api-key"])


async def test_the_vendors_own_client_hears_the_same_from_the_v1_api() -> None:
    for fixture in Wire(WIRES / "azure").answers():
        async with FaultServer(lambda _, fixture=fixture: replay(fixture)) as server:
            ours = AzureProvider(model="mine", key=KEY, endpoint=root(server))
            heard = said(await ours.complete(HELLO))
            await ours.close()
            with OpenAI(base_url=f"{root(server)}/openai/v1/", api_key=KEY, max_retries=0) as client:
                assert heard == await to_thread(theirs_by_responses, client), fixture.name
        mine, other = server.requests
        assert mine.path == other.path


def azure_client(server: FaultServer, **settings: Any) -> AzureOpenAI:
    return AzureOpenAI(
        azure_endpoint=root(server), api_key=KEY, api_version=DATED, max_retries=0, timeout=20, **settings
    )


@pytest.mark.parametrize("deployment", [None, "mine"])
async def test_the_vendors_own_client_builds_the_same_addresses(deployment: str | None) -> None:
    async with FaultServer(answered) as server:
        for api, named in (("chat", deployment), ("responses", None)):
            settings: dict[str, Any] = {"api": api, "api_version": DATED, "deployment": named}
            await asked(server, AzureProvider(model="mine", key=KEY, endpoint=root(server), **settings))
        with azure_client(server, azure_deployment=deployment) as client:
            await to_thread(theirs_by_chat, client)
            await to_thread(theirs_by_responses, client)
    ours, theirs = server.requests[:2], server.requests[2:]
    assert [request.path for request in ours] == [request.path for request in theirs]
