"""A request in the words of Chat Completions: the body, and what could not be said in it as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import msgspec

from gnomon.providers._body import effort_for, merged
from gnomon.providers._chat_messages import Messages
from gnomon.providers._chat_quirks import ChatQuirks, ThinkingParams
from gnomon.providers._notes import Notes
from gnomon.providers._schema import OPENAI_STRICT, PLAIN, cached_compile
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Meta, ToolDef
from gnomon.types.requests import OneTool, Reasoning, Request, ToolChoice

__all__ = ["chat_body"]

_encode = msgspec.json.Encoder().encode


def chat_body(
    request: Request,
    *,
    vendor: str,
    model: str,
    quirks: ChatQuirks,
    extra: Mapping[str, object],
    messages: type[Messages] = Messages,
) -> tuple[bytes, tuple[StreamWarning, ...]]:
    """The body, and a warning for whatever was moved, rewritten or left out. `extra` has the last word.

    `messages` makes the list of them, for a vendor that differs by more than its quirks.
    """
    notes = Notes(vendor)
    body: Meta = {"model": model, "messages": (), "stream": True}
    if quirks.asks_usage:
        body["stream_options"] = {"include_usage": True}
    instructions = _set_output(body, request.output_schema, quirks, notes)
    body["messages"] = messages(vendor, model, quirks, notes).of(request, instructions)
    _set_tools(body, request.tools, request.tool_choice, quirks, notes)
    _set_sampling(body, request, quirks, notes)
    if request.metadata:
        _set_metadata(body, request.metadata, quirks, extra, notes)
    if request.thinking is not None:
        _set_thinking(body, request.thinking, quirks.thinking, notes)
    return _encode(merged(body, extra) if extra else body), notes.warnings()


# --- numbers -----------------------------------------------------------------------


def _set_sampling(body: Meta, request: Request, quirks: ChatQuirks, notes: Notes) -> None:
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.max_tokens is not None:
        body[quirks.max_tokens] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if request.top_k is not None:
        if quirks.top_k:
            body["top_k"] = request.top_k
        else:
            notes.add("unsupported_parameter", "{vendor} takes no top_k: it was not sent", key="top_k")


def _set_metadata(
    body: Meta, metadata: dict[str, str], quirks: ChatQuirks, extra: Mapping[str, object], notes: Notes
) -> None:
    if quirks.metadata == "always" or (quirks.metadata == "stored" and extra.get("store") is True):
        body["metadata"] = metadata
        return
    where = ' unless "store" is true' if quirks.metadata == "stored" else ""
    notes.add(
        "unsupported_parameter", f"{{vendor}} takes no metadata{where}: it was not sent", key="metadata"
    )


# --- thinking ----------------------------------------------------------------------


def _set_thinking(body: Meta, wanted: Reasoning, params: ThinkingParams | None, notes: Notes) -> None:
    if params is None:
        notes.add("unsupported_parameter", "{vendor} has no setting for thinking: it was not sent")
        return
    effort, budget = wanted.effort, wanted.budget_tokens
    if effort is None and budget == 0:  # as with every other provider: not to think at all
        effort, budget = "none", None
    if effort == "none" and params.off is not None:
        _merge(body, params.off)
        return
    _merge(body, params.on)
    if budget is not None and params.budget:
        _put(body, params.budget, budget)
        return
    if budget is not None:
        chosen = effort or effort_for(budget)
        notes.add("thinking_budget", f"{{vendor}} takes no budget for thinking: effort {chosen!r} was sent")
        effort = chosen
    if effort is not None and params.effort:
        word = params.efforts.get(effort, effort)
        if word != effort:
            notes.add("thinking_effort", f"{{vendor}} knows no effort {effort!r}: {word!r} was sent")
        _put(body, params.effort, word)
    elif effort is not None and not (params.on or params.budget):
        notes.add("unsupported_parameter", "{vendor} takes no effort for thinking: it was not sent")


def _put(body: Meta, path: tuple[str, ...], value: object) -> None:
    for name in reversed(path[1:]):
        value = {name: value}
    _merge(body, {path[0]: value})


def _merge(body: Meta, more: Mapping[str, object]) -> None:
    """Objects become one; anything else is replaced."""
    for name, value in more.items():
        there = body.get(name)
        if isinstance(there, dict) and isinstance(value, dict):
            body[name] = {**cast(Meta, there), **cast(Meta, value)}
        else:
            body[name] = value


# --- tools -------------------------------------------------------------------------


def _set_tools(
    body: Meta, tools: tuple[ToolDef, ...], choice: ToolChoice | None, quirks: ChatQuirks, notes: Notes
) -> None:
    if not tools:
        if choice not in (None, "auto", "none"):
            notes.add("tool_choice", "there are no tools: the choice of one was not sent")
        return  # with a choice, the request would be refused
    if isinstance(choice, OneTool):
        if not quirks.one_tool:
            # A server that cannot be told which tool is shown no other.
            notes.add(
                "tool_choice", f"{{vendor}} cannot be told to call {choice.name!r}: it is shown no other tool"
            )
            tools = tuple(tool for tool in tools if tool.name == choice.name) or tools
        named = {"type": "function", "function": {"name": choice.name}}
        body["tool_choice"] = named if quirks.one_tool else "required"
    elif choice is not None:
        body["tool_choice"] = choice
    body["tools"] = [_tool(tool, quirks) for tool in tools]


def _tool(tool: ToolDef, quirks: ChatQuirks) -> Meta:
    function: Meta = {"name": tool.name, "description": tool.description}
    if quirks.strict_tools:
        strict = cached_compile(tool.schema or _NO_ARGUMENTS, OPENAI_STRICT)
        if strict.exact:
            return {
                "type": "function",
                "function": {**function, "parameters": strict.schema, "strict": True},
            }
        function["strict"] = False
    function["parameters"] = cached_compile(tool.schema or _NO_ARGUMENTS, PLAIN).schema
    return {"type": "function", "function": function}


_NO_ARGUMENTS: Meta = {"type": "object", "properties": {}}


# --- structured output ---------------------------------------------------------------


def _set_output(body: Meta, schema: Meta | None, quirks: ChatQuirks, notes: Notes) -> str | None:
    """The format of the answer; what the model must be told of it in words, where there is no other way."""
    if schema is None:
        return None
    if quirks.output != "object":
        strict = quirks.output == "strict"
        made = cached_compile(schema, OPENAI_STRICT if strict else PLAIN)
        for sentence in made.lost:
            notes.add("schema", f"the output schema: {sentence}", key=sentence)
        form: Meta = {"name": "answer", "schema": made.schema}
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {**form, "strict": True} if strict else form,
        }
        return None
    body["response_format"] = {"type": "json_object"}
    notes.add("schema", "{vendor} takes no schema for its answer: it was told of it in the instructions")
    return "Answer with one JSON object that fits this JSON Schema:\n" + _encode(schema).decode()
