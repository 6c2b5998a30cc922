"""How large a compiled schema is, in what services count."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gnomon.providers._schema.dialects import Size
from gnomon.providers._schema.keywords import OF_NAMED_SCHEMAS, OF_ONE_SCHEMA, OF_SCHEMAS
from gnomon.providers._schema.merging import kinds_of
from gnomon.providers._schema.reading import Schema, elements, mapping, strings

__all__ = ["measured", "too_large"]

_MANY_VALUES = 250
_MOST_STEPS = 50_000
_DEEPEST = 64
_NAMED = OF_NAMED_SCHEMAS | {"$defs"}
_SENTENCES = {
    "properties": "{} properties",
    "depth": "{} levels of objects",
    "enum_values": "{} enum values",
    "enum_characters": "{} characters in one long enum",
    "characters": "{} characters in names and values",
    "optional": "{} properties that may be left out",
    "unions": "{} unions",
}


def measured(schema: Schema) -> Size:
    """The size of a schema, its definitions counted once each."""
    nodes = list(_nodes(schema))
    enums = [_values(node) for node in nodes]
    lengths = [sum(len(value) for value in values if isinstance(value, str)) for values in enums]
    names = [name for node in nodes for key in ("properties", "$defs") for name in mapping(node.get(key))]
    return Size(
        properties=sum(len(mapping(node.get("properties"))) for node in nodes),
        depth=_depth(schema),
        enum_values=sum(map(len, enums)),
        enum_characters=max(
            (n for n, vs in zip(lengths, enums, strict=True) if len(vs) > _MANY_VALUES), default=0
        ),
        characters=sum(lengths) + sum(map(len, names)),
        optional=sum(
            len(mapping(n.get("properties")).keys() - set(strings(n.get("required")))) for n in nodes
        ),
        unions=sum("anyOf" in node or isinstance(node.get("type"), list) for node in nodes),
    )


def too_large(size: Size, limits: Size) -> list[str]:
    """A sentence for each limit that is passed."""
    found, allowed = msgspec.structs.asdict(size), msgspec.structs.asdict(limits)
    return [
        f"{_SENTENCES[name].format(found[name])} are more than the {most} that the service takes"
        for name, most in allowed.items()
        if most is not None and found[name] > most
    ]


def _values(node: Schema) -> list[object]:
    return elements(node.get("enum")) or ([node["const"]] if "const" in node else [])


def _nodes(schema: Schema) -> Iterator[Schema]:
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(_inside(node))


def _inside(node: Schema) -> Iterator[Schema]:
    for key, value in node.items():
        if key in _NAMED:
            yield from (mapping(inner) for inner in mapping(value).values())
        if key in OF_SCHEMAS:
            yield from (mapping(inner) for inner in elements(value))
        if key in OF_ONE_SCHEMA and isinstance(value, dict):
            yield mapping(node[key])


def _depth(schema: Schema) -> int:
    """Objects inside objects, through references too; a recursion counts once.

    Past a depth that everybody refuses, nobody needs to know how deep.
    """
    definitions = mapping(schema.get("$defs"))
    deepest = 0
    waiting: list[tuple[Schema, int, frozenset[str]]] = [(schema, 0, frozenset())]
    best: dict[str, int] = {}
    for _ in range(_MOST_STEPS):
        if not waiting or deepest > _DEEPEST:
            break
        node, level, passed = waiting.pop()
        level += "object" in kinds_of(node)
        deepest = max(deepest, level)
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if name in definitions and name not in passed and best.get(name, -1) < level:
            best[name] = level
            waiting.append((mapping(definitions[name]), level, passed | {name}))
        inner = {key: value for key, value in node.items() if key != "$defs"}
        waiting.extend((child, level, passed) for child in _inside(inner))
    return deepest
