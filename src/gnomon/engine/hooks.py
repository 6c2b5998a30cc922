"""Before and after each step, and around it: where an agent's hooks get to see it.

An agent has one hook, or none: several are one chain by the time they come here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import datetime
from types import TracebackType
from typing import cast

from msgspec.structs import replace

from gnomon._begun import Begun
from gnomon.contracts.hook import Hook
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Around, Definition
from gnomon.engine.interrupt import Interrupt
from gnomon.engine.journal import Journal
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

__all__ = ["ModelStep", "Watched", "tool_step"]

_TURN_ENDS = frozenset({TurnFinished, TurnCancelled, TurnFailed})


class Watched:
    """One runner's session and its turns, as a hook sees them begin and end."""

    resumed: str | None = None
    """The turn that another began, until the hook has seen that it goes on."""
    _session: HookEvent | None = None
    _turn: HookEvent | None = None

    def __init__(self, hook: Hook, name: str, journal: Journal, clock: Clock) -> None:
        self._hook = hook
        self._name = name
        self._journal = journal
        self._clock = clock
        self.unseen: list[LedgerEntry] = []
        """What was written, until the hook has seen it."""

    async def see(self) -> None:
        """The runner has the session; turns began in it, go on or ended."""
        unseen, self.unseen = self.unseen, []
        hook, now = self._hook, self._clock.now()
        if self._session is None:
            self._session = HookEvent(
                kind="session",
                name=self._name,
                session_id=self._journal.session_id,
                user_id=self._journal.user_id,
                started_at=now,
            )
            await hook.before(self._session)
        if self.resumed is not None:
            self._turn, self.resumed = self._a_turn(self.resumed, now, attempt=2), None
            await hook.before(self._turn)
        for entry in unseen:
            kind = entry.__class__
            if kind is TurnStarted:
                self._turn = self._a_turn(cast(TurnStarted, entry).turn_id, now)
                await hook.before(self._turn)
            elif self._turn is not None and kind in _TURN_ENDS:
                turn, self._turn = self._turn, None
                await hook.after(replace(turn, ended_at=now, error=getattr(entry, "error", None)))

    async def end(self) -> None:
        """The runner lets go of the session, and of a turn that is still open, however much it is hurried."""
        try:
            if self.unseen:
                await self.see()  # what was written while somebody left
        finally:
            turn, self._turn = self._turn, None
            session, self._session = self._session, None
            try:
                await self._over(turn)
            finally:
                await self._over(session)

    async def _over(self, event: HookEvent | None) -> None:
        if event is not None:
            await self._hook.after(replace(event, ended_at=self._clock.now()))

    def _a_turn(self, turn_id: str, now: datetime, attempt: int = 1) -> HookEvent:
        return HookEvent(
            kind="turn",
            name=self._name,
            session_id=self._journal.session_id,
            user_id=self._journal.user_id,
            turn_id=turn_id,
            attempt=attempt,
            started_at=now,
        )


class ModelStep:
    """One question to the model: a context that gives the events of the answer.

    Where no hook takes the answer into its hands, the events are the provider's own stream.
    """

    response: Response | None = None
    _answer: PullStream[RunEvent] | None = None

    def __init__(
        self,
        agent: Definition,
        request: Request,
        clock: Clock,
        interrupt: Interrupt,
        *,
        session_id: str,
        turn_id: str,
        user_id: str = "",
        attempt: int = 1,
    ) -> None:
        assert agent.hooks is not None
        self._hook = agent.hooks
        self._around = agent.around
        self._provider = agent.provider
        self._request = request
        self._clock = clock
        self._interrupt = interrupt
        self._event = HookEvent(
            kind="model",
            name=agent.model,
            session_id=session_id,
            user_id=user_id,
            turn_id=turn_id,
            attempt=attempt,
            request=request,
            started_at=clock.now(),
        )

    async def __aenter__(self) -> PullStream[RunEvent]:
        opening = self._hook.before(self._event) if self._around is None else self._open(self._around)
        try:
            for waits_for in opening.__await__():  # seldom: nearly always nobody has to wait
                await self._interrupt.wait(Begun(opening, waits_for))
                break
            if self._around is None:
                self._answer = cast("PullStream[RunEvent]", self._provider.stream(self._request))
        except BaseException as error:
            await self.__aexit__(type(error), error, None)
            raise
        assert self._answer is not None
        return self._answer

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._answer is not None:
                await self._answer.aclose()
        finally:
            told = None if error is None else _told(error)
            event = replace(self._event, ended_at=self._clock.now(), error=told, response=self.response)
            await self._hook.after(event)

    async def _open(self, around: Around) -> None:
        await self._hook.before(self._event)
        self._answer = await around(self._event, self._call)

    async def _call(self, event: HookEvent) -> PullStream[RunEvent]:
        if event.request is None:
            raise HookFailed("a hook asked the model without a request")
        return cast("PullStream[RunEvent]", self._provider.stream(event.request))


async def tool_step(
    hook: Hook,
    around: Around | None,
    event: HookEvent,
    run: Callable[[ToolCall], Awaitable[ToolResult | QuestionAsked]],
    clock: Clock,
) -> ToolResult | QuestionAsked:
    """One call of a tool, with the hook around it; `run` does it, with the arguments that a hook left."""
    outcome: ToolResult | QuestionAsked | None = None
    failure: BaseException | None = None
    try:
        await hook.before(event)
        if around is not None:
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
        await hook.after(replace(event, ended_at=clock.now(), result=result, error=told))


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
