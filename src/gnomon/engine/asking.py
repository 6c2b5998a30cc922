"""One question to the model: what it is asked, and the answer as hooks and guardrails leave it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, cast

from gnomon.contracts.tool import ToolContext
from gnomon.engine.accounts import Books
from gnomon.engine.clock import Clock, ageing
from gnomon.engine.definition import Definition
from gnomon.engine.holding import HeldAnswer
from gnomon.engine.hooks import ModelStep
from gnomon.engine.instructions import instructions_for, told_by
from gnomon.engine.interrupt import Interrupt
from gnomon.engine.journal import Journal
from gnomon.engine.live import Attempt, Channel
from gnomon.stream import PullStream, StreamFold
from gnomon.types.events import AttemptDiscarded, Guarded, ModelStarted, RunEvent
from gnomon.types.messages import ToolDef
from gnomon.types.requests import Request, Response

__all__ = ["Answers", "Asking", "Questions"]

_STALE_S = 0.25
"""A proof of ownership older than this is looked at again before the model is asked or a tool called."""


class Questions:
    """What the model is asked next: the conversation, with the instructions that hold in this turn."""

    is_proving: bool = False
    """Whether it is being looked at whose the session is."""
    _system: str | None = None
    _told: str = ""
    """The turn for which the instructions were found out."""

    def __init__(self, agent: Definition, journal: Journal, clock: Clock) -> None:
        self._agent = agent
        self._journal = journal
        self._clock = clock

    def known(self, turn_id: str, extra: tuple[ToolDef, ...]) -> Request | None:
        """The next question, where nothing has to be looked at for it."""
        agent = self._agent
        if (agent.tells_anew and self._told != turn_id) or self.is_stale():
            return None
        system = self._system if agent.tells_anew else cast("str | None", agent.instructions)
        return agent.request(self._journal.fold.messages, system, extra)

    def is_stale(self) -> bool:
        """Whether another may have taken the session since it was last known to be ours."""
        journal = self._journal
        return journal.is_shared and (journal.is_lost or ageing(self._clock) - journal.proved_at > _STALE_S)

    async def ask(self, turn_id: str, extra: tuple[ToolDef, ...]) -> Request:
        """The same. Nobody is asked by a runner that may have lost the session."""
        if self._journal.is_shared:
            self.is_proving = True
            await self._journal.prove()
            self.is_proving = False
        self._system, self._told = await self._instructions(turn_id), turn_id
        return self._agent.request(self._journal.fold.messages, self._system, extra)

    async def _instructions(self, turn_id: str) -> str | None:
        context: ToolContext = ToolContext(
            call_id="",
            session_id=self._journal.session_id,
            turn_id=turn_id,
            user_id=self._journal.user_id,
            deps=self._agent.deps,
        )
        told = await instructions_for(self._agent.instructions, context)
        if not self._agent.sources:
            return told
        parts = [told or "", *await told_by(self._agent.sources, context)]
        return "\n\n".join(part for part in parts if part) or None


class Answers:
    """The model's answers, one after another."""

    response: Response | None = None
    """The whole of the last one, once it is there."""
    again: str = "the runner was lost before the answer was whole"
    """Why an answer starts anew."""
    _step: ModelStep | None = None
    _held: HeldAnswer | None = None

    def __init__(
        self,
        agent: Definition,
        journal: Journal,
        clock: Clock,
        channel: Channel,
        interrupt: Interrupt,
        books: Books,
    ) -> None:
        self._agent = agent
        self._journal = journal
        self._clock = clock
        self._channel = channel
        self._interrupt = interrupt
        self._books = books

    def of(self, request: Request, asking: ModelStarted) -> AbstractAsyncContextManager[PullStream[RunEvent]]:
        """The answer, as the hooks leave it and the guardrails let it pass."""
        agent, self.response = self._agent, None
        if agent.hooks is None:
            answer = cast("AbstractAsyncContextManager[PullStream[RunEvent]]", agent.provider.stream(request))
        else:
            answer = self._step = ModelStep(
                agent,
                request,
                self._clock,
                self._interrupt,
                session_id=self._journal.session_id,
                turn_id=asking.turn_id,
                user_id=self._journal.user_id,
                attempt=asking.attempt[1],
            )
        if agent.guards is not None and agent.guards.holds_answers:
            output = agent.answer.mode if agent.answer is not None else None
            answer = self._held = HeldAnswer(answer, agent.guards, output)
        return answer

    def restarted(self) -> AttemptDiscarded:
        """What a reader is told whose message starts anew."""
        discarded = AttemptDiscarded(self.again)
        self.again = Answers.again
        self._channel.put(discarded)
        return discarded

    def take(self, request: Request, response: Response) -> None:
        """It is whole; hooks are told what it used, also where the vendor does not say."""
        self.response = response
        if self._step is not None:
            if response.usage.input_tokens is None or response.usage.output_tokens is None:
                self.response = response = self._books.settled(request, response)
            self._step.response = response

    @property
    def said(self) -> StreamFold | None:
        """All that the model has said, be it shown or not; `None` where nothing is held back."""
        return self._held.said if self._held is not None else None

    def guarded(self, asking: ModelStarted) -> Sequence[Guarded]:
        """What guardrails had against the answer, if anything."""
        held, self._held = self._held, None
        return held.guarded(asking.turn_id, asking.message_id) if held is not None else ()


class Asking:
    """While a model is asked: whatever breaks that off is handed on, with how far it came."""

    request: Request | None = None

    def __init__(
        self, attempt: Attempt, broken_off: Callable[[BaseException, Request | None, Attempt], bool]
    ) -> None:
        self._attempt = attempt
        self._broken_off = broken_off

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return error is not None and self._broken_off(error, self.request, self._attempt)
