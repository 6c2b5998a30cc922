"""A tool as Ollama shows it to a model.

The server reads a property into a type of its own (`ToolProperty` in `api/types.go`): a type, a
description, an enum, items, properties, anyOf. References and every other keyword are dropped, and
nobody is told. So references are written out, and what else there is stands in the description too.
"""

from __future__ import annotations

from typing import cast

import msgspec

from gnomon.providers._notes import Notes
from gnomon.providers._schema import INLINE, cached_compile
from gnomon.providers._schema.keywords import KIND_OF
from gnomon.types.messages import Meta, ToolDef

__all__ = ["tool_definition"]

_NO_ARGUMENTS: Meta = {"type": "object", "properties": {}}
_TOLD = (*(KIND_OF.keys() - {"items", "properties", "additionalProperties"}), "default")
_LONGEST_TOLD = 200


def tool_definition(tool: ToolDef, notes: Notes) -> Meta:
    made = cached_compile(tool.schema or _NO_ARGUMENTS, INLINE)
    for sentence in made.lost:
        notes.add("schema", f"the schema of tool {tool.name!r}: {sentence}", key=f"{tool.name} {sentence}")
    parameters: Meta = {"properties": {}, **_with_properties(made.schema)}
    function: Meta = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def _with_properties(schema: Meta) -> Meta:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    named = cast(Meta, properties)
    return {**schema, "properties": {name: _property(inner) for name, inner in named.items()}}


def _property(schema: object) -> object:
    if not isinstance(schema, dict):
        return {}  # `true`: anything goes; the server reads objects only
    found = cast(Meta, schema)
    terms = [
        f"{key}: {text}" for key in found if key in _TOLD and len(text := _json(found[key])) <= _LONGEST_TOLD
    ]
    made = _with_properties(found)
    branches = made.get("anyOf") or made.get("oneOf")
    if isinstance(branches, list):
        made = {key: value for key, value in made.items() if key != "oneOf"}
        made["anyOf"] = [_property(branch) for branch in cast("list[object]", branches)]
    if terms:
        words = [made["description"]] if made.get("description") else []
        made = {**made, "description": " ".join(map(str, [*words, f"({', '.join(terms)})"]))}
    return made


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
