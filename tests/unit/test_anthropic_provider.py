"""Anthropic as a provider: who is asked, in whose name, and for what else than answers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gnomon import registry
from gnomon.contracts.provider import SupportsModels, SupportsTokenCount
from gnomon.errors import BadReply, ConfigError, MissingKey, Unauthorized
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.testing import FaultServer, ReceivedRequest, ServerReply
from gnomon.types.messages import Message, ToolDef
from gnomon.types.requests import Request

HELLO = Request(messages=(Message.user("Hello"),))
TEXT = (Path(__file__).parent.parent / "wire" / "anthropic" / "text.http").read_bytes()
KEY = "sk-ant-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def answered(request: ReceivedRequest) -> ServerReply:
    return ServerReply(headers=(("content-type", "text/event-stream"),), body=TEXT.partition(b"\n\n")[2])


def saying(*replies: object) -> FaultServer:
    """A server that gives these replies, one after the other."""
    left = [msgspec.json.encode(reply) for reply in replies]
    kind = (("content-type", "application/json"),)
    return FaultServer(lambda request: ServerReply(headers=kind, body=left.pop(0), framing="length"))


async def asked(server: FaultServer, provider: AnthropicProvider) -> ReceivedRequest:
    try:
        await provider.complete(HELLO)
    finally:
        await provider.close()
    return server.requests[-1]


async def test_a_key_goes_into_its_own_header() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, AnthropicProvider(key=KEY, base_url=server.url))
    assert request.path == "/v1/messages"
    assert request.headers["x-api-key"] == KEY
    assert request.headers["anthropic-version"] == "2026-10-21"
    assert "authorization" not in request.headers
    assert "anthropic-beta" not in request.headers


async def test_a_token_is_borne() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, AnthropicProvider(auth_token=KEY, base_url=server.url))
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in request.headers


@pytest.mark.parametrize(
    ("variables", "header"),
    [
        (["ANTHROPIC_API_KEY"], "x-api-key"),
        (["ANTHROPIC_AUTH_TOKEN"], "authorization"),
        (["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"], "x-api-key"),
    ],
)
async def test_the_environment_names_who_asks_and_where(
    monkeypatch: pytest.MonkeyPatch, variables: list[str], header: str
) -> None:
    async with FaultServer(answered) as server:
        for name in variables:
            monkeypatch.setenv(name, KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        request = await asked(server, AnthropicProvider())
    assert request.headers[header].endswith(KEY)
    assert ("x-api-key" in request.headers) != ("authorization" in request.headers)


async def test_a_token_that_is_given_goes_before_a_key_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-another-0123456789")
    async with FaultServer(answered) as server:
        request = await asked(server, AnthropicProvider(auth_token=KEY, base_url=server.url))
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("base_url", [None, "https://api.anthropic.com/", "https://api.anthropic.com/v1"])
async def test_the_vendor_is_not_asked_without_a_key(base_url: str | None) -> None:
    provider = AnthropicProvider(base_url=base_url)
    with pytest.raises(MissingKey, match="ANTHROPIC_API_KEY or ANTHROPIC_AUTH_TOKEN"):
        await provider.complete(HELLO)
    with pytest.raises(MissingKey):
        await provider.list_models()
    with pytest.raises(MissingKey):
        await provider.count_tokens(HELLO.messages, ())


async def test_another_address_may_need_no_key_and_may_end_in_the_version() -> None:
    async with FaultServer(answered) as server:
        request = await asked(server, AnthropicProvider(base_url=f"{server.url}/v1/"))
    assert request.path == "/v1/messages"
    assert "x-api-key" not in request.headers


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, "interleaved-thinking-2025-05-14"),
        ({"Anthropic-Beta": "a-1"}, "a-1,interleaved-thinking-2025-05-14"),
    ],
)
async def test_older_models_are_told_that_they_may_think_between_calls(
    given: dict[str, str], sent: str
) -> None:
    async with FaultServer(answered) as server:
        provider = AnthropicProvider(key=KEY, base_url=server.url, model="claude-haiku-4-5", headers=given)
        request = await asked(server, provider)
    assert request.headers["anthropic-beta"] == sent


async def test_models_are_listed_page_by_page() -> None:
    first = {"data": [{"id": "claude-b", "type": "model"}], "has_more": True, "last_id": "claude-b"}
    second = {"data": [{"id": "claude-a"}], "has_more": False, "last_id": "claude-a", "first_id": "claude-a"}
    async with saying(first, second) as server:
        provider = AnthropicProvider(key=KEY, base_url=server.url)
        assert isinstance(provider, SupportsModels)
        assert await provider.list_models() == ("claude-b", "claude-a")
        await provider.close()
    paths = [request.path for request in server.requests]
    assert paths == ["/v1/models?limit=1000", "/v1/models?limit=1000&after_id=claude-b"]


async def test_tokens_are_counted_by_the_vendor() -> None:
    async with saying({"input_tokens": 2095}) as server:
        provider = AnthropicProvider(key=KEY, base_url=server.url)
        assert isinstance(provider, SupportsTokenCount)
        assert await provider.count_tokens(HELLO.messages, (ToolDef(name="ping"),)) == 2095
        await provider.close()
    assert server.requests[0].path == "/v1/messages/count_tokens"
    body = msgspec.json.decode(server.requests[0].body)
    assert body["model"] == provider.model
    assert body["messages"] == [{"role": "user", "content": "Hello"}]


async def test_a_list_or_a_count_that_cannot_be_read_is_a_bad_reply() -> None:
    async with saying({"data": 3}, []) as server:
        provider = AnthropicProvider(key=KEY, base_url=server.url)
        with pytest.raises(BadReply, match="cannot be read"):
            await provider.list_models()
        with pytest.raises(BadReply, match="cannot be read"):
            await provider.count_tokens(HELLO.messages, ())
        await provider.close()


async def test_a_refusal_to_count_is_the_usual_error() -> None:
    body = b'{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}'
    reply = ServerReply(
        status=401, headers=(("content-type", "application/json"),), body=body, framing="length"
    )
    async with FaultServer(lambda request: reply) as server:
        provider = AnthropicProvider(key=KEY, base_url=server.url)
        with pytest.raises(Unauthorized, match="invalid x-api-key"):
            await provider.count_tokens(HELLO.messages, ())
        await provider.close()


def test_it_is_found_by_its_name_and_takes_settings() -> None:
    found = registry.provider("anthropic:claude-sonnet-5-5", {"key": KEY, "cache": "1h", "idle_s": 5})
    assert isinstance(found, AnthropicProvider)
    assert (found.name, found.model) == ("anthropic", "claude-sonnet-5-5")


@pytest.mark.parametrize("cache", ["5m", "yes", 3, None])
def test_a_cache_that_is_none_is_refused(cache: object) -> None:
    with pytest.raises(ConfigError, match="cache"):
        AnthropicProvider(key=KEY, cache=cache)  # type: ignore[arg-type]
