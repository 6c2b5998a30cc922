"""What a real llama.cpp server refuses, and what becomes of an answer when the server dies."""

from __future__ import annotations

import pytest
from llama_servers import LlamaServer
from real_asking import KEY, WIRES, answer, asked, made, user

from gnomon.contracts.provider import Provider
from gnomon.errors import (
    BadRequest,
    ContextTooLong,
    ModelNotFound,
    ProviderError,
    StreamCut,
    Unauthorized,
    Unreachable,
)
from gnomon.types.events import ToolCallDelta
from gnomon.types.messages import ToolDef
from gnomon.types.requests import Request


async def _refusal(server: LlamaServer, kind: str, text: str = "Hi", **extra: object) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await asked(server, kind, user(text, max_tokens=2), **extra)
    assert caught.value.vendor == kind
    return caught.value


@pytest.mark.parametrize("kind", WIRES)
async def test_a_prompt_that_does_not_fit_is_too_long_in_the_words_of_the_server(
    kind: str, smollm2: LlamaServer
) -> None:
    error = await _refusal(smollm2, kind, "word " * 1000)
    assert type(error) is ContextTooLong
    assert "exceeds the available context size (512 tokens)" in error.message
    assert error.status == 400
    assert not error.retryable


@pytest.mark.parametrize("kind", WIRES)
async def test_what_the_server_cannot_read_is_a_bad_request(kind: str, random_model: LlamaServer) -> None:
    error = await _refusal(random_model, kind, temperature="hot")
    assert type(error) is BadRequest
    assert "temperature" in error.message
    assert not error.retryable


@pytest.mark.parametrize("kind", WIRES)
async def test_an_address_without_the_api_is_not_found(kind: str, random_model: LlamaServer) -> None:
    error = await _refusal(random_model, kind, at="/elsewhere")
    assert type(error) is ModelNotFound
    assert error.status == 404


@pytest.mark.parametrize("kind", WIRES)
async def test_a_call_that_fills_the_window_is_truncated(kind: str, locked: LlamaServer) -> None:
    got = await asked(locked, kind, _long(1000, max_tokens=2000), key=KEY)
    assert [call.truncated for call in got.calls] == [True]
    assert got.response.stop_reason == "max_tokens"
    assert got.response.usage.total_tokens == 512


@pytest.mark.parametrize("kind", WIRES)
async def test_a_key_is_asked_for_and_never_shown(kind: str, locked: LlamaServer) -> None:
    wrong = "sk-some-other-key-9876543210"
    for given in (None, wrong):
        error = await _refusal(locked, kind, key=given)
        assert type(error) is Unauthorized
        assert wrong not in f"{error!r} {error} {vars(error)}"
    assert (await asked(locked, kind, user("Hi", max_tokens=2), key=KEY)).response.usage.output_tokens


@pytest.mark.parametrize("kind", WIRES)
async def test_a_server_that_dies_in_the_middle_is_a_cut_and_then_unreachable(
    kind: str, mortal: LlamaServer
) -> None:
    provider = made(kind, mortal)
    with pytest.raises(StreamCut) as cut:
        await _read_and_kill(mortal, provider)
    with pytest.raises(Unreachable) as gone:
        await answer(mortal, provider, user("Hi"))
    assert cut.value.retryable
    assert gone.value.retryable
    await provider.close()


async def _read_and_kill(server: LlamaServer, provider: Provider) -> None:
    server.exchanges[provider.name] += 1
    async with provider.stream(_long(1000, max_tokens=1500)) as stream:
        async for event in stream:
            if isinstance(event, ToolCallDelta):
                server.kill()


def _long(characters: int, max_tokens: int) -> Request:
    """A question whose answer is a call of that length, a token a character."""
    text = {"const": "x" * characters}
    schema = {
        "type": "object",
        "properties": {"text": text},
        "required": ["text"],
        "additionalProperties": False,
    }
    tools = (ToolDef(name="write", schema=schema),)
    return user("Write", tools=tools, tool_choice="required", max_tokens=max_tokens)
