"""`@tool`: a plain function as something a model can call."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property, partial, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from gnomon._threads import run_in_thread
from gnomon.contracts.tool import DEFAULT_TIMEOUT_S, ToolContext
from gnomon.errors import ConfigError, ToolFailed
from gnomon.tools._signature import Arguments, describe, read_docstring
from gnomon.types.messages import Content, Meta, Part, Text, ToolResult, as_parts

__all__ = ["FunctionTool", "tool"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class FunctionTool(Generic[_P, _R]):
    """A function with what a model must know to call it. Calling it calls the function."""

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
    ) -> None:
        if isinstance(function, FunctionTool):  # a tool made from a tool, with other options
            function = cast("Callable[_P, _R]", function.function)
        self.function = function
        self.name: str = name or getattr(function, "__name__", "")
        _check(self.name, function)
        if timeout_s is not None and not timeout_s > 0:  # so that NaN is refused too
            raise ConfigError(f"tool {self.name!r}: a limit of {timeout_s} seconds allows nothing")
        self.description: str = read_docstring(function).description if description is None else description
        self.read_only = read_only
        self.destructive = destructive
        self.idempotent = idempotent
        self.timeout_s = timeout_s
        update_wrapper(self, function, updated=())

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.function(*args, **kwargs)

    def __get__(self, thing: object, owner: type | None = None) -> FunctionTool[..., _R]:
        """The tool of one object, when a method was made a tool in its class."""
        if thing is None:
            return self
        bound = cast("Callable[..., _R]", cast(Any, self.function).__get__(thing, owner))
        return FunctionTool(
            bound,
            name=self.name,
            description=self.description,
            read_only=self.read_only,
            destructive=self.destructive,
            idempotent=self.idempotent,
            timeout_s=self.timeout_s,
        )

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def parameters(self) -> Meta:
        """The JSON Schema of the arguments."""
        return self._arguments.schema

    @cached_property
    def _arguments(self) -> Arguments:
        # Read when first needed: the type hints may name things that are defined later.
        return describe(self.function, self.name)

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        args, kwargs = self._arguments.bind(arguments, context)
        call = cast("Callable[[], object]", partial(self.function, *args, **kwargs))
        if inspect.iscoroutinefunction(self.function):
            value = await cast("Callable[[], Awaitable[object]]", call)()
        else:
            context.hold_timer()
            value = await run_in_thread(call, name=self.name, on_start=context.start_timer)
            if inspect.isawaitable(value):  # a plain function that hands back a coroutine
                value = cast(object, await value)
        return _result(self.name, value, context)


@overload
def tool(function: Callable[_P, _R], /) -> FunctionTool[_P, _R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    timeout_s: float | None = DEFAULT_TIMEOUT_S,
) -> Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]: ...
def tool(function: Callable[..., object] | None = None, /, **options: object) -> object:
    """Make a function a tool: its signature is the schema, its docstring the description.

    `read_only` calls may run side by side and be run again after a crash;
    `idempotent` ones may be run again under the same key; `destructive` ones are
    pointed out to whoever is asked for leave. A call ends after `timeout_s`;
    `None` is the engine's own limit, never none.
    """
    made = partial(FunctionTool[..., object], **cast("dict[str, Any]", options))
    return made if function is None else made(function)


def _check(name: str, function: object) -> None:
    if isinstance(function, type):
        raise ConfigError(f"a tool is made from a function, not from the class {function.__name__}")
    if not callable(function):
        raise ConfigError(f"a tool is made from a function, not from {type(function).__name__}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"tool {name!r}: a tool returns its result, it does not yield it")
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"tool name {name!r} is not one that every model takes",
            hint="up to 64 letters, digits, _ or -: give one with @tool(name=…)",
        )


def _result(name: str, value: object, context: ToolContext) -> ToolResult:
    if isinstance(value, ToolResult):
        return msgspec.structs.replace(value, call_id=context.call_id, name=name)
    return ToolResult(context.call_id, name, _content(name, value))


def _content(name: str, value: object) -> tuple[Part, ...]:
    if value is None:
        return (Text("done"),)
    if isinstance(value, Part | str):
        return as_parts((value,))
    if isinstance(value, list | tuple) and value and _all_parts(cast("Iterable[object]", value)):
        return as_parts(cast("Iterable[Content]", value))
    try:
        return (Text(msgspec.json.encode(value).decode()),)
    except (TypeError, ValueError) as error:
        kind = type(cast(object, value)).__name__
        raise ToolFailed(f"{name} returned {kind}, which cannot be shown to a model") from error


def _all_parts(values: Iterable[object]) -> bool:
    """Whether a list is content rather than data: text alone could be either, and reads as data."""
    items = list(values)
    return all(isinstance(item, Part | str) for item in items) and any(
        isinstance(item, Part) for item in items
    )
