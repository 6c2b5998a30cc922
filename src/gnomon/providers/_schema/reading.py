"""A schema as it comes in: checked, copied, and its references found."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import TypeAlias, cast
from urllib.parse import unquote

from gnomon.errors import InvalidInput

__all__ = ["Pointer", "References", "Schema", "elements", "mapping", "plain_copy", "strings"]

Schema: TypeAlias = dict[str, object]
Pointer: TypeAlias = tuple[str, ...]

_DEEPEST = 100
_MOST_VALUES = 20_000
_LONGEST_CHAIN = 16


def mapping(value: object) -> Schema:
    return cast(Schema, value) if isinstance(value, dict) else {}


def elements(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def strings(value: object) -> list[str]:
    return [name for name in elements(value) if isinstance(name, str)]


def plain_copy(schema: Mapping[str, object]) -> Schema:
    """A copy made of plain JSON values; `InvalidInput` for what is no JSON, too deep or too large.

    Written without recursion: the schema may come from a server nobody trusts.
    """
    top: Schema = {}
    waiting: list[_Copying] = [(schema, top, 1)]
    seen = 0
    while waiting:
        source, copy, depth = waiting.pop()
        seen += len(source)
        if depth > _DEEPEST or seen > _MOST_VALUES:
            size = (
                f"goes deeper than {_DEEPEST} levels"
                if depth > _DEEPEST
                else f"has over {_MOST_VALUES} values"
            )
            raise InvalidInput(f"the schema cannot be used: it {size}", hint="make it smaller")
        if isinstance(copy, dict):
            for name, inner in cast("Mapping[object, object]", source).items():
                copy[_name(name)] = _copied(inner, depth, waiting)
        else:
            copy.extend(_copied(inner, depth, waiting) for inner in source)
    return top


_Copying: TypeAlias = tuple[Collection[object], Schema | list[object], int]


def _copied(value: object, depth: int, waiting: list[_Copying]) -> object:
    """A scalar, or an empty container that is to be filled."""
    if value is None or isinstance(value, str | int | float):
        return _scalar(value)
    copy: Schema | list[object]
    if isinstance(value, Mapping):
        copy = {}
    elif isinstance(value, list | tuple):
        copy = []
    else:
        return _scalar(value)
    waiting.append((cast("Collection[object]", value), copy, depth + 1))
    return copy


def _name(name: object) -> str:
    if not isinstance(name, str):
        raise InvalidInput(f"the schema cannot be used: {name!r} is no name for JSON")
    return cast(str, _scalar(name))


def _scalar(value: object) -> str | float | None:
    match value:
        case None | bool():
            return value
        case str():
            is_json = value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)
        case int():
            is_json = -(2**63) <= value < 2**64
        case float():
            is_json = math.isfinite(value)
        case _:
            is_json = False
    if not is_json:
        raise InvalidInput(f"the schema cannot be used: JSON has no {type(value).__name__} {value!r:.60}")
    return cast("str | float | None", value)


class References:
    """Where the references of one schema lead."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self._names: dict[Pointer, str] = {}
        self._taken: dict[str, int] = {}
        self._known: dict[str, tuple[Pointer, object] | None] = {}
        self._cyclic: frozenset[Pointer] | None = None

    def target(self, reference: str) -> tuple[Pointer, object] | None:
        """What a reference means, past references that only refer on; `None` when it leads nowhere."""
        seen: set[Pointer] = set()
        first: tuple[Pointer, object] | None = None
        while (found := self._at(reference)) is not None and len(seen) < _LONGEST_CHAIN:
            if found[0] in seen:
                return None
            seen.add(found[0])
            schema = mapping(found[1])
            if first is None or len(mapping(first[1])) == 1:
                first = found
            inner = schema.get("$ref")
            if not isinstance(inner, str):
                return first
            reference = inner
        return None

    def _at(self, reference: str) -> tuple[Pointer, object] | None:
        if reference not in self._known:
            self._known[reference] = self._sought(reference)
        return self._known[reference]

    def _sought(self, reference: str) -> tuple[Pointer, object] | None:
        if reference != "#" and not reference.startswith("#/"):
            return None
        for text in (unquote(reference), reference):
            pointer = tuple(s.replace("~1", "/").replace("~0", "~") for s in text[1:].split("/")[1:])
            value = self.walk(pointer)
            if isinstance(value, dict | bool):
                return pointer, cast(object, value)
        return None

    def walk(self, pointer: Pointer) -> object:
        """What stands at a pointer; `None` when nothing does."""
        value: object = self.root
        for step in pointer:
            if isinstance(value, dict) and step in value:
                value = mapping(cast(object, value))[step]
            elif (
                isinstance(value, list)
                and step.isdecimal()
                and int(step) < len(elements(cast(object, value)))
            ):
                value = elements(cast(object, value))[int(step)]
            else:
                return None
        return value

    def name(self, pointer: Pointer) -> tuple[str, bool]:
        """The name of a definition among `$defs`, plain and its own, and whether it was just given."""
        if pointer in self._names:
            return self._names[pointer], False
        plain = re.sub(r"[^A-Za-z0-9_.-]", "_", pointer[-1])[:60] or "definition"
        name = plain
        while name in self._taken:
            self._taken[plain] += 1
            name = f"{plain}_{self._taken[plain]}"
        self._taken[name] = 1
        self._names[pointer] = name
        return name, True

    def is_cyclic(self, pointer: Pointer) -> bool:
        """Whether a definition contains itself, or one that does."""
        if self._cyclic is None:
            self._cyclic = self._find_cyclic()
        return pointer in self._cyclic

    def _find_cyclic(self) -> frozenset[Pointer]:
        edges: dict[Pointer, set[Pointer]] = {}
        waiting: list[Pointer] = [()]
        while waiting:
            pointer = waiting.pop()
            if pointer not in edges:
                edges[pointer] = set(self._referred(self.walk(pointer)))
                waiting.extend(edges[pointer])
        return _without_leaves(edges)

    def _referred(self, value: object) -> Iterator[Pointer]:
        waiting = [value]
        while waiting:
            inner = waiting.pop()
            waiting.extend(mapping(inner).values() or elements(inner))
            reference = mapping(inner).get("$ref")
            if isinstance(reference, str) and (found := self._at(reference)):
                yield found[0]


def _without_leaves(edges: dict[Pointer, set[Pointer]]) -> frozenset[Pointer]:
    """What is left of a graph when all that leads to nothing is taken away, again and again."""
    users: dict[Pointer, list[Pointer]] = {pointer: [] for pointer in edges}
    for pointer, targets in edges.items():
        for target in targets:
            users[target].append(pointer)
    leaves = [pointer for pointer, targets in edges.items() if not targets]
    left = {pointer: len(targets) for pointer, targets in edges.items()}
    while leaves:
        leaf = leaves.pop()
        del left[leaf]
        for user in users[leaf]:
            left[user] -= 1
            if not left[user]:
                leaves.append(user)
    return frozenset(left)
