"""What a model is told first: a text, or what a function says at the start of each turn."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Never, Protocol, TypeAlias, cast

from gnomon._begun import within
from gnomon._threads import run_in_thread
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.engine.given import check_text
from gnomon.engine.patience import Patience, is_meant_for_us
from gnomon.errors import ConfigError

__all__ = ["Instructions", "Source", "check_instructions", "instructions_for", "told_by"]

log = logging.getLogger("gnomon.engine")

_SOURCE_S = 15.0
"""How long a source may take to say what it has to say."""


class Source(Protocol):
    """Something that an agent knows besides its instructions: a text for each turn, and tools."""

    def tools(self) -> Sequence[Tool]: ...

    async def instructions(self, context: ToolContext) -> str: ...


Instructions: TypeAlias = (
    str | Callable[[], str | Awaitable[str]] | Callable[[ToolContext[Never]], str | Awaitable[str]]
)
"""A text, or a function of nothing or of the context (session, turn, deps of any type) that gives one."""


def check_instructions(given: object) -> None:
    """What would fail in each turn is refused at once."""
    if isinstance(given, str):
        check_text("the instructions", given)
    elif callable(given):
        _check_parameters(given)
    elif given is not None:
        raise TypeError(f"instructions are a text or a function, not {type(given).__name__}")


def _check_parameters(function: Callable[..., object]) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # of a built-in that does not say
    try:
        signature.bind(*((None,) if _takes_one(function) else ()))
    except TypeError:
        raise TypeError(
            f"instructions are a function of nothing or of the context alone, not of {signature}"
        ) from None


async def told_by(sources: Sequence[Source], context: ToolContext) -> list[str]:
    """What each of them says; one that fails or hangs says nothing, and is named in the log."""
    told: list[str] = []
    for source in sources:
        try:
            text = cast(object, await within(source.instructions(context), _SOURCE_S))
            if not isinstance(text, str):
                raise TypeError(f"it gave {type(text).__name__}, not text")
            check_text("what it says", text)
        except Exception:
            log.exception("%s says nothing to the model in this turn", type(source).__name__)
            continue
        if text:
            told.append(text)
    return told


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
    text = await _awaited(cast("Awaitable[object]", said)) if inspect.isawaitable(said) else said
    if not isinstance(text, str):
        raise ConfigError(f"the instructions are a function that gave {type(text).__name__}, not text")
    check_text("the instructions", text)
    return text


async def _awaited(said: Awaitable[object]) -> object:
    """In a task of its own: what it does to itself, such as a cancellation, is an error like any other."""
    try:
        return await Patience(None).wait_for(_coroutine(said), "instructions")
    except BaseException as error:
        if isinstance(error, Exception) or is_meant_for_us(error):
            raise
        raise RuntimeError(f"the instructions are a function that raised {type(error).__name__}") from error


async def _coroutine(said: Awaitable[object]) -> object:
    return await said


def _takes_one(function: Callable[..., object]) -> bool:
    try:
        return len(inspect.signature(function).parameters) > 0
    except (TypeError, ValueError):
        return True
