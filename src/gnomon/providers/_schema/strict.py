"""A schema for services that turn it into a grammar: few keywords, closed objects, types everywhere."""

from __future__ import annotations

import re
from typing import cast

import msgspec

from gnomon.providers._schema.dialects import Dialect
from gnomon.providers._schema.keywords import KIND_OF, LEAST, NEUTRAL, words
from gnomon.providers._schema.merging import identity, is_kind, kinds_of, never_both, same
from gnomon.providers._schema.reading import Pointer, Schema, elements, mapping, strings
from gnomon.providers._schema.walk import Place, Walk

__all__ = ["StrictWalk"]

_SCALARS = ("string", "number", "boolean", "null")
_LONGEST_TOLD = 300
# Which words are written by the methods below and not simply taken over.
_WRITTEN = words(
    "type enum const anyOf oneOf properties required additionalProperties items prefixItems additionalItems "
    "description title $ref"
)
# These say something only together with the first of them.
_TOGETHER = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_LOOK_AROUND = re.compile(r"\(\?(?!:)|(?<!\\)(?:\\\\)*\\[bB1-9kpP]")
_REPEATS = re.compile(r"\{(\d+)(?:,(\d*))?\}")


class StrictWalk(Walk):
    """Writes a schema anew out of what the dialect has, and says of everything else that it is lost."""

    def __init__(self, root: Schema, dialect: Dialect) -> None:
        super().__init__(root, dialect)
        self._definitions: list[tuple[str, Pointer]] = []

    def compiled(self) -> Schema:
        top = super().compiled()
        made: Schema = {}
        # Definitions are met while others are written; in a queue nothing goes deeper for that.
        for name, pointer in self._definitions:
            made[name] = self.some(self.references.walk(pointer), Place(("$defs", name)))
        return {**top, "$defs": made} if made else top

    def anything(self, at: Place) -> Schema:
        self.notes.lose(
            at.steps, "that any value is right cannot be expressed; objects and lists are left out"
        )
        return {"type": list(_SCALARS)}

    def stand_in(self, at: Place, kinds: tuple[str, ...] = ()) -> Schema:
        return {"type": "object", "properties": {}, "required": [], "additionalProperties": False}

    def dictionary(self, schema: Schema, at: Place) -> Schema | None:
        reduced, at = self.reduced(schema, at)
        if isinstance(reduced, bool):
            return self.anything(at) if reduced else None
        if self.is_cut(reduced):
            return None
        if "$ref" in reduced:
            return self._reference(reduced, at)
        kept, told = self._expressible(reduced, at)
        if not elements(kept.get("anyOf")) and not elements(kept.get("oneOf")):
            return self._typed(kept, reduced, told, at)
        return self._choice(kept, told, at)

    def _reference(self, schema: Schema, at: Place) -> Schema:
        found = self.references.target(str(schema["$ref"]))
        pointer = found[0] if found else ()
        reference: Schema = {"$ref": f"#/$defs/{self._definition(pointer)}" if pointer else "#"}
        told = self._told(schema, self._left_out(schema, at))
        # A service that refuses words beside a reference takes them beside an `anyOf`.
        return {**told, "anyOf": [reference]} if told else reference

    def _definition(self, pointer: Pointer) -> str:
        name, is_new = self.references.name(pointer)
        if is_new:
            self._definitions.append((name, pointer))
        return name

    # What can be said at all

    def _expressible(self, schema: Schema, at: Place) -> tuple[Schema, Schema]:
        """The schema without the words the dialect has not, and those of them the model should be told of."""
        kinds = kinds_of(schema)
        kept: Schema = {}
        told: Schema = self._left_out(schema, at)
        for key, value in schema.items():
            if key in _WRITTEN:
                kept[key] = value
            elif key in NEUTRAL or _says_nothing(key, value, kinds, schema):
                continue
            elif key in KIND_OF or key in _CONSTRAINTS:
                if (fitting := self._fitting(key, value)) is not None:
                    kept[key] = fitting
                if not same(fitting, value):
                    told[key] = value
                    self.notes.lose(
                        at.steps, f"{key!r} cannot be expressed and is not sent" + self._weaker(key, fitting)
                    )
            else:
                self.notes.change(at.steps, f"{key!r} is not known and is not sent", "same")
        if "type" in schema and not kinds:
            self.notes.lose(at.steps, f"there is no type {schema['type']!r}; it is not sent")
            del kept["type"]
        return kept, told

    def _left_out(self, schema: Schema, at: Place) -> Schema:
        """Annotations that are told in other words."""
        for key in ("default", "examples"):
            if key in schema:
                self.notes.change(at.steps, f"{key!r} is told in the description", "same")
        return {key: schema[key] for key in ("default", "examples") if schema.get(key) is not None}

    def _weaker(self, key: str, fitting: object) -> str:
        return f"; {key} {fitting} is sent" if fitting is not None else ""

    def _fitting(self, key: str, value: object) -> object:
        """A constraint as the dialect takes it: itself, a weaker one, or nothing."""
        if key not in (self.dialect.keywords or ()):
            return None
        match key:
            case "format":
                return value if isinstance(value, str) and value in self.dialect.formats else None
            case "pattern":
                return value if isinstance(value, str) and self._is_simple(value) else None
            case "minItems" if self.dialect.min_items is not None and _is_count(value):
                return min(cast(int, value), self.dialect.min_items)
            case "minItems" | "maxItems":
                return value if _is_count(value) else None
            case _:
                return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def _is_simple(self, pattern: str) -> bool:
        if _LOOK_AROUND.search(pattern):
            return False
        counts = [count for found in _REPEATS.findall(pattern) for count in found if count]
        return self.dialect.large_repeats or all(len(count) < 3 or count == "100" for count in counts)

    def _told(self, schema: Schema, told: Schema) -> Schema:
        """Title and description, with what cannot be sent put into words."""
        made: Schema = {}
        if isinstance(schema.get("title"), str) and "title" in (self.dialect.keywords or ()):
            made["title"] = schema["title"]
        terms = [
            f"{key}: {text}" for key, value in told.items() if len(text := _json(value)) <= _LONGEST_TOLD
        ]
        description = schema.get("description")
        parts = [description] if isinstance(description, str) and description else []
        if terms and self.dialect.explain:
            parts.append(f"({', '.join(terms)})")
        if parts:
            made["description"] = " ".join(parts)
        return made

    # One of several

    def _choice(self, schema: Schema, told: Schema, at: Place) -> Schema | None:
        key = "anyOf" if elements(schema.get("anyOf")) else "oneOf"
        branches = elements(schema[key])
        base = {word: value for word, value in schema.items() if word != key and word not in NEUTRAL}
        if key == "oneOf":
            self._one_for_any(branches, at)
        found = [self.node(self._with_base(base, b, at), at.to(key, str(n))) for n, b in enumerate(branches)]
        possible = [branch for branch in found if branch is not None]
        said = self._told(schema, told)
        if not possible:
            return None
        if len(possible) > 1 or "$ref" in possible[0]:
            return {**said, "anyOf": possible} if said or len(possible) > 1 else possible[0]
        parts = [schema["description"] for schema in (said, possible[0]) if "description" in schema]
        return {**possible[0], **said, **({"description": " ".join(map(str, parts))} if parts else {})}

    def _one_for_any(self, branches: list[object], at: Place) -> None:
        flat = [self._looked_at(branch) for branch in branches]
        apart = len(flat) <= 50 and all(
            never_both(one, other) for n, one in enumerate(flat) for other in flat[n + 1 :]
        )
        what = "'oneOf' is sent as 'anyOf'" + (
            "" if apart else "; a value that fits several is not told apart"
        )
        self.notes.change(at.steps, what, "same" if apart else "other")

    def _looked_at(self, branch: object) -> Schema:
        """A branch, or what it refers to, as far as that can be seen at a glance."""
        reference = mapping(branch).get("$ref")
        found = self.references.target(reference) if isinstance(reference, str) else None
        return mapping(found[1]) if found else mapping(branch)

    def _with_base(self, base: Schema, branch: object, at: Place) -> object:
        """What is said beside the branches holds in each of them."""
        kinds = kinds_of(self._looked_at(branch))
        if not base or (base.keys() == {"type"} and kinds and set(kinds) <= set(kinds_of(base))):
            return branch
        return {"allOf": [base, branch]}

    # One type, or a list of them

    def _typed(self, schema: Schema, whole: Schema, told: Schema, at: Place) -> Schema | None:
        if "anyOf" in schema or "oneOf" in schema:
            self.notes.lose(at.steps, "'anyOf' and 'oneOf' without branches are not sent")
        values = self._values(schema, at)
        kinds = self._kinds(schema, whole, values, at)
        if values is not None:
            values = [value for value in values if any(is_kind(value, kind) for kind in kinds)]
            kinds = tuple(kind for kind in kinds if any(is_kind(value, kind) for value in values))
            if not values:
                return None
        made: Schema = {"type": kinds[0] if len(kinds) == 1 else list(kinds), **self._told(schema, told)}
        if values is not None:
            is_const = "const" in schema and "const" in (self.dialect.keywords or ())
            made["const" if is_const else "enum"] = values[0] if is_const else values
            return made
        made |= {
            key: value for key, value in schema.items() if key not in _WRITTEN and _speaks_of(key, kinds)
        }
        if "object" in kinds:
            self._object(schema, made, at)
        if "array" in kinds:
            self._array(schema, made, at)
        return made

    def _values(self, schema: Schema, at: Place) -> list[object] | None:
        """The values of `enum` and `const`, if there are any that can be sent."""
        if "const" not in schema and not isinstance(schema.get("enum"), list):
            return None
        values = [schema["const"]] if "const" in schema else elements(schema["enum"])
        if "const" in schema and "enum" in schema:
            values = [
                value for value in values if any(same(value, other) for other in elements(schema["enum"]))
            ]
        plain = [value for value in values if not isinstance(value, dict | list)]
        if len(plain) < len(values):
            self.notes.lose(at.steps, "objects and lists among the values of 'enum' cannot be expressed")
            return plain or None
        return values

    def _kinds(
        self, schema: Schema, whole: Schema, values: list[object] | None, at: Place
    ) -> tuple[str, ...]:
        if kinds := kinds_of(schema):
            return kinds
        if values is not None:
            return (
                tuple(kind for kind in (*_SCALARS,) if any(is_kind(value, kind) for value in values))
                or _SCALARS
            )
        spoken = tuple(dict.fromkeys(KIND_OF[key] for key in whole if key in KIND_OF))
        if not spoken:
            return tuple(cast("list[str]", self.anything(at)["type"]))
        self.notes.change(
            at.steps, f"the type, which is not said, is taken to be {' or '.join(spoken)}", "narrower"
        )
        return spoken

    def _object(self, schema: Schema, made: Schema, at: Place) -> None:
        required = strings(schema.get("required"))
        described = mapping(schema.get("properties"))
        properties: Schema = {}
        for name, inner in described.items():
            place = at.to("properties", name)
            found = self.some(inner, place) if name in required else self.node(inner, place)
            if found is None:
                continue  # what is not named is not allowed: the same as what can never be right
            if name not in required and self.dialect.all_required:
                found = self._always_there(found, place)
            properties[name] = found
        for name in required:
            if name not in described:
                self.notes.lose(at.steps, f"{name!r} is required and not described; it is not sent")
        made["properties"] = properties
        made["required"] = [n for n in properties if self.dialect.all_required or n in required]
        made["additionalProperties"] = False
        self._close(schema, at)

    def _close(self, schema: Schema, at: Place) -> None:
        beyond = schema.get("additionalProperties", True)
        if beyond is False:
            return
        if (beyond is True or beyond == {}) and mapping(schema.get("properties")):
            self.notes.change(
                at.steps, "the object is closed: it has the named properties and no others", "narrower"
            )
        else:
            self.notes.lose(
                at.steps, "properties without a fixed name cannot be expressed; they are left out"
            )

    def _always_there(self, schema: Schema, at: Place) -> Schema:
        """What may be left out, as something that is always there and may be null."""
        if _takes_null(schema):
            self.notes.change(at.steps, "it may be left out, and is always asked for", "narrower")
            return schema
        self.notes.change(at.steps, "it may be left out, and is null instead", "other")
        said = {key: schema[key] for key in ("title", "description") if key in schema}
        rest = {key: value for key, value in schema.items() if key not in said}
        if "anyOf" in rest:
            return {**said, "anyOf": [*elements(rest["anyOf"]), {"type": "null"}]}
        kind = rest.get("type")
        if not isinstance(kind, str) or kind in ("object", "array"):
            return {**said, "anyOf": [rest, {"type": "null"}]}
        if "enum" in rest:
            rest["enum"] = [*elements(rest["enum"]), None]
        return {
            "type": [kind, "null"],
            **said,
            **{key: value for key, value in rest.items() if key != "type"},
        }

    def _array(self, schema: Schema, made: Schema, at: Place) -> None:
        items = schema.get("items", True)
        first = elements(schema.get("prefixItems"))
        if isinstance(items, list):  # as it was written before 2020
            first, items = elements(cast(object, items)), schema.get("additionalItems", True)
        if first:
            self.notes.lose(at.steps, "which item stands where cannot be expressed")
            if items is False and "maxItems" in (self.dialect.keywords or ()):
                made["maxItems"] = min(len(first), cast(int, made.get("maxItems", len(first))))
            distinct = list({identity(item): item for item in first}.values())
            others = [] if items is False or items is True else [items]
            items = distinct[0] if len(distinct) + len(others) == 1 else {"anyOf": [*distinct, *others]}
        found = self.node(items, at.to("items"))
        if found is None and items is False and "maxItems" in (self.dialect.keywords or ()):
            made["maxItems"] = 0
            found = {"type": "null"}
        made["items"] = found or self.instead(at.to("items"))


_CONSTRAINTS = words("not if then else $dynamicRef $recursiveRef")


def _says_nothing(key: str, value: object, kinds: tuple[str, ...], schema: Schema) -> bool:
    """Whether a word holds for every value that can come here."""
    if key in _TOGETHER:
        return _TOGETHER[key] not in schema
    if key == "if":
        return "then" not in schema and "else" not in schema
    if kinds and not _speaks_of(key, kinds):
        return True
    if key in ("uniqueItems", "not"):
        return value is False
    if key in ("unevaluatedProperties", "unevaluatedItems", "propertyNames"):
        return value is True or value == {}
    if key in ("patternProperties", "dependentRequired", "dependentSchemas", "dependencies"):
        return value == {}
    return key in LEAST and key.startswith("min") and key != "minimum" and value == 0


def _speaks_of(key: str, kinds: tuple[str, ...]) -> bool:
    kind = KIND_OF.get(key)
    return kind is None or kind in kinds or (kind == "number" and "integer" in kinds)


def _takes_null(schema: Schema) -> bool:
    if "enum" in schema:
        return None in elements(schema["enum"])
    return "null" in kinds_of(schema) or any(
        _takes_null(mapping(branch)) for branch in elements(schema.get("anyOf"))
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _json(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
