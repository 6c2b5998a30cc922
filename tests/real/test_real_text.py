"""Text from SmolLM2-135M on a real llama.cpp server, by Chat Completions, Responses and Messages.

The model is slow for a test: answers are a few tokens long, and one question serves several checks.
"""

from __future__ import annotations

import asyncio
import json

import pytest
from llama_servers import LlamaServer
from real_asking import ALL, LABELS_LIMITS, WIRES, Answer, answer, asked, in_one_piece, made, user
from schema_check import misfit

from gnomon.contracts.provider import Provider, SupportsModels, SupportsTokenCount
from gnomon.types.events import TextDelta
from gnomon.types.messages import Message, Text
from gnomon.types.requests import Request

HELLO = user("Hi", system="Greet.", temperature=0.0, max_tokens=8)


def _input_of(got: Answer) -> int:
    usage = got.response.usage
    return (usage.input_tokens or 0) + (usage.cache_read_tokens or 0)


def _text_of(kind: str, whole: dict) -> str:
    match kind:
        case "anthropic":
            return "".join(block["text"] for block in whole["content"])
        case "openai":
            return "".join(part["text"] for item in whole["output"] for part in item["content"])
        case _:
            return whole["choices"][0]["message"]["content"]


def _counts_of(whole: dict) -> tuple[int, int]:
    """All that went in and came out, in the words of whichever API."""
    usage = whole["usage"]
    went_in = usage.get("prompt_tokens", usage.get("input_tokens", 0)) + usage.get(
        "cache_read_input_tokens", 0
    )
    return went_in, usage.get("completion_tokens", usage.get("output_tokens", 0))


@pytest.mark.parametrize("kind", ALL)
async def test_text_comes_in_pieces_and_is_what_the_server_says_in_one(
    kind: str, smollm2: LlamaServer
) -> None:
    got = await asked(smollm2, kind, HELLO)
    whole = await in_one_piece(smollm2, kind, HELLO)
    assert len([event for event in got.events if isinstance(event, TextDelta)]) > 3
    assert got.text == _text_of(kind, whole) != ""
    assert (_input_of(got), got.response.usage.output_tokens) == _counts_of(whole)
    assert got.response.id
    assert got.response.model == smollm2.model
    assert got.response.provider == kind.removesuffix("_chat")
    assert not got.warnings


@pytest.mark.parametrize("kind", WIRES)
async def test_without_chance_the_blocking_call_repeats_what_was_streamed(
    kind: str, smollm2: LlamaServer
) -> None:
    streamed = (await asked(smollm2, kind, HELLO)).response
    provider = made(kind, smollm2)
    smollm2.exchanges[provider.name] += 1
    whole = await provider.complete(HELLO)
    await provider.close()
    assert whole.message == streamed.message
    assert (whole.stop_reason, whole.model) == (streamed.stop_reason, streamed.model)
    assert whole.usage.output_tokens == streamed.usage.output_tokens


@pytest.mark.parametrize("kind", WIRES)
async def test_a_limit_on_tokens_is_kept_and_said(kind: str, smollm2: LlamaServer) -> None:
    got = await asked(smollm2, kind, user("Count to ten", temperature=0.0, max_tokens=3))
    assert got.response.usage.output_tokens == 3
    # In Responses llama.cpp calls every answer completed, so there the limit cannot be told.
    assert got.response.stop_reason == ("max_tokens" if kind in LABELS_LIMITS else "end_turn")


@pytest.mark.parametrize("kind", ["llamacpp", "anthropic"])
async def test_a_stop_sequence_ends_the_text_before_it(kind: str, smollm2: LlamaServer) -> None:
    whole = await asked(smollm2, kind, HELLO)
    stop = whole.text[3:5]
    got = await asked(smollm2, kind, user("Hi", system="Greet.", temperature=0.0, max_tokens=8, stop=(stop,)))
    assert got.text == whole.text.partition(stop)[0]
    assert got.response.stop_reason in ("end_turn", "stop_sequence")


async def test_what_an_api_has_no_word_for_is_warned_of(smollm2: LlamaServer) -> None:
    got = await asked(smollm2, "openai", user("Hi", max_tokens=2, stop=("x",), top_k=5))
    assert len(got.warnings) == 2
    assert "stop" in "".join(got.warnings)
    assert "top_k" in "".join(got.warnings)


PET = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}, "kind": {"enum": ["cat", "dog"]}},
    "required": ["age", "kind"],
    "additionalProperties": False,
}
"""For Chat Completions alone: llama.cpp passes over the format in Responses and in Messages."""


async def test_an_answer_by_schema_fits_it(smollm2: LlamaServer) -> None:
    request = user("A pet", system="JSON.", temperature=0.0, max_tokens=60, output_schema=PET)
    got = await asked(smollm2, "llamacpp", request)
    assert misfit(json.loads(got.text), PET) is None
    assert got.response.stop_reason == "end_turn"


@pytest.mark.parametrize("kind", ["llamacpp", "openai_chat"])
async def test_a_model_that_knows_nothing_answers_by_schema_too(kind: str, random_model: LlamaServer) -> None:
    seen = set()
    for seed in range(10):
        got = await asked(random_model, kind, user("A pet", max_tokens=300, output_schema=PET), seed=seed)
        assert misfit(json.loads(got.text), PET) is None
        seen.add(got.text)
    assert len(seen) > 1


