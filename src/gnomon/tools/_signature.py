"""A function's signature as the arguments a model may send.

The parameters become one msgspec struct: it gives the JSON Schema and it checks
and converts what the model sends; pydantic does the same for what is pydantic's.
What the model leaves out is left out of the call, so the function's own defaults hold.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional, Union, cast

import msgspec

from gnomon.contracts.tool import ToolContext
from gnomon.errors import ConfigError, InvalidArguments
from gnomon.tools._docstring import Docstring, parse_docstring
from gnomon.tools._hints import help_in, is_context, origin_of, type_hints
from gnomon.tools._pydantic import (
    adapter_for,
    checked,
    decode_model,
    describe_model,
    field_of,
    hoist,
    schemas_of,
)
from gnomon.types.messages import Meta

if TYPE_CHECKING:
    from gnomon.tools._pydantic import Adapter

__all__ = ["Arguments", "describe", "read_docstring"]

_LEFT_OUT = msgspec.UNSET


class Arguments(NamedTuple):
    """How to tell a model of a function's parameters, and how to call it with what comes back."""

    schema: Meta
    decoder: msgspec.json.Decoder[Any]
    parameters: tuple[inspect.Parameter, ...]
    contexts: frozenset[str]
    adapters: Mapping[str, Adapter]

    def bind(self, text: str, context: ToolContext) -> tuple[list[object], dict[str, object]]:
        """Positional and keyword arguments for the function, checked; or one short, exact error."""
        given = self.given(text)
        args: list[object] = []
        kwargs: dict[str, object] = {}
        for parameter in self.parameters:
            name = parameter.name
            value: object = context if name in self.contexts else given.get(name, _LEFT_OUT)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                # Its place must be filled, or those after it would move up.
                args.append(parameter.default if value is _LEFT_OUT else value)
            elif value is not _LEFT_OUT:
                kwargs[name] = value
        return args, kwargs

    def given(self, text: str) -> dict[str, object]:
        """What the model sends, by the names of the parameters, as the types they ask for."""
        decoded = self._decoded(text)
        found: dict[str, object] = {}
        for parameter in self.parameters:
            name = parameter.name
            value: object = getattr(decoded, name, _LEFT_OUT)
            if value is _LEFT_OUT:
                if (field := field_of(parameter.default)) is not None and name not in self.contexts:
                    found[name] = cast(object, field.get_default(call_default_factory=True))
            else:
                adapter = self.adapters.get(name)
                found[name] = checked(adapter, name, bytes(cast(Any, value))) if adapter else value
        return found

    def _decoded(self, text: str) -> object:
        try:
            return cast(object, self.decoder.decode(text or "{}"))
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"invalid arguments: {_in_short(error)}") from error
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(f"the arguments are not JSON: {_in_short(error)}") from error


def _in_short(error: Exception) -> str:
    """What is wrong and where: a field that a model has made up may have a name of any length."""
    text = str(error)
    return text if len(text) <= 300 else f"{text[:200]}…{text[-80:]}"


def describe(function: Callable[..., object], name: str) -> Arguments:
    """Read the signature and docstring of a function as what a model may send."""
    hints = type_hints(function, name)
    parameters = _parameters(function, name)
    contexts = frozenset(p.name for p in parameters if is_context(hints.get(p.name)))
    kinds = {p.name: _kind(p, hints.get(p.name, Any)) for p in parameters if p.name not in contexts}
    try:
        adapters = {key: found for key, kind in kinds.items() if (found := adapter_for(kind)) is not None}
        fields = [_field(p, kinds, adapters) for p in parameters if p.name in kinds]
        schema, decoder = _model(fields, adapters)
    except Exception as error:
        raise ConfigError(
            f"tool {name!r}: its parameters cannot be described to a model: {_in_a_line(error)}",
            hint="use plain types, dataclasses, TypedDicts, msgspec structs or pydantic models",
        ) from error
    help_texts = read_docstring(function).parameters
    help_texts |= {key: text for key, hint in kinds.items() if (text := help_in(hint))}
    _explain(schema, parameters, help_texts)
    return Arguments(schema, decoder, parameters, contexts, adapters)


