"""A session in this process: what a UI talks to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Generic, Self, cast

from gnomon.contracts.session import Input, OnLeave, WhenBusy
from gnomon.engine.aside import Aside
from gnomon.engine.fold import Fold
from gnomon.engine.given import one_of
from gnomon.engine.journal import TRIES, crowded
from gnomon.engine.ledger import Ledger
from gnomon.engine.plan import has_expired, has_work, is_held_back
from gnomon.engine.run import Run, check_not_waiting, turn_of
from gnomon.engine.turn import TurnState
from gnomon.errors import ConfigError, Conflict, InvalidInput, NotFound
from gnomon.session._answered import Answered
from gnomon.session._answering import Reply, questions
from gnomon.session._approving import Answer, below, decide, pending
from gnomon.session._compacting import compact
from gnomon.session._family import kin_of, tell_decided
from gnomon.session._fork_plan import fork_plan
from gnomon.session._forking import forked
from gnomon.session._input import as_received, checked_session_id
from gnomon.session._reader import Reader
from gnomon.session._reading import Reading
from gnomon.session._sending import Sending, not_theirs
from gnomon.session.runtime import TENANT, Runtime
from gnomon.session.subagent import LocalSubagent, started_after
from gnomon.types.codec import exception_of
from gnomon.types.events import (
    ApprovalRequested,
    CancelRequested,
    Compacted,
    TurnResumed,
)
from gnomon.types.forks import ForkPlan
from gnomon.types.messages import Content
from gnomon.types.records import SessionState
from gnomon.types.steps import CancelMode, Out, SessionStatus, Turn

__all__ = ["LocalSession"]

_NOTICED_S = 2.0
"""By then a store has heard that a runner was killed."""
_LOOK_S, _HERE_S = 0.1, 2.0
"""How often whoever waits for a session looks at it: one that is run elsewhere, and one that is run here."""


class LocalSession(Generic[Out]):
    """One conversation, live. It is made by its first message; opening it costs nothing."""

    def __init__(
        self,
        runtime: Runtime,
        session_id: str | None = None,
        metadata: Mapping[str, object] | None = None,
        user_id: str | None = None,
    ) -> None:
        self._runtime = runtime
        self._id = checked_session_id(session_id)
        self._channel = runtime.channel(self._id)
        self._ledger: Ledger | None = None
        self._sending = Sending(runtime, self._id, metadata or {}, is_new=session_id is None, user_id=user_id)

    @property
    def id(self) -> str:
        return self._id

    @property
    def status(self) -> SessionStatus:
        """How it stands, as far as it was read here; `refresh` reads on."""
        agent = self._runtime.agent
        fold = self._seen()
        turn = fold.open_turn
        spent = fold.usage.total_tokens
        return SessionStatus(
            state=_state(fold),
            agent=agent.name,
            model=agent.model,
            turn_id=turn.id if turn is not None else None,
            tokens_used=spent,
            cost=fold.cost,
            pending_approvals=tuple(each.approval_id for each in pending(fold)),
            questions=questions(fold),
            position=fold.seq,
        )

    async def refresh(self) -> SessionStatus:
        """How it stands now."""
        await self._opened()
        return self.status

    async def is_attended(self) -> bool:
        """Whether somebody who is alive runs it now, here or in another process."""
        ledger = await self._opened()
        if ledger.fold.owner is None or self._id in self._runtime.loops:
            return ledger.fold.owner is not None
        try:
            await ledger.check_free(self._runtime.owner)
        except Conflict:
            return True
        return False

    # --- sending

    async def send(
        self, input: Input, *, when_busy: WhenBusy = "queue", message_id: str | None = None
    ) -> str:
        """Give the session something to answer. It is durable, and the session woken, when this returns."""
        received = as_received(input, when_busy, message_id)
        self._runtime.chores.note_sender(received.message_id)
        await self._sending.send(await self._opened(refresh=False), received, when_busy)
        return received.message_id

    async def run(self, input: Input, *, when_busy: WhenBusy = "queue") -> Turn[Out]:
        """Send, and wait for what the turn that answers it comes to. What it fails with is raised.

        `TurnUnfinished` when that turn, or one before it, waits for a person.
        What was sent stays in its place.
        """
        received = as_received(input, when_busy)
        self._runtime.chores.note_sender(received.message_id)
        ledger = await self._opened(refresh=False)
        answered = Answered(received.message_id, ledger.fold.open_turn)
        with ledger.following(answered.take), self._runtime.asked.waiting(self._id):
            brought = await self._sending.bring(ledger, received, when_busy, answered.news)
            while not answered.is_over:
                if brought is not None:
                    brought.check()
                if answered.is_sent:  # until then it may yet fail to be written
                    self._check_not_waiting(ledger.fold, answered.turn, is_sent=True)
                await self._news(ledger, answered.news)
        assert answered.turn is not None
        turn = cast("Turn[Out]", turn_of(answered.turn, self._id, self._runtime.agent.answer))
        if turn.error is not None:
            raise exception_of(turn.error)
        return turn

    def stream(
        self, input: Input, *, when_busy: WhenBusy = "queue", on_leave: OnLeave = "cancel"
    ) -> Run[Out]:
        """Send, and read the turn that answers it as it happens, in whichever process it is run.

        Nothing is sent before the first event is read; while other turns come first there are none. A
        reader that leaves before the end cancels the turn; with `on_leave="detach"` it goes on without it.
        A message that no turn has taken yet stays in its place. Where this turn, or one before it, waits
        for a person, the events end, and `Run.turn` raises `TurnUnfinished`.
        """
        received = as_received(input, when_busy)
        self._runtime.chores.note_sender(received.message_id)

        async def begin(ledger: Ledger) -> Answered:
            answered = Answered(received.message_id, ledger.fold.open_turn)
            await self._sending.send(ledger, received, when_busy)
            return answered

        return self._reading(begin, on_leave)

    async def follow(self, *, on_leave: OnLeave = "detach") -> Run[Out] | None:
        """The turn that is open, from here on, as `stream` gives it; `None` when nothing is open.

        Where no turn is, but messages wait, it is the turn of the first of them. What happens between
        this call and the first event that is read is not missed: an answer may be given, or the session
        resumed, in between.
        """
        ledger = await self._opened()
        answered, place = Answered.open_in(ledger.fold), ledger.fold.seq
        if answered is None:
            return None

        async def begin(_: Ledger) -> Answered:
            if not self._runtime.adopts or (answered.turn is not None and answered.turn.subagents):
                self._runtime.look_at(self._id, _LOOK_S)
            return answered

        return self._reading(begin, on_leave, place)

    def _reading(
        self, begin: Callable[[Ledger], Awaitable[Answered]], on_leave: OnLeave, place: int | None = None
    ) -> Run[Out]:
        leave = self._leaving if one_of("on_leave", on_leave, OnLeave) == "cancel" else None
        reading = Reading(self._runtime, self._id, self._channel, begin, leave, place)
        return Run(
            reading.events(),
            reading.state,
            turn_id="",
            session_id=self._id,
            answer=self._runtime.agent.answer,
        )

    async def _leaving(self, turn_id: str) -> None:
        """End that turn, if it still runs."""
        ledger = await self._opened()
        if ledger.fold.turn_id == turn_id:
            await self._cancel(ledger, "now", "the reader left")

    async def _news(self, ledger: Ledger, news: asyncio.Event) -> None:
        """Until something is written here; what another process writes is looked for."""
        self._runtime.check_open()  # of an agent that was closed nothing is to be waited for
        with suppress(TimeoutError):
            async with asyncio.timeout(_HERE_S if self._id in self._runtime.loops else _LOOK_S):
                await news.wait()
        if not news.is_set():
            await ledger.refresh()
        news.clear()

    # --- reading

    def events(self, after: int = 0) -> Reader:
        """What happened after that place, and then what happens."""
        return Reader(self._opened, self._channel, self._runtime.owner, after, self._sending.admit)

    async def turn_result(self) -> Turn[Out]:
        """What the latest turn came to, when it has ended. One whose runner died is gone on with.

        `TurnUnfinished` when it waits for a person.
        """
        ledger = await self._opened()
        if ledger.fold.turn is None and not ledger.fold.waiting:
            raise RuntimeError(f"session {self._id!r} has had no turn yet: send it something first")
        for message_id in ledger.fold.waiting:
            self._runtime.want(self._id, message_id)
        if self._goes_on(ledger.fold):
            await self._runtime.nudge(self._id)
        news = asyncio.Event()
        with ledger.following(lambda _: news.set()), self._runtime.asked.waiting(self._id):
            while ledger.fold.open_turn is not None or ledger.fold.waiting:
                self._check_not_waiting(ledger.fold)
                await self._news(ledger, news)
        turn = ledger.fold.turn
        assert turn is not None
        return cast("Turn[Out]", turn_of(turn, self._id, self._runtime.agent.answer))

    def _goes_on(self, fold: Fold) -> bool:
        """Whether there is something to do about it: here, or in the sessions of its sub-agents."""
        turn = fold.open_turn
        is_runnable = has_work(fold, self._runtime.agent, self._runtime.clock.now())
        return is_runnable or (turn is not None and bool(turn.running_subagents))

    def _check_not_waiting(self, fold: Fold, ours: TurnState | None = None, *, is_sent: bool = False) -> None:
        """What waits for a person is not waited for here; unless it is about to end, or to go on.

        `ours` is the turn that took the message which was sent, once one has.
        """
        turn = ours or fold.open_turn
        if turn is not None and fold.cancel is None and not has_expired(turn, self._runtime.clock.now()):
            hint = "answer with session.answer(…), or cancel the turn"
            if is_sent and ours is None:
                hint += "; the message that was sent now is kept behind it, so do not send it again"
            check_not_waiting(turn, hint, is_held_back=is_held_back(turn, self._runtime.agent))

    # --- acting on a turn

    async def cancel(self, mode: CancelMode = "now", *, reason: str = "") -> None:
        """End the running turn: at once, or when the step under way is done. Returns when it has ended."""
        if mode not in ("now", "after_step"):
            raise InvalidInput(f"a turn is cancelled 'now' or 'after_step', not {mode!r}")
        await self._cancel(await self._opened(), mode, reason)

    async def _cancel(self, ledger: Ledger, mode: CancelMode, reason: str) -> None:
        """The turn that is the first one as far as was read, and no other."""
        meant = _first_of(ledger.fold)
        if meant is None:
            return
        news = asyncio.Event()
        await self._sending.announce_again(ledger)
        self._sending.want_next(ledger.fold)
        with ledger.following(lambda _: news.set()), self._runtime.asked.waiting(self._id):
            while _first_of(ledger.fold) == meant:  # a turn that comes after it is not to be ended
                with self._sending.writing(ledger):
                    if await ledger.try_receive((CancelRequested(mode, reason),), ledger.fold.seq):
                        break
            await self._sending.wake(ledger)
            while _first_of(ledger.fold) == meant:
                await self._news(ledger, news)

    async def answer(
        self,
        content: Content | Sequence[Content] = (),
        *,
        call_id: str | None = None,
        question_id: str | None = None,
        run_again: bool = False,
        by: str = "",
    ) -> None:
        """Answer for a call that waits for a person; which one need not be said where there is one.

        The answer is the call's result; where there are options it has to be one of them, or, where several
        may be chosen, a list of them. Of a call whose outcome is unknown it may be leave to run it again.
        """
        reply = Reply(content, call_id=call_id, question_id=question_id, run_again=run_again, by=by)
        runtime, ledger = self._runtime, await self._opened()
        asked = reply.asked(self._id, ledger.fold)
        await self._sending.announce_again(ledger)
        target = await runtime.ledger(asked.path[-1]) if asked.path else ledger
        try:
            with self._sending.writing(target):
                await reply.write(target, asked, runtime.clock.now)
        finally:
            await self._go_on_after(target, ledger)

    async def approvals(self) -> tuple[ApprovalRequested, ...]:
        """What is waited for leave for, in the order of the calls."""
        return pending((await self._opened()).fold)

    async def approve(
        self,
        approval_id: str | None = None,
        *,
        by: str = "",
        reason: str | None = None,
        always: bool = False,
        arguments_hash: str | None = None,
    ) -> None:
        """Give leave for a call that waits for it; which one need not be said where there is one.

        It is given once, and for the arguments that were shown: `arguments_hash`, of the request, makes sure
        that nobody approves what they have not seen. `always` saves the rule of the request, for the session.
        """
        answer = Answer(
            "approved", approval_id, by=by, reason=reason, always=always, arguments_hash=arguments_hash
        )
        await self._decide(answer)

    async def deny(self, approval_id: str | None = None, *, by: str = "", reason: str | None = None) -> None:
        """Refuse leave for a call: the model is told so, with the reason, and the turn goes on."""
        await self._decide(Answer("denied", approval_id, by=by, reason=reason))

    async def _decide(self, answer: Answer) -> None:
        runtime, ledger = self._runtime, await self._opened()
        if pending(ledger.fold):
            await self._sending.announce_again(ledger)

        async def refuse(why: str) -> None:
            await runtime.chores.tell_refusal(self._id, answer.approval_id or "", answer.by, why)

        asked = below(ledger.fold, answer)
        target = await runtime.ledger(asked.path[-1]) if asked is not None else ledger
        if asked is not None:
            answer.approval_id = asked.approval_id
        try:
            with self._sending.writing(target):
                await decide(target, answer, runtime.clock.now, refuse)
        finally:
            await self._go_on_after(target, ledger)

    async def _go_on_after(self, target: Ledger, ledger: Ledger) -> None:
        """A person has acted in the session, or in that of a sub-agent: it is woken, and the root is told."""
        runtime, kin = self._runtime, await kin_of(target)
        if kin is not None:
            await runtime.family.wake(target)
            await tell_decided(runtime, target, kin)
        elif not await self._is_ours(ledger):
            with suppress(NotFound):  # whoever runs that agent finds it
                await ledger.announce(runtime.clock.now())
        elif has_work(ledger.fold, runtime.agent):
            await self._sending.wake(ledger)

    async def subagents(self, after: int | None = None) -> tuple[LocalSubagent, ...]:
        """Those that were started in the latest turn, or after that place; of agents that this one knows."""
        ledger, runtime = await self._opened(), self._runtime
        turn = ledger.fold.turn
        if after is None:
            after = turn.seq - 1 if turn is not None else ledger.fold.seq
        found: list[LocalSubagent] = []
        for started in await started_after(await runtime.storage(), self._id, after):
            runner = await runtime.family.runner_named(started.name)
            if runner is not None:
                session = LocalSession[object](runner, started.session_id)
                found.append(LocalSubagent(runtime, self._id, runner, session, started))
        return tuple(found)

    async def _is_ours(self, ledger: Ledger) -> bool:
        """Whether it is of this agent. That of another is not run by it, whoever answers for it."""
        row = ledger.known_row or await ledger.row()
        return row is None or row.agent_id == self._runtime.agent.name

    async def compact(self) -> Compacted | None:
        """Make the view of the model shorter now, between two turns; `None` where it cannot be.

        The ledger keeps every message. `Conflict` while a turn is open: it does that by itself.
        """
        runtime, context = self._runtime, self._runtime.agent.context
        if context is None:
            raise ConfigError(
                f"the agent {runtime.agent.name!r} has no compactor", hint='Agent(compactor="truncate")'
            )
        ledger = await self._opened()
        await ledger.whose()  # hooks are told
        return await compact(ledger, context, Aside(runtime.agent, runtime.clock, ledger))

    async def resume(self, *, take_over: bool = False) -> None:
        """Go on with what is open: after a crash, or under the new definition of a paused turn.

        `take_over` takes the session away from a runner that seems to be alive.
        """
        ledger = await self._opened()
        if ledger.fold.open_turn is not None and ledger.fold.open_turn.is_paused:
            await self._sending.announce_again(ledger)
        for _ in range(TRIES):
            turn = ledger.fold.open_turn
            if turn is None or not turn.is_paused:
                break
            resumed = TurnResumed(turn.id, self._runtime.agent.hash, "resume")
            if await ledger.try_receive((resumed,), ledger.fold.seq):
                break
        else:
            raise crowded(self._id)
        if take_over:
            await self._runtime.run_segment(TENANT, self._id, take_over=True)
        elif await self._is_free_to_go_on(ledger):
            self._sending.want_next(ledger.fold)
            await self._runtime.nudge(self._id)

    async def _is_free_to_go_on(self, ledger: Ledger) -> bool:
        """Whether there is something to do; `Conflict` while another does it.

        Of a runner that was killed a moment ago a store may not have heard yet.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _NOTICED_S
        while self._goes_on(ledger.fold):
            try:
                await ledger.check_free(self._runtime.owner)
            except Conflict:
                if loop.time() >= deadline:
                    raise
            else:
                return True
            await asyncio.sleep(_NOTICED_S / 20)
            await ledger.refresh()
        return False

    async def fork(self, at: int | None = None, *, session_id: str | None = None) -> LocalSession[Out]:
        """A new session with the same events up to that place; what is open there ends in the new one.

        Its row has the title, the metadata and the user of this one.
        """
        source = await self._opened()
        end = self._place(source, at)
        other = LocalSession[Out](self._runtime, session_id, user_id=self._sending.user_id)
        other._sending.is_new = False
        other._ledger = await forked(self._runtime, other.id, source, end)
        return other

    async def fork_plan(self, at: int | None = None) -> ForkPlan:
        """What `fork` at that place would keep, end, and not know of. Nothing is written."""
        source = await self._opened()
        end = self._place(source, at)
        reads = await Ledger(await self._runtime.storage(), self._id).refresh()
        return fork_plan(self._id, reads, end)

    def _place(self, source: Ledger, at: int | None) -> int:
        end = source.fold.seq if at is None else at
        if not source.fold.seq:
            raise NotFound(f"session {self._id!r} has no events to fork from", hint="send it something first")
        if type(end) is not int or not 0 < end <= source.fold.seq:
            raise InvalidInput(f"session {self._id!r} has events 1 to {source.fold.seq}; {end!r} was given")
        return end

    async def close(self) -> None:
        """Let go of the session here. Nothing of it ends."""
        self._ledger = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _opened(self, *, refresh: bool = True) -> Ledger:
        """The ledger, where whoever asks may know what is in it."""
        if self._sending.is_new and not refresh:
            ledger = await self._runtime.new_ledger(self._id)
            ledger.know_user(self._sending.user_id or "")
        else:
            ledger = await self._runtime.ledger(self._id, refresh=refresh)
            if ledger.fold.seq:
                await self._sending.admit(ledger)
        self._ledger = ledger
        return ledger

    def _seen(self) -> Fold:
        """What was read; it may have become another's session since it was found to be none."""
        ledger = self._ledger
        if ledger is None:
            return Fold()
        if ledger.fold.seq and self._sending.user_id not in (None, ledger.user_id):
            raise not_theirs(self._id)
        return ledger.fold


def _first_of(fold: Fold) -> str | None:
    """The message that the open turn answers, or that the next one will: a turn by any time of its life."""
    turn = fold.open_turn
    return next(iter(fold.waiting if turn is None else turn.started.inputs or (turn.id,)), None)


def _state(fold: Fold) -> SessionState:
    turn = fold.open_turn
    if turn is None:
        return "running" if fold.waiting else "idle"
    if fold.cancel is not None:
        return "cancelling"
    return "waiting" if turn.is_waiting or turn.is_paused else "running"
