"""A request as a local model can take it: what its template has no place for is said in words, or refused."""

from __future__ import annotations

import msgspec

from gnomon.errors import BadRequest
from gnomon.types.events import StreamWarning
from gnomon.types.messages import Message, Part, Text, ToolCall, ToolResult
from gnomon.types.requests import OneTool, Request

__all__ = ["without_tools"]


def without_tools(request: Request) -> tuple[Request, tuple[StreamWarning, ...]]:
    """The request for a model that cannot call tools: calls and results in it become plain text.

    One that has to call a tool is refused.
    """
    if request.tools and (request.tool_choice == "required" or isinstance(request.tool_choice, OneTool)):
        raise BadRequest(
            "this model cannot call tools, and has to call one",
            vendor="local",
            hint="use a model whose chat template has tools",
        )
    warnings: list[StreamWarning] = []
    if request.tools:
        told = "this model cannot call tools: it was offered none"
        warnings.append(StreamWarning(told, "unsupported_parameter"))
    messages = tuple(_in_words(message) for message in request.messages)
    if any(new is not old for new, old in zip(messages, request.messages, strict=True)):
        told = "this model knows no tools: earlier calls and results were sent as text"
        warnings.append(StreamWarning(told, "rewritten"))
    return msgspec.structs.replace(request, messages=messages, tools=(), tool_choice=None), tuple(warnings)


def _in_words(message: Message) -> Message:
    if not any(isinstance(part, ToolCall | ToolResult) for part in message.content):
        return message
    parts = tuple(said for part in message.content for said in _said(part))
    return msgspec.structs.replace(message, content=parts)


def _said(part: Part) -> tuple[Part, ...]:
    if isinstance(part, ToolCall):
        return (Text(f"[called {part.name} with {part.arguments}]\n"),)
    if isinstance(part, ToolResult):
        how = "" if part.status == "ok" else f" ({part.status})"
        return (Text(f"[{part.name or 'the tool'} answered{how}: "), *part.content, Text("]\n"))
    return (part,)
