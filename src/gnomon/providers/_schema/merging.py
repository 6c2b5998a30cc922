"""Several schemas that must all hold, as one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from gnomon.providers._schema.keywords import KINDS, LEAST, MOST, NEUTRAL, words
from gnomon.providers._schema.reading import Schema, elements, mapping, strings

__all__ = ["Merged", "identity", "is_kind", "kinds_of", "merged", "never_both", "same"]


class Merged(NamedTuple):
    """`schema` is `False` when no value can fit all; `conflicts` are words that could not be put together."""

    schema: Schema | bool
    conflicts: tuple[str, ...] = ()


def kinds_of(schema: Schema) -> tuple[str, ...]:
    """The types a schema names; () when it names none, or none that there is."""
    named = schema.get("type")
    names = [named] if isinstance(named, str) else strings(named)
    return tuple(dict.fromkeys(name for name in names if name in KINDS))


def is_kind(value: object, kind: str) -> bool:
    """Whether a value is of a type, as JSON Schema counts: 1.0 is an integer and true is no number."""
    match value:
        case None:
            return kind == "null"
        case bool():
            return kind == "boolean"
        case int():
            return kind in ("integer", "number")
        case float():
            return kind == "number" or (kind == "integer" and value.is_integer())
        case str():
            return kind == "string"
        case list():
            return kind == "array"
        case _:
            return kind == "object"


def identity(value: object) -> object:
    """Something hashable that is equal for the same JSON: 1 and 1.0 are the same, 1 and true are not."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", *map(identity, elements(cast(object, value))))
    if isinstance(value, dict):
        return frozenset((key, identity(inner)) for key, inner in mapping(cast(object, value)).items())
    return value


def same(one: object, other: object) -> bool:
    return identity(one) == identity(other)


def merged(parts: Iterable[Schema | bool]) -> Merged:
    """One schema for several without `$ref` and `allOf`; what is said first of annotations counts."""
    result: Schema = {}
    conflicts: list[str] = []
    for part in parts:
        if part is False:
            return Merged(False)
        if part is True:
            continue
        if not _join(result, part, conflicts):
            return Merged(False)
    return Merged(result, tuple(dict.fromkeys(conflicts)))


def _join(result: Schema, part: Schema, conflicts: list[str]) -> bool:
    """Put a part into the result; False when the two exclude one another."""
    part = _with_enum(part)
    if not _join_kinds(result, part) or not _join_enums(result, part):
        return False
    if not result.keys() <= NEUTRAL and not part.keys() <= NEUTRAL:
        _join_objects(result, part, conflicts)
        _join_arrays(result, part, conflicts)
        conflicts.extend(key for key in ("unevaluatedProperties", "unevaluatedItems") if key in part)
    for key, value in part.items():
        if key not in result:
            result[key] = value
        elif key not in _JOINED and key not in NEUTRAL and not same(result[key], value):
            _join_constraint(result, key, value, conflicts)
    return True


_JOINED = words(
    "type enum properties required additionalProperties patternProperties items prefixItems additionalItems"
)


def _with_enum(schema: Schema) -> Schema:
    """`const` is an enum of one."""
    if "const" not in schema:
        return schema
    rest = {key: value for key, value in schema.items() if key not in ("const", "enum")}
    allowed = elements(schema.get("enum"))
    if "enum" in schema and not any(same(schema["const"], value) for value in allowed):
        return {**rest, "enum": []}
    return {**rest, "enum": [schema["const"]]}


def _join_kinds(result: Schema, part: Schema) -> bool:
    ours, theirs = kinds_of(result), kinds_of(part)
    if not ours or not theirs:
        if theirs:
            result["type"] = part["type"]
        return True
    common = [kind for kind in ours if kind in theirs or (kind == "integer" and "number" in theirs)]
    common += [kind for kind in theirs if kind == "integer" and "number" in ours and kind not in common]
    result["type"] = common[0] if len(common) == 1 else common
    return bool(common)


