"""A function's signature as the arguments a model may send.

The parameters become one msgspec struct: it gives the JSON Schema and it checks
and converts what the model sends. What the model leaves out is left out of the
call, so the function's own defaults hold.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
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
    fields: tuple[str, ...]
    positional_only: frozenset[str]
    context: str | None

    def bind(self, text: str, context: ToolContext) -> tuple[list[object], dict[str, object]]:
        """Positional and keyword arguments for the function, checked; or one short, exact error."""
        given = self._checked(text)
        args: list[object] = []
        kwargs: dict[str, object] = {}
        for field in self.fields:
            value: object = context if field == self.context else getattr(given, field)
            if value is msgspec.UNSET:
                continue
            if field in self.positional_only:
                args.append(value)
            else:
                kwargs[field] = value
        return args, kwargs

    def _checked(self, text: str) -> object:
        try:
            return cast(object, self.decoder.decode(text or "{}"))
        except msgspec.ValidationError as error:
            raise InvalidArguments(f"invalid arguments: {error}") from error
        except (msgspec.DecodeError, UnicodeError) as error:
            raise InvalidArguments(f"the arguments are not JSON: {error}") from error


def describe(function: Callable[..., object], name: str) -> Arguments:
    """Read the signature and docstring of a function; `ConfigError` when a model cannot be told of it."""
    hints = _hints(function, name)
    parameters = inspect.signature(function).parameters
    fields: list[tuple[str, Any, Any]] = []
    context: str | None = None
    for parameter in parameters.values():
        _expect_plain(parameter, name)
        hint = hints.get(parameter.name, Any)
        if _is_context(hint):
            context = parameter.name
        else:
            fields.append(_field(parameter, hint))
    schema, decoder = _model(name, fields, parameters, read_docstring(function).parameters)
    positional = frozenset(p.name for p in parameters.values() if p.kind is p.POSITIONAL_ONLY)
    return Arguments(schema, decoder, tuple(parameters), positional, context)


def _hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as error:
        raise ConfigError(f"tool {name!r}: its type hints cannot be read: {error}") from error


def _expect_plain(parameter: inspect.Parameter, name: str) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ConfigError(
            f"tool {name!r}: {parameter} cannot be described to a model", hint="name each parameter"
        )


def _is_context(hint: object) -> bool:
    return hint is ToolContext or get_origin(hint) is ToolContext


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


def _model(
    name: str,
    fields: list[tuple[str, Any, Any]],
    parameters: Any,
    help_texts: dict[str, str],
) -> tuple[Meta, msgspec.json.Decoder[Any]]:
    try:
        model = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        decoder = msgspec.json.Decoder(model)
        _, definitions = msgspec.json.schema_components([model], ref_template="#/$defs/{name}")
    except Exception as error:
        raise ConfigError(
            f"tool {name!r}: its parameters cannot be described to a model: {' '.join(str(error).split())}",
            hint="use plain types, dataclasses, TypedDicts or msgspec structs",
        ) from error
    schema: Meta = dict(definitions.pop("Arguments"))
    schema.pop("title", None)
    _explain(cast("dict[str, Meta]", schema.setdefault("properties", {})), parameters, help_texts)
    schema.setdefault("required", [])
    if definitions:
        schema["$defs"] = definitions
    return schema, decoder


def _explain(properties: dict[str, Meta], parameters: Any, help_texts: dict[str, str]) -> None:
    """Put in what only the function knows: help from its docstring, and its defaults."""
    for name, described in properties.items():
        if name in help_texts:
            described.setdefault("description", help_texts[name])
        default = parameters[name].default
        if default is not inspect.Parameter.empty and _is_json(default):
            described["default"] = msgspec.to_builtins(default)


def _is_json(value: object) -> bool:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError):
        return False
    return True


class Docstring(NamedTuple):
    description: str
    parameters: dict[str, str]


_HELP_LINE = re.compile(r"^\s*(\w+)\s*(?:\([^)]*\))?\s*:\s+(\S.*)$")
_HEADING = re.compile(r"^\s*(Args|Arguments|Parameters):\s*$")


def read_docstring(function: Callable[..., object]) -> Docstring:
    """What a function says of itself; `name: what it is` lines are help for its parameters."""
    names = getattr(getattr(function, "__code__", None), "co_varnames", ())
    kept: list[str] = []
    found: dict[str, str] = {}
    current, indent = "", 0
    for line in (inspect.getdoc(function) or "").splitlines():
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
