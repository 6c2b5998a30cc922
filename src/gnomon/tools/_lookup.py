"""The function that finds out what became of a call, as its owner may write it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar, cast

from gnomon._threads import run_in_thread
from gnomon.errors import ConfigError

__all__ = ["LookupFunction", "ask", "bound_to", "takes_arguments"]

_F = TypeVar("_F", bound=Callable[..., object])

LookupFunction: TypeAlias = Callable[[str, dict[str, object]], object] | Callable[[str], object]
"""Takes the key of a call, and its arguments by name where it wants them; plain or async.

It gives the result that the call came to, or `None` when the call had no effect and never will have.
"""


def takes_arguments(lookup: LookupFunction, name: str) -> bool:
    """Whether the function wants the arguments of the call beside its key."""
    if not callable(cast(object, lookup)):
        raise ConfigError(f"tool {name!r}: its lookup is a function, not {type(lookup).__name__}")
    try:
        signature = inspect.signature(lookup)
    except (TypeError, ValueError):
        return False
    given = ("self", "key") if _takes_self(lookup) else ("key",)
    if _fits(signature, *given, "arguments"):
        return True
    if not _fits(signature, *given):
        raise ConfigError(f"tool {name!r}: its lookup takes a key, or a key and arguments, not {signature}")
    return False


def _fits(signature: inspect.Signature, *given: str) -> bool:
    try:
        signature.bind(*given)
    except TypeError:
        return False
    return True


def bound_to(thing: object, function: _F) -> _F:
    """A function beside a tool that was written as a method, of one object."""
    return cast("_F", partial(function, thing)) if _takes_self(function) else function


def _takes_self(function: Callable[..., object]) -> bool:
    try:
        return next(iter(inspect.signature(function).parameters), "") == "self"
    except (TypeError, ValueError):
        return False


async def ask(lookup: LookupFunction, name: str, *given: object) -> object:
    """What the function finds out; one that is not async runs beside the loop."""
    call = partial(cast("Callable[..., object]", lookup), *given)
    value = call() if inspect.iscoroutinefunction(lookup) else await run_in_thread(call, name=name)
    return cast(object, await value) if inspect.isawaitable(value) else value
