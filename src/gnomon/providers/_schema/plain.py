"""The schema as it is, but for what no service takes: a top that is no object, references to nothing."""

from __future__ import annotations

from typing import cast

from gnomon.providers._schema.keywords import OF_NAMED_SCHEMAS, OF_ONE_SCHEMA, OF_SCHEMAS
from gnomon.providers._schema.reading import References, Schema, elements, mapping
from gnomon.providers._schema.walk import Place, Walk

__all__ = ["PlainWalk"]

_AT_TOP = ("$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const")
_NAMED = OF_NAMED_SCHEMAS | {"$defs", "definitions"}


class PlainWalk(Walk):
    """Copies. Below the top a schema changes only where a reference leads nowhere."""

    def compiled(self) -> Schema:
        root = self.root
        if self.dialect.root == "object" and (
            root.get("type") != "object" or any(key in root for key in _AT_TOP)
        ):
            definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
            root = {**self._object_at_top(root), **definitions}
        self.references = References(root)
        return mapping(self._copied(root, Place()))

    def anything(self, at: Place) -> Schema:
        return {}

    def stand_in(self, at: Place, kinds: tuple[str, ...] = ()) -> Schema:
        return {}

    def _copied(self, schema: object, at: Place) -> object:
        found = self.as_schema(schema, at)
        return found if isinstance(found, bool) else self.dictionary(found, at)

    def dictionary(self, schema: Schema, at: Place) -> Schema:
        made: Schema = {}
        for key, value in schema.items():
            if key == "$ref" and isinstance(value, str) and self._leads_nowhere(value):
                self.notes.lose(at.steps, f"the reference {value!r} leads nowhere and is not sent")
            else:
                made[key] = self._value(key, value, at.to(key))
        return self.completed(made, at)

    def _leads_nowhere(self, reference: str) -> bool:
        """Of references into this schema; one to elsewhere is the service's to follow or refuse."""
        return (
            reference.startswith(("#/", "#"))
            and reference[1:2] in ("", "/")
            and not self.references.target(reference)
        )

    def _value(self, key: str, value: object, at: Place) -> object:
        if key in OF_SCHEMAS and isinstance(value, list):
            return [
                self._copied(inner, at.to(str(n))) for n, inner in enumerate(elements(cast(object, value)))
            ]
        if key in _NAMED and isinstance(value, dict):
            return {
                name: self._named(inner, at.to(name)) for name, inner in mapping(cast(object, value)).items()
            }
        if key in OF_ONE_SCHEMA:
            return self._copied(value, at)
        return value

    def _named(self, schema: object, at: Place) -> object:
        # In `dependencies` a list of names may stand for a schema.
        return cast(object, schema) if isinstance(schema, list) else self._copied(schema, at)
