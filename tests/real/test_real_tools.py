"""Tool calls from a real llama.cpp server: random weights under a grammar, through every provider.

The model calls at random, so the deltas are cut anywhere and the arguments are as odd as the schema lets
them be. With `GNOMON_SOAK=1` there are many more seeds; `GNOMON_TEST_SEED` moves to others.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from llama_servers import LlamaServer
from real_asking import ALL, LABELS_LIMITS, SEED, SOAK, WIRES, Answer, answer, asked, in_one_piece, made, user
from schema_check import misfit

from gnomon.types.events import ToolCallDelta
from gnomon.types.messages import Message, ToolDef, ToolResult
from gnomon.types.requests import OneTool, Request

SEEDS = range(SEED * 1000, SEED * 1000 + (150 if SOAK else 4))
ODD = 'naïve 日本語 😀 "quoted" \\ </tool_call>'


def _object(**properties: object) -> dict:
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties)[:2],
        "additionalProperties": False,
    }


def _list(items: dict, most: int) -> dict:
    return {"type": "array", "items": items, "maxItems": most}


WORD = {"type": "string", "maxLength": 8}
DIGIT = {"type": "integer", "minimum": 0, "maximum": 9}
TOOLS = (
    ToolDef(
        name="weather",
        description="Says it.",
        schema=_object(city=WORD, unit={"enum": ["C", "F"]}, days=DIGIT),
    ),
    ToolDef(name="add", schema=_object(numbers=_list({"type": "number"}, 3))),
    ToolDef(name="now", description="The time."),
    ToolDef(name="move", schema=_object(to=_object(x=DIGIT, y={"type": "boolean"}), tags=_list(WORD, 2))),
)
OFFERED = {tool.name: tool.schema for tool in TOOLS}
LOOSE = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0}
"""Every token that the grammar allows may come; llama.cpp's own defaults would leave a few."""


def _required(seed: int, max_tokens: int = 300) -> Request:
    return user(f"Call {seed}", tools=TOOLS, tool_choice="required", max_tokens=max_tokens)


def _expect_sound(got: Answer, kind: str, max_tokens: int) -> None:
    cut = [call for call in got.calls if call.truncated]
    for call in got.calls:
        assert call.name in OFFERED
        if not call.truncated:
            assert misfit(json.loads(call.arguments), OFFERED[call.name] or {"type": "object"}) is None
    reached = got.response.usage.output_tokens == max_tokens
    if cut:
        assert cut == [got.calls[-1]], "only the last call can have been cut"
        assert reached, "a call was said to be cut, and there was room for more"
        assert got.response.stop_reason == "max_tokens"
    elif not reached:
        assert got.calls
        assert got.response.stop_reason == "tool_use"
    elif kind in LABELS_LIMITS:
        assert got.response.stop_reason in ("max_tokens", "tool_use")


# --- any calls ----------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
async def test_calls_made_at_random_keep_the_rules_and_fit_their_schemas(
    kind: str, random_model: LlamaServer
) -> None:
    calls = 0
    for seed in SEEDS:
        limit = (25, 60, 150, 400)[seed % 4]
        got = await asked(random_model, kind, _required(seed, limit), seed=seed, **LOOSE)
        _expect_sound(got, kind, limit)
        calls += len(got.calls)
    assert calls > len(SEEDS) / 2


@pytest.mark.parametrize("kind", ALL)
async def test_the_stream_folds_to_what_the_server_says_in_one_piece(
    kind: str, random_model: LlamaServer
) -> None:
    for seed in SEEDS:
        request = _required(seed)
        settings = _repeatable(kind, seed)
        got = await asked(random_model, kind, request, **settings)
        whole = await in_one_piece(random_model, kind, request, **settings)
        assert _said(got) == _said_whole(kind, whole), f"seed {seed}"


def _repeatable(kind: str, seed: int) -> dict[str, Any]:
    # In Messages llama.cpp takes no seed; without chance the prompts alone make the difference.
    if kind == "anthropic":
        return {"temperature": 0.0}
    return {**LOOSE, "seed": seed, "cache_prompt": False}


def _said(got: Answer) -> object:
    return got.text.strip(), [(call.name, _read(call.arguments)) for call in got.calls]


