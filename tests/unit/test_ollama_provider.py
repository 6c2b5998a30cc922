"""The Ollama provider: where its server is, keys, models, and what to do about its failures."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from ollama import AsyncClient
from ollama._client import _parse_host

from gnomon import registry
from gnomon._ollama import is_cloud, server_address
from gnomon.contracts.provider import SupportsModels
from gnomon.errors import (
    BadReply,
    BadRequest,
    ConfigError,
    ContextTooLong,
    GnomonError,
    MissingKey,
    ModelNotFound,
    Overloaded,
    ProviderError,
    RateLimited,
    Unauthorized,
    Unreachable,
)
from gnomon.providers.ollama import OllamaProvider
from gnomon.testing._server import FaultServer, ReceivedRequest, ServerReply
from gnomon.types.messages import Message, ToolDef, ToolResult
from gnomon.types.requests import Reasoning, Request
from ollama_standin import OllamaStandIn

KEY = "ollama-key-0123456789"
HELLO = Request(messages=(Message.user("Hello"),), model="llama3.2")
ANSWER = (
    b'{"model":"llama3.2","message":{"role":"assistant","content":"Hi"},"done":false}\n'
    b'{"model":"llama3.2","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}\n'
)
LINES = (("content-type", "application/x-ndjson"),)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OLLAMA_HOST", "OLLAMA_API_KEY"):
        monkeypatch.delenv(variable, raising=False)


def answered(_: ReceivedRequest) -> ServerReply:
    return ServerReply(headers=LINES, body=ANSWER)


async def asked(server: FaultServer, **settings: Any) -> ReceivedRequest:
    provider = OllamaProvider(**{"base_url": server.url, **settings})
    try:
        assert (await provider.complete(HELLO)).text == "Hi"
    finally:
        await provider.close()
    return server.requests[-1]


async def failed(reply: ServerReply, *, model: str = "llama3.2", **settings: Any) -> GnomonError:
    async with FaultServer(lambda _: reply) as server:
        provider = OllamaProvider(base_url=server.url, model=model, **settings)
        with pytest.raises(GnomonError) as caught:
            await provider.complete(Request(messages=(Message.user("Hello"),)))
        await provider.close()
    return caught.value


def refusal(status: int, error: str) -> ServerReply:
    kind = ("content-type", "application/json; charset=utf-8")
    return ServerReply(status=status, headers=(kind,), body=msgspec.json.encode({"error": error}))


# --- where the server is ------------------------------------------------------------

FORMS = (
    "",
    "1.2.3.4",
    ":56789",
    "1.2.3.4:56789",
    "http://1.2.3.4",
    "https://1.2.3.4",
    "https://1.2.3.4:56789",
    "example.com",
    "example.com:56789",
    "http://example.com",
    "https://example.com",
    "https://example.com:56789",
    "example.com/",
    "example.com:56789/",
    "example.com/path",
    "example.com:56789/path",
    "https://example.com:56789/path",
    "example.com:56789/path/",
    "[0001:002:003:0004::1]",
    "[0001:002:003:0004::1]:56789",
    "http://[0001:002:003:0004::1]",
    "https://[0001:002:003:0004::1]:56789/path",
    "localhost",
    "localhost:8080",
)


@pytest.mark.parametrize("form", FORMS)
def test_an_address_is_read_as_the_vendors_own_client_reads_it(form: str) -> None:
    ours, theirs = urlsplit(server_address(form)), urlsplit(_parse_host(form))
    assert (ours.scheme, ours.hostname, ours.port, ours.path) == (
        theirs.scheme,
        theirs.hostname,
        theirs.port,
        theirs.path,
    )


@pytest.mark.parametrize(
    ("form", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://[::1]:8080"),
        ("::", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        (' "gpu:8080" ', "http://gpu:8080"),
        ("ollama.com", "https://ollama.com"),
        ("http://ollama.com", "https://ollama.com"),
        ("https://ollama.com/api/", "https://ollama.com"),
        ("http://127.0.0.1:11434/v1", "http://127.0.0.1:11434"),
        ("http://gpu/ollama/api", "http://gpu:80/ollama"),
    ],
)
def test_what_only_the_server_knows_how_to_read_is_read_too(form: str, address: str) -> None:
    assert server_address(form) == address


@pytest.mark.parametrize("form", ["gpu:port", "gpu:99999", "ftp://gpu", "[::1", "http://me:hunter22@gpu"])
def test_an_address_that_is_none_is_told_without_its_password(form: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OllamaProvider(base_url=form)
    assert "hunter22" not in str(caught.value)
    assert caught.value.hint


async def test_the_server_is_found_in_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultServer(answered) as server:
        monkeypatch.setenv("OLLAMA_HOST", server.url.removeprefix("http://"))
        request = await asked(server, base_url=None)
    assert (request.method, request.path) == ("POST", "/api/chat")


@pytest.mark.parametrize("end", ["", "/", "/v1", "/api/"])
async def test_the_chat_is_asked_for_whatever_the_address_ends_with(end: str) -> None:
    async with FaultServer(answered) as server:
        assert (await asked(server, base_url=server.url + end)).path == "/api/chat"
        assert (await asked(server, base_url=f"{server.url}/behind{end}")).path == "/behind/api/chat"


def test_the_cloud_is_known_by_its_name_alone() -> None:
    assert is_cloud("https://ollama.com")
    assert is_cloud("https://eu.ollama.com:443/x")
    assert not is_cloud("https://ollama.com.example.org")
    assert not is_cloud("https://notollama.com")


# --- keys ---------------------------------------------------------------------------


async def test_a_server_of_ones_own_gets_no_key_of_the_clouds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    async with FaultServer(answered) as server:
        assert "authorization" not in (await asked(server)).headers
        assert (await asked(server, key="my-own-key")).headers["authorization"] == "Bearer my-own-key"


async def test_the_cloud_needs_a_key_when_it_is_asked_and_not_before() -> None:
    provider = OllamaProvider(base_url="https://ollama.com")
    with pytest.raises(MissingKey) as caught:
        await provider.complete(HELLO)
    assert "OLLAMA_API_KEY" in str(caught.value.hint)
    with pytest.raises(MissingKey):
        await provider.list_models()


async def test_the_key_of_the_cloud_is_found_in_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", KEY)
    provider = OllamaProvider(base_url="ollama.com", proxy="http://127.0.0.1:9")
    with pytest.raises(Unreachable) as caught:  # which is as far as it gets here
        await provider.complete(HELLO)
    await provider.close()
    assert KEY not in str(caught.value)
    assert "ollama serve" not in str(caught.value)


# --- models and settings ------------------------------------------------------------


def test_it_is_a_name_of_the_registry_and_a_model_may_have_a_tag() -> None:
    settings = {"base_url": "gpu:1", "context": 8192, "keep_alive": -1, "extra": {"options": {"seed": 1}}}
    provider = registry.provider("ollama:llama3.2:1b", settings)
    assert isinstance(provider, OllamaProvider)
    assert isinstance(provider, SupportsModels)
    assert (provider.name, provider.model) == ("ollama", "llama3.2:1b")


@pytest.mark.parametrize("settings", [{"context": 0}, {"context": "8k"}, {"keep_alive": [1]}, {"num_ctx": 1}])
def test_settings_that_cannot_be_used_are_told(settings: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        registry.provider("ollama:m", settings)


async def test_a_model_has_to_be_named() -> None:
    async with FaultServer(answered) as server:
        provider = OllamaProvider(base_url=server.url)
        assert provider.model == ""
        with pytest.raises(ConfigError, match="no model") as caught:
            await provider.complete(Request(messages=(Message.user("Hello"),)))
        await provider.close()
    assert "gnomon models ollama" in str(caught.value.hint)
    assert server.requests == []


async def test_models_are_listed_as_the_vendors_own_client_lists_them() -> None:
    async with OllamaStandIn(("qwen3:8b", "llama3.2:latest")) as server:
        async with AsyncClient(host=server.url) as client:
            listed = await client.list()
        provider = OllamaProvider(base_url=server.url)
        assert await provider.list_models() == tuple(model.model for model in listed.models)
        await provider.close()
    assert len(listed.models) == 2


# --- whole conversations with a server that takes nothing undocumented --------------


async def test_a_round_with_thinking_and_a_tool_and_back() -> None:
    tool = ToolDef(
        name="weather", schema={"type": "object", "properties": {"city": {"type": "string", "minLength": 1}}}
    )
    async with OllamaStandIn() as server:
        provider = OllamaProvider(base_url=server.url, model="llama3.2", context=8192, keep_alive="10m")
        question = Message.user("What is the weather?")
        request = Request(messages=(question,), tools=(tool,), thinking=Reasoning(effort="high"), top_k=4)
        first = await provider.complete(request)
        call = first.tool_calls[0]
        assert (first.stop_reason, call.name, call.parsed()) == ("tool_use", "weather", {"city": "x"})
        assert first.message.thinking == "Let me see."
        back = (question, first.message, Message.tool(ToolResult.of(call, "18 °C")))
        second = await provider.complete(msgspec.structs.replace(request, messages=back))
        await provider.close()
    assert second.text == "You said: 18 °C "
    assert (second.stop_reason, second.warnings) == ("end_turn", ())
    sent = msgspec.json.decode(server.asked[-1].body)
    assert sent["messages"][1]["thinking"] == "Let me see."
    assert sent["messages"][2]["tool_name"] == "weather"
    assert second.usage.input_tokens
    assert second.usage.output_tokens


async def test_a_format_is_held_to() -> None:
    async with OllamaStandIn() as server:
        provider = OllamaProvider(base_url=server.url, model="llama3.2")
        schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
        found = await provider.complete(msgspec.structs.replace(HELLO, output_schema=schema))
        await provider.close()
    assert msgspec.json.decode(found.text) == {"age": 1}


# --- failures, and what to do about them --------------------------------------------


async def test_a_model_that_is_not_there_can_be_fetched() -> None:
    async with OllamaStandIn() as server:
        provider = OllamaProvider(base_url=server.url)
        with pytest.raises(ModelNotFound) as caught:
            await provider.complete(Request(messages=HELLO.messages, model="qwen9:1b"))
        await provider.close()
    assert "`ollama pull qwen9:1b`" in str(caught.value.hint)


async def test_a_page_that_is_not_there_is_no_model_to_fetch() -> None:
    error = await failed(ServerReply(status=404, body=b"404 page not found"))
    assert isinstance(error, ModelNotFound)
    assert "ollama pull" not in str(error.hint)


@pytest.mark.parametrize("listing", [False, True])
async def test_a_server_that_does_not_run_can_be_started(listing: bool) -> None:
    provider = OllamaProvider(base_url="127.0.0.1:9")
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9") as caught:
        await (provider.list_models() if listing else provider.complete(HELLO))
    await provider.close()
    assert "ollama serve" in str(caught.value.hint)
    assert caught.value.retryable


OVERFLOW = {
    "error": {
        "code": 400,
        "message": "request (2622 tokens) exceeds the available context size (512 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 2622,
        "n_ctx": 512,
    }
}


@pytest.mark.parametrize(
    ("status", "said", "kind", "hint"),
    [
        (400, '"x" does not support tools', BadRequest, "without tools"),
        (
            400,
            "registry.ollama.ai/library/llama3.2:latest does not support tools",
            BadRequest,
            "without tools",
        ),
        (400, '"x" does not support thinking', BadRequest, "without thinking"),
        (400, "model does not support multimodal requests.", BadRequest, "leave the image out"),
        (400, "the input length exceeds the context length", ContextTooLong, "larger context"),
        (400, msgspec.json.encode(OVERFLOW).decode(), ContextTooLong, "larger context"),
        (401, "unauthorized", Unauthorized, "ollama signin"),
        (
            500,
            "model requires more system memory (5.3 GiB) than is available (3.3 GiB)",
            Overloaded,
            "smaller model",
        ),
        (503, "server busy, please try again. maximum pending requests exceeded", Overloaded, "ask again"),
        (
            429,
            "you (me) have reached your weekly usage limit, upgrade for higher limits",
            RateLimited,
            "credit or quota",
        ),
    ],
)
async def test_a_refusal_is_told_with_what_to_do(
    status: int, said: str, kind: type[ProviderError], hint: str
) -> None:
    error = await failed(refusal(status, said))
    assert type(error) is kind
    assert isinstance(error, ProviderError)
    assert (error.status, error.vendor) == (status, "ollama")
    assert hint in str(error.hint)
    assert "{" not in error.message


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("an error was encountered while running the model", Overloaded),
        ("unexpected EOF", Overloaded),
        ("model 'x' not found", ModelNotFound),
        ('"x" does not support tools', BadRequest),
        ("the input length exceeds the context length", ContextTooLong),
        ("unauthorized", Unauthorized),
    ],
)
async def test_a_complaint_inside_the_answer_is_the_same_error_without_a_status(
    said: str, kind: type[ProviderError]
) -> None:
    body = ANSWER.partition(b"\n")[0] + b"\n" + msgspec.json.encode({"error": said}) + b"\n"
    error = await failed(ServerReply(headers=LINES, body=body))
    assert type(error) is kind
    assert isinstance(error, ProviderError)
    assert error.status is None
    assert said in str(error)


@pytest.mark.parametrize("kind", ["", "text/plain", "application/octet-stream"])
async def test_lines_under_another_name_are_read(kind: str) -> None:
    headers = (("content-type", kind),) if kind else ()
    async with FaultServer(lambda _: ServerReply(headers=headers, body=ANSWER)) as server:
        await asked(server)


async def test_another_service_on_the_port_is_told_as_one() -> None:
    page = ServerReply(headers=(("content-type", "text/html"),), body=b"<html><title>Hi</title></html>")
    assert isinstance(await failed(page), BadReply)
