"""The type hints of a function: what they are, which of them ask for the context, and the help in them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import partial
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from gnomon.contracts.tool import ToolContext
from gnomon.errors import ConfigError

__all__ = ["help_in", "is_context", "origin_of", "type_hints"]

_UNREADABLE = (NameError, TypeError, AttributeError, SyntaxError)
_SUBSCRIPTED = re.compile(r"\s*([\w.]+)\s*\[")


def origin_of(function: Callable[..., object]) -> Callable[..., object]:
    """The function itself, under decorators, partials and objects that can be called."""
    while True:
        function = inspect.unwrap(function)
        if isinstance(function, partial):
            function = cast("Callable[..., object]", function.func)
        elif inspect.isroutine(function):
            return function
        else:
            function = type(function).__call__


def type_hints(function: Callable[..., object], name: str) -> dict[str, Any]:
    """The type hints of the parameters. That of the result may be known to a type checker only."""
    origin = origin_of(function)
    annotations: dict[str, object] = dict(getattr(origin, "__annotations__", {}))
    annotations.pop("return", None)
    known: dict[str, Any] = getattr(origin, "__globals__", {})
    return {key: _hint(hint, known, name) for key, hint in annotations.items()}


def _hint(hint: object, known: dict[str, Any], name: str) -> Any:
    try:
        return _evaluated(hint, known)
    except _UNREADABLE as error:
        if isinstance(hint, str) and _is_context_of_something(hint, known):
            return ToolContext
        raise ConfigError(
            f"tool {name!r}: its type hints cannot be read: {error}",
            hint="import or define what they name in the tool's module, and not for type checkers alone",
        ) from error


def _evaluated(hint: object, known: dict[str, Any]) -> Any:
    holder = type("Hints", (), {"__annotations__": {"hint": hint}})
    return get_type_hints(holder, known, {}, include_extras=True)["hint"]


def _is_context_of_something(hint: str, known: dict[str, Any]) -> bool:
    """`Context[Deps]`, where `Deps` is imported for type checkers only: nobody needs to know it here."""
    found = _SUBSCRIPTED.match(hint)
    try:
        return found is not None and _evaluated(found[1], known) is ToolContext
    except _UNREADABLE:
        return False


def is_context(hint: object) -> bool:
    """Whether a parameter asks for the context, however it is written; a model must never fill it."""
    if hint is ToolContext or get_origin(hint) is ToolContext:
        return True
    alias: object = getattr(hint, "__value__", None)  # `type Ctx = Context[Deps]`
    return any(is_context(inner) for inner in (*get_args(hint), *([] if alias is None else [alias])))


def help_in(hint: object) -> str | None:
    """The help in `Annotated[str, "its name"]`, `msgspec.Meta(description=…)` or pydantic's `Field`."""
    if get_origin(hint) is Annotated:
        _, *extras = get_args(hint)
        said = [extra if isinstance(extra, str) else getattr(extra, "description", None) for extra in extras]
        # The last: of an alias that has help of its own, and is annotated again, it is the nearer one.
        return next((text for text in reversed(said) if isinstance(text, str)), None)
    if get_origin(hint) in (Union, UnionType):
        return next((text for text in map(help_in, get_args(hint)) if text), None)
    return None
