"""A span of ours in the words of OpenTelemetry: what it is called, and what is said of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from gnomon.tracing import names
from gnomon.types.messages import Meta
from gnomon.types.records import Trace

__all__ = ["Attributes", "attributes_of", "name_of"]

Attributes: TypeAlias = Mapping[str, str | bool | int | float | list[str]]

_OPERATIONS = {
    "turn": names.INVOKE_AGENT,
    "model": names.CHAT,
    "tool": names.EXECUTE_TOOL,
    "subagent": names.INVOKE_AGENT,
}

_KNOWN = {
    "agent": names.AGENT_NAME,
    "request_model": names.REQUEST_MODEL,
    "response_model": names.RESPONSE_MODEL,
    "response_id": names.RESPONSE_ID,
    "output_tokens": names.USAGE_OUTPUT,
    "cache_read_tokens": names.USAGE_CACHE_READ,
    "cache_write_tokens": names.USAGE_CACHE_WRITE,
    "reasoning_tokens": names.USAGE_REASONING,
}
"""What the conventions have a name for. All else gets a name of ours."""

_INPUT_CLASSES = ("input_tokens", "cache_read_tokens", "cache_write_tokens")


def name_of(span: Trace) -> str:
    """The operation, and what it is done with."""
    return f"{_OPERATIONS.get(span.kind, span.kind)} {span.name}".rstrip()


def attributes_of(span: Trace, agent: str = "") -> Attributes:
    """What is said of a span; `agent` is whose turn it belongs to."""
    found: Meta = {names.OWN + "span.id": span.id, names.OWN + "kind": span.kind}
    if span.kind in _OPERATIONS:
        found[names.OPERATION] = _OPERATIONS[span.kind]
        found[names.CONVERSATION_ID] = span.session_id
    found |= _translated(span.attributes)
    found |= _OF_KIND.get(span.kind, _nothing_more)(span, agent)
    if span.error is not None:
        found[names.ERROR_TYPE] = span.error
    return {name: _value(value) for name, value in found.items() if value is not None}


def _translated(attributes: Meta) -> Meta:
    found: Meta = {}
    for name, value in attributes.items():
        found[_KNOWN.get(name) or names.OWN + name] = value
    input_tokens = [count for name in _INPUT_CLASSES if isinstance(count := attributes.get(name), int)]
    if input_tokens:
        found.pop(names.OWN + "input_tokens", None)
        found[names.USAGE_INPUT] = sum(input_tokens)
    return found


def _of_turn(span: Trace, agent: str) -> Meta:
    return _said(span, names.INPUT_MESSAGES, names.OUTPUT_MESSAGES)


def _of_model(span: Trace, agent: str) -> Meta:
    provider, stop = span.attributes.get("provider"), span.attributes.get("stop")
    shown = str(provider) if provider else "unknown"
    return {
        names.PROVIDER: names.PROVIDERS.get(shown, shown),
        names.REQUEST_STREAM: True,
        names.FINISH_REASONS: [stop] if stop else None,
        **_said(span, names.INPUT_MESSAGES, names.OUTPUT_MESSAGES),
    }


def _of_tool(span: Trace, agent: str) -> Meta:
    return {
        names.TOOL_NAME: span.name,
        names.TOOL_CALL_ID: span.attributes.get("call_id"),
        names.TOOL_TYPE: names.FUNCTION,
        names.AGENT_NAME: agent or None,
        **_said(span, names.TOOL_ARGUMENTS, names.TOOL_RESULT),
    }


def _of_subagent(span: Trace, agent: str) -> Meta:
    return {
        names.AGENT_NAME: span.name,
        names.CONVERSATION_ID: span.attributes.get("subagent_session_id"),
    }


def _nothing_more(span: Trace, agent: str) -> Meta:
    return _said(span, names.OWN + "input", names.OWN + "output")


def _said(span: Trace, asked: str, answered: str) -> Meta:
    return {asked: span.input, answered: span.output}


_OF_KIND = {"turn": _of_turn, "model": _of_model, "tool": _of_tool, "subagent": _of_subagent}


def _value(value: object) -> str | bool | int | float | list[str]:
    """What an attribute may hold; anything else as JSON text, as the conventions want it."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list) and all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
        return [str(item) for item in value]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return msgspec.json.encode(value).decode()
