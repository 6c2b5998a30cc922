"""OpenAI as a provider: who is asked, in whose name, and by which API."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gnomon import registry
from gnomon.contracts.provider import SupportsModels
from gnomon.errors import BadReply, ConfigError, MissingKey, Unauthorized
from gnomon.providers.openai import OpenAIProvider
from gnomon.testing._server import FaultServer, ReceivedRequest, ServerReply
from gnomon.types.messages import Message
from gnomon.types.requests import Request

HELLO = Request(messages=(Message.user("Hello"),))
WIRES = Path(__file__).parent.parent / "wire"
KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
        monkeypatch.delenv(name, raising=False)


def answered(request: ReceivedRequest) -> ServerReply:
    wire = "openai_chat" if request.path.endswith("/chat/completions") else "openai"
    body = (WIRES / wire / "text.http").read_bytes().partition(b"\n\n")[2]
    return ServerReply(headers=(("content-type", "text/event-stream"),), body=body)


async def asked(server: FaultServer, provider: OpenAIProvider) -> ReceivedRequest:
    try:
        await provider.complete(HELLO)
    finally:
        await provider.close()
    return server.requests[-1]


async def test_the_key_and_who_pays_go_into_headers() -> None:
    async with FaultServer(answered) as server:
        provider = OpenAIProvider(key=KEY, base_url=server.url, organization="org-1", project="proj-2")
        request = await asked(server, provider)
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["openai-organization"] == "org-1"
    assert request.headers["openai-project"] == "proj-2"
    assert request.path.endswith("/responses")


async def test_who_pays_is_not_told_to_another_address_unless_it_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-of-the-environment")
    async with FaultServer(answered) as server:
        request = await asked(server, OpenAIProvider(base_url=server.url))
    assert "openai-organization" not in request.headers


async def test_the_environment_names_key_and_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async with FaultServer(answered) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        request = await asked(server, OpenAIProvider())
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("base_url", [None, "https://eu.api.openai.com/v1", "https://api.openai.com"])
async def test_the_vendor_is_not_asked_without_a_key(base_url: str | None) -> None:
    provider = OpenAIProvider(base_url=base_url)
    with pytest.raises(MissingKey, match="openai"):
        await provider.complete(HELLO)
    with pytest.raises(MissingKey):
        await provider.list_models()


async def test_another_address_may_need_no_key() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, OpenAIProvider(base_url=server.url))
    assert "authorization" not in request.headers


async def test_chat_completions_are_asked_when_they_are_chosen() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, OpenAIProvider(base_url=server.url, api="chat", extra={"seed": 7}))
    assert request.path.endswith("/chat/completions")
    body = msgspec.json.decode(request.body)
    assert body["messages"][-1]["content"] == "Hello"
    assert body["seed"] == 7


def test_an_api_that_there_is_not_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"api.*'realtime'"):
        registry.provider("openai", {"api": "realtime"})


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="base_url"):
        OpenAIProvider(base_url="http://[nowhere")


async def test_the_model_is_the_requests_or_the_providers() -> None:
    async with FaultServer(answered) as server:
        provider = registry.provider("openai:gpt-5.6-luna", {"base_url": server.url})
        await provider.complete(HELLO)
        await provider.complete(msgspec.structs.replace(HELLO, model="gpt-6-astra"))
        await provider.close()
    models = [msgspec.json.decode(request.body)["model"] for request in server.requests]
    assert models == ["gpt-5.6-luna", "gpt-6-astra"]


async def test_the_models_are_listed_by_name() -> None:
    body = b'{"object":"list","data":[{"id":"gpt-6-sol","object":"model"},{"id":"gpt-5.5","owned_by":"x"}]}'
    async with FaultServer(lambda _: ServerReply(body=body)) as server:
        provider = OpenAIProvider(key=KEY, base_url=server.url)
        assert isinstance(provider, SupportsModels)
        assert await provider.list_models() == ("gpt-5.5", "gpt-6-sol")
        await provider.close()
    assert server.requests[0].path.endswith("/models")


async def test_a_list_that_is_none_is_a_bad_reply() -> None:
    async with FaultServer(lambda _: ServerReply(body=b"<html>hello</html>")) as server:
        provider = OpenAIProvider(base_url=server.url)
        with pytest.raises(BadReply, match="answer cannot be read"):
            await provider.list_models()
        await provider.close()


async def test_a_key_that_is_refused_is_not_repeated() -> None:
    echo = (
        b'{"error":{"message":"Incorrect API key provided: ' + KEY.encode() + b'","code":"invalid_api_key"}}'
    )
    async with FaultServer(lambda _: ServerReply(status=401, body=echo)) as server:
        provider = OpenAIProvider(key=KEY, base_url=server.url)
        with pytest.raises(Unauthorized) as caught:
            await provider.complete(HELLO)
        await provider.close()
    assert KEY not in str(caught.value)
