"""Before and after each step, and around it: where an agent's hooks get to see it.

An agent has one hook, or none: several are one chain by the time they come here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from types import TracebackType
from typing import cast

import msgspec

from gnomon.contracts.hook import Hook, Step, SupportsAround
from gnomon.contracts.provider import Provider
from gnomon.engine.clock import Clock
from gnomon.engine.interrupt import Interrupt
from gnomon.errors import GnomonError, HookFailed
from gnomon.stream import PullStream
from gnomon.types.codec import error_event
from gnomon.types.events import (
    Error,
    LedgerEntry,
    QuestionAsked,
    RunEvent,
    ToolFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import ToolCall, ToolResult
from gnomon.types.requests import Request, Response
from gnomon.types.steps import HookEvent

__all__ = ["ModelStep", "Watched", "model_event", "tool_step"]


class Watched:
    """One runner's session and its turns, as a hook sees them begin and end."""

    def __init__(self, hook: Hook, name: str, session_id: str, clock: Clock) -> None:
        self._hook = hook
        self._name = name
        self._session_id = session_id
        self._clock = clock
        self._session: HookEvent | None = None
        self._turn: HookEvent | None = None

    async def session_begins(self, open_turn_id: str | None) -> None:
        """A runner has the session; a turn that another began goes on with it."""
        if self._session is None:
            self._session = HookEvent(
                kind="session", name=self._name, session_id=self._session_id, started_at=self._clock.now()
            )
            await self._hook.before(self._session)
        if open_turn_id is not None and self._turn is None:
            await self._turn_begins(open_turn_id, attempt=2)

    async def see(self, written: Sequence[LedgerEntry]) -> None:
        """What was just written: turns that began, and turns that ended."""
        for entry in written:
            kind = entry.__class__
            if kind is TurnStarted:
                await self._turn_begins(cast(TurnStarted, entry).turn_id)
            elif kind is TurnFinished or kind is TurnCancelled:
                await self._turn_ends(None)
            elif kind is TurnFailed:
                await self._turn_ends(cast(TurnFailed, entry).error)

    async def session_ends(self) -> None:
        """The runner lets go of it, and of a turn that is still open."""
        await self._turn_ends(None)
        session, self._session = self._session, None
        if session is not None:
            await self._hook.after(_ended(session, self._clock))

    async def _turn_begins(self, turn_id: str, attempt: int = 1) -> None:
        self._turn = HookEvent(
            kind="turn",
            name=self._name,
            session_id=self._session_id,
            turn_id=turn_id,
            attempt=attempt,
            started_at=self._clock.now(),
        )
        await self._hook.before(self._turn)

    async def _turn_ends(self, error: Error | None) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            await self._hook.after(_ended(turn, self._clock, error=error))


class ModelStep:
    """One question to the model: a context that gives the events of the answer.

    Where no hook takes the answer into its hands, the events are the provider's own stream.
    """

    response: Response | None = None

    def __init__(
        self, hook: Hook, provider: Provider, event: HookEvent, clock: Clock, interrupt: Interrupt
    ) -> None:
        self._hook = hook
        self._provider = provider
        self._event = event
        self._clock = clock
        self._interrupt = interrupt
        self._answer: PullStream[RunEvent] | None = None

    async def __aenter__(self) -> PullStream[RunEvent]:
        try:
            self._answer = await self._interrupt.wait(self._opened())
        except BaseException as error:
            await self._end(error)
            raise
        return self._answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._answer is not None:
                await self._answer.aclose()
        finally:
            await self._end(error)

    async def _opened(self) -> PullStream[RunEvent]:
        await self._hook.before(self._event)
        around = _around(self._hook)
        return await (self._call(self._event) if around is None else around(self._event, self._call))

    async def _call(self, event: HookEvent) -> PullStream[RunEvent]:
        if event.request is None:
            raise HookFailed("a hook asked the model without a request")
        return cast("PullStream[RunEvent]", self._provider.stream(event.request))

    async def _end(self, error: BaseException | None) -> None:
        told = None if error is None else _told(error)
        await self._hook.after(_ended(self._event, self._clock, error=told, response=self.response))


def _around(hook: Hook) -> Callable[[HookEvent, Step], Awaitable[PullStream[RunEvent]]] | None:
    """What a hook offers around a step. To ask whether it `SupportsAround` costs as much as a short turn."""
    return cast("SupportsAround", hook).around if hasattr(hook, "around") else None


async def tool_step(
    hook: Hook,
    event: HookEvent,
    run: Callable[[ToolCall], Awaitable[ToolResult | QuestionAsked]],
    clock: Clock,
) -> ToolResult | QuestionAsked:
    """One call of a tool, with the hook around it; `run` does it, with the arguments that a hook left."""
    outcome: ToolResult | QuestionAsked | None = None
    failure: BaseException | None = None
    try:
        await hook.before(event)
        if (around := _around(hook)) is not None:
            outcome = await _last(await around(event, _Running(run).call))
        else:
            assert event.tool_call is not None
            outcome = await run(event.tool_call)
        return outcome
    except BaseException as error:
        failure = error
        raise
    finally:
        result = outcome if isinstance(outcome, ToolResult) else None
        told = None if failure is None else _told(failure)
        await hook.after(_ended(event, clock, result=result, error=told))


class _Running:
    """The call itself, as the innermost step."""

    def __init__(self, run: Callable[[ToolCall], Awaitable[ToolResult | QuestionAsked]]) -> None:
        self._run = run

    async def call(self, event: HookEvent) -> PullStream[RunEvent]:
        if event.tool_call is None:
            raise HookFailed("a hook ran a tool without a call")
        return PullStream(self._events(event, event.tool_call))

    async def _events(self, event: HookEvent, call: ToolCall) -> AsyncGenerator[RunEvent, None]:
        outcome = await self._run(call)
        yield outcome if isinstance(outcome, QuestionAsked) else ToolFinished(event.turn_id, outcome)


async def _last(events: PullStream[RunEvent]) -> ToolResult | QuestionAsked:
    """What the events come to."""
    outcome: ToolResult | QuestionAsked | None = None
    async with events:
        async for event in events:
            if isinstance(event, ToolFinished):
                outcome = event.result
            elif isinstance(event, QuestionAsked):
                outcome = event
    if outcome is None:
        raise HookFailed("a hook gave no result of a call")
    return outcome


def _told(error: BaseException) -> Error:
    """What a hook is told of an error; a reader that left, or a cancel, is one too."""
    if isinstance(error, GnomonError | Exception):
        name = type(error).__name__
        return Error("cancelled", "the step was interrupted") if name == "Interrupted" else error_event(error)
    return Error("cancelled", "the step was cancelled")


def _ended(
    event: HookEvent,
    clock: Clock,
    *,
    error: Error | None = None,
    response: Response | None = None,
    result: ToolResult | None = None,
) -> HookEvent:
    return msgspec.structs.replace(event, ended_at=clock.now(), error=error, response=response, result=result)


def model_event(
    name: str, request: Request, session_id: str, turn_id: str, attempt: int, clock: Clock
) -> HookEvent:
    return HookEvent(
        kind="model",
        name=name,
        session_id=session_id,
        turn_id=turn_id,
        attempt=attempt,
        request=request,
        started_at=clock.now(),
    )