def _parameters(function: Callable[..., object], name: str) -> tuple[inspect.Parameter, ...]:
    """The parameters of a function; `ConfigError` when a model cannot be told of them."""
    try:
        parameters = tuple(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as error:
        raise ConfigError(f"tool {name!r}: it does not say which parameters it has") from error
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(
                f"tool {name!r}: {parameter} cannot be described to a model", hint="name each parameter"
            )
        if parameter.name == "self":
            raise ConfigError(
                f"tool {name!r}: nobody gives it its self",
                hint="make the tool from the method of an object: tool(thing.method)",
            )
    bound = _bound_by_name(function)
    return tuple(parameter for parameter in parameters if parameter.name not in bound)


def _bound_by_name(function: Callable[..., object]) -> Mapping[str, object]:
    """What a partial fixes by name. Python takes it for a default; a model must not see or replace it."""
    inner: object = inspect.unwrap(function)
    return inner.keywords if isinstance(inner, partial) else {}


def _kind(parameter: inspect.Parameter, hint: Any) -> Any:
    """What a parameter takes, with all that its default says of that."""
    if hint is object:
        return Any
    if (field := field_of(parameter.default)) is not None:  # `days: int = Field(1, ge=1)`
        return Annotated[hint, field]
    if parameter.default is None:  # `days: int = None` is written often, and means what it says
        return Optional[hint]  # noqa: UP045 - the hint is a value here
    return hint


def _is_required(parameter: inspect.Parameter) -> bool:
    field = field_of(parameter.default)
    return parameter.default is parameter.empty if field is None else field.is_required()


def _field(
    parameter: inspect.Parameter, kinds: Mapping[str, Any], adapters: Mapping[str, object]
) -> tuple[str, Any, Any]:
    name = parameter.name
    kind = msgspec.Raw if name in adapters else kinds[name]
    if _is_required(parameter):
        return name, kind, msgspec.NODEFAULT
    return name, Union[kind, msgspec.UnsetType], _LEFT_OUT  # noqa: UP007


def _model(
    fields: list[tuple[str, Any, Any]], adapters: Mapping[str, Adapter]
) -> tuple[Meta, msgspec.json.Decoder[Any]]:
    model = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
    decoder = msgspec.json.Decoder(model, dec_hook=decode_model)
    (root,), definitions = msgspec.json.schema_components(
        [model], ref_template="#/$defs/{name}", schema_hook=describe_model
    )
    schema: Meta = dict(definitions.pop(root["$ref"].removeprefix("#/$defs/")))
    schema.pop("title", None)
    schema.setdefault("required", [])
    hoist([schema, list(definitions.values())], definitions)
    if adapters:
        found, shared = schemas_of(adapters, definitions)
        cast("dict[str, Meta]", schema["properties"]).update(found)
        definitions |= shared
    if definitions:
        schema["$defs"] = definitions
    return schema, decoder


def _explain(schema: Meta, parameters: tuple[inspect.Parameter, ...], help_texts: dict[str, str]) -> None:
    """Put in what only the function knows: help for its parameters, and its defaults."""
    defaults = {parameter.name: cast(object, parameter.default) for parameter in parameters}
    for name, described in cast("dict[str, Meta]", schema.setdefault("properties", {})).items():
        if name in help_texts:
            described["description"] = help_texts[name]
        if defaults[name] is not inspect.Parameter.empty and _is_json(defaults[name]):
            described["default"] = msgspec.to_builtins(defaults[name])


def _is_json(value: object) -> bool:
    """Whether JSON can say this value, and means it when it does: it has no infinity."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == msgspec.to_builtins(value))
    except (TypeError, ValueError, RecursionError):
        return False


def _in_a_line(error: Exception) -> str:
    return " ".join(str(error).split())


def read_docstring(function: Callable[..., object]) -> Docstring:
    """What a function says of itself and of its parameters."""
    names: set[str] = set()
    with suppress(TypeError, ValueError):  # without a signature there is nothing to help with
        names.update(inspect.signature(function).parameters)
    return parse_docstring(inspect.getdoc(origin_of(function)) or "", names)