# --- what was sent, by what the server counts ----------------------------------------

CONVERSATIONS = {
    "one question": ((Message.user("Hi"),), None),
    "a system prompt": ((Message.user("Hi"),), "You are a pirate."),
    "several turns": (
        (Message.user("My name is Ada."), Message.assistant("Hello, Ada!"), Message.user("What is it?")),
        "Be brief.",
    ),
    "unicode": ((Message.user("naïve Straße 日本語 😀 \u202e \x00-free e\u0301"),), "Ünïcödé: ✓"),
    "several parts": ((Message.user("One. ", "Two. ", "Three."),), None),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
async def test_a_conversation_is_the_same_prompt_on_every_wire(name: str, random_model: LlamaServer) -> None:
    messages, system = CONVERSATIONS[name]
    expected = await _counted(random_model, messages, system)
    for kind in ALL:
        request = Request(messages=messages, system=system, max_tokens=1, temperature=0.0)
        assert await _went_in(random_model, kind, request) == expected, kind


async def _went_in(server: LlamaServer, kind: str, request: Request) -> int:
    if kind != "anthropic":
        return _input_of(await asked(server, kind, request))
    # llama.cpp leaves out the start of a message, and its count, when the first token is half a character.
    return (await in_one_piece(server, kind, request, path="/v1/messages/count_tokens"))["input_tokens"]


async def _counted(server: LlamaServer, messages: tuple[Message, ...], system: str | None) -> int:
    """The tokens of a conversation that is written down by hand, as the server's own tokenizer has them."""
    said = [{"role": message.role, "content": _content(message)} for message in messages]
    first = [{"role": "system", "content": system}] if system else []
    prompt = (await server.post("/apply-template", {"messages": first + said}))["prompt"]
    return len((await server.post("/tokenize", {"content": prompt, "parse_special": True}))["tokens"])


def _content(message: Message) -> object:
    """llama.cpp puts a line end between the parts of one message."""
    if len(message.content) == 1:
        return message.text
    return [{"type": "text", "text": part.text} for part in message.content if isinstance(part, Text)]


async def test_the_server_counts_a_prompt_as_it_counts_the_answer_to_it(smollm2: LlamaServer) -> None:
    provider = made("anthropic", smollm2)
    assert isinstance(provider, SupportsTokenCount)
    got = await answer(smollm2, provider, user("How many tokens are these?", max_tokens=1))
    assert await provider.count_tokens((Message.user("How many tokens are these?"),), ()) == _input_of(got)
    await provider.close()


@pytest.mark.parametrize("kind", WIRES)
async def test_the_models_are_those_that_the_server_has(kind: str, smollm2: LlamaServer) -> None:
    provider = made(kind, smollm2)
    assert isinstance(provider, SupportsModels)
    assert await provider.list_models() == (smollm2.model,)
    await provider.close()


# --- leaving, and many at once ---------------------------------------------------------


async def _begin(provider: Provider, begun: asyncio.Event | None = None) -> None:
    """Reads a little of a long answer, then leaves; or says so, and goes on until it is cancelled."""
    async with provider.stream(user("Tell a long story", max_tokens=400)) as stream:
        seen = 0
        async for event in stream:
            seen += isinstance(event, TextDelta)
            if seen == 2:
                if begun is None:
                    return
                begun.set()
    raise AssertionError("the answer came to its end")


async def _expect_free(server: LlamaServer) -> None:
    """Soon, that is: long before the answer would have come to its end."""
    while written := await server.being_written():
        assert max(written) < 60, "the server goes on with an answer that nobody reads"
        await asyncio.sleep(0.02)


@pytest.mark.parametrize("kind", WIRES)
async def test_leaving_in_the_middle_frees_the_server(kind: str, smollm2: LlamaServer) -> None:
    provider = made(kind, smollm2)
    smollm2.exchanges[provider.name] += 1
    await _begin(provider)
    await _expect_free(smollm2)
    await provider.close()


@pytest.mark.parametrize("kind", WIRES)
async def test_cancelling_in_the_middle_frees_the_server(kind: str, smollm2: LlamaServer) -> None:
    provider, begun = made(kind, smollm2), asyncio.Event()
    smollm2.exchanges[provider.name] += 1
    reader = asyncio.create_task(_begin(provider, begun))
    await begun.wait()
    assert len(await smollm2.being_written()) == 1
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await _expect_free(smollm2)
    await provider.close()


@pytest.mark.parametrize("kind", WIRES)
async def test_one_question_follows_another_without_a_pause(kind: str, random_model: LlamaServer) -> None:
    """llama.cpp closes its connection after a stream, though it said that it would keep it."""
    provider = made(kind, random_model)
    for number in range(20):
        await answer(random_model, provider, user(f"Question {number}", max_tokens=3))
    await provider.close()


@pytest.mark.parametrize("kind", WIRES)
async def test_eight_streams_at_once_all_come_to_their_end(kind: str, smollm2: LlamaServer) -> None:
    provider = made(kind, smollm2)
    request = user("Hi", system="Greet.", max_tokens=3)
    got = await asyncio.gather(*(answer(smollm2, provider, request) for _ in range(8)))
    await provider.close()
    assert len({one.response.id for one in got}) == 8
    assert {one.response.usage.output_tokens for one in got} <= {1, 2, 3}
    assert all(one.text for one in got)
