"""What a model is told first: a text, or what a function says at the start of each turn."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from gnomon._threads import run_in_thread
from gnomon.contracts.tool import ToolContext
from gnomon.errors import ConfigError

__all__ = ["Instructions", "check_instructions", "instructions_for"]

Instructions: TypeAlias = (
    str | Callable[[], str | Awaitable[str]] | Callable[[ToolContext], str | Awaitable[str]]
)
"""A text, or a function of nothing or of the context (session, turn, deps) that gives one."""


def check_instructions(given: object) -> None:
    if given is not None and not isinstance(given, str) and not callable(given):
        raise TypeError(f"instructions are a text or a function, not {type(given).__name__}")


async def instructions_for(told: Instructions | None, context: ToolContext) -> str | None:
    """The text for one turn. A function that is not async runs in a thread: it may read a file."""
    if told is None or isinstance(told, str):
        return told
    function = cast("Callable[..., object]", told)
    given = (context,) if _takes_one(function) else ()
    if inspect.iscoroutinefunction(function):
        said = function(*given)
    else:
        said = await run_in_thread(lambda: function(*given), name="instructions")
    text = await cast("Awaitable[object]", said) if inspect.isawaitable(said) else said
    if not isinstance(text, str):
        raise ConfigError(f"the instructions are a function that gave {type(text).__name__}, not text")
    return text


def _takes_one(function: Callable[..., object]) -> bool:
    try:
        return len(inspect.signature(function).parameters) > 0
    except (TypeError, ValueError):
        return True
