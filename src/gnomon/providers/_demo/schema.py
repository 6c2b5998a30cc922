"""A JSON Schema as the demo model reads it: references followed, branches laid out, purposes guessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from gnomon.providers._demo.prompt import all_words
from gnomon.types.messages import Meta

__all__ = ["SchemaReader", "kind_of", "mapping", "purpose", "sequence", "tags", "weight"]

_LONGEST_CHAIN = 24
_SHORT_DESCRIPTION = 12

# What a parameter is for, told by the words of its name, else of its description.
_PURPOSES = {
    "expression": "expression formula equation arithmetic math calculation",
    "url": "url uri link website webpage",
    "email": "email mail",
    "path": "path file filename folder directory dir",
    "zone": "timezone zone tz",
    "date": "date datetime time timestamp when since until deadline",
    "from": "from origin source start departure sender",
    "to": "to destination target end arrival recipient receiver",
    "task": "task",
    "text": "query question prompt text message content input topic sentence body note keyword "
    "search command code sql answer summary explanation reason response reply",
}
_PURPOSE_OF = {word: purpose for purpose, names in _PURPOSES.items() for word in all_words(names)}
_TOLD_BY_DESCRIPTION = ("expression", "url", "path", "zone")


class SchemaReader:
    """One schema and the definitions it refers to."""

    def __init__(self, root: Meta) -> None:
        self.root = root

    def properties(self) -> list[tuple[str, Meta]]:
        found = mapping(self.resolved(self.root).get("properties"))
        return [(name, self.resolved(mapping(schema))) for name, schema in found.items()]

    def required(self) -> list[str]:
        return [str(name) for name in sequence(self.resolved(self.root).get("required"))]

    def resolved(self, schema: Meta) -> Meta:
        """The schema with its references followed and its `allOf` put together."""
        for _ in range(_LONGEST_CHAIN):
            target = schema.get("$ref")
            parts = [mapping(part) for part in sequence(schema.get("allOf"))]
            if isinstance(target, str):
                parts.append(mapping(self._at(target)))
            if not parts:
                break
            merged: Meta = {}
            for part in (*parts, {key: v for key, v in schema.items() if key not in ("$ref", "allOf")}):
                merged.update(part)
            schema = merged
        return schema

    def _at(self, reference: str) -> object:
        node: object = self.root
        for step in reference.removeprefix("#").strip("/").split("/"):
            node = mapping(node).get(step.replace("~1", "/").replace("~0", "~")) if step else node
        return node

    def branches(self, schema: Meta) -> list[Meta]:
        kinds = schema.get("type")
        if isinstance(kinds, list):
            return [{**schema, "type": kind} for kind in cast("list[object]", kinds)]
        either = sequence(schema.get("anyOf")) or sequence(schema.get("oneOf"))
        return [self.resolved(mapping(branch)) for branch in either]


def purpose(name: str, schema: Meta) -> str:
    """What a parameter is for, one of the names above, or "" when nothing tells."""
    for word in reversed(all_words(name)):
        if word in _PURPOSE_OF:
            return _PURPOSE_OF[word]
    described = all_words(str(schema.get("description", "")))
    if len(described) > _SHORT_DESCRIPTION:
        return ""
    told = (_PURPOSE_OF.get(word, "") for word in described)
    return next((found for found in told if found in _TOLD_BY_DESCRIPTION), "")


def kind_of(schema: Meta) -> str:
    if isinstance(kind := schema.get("type"), str):
        return kind
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def weight(schema: Meta) -> int:
    """How far a branch would lead: nothing, a plain value, a list, an object that asks for more."""
    kind = "null" if "enum" in schema or "const" in schema else kind_of(schema)
    properties = mapping(schema.get("properties"))
    parts = [properties.get(str(name)) for name in sequence(schema.get("required"))]
    needs = [mapping(part) for part in (*parts, *sequence(schema.get("prefixItems")))]
    deeper = sum(10 if "$ref" in need or "anyOf" in need else 1 for need in needs)
    return {"null": 0, "array": 2, "object": 3}.get(kind, 1) + deeper


def tags(schema: object) -> list[str]:
    """The one value a property may have, which tells the branches of a union apart."""
    choices = sequence(mapping(schema).get("enum")) or [mapping(schema).get("const")]
    return [choices[0]] if len(choices) == 1 and isinstance(choices[0], str) else []


def mapping(value: object) -> Meta:
    return cast(Meta, value) if isinstance(value, dict) else {}


def sequence(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
