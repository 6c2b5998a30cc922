"""`@tool`: a plain function as something a model can call."""

from __future__ import annotations

import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import cached_property, partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeAlias, TypedDict, TypeVar, Unpack, cast, get_args, overload

from gnomon._threads import run_in_thread
from gnomon.contracts.tool import DEFAULT_TIMEOUT_S, OnUnknown, ToolContext, Touches
from gnomon.errors import ConfigError, GnomonError, ToolError
from gnomon.tools._lookup import LookupFunction, ask, bound_to, takes_arguments
from gnomon.tools._results import content_of, result_of
from gnomon.tools._signature import Arguments, describe, read_docstring
from gnomon.tools._steps import Returned, steps_in_thread
from gnomon.types.events import ToolProgress
from gnomon.types.messages import Meta, ToolResult

__all__ = [
    "FunctionTool",
    "LookupFunction",
    "LookupFunctionTool",
    "StreamingFunctionTool",
    "ToolOptions",
    "TouchFunction",
    "TouchingTool",
    "as_tool",
    "tool",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")

TouchFunction: TypeAlias = Callable[[Mapping[str, object]], Touches]
"""What a call with these arguments, by name, would touch."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class PlainOptions(TypedDict, total=False):
    name: str | None
    description: str | None
    read_only: bool
    destructive: bool
    idempotent: bool
    timeout_s: float | None
    max_output_chars: int | None
    on_unknown: OnUnknown


class ToolOptions(PlainOptions, total=False):
    """What `@tool(…)` takes; see there."""

    lookup: LookupFunction | None
    touches: TouchFunction | Touches | None


class FunctionTool(Generic[_P, _R]):
    """A function with what a model must know to call it. Calling it calls the function.

    `as_tool` makes the kind of tool that a function asks for: one that yields is a `StreamingFunctionTool`.
    """

    def __init__(
        self,
        function: Callable[_P, _R],
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        destructive: bool = False,
        idempotent: bool = False,
        timeout_s: float | None = DEFAULT_TIMEOUT_S,
        max_output_chars: int | None = None,
        on_unknown: OnUnknown = "ask",
    ) -> None:
        self.function: Callable[_P, _R] = _function(function)
        self.name: str = name or getattr(self.function, "__name__", "")
        _check(self.name, self.function)
        self._check_kind()
        self.description: str = (
            read_docstring(self.function).description if description is None else description
        )
        self.read_only = read_only
        self.destructive = destructive
        self.idempotent = idempotent
        self.timeout_s = timeout_s
        self.max_output_chars = max_output_chars
        self.on_unknown: OnUnknown = on_unknown
        self._is_async = inspect.iscoroutinefunction(self.function)
        _check_limits(self.name, timeout_s, max_output_chars, on_unknown)
        update_wrapper(self, self.function, updated=())

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.function(*args, **kwargs)

    def __get__(self, thing: object, owner: type | None = None) -> FunctionTool[..., _R]:
        """The tool of one object, when a method was made a tool in its class."""
        if thing is None:
            return self
        bound = cast("Callable[..., _R]", cast(Any, self.function).__get__(thing, owner))
        return as_tool(bound, **self._options(thing))

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def parameters(self) -> Meta:
        """The JSON Schema of the arguments."""
        return self._arguments.schema

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        call = self._call(arguments, context)
        if self._is_async:
            value = await cast("Callable[[], Awaitable[object]]", call)()
        else:
            context.hold_timer()
            value = await run_in_thread(call, name=self.name, on_start=context.start_timer)
            if inspect.isawaitable(value):  # a plain function that hands back a coroutine
                value = cast(object, await value)
        return result_of(self.name, value, context.call_id)

    @cached_property
    def _arguments(self) -> Arguments:
        # Read when first needed: the type hints may name things that are defined later.
        return describe(self.function, self.name)

    def _call(self, arguments: str, context: ToolContext) -> Callable[[], object]:
        args, kwargs = self._arguments.bind(arguments, context)
        return cast("Callable[[], object]", partial(self.function, *args, **kwargs))

    def _options(self, thing: object) -> ToolOptions:
        """What the same tool of an object is made with."""
        return {
            "name": self.name,
            "description": self.description,
            "read_only": self.read_only,
            "destructive": self.destructive,
            "idempotent": self.idempotent,
            "timeout_s": self.timeout_s,
            "max_output_chars": self.max_output_chars,
            "on_unknown": self.on_unknown,
        }

    def _check_kind(self) -> None:
        if _yields(self.function):
            raise ConfigError(
                f"tool {self.name!r}: its function yields, so that it is no {type(self).__name__}",
                hint="make it with tool(…) or as_tool(…)",
            )


class StreamingFunctionTool(FunctionTool[_P, _R]):
    """A generator function, async or not, as a tool that reports while it works.

    What it yields is shown at once. Its result is what it returns; or the last thing it yielded, when it
    returns nothing, as an async generator never does. A `ToolResult` is not shown, and may only be a result.
    """

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        result = ToolResult(context.call_id, self.name)
        async with aclosing(self.execute_stream(arguments, context)) as events:
            async for event in events:
                if isinstance(event, ToolResult):
                    result = event
        return result

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        result: object = None
        async with aclosing(self._steps(self._call(arguments, context), context)) as steps:
            async for value in steps:
                given = value.value if isinstance(value, Returned) else value
                if given is None:
                    continue
                result = given
                if given is value and not isinstance(given, ToolResult):
                    shown = content_of(self.name, given)
                    yield ToolProgress(context.turn_id, context.call_id, shown)
        yield result_of(self.name, result, context.call_id)

    def _steps(self, call: Callable[[], object], context: ToolContext) -> AsyncGenerator[object, None]:
        if _yields(self.function) == "async":
            return cast("AsyncGenerator[object, None]", call())
        context.hold_timer()
        return steps_in_thread(cast(Any, call), name=self.name, on_start=context.start_timer)

    def _check_kind(self) -> None:
        if not _yields(self.function):
            raise ConfigError(f"tool {self.name!r}: its function yields nothing on the way to its result")


class LookupFunctionTool(FunctionTool[_P, _R]):
    """A function with another one that finds out what became of a call of it."""

    def __init__(
        self, function: Callable[_P, _R], *, lookup: LookupFunction, **options: Unpack[PlainOptions]
    ) -> None:
        super().__init__(function, **options)
        self._lookup = lookup
        self._takes_arguments = takes_arguments(lookup, self.name)

    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        given = (key, self._arguments.given(arguments)) if self._takes_arguments else (key,)
        found = await ask(self._lookup, self.name, *given)
        return None if found is None else result_of(self.name, found, "")

    def _options(self, thing: object) -> ToolOptions:
        return {**super()._options(thing), "lookup": bound_to(thing, self._lookup)}


class TouchingTool(FunctionTool[_P, _R]):
    """A function with another one that says what a call would touch; or with what every call touches."""

    def __init__(
        self,
        function: Callable[_P, _R],
        *,
        touches: TouchFunction | Touches,
        **options: Unpack[PlainOptions],
    ) -> None:
        super().__init__(function, **options)
        self._touches = touches
        if not isinstance(touches, Touches) and not callable(touches):
            raise ConfigError(
                f"tool {self.name!r}: touches is a Touches, or a function of the arguments that gives one, "
                f"not {type(cast(object, touches)).__name__}"
            )

    def touches(self, arguments: str) -> Touches:
        if isinstance(self._touches, Touches):
            return self._touches
        try:
            found = self._touches(self._arguments.given(arguments))
        except ToolError as error:
            return Touches(unknown=error.message, is_refused=True)
        except GnomonError as error:
            return Touches(unknown=error.message)
        except Exception as error:  # noqa: BLE001 - a call whose touch is not known is asked about, not broken
            return Touches(unknown=f"it cannot be told what this call would touch: {type(error).__name__}")
        if not isinstance(cast(object, found), Touches):
            return Touches(unknown=f"what {self.name} touches is a Touches, not {type(found).__name__}")
        return found

    def _options(self, thing: object) -> ToolOptions:
        touches = self._touches
        return {
            **super()._options(thing),
            "touches": touches if isinstance(touches, Touches) else bound_to(thing, touches),
        }


class _StreamingLookupTool(LookupFunctionTool[_P, _R], StreamingFunctionTool[_P, _R]):
    """Both at once."""


class _StreamingTouchingTool(TouchingTool[_P, _R], StreamingFunctionTool[_P, _R]):
    """Both at once."""


class _LookupTouchingTool(LookupFunctionTool[_P, _R], TouchingTool[_P, _R]):
    """Both at once."""


class _StreamingLookupTouchingTool(
    LookupFunctionTool[_P, _R], TouchingTool[_P, _R], StreamingFunctionTool[_P, _R]
):
    """All three at once."""


_KINDS: dict[tuple[bool, bool, bool], type[FunctionTool[..., Any]]] = {
    (False, False, False): FunctionTool,
    (True, False, False): StreamingFunctionTool,
    (False, True, False): LookupFunctionTool,
    (True, True, False): _StreamingLookupTool,
    (False, False, True): TouchingTool,
    (True, False, True): _StreamingTouchingTool,
    (False, True, True): _LookupTouchingTool,
    (True, True, True): _StreamingLookupTouchingTool,
}
"""By whether its function yields, whether it can be looked up, and whether it says what it touches."""


def as_tool(function: Callable[_P, _R], **options: Unpack[ToolOptions]) -> FunctionTool[_P, _R]:
    """A function as the kind of tool that it asks for."""
    function = _function(function)
    given: dict[str, Any] = {
        name: value for name, value in options.items() if value is not None or name not in _EXTRAS
    }
    kind = _KINDS[bool(_yields(function)), "lookup" in given, "touches" in given]
    return kind(function, **given)


_EXTRAS = ("lookup", "touches")


@overload
def tool(function: Callable[_P, _R], /, **options: Unpack[ToolOptions]) -> FunctionTool[_P, _R]: ...
@overload
def tool(**options: Unpack[ToolOptions]) -> Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]: ...
def tool(function: Callable[..., object] | None = None, /, **options: Unpack[ToolOptions]) -> object:
    """Make a function a tool: its signature is the schema, its docstring the description.

    `read_only` calls may run side by side and be run again after a crash;
    `idempotent` ones may be run again under the same key; `destructive` ones are
    pointed out to whoever is asked for leave. A call ends after `timeout_s`;
    `None` is the engine's own limit, never none. So it is with `max_output_chars`: of
    a longer result a model sees head and tail.

    When a crash leaves it open whether a call had its effect, `lookup` is asked, a
    function of the call's key (`ToolContext.idempotency_key`), or of the key and a dict of the
    arguments. Without one, `on_unknown` says who is told: "ask" a person, or "tell" the model.

    `touches` says what a call touches, so that rules such as `deny *(@writes="src/**")` are about it: a
    function of a dict of the arguments that gives a `Touches`, or a `Touches` for all calls. Of a tool that
    does not say, it is asked wherever such a rule may be about it.

    A function that yields reports while it works.
    """
    return partial(as_tool, **options) if function is None else as_tool(function, **options)


def _function(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """The function, also of a tool that is made a tool again, with other options."""
    if isinstance(function, FunctionTool):
        return cast("FunctionTool[_P, _R]", function).function
    return function


def _yields(function: object) -> str:
    """How a function yields: "async", "plain", or not at all."""
    for found in (function, getattr(type(function), "__call__", None)):  # noqa: B004 - it may be a generator
        if inspect.isasyncgenfunction(found):
            return "async"
        if inspect.isgeneratorfunction(found):
            return "plain"
    return ""


def _check(name: object, function: object) -> None:
    if isinstance(function, type):
        raise ConfigError(f"a tool is made from a function, not from the class {function.__name__}")
    if not callable(function):
        raise ConfigError(f"a tool is made from a function, not from {type(function).__name__}")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f"tool name {name!r} is not one that every model takes",
            hint="up to 64 letters, digits, _ or -: give one with @tool(name=…)",
        )


def _check_limits(name: str, timeout_s: object, max_output_chars: object, on_unknown: object) -> None:
    if timeout_s is not None and (isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float)):
        raise ConfigError(f"tool {name!r}: timeout_s is a number of seconds, not {timeout_s!r}")
    if timeout_s is not None and not timeout_s > 0:  # so that NaN is refused too
        raise ConfigError(f"tool {name!r}: a limit of {timeout_s} seconds allows nothing")
    if max_output_chars is not None and not (type(max_output_chars) is int and max_output_chars > 0):
        raise ConfigError(
            f"tool {name!r}: max_output_chars is a whole number above 0, not {max_output_chars!r}"
        )
    if on_unknown not in get_args(OnUnknown):
        raise ConfigError(f"tool {name!r}: on_unknown is 'ask' or 'tell', not {on_unknown!r}")