def _join_enums(result: Schema, part: Schema) -> bool:
    if "enum" in result and "enum" in part:
        theirs = {identity(value) for value in elements(part["enum"])}
        result["enum"] = [value for value in elements(result["enum"]) if identity(value) in theirs]
    return bool(result.get("enum", part.get("enum", True)))


def _join_objects(result: Schema, part: Schema, conflicts: list[str]) -> None:
    """Each part rules over its own properties, and its `additionalProperties` over those of the others."""
    ours, theirs = mapping(result.get("properties")), mapping(part.get("properties"))
    beyond = result.get("additionalProperties", True), part.get("additionalProperties", True)
    patterned = "patternProperties" in result or "patternProperties" in part
    if patterned and beyond != (True, True):
        conflicts.append("patternProperties")
    properties: Schema = {**ours}
    for name in theirs if beyond[1] is True else (*ours, *theirs):
        mine, yours = ours.get(name, beyond[0]), theirs.get(name, beyond[1])
        if (name not in ours and mine is False) or (name not in theirs and yours is False):
            # Meant as an extension, as a rule: to forbid what the other names makes no sense.
            conflicts.append("additionalProperties")
            properties[name] = ours.get(name, yours)
        else:
            properties[name] = _both([mine, yours])
    if properties:
        result["properties"] = properties
    if beyond != (True, True):
        result["additionalProperties"] = _both(list(beyond))
    if required := list(dict.fromkeys([*strings(result.get("required")), *strings(part.get("required"))])):
        result["required"] = required
    patterns = mapping(result.get("patternProperties"))
    for pattern, schema in mapping(part.get("patternProperties")).items():
        patterns = {**patterns, pattern: _both([patterns.get(pattern, True), schema])}
    if patterns:
        result["patternProperties"] = patterns


def _both(schemas: Sequence[object]) -> object:
    telling = [schema for schema in schemas if schema is not True and schema != {}]
    if False in telling:
        return False
    if len(telling) < 2 or all(same(telling[0], schema) for schema in telling):
        return telling[0] if telling else True
    return {"allOf": telling}


def _join_arrays(result: Schema, part: Schema, conflicts: list[str]) -> None:
    words = ("items", "prefixItems", "additionalItems")
    ours, theirs = ({w: s[w] for w in words if w in s} for s in (result, part))
    if not ours or not theirs or same(ours, theirs):
        return
    if ours.keys() == theirs.keys() == {"items"} and not isinstance(ours["items"], list):
        result["items"] = _both([ours["items"], theirs["items"]])
    else:
        conflicts.append("items")


def _join_constraint(result: Schema, key: str, value: object, conflicts: list[str]) -> None:
    old = result[key]
    if isinstance(old, int | float) and isinstance(value, int | float):
        if key in LEAST or key in MOST:
            result[key] = max(old, value) if key in LEAST else min(old, value)
            return
        if key == "multipleOf" and isinstance(old, int) and isinstance(value, int) and old > 0 < value:
            result[key] = math.lcm(old, value)
            return
        if key == "uniqueItems":
            result[key] = bool(old or value)
            return
    conflicts.append(key)


def never_both(one: Schema, other: Schema) -> bool:
    """Whether it is plain that no value fits both; that it is not plain says nothing."""
    one, other = _with_enum(one), _with_enum(other)
    apart = merged([{k: s[k] for k in ("type", "enum") if k in s} for s in (one, other)])
    if apart.schema is False:
        return True
    if kinds_of(one) != ("object",) or kinds_of(other) != ("object",):
        return _enum_apart(one, other)
    shared = set(strings(one.get("required"))) & set(strings(other.get("required")))
    properties = mapping(one.get("properties")), mapping(other.get("properties"))
    return any(_tags_apart(properties[0].get(name), properties[1].get(name)) for name in shared)


def _enum_apart(one: Schema, other: Schema) -> bool:
    values, kinds = elements(one.get("enum")), kinds_of(other)
    return bool(values and kinds) and not any(is_kind(value, kind) for value in values for kind in kinds)


def _tags_apart(one: object, other: object) -> bool:
    tags = [set(map(identity, elements(_with_enum(mapping(schema)).get("enum")))) for schema in (one, other)]
    return all(tags) and not tags[0] & tags[1]
