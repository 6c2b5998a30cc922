"""The walk through a schema that both rewriting dialects share: references and `allOf` are resolved here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple, cast

from gnomon.errors import InvalidInput
from gnomon.providers._schema.dialects import Dialect
from gnomon.providers._schema.keywords import NEUTRAL, words
from gnomon.providers._schema.merging import identity, kinds_of, merged
from gnomon.providers._schema.notes import Notes
from gnomon.providers._schema.reading import Pointer, References, Schema, elements, mapping, strings

__all__ = ["Place", "Walk"]

# Written out, references can make a schema grow without bounds. What goes beyond these is cut.
_MOST_NODES = 10_000
_MOST_MERGED = 10_000
_MOST_CHARACTERS = 4_000_000
_DEEPEST = 64
_DEEPEST_MERGE = 24
_NO_OBJECT = "the top of the schema must be an object"


class Place(NamedTuple):
    """Where a schema stands in what is made, and inside which of the recursive definitions.

    `above` are those that were begun further up, and not for this very value.
    """

    steps: Pointer = ()
    inside: frozenset[Pointer] = frozenset()
    above: frozenset[Pointer] = frozenset()

    def to(self, *steps: str) -> Place:
        return Place(self.steps + steps, self.inside, self.inside)

    def within(self, pointers: Iterable[Pointer]) -> Place:
        return self._replace(inside=self.inside.union(pointers))


class Walk(ABC):
    """Goes through one schema for one dialect. `node` gives `None` where no value can be right."""

    def __init__(self, root: Schema, dialect: Dialect) -> None:
        self.root = root
        self.dialect = dialect
        self.notes = Notes()
        self.references = References(root)
        self._nodes = 0
        self._merged = 0
        self._depth = 0
        self._characters = 0

    def compiled(self) -> Schema:
        root: Schema | bool = self.root
        if self.dialect.root == "object":
            root = self._object_at_top(root)
        return self.some(root, Place())

    def some(self, schema: object, at: Place) -> Schema:
        """The compiled schema, or a stand-in where there is nothing to send."""
        found = self.node(schema, at)
        return self.instead(at) if found is None else found

    def instead(self, at: Place) -> Schema:
        self.notes.lose(at.steps, "there is nothing that could be sent here; an empty object stands in")
        return self.stand_in(at)

    def node(self, schema: object, at: Place) -> Schema | None:
        self._nodes += 1
        self._characters += _characters(mapping(schema))
        is_deep = len(at.steps) > _DEEPEST
        if is_deep or self._nodes > _MOST_NODES or self._characters > _MOST_CHARACTERS:
            which = "deep" if is_deep else "large"
            self.notes.lose((), f"the schema becomes too {which}; what goes beyond is not sent")
            return self.stand_in(at)
        found = self.as_schema(schema, at)
        if isinstance(found, bool):
            return self.anything(at) if found else None
        return self.dictionary(found, at)

    def as_schema(self, schema: object, at: Place) -> Schema | bool:
        """What stands where a schema belongs, if it is one."""
        if isinstance(schema, dict | bool):
            return cast("Schema | bool", schema)
        self.notes.lose(at.steps, f"{schema!r:.60} is no schema and is not sent")
        return True

    def completed(self, made: Schema, at: Place) -> Schema:
        """With what says nothing and is asked for all the same: items of a list, properties at the top."""
        if "array" in kinds_of(made) and not made.keys() & {"items", "prefixItems", "unevaluatedItems"}:
            made["items"] = {}
        if not at.steps and self.dialect.root == "object":
            made.setdefault("properties", {})
        return made

    @abstractmethod
    def dictionary(self, schema: Schema, at: Place) -> Schema | None:
        """A schema that is an object, in the dialect."""

    @abstractmethod
    def anything(self, at: Place) -> Schema:
        """What takes every value."""

    @abstractmethod
    def stand_in(self, at: Place, kinds: tuple[str, ...] = ()) -> Schema:
        """What stands where the schema is cut off."""

    # References and allOf

    def reduced(self, schema: Schema, at: Place, *, whole: bool = False) -> tuple[Schema | bool, Place]:
        """The schema without `$ref` and `allOf` at its top, unless the dialect keeps the reference."""
        for _ in range(_DEEPEST):
            if "$ref" in schema:
                schema, at, done = self._dereferenced(schema, at, whole)
            elif "allOf" in schema:
                found, at, done = self._together(schema, at)
                if isinstance(found, bool):
                    return found, at
                schema = found
            else:
                done = True
            if done:
                return schema, at
        self.notes.lose(at.steps, "its references lead on too far and are not sent")
        return {key: schema[key] for key in schema if key not in ("$ref", "allOf")}, at

    def _dereferenced(self, schema: Schema, at: Place, whole: bool) -> tuple[Schema, Place, bool]:
        reference = schema["$ref"]
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        found = self.references.target(reference) if isinstance(reference, str) else None
        if found is None:
            self.notes.lose(at.steps, f"the reference {reference!r} leads nowhere and is not sent")
            return rest, at, False
        pointer, target = found
        cyclic = self.references.is_cyclic(pointer)
        if cyclic and pointer in at.inside:
            if pointer not in at.above:
                self.notes.lose(at.steps, f"the reference {reference!r} leads back to itself and is not sent")
                return rest, at, False
            return self._met_again(rest, str(reference), at)
        if not whole and not self._is_written_out(pointer, rest, cyclic):
            return schema, at, True
        self.notes.change(at.steps, f"the reference {reference!r} is written out", "same")
        self._characters += _characters(mapping(target))
        if cyclic:
            at = at.within([pointer])
        if rest.keys() <= NEUTRAL and isinstance(target, dict):
            return {**mapping(cast(object, target)), **rest}, at, False
        return {**rest, "allOf": [*elements(rest.get("allOf")), target]}, at, False

    def _is_written_out(self, pointer: Pointer, rest: Schema, cyclic: bool) -> bool:
        if self.dialect.references == "inline" or (cyclic and not self.dialect.recursion):
            return True
        if rest.keys() <= NEUTRAL:
            return bool(rest) and self.dialect.beside_reference == "inline"
        return True

    def _met_again(self, rest: Schema, reference: str, at: Place) -> tuple[Schema, Place, bool]:
        """A definition inside itself: it stays a reference where there are any, and else the walk ends."""
        constraints = [key for key in rest if key not in NEUTRAL]
        if self.dialect.references == "keep" and self.dialect.recursion:
            for key in constraints:
                self.notes.lose(
                    at.steps, f"{key!r} beside a recursive reference cannot be expressed and is not sent"
                )
            return {"$ref": reference, **{k: rest[k] for k in rest if k in NEUTRAL}}, at, True
        self.notes.lose(at.steps, f"the recursion through {reference!r} cannot be expressed and is cut off")
        return {_CUT: True, "type": self._kinds_behind(reference), **rest}, at, True

    def _kinds_behind(self, reference: str) -> list[str]:
        found = self.references.target(reference)
        return list(kinds_of(mapping(found[1])) if found else ())

    def is_cut(self, schema: Schema) -> bool:
        return _CUT in schema

    def _together(self, schema: Schema, at: Place) -> tuple[Schema | bool, Place, bool]:
        parts = elements(schema["allOf"])
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        if len(parts) == 1 and isinstance(parts[0], dict) and rest.keys() <= NEUTRAL:
            return {**mapping(cast(object, parts[0])), **rest}, at, False
        found: list[Schema | bool] = [rest]
        for part in parts:
            reduced, inner = self._part(part, at)
            found.append(reduced)
            at = at.within(inner.inside)
        self._merged += sum(1 + len(mapping(mapping(part).get("properties"))) for part in found)
        if self._merged > _MOST_MERGED or len(at.steps) > _DEEPEST:
            self.notes.lose((), "the schema becomes too large; what goes beyond is not sent")
            return rest, at, False
        return self._joined(found, at)

    def _part(self, part: object, at: Place) -> tuple[Schema | bool, Place]:
        if isinstance(part, bool):
            return part, at
        self._depth += 1
        self._merged += 1
        try:
            if self._depth > _DEEPEST_MERGE or self._merged > _MOST_MERGED:
                self.notes.lose(at.steps, "'allOf' goes too far and is not sent")
                return True, at
            reduced, at = self.reduced(mapping(part), at, whole=True)
        finally:
            self._depth -= 1
        return (True if isinstance(reduced, dict) and self.is_cut(reduced) else reduced), at

    def _joined(self, parts: list[Schema | bool], at: Place) -> tuple[Schema | bool, Place, bool]:
        result = merged(parts)
        if isinstance(result.schema, bool):
            return result.schema, at, True
        if not result.conflicts:
            return _sealed(result.schema), at, False
        return self.in_conflict(parts, result.schema, result.conflicts, at)

    def in_conflict(
        self, parts: list[Schema | bool], schema: Schema, conflicts: Iterable[str], at: Place
    ) -> tuple[Schema | bool, Place, bool]:
        """What to make of parts that cannot all be put together."""
        for key in conflicts:
            self.notes.lose(
                at.steps, f"{key!r} is said differently in the parts of 'allOf'; only one of them is sent"
            )
        return schema, at, True

    # The top

    def _object_at_top(self, root: Schema) -> Schema:
        reduced, _ = self.reduced(root, Place(), whole=True)
        top = self._branches_joined(mapping(reduced))
        for key in ("enum", "const", "not"):
            if key in top:
                self.notes.lose((), f"{key!r} cannot stand at the top and is not sent")
        top = {key: value for key, value in top.items() if key not in ("enum", "const", "not")}
        kinds = kinds_of(top)
        if reduced is False or (kinds and "object" not in kinds):
            hint = "put it into a property of an object"
            raise InvalidInput(
                f"{_NO_OBJECT}, and this one is {' or '.join(kinds) or 'never right'}", hint=hint
            )
        if kinds != ("object",):
            self.notes.change((), "the top is an object", "narrower")
        return {**top, "type": "object"}

    def _branches_joined(self, top: Schema) -> Schema:
        """The union of what the branches name: wider, for which belong together cannot be said there."""
        for key in ("anyOf", "oneOf"):
            if key not in top:
                continue
            self.notes.lose(
                (), f"{key!r} cannot stand at the top: what its branches name is sent as one object"
            )
            rest = {word: value for word, value in top.items() if word != key}
            found = [self.reduced(mapping(branch), Place(), whole=True)[0] for branch in elements(top[key])]
            objects = [mapping(branch) for branch in found if _may_be_object(mapping(branch))]
            if found and not objects and kinds_of(rest) != ("object",):
                raise InvalidInput(f"{_NO_OBJECT}, and none of its branches is one")
            joined, _ = self.reduced({"allOf": [rest, _union(objects)]}, Place(), whole=True)
            top = self._branches_joined({k: v for k, v in mapping(joined).items() if k != key})
        return top


_CUT = "\0cut"


def _characters(schema: Schema) -> int:
    """The text of one schema without those in it, and with the names it gives them."""
    texts: list[object] = [*schema, *schema.values()]
    for value in schema.values():
        texts.extend(mapping(value) or elements(value))
    return sum(len(text) for text in texts if isinstance(text, str))


def _may_be_object(schema: Schema) -> bool:
    return bool(schema) and "object" in (kinds_of(schema) or ("object",))


def _union(objects: list[Schema]) -> Schema:
    properties: dict[str, dict[object, object]] = {}
    for schema in objects:
        for name, described in mapping(schema.get("properties")).items():
            properties.setdefault(name, {}).setdefault(identity(described), described)
    required = [strings(schema.get("required")) for schema in objects]
    union: Schema = {
        "properties": {name: _either(list(those.values())) for name, those in properties.items()}
    }
    if shared := [
        name for name in (required or [[]])[0] if all(name in names for names in map(set, required))
    ]:
        union["required"] = shared
    if objects and all(schema.get("additionalProperties") is False for schema in objects):
        union["additionalProperties"] = False
    return union


def _either(schemas: list[object]) -> object:
    if len(schemas) == 1:
        return schemas[0]
    if all(mapping(schema).keys() == {"const"} for schema in schemas):  # tags of the branches, most often
        return {"enum": [mapping(schema)["const"] for schema in schemas]}
    return {"anyOf": schemas}


_SEES_THROUGH = words("anyOf oneOf if dependentSchemas $ref patternProperties additionalProperties")


def _sealed(schema: Schema) -> Schema:
    """`unevaluatedProperties: false` over parts that are one now says what `additionalProperties` says."""
    if schema.get("unevaluatedProperties") is not False or schema.keys() & _SEES_THROUGH:
        return schema
    rest = {key: value for key, value in schema.items() if key != "unevaluatedProperties"}
    return {**rest, "additionalProperties": False}
