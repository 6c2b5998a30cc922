"""Mistral as a provider: who is asked, and in whose name."""

from __future__ import annotations

import msgspec
import pytest

from gnomon import registry
from gnomon.contracts.provider import SupportsModels
from gnomon.errors import MissingKey
from gnomon.providers.mistral import MistralProvider
from gnomon.testing._server import FaultServer, ReceivedRequest, ServerReply
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Message, Thinking
from gnomon.types.requests import Reasoning, Request

HELLO = Request(messages=(Message.user("Hello"),))
KEY = "0123456789abcdefghijklmnopqrstuv"
CHUNK = (
    b'data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"mistral-medium-2604",'
    b'"choices":[{"index":0,"delta":{"role":"assistant","content":%s},"finish_reason":%s}]}\n\n'
)
THOUGHT = (
    CHUNK % (b'[{"type":"thinking","thinking":[{"type":"text","text":"Hm."}]}]', b"null")
    + CHUNK % (b'[{"type":"thinking","thinking":[],"closed":true},{"type":"text","text":"Hi"}]', b"null")
    + CHUNK % (b'"."', b'"stop"')
    + b"data: [DONE]\n\n"
)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MISTRAL_API_KEY", raising=False)


def answered(_: ReceivedRequest) -> ServerReply:
    return ServerReply(headers=(("content-type", "text/event-stream"),), body=THOUGHT)


async def test_the_key_goes_into_the_header_and_the_body_to_chat() -> None:
    async with FaultServer(answered) as server:
        provider = MistralProvider(key=KEY, base_url=server.url, extra={"safe_prompt": True})
        response = await provider.complete(HELLO)
        await provider.close()
    (request,) = server.requests
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.path.endswith("/chat/completions")
    assert msgspec.json.decode(request.body) == {
        "model": "mistral-medium-latest",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "safe_prompt": True,
    }
    assert response.text == "Hi."
    assert response.model == "mistral-medium-2604"


async def test_a_thought_goes_back_as_it_came() -> None:
    async with FaultServer(answered) as server:
        provider = MistralProvider(key=KEY, base_url=server.url)
        first = await provider.complete(HELLO)
        await provider.complete(Request(messages=(*HELLO.messages, first.message, Message.user("And?"))))
        await provider.close()
    thought = first.message.content[0]
    assert isinstance(thought, Thinking)
    assert (thought.provider, thought.model) == ("mistral", "mistral-medium-latest")
    assert msgspec.json.decode(server.requests[1].body)["messages"][1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
            {"type": "text", "text": "Hi."},
        ],
    }


async def test_a_warning_comes_before_the_answer() -> None:
    async with FaultServer(answered) as server:
        provider = registry.provider("mistral:mistral-medium-3-5", {"key": KEY, "base_url": server.url})
        async with provider.stream(
            msgspec.structs.replace(HELLO, thinking=Reasoning(effort="low"))
        ) as stream:
            first = await anext(aiter(stream))
        await provider.close()
    assert isinstance(first, StreamWarning)
    assert first.code == "thinking_effort"


@pytest.mark.parametrize("base_url", [None, "https://api.eu.mistral.ai/v1"])
async def test_the_vendor_is_not_asked_without_a_key(base_url: str | None) -> None:
    provider = MistralProvider(base_url=base_url)
    with pytest.raises(MissingKey, match="mistral"):
        await provider.complete(HELLO)
    with pytest.raises(MissingKey):
        await provider.list_models()


async def test_the_environment_names_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MISTRAL_API_KEY", KEY)
    async with FaultServer(answered) as server:
        provider = MistralProvider(base_url=server.url)
        await provider.complete(HELLO)
        await provider.close()
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_the_models_are_listed_by_name() -> None:
    body = (
        b'{"object":"list","data":[{"id":"mistral-small-latest","capabilities":{}},{"id":"codestral-2508"}]}'
    )
    async with FaultServer(lambda _: ServerReply(body=body)) as server:
        provider = MistralProvider(key=KEY, base_url=server.url)
        assert isinstance(provider, SupportsModels)
        assert await provider.list_models() == ("codestral-2508", "mistral-small-latest")
        await provider.close()
    assert server.requests[0].path.endswith("/models")
