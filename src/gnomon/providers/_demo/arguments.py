"""How the demo model fills in a JSON Schema: from what the prompt says, else with something that fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from gnomon.providers._demo import values as fitting
from gnomon.providers._demo.prompt import Asked, words
from gnomon.providers._demo.schema import SchemaReader, kind_of, mapping, purpose, sequence, tags, weight
from gnomon.types.messages import Meta, ToolDef

__all__ = ["Filler", "arguments_for", "computes", "listed_values"]

_DEEP = 3
_TOO_DEEP = 24
_MOST = 200
_LONGEST = 200


def arguments_for(tool: ToolDef, asked: Asked, value: str | None = None) -> Meta:
    """Arguments that fit the tool's schema; `value` is the one this call is about."""
    filled = Filler(tool.schema, asked, about=_about(tool), value=value).whole()
    return cast(Meta, filled) if isinstance(filled, dict) else {}


def listed_values(tool: ToolDef, asked: Asked) -> list[str]:
    """The several values that the prompt lists for the only string the tool takes."""
    schema = SchemaReader(tool.schema)
    strings = [(name, part) for name, part in schema.properties() if part.get("type") == "string"]
    required = schema.required()
    if len(strings) != 1 or set(required) - {strings[0][0]}:
        return []
    wanted = purpose(*strings[0])
    if wanted in ("task", "text") or (wanted == "" and not required):
        return []
    found = Filler(tool.schema, asked, about=_about(tool)).found(wanted)
    return found if len(found) > 1 else []


def computes(tool: ToolDef) -> bool:
    """Whether the tool wants an arithmetic expression."""
    properties = SchemaReader(tool.schema).properties()
    return any(purpose(name, schema) == "expression" for name, schema in properties)


def _about(tool: ToolDef) -> list[str]:
    return words(f"{tool.name} {tool.description}")


