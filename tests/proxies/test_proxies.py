"""Our providers against a second implementation of their wires: LiteLLM's proxy, before llama.cpp servers.

Every provider asks for models that LiteLLM itself asks for in three ways (`BEHIND`), so that most answers
went through a translation of LiteLLM's, and are held against what llama.cpp says without it. Where LiteLLM
is wrong, a test says in what; for Google's API, `test_google_routes.py` has it without any code of ours.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest
from google_asking import counted
from litellm_proxy import BEHIND, Proxy, name_of
from llama_servers import LlamaServer
from real_asking import Answer, answer, user
from schema_check import misfit

from gnomon.contracts.provider import Provider, SupportsModels
from gnomon.errors import (
    BadReply,
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    Unauthorized,
)
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.providers.compatible import LiteLLMProvider
from gnomon.providers.gemini import GeminiProvider
from gnomon.providers.openai import OpenAIProvider
from gnomon.types.events import TextDelta, ToolCallDelta
from gnomon.types.messages import Message, Text, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Request

if not os.environ.get("GNOMON_PROXIES"):
    pytest.skip(
        "LiteLLM's proxy takes minutes to install: `make test-proxies` does it, and runs these",
        allow_module_level=True,
    )

KINDS = ("litellm", "openai_chat", "openai", "anthropic", "gemini")
"""Chat Completions twice, Responses, Messages, and Google's, which LiteLLM makes of Chat Completions."""
WAYS = [(kind, behind) for kind in KINDS for behind in BEHIND]
LEAST_16 = {("openai", "vllm"), ("openai", "openai"), ("anthropic", "openai")}
"""Where LiteLLM asks the server by Responses: a limit under 16 tokens is sent as 16, OpenAI's least."""
UNLABELLED = LEAST_16
"""And where llama.cpp, asked by Responses, calls every answer completed: the limit cannot be told."""

every_way = pytest.mark.parametrize(("kind", "behind"), WAYS)
every_kind = pytest.mark.parametrize("kind", KINDS)


def _made(
    kind: str, proxy: Proxy, model: str, *, key: str | None = None, extra: dict[str, object] | None = None
) -> Provider:
    given: dict[str, Any] = {"model": model, "key": proxy.key if key is None else key or None, "extra": extra}
    match kind:
        case "litellm":
            return LiteLLMProvider(base_url=proxy.url, **given)
        case "openai":
            return OpenAIProvider(base_url=f"{proxy.url}/v1", **given)
        case "openai_chat":
            return OpenAIProvider(base_url=f"{proxy.url}/v1", api="chat", **given)
        case "gemini":
            return GeminiProvider(base_url=proxy.url, **given)
        case _:
            return AnthropicProvider(base_url=proxy.url, version="2023-06-01", **given)


async def _asked(
    server: LlamaServer, proxy: Proxy, way: tuple[str, str], request: Request, **settings: Any
) -> Answer:
    """One question by a new provider, which is closed again."""
    kind, behind = way
    weights = server.model.partition("-")[0]
    provider = _made(kind, proxy, name_of(weights, behind), **settings)
    try:
        return await answer(server, provider, request)
    finally:
        await provider.close()


async def _used(
    server: LlamaServer, proxy: Proxy, way: tuple[str, str], request: Request, got: Answer
) -> tuple[int, int]:
    """The tokens that went in and came out, by what was said of the answer.

    In Google's streams LiteLLM says 0 of both: there it is said of the same question, answered in one piece.
    """
    usage = got.response.usage
    if way[0] == "gemini":
        assert (usage.input_tokens, usage.output_tokens) == (0, 0), "it counts now: say so here"
        model = name_of(server.model.partition("-")[0], way[1])
        server.exchanges["no provider"] += 1
        usage = await counted(proxy, model, request)
    return (usage.input_tokens or 0) + (usage.cache_read_tokens or 0), usage.output_tokens or 0


# --- text ------------------------------------------------------------------------

HELLO = user("Hi", system="Greet.", temperature=0.0, max_tokens=20)


