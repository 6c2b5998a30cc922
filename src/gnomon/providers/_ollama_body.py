"""A request in the words of Ollama's chat API: the body, and what could not be said in it as it was.

The fields are those of `ChatRequest` in Ollama's `api/types.go`, which knows more of them than its pages.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gnomon.providers._body import effort_for, merged
from gnomon.providers._notes import Notes
from gnomon.providers._ollama_messages import Messages
from gnomon.providers._ollama_tools import tool_definition
from gnomon.providers._schema import PLAIN, any_root, cached_compile
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Meta, ToolDef
from gnomon.types.requests import OneTool, Reasoning, Request, ToolChoice

__all__ = ["Ways", "ollama_body"]

_encode = msgspec.json.Encoder().encode
_OUTPUT = any_root(PLAIN)


class Ways(msgspec.Struct, frozen=True, kw_only=True):
    """How a user has set the provider."""

    vendor: str
    context: int | None = None
    keep_alive: str | float | None = None
    extra: Mapping[str, object] = {}


def ollama_body(request: Request, model: str, ways: Ways) -> tuple[bytes, tuple[StreamWarning, ...]]:
    """The body, and a warning for whatever was moved, rewritten or left out. `extra` has the last word."""
    notes = Notes(ways.vendor)
    body: Meta = {
        "model": model,
        "messages": Messages(ways.vendor, model, notes).of(request),
        "stream": True,
        # Left alone, the server forgets the beginning of what is too long, and says nothing of it.
        "truncate": False,
        "shift": False,
    }
    _set_tools(body, request.tools, request.tool_choice, notes)
    _set_output(body, request.output_schema, notes)
    _set_thinking(body, request.thinking, notes)
    if options := _options(request, ways):
        body["options"] = options
    if ways.keep_alive is not None:
        body["keep_alive"] = ways.keep_alive
    if request.metadata:
        notes.add("unsupported_parameter", "{vendor} takes no metadata: it was not sent", key="metadata")
    return _encode(merged(body, ways.extra) if ways.extra else body), notes.warnings()


def _options(request: Request, ways: Ways) -> Meta:
    named = {
        "num_ctx": ways.context,
        "num_predict": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "stop": list(request.stop) or None,
    }
    return {name: value for name, value in named.items() if value is not None}


def _set_tools(body: Meta, tools: tuple[ToolDef, ...], choice: ToolChoice | None, notes: Notes) -> None:
    """There is no choice of tools in the API, but a tool that is not shown cannot be called."""
    if choice == "none" and tools:
        notes.add("tool_choice", "{vendor} takes no choice of tools: none were shown to the model")
        return
    if choice == "required":
        notes.add("tool_choice", "{vendor} takes no choice of tools: the model may call none")
    if isinstance(choice, OneTool):
        chosen = tuple(tool for tool in tools if tool.name == choice.name)
        shown = f"only {choice.name!r} was shown" if chosen else "all were shown"
        notes.add("tool_choice", f"{{vendor}} takes no choice of tools: {shown}, and the model may call none")
        tools = chosen or tools
    if tools:
        body["tools"] = [tool_definition(tool, notes) for tool in tools]


def _set_output(body: Meta, schema: Meta | None, notes: Notes) -> None:
    if schema is None:
        return
    made = cached_compile(schema, _OUTPUT)
    for sentence in made.lost:
        notes.add("schema", f"the output schema: {sentence}", key=sentence)
    body["format"] = made.schema


def _set_thinking(body: Meta, wanted: Reasoning | None, notes: Notes) -> None:
    """Whether to think, or how much: a model that knows no such words goes by its own measure."""
    if wanted is None:
        return
    effort = wanted.effort
    if effort is None and wanted.budget_tokens is not None:
        effort = effort_for(wanted.budget_tokens)
        if effort != "none":
            notes.add(
                "thinking_budget", f"{{vendor}} takes no budget for thinking: effort {effort!r} was sent"
            )
    elif wanted.budget_tokens is not None:
        notes.add("thinking_budget", f"{{vendor}} takes no budget for thinking: effort {effort!r} was sent")
    if effort == "minimal":
        notes.add("thinking_effort", "{vendor} knows no effort 'minimal': 'low' was sent")
        effort = "low"
    body["think"] = True if effort is None else False if effort == "none" else effort