class Filler:
    """One filling-in of one schema. A value of the prompt is used once, then the next one."""

    def __init__(
        self,
        schema: Meta,
        asked: Asked,
        *,
        about: Iterable[str] = (),
        value: str | None = None,
        spare: str | None = None,
    ) -> None:
        self._schema = SchemaReader(schema)
        self._asked = asked
        self._about = frozenset(about)
        self._value = value
        self._spare = spare
        self._used: set[str] = set()
        self._numbers = list(asked.numbers)
        self._left = _MOST

    def whole(self) -> object:
        return self._fill(self._schema.root, "", 0)

    def found(self, wanted: str) -> list[str]:
        """What the prompt has for a purpose; what the tool itself is called is left out."""
        if wanted in Asked.FINDABLE:
            return self._asked.found(wanted)
        return [value for value in self._asked.values if not self._names_the_tool(value)]

    # One small function a kind of schema.

    def _fill(self, schema: Meta, name: str, depth: int) -> object:
        schema = self._schema.resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._one_of(schema)
        self._left -= 1
        if depth > _TOO_DEEP or self._left < 0:
            return None
        if branches := self._schema.branches(schema):
            return self._fill(self._best(branches, name, depth), name, depth + 1)
        fill = {
            "object": self._object,
            "array": self._array,
            "integer": self._number,
            "number": self._number,
            "boolean": self._boolean,
            "null": _nothing,
        }.get(kind_of(schema), self._string)
        return fill(schema, name, depth)

    def _one_of(self, schema: Meta) -> object:
        choices = sequence(schema["enum"])
        said = [*self._mentioned(schema), *(c for c in choices if c in self._asked.numbers)]
        return said[0] if said else schema.get("default", choices[0] if choices else None)

    def _mentioned(self, schema: Meta) -> list[str]:
        choices = (choice for choice in sequence(schema.get("enum")) if isinstance(choice, str))
        return [choice for choice in choices if choice and self._asked.mentions(choice)]

    def _object(self, schema: Meta, name: str, depth: int) -> object:
        properties = mapping(schema.get("properties"))
        required = [str(key) for key in sequence(schema.get("required"))]
        filled: Meta = {}
        for key in (*properties, *(key for key in required if key not in properties)):
            inner = mapping(properties.get(key))
            if key in required or (depth < _DEEP and self._says(inner, key)):
                filled[key] = self._fill(inner, key, depth + 1)
        self._add_entries(filled, schema, depth)
        return filled

    def _add_entries(self, filled: Meta, schema: Meta, depth: int) -> None:
        """Entries of a free mapping, as many as it must have; a digit is a key of any type."""
        names = mapping(schema.get("propertyNames"))
        least = min(fitting.limit(schema, "minProperties"), _MOST)
        for number in range(1, least - len(filled) + 1):
            key = fitting.text({**names, "type": "string"}, [str(number)])
            filled[key] = self._fill(mapping(schema.get("additionalProperties")), key, depth + 1)

    def _array(self, schema: Meta, name: str, depth: int) -> object:
        least = min(fitting.limit(schema, "minItems"), _MOST)
        first = [mapping(item) for item in sequence(schema.get("prefixItems"))]
        filled = [self._fill(item, name, depth + 1) for item in first[:least]]
        if first:
            return filled
        item = self._schema.resolved(mapping(schema.get("items")))
        filled = self._listed(item, schema) if depth <= _DEEP else []
        if not filled and depth <= 1 and fitting.limit(schema, "maxItems", 1):
            least = max(least, 1)
        while len(filled) < least:
            value = self._fill(item, name, depth + 1)
            filled.append(fitting.another(value, filled, item) if schema.get("uniqueItems") else value)
        return filled

    def _listed(self, item: Meta, schema: Meta) -> list[object]:
        """All that the prompt lists and the item's schema takes."""
        found: Sequence[object] = ()
        if "enum" in item:
            found = self._mentioned(item)
        elif kind_of(item) in ("integer", "number"):
            found = [number for number in self._asked.numbers if fitting.takes(item, number)]
        elif kind_of(item) == "string" and not self._schema.branches(item):
            found = [value for value in self._values("", item) if fitting.takes_text(item, value)]
        distinct: list[object] = [*dict.fromkeys(found)]
        return distinct[: fitting.limit(schema, "maxItems", _MOST)]

    def _number(self, schema: Meta, name: str, depth: int) -> object:
        counted = self._asked.count_of(name)
        for number in (counted, *self._numbers):
            if number is not None and fitting.takes(schema, number):
                if number in self._numbers:
                    self._numbers.remove(number)
                return number
        return schema.get("default", fitting.number(schema))

    def _boolean(self, schema: Meta, name: str, depth: int) -> object:
        if self._asked.mentions(name):
            spoken = re.escape(name.replace("_", " "))
            return not re.search(
                rf"\b(?:no|not|without|{spoken}\s*[=:]\s*(?:no|false|off))\b", self._asked.text
            )
        return schema.get("default", False)

    def _string(self, schema: Meta, name: str, depth: int) -> object:
        candidates = list(self._candidates(schema, name))
        if "default" in schema:
            return schema["default"] if not candidates else fitting.text(schema, candidates)
        tried = (*candidates, *self._last_resorts(schema, name))
        value = fitting.text(schema, [text for text in tried if text])
        self._used.add(value)
        return value

    def _candidates(self, schema: Meta, name: str) -> Iterator[str]:
        if self._value is not None:
            yield self._value
        if given := self._asked.beside(name):
            yield given
        yield from (value for value in self._values(name, schema) if value not in self._used)

    def _values(self, name: str, schema: Meta) -> list[str]:
        kind = purpose(name, schema)
        if kind in ("from", "to"):
            stated = self._asked.after(kind)
            return [stated] if stated else self.found("")
        if kind == "task" and self._asked.handed_on:
            return [self._asked.handed_on]
        if kind in ("task", "text"):
            return [self._spare or self._asked.topic]
        return (self.found(kind) or self._asked.quoted) if kind else self.found("")

    def _last_resorts(self, schema: Meta, name: str) -> Iterator[str]:
        examples = sequence(schema.get("examples"))
        yield from (example for example in examples if isinstance(example, str))
        if self._spare:
            yield self._spare
        if purpose(name, schema) == "date" and "format" not in schema:
            yield "2000-01-01T00:00:00Z"
        telling = [word for stem, word in self._asked.words.items() if stem not in self._about]
        yield from (" ".join(telling)[:_LONGEST], self._asked.text.strip()[:_LONGEST])
        yield from re.findall(r"\w+", self._asked.text)

    # Which of several, and whether at all.

    def _best(self, branches: list[Meta], name: str, depth: int) -> Meta:
        """The branch the prompt speaks of; in the depths, the one that goes no deeper."""
        if depth > _DEEP:
            return min(branches, key=weight)
        for branch in branches:
            names = [tag for part in mapping(branch.get("properties")).values() for tag in tags(part)]
            if any(self._asked.mentions(name) for name in (*names, str(branch.get("title", "")))):
                return branch
        return next((branch for branch in branches if self._says(branch, name)), branches[0])

    def _says(self, schema: Meta, name: str, depth: int = 0) -> bool:
        """Whether the prompt clearly gives a value for this."""
        schema = self._schema.resolved(schema)
        if branches := self._schema.branches(schema):
            return depth < _DEEP and any(self._says(branch, name, depth + 1) for branch in branches)
        if "enum" in schema:
            return bool(self._mentioned(schema))
        kind = kind_of(schema)
        if kind in ("integer", "number"):
            counted = self._asked.count_of(name)
            return counted is not None and fitting.takes(schema, counted)
        if kind == "boolean":
            return self._asked.mentions(name)
        return kind == "string" and self._says_text(schema, name)

    def _says_text(self, schema: Meta, name: str) -> bool:
        wanted = purpose(name, schema)
        return bool(self._asked.beside(name) or (wanted in Asked.FINDABLE and self.found(wanted)))

    def _names_the_tool(self, value: str) -> bool:
        return set(words(value)) <= self._about and bool(words(value))


def _nothing(schema: Meta, name: str, depth: int) -> object:
    return None
