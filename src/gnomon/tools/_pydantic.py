"""Parameters that pydantic describes and checks. It is the user's: looked for here, never brought in.

A parameter whose type mentions pydantic anywhere is pydantic's as a whole: its schema, its check, its
errors. A type that pydantic does not take, such as a msgspec struct with a model in it, stays with msgspec,
which asks the hooks below for the models.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from gnomon._pydantic import complaints, pydantic_in
from gnomon.errors import InvalidArguments
from gnomon.types.messages import Meta

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError
    from pydantic.fields import FieldInfo
    from pydantic.json_schema import GenerateJsonSchema

    Adapter: TypeAlias = TypeAdapter[object]

__all__ = ["adapter_for", "checked", "decode_model", "describe_model", "field_of", "hoist", "schemas_of"]

_REFERENCE = "#/$defs/{model}"
_SHOWN_ERRORS = 3
_SHOWN_CHARACTERS = 200


def field_of(default: object) -> FieldInfo | None:
    """The `Field(…)` that stands where a parameter's default would."""
    if "pydantic" not in sys.modules:
        return None
    from pydantic.fields import FieldInfo

    return default if isinstance(default, FieldInfo) else None


def adapter_for(hint: Any) -> Adapter | None:
    """What pydantic makes of a type, when the type is a matter of pydantic's."""
    if not (found := pydantic_in(hint)):
        return None
    from pydantic import BaseModel, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(hint)
    except PydanticUserError:
        # A type it does not take. msgspec asks back for the models in it, but sees nothing of a `Field`.
        if all(isinstance(thing, type) and issubclass(thing, BaseModel) for thing in found):
            return None
        raise


# --- the schema -------------------------------------------------------------


def schemas_of(adapters: Mapping[str, Adapter], taken: Collection[str]) -> tuple[dict[str, Meta], Meta]:
    """The schema of each parameter, and the definitions they share, under names that are not taken."""
    from pydantic import TypeAdapter

    inputs = [(name, "validation", adapter) for name, adapter in adapters.items()]
    suffix = ""
    while True:
        made, shared = TypeAdapter.json_schemas(
            cast(Any, inputs), ref_template=_REFERENCE + suffix, schema_generator=_generator()
        )
        definitions = {name + suffix: body for name, body in shared.get("$defs", {}).items()}
        if not definitions.keys() & set(taken):
            return {key[0]: dict(schema) for key, schema in made.items()}, definitions
        suffix += "_"


def _generator() -> type[GenerateJsonSchema]:
    from pydantic.json_schema import GenerateJsonSchema

    class Untitled(GenerateJsonSchema):
        """Without a title for each field: it says again what the field is called."""

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Untitled


# --- the check --------------------------------------------------------------


def checked(adapter: Adapter, name: str, text: bytes) -> object:
    """The value of a parameter, or one short error that names the field."""
    from pydantic import ValidationError

    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise InvalidArguments(f"invalid arguments: {_said(error, name)}") from error


def _said(error: ValidationError, *root: str) -> str:
    found, more = complaints(error, *root, most=_SHOWN_ERRORS)
    lines = [f"{_short(message)} - at `${_short(path)}`" for message, path in found]
    return "; ".join(lines) + (f"; and {more} more" if more > 0 else "")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


# --- models inside the types of others --------------------------------------


def decode_model(kind: type, value: object) -> object:
    """msgspec's hook for a type it does not know."""
    model = _model(kind)
    from pydantic import ValidationError

    try:
        return model.model_validate_json(msgspec.json.encode(value))
    except ValidationError as error:
        raise ValueError(_said(error)) from error


def describe_model(kind: type) -> Meta:
    """msgspec's hook for the schema of such a type. What it refers to comes along: see `hoist`."""
    model = _model(kind)
    return dict(model.model_json_schema(ref_template=_REFERENCE, schema_generator=_generator()))


def hoist(schema: object, definitions: Meta) -> None:
    """Move the definitions that came along with a model to where all of them are."""
    if isinstance(schema, dict):
        described = cast("Meta", schema)
        for name, body in cast("Meta", described.pop("$defs", {})).items():
            if definitions.setdefault(name, body) != body:
                raise TypeError(f"two types are called {name}")
        schema = list(described.values())
    if isinstance(schema, list):
        for inner in cast("list[object]", schema):
            hoist(inner, definitions)


def _model(kind: type) -> type[BaseModel]:
    if not hasattr(kind, "__pydantic_validator__"):
        raise TypeError(f"type {kind.__name__!r} is not one that JSON can say")
    return kind
