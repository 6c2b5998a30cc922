"""What an answer says, in one form for both sides: what we made of it, and what the vendor's library did."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from gnomon.types.messages import Part, Text, Thinking, ToolCall, UnknownPart
from gnomon.types.requests import Response, Usage

__all__ = ["Fields", "Told", "call", "differing", "more_of", "own", "text", "thinking", "told_by_us"]

Fields: TypeAlias = dict[str, Any]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One answer. Each part is a plain object whose `kind` says what it is."""

    id: str | None
    model: str | None
    stop_reason: str
    raw_stop_reason: str | None
    usage: Usage
    parts: list[Fields]


def text(said: str, *, refusal: bool = False, sources: object = None, phase: str | None = None) -> Fields:
    return {"kind": "text", "text": said, "refusal": refusal, "sources": sources or [], "phase": phase}


def thinking(said: str, signature: str | None, redacted: str | None = None, item: object = None) -> Fields:
    return {"kind": "thinking", "text": said, "signature": signature, "redacted": redacted, "item": item}


def call(call_id: str, name: str, arguments: str, more: object = None) -> Fields:
    """With what else the vendor says of it and wants back, and whether its arguments are cut off."""
    arguments = arguments or "{}"
    fields = {"id": call_id, "name": name, "arguments": arguments, "truncated": not _is_json(arguments)}
    return {"kind": "call", **fields, "more": more or {}}


def more_of(item: Fields) -> Fields:
    """What a call says beyond its name and arguments. Who made it is worth a word if it was not the model."""
    known = ("type", "id", "call_id", "name", "arguments", "input", "status")
    more = {name: value for name, value in item.items() if name not in known}
    return {name: value for name, value in more.items() if value not in (None, {"type": "direct"})}


def own(block: object) -> Fields:
    """Something of the vendor's own, such as a call of its tools, that goes back as it came."""
    return {"kind": "own", "json": block}


def _is_json(said: str) -> bool:
    try:
        json.loads(said)
    except ValueError:
        return False
    return True


# --- our side -----------------------------------------------------------------


def told_by_us(response: Response) -> Told:
    parts = [_part(part) for part in response.message.content]
    return Told(
        id=response.id,
        model=response.model,
        stop_reason=response.stop_reason,
        raw_stop_reason=response.raw_stop_reason,
        usage=response.usage,
        parts=[part for part in parts if part != text("")],
    )


def _part(part: Part) -> Fields:
    match part:
        case Text():
            sources = _read(part.meta.get("anthropic_citations")) or part.meta.get("annotations")
            refusal, phase = part.meta.get("refusal") is True, part.meta.get("phase")
            return text(part.text, refusal=refusal, sources=sources, phase=phase)  # type: ignore[arg-type]
        case Thinking():
            return thinking(part.text, part.signature, part.redacted, _read(part.meta.get("item")))
        case ToolCall():
            more = _read(part.meta.get("anthropic_call") or part.meta.get("openai_call"))
            return {**call(part.id, part.name, part.arguments, more), "truncated": part.truncated}
        case UnknownPart():
            return own(_read(part.data.get("json")))
        case _:
            return {"kind": type(part).__name__}


def _read(kept: object) -> Any:
    return json.loads(kept) if isinstance(kept, str) else None


# --- both sides -----------------------------------------------------------------


def differing(ours: Told, theirs: Told) -> dict[str, str]:
    """The fields in which the two are not the same, with what each says."""
    left, right = _flat(ours), _flat(theirs)
    names = [*left, *(name for name in right if name not in left)]
    missing = object()
    return {
        name: f"{_shown(left.get(name))} ≠ {_shown(right.get(name))}"
        for name in names
        if left.get(name, missing) != right.get(name, missing)
    }


def _flat(told: Told) -> Fields:
    """What is the vendor's own is numbered apart: one that is lost does not shift all the others."""
    fields: Fields = {name: getattr(told, name) for name in ("id", "model", "stop_reason", "raw_stop_reason")}
    for name in ("input", "output", "cache_read", "cache_write", "reasoning"):
        fields[f"usage.{name}"] = getattr(told.usage, f"{name}_tokens")
    fields["order"] = [part["kind"] for part in told.parts]
    for number, part in enumerate(part for part in told.parts if part["kind"] != "own"):
        fields |= {f"parts[{number}].{name}": value for name, value in part.items()}
    for number, part in enumerate(part for part in told.parts if part["kind"] == "own"):
        fields[f"own[{number}]"] = part["json"]
    return fields


def _shown(value: object) -> str:
    whole = repr(value)
    return whole if len(whole) <= 160 else f"{whole[:100]}…{whole[-50:]}"