@every_way
async def test_text_comes_in_pieces_and_is_what_the_server_says_without_the_proxy(
    kind: str, behind: str, proxy: Proxy, smollm2: LlamaServer
) -> None:
    got = await _asked(smollm2, proxy, (kind, behind), HELLO)
    whole = await _straight(smollm2, HELLO)
    assert len([event for event in got.events if isinstance(event, TextDelta)]) > 3
    assert got.text == whole["choices"][0]["message"]["content"] != ""
    used = await _used(smollm2, proxy, (kind, behind), HELLO, got)
    assert used == (whole["usage"]["prompt_tokens"], whole["usage"]["completion_tokens"])
    assert got.response.stop_reason == "end_turn"
    assert got.response.provider == kind.removesuffix("_chat")
    assert got.response.id or kind == "gemini"  # whose answers have none, as LiteLLM gives them
    assert not got.warnings


async def test_the_model_that_answers_is_the_one_asked_for_but_in_responses(
    proxy: Proxy, smollm2: LlamaServer
) -> None:
    """LiteLLM gives its own name for the model, except in Responses: there it lets the server's name out."""
    for way in WAYS:
        got = await _asked(smollm2, proxy, way, HELLO)
        expected = smollm2.model if way[0] == "openai" else name_of("smollm2", way[1])
        assert got.response.model == expected, way


async def _straight(server: LlamaServer, request: Request) -> dict[str, Any]:
    """The same question, written by hand, and not through the proxy."""
    said = [{"role": message.role, "content": message.text} for message in request.messages]
    first = [{"role": "system", "content": request.system}] if request.system else []
    body = {"messages": first + said, "temperature": 0.0, "max_tokens": request.max_tokens}
    return await server.post("/v1/chat/completions", body)


@every_way
async def test_a_limit_on_tokens_is_kept_and_said(
    kind: str, behind: str, proxy: Proxy, smollm2: LlamaServer
) -> None:
    request = user("Tell a long story", temperature=0.0, max_tokens=17)
    got = await _asked(smollm2, proxy, (kind, behind), request)
    assert (await _used(smollm2, proxy, (kind, behind), request, got))[1] == 17
    assert got.response.stop_reason == ("end_turn" if (kind, behind) in UNLABELLED else "max_tokens")


@every_way
async def test_litellm_raises_a_low_limit_to_16_where_it_asks_by_responses(
    kind: str, behind: str, proxy: Proxy, smollm2: LlamaServer
) -> None:
    request = user("Tell a long story", temperature=0.0, max_tokens=3)
    got = await _asked(smollm2, proxy, (kind, behind), request)
    used = await _used(smollm2, proxy, (kind, behind), request, got)
    assert used[1] == (16 if (kind, behind) in LEAST_16 else 3)


@pytest.mark.parametrize(("kind", "behind"), [way for way in WAYS if way[0] != "openai"])
async def test_a_stop_sequence_ends_the_text_before_it(
    kind: str, behind: str, proxy: Proxy, smollm2: LlamaServer
) -> None:
    request = user("Hi", system="Greet.", temperature=0.0, max_tokens=20, stop=(" can",))
    got = await _asked(smollm2, proxy, (kind, behind), request)
    if (kind, behind) == ("anthropic", "openai"):
        # Responses knows no stop sequences; LiteLLM leaves them out without a word.
        assert " can" in got.text
        return
    assert " can" not in got.text
    assert got.text
    assert got.response.stop_reason in ("end_turn", "stop_sequence")


async def test_a_stop_sequence_is_not_sent_by_responses_and_that_is_said(
    proxy: Proxy, smollm2: LlamaServer
) -> None:
    got = await _asked(smollm2, proxy, ("openai", "anthropic"), user("Hi", max_tokens=2, stop=("x",)))
    assert len(got.warnings) == 1
    assert "stop" in got.warnings[0]


TURNS = (
    Message.user("My name is Ada. naïve 日本語 😀"),
    Message.assistant("Hello, Ada!"),
    Message.user("What is it?"),
)


@every_way
async def test_a_conversation_reaches_the_server_as_it_is(
    kind: str, behind: str, proxy: Proxy, smollm2: LlamaServer
) -> None:
    request = Request(messages=TURNS, system="Be brief.", max_tokens=16, temperature=0.0)
    got = await _asked(smollm2, proxy, (kind, behind), request)
    whole = await _straight(smollm2, request)
    used = await _used(smollm2, proxy, (kind, behind), request, got)
    assert used[0] == whole["usage"]["prompt_tokens"]
    assert got.text == whole["choices"][0]["message"]["content"]


