"""A request in the words of OpenAI's Responses API: the body, and what could not be said in it as it was.

Nothing is kept at the vendor (`store` is false): a conversation is the caller's, and
what the model thought comes back encrypted, to be sent again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from gnomon.providers._body import effort_for, merged
from gnomon.providers._notes import Notes
from gnomon.providers._responses_items import Items
from gnomon.providers._schema import OPENAI_STRICT, PLAIN, cached_compile
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Meta, ToolDef
from gnomon.types.requests import OneTool, Reasoning, Request

__all__ = ["Summary", "responses_body"]

Summary: TypeAlias = Literal["auto", "concise", "detailed"]

_encode = msgspec.json.Encoder().encode


def responses_body(
    request: Request,
    *,
    vendor: str,
    model: str,
    extra: Mapping[str, object],
    summary: Summary | None = "auto",
    known_as: str | None = None,
    file_urls: bool = True,
) -> tuple[bytes, tuple[StreamWarning, ...]]:
    """The body, and a warning for whatever was moved, rewritten or left out. `extra` has the last word.

    `known_as` is OpenAI's name for the model, where it is asked for by another. `file_urls`: the vendor
    fetches a file by its address.
    """
    notes = Notes(vendor)
    body: Meta = {"model": model, "stream": True, "store": False}
    if not _never_thinks(known_as or model):
        body["include"] = ["reasoning.encrypted_content"]
    if request.system:
        body["instructions"] = request.system
    _set_tools(body, request, notes)
    body["input"] = Items(vendor, model, notes, file_urls=file_urls).of(request.messages)
    _set_numbers(body, request)
    _set_thinking(body, request.thinking, summary, notes)
    _set_output(body, request.output_schema, notes)
    _note_what_is_not_taken(request, notes)
    return _encode(merged(body, extra)), notes.warnings()


def _never_thinks(model: str) -> bool:
    """Models that came before thinking refuse to be asked for it in encrypted form."""
    return model.startswith(("gpt-3.5", "gpt-4", "chatgpt-4o")) or "-chat" in model


def _set_numbers(body: Meta, request: Request) -> None:
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.top_p is not None:
        body["top_p"] = request.top_p
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    if request.metadata:
        body["metadata"] = request.metadata


def _note_what_is_not_taken(request: Request, notes: Notes) -> None:
    for name, given in (("top_k", request.top_k is not None), ("stop", bool(request.stop))):
        if given:
            notes.add("unsupported_parameter", f"{{vendor}} takes no {name}: it was not sent", key=name)


# --- thinking ----------------------------------------------------------------------


def _set_thinking(body: Meta, wanted: Reasoning | None, summary: Summary | None, notes: Notes) -> None:
    if wanted is None:
        return
    effort: str | None = wanted.effort
    if wanted.budget_tokens is not None:
        effort = effort or effort_for(wanted.budget_tokens)
        notes.add("thinking_budget", f"{{vendor}} takes no budget for thinking: effort {effort!r} was sent")
    reasoning: Meta = {"effort": effort} if effort is not None else {}
    if summary is not None and effort != "none":
        reasoning["summary"] = summary
    if reasoning:
        body["reasoning"] = reasoning


# --- tools -------------------------------------------------------------------------

_NO_ARGUMENTS: Meta = {"type": "object", "properties": {}}


def _set_tools(body: Meta, request: Request, notes: Notes) -> None:
    """In the order of their names: the vendor's cache holds what stays the same from the beginning on."""
    if request.tools:
        body["tools"] = [_tool(tool, notes) for tool in sorted(request.tools, key=lambda tool: tool.name)]
    choice = request.tool_choice
    if isinstance(choice, OneTool):
        body["tool_choice"] = {"type": "function", "name": choice.name}
    elif choice == "required" or (choice is not None and request.tools):
        body["tool_choice"] = choice


def _tool(tool: ToolDef, notes: Notes) -> Meta:
    schema = tool.schema or _NO_ARGUMENTS
    made = cached_compile(schema, OPENAI_STRICT)
    strict = made.exact
    if not strict:
        made = cached_compile(schema, PLAIN)
        for sentence in made.lost:
            notes.add("schema", f"the schema of tool {tool.name!r}: {sentence}", key=tool.name + sentence)
    # Whether it is strict is always said: left out, it is for the vendor to choose.
    sent: Meta = {"type": "function", "name": tool.name, "parameters": made.schema, "strict": strict}
    return {**sent, "description": tool.description} if tool.description else sent


# --- structured output ---------------------------------------------------------------


def _set_output(body: Meta, schema: Meta | None, notes: Notes) -> None:
    if schema is None:
        return
    made = cached_compile(schema, OPENAI_STRICT)
    for sentence in made.lost:
        notes.add("schema", f"the output schema: {sentence}", key=sentence)
    body["text"] = {
        "format": {
            "type": "json_schema",
            "name": _format_name(schema.get("title")),
            "schema": made.schema,
            "strict": True,
        }
    }


def _format_name(title: object) -> str:
    name = re.sub(r"[^a-zA-Z0-9_-]+", "_", title if isinstance(title, str) else "")[:64].strip("_")
    return name or "answer"
