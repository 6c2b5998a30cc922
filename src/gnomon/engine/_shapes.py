"""Types that JSON is read into: by msgspec, or by pydantic where a type of it is met.

Pydantic is never imported for somebody who does not use it. Each shape has a JSON
Schema, reads JSON into its type, and gives plain data of a value back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import TYPE_CHECKING, Any, Protocol, Union, cast, get_args, get_origin

import msgspec

from gnomon._pydantic import is_model, pydantic_in
from gnomon.engine._json_text import shortened
from gnomon.engine._pydantic import (
    ModelsInside,
    Unfit,
    apart,
    dumped,
    encoded_plain,
    shown,
    validated,
)
from gnomon.errors import ConfigError
from gnomon.types.messages import Meta

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["KEY", "Shape", "shape_of"]

KEY = "result"
"""Where a value stands that is no object, since the services want an object at the top."""


class Shape(Protocol):
    """A type, ready to be read. When it is wrapped, its schema and what it reads are `{"result": …}`."""

    schema: Meta
    wrapped: bool

    def read(self, text: str) -> object: ...
    def plain(self, value: object) -> object: ...


def shape_of(kind: object) -> Shape:
    """How to read a type; `ConfigError` says why it cannot be."""
    borrowed = pydantic_in(kind)
    first: Exception | None = None
    if borrowed:
        try:
            return _wrapped_if_needed(_PydanticShape, kind)
        except Exception as error:  # noqa: BLE001 - it may also be read by msgspec
            first = error
    try:
        _check_models_only(borrowed)
        return _wrapped_if_needed(_MsgspecShape, kind)
    except Exception as error:  # noqa: BLE001 - whatever it is, the type cannot be read
        if get_origin(kind) in (Union, UnionType):
            return _Alternatives(get_args(kind))
        raise _refusal(kind, first or error) from (first or error)


def _check_models_only(borrowed: list[object]) -> None:
    """Of pydantic msgspec can be taught whole models; anything else it would pass over in silence."""
    for thing in borrowed:
        if not is_model(thing):
            raise TypeError(f"{shown(thing)} is pydantic's, and only pydantic knows what it means")


def _refusal(kind: object, why: Exception) -> ConfigError:
    return ConfigError(
        f"output type {shown(kind)}: {shortened(str(why))}",
        hint="use a pydantic model, dataclass, TypedDict, msgspec struct or a plain type such as list[int]",
    )


def _wrapped_if_needed(make: Callable[[object, bool], Shape], kind: object) -> Shape:
    bare = make(kind, False)
    return bare if _is_object(bare.schema) else make(kind, True)


def _is_object(schema: Meta) -> bool:
    return schema.get("type") == "object" and not any(word in schema for word in ("anyOf", "oneOf", "allOf"))


class _MsgspecShape:
    def __init__(self, kind: object, wrapped: bool) -> None:
        self.wrapped = wrapped
        read_as: Any = _struct_around(kind) if wrapped else kind
        hooks = ModelsInside()
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(read_as, dec_hook=hooks.read)
        (root,), definitions = msgspec.json.schema_components(
            [read_as], ref_template="#/$defs/{name}", schema_hook=hooks.schema
        )
        self.schema = _rooted(root, {**definitions, **hooks.definitions})

    def read(self, text: str) -> object:
        try:
            value = cast(object, self._decoder.decode(text))
        except msgspec.DecodeError as error:
            raise Unfit(shortened(str(error))) from error
        _fill_dataclasses(value)
        return cast(object, getattr(value, KEY)) if self.wrapped else value

    def plain(self, value: object) -> object:
        return encoded_plain(value)


def _fill_dataclasses(value: object) -> None:
    """Give each dataclass its defaults: msgspec leaves them to the class, and then does not encode them."""
    ahead = [value]
    seen: set[int] = set()  # a `__post_init__` may have tied a knot
    while ahead:
        item = ahead.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            ahead += cast(Meta, item).values()
        elif isinstance(item, list | tuple | set | frozenset):
            ahead += cast("list[object]", item)
        elif isinstance(item, msgspec.Struct):
            ahead += [getattr(item, name) for name in item.__struct_fields__]
        elif is_dataclass(item) and hasattr(item, "__dict__"):
            named = {field.name: getattr(item, field.name) for field in fields(item)}
            for name, inner in named.items():
                vars(item).pop(name, None)  # so that they stand in the order of the class
                vars(item)[name] = inner
            ahead += named.values()


def _struct_around(kind: object) -> type[msgspec.Struct]:
    return msgspec.defstruct("Output", [(KEY, cast(Any, kind))], forbid_unknown_fields=True)


class _PydanticShape:
    def __init__(self, kind: object, wrapped: bool) -> None:
        from pydantic import ConfigDict, TypeAdapter, create_model

        self.wrapped = wrapped
        self._bare: TypeAdapter[Any] = TypeAdapter(cast(Any, kind))
        self._reader = self._bare
        if wrapped:
            fields = cast(Any, {KEY: (kind, ...)})
            self._reader = TypeAdapter(
                create_model("Output", __config__=ConfigDict(extra="forbid"), **fields)
            )
        schema: Meta = self._reader.json_schema()
        self.schema = _rooted(schema, cast("dict[str, Meta]", schema.pop("$defs", {})))

    def read(self, text: str) -> object:
        value = validated(self._reader, text)
        return cast(object, getattr(value, KEY)) if self.wrapped else value

    def plain(self, value: object) -> object:
        return dumped(self._bare, value)


class _Alternatives:
    """A union that neither of them reads as one, such as that of two dataclasses: each is tried."""

    wrapped = True

    def __init__(self, kinds: tuple[object, ...]) -> None:
        self._members = [(shown(kind), shape_of(kind)) for kind in kinds]
        choices: list[Meta] = []
        definitions: dict[str, Meta] = {}
        for number, (_, member) in enumerate(self._members):
            choice, own = apart(member.schema, f"Choice{number}_")
            choices.append(_properties(choice)[KEY] if member.wrapped else choice)
            definitions |= own
        self.schema: Meta = {
            "type": "object",
            "properties": {KEY: {"anyOf": choices}},
            "required": [KEY],
            "additionalProperties": False,
        }
        if definitions:
            self.schema["$defs"] = definitions

    def read(self, text: str) -> object:
        inner = _result(text)
        fits: list[tuple[int, object]] = []
        misfits: list[str] = []
        for name, member in self._members:
            try:
                value = member.read(text if member.wrapped else inner)
                fits.append((_known_keys(member, inner), value))
            except Unfit as error:
                misfits.append(f"{name}: {error}")
        if not fits:
            raise Unfit(f"it is none of the alternatives: {'; '.join(misfits)}")
        return max(fits, key=lambda fit: fit[0])[1]  # of equals the first

    def plain(self, value: object) -> object:
        return encoded_plain(value)


class _Raw(msgspec.Struct):
    result: msgspec.Raw


def _result(text: str) -> str:
    return bytes(msgspec.json.decode(text, type=_Raw).result).decode()


def _known_keys(member: Shape, text: str) -> int:
    """How much of an object a type takes in: a field that is passed over speaks for another type."""
    plain: object = msgspec.json.decode(text)
    return (
        sum(key in _properties(member.schema) for key in cast(Meta, plain)) if isinstance(plain, dict) else 0
    )


def _properties(schema: Meta) -> dict[str, Meta]:
    return cast("dict[str, Meta]", schema.get("properties", {}))


def _rooted(root: Meta, definitions: dict[str, Meta]) -> Meta:
    """A schema whose root is no reference, with the definitions that are referred to."""
    while "$ref" in root:
        name = str(root["$ref"]).removeprefix("#/$defs/")
        root = {**definitions[name], **{key: root[key] for key in root if key != "$ref"}}
    text = msgspec.json.encode([root, *definitions.values()]).decode()
    used = {name: schema for name, schema in definitions.items() if f'"#/$defs/{name}"' in text}
    return {**root, "$defs": used} if used else dict(root)
