"""JSON Schema without references: everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from gnomon.providers._schema.keywords import (
    NEUTRAL,
    OF_NAMED_SCHEMAS,
    OF_ONE_SCHEMA,
    OF_SCHEMAS,
    SCAFFOLDING,
)
from gnomon.providers._schema.reading import Schema, elements, mapping
from gnomon.providers._schema.walk import Place, Walk

__all__ = ["InlineWalk"]

_ELSEWHERE = frozenset({"$dynamicRef", "$recursiveRef"})


class InlineWalk(Walk):
    """Writes every reference out. A recursion ends in a value of the right type and no more."""

    def anything(self, at: Place) -> Schema:
        return {}

    def stand_in(self, at: Place, kinds: tuple[str, ...] = ()) -> Schema:
        if not kinds:
            return {}
        return {"type": kinds[0] if len(kinds) == 1 else list(kinds)}

    def in_conflict(
        self, parts: list[Schema | bool], schema: Schema, conflicts: Iterable[str], at: Place
    ) -> tuple[Schema | bool, Place, bool]:
        if not at.steps and self.dialect.root == "object":
            return super().in_conflict(parts, schema, conflicts, at)
        # Nothing need be lost: `allOf` may stay.
        outer = mapping(parts[0])
        told = {key: value for key, value in outer.items() if key in NEUTRAL}
        rest = {key: value for key, value in outer.items() if key not in NEUTRAL}
        return {**told, "allOf": [part for part in (rest, *parts[1:]) if part not in ({}, True)]}, at, True

    def dictionary(self, schema: Schema, at: Place) -> Schema | None:
        reduced, at = self.reduced(schema, at)
        if isinstance(reduced, bool):
            return {} if reduced else None
        if self.is_cut(reduced):
            told = {key: value for key, value in reduced.items() if key in NEUTRAL - SCAFFOLDING}
            return {**self.stand_in(at, tuple(cast("list[str]", reduced["type"]))), **told}
        made: Schema = {}
        for key, value in reduced.items():
            if key in _ELSEWHERE:
                self.notes.lose(at.steps, f"the reference {value!r} cannot be followed and is not sent")
            elif key not in SCAFFOLDING or key in ("$schema", "$comment"):
                made[key] = self._value(key, value, at.to(key))
        if "const" in made and "enum" not in made:
            made["enum"] = [made.pop("const")]
        return self.completed(made, at)

    def _value(self, key: str, value: object, at: Place) -> object:
        if key in OF_SCHEMAS and isinstance(value, list):
            return [
                self._inner(inner, at.to(str(n))) for n, inner in enumerate(elements(cast(object, value)))
            ]
        if key in OF_NAMED_SCHEMAS and isinstance(value, dict):
            named = mapping(cast(object, value))
            return {name: self._named(inner, at.to(name)) for name, inner in named.items()}
        if key in OF_ONE_SCHEMA:
            return self._inner(value, at)
        return value

    def _inner(self, schema: object, at: Place) -> object:
        if isinstance(schema, bool):
            return schema
        found = self.node(schema, at)
        return False if found is None else found

    def _named(self, schema: object, at: Place) -> object:
        # In `dependencies` a list of names may stand for a schema.
        return cast(object, schema) if isinstance(schema, list) else self._inner(schema, at)
