"""Pains of other frameworks at the edge to a model, each with the design that avoids it.

They go through the front door: an `Agent` on a real provider, over HTTP, against replies written
from the vendors' documentation.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gnomon import (
    Agent,
    Image,
    Message,
    Provider,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolDef,
    ToolResult,
    tool,
)
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.providers.compatible import CompatibleProvider, DeepSeekProvider, GroqProvider
from gnomon.providers.openai import OpenAIProvider
from gnomon.testing import FaultServer, ReceivedRequest, ServerReply, Wire
from gnomon.types.messages import Meta

WIRES = Path(__file__).parent.parent / "wire"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))


class Service:
    """Plays replies of a wire one after the other; the last one stays."""

    def __init__(self, wire: str, *names: str) -> None:
        self._wire = Wire(WIRES / wire)
        self._names = list(names)
        self.bodies: list[Meta] = []
        self.raw: list[bytes] = []

    def __call__(self, request: ReceivedRequest) -> ServerReply:
        self.raw.append(request.body)
        self.bodies.append(json.loads(request.body))
        fixture = self._wire[self._names.pop(0) if len(self._names) > 1 else self._names[0]]
        return ServerReply(status=fixture.status, headers=fixture.headers, body=fixture.body)


@asynccontextmanager
async def asking(kind: type[Provider], service: Service, **settings: object) -> AsyncIterator[Provider]:
    async with FaultServer(service) as server:
        provider = kind(key="test", base_url=server.url, **settings)  # type: ignore[call-arg]
        try:
            yield provider
        finally:
            await provider.close()
        assert server.problems == []


def weather_and_clock(ran: list[str]) -> list[object]:
    @tool(read_only=True)
    async def weather(city: str) -> str:
        """The weather in a city."""
        ran.append(f"weather {city}")
        return "sunny"

    @tool(read_only=True)
    async def clock(zone: str) -> str:
        """The time in a zone."""
        ran.append(f"clock {zone}")
        return "noon"

    return [weather, clock]


# --- 2 ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "kind", "names"),
    [
        ("compatible", CompatibleProvider, ("usage_every_chunk", "usage_at_end", "usage_absent")),
        ("anthropic", AnthropicProvider, ("usage_every_chunk", "usage_at_end")),
        ("openai", OpenAIProvider, ("usage_at_end",)),
    ],
)
async def test_pain_02_usage_is_neither_doubled_nor_zero(
    wire: str, kind: type[Provider], names: Sequence[str]
) -> None:
    for name in names:
        expected = json.loads((WIRES / wire / f"{name}.json").read_text())["usage"]
        async with asking(kind, Service(wire, name), model="m") as provider:
            turn = await Agent(provider).run("Hello")
        counted = {
            field: value
            for field in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
            if (value := getattr(turn.usage, field)) is not None
        }
        if expected:
            assert counted == {name: value for name, value in expected.items() if name != "reasoning_tokens"}
        else:  # nobody reported anything: what is counted is estimated, says so, and is not zero
            assert turn.usage.estimated
            assert all(counted[name] > 0 for name in ("input_tokens", "output_tokens"))


# --- 3 ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["tools_reused_index", "tools_without_index", "tools_in_one_chunk", "tools_without_ids"]
)
async def test_pain_03_two_tool_calls_are_not_melted_into_one(name: str) -> None:
    expected = json.loads((WIRES / "compatible" / f"{name}.json").read_text())["parts"]
    calls = [part for part in expected if part["type"] == "tool_call"]
    assert len(calls) > 1
    async with asking(CompatibleProvider, Service("compatible", name), model="m") as provider:
        response = await provider.complete(Request(messages=(Message.user("Weather and time?"),)))
    assert [(call.name, call.arguments) for call in response.tool_calls] == [
        (call["name"], call["arguments"]) for call in calls
    ]
    assert len({call.id for call in response.tool_calls}) == len(calls)


async def test_pain_03_both_calls_of_a_server_that_reuses_the_index_are_run() -> None:
    ran: list[str] = []
    service = Service("compatible", "tools_reused_index", "text")
    async with asking(CompatibleProvider, service, model="m") as provider:
        await Agent(provider, tools=weather_and_clock(ran)).run("Weather and time in Paris?")
    assert sorted(ran) == ["clock Europe/Paris", "weather Paris"]


# --- 4 ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "kind"),
    [("compatible", CompatibleProvider), ("anthropic", AnthropicProvider), ("openai", OpenAIProvider)],
)
async def test_pain_04_a_truncated_call_is_not_executed_and_the_model_is_told(
    wire: str, kind: type[Provider]
) -> None:
    ran: list[str] = []

    @tool
    async def weather(city: str = "", days: int = 1, text: str = "", path: str = "") -> str:
        """Anything will do for arguments."""
        ran.append("weather")
        return "ran"

    service = Service(wire, "limit_in_arguments", "text")
    name = next(
        part["name"]
        for part in json.loads((WIRES / wire / "limit_in_arguments.json").read_text())["parts"]
        if part["type"] == "tool_call"
    )
    async with asking(kind, service, model="m") as provider:
        agent = Agent(provider, tools=[_renamed(weather, name)])
        turn = await agent.run("Use the tool.")
    assert ran == []
    results = [result for message in turn.messages for result in message.tool_results]
    assert [result.status for result in results] == ["truncated"]
    assert len(service.bodies) == 2  # the model is shown what became of its call
    assert any(call.truncated for message in turn.messages for call in message.tool_calls)


def _renamed(made: object, name: str) -> object:
    made.name = name  # type: ignore[attr-defined]
    return made


# --- 8 ----------------------------------------------------------------------------


async def test_pain_08_foreign_thinking_signatures_stay_at_home() -> None:
    """A history of one vendor, sent by another, and by the same with another model."""
    async with asking(AnthropicProvider, Service("anthropic", "thinking"), model="claude-a") as provider:
        answer = await provider.complete(Request(messages=(Message.user("Think."),)))
    signature = next(part.signature for part in answer.message.content if isinstance(part, Thinking))
    assert signature
    history = (Message.user("Think."), answer.message, Message.user("And now?"))

    own = Service("anthropic", "text")
    async with asking(AnthropicProvider, own, model="claude-a") as provider:
        response = await provider.complete(Request(messages=history))
    assert signature.encode() in own.raw[0]
    assert response.warnings == ()

    others = [
        (AnthropicProvider, Service("anthropic", "text"), "claude-b"),
        (OpenAIProvider, Service("openai", "text"), "gpt"),
        (CompatibleProvider, Service("compatible", "text"), "any"),
    ]
    for kind, service, model in others:
        async with asking(kind, service, model=model) as provider:
            response = await provider.complete(Request(messages=history))
        assert signature.encode() not in service.raw[0]
        assert any("think" in warning.lower() for warning in response.warnings), response.warnings
        assert answer.text.encode() in service.raw[0] or json.dumps(answer.text).encode() in service.raw[0]


async def test_pain_08_encrypted_reasoning_returns_byte_for_byte_and_only_home() -> None:
    async with asking(OpenAIProvider, Service("openai", "thinking"), model="gpt-a") as provider:
        answer = await provider.complete(Request(messages=(Message.user("Think."),)))
    sealed = next(part.signature for part in answer.message.content if isinstance(part, Thinking))
    assert sealed
    history = (Message.user("Think."), answer.message, Message.user("And now?"))
    for model, there in (("gpt-a", True), ("gpt-b", False)):
        service = Service("openai", "text")
        async with asking(OpenAIProvider, service, model=model) as provider:
            await provider.complete(Request(messages=history))
        assert (sealed.encode() in service.raw[0]) is there


# --- 9 ----------------------------------------------------------------------------


async def test_pain_09_reasoning_is_sent_back_where_it_must_be_and_left_out_where_it_must_not() -> None:
    """The rule is data of the vendor: the same history, two bodies."""
    sent: dict[str, list[Meta]] = {}
    for kind in (DeepSeekProvider, GroqProvider):
        service = Service("compatible", "thinking_with_tool", "text")
        ran: list[str] = []
        async with asking(kind, service, model="deepseek-chat") as provider:
            await Agent(provider, tools=weather_and_clock(ran)).run("Weather?")
        assert len(service.bodies) == 2
        messages: list[Meta] = service.bodies[1]["messages"]  # type: ignore[assignment]
        sent[kind.name] = [message for message in messages if message["role"] == "assistant"]
    assert all(message.get("reasoning_content") for message in sent["deepseek"])
    assert not any("reasoning_content" in message for message in sent["groq"])


async def test_pain_09_what_a_vendor_wants_back_survives_storage() -> None:
    """Vendor data travels in the message itself, through JSON and back."""
    from msgspec import json as msgjson

    async with asking(OpenAIProvider, Service("openai", "thinking_then_tool"), model="gpt-a") as provider:
        answer = await provider.complete(Request(messages=(Message.user("Think."),)))
    stored = msgjson.decode(msgjson.encode(answer.message), type=Message)
    assert stored == answer.message
    results = [ToolResult.of(call, "done") for call in stored.tool_calls]
    bodies: list[bytes] = []
    for message in (answer.message, stored):
        service = Service("openai", "text")
        async with asking(OpenAIProvider, service, model="gpt-a") as provider:
            await provider.complete(
                Request(messages=(Message.user("Think."), message, Message.tool(*results)))
            )
        bodies += service.raw
    assert bodies[0] == bodies[1]


# --- 10 ---------------------------------------------------------------------------

NESTED: Meta = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "address": {"$ref": "#/$defs/Address"},
    },
    "required": ["name"],
    "$defs": {
        "Address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "floor": {"type": "integer", "minimum": 0}},
            "required": ["city"],
        }
    },
}


@pytest.mark.parametrize(
    ("wire", "kind"),
    [("compatible", CompatibleProvider), ("anthropic", AnthropicProvider), ("openai", OpenAIProvider)],
)
async def test_pain_10_three_schema_dialects_lose_nothing_in_silence(wire: str, kind: type[Provider]) -> None:
    service = Service(wire, "text")
    async with asking(kind, service, model="m") as provider:
        response = await provider.complete(
            Request(
                messages=(Message.user("Who?"),),
                tools=(ToolDef(name="save", schema=NESTED),),
                output_schema=NESTED,
            )
        )
    body = service.raw[0].decode()
    references = {text.split('"')[0] for text in body.split('"$ref":"')[1:]}
    assert all(reference.startswith("#/") for reference in references)
    assert not references or "$defs" in body
    for word in ("minLength", "minimum"):
        assert word in body or any(word in warning for warning in response.warnings), (
            word,
            response.warnings,
        )


# --- 11 ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "kind"),
    [("compatible", CompatibleProvider), ("anthropic", AnthropicProvider), ("openai", OpenAIProvider)],
)
async def test_pain_11_media_in_a_tool_result_does_not_disappear(wire: str, kind: type[Provider]) -> None:
    from base64 import b64encode

    call = ToolCall("call_1", "draw", "{}")
    picture = Image(data=PNG, media_type="image/png")
    messages = (
        Message.user("Draw."),
        Message.assistant(call),
        Message.tool(ToolResult.of(call, Text("here it is"), picture)),
    )
    service = Service(wire, "text")
    async with asking(kind, service, model="m") as provider:
        response = await provider.complete(
            Request(messages=messages, tools=(ToolDef(name="draw", schema={"type": "object"}),))
        )
    assert b64encode(PNG) in service.raw[0]
    assert b"here it is" in service.raw[0]
    where = [message.get("role") for message in service.bodies[0].get("messages", [])]  # type: ignore[attr-defined]
    if wire == "compatible":  # a tool message carries text alone there: the picture follows it
        assert where == ["user", "assistant", "tool", "user"]
        assert any("user message" in warning for warning in response.warnings), response.warnings