PET = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0, "maximum": 99}, "kind": {"enum": ["cat", "dog"]}},
    "required": ["age", "kind"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("kind", ["litellm", "openai_chat", "gemini"])
@pytest.mark.parametrize("behind", ["vllm", "openai"])
async def test_an_answer_by_schema_fits_it(
    kind: str, behind: str, proxy: Proxy, random_model: LlamaServer
) -> None:
    request = user("A pet", max_tokens=300, output_schema=PET)
    got = await _asked(random_model, proxy, (kind, behind), request)
    assert misfit(json.loads(got.text), PET) is None


# --- calls -----------------------------------------------------------------------


def _object(**properties: object) -> dict:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


TOOLS = (
    ToolDef(
        name="weather",
        description="Says it.",
        schema=_object(city={"type": "string", "maxLength": 8}, unit={"enum": ["C", "F"]}),
    ),
    ToolDef(
        name="add", schema=_object(numbers={"type": "array", "items": {"type": "integer"}, "maxItems": 3})
    ),
    ToolDef(name="now", description="The time.", schema=_object()),
)
OFFERED = {tool.name: tool.schema or {} for tool in TOOLS}
ODD = 'naïve 日本語 😀 "quoted" \\ </tool_call>'


def _writing(text: str, name: str = "write") -> ToolDef:
    return ToolDef(name=name, schema=_object(text={"const": text}))


def _forced(*tools: ToolDef, text: str = "Call", max_tokens: int = 400) -> Request:
    return user(text, tools=tools, tool_choice="required", max_tokens=max_tokens)


@every_way
async def test_calls_made_at_random_keep_the_rules_and_fit_their_schemas(
    kind: str, behind: str, proxy: Proxy, random_model: LlamaServer
) -> None:
    seen = 0
    for number in range(4):
        got = await _asked(random_model, proxy, (kind, behind), _forced(*TOOLS, text=f"Call {number}"))
        for call in got.calls:
            assert call.name in OFFERED
            assert call.truncated or misfit(json.loads(call.arguments), OFFERED[call.name]) is None
        if got.calls and not got.calls[-1].truncated and not _met_limit(got, 400):
            assert got.response.stop_reason == "tool_use"
        seen += len(got.calls)
    assert seen >= 4


def _met_limit(got: Answer, limit: int) -> bool:
    return got.response.usage.output_tokens == limit or got.response.raw_stop_reason == "MAX_TOKENS"


@every_way
async def test_parallel_calls_stay_apart(
    kind: str, behind: str, proxy: Proxy, random_model: LlamaServer
) -> None:
    most = 0
    for number in range(12):
        got = await _asked(random_model, proxy, (kind, behind), _forced(*TOOLS, text=f"Many {number}"))
        most = max(most, len(got.calls))
        if most > 1:
            return
    assert most > 1, "the model never called twice"


@every_way
async def test_what_stands_in_arguments_arrives_as_it_was_written(
    kind: str, behind: str, proxy: Proxy, random_model: LlamaServer
) -> None:
    got = await _asked(random_model, proxy, (kind, behind), _forced(_writing(ODD)))
    assert got.calls
    assert all(call.parsed() == {"text": ODD} for call in got.calls if not call.truncated)
    pieces = [event for event in got.events if isinstance(event, ToolCallDelta)]
    if kind == "gemini":  # as Google sends them, too, unless it is asked for pieces
        assert len(pieces) == len(got.calls)
    else:
        assert len(pieces) > 5


@every_way
async def test_a_call_that_the_limit_cuts_is_truncated(
    kind: str, behind: str, proxy: Proxy, random_model: LlamaServer
) -> None:
    request = _forced(_writing("x" * 300), max_tokens=90)
    got = await _asked(random_model, proxy, (kind, behind), request)
    # LiteLLM waits for the whole of a call before it shows it to Google's clients, and so never does.
    assert [call.truncated for call in got.calls] == ([] if kind == "gemini" else [True])
    assert (await _used(random_model, proxy, (kind, behind), request, got))[1] == 90
    assert got.response.stop_reason == "max_tokens"


@every_way
async def test_calls_and_their_results_reach_the_server_as_they_are(
    kind: str, behind: str, proxy: Proxy, random_model: LlamaServer
) -> None:
    first = await _asked(random_model, proxy, (kind, behind), _forced(*TOOLS))
    calls = [call for call in first.calls if not call.truncated]
    if kind == "gemini":  # two calls of one function are not kept apart there
        calls = list({call.name: call for call in calls}.values())
    results = Message.tool(*(ToolResult.of(call, f"result of {call.name}") for call in calls))
    history = (Message.user("Call"), Message.assistant("I call.", *calls), results, Message.user("And now?"))
    request = Request(messages=history, system="Be brief.", max_tokens=16, temperature=0.0, tools=TOOLS)
    got = await _asked(random_model, proxy, (kind, behind), request)
    assert calls
    used = await _used(random_model, proxy, (kind, behind), request, got)
    expected = _as_google_has_it(history) if kind == "gemini" else history
    assert used[0] == await _prompt_of(random_model, expected, "Be brief.", TOOLS)


def _as_google_has_it(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """A result is an object there, and LiteLLM shows the model its JSON."""
    return tuple(
        Message.tool(*(_in_object(result) for result in message.tool_results))
        if message.role == "tool"
        else message
        for message in history
    )


def _in_object(result: ToolResult) -> ToolResult:
    return ToolResult(result.call_id, result.name, (Text(json.dumps({"output": result.text})),))


async def test_litellm_adds_a_tool_where_there_are_calls_and_no_tools(
    proxy: Proxy, random_model: LlamaServer
) -> None:
    """Anthropic asks for the tools of calls that were made before: LiteLLM makes one up, `dummy_tool`."""
    call = ToolCall(id="call_1", name="now", arguments="{}")
    history = (Message.user("Time?"), Message.assistant(call), Message.tool(ToolResult.of(call, "Noon.")))
    request = Request(messages=history, system="Be brief.", max_tokens=16, temperature=0.0)
    for kind, behind in WAYS:
        got = await _asked(random_model, proxy, (kind, behind), request)
        used = await _used(random_model, proxy, (kind, behind), request, got)
        translated = behind == "anthropic" and kind != "anthropic"
        added = (ToolDef(name="dummy_tool"),) if translated else ()
        expected = _as_google_has_it(history) if kind == "gemini" else history
        assert used[0] == await _prompt_of(random_model, expected, "Be brief.", added), (kind, behind)


async def _prompt_of(
    server: LlamaServer, history: tuple[Message, ...], system: str, tools: tuple[ToolDef, ...] = ()
) -> int:
    """The tokens of a conversation, written by hand for Chat Completions and counted by the server."""
    said = [
        {"role": "system", "content": system},
        *(item for message in history for item in _by_hand(message)),
    ]
    offered = [{"type": "function", "function": {"name": tool.name, "parameters": {}}} for tool in tools]
    body: dict[str, object] = {"messages": said, **({"tools": offered} if offered else {})}
    prompt = (await server.post("/apply-template", body))["prompt"]
    return len((await server.post("/tokenize", {"content": prompt, "parse_special": True}))["tokens"])


def _by_hand(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        results = message.tool_results
        return [{"role": "tool", "tool_call_id": one.call_id, "content": one.text} for one in results]
    calls = [
        {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    return [{"role": message.role, "content": message.text, **({"tool_calls": calls} if calls else {})}]


# --- many at once, and leaving ---------------------------------------------------------


@every_kind
async def test_five_streams_at_once_do_not_mix(kind: str, proxy: Proxy, random_model: LlamaServer) -> None:
    provider = _made(kind, proxy, name_of("random", "vllm"))

    async def one(number: int) -> str | None:
        text = f"{number}" * 40
        got = await answer(random_model, provider, _forced(_writing(text, f"tool_{number}"), max_tokens=300))
        assert {call.name for call in got.calls} == {f"tool_{number}"}
        assert {call.parsed()["text"] for call in got.calls if not call.truncated} <= {text}
        return got.response.id

    try:
        ids = await asyncio.gather(*map(one, range(5)))
    finally:
        await provider.close()
    assert len(set(ids)) == (1 if kind == "gemini" else 5)  # whose answers have none


@every_way
async def test_leaving_in_the_middle_leaves_nothing(
    kind: str, behind: str, proxy: Proxy, smollm2: LlamaServer
) -> None:
    provider = _made(kind, proxy, name_of("smollm2", behind))
    smollm2.exchanges[provider.name] += 1
    async with provider.stream(user("Tell a long story", max_tokens=400)) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
        assert len(await smollm2.being_written()) == 1
    await _expect_free(smollm2)
    await provider.close()


async def _expect_free(server: LlamaServer) -> None:
    """Soon, that is: long before the answer would have come to its end."""
    while written := await server.being_written():
        assert max(written) < 60, "the server goes on with an answer that nobody reads"
        await asyncio.sleep(0.02)


# --- what is refused -------------------------------------------------------------


async def _refusal(
    server: LlamaServer, proxy: Proxy, kind: str, request: Request, **settings: Any
) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await _asked(server, proxy, (kind, "vllm"), request, **settings)
    assert caught.value.vendor == kind.removesuffix("_chat")
    return caught.value


HI = user("Hi", max_tokens=16)


@every_kind
async def test_without_a_key_nobody_is_let_in(kind: str, proxy: Proxy, smollm2: LlamaServer) -> None:
    error = await _refusal(smollm2, proxy, kind, HI, key="")
    assert type(error) is Unauthorized
    assert error.status == 401
    assert not error.retryable


@every_kind
async def test_a_wrong_key_is_refused_and_not_shown(kind: str, proxy: Proxy, smollm2: LlamaServer) -> None:
    """LiteLLM without a database takes a wrong key for one that is in it, and complains of that: with 400.

    https://github.com/BerriAI/litellm/issues/12273
    """
    wrong = "sk-some-other-key-9876543210"
    error = await _refusal(smollm2, proxy, kind, HI, key=wrong)
    assert type(error) is BadRequest
    assert "No connected db" in error.message
    assert not error.retryable
    assert wrong not in f"{error!r} {error} {vars(error)}"
    assert proxy.key not in f"{error!r} {error} {vars(error)}"


@every_kind
async def test_an_unknown_model_is_a_bad_request_that_names_it(
    kind: str, proxy: Proxy, smollm2: LlamaServer
) -> None:
    provider = _made(kind, proxy, "claude-sonnet-4-6-of-nobody")
    with pytest.raises(BadRequest, match="claude-sonnet-4-6-of-nobody") as caught:
        await answer(smollm2, provider, HI)
    await provider.close()
    assert caught.value.status == 400  # not 404, as with OpenAI and Anthropic
    assert not caught.value.retryable


@every_kind
async def test_a_prompt_that_does_not_fit_is_too_long(kind: str, proxy: Proxy, smollm2: LlamaServer) -> None:
    error = await _refusal(smollm2, proxy, kind, user("word " * 1000, max_tokens=16))
    assert type(error) is ContextTooLong
    assert "exceeds the available context size (512 tokens)" in error.message


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gemini"])  # it has no such route
async def test_the_models_are_those_that_the_proxy_has(kind: str, proxy: Proxy) -> None:
    provider = _made(kind, proxy, "any")
    assert isinstance(provider, SupportsModels)
    expected = {name_of(weights, behind) for weights in ("smollm2", "random", "mortal") for behind in BEHIND}
    assert set(await provider.list_models()) == expected
    await provider.close()


# --- a server that dies behind the proxy ------------------------------------------------


async def test_a_server_that_dies_behind_the_proxy_is_a_failure_that_may_be_tried_again(
    proxy: Proxy, mortal: LlamaServer
) -> None:
    providers = [_made(kind, proxy, name_of("mortal", behind)) for kind, behind in WAYS]
    begun = [asyncio.Event() for _ in WAYS]
    reading = [
        asyncio.create_task(_read(mortal, provider, event))
        for provider, event in zip(providers, begun, strict=True)
    ]
    await asyncio.gather(*(event.wait() for event in begun))
    while len(await mortal.being_written()) < len(WAYS):
        assert not any(task.done() for task in reading), "an answer is complete, or failed, too early"
        await asyncio.sleep(0.02)
    mortal.kill()
    cut = await asyncio.gather(*reading, return_exceptions=True)
    gone = await asyncio.gather(
        *(answer(mortal, provider, HI) for provider in providers), return_exceptions=True
    )
    for provider in providers:
        await provider.close()
    for way, error, after in zip(WAYS, cut, gone, strict=True):
        # Messages go through LiteLLM as they come: half an event may be the last, with one of its own behind.
        assert type(error) in (
            (Overloaded, BadReply) if way == ("anthropic", "anthropic") else (Overloaded,)
        ), (
            way,
            error,
        )
        assert type(after) is Overloaded, (way, after)
        assert error.retryable
        assert after.retryable


async def _read(server: LlamaServer, provider: Provider, begun: asyncio.Event) -> None:
    server.exchanges[provider.name] += 1
    if provider.name == "gemini":  # which is shown nothing of a call before it is complete
        begun.set()
    async with provider.stream(_forced(_writing("x" * 1500), max_tokens=1900)) as stream:
        async for event in stream:
            if isinstance(event, ToolCallDelta):
                begun.set()
