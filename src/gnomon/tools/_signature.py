"""A function's signature as the arguments a model may send.

The parameters become one msgspec struct: it gives the JSON Schema and it checks
and converts what the model sends. What the model leaves out is left out of the
call, so the function's own defaults hold.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any, NamedTuple, Optional, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from gnomon.contracts.tool import ToolContext
from gnomon.errors import ConfigError, InvalidArguments
from gnomon.types.messages import Meta

__all__ = ["Arguments", "describe", "read_docstring"]


class Arguments(NamedTuple):
    """How to tell a model of a function's parameters, and how to call it with what comes back."""

    schema: Meta
    decoder: msgspec.json.Decoder[Any]
    parameters: tuple[inspect.Parameter, ...]
    contexts: frozenset[str]

    def bind(self, text: str, context: ToolContext) -> tuple[list[object], dict[str, object]]:
        """Positional and keyword arguments for the function, checked; or one short, exact error."""
        given = self._checked(text)
        args: list[object] = []
        kwargs: dict[str, object] = {}
        for parameter in self.parameters:
            name = parameter.name
            value: object = context if name in self.contexts else getattr(given, name)
            if parameter.kind is parameter.POSITIONAL_ONLY:
                # Its place must be filled, or those after it would move up.
                args.append(parameter.default if value is msgspec.UNSET else value)
            elif value is not msgspec.UNSET:
                kwargs[name] = value
        return args, kwargs

    def _checked(self, text: str) -> object:
        try:
            return cast(object, self.decoder.decode(text or "{}"))
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"invalid arguments: {error}") from error
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(f"the arguments are not JSON: {error}") from error


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
    return parameters


def describe(function: Callable[..., object], name: str) -> Arguments:
    """Read the signature and docstring of a function as what a model may send."""
    hints = _hints(function, name)
    parameters = _parameters(function, name)
    contexts = frozenset(p.name for p in parameters if _is_context(hints.get(p.name)))
    fields = [_field(p, hints.get(p.name, Any)) for p in parameters if p.name not in contexts]
    schema, decoder = _model(name, fields)
    _explain(schema, parameters, read_docstring(function).parameters)
    return Arguments(schema, decoder, parameters, contexts)


def _origin(function: Callable[..., object]) -> Callable[..., object]:
    """The function itself, under decorators, partials and objects that can be called."""
    while True:
        function = inspect.unwrap(function)
        if isinstance(function, partial):
            function = cast("Callable[..., object]", function.func)
        elif inspect.isroutine(function):
            return function
        else:
            function = type(function).__call__


def _hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    """The type hints of the parameters. That of the result may be known to a type checker only."""
    origin = _origin(function)
    annotations: dict[str, object] = dict(getattr(origin, "__annotations__", {}))
    annotations.pop("return", None)
    holder = type("Hints", (), {"__annotations__": annotations})
    try:
        return get_type_hints(holder, getattr(origin, "__globals__", {}), {}, include_extras=True)
    except (NameError, TypeError, AttributeError, SyntaxError) as error:
        raise ConfigError(f"tool {name!r}: its type hints cannot be read: {error}") from error


def _is_context(hint: object) -> bool:
    """Whether a parameter asks for the context, however it is written; a model must never fill it."""
    return hint is ToolContext or any(_is_context(inner) for inner in get_args(hint))


def _field(parameter: inspect.Parameter, hint: Any) -> tuple[str, Any, Any]:
    kind = Any if hint is object else _with_help(hint)
    if parameter.default is parameter.empty:
        return parameter.name, kind, msgspec.NODEFAULT
    if parameter.default is None:  # `days: int = None` is written often, and means what it says
        kind = Optional[kind]  # noqa: UP045 - the hint is a value here
    return parameter.name, Union[kind, msgspec.UnsetType], msgspec.UNSET  # noqa: UP007


def _with_help(hint: Any) -> Any:
    """`Annotated[str, "its name"]` reads as help, as `msgspec.Meta(description=…)` does."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *extras = get_args(hint)
    for extra in extras:
        if isinstance(extra, str):
            kind = Annotated[kind, msgspec.Meta(description=extra)]
        elif isinstance(extra, msgspec.Meta):
            kind = Annotated[kind, extra]
    return kind


def _model(name: str, fields: list[tuple[str, Any, Any]]) -> tuple[Meta, msgspec.json.Decoder[Any]]:
    try:
        model = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        decoder = msgspec.json.Decoder(model)
        (root,), definitions = msgspec.json.schema_components([model], ref_template="#/$defs/{name}")
    except Exception as error:
        raise ConfigError(
            f"tool {name!r}: its parameters cannot be described to a model: {' '.join(str(error).split())}",
            hint="use plain types, dataclasses, TypedDicts or msgspec structs",
        ) from error
    schema: Meta = dict(definitions.pop(root["$ref"].removeprefix("#/$defs/")))
    schema.pop("title", None)
    schema.setdefault("required", [])
    if definitions:
        schema["$defs"] = definitions
    return schema, decoder


def _explain(schema: Meta, parameters: tuple[inspect.Parameter, ...], help_texts: dict[str, str]) -> None:
    """Put in what only the function knows: help from its docstring, and its defaults."""
    defaults = {parameter.name: cast(object, parameter.default) for parameter in parameters}
    for name, described in cast("dict[str, Meta]", schema.setdefault("properties", {})).items():
        if name in help_texts:
            described.setdefault("description", help_texts[name])
        if defaults[name] is not inspect.Parameter.empty and _is_json(defaults[name]):
            described["default"] = msgspec.to_builtins(defaults[name])


def _is_json(value: object) -> bool:
    """Whether JSON can say this value, and means it when it does: it has no infinity."""
    try:
        return bool(msgspec.json.decode(msgspec.json.encode(value)) == msgspec.to_builtins(value))
    except (TypeError, ValueError):
        return False


class Docstring(NamedTuple):
    description: str
    parameters: dict[str, str]


_HELP_LINE = re.compile(r"^\s*(\w+)\s*(?:\([^)]*\))?\s*:\s+(\S.*)$")
_HEADING = re.compile(r"^\s*(Args|Arguments|Parameters):\s*$")


def read_docstring(function: Callable[..., object]) -> Docstring:
    """What a function says of itself; `name: what it is` lines are help for its parameters."""
    names: set[str] = set()
    with suppress(TypeError, ValueError):  # without a signature there is nothing to help with
        names.update(inspect.signature(function).parameters)
    kept: list[str] = []
    found: dict[str, str] = {}
    current, indent = "", 0
    for line in (inspect.getdoc(_origin(function)) or "").splitlines():
        match = _HELP_LINE.match(line)
        depth = len(line) - len(line.lstrip())
        if match and match[1] in names:
            current, indent = match[1], depth
            found[current] = match[2].strip()
        elif current and line.strip() and depth > indent:
            found[current] += " " + line.strip()
        else:
            current = ""
            kept += [] if _HEADING.match(line) else [line.rstrip()]
    return Docstring("\n".join(kept).strip(), found)
