"""Structured output: a type that the model's answer is read into.

The schema goes to the model, by the service's own output format or as a tool; the
answer comes back as text. Nothing here knows which way it went.
"""

from __future__ import annotations

import re
from typing import cast, get_origin

import msgspec

from gnomon.engine._json_text import Found, NotJSON, find_json, shortened
from gnomon.engine._nulls import without_nulls
from gnomon.engine._partial import PartialJSON
from gnomon.engine._pydantic import Unfit, shown
from gnomon.engine._shapes import KEY, shape_of
from gnomon.errors import ConfigError, InvalidOutput
from gnomon.types.messages import Meta

__all__ = ["OutputType", "PartialJSON", "partial_of"]

_NAMELESS = "output"
_NOBODYS = frozenset({"builtins", "types", "typing", "collections", "collections.abc"})


class OutputType:
    """What an answer must be: a pydantic model, dataclass, TypedDict, msgspec struct or plain type.

    `schema` always describes an object, since the services want one. Of a type that is none
    (`wrapped`) it is `{"result": …}`; `parse` takes that, and the bare value too.
    """

    __slots__ = ("_shape", "description", "kind", "name", "opening", "schema", "wrapped")

    def __init__(self, kind: object) -> None:
        if kind is None:
            raise ConfigError("an output type of None: leave it out when any text will do")
        self._shape = shape_of(kind)
        self.kind = kind
        self.wrapped = self._shape.wrapped
        self.schema: Meta = self._shape.schema
        self.name = _name(kind)
        described = _described(self.schema, self.wrapped)
        self.description = str(described.get("description", ""))
        self.opening = "{[" if self.wrapped and "array" in str(described.get("type", "array")) else "{"
        """The signs with which an answer may begin: a list may come without the object around it."""

    def __repr__(self) -> str:
        return f"<output {shown(self.kind)}>"

    def parse(self, text: str) -> object:
        """The object in an answer. `InvalidOutput` says in a line what is wrong, for the model to repair.

        Prose and fences around the JSON are passed over, as long as exactly one value in it fits.
        """
        try:
            found = find_json(text)
        except NotJSON as error:
            raise InvalidOutput(shortened(str(error))) from error
        fits: list[object] = []
        largest, misfit = -1, None  # which was meant; of the others nothing is kept
        for candidate in found:
            try:
                fits.append(self._read(candidate))
            except Unfit as error:
                if len(candidate.text) > largest:
                    largest, misfit = len(candidate.text), error
        if len(fits) == 1:
            return fits[0]
        if fits:
            raise InvalidOutput(f"{len(fits)} JSON values in the answer fit: answer with exactly one")
        raise InvalidOutput(f"the answer does not fit: {misfit}") from misfit

    def builtins(self, value: object) -> object:
        """Plain JSON data of such an object, without the `result` around it."""
        try:
            return self._shape.plain(value)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidOutput(f"{shown(type(value))} is not JSON: {shortened(str(error))}") from error

    def _read(self, found: Found) -> object:
        text, plain = found
        if self.wrapped and not _is_wrapped(plain):
            text, plain = f'{{"{KEY}":{text}}}', {KEY: plain}
        if "null" in text:
            kept = without_nulls(plain, self.schema)
            if kept != plain:  # otherwise as it was written: a float may have lost digits
                text = msgspec.json.encode(kept).decode()
        return self._shape.read(text)


def partial_of(kind: OutputType, value: object) -> object:
    """Of a partial answer what there is of the output; `None` before it begins."""
    if not isinstance(value, dict):
        return value if kind.wrapped else None
    plain = cast(Meta, value)
    return plain.get(KEY) if kind.wrapped and (KEY in plain or not plain) else plain


def _is_wrapped(plain: object) -> bool:
    return isinstance(plain, dict) and list(cast(Meta, plain)) == [KEY]


def _name(kind: object) -> str:
    """A name that every service takes for a tool or a format."""
    source = get_origin(kind) or kind
    if not isinstance(source, type) or source.__module__ in _NOBODYS:
        return _NAMELESS
    name = re.sub(r"[^A-Za-z0-9_]+", "_", source.__name__).strip("_")[:64]
    return name if name[:1].isalpha() else _NAMELESS


def _described(schema: Meta, wrapped: bool) -> Meta:
    """What the schema says of the output itself."""
    if not wrapped:
        return schema
    properties = cast("dict[str, Meta]", schema["properties"])
    return _resolved(properties[KEY], schema)


def _resolved(schema: Meta, root: Meta) -> Meta:
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    return cast("dict[str, Meta]", root.get("$defs", {})).get(name, schema)
