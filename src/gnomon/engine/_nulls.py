"""Nulls that stand for fields that were left out.

Where a service makes every field required (OpenAI's strict mode does), a model says
null for what it leaves out. Whether a null is meant is read off the schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias, cast

from gnomon.types.messages import Meta

__all__ = ["without_nulls"]

_Schemas: TypeAlias = list[Meta]

_PARTS = ("anyOf", "oneOf", "allOf")
_SAYS_WHAT = ("type", "enum", "const", "$ref", *_PARTS)


def without_nulls(plain: object, schema: Meta) -> object:
    """The value without each null of a field that may be left out and may not be null."""
    definitions = cast("dict[str, Meta]", schema.get("$defs", {}))
    return _Walk(definitions).value(plain, [schema])


class _Walk:
    """Goes through a value with all the schemas that may hold for each place of it."""

    def __init__(self, definitions: dict[str, Meta]) -> None:
        self._definitions = definitions

    def value(self, plain: object, schemas: _Schemas) -> object:
        if isinstance(plain, dict):
            return self._object(cast(Meta, plain), self._flat(schemas))
        if isinstance(plain, list):
            return self._list(cast("list[object]", plain), self._flat(schemas))
        return plain

    def _object(self, plain: Meta, schemas: _Schemas) -> Meta:
        likely = [schema for schema in schemas if _may_be(plain, schema)]
        kept: Meta = {}
        for key, inner in plain.items():
            places = [_properties(schema)[key] for schema in likely if key in _properties(schema)]
            if inner is None and places and not self._is_meant(key, likely, places):
                continue
            kept[key] = self.value(inner, places or _dicts(s.get("additionalProperties") for s in likely))
        return kept

    def _is_meant(self, key: str, likely: _Schemas, places: _Schemas) -> bool:
        if any(key in cast("list[str]", schema.get("required", [])) for schema in likely):
            return True
        return any(_takes_null(schema) for schema in self._flat(places))

    def _list(self, plain: list[object], schemas: _Schemas) -> list[object]:
        rest = _dicts(schema.get("items") for schema in schemas)
        firsts = [cast("list[Meta]", schema.get("prefixItems", [])) for schema in schemas]
        return [
            self.value(inner, [first[at] for first in firsts if at < len(first)] or rest)
            for at, inner in enumerate(plain)
        ]

    def _flat(self, schemas: _Schemas) -> _Schemas:
        """The schemas with all that they refer to or are a choice of, each once."""
        found: dict[int, Meta] = {}
        ahead = list(schemas)
        while ahead:
            schema = ahead.pop()
            if id(schema) in found:
                continue
            found[id(schema)] = schema
            name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
            ahead += _dicts([self._definitions.get(name)])
            for word in _PARTS:
                ahead += _dicts(cast("list[object]", schema.get(word, [])))
        return list(found.values())


def _may_be(plain: Meta, schema: Meta) -> bool:
    """Whether an object can be meant by a schema: it has what is required, and says it is this one."""
    if any(key not in plain for key in cast("list[str]", schema.get("required", []))):
        return False
    named = [(plain[key], place) for key, place in _properties(schema).items() if key in plain]
    return all(value is None or _is_one_of(value, place) for value, place in named)


def _is_one_of(value: object, place: Meta) -> bool:
    if "const" in place:
        return value == place["const"]
    return "enum" not in place or value in cast("list[object]", place["enum"])


def _takes_null(schema: Meta) -> bool:
    if not any(word in schema for word in _SAYS_WHAT):
        return True  # it takes anything
    kinds = schema.get("type")
    if kinds == "null" or (isinstance(kinds, list) and "null" in kinds):
        return True
    if "const" in schema:
        return schema["const"] is None
    return None in cast("list[object]", schema.get("enum", []))


def _properties(schema: Meta) -> dict[str, Meta]:
    return cast("dict[str, Meta]", schema.get("properties", {}))


def _dicts(values: Iterable[object]) -> _Schemas:
    return [cast(Meta, value) for value in values if isinstance(value, dict)]
