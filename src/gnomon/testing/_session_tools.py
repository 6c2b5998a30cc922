"""Tools and a model that do what a check tells them to, and remember what they were asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Literal, TypeAlias, cast

from gnomon.contracts.tool import ToolContext
from gnomon.providers.scripted import Script, ScriptedProvider
from gnomon.testing._session_patience import Gate
from gnomon.types.events import (
    Finish,
    Live,
    ProviderEvent,
    SessionEvent,
    ToolProgress,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    UsageUpdate,
)
from gnomon.types.messages import Meta, Text, ToolResult
from gnomon.types.requests import Request

__all__ = ["FollowedProvider", "LookupTool", "ProgressTool", "StageTool", "held_tool", "logging_tool"]

Work: TypeAlias = Callable[[ToolContext], Awaitable[object]]


async def _nothing(context: ToolContext) -> object:
    return "done"


class StageTool:
    """A tool that does the work it is given. What the work returns is the text of the result."""

    destructive = False

    def __init__(
        self,
        name: str,
        work: Work = _nothing,
        *,
        read_only: bool = False,
        idempotent: bool = False,
        timeout_s: float | None = None,
        on_unknown: Literal["ask", "tell"] = "ask",
    ) -> None:
        self.name = name
        self.description = f"The tool {name!r} of the suite."
        self.parameters: Meta = {"type": "object", "properties": {}}
        self.read_only = read_only
        self.idempotent = idempotent
        self.timeout_s = timeout_s
        self.on_unknown = on_unknown
        self.contexts: list[ToolContext] = []
        self._work = work

    @property
    def runs(self) -> int:
        return len(self.contexts)

    @property
    def keys(self) -> list[str]:
        """The idempotency key of each run."""
        return [context.idempotency_key for context in self.contexts]

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        self.contexts.append(context)
        found = await self._work(context)
        if not isinstance(found, str):  # what no tool may return: the check wants to see what comes of it
            return cast(ToolResult, found)
        return ToolResult(context.call_id, self.name, (Text(found),))


class LookupTool(StageTool):
    """One that can say what became of a call: `known` is what it finds out, unless it raises `error`."""

    def __init__(self, name: str, known: str | None = None, error: Exception | None = None) -> None:
        super().__init__(name)
        self.asked: list[str] = []
        self._known = known
        self._error = error

    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        self.asked.append(key)
        if self._error is not None:
            raise self._error
        return None if self._known is None else ToolResult("", self.name, (Text(self._known),))


class ProgressTool(StageTool):
    """One that reports twice, and waits at a gate after each report."""

    def __init__(self, name: str, first: Gate, second: Gate) -> None:
        super().__init__(name, read_only=True)
        self._gates = (first, second)

    async def execute_stream(
        self, arguments: str, context: ToolContext
    ) -> AsyncGenerator[ToolProgress | ToolResult, None]:
        for number, gate in enumerate(self._gates, start=1):
            yield ToolProgress(context.turn_id, context.call_id, (Text(f"{number} of 2"),))
            await gate.wait()
        yield await self.execute(arguments, context)


def held_tool(name: str, gate: Gate, *, read_only: bool = False, said: str = "held and let go") -> StageTool:
    """One that waits at the gate, so that a turn can be held in the middle of a call."""

    async def wait(context: ToolContext) -> str:
        await gate.wait()
        return said

    return StageTool(name, wait, read_only=read_only)


def logging_tool(name: str, log: list[str], pause: Work = _nothing, *, read_only: bool = False) -> StageTool:
    """One that writes down when it starts and when it ends."""

    async def work(context: ToolContext) -> str:
        log.append(f"{context.call_id} starts")
        await pause(context)
        log.append(f"{context.call_id} ends")
        return f"the result of {context.call_id}"

    return StageTool(name, work, read_only=read_only)


class FollowedProvider(ScriptedProvider):
    """A model that says the next thing only when somebody has seen the last one."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self._seen = asyncio.Semaphore(0)

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        async with aclosing(super().events(request)) as events:
            async for event in events:
                yield event
                if not isinstance(event, UsageUpdate | Finish):  # these need not be shown
                    await self._seen.acquire()

    def follow(self, event: SessionEvent) -> bool:
        """Tell it what was seen; whether that was the end."""
        if isinstance(event, Live) and not isinstance(event.event, UsageUpdate):
            self._seen.release()
        return isinstance(event, TurnFinished | TurnFailed | TurnCancelled)