def _read(arguments: str) -> object:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def _said_whole(kind: str, whole: dict) -> object:
    match kind:
        case "anthropic":
            blocks = whole["content"]
            text = "".join(block["text"] for block in blocks if block["type"] == "text")
            return text.strip(), [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
        case "openai":
            items = whole["output"]
            messages = [part for item in items if item["type"] == "message" for part in item["content"]]
            calls = [(i["name"], _read(i["arguments"])) for i in items if i["type"] == "function_call"]
            return "".join(part["text"] for part in messages).strip(), calls
        case _:
            message = whole["choices"][0]["message"]
            made_calls = [call["function"] for call in message.get("tool_calls", ())]
            return (message["content"] or "").strip(), [
                (f["name"], _read(f["arguments"])) for f in made_calls
            ]


# --- calls of a certain kind ----------------------------------------------------


@pytest.mark.parametrize("kind", ALL)
async def test_parallel_calls_stay_apart(kind: str, random_model: LlamaServer) -> None:
    most: tuple[object, ...] = ()
    for seed in SEEDS:
        got = await asked(random_model, kind, _required(seed, 600), seed=seed, **LOOSE)
        _expect_sound(got, kind, 600)
        most = max(most, got.calls, key=len)
        if len(most) > 2:
            return
    assert len(most) > 1, "no seed made the model call twice: take other seeds"


@pytest.mark.parametrize("kind", ALL)
async def test_a_call_that_the_limit_cuts_is_truncated(kind: str, random_model: LlamaServer) -> None:
    tool = ToolDef(name="write", schema=_object(text={"const": "x" * 200}))
    for limit in (32, 50, 90):
        request = user("Write", tools=(tool,), tool_choice="required", max_tokens=limit)
        got = await asked(random_model, kind, request, temperature=0.0)
        assert [call.truncated for call in got.calls] == [True], f"limit {limit}"
        assert got.response.stop_reason == "max_tokens"
        assert got.response.usage.output_tokens == limit


@pytest.mark.parametrize("kind", ALL)
async def test_what_stands_in_arguments_arrives_as_it_was_written(
    kind: str, random_model: LlamaServer
) -> None:
    tool = ToolDef(name="echo", schema=_object(text={"const": ODD}))
    got = await asked(random_model, kind, user("Echo", tools=(tool,), tool_choice="required", max_tokens=400))
    assert got.calls
    assert all(call.parsed() == {"text": ODD} for call in got.calls if not call.truncated)
    assert len([event for event in got.events if isinstance(event, ToolCallDelta)]) > 20


@pytest.mark.parametrize("kind", ALL)
async def test_a_tool_without_parameters_is_called_with_an_empty_object(
    kind: str, random_model: LlamaServer
) -> None:
    tool = ToolDef(name="now", schema=_object())
    got = await asked(random_model, kind, user("Now", tools=(tool,), tool_choice="required", max_tokens=300))
    assert got.calls
    assert {json.dumps(call.parsed()) for call in got.calls if not call.truncated} == {"{}"}


async def test_a_server_that_cannot_be_told_which_tool_is_shown_no_other(random_model: LlamaServer) -> None:
    for tool in TOOLS:
        request = user("Go", tools=TOOLS, tool_choice=OneTool(tool.name), max_tokens=150)
        got = await asked(random_model, "llamacpp", request, **LOOSE)
        assert {call.name for call in got.calls} == {tool.name}
        assert any(tool.name in warning for warning in got.warnings)


@pytest.mark.parametrize("kind", ["openai", "anthropic", "openai_chat"])
async def test_a_named_tool_is_asked_for_in_words_that_the_server_takes(
    kind: str, random_model: LlamaServer
) -> None:
    """llama.cpp makes a call of it, though to any tool: here there is one only."""
    tool = TOOLS[0]
    got = await asked(
        random_model, kind, user("Go", tools=(tool,), tool_choice=OneTool(tool.name), max_tokens=200)
    )
    _expect_sound(got, kind, 200)
    assert got.calls


async def test_without_a_tool_to_choose_the_model_calls_none(random_model: LlamaServer) -> None:
    for kind in ("llamacpp", "openai", "openai_chat"):  # in Messages llama.cpp does not know this choice
        request = user("Go", tools=TOOLS, tool_choice="none", max_tokens=30)
        got = await asked(random_model, kind, request, **LOOSE)
        assert not got.calls


# --- many at once, and the round after ----------------------------------------------


@pytest.mark.parametrize("kind", WIRES)
async def test_eight_answers_at_once_do_not_mix(kind: str, random_model: LlamaServer) -> None:
    provider = made(kind, random_model, seed=1)

    async def one(number: int) -> None:
        tool = ToolDef(name=f"tool_{number}", schema=_object(text={"const": f"{number}" * 40}))
        request = user(f"Number {number}", tools=(tool,), tool_choice="required", max_tokens=200)
        got = await answer(random_model, provider, request)
        assert {call.name for call in got.calls} == {tool.name}
        assert {json.loads(call.arguments)["text"] for call in got.calls if not call.truncated} == {
            f"{number}" * 40
        }

    try:
        await asyncio.gather(*map(one, range(8)))
    finally:
        await provider.close()


async def test_calls_and_results_are_the_same_prompt_on_every_wire(random_model: LlamaServer) -> None:
    """What one provider was told goes back through all of them; the server counts the tokens of each."""
    first = await asked(random_model, "llamacpp", _required(SEED, 200), seed=SEED, **LOOSE)
    whole = [call for call in first.calls if not call.truncated]
    results = Message.tool(*(ToolResult.of(call, f"result of {call.name}") for call in whole))
    history = (Message.user("Call"), Message.assistant("I call.", *whole), results, Message.user("And now?"))
    request = Request(messages=history, system="Be brief.", max_tokens=1)
    counts = {}
    for kind in ALL:
        usage = (await asked(random_model, kind, request, temperature=0.0)).response.usage
        counts[kind] = (usage.input_tokens or 0) + (usage.cache_read_tokens or 0)
    assert whole
    assert len(set(counts.values())) == 1, counts
