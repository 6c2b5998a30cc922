"""The compatible provider and its many names: addresses, keys, settings, models."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gnomon import registry
from gnomon.contracts.provider import SupportsModels
from gnomon.errors import BadReply, BadRequest, ConfigError, MissingKey, UnknownName
from gnomon.providers._vendors import VENDORS
from gnomon.providers.compatible import CompatibleProvider, DeepSeekProvider, GroqProvider
from gnomon.testing._server import FaultServer, ReceivedRequest, ServerReply
from gnomon.types.messages import Message
from gnomon.types.requests import Request

KEY = "sk-test-0123456789"
HELLO = Request(messages=(Message.user("Hello"),))
NAMED = Request(messages=(Message.user("Hello"),), model="m-1")
ANSWER = (
    b'data: {"choices":[{"index":0,"delta":{"content":"Hi","reasoning_content":"Hm."}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
)
HOSTED = [vendor for vendor in VENDORS.values() if vendor.needs_key]
LOCAL = [vendor for vendor in VENDORS.values() if not vendor.needs_key and vendor.base_url]


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in VENDORS.values():
        monkeypatch.delenv(vendor.key_variable, raising=False)
        monkeypatch.delenv(f"{vendor.name.upper()}_BASE_URL", raising=False)


def answered(_: ReceivedRequest) -> ServerReply:
    return ServerReply(headers=(("content-type", "text/event-stream"),), body=ANSWER)


async def asked(
    server: FaultServer, provider: CompatibleProvider, request: Request = NAMED
) -> dict[str, Any]:
    try:
        assert (await provider.complete(request)).text == "Hi"
    finally:
        await provider.close()
    return msgspec.json.decode(server.requests[-1].body)


# --- names ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", VENDORS)
def test_every_vendor_is_a_name_of_the_registry(name: str) -> None:
    provider = registry.provider(f"{name}:some/model:free", {"base_url": "http://127.0.0.1:9/v1", "key": KEY})
    assert isinstance(provider, CompatibleProvider)
    assert isinstance(provider, SupportsModels)
    assert (provider.name, provider.model) == (name, "some/model:free")


def test_every_compatible_name_of_the_registry_is_a_vendor() -> None:
    kinds = {name: registry.load("providers", name) for name in registry.names("providers")}
    ours = {
        name
        for name, kind in kinds.items()
        if isinstance(kind, type) and issubclass(kind, CompatibleProvider)
    }
    assert ours == set(VENDORS)


def test_a_name_that_there_is_not_is_helped() -> None:
    with pytest.raises(UnknownName, match="grog") as caught:
        registry.provider("grog:m")
    assert "groq" in str(caught.value.hint)


# --- addresses and keys ------------------------------------------------------------------


@pytest.mark.parametrize("vendor", HOSTED, ids=lambda vendor: vendor.name)
async def test_a_hosted_service_needs_a_key_when_it_is_asked_and_not_before(vendor: Any) -> None:
    provider = registry.provider(f"{vendor.name}:m-1")
    assert isinstance(provider, CompatibleProvider)
    with pytest.raises(MissingKey, match=vendor.name) as caught:
        await provider.complete(HELLO)
    assert vendor.key_variable in str(caught.value.hint)
    with pytest.raises(MissingKey):
        await provider.list_models()


@pytest.mark.parametrize("vendor", HOSTED, ids=lambda vendor: vendor.name)
def test_a_hosted_service_is_reached_by_https(vendor: Any) -> None:
    assert vendor.base_url.startswith("https://")


@pytest.mark.parametrize("vendor", LOCAL, ids=lambda vendor: vendor.name)
def test_a_local_server_is_on_this_machine_and_needs_no_key(vendor: Any) -> None:
    assert vendor.base_url.startswith("http://127.0.0.1:")
    assert registry.provider(f"{vendor.name}:m").name == vendor.name


async def test_the_key_is_found_in_the_vendors_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROQ_API_KEY", KEY)
    async with FaultServer(answered) as server:
        await asked(server, GroqProvider(base_url=server.url))
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_server_without_a_key_is_sent_none() -> None:
    async with FaultServer(answered) as server:
        await asked(server, CompatibleProvider(base_url=server.url))
    assert "authorization" not in server.requests[0].headers


async def test_the_address_is_found_in_a_variable_with_the_vendors_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with FaultServer(answered) as server:
        monkeypatch.setenv("DEEPSEEK_BASE_URL", server.url + "/v1/")
        await asked(server, DeepSeekProvider(key=KEY))
    assert server.requests[0].path == "/v1/chat/completions"


def test_a_compatible_server_must_have_an_address() -> None:
    with pytest.raises(ConfigError, match="address") as caught:
        CompatibleProvider(model="m-1")
    assert "COMPATIBLE_BASE_URL" in str(caught.value.hint)


# --- models ------------------------------------------------------------------------------


async def test_a_model_has_to_be_named_where_there_is_no_usual_one() -> None:
    async with FaultServer(answered) as server:
        provider = CompatibleProvider(base_url=server.url)
        with pytest.raises(ConfigError, match="no model"):
            await provider.complete(HELLO)
        await provider.close()
    assert server.requests == []


async def test_llamacpp_has_one_model_whatever_it_is_called() -> None:
    async with FaultServer(answered) as server:
        provider = registry.provider("llamacpp", {"base_url": server.url})
        assert isinstance(provider, CompatibleProvider)
        assert (await asked(server, provider, HELLO))["model"] == "default"


@pytest.mark.parametrize("form", [b'{"object":"list","data":%b}', b"%b"])
async def test_models_are_listed_from_an_object_or_a_bare_list(form: bytes) -> None:
    body = form % b'[{"id":"b","object":"model"},{"id":"a"}]'
    async with FaultServer(lambda _: ServerReply(body=body)) as server:
        provider = CompatibleProvider(base_url=server.url)
        assert await provider.list_models() == ("a", "b")
        await provider.close()
    assert server.requests[0].path == "/models"


@pytest.mark.parametrize("body", [b"<html>", b'{"data":5}', b'{"data":[{"name":"a"}]}', b"\xff", b'"a"'])
async def test_a_list_that_is_none_is_a_bad_reply(body: bytes) -> None:
    async with FaultServer(lambda _: ServerReply(body=body)) as server:
        provider = CompatibleProvider(base_url=server.url)
        with pytest.raises(BadReply, match="answer cannot be read"):
            await provider.list_models()
        await provider.close()


# --- quirks ------------------------------------------------------------------------------


async def test_a_user_can_say_how_a_server_differs() -> None:
    async with FaultServer(answered) as server:
        provider = CompatibleProvider(
            base_url=server.url,
            quirks={"replay": "reasoning_content", "max_tokens": "max_completion_tokens", "media": ["image"]},
        )
        first = await provider.complete(NAMED)
        said = msgspec.structs.replace(NAMED, messages=(*NAMED.messages, first.message), max_tokens=7)
        body = await asked(server, provider, said)
    assert body["messages"][1]["reasoning_content"] == "Hm."
    assert body["max_completion_tokens"] == 7


@pytest.mark.parametrize(
    ("quirks", "words"),
    [({"replays": "x"}, "replays"), ({"output": "xml"}, "output"), ({"top_k": "yes"}, "top_k")],
)
def test_a_quirk_that_there_is_not_is_refused_at_once(quirks: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        CompatibleProvider(base_url="http://127.0.0.1:9", quirks=quirks)


async def test_rules_of_a_model_hold_for_the_model_that_is_asked() -> None:
    async with FaultServer(answered) as server:
        provider = GroqProvider(model="openai/gpt-oss-20b", key=KEY, base_url=server.url)
        request = msgspec.json.decode(
            b'{"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}],"thinking":{"effort":"low"}}',
            type=Request,
        )
        body = await asked(server, provider, msgspec.structs.replace(request, model="qwen/qwen3-32b"))
    assert (body["reasoning_effort"], body["reasoning_format"]) == ("default", "parsed")


async def test_extra_and_headers_are_sent() -> None:
    async with FaultServer(answered) as server:
        provider = CompatibleProvider(base_url=server.url, extra={"seed": 7}, headers={"x-title": "Gnomon"})
        assert (await asked(server, provider))["seed"] == 7
    assert server.requests[0].headers["x-title"] == "Gnomon"


@pytest.mark.parametrize("name", ["compatible", "openai", "anthropic"])
async def test_half_a_character_is_a_bad_request_of_every_provider(name: str) -> None:
    provider = registry.provider(f"{name}:m", {"base_url": "http://127.0.0.1:9", "key": KEY})
    with pytest.raises(BadRequest, match="half a character"):
        await provider.complete(Request(messages=(Message.user("a\ud800b"),)))


@pytest.mark.parametrize("name", ["compatible", "openai", "anthropic"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"connect_s": "10"},
        {"key": 5},
        {"base_url": 5},
        {"headers": {"x": 1}},
        {"headers": "x"},
        {"headers": {"x y": "z"}},
        {"headers": {"x\r\ny": "z"}},
        {"extra": [1]},
        {"proxy": 5},
        {"proxy": "socks5://u:s3cret@h:1"},
        {"ca": 5},
    ],
)
def test_a_setting_of_the_wrong_kind_is_a_config_error(name: str, wrong: dict[str, object]) -> None:
    """They come out of a file that a person wrote."""
    with pytest.raises(ConfigError) as caught:
        registry.provider(f"{name}:m", {"base_url": "http://127.0.0.1:9", "key": KEY, **wrong})
    assert "s3cret" not in str(caught.value)
