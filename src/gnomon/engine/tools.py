"""Run the calls of one message: read-only ones side by side, the others in order.

Every call comes to exactly one result, whatever happens to it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import NamedTuple

import msgspec

from gnomon.contracts.tool import Tool, ToolContext
from gnomon.engine.definition import Toolbox
from gnomon.engine.ids import idempotency_key
from gnomon.errors import ToolDenied, ToolError, ToolTimeout
from gnomon.types.events import ToolFinished, ToolIntent
from gnomon.types.messages import Part, Text, ToolCall, ToolResult, ToolStatus

__all__ = ["PARALLEL", "ToolEvent", "run_calls"]

log = logging.getLogger("gnomon.tools")

PARALLEL = 8
"""How many read-only calls of one message run at a time."""

ToolEvent = ToolIntent | ToolFinished


class _Job(NamedTuple):
    """A call with the tool it asks for, or with the reason why it cannot be run."""

    call: ToolCall
    tool: Tool | None
    refusal: ToolResult | None


async def run_calls(
    calls: Sequence[ToolCall],
    tools: Toolbox,
    turn_id: str,
    session_id: str = "",
    message_id: str = "",
    deps: object = None,
) -> AsyncGenerator[ToolEvent, None]:
    """The intents and results of the calls of one message, in their order."""
    runner = _Runner(tools, turn_id, session_id, message_id, deps)
    for group in _groups([_job(call, tools) for call in calls]):
        tasks = [asyncio.create_task(runner.finish(job)) for job in group] if len(group) > 1 else []
        try:
            for at, job in enumerate(group):
                if (intent := runner.intent(job)) is not None:
                    yield intent
                yield await (tasks[at] if tasks else runner.finish(job))
        finally:
            await _end(tasks)


class _Runner:
    def __init__(self, tools: Toolbox, turn_id: str, session_id: str, message_id: str, deps: object) -> None:
        self._tools = tools
        self._turn_id = turn_id
        self._session_id = session_id
        self._message_id = message_id
        self._deps = deps
        self._places = asyncio.Semaphore(PARALLEL)

    def intent(self, job: _Job) -> ToolIntent | None:
        """What is recorded before a tool with side effects starts."""
        if job.tool is None or job.tool.read_only:
            return None
        return ToolIntent(self._turn_id, job.call.id, job.call.name, self._key(job.call))

    async def finish(self, job: _Job) -> ToolFinished:
        async with self._places:
            started = time.monotonic()
            result = job.refusal or await self._outcome(job)
            return ToolFinished(self._turn_id, result, time.monotonic() - started)

    async def _outcome(self, job: _Job) -> ToolResult:
        """The result of the tool, or one that says what went wrong with it."""
        call = job.call
        try:
            return _checked(call, await self._execute(job))
        except ToolError as error:
            return ToolResult.of(call, encodable(str(error)), status=_status(error))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return _failed(call)  # something of the tool's own was cancelled, not the turn
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException:  # noqa: BLE001 - also `sys.exit`: whatever it was, it is logged
            return _failed(call)

    async def _execute(self, job: _Job) -> ToolResult:
        call, tool = job.call, job.tool
        assert tool is not None
        waited_for = _Flag()
        limit = self._tools.timeout_s(tool)
        timer = asyncio.timeout(limit)
        context = ToolContext(
            call_id=call.id,
            session_id=self._session_id,
            turn_id=self._turn_id,
            idempotency_key=self._key(call),
            deps=self._deps,
            is_cancelled=waited_for.is_down,
            run_timer=lambda running: timer.reschedule(
                asyncio.get_running_loop().time() + limit if running else None
            ),
        )
        try:
            async with timer:
                return await tool.execute(call.arguments, context)
        except TimeoutError:
            if not timer.expired():
                raise  # the tool's own, and so a failure like any other
            raise ToolTimeout(f"{call.name} did not finish within {limit:g} seconds") from None
        finally:
            waited_for.up = False

    def _key(self, call: ToolCall) -> str:
        return idempotency_key(self._session_id, self._turn_id, self._message_id, call.id)


class _Flag:
    """Up while somebody waits for the result. Read from the thread that works on it."""

    up = True

    def is_down(self) -> bool:
        return not self.up


def _job(call: ToolCall, tools: Toolbox) -> _Job:
    if call.truncated:
        text = "not run: the arguments were cut off by the output limit; call again with shorter ones"
        return _Job(call, None, ToolResult.of(call, text, status="truncated"))
    tool = tools.get(call.name)
    if tool is None:
        known = ", ".join(tools.names) or "none"
        text = f"there is no tool called {call.name!r}; the tools are: {known}"
        return _Job(call, None, ToolResult.of(call, text, status="error"))
    return _Job(call, tool, None)


def _groups(jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
    """Maximal runs of consecutive calls without side effects; every other call stands alone."""
    group: list[_Job] = []
    for job in jobs:
        if job.tool is None or job.tool.read_only:
            group.append(job)
            continue
        if group:
            yield group
        yield [job]
        group = []
    if group:
        yield group


def _status(error: ToolError) -> ToolStatus:
    if isinstance(error, ToolDenied):
        return "denied"
    return "timeout" if isinstance(error, ToolTimeout) else "error"


def _failed(call: ToolCall) -> ToolResult:
    """A bug in the tool: the model learns that it failed, the owner learns why."""
    log.exception("tool %r failed", call.name, extra={"call_id": call.id})
    return ToolResult.of(call, f"{call.name} failed: internal error in the tool", status="error")


def _checked(call: ToolCall, result: object) -> ToolResult:
    """A tool's answer, under the id of the call it answers, in text that can be written down."""
    if not isinstance(result, ToolResult):
        raise TypeError(f"tool {call.name!r} returned {type(result).__name__}, not a ToolResult")
    content = tuple(_encodable_part(part) for part in result.content)
    if (result.call_id, result.name, result.content) == (call.id, call.name, content):
        return result
    return msgspec.structs.replace(result, call_id=call.id, name=call.name, content=content)


def _encodable_part(part: Part) -> Part:
    if isinstance(part, Text) and (text := encodable(part.text)) is not part.text:
        return Text(text, part.meta)
    return part


def encodable(text: str) -> str:
    """The text, with the half characters of a name that is not UTF-8 written out."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


async def _end(tasks: Sequence[asyncio.Task[ToolFinished]]) -> None:
    """Nothing outlives the message it was called by, also when the end itself is hurried."""
    hurried: asyncio.CancelledError | None = None
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError as error:
            hurried = error
    if hurried is not None:
        raise hurried
