"""The requests that make a provider show what it can do. Each is made anew: a provider may spoil one."""

from __future__ import annotations

from gnomon.types.messages import Message, Meta, ToolCall, ToolDef, ToolResult
from gnomon.types.requests import Reasoning, Request

__all__ = ["SCENARIOS", "every_field", "scenario_request", "without_parameters"]

SCENARIOS = ("text", "thinking", "tool", "tools", "tool_answer")
"""Those that end well; the other one is `failure`."""


def scenario_request(scenario: str) -> Request | None:
    """The usual way to bring a model there, or `None` where there is no usual way."""
    match scenario:
        case "text":
            return Request(messages=(Message.user("Say hello in one short sentence."),))
        case "thinking":
            question = Message.user("Which is larger, 9.11 or 9.9? Think about it first.")
            return Request(messages=(question,), thinking=Reasoning(effort="low"))
        case "tool":
            return _with_tools("What is the weather in Paris? Use the tool, once.", _weather())
        case "tools":
            prompt = "What is the weather in Paris, and what is 12 * 7? Use both tools, both at once."
            return _with_tools(prompt, _weather(), _calculate())
        case "tool_answer":
            return _answered()
        case _:
            return None


def without_parameters(request: Request) -> Request:
    """The request with, in place of its tools, one that takes nothing."""
    ping = ToolDef(name="ping", description="Asks the far end for a sign of life. Takes no arguments.")
    return Request(messages=(Message.user("Call the ping tool."),), model=request.model, tools=(ping,))


def every_field(model: str) -> Request:
    """A request in which nothing is left out."""
    return Request(
        messages=(Message.system("You are polite."), Message.user("Say hello.", name="ada")),
        model=model,
        system="Answer briefly.",
        tools=(_weather(),),
        tool_choice="auto",
        temperature=0.0,
        top_p=0.9,
        top_k=40,
        max_tokens=2000,
        stop=("###",),
        thinking=Reasoning(effort="low", budget_tokens=1024),
        output_schema=_object(greeting={"type": "string"}),
        metadata={"purpose": "contract check"},
    )


def _with_tools(prompt: str, *tools: ToolDef) -> Request:
    return Request(messages=(Message.user(prompt),), tools=tools, tool_choice="required")


def _answered() -> Request:
    call = ToolCall("call_weather_1", "weather", '{"city": "Paris"}')
    messages = (
        Message.user("What is the weather in Paris?"),
        Message.assistant(call),
        Message.tool(ToolResult.of(call, "18 degrees and sunny")),
    )
    return Request(messages=messages, tools=(_weather(),))


def _weather() -> ToolDef:
    schema = _object(city={"type": "string", "description": "its name, as a person would write it"})
    return ToolDef(name="weather", description="The weather in a city.", schema=schema, read_only=True)


def _calculate() -> ToolDef:
    schema = _object(expression={"type": "string", "description": "arithmetic, such as 3 * (4 + 5)"})
    return ToolDef(name="calculate", description="The value of an expression.", schema=schema, read_only=True)


def _object(**properties: Meta) -> Meta:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
