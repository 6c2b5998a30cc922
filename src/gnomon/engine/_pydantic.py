"""Outputs that pydantic describes and checks. Nothing here imports it before one of its types was met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, get_args

import msgspec

from gnomon._pydantic import complaints, is_model
from gnomon.engine._json_text import shortened
from gnomon.types.messages import Meta

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = [
    "ModelsInside",
    "Unfit",
    "apart",
    "dumped",
    "encoded_plain",
    "shown",
    "validated",
]

_ERRORS_TOLD = 5


class Unfit(ValueError):
    """The JSON does not fit the type; where, and how."""


def shown(kind: object) -> str:
    """A type as its author wrote it, or nearly."""
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else shortened(repr(kind))


def validated(adapter: TypeAdapter[Any], text: str | bytes) -> object:
    """The value in the JSON, or `Unfit` with the first few of pydantic's complaints."""
    from pydantic import ValidationError

    try:
        return cast(object, adapter.validate_json(text))
    except ValidationError as error:
        found, more = complaints(error, most=_ERRORS_TOLD)
    told = [shortened(f"{message} - at `${path}`" if path else message) for message, path in found]
    raise Unfit("; ".join(told) + (f"; and {more} more" if more else ""))


def dumped(adapter: TypeAdapter[Any], value: object) -> object:
    return cast(object, msgspec.json.decode(adapter.dump_json(value, by_alias=True)))


def encoded_plain(value: object) -> object:
    """Plain data of anything that msgspec can encode, with models in it."""
    return cast(object, msgspec.json.decode(msgspec.json.encode(value, enc_hook=_plain_model)))


def _plain_model(value: object) -> object:
    kind = cast(object, type(value))
    if not is_model(kind):
        raise TypeError(f"a value of type {shown(kind)} is not JSON")
    return dumped(_adapter(kind), value)


def _adapter(kind: object) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(cast(Any, kind))


class ModelsInside:
    """What msgspec must be told to read a type that has pydantic models in it."""

    def __init__(self) -> None:
        self.definitions: dict[str, Meta] = {}
        self._schemas: dict[type, Meta] = {}
        self._adapters: dict[type, TypeAdapter[Any]] = {}

    def schema(self, kind: type) -> Meta:
        if not is_model(kind):
            raise TypeError(f"{shown(kind)} is no type that JSON can be read into")
        if kind not in self._schemas:
            adapter = self._adapters[kind] = _adapter(kind)
            made, own = apart(adapter.json_schema(), f"{kind.__name__}{len(self._schemas)}_")
            self._schemas[kind] = made
            self.definitions |= own
        return self._schemas[kind]

    def read(self, kind: type, plain: object) -> object:
        return validated(self._adapters[kind], msgspec.json.encode(plain))


def apart(schema: Meta, prefix: str) -> tuple[Meta, dict[str, Meta]]:
    """A schema to be put into another, and its definitions under names that are theirs alone."""
    text = msgspec.json.encode(schema).replace(b'"#/$defs/', b'"#/$defs/' + prefix.encode())
    made: Meta = msgspec.json.decode(text)
    definitions = cast("dict[str, Meta]", made.pop("$defs", {}))
    return made, {prefix + name: definition for name, definition in definitions.items()}
