"""Ask, run tools, repeat, stop.

There is one loop. A blocking run is this one read to its end; a durable run is
this one with a ledger for its journal; a recovered run is this one, begun where
the journal ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing, suppress
from types import AsyncGeneratorType
from typing import Protocol, cast
from weakref import ref

from gnomon._begun import BrokenOff, is_meant_for_us
from gnomon.engine.asking import Answers, Asking, Questions
from gnomon.engine.budget import Budget
from gnomon.engine.calls import Batch, Calls
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition
from gnomon.engine.guards import stopped_by
from gnomon.engine.hooks import Watched
from gnomon.engine.interrupt import Interrupt, Interrupted
from gnomon.engine.journal import TRIES, Journal, crowded
from gnomon.engine.live import Attempt, Channel
from gnomon.engine.plan import Planner, Step
from gnomon.engine.prelude import Prelude
from gnomon.engine.speaking import completed, partial, stopped
from gnomon.engine.subagents import ENDED, Family
from gnomon.engine.turn import TurnState
from gnomon.errors import (
    GuardrailTripped,
    InvalidInput,
    StorageError,
    StreamCut,
    Superseded,
)
from gnomon.types.events import (
    Claimed,
    Done,
    Guarded,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    Released,
    RunEvent,
    StreamEvent,
    SubagentStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.requests import Request, Response, Spent

__all__ = ["Attendant", "Loop"]

_UNSHOWN = (Claimed, Released, MessageReceived)
_GRACE_S = 5.0
_STALE_S = 0.25
"""A proof of ownership older than this is looked at again before the model is asked or a tool called."""


class Attendant(Protocol):
    """Whoever sees to a session while it is run: its row, its owner, its place among others."""

    async def opened(self) -> None:
        """Before anything is claimed."""
        ...

    async def claiming(self, append: Awaitable[bool]) -> bool:
        """Do the append with the claim in it, and whatever goes with it."""
        ...

    async def claimed(self) -> None:
        """Once the claim stands."""
        ...

    async def closed(self) -> None:
        """After everything was let go of, however it ended."""
        ...


class Loop:
    """One runner's time with a session: it claims it, goes on with what is open, and lets go of it.

    `opening` are messages that it brings along; `turns` is how many turns it may begin, and of one
    that it alone runs it raises the error. What is yielded has been recorded before, but for deltas.
    """

    is_broken: bool = False
    """Whether it ended by an error that is no turn's own."""
    _epoch: int | None = None
    _state: TurnState | None = None
    _begun: tuple[frozenset[str], str] = frozenset(), ""
    """The calls that had begun when their runner was lost, and the message that makes them."""
    _batch: Batch = Batch((), (), "run")
    _made_calls: Calls | None = None
    _events: ref[AsyncGeneratorType[RunEvent, None]] | None = None
    _is_unsure: bool = False
    """Whether an append was broken off, so that it may stand or not."""
    _prelude: Prelude | None = None
    _watched: Watched | None = None

    def __init__(
        self,
        agent: Definition,
        journal: Journal,
        *,
        owner: str,
        clock: Clock,
        channel: Channel,
        opening: Sequence[LedgerEntry] = (),
        turns: int | None = None,
        turn_id: str | None = None,
        take_over: bool = False,
        attendant: Attendant | None = None,
        family: Family | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._agent = agent
        self._journal = journal
        self._owner = owner
        self._clock = clock
        self._channel = channel
        self._facts: list[LedgerEntry] = list(opening)
        journal.note(opening)
        self._take_over = take_over
        self._raises = turns is not None
        self._cancels = turns is not None
        """Whether a reader that leaves ends the turn; a runner that is stopped only lets go of it."""
        self._attendant = attendant
        self._family = family
        self._budget = budget or agent.budget
        self._books = agent.accounts.open(agent.model)
        self.interrupt = Interrupt()
        self._questions = Questions(agent, journal, clock)
        self._answers = Answers(agent, journal, clock, channel, self.interrupt, self._books)
        self.planner = Planner(agent, clock, turns=turns, turn_id=turn_id, budget=budget)
        if agent.hooks is not None:
            self._watched = Watched(agent.hooks, agent.name, journal, clock)
        if agent.context is not None or (agent.guards is not None and agent.guards.input):
            self._prelude = Prelude(agent, journal, self.planner, clock)

    @property
    def _calls(self) -> Calls:
        """Made when there is something to call."""
        if self._made_calls is None:
            self._made_calls = Calls(
                self._agent,
                self._journal,
                self.interrupt,
                self._channel,
                self._clock,
                family=self._family,
                budget=self._budget,
                seconds_left=self.planner.seconds_left,
            )
            self._made_calls.begin(*self._begun)
        return self._made_calls

    def cancel(self, reason: str = "") -> None:
        """End the turn that runs, now; what is open in it is answered and written down."""
        self.planner.is_cancelled, self.planner.reason = True, reason
        self.interrupt.set()

    def stop_soon(self) -> None:
        """Let go of the session at the next step, with the turn still open.

        A tool with side effects is waited for; what only reads is given up, and done again by who goes on.
        """
        self.planner.is_leaving = True
        if self._state is not None and (self._state.asking is not None or not self._batch.acts):
            self.interrupt.set()

    def look(self) -> None:
        """Others may have written: a cancel that is to take effect now does, and so does a takeover."""
        if self._state is None:
            return
        asked = self._journal.fold.cancel
        is_lost = self._journal.is_lost and self._state.asking is not None
        if is_lost or (asked is not None and asked.mode == "now"):
            self.interrupt.set()

    @property
    def ended_calls(self) -> frozenset[str]:
        """The calls that have ended beside one which has not, and so are not written yet."""
        return self._made_calls.ended if self._made_calls is not None else frozenset()

    @property
    def is_under_way(self) -> bool:
        """Whether somebody waits for the next event; not so while a reader is busy with the last one."""
        events = self._events() if self._events is not None else None
        return events is not None and events.ag_running

    def events(self) -> AsyncGenerator[RunEvent, None]:
        """Everything that happens, until there is nothing to do or a person has to act."""
        events = cast("AsyncGeneratorType[RunEvent, None]", self._run())
        self._events = ref(events)  # not held: one that its reader forgets is to end at once
        return events

    async def _run(self) -> AsyncGenerator[RunEvent, None]:
        interrupt, channel, answers = self.interrupt, self._channel, self._answers
        if self._attendant is not None:
            await self._attendant.opened()  # before there is anything to let go of: it may be another's
        try:
            while True:
                step, written = await self._commit()
                if self._watched is not None and self._watched.unseen:
                    await self._watched.see()
                for entry in written:
                    if not isinstance(entry, _UNSHOWN):
                        yield entry
                if step.action == "ask":
                    # Here and not in a generator of its own: this is what a token passes through.
                    with Asking(self._begun_attempt(), self._broken_off) as asking:
                        request = asking.request = await self._next_request()
                        if self.planner.is_again:
                            yield answers.restarted()
                        async with answers.of(request, self._asked()) as answer:
                            while (event := await interrupt.next(answer)) is not None:
                                if event.__class__ is Done:
                                    answers.take(request, cast(Done, event).response)
                                else:
                                    channel.put(cast(StreamEvent, event))
                                    yield event
                                if interrupt.is_set:
                                    raise Interrupted
                        self._heard(request, answers.response)
                        channel.end()
                elif step.action == "call":
                    async with aclosing(self._call()) as events:
                        async for event in events:
                            yield event
                elif step.action != "again":
                    break
        except (GeneratorExit, asyncio.CancelledError):
            self.is_broken = True
            await self._leave()
            raise
        except BaseException as error:
            self.is_broken = not isinstance(error, Exception)
            raise
        finally:
            await self._let_go()
        if self._raises and self.planner.failure is not None:
            raise _as_raised(self.planner.failure)

    async def _let_go(self) -> None:
        self._channel.end()
        if self._made_calls is not None:
            await self._made_calls.end()
        try:
            if self._watched is not None:
                await self._watched.end()
        finally:
            if self._attendant is not None:
                await self._attendant.closed()

    # --- writing

    async def _commit(self) -> tuple[Step, Sequence[LedgerEntry]]:
        """Decide what comes next and write it down, with the facts that led there."""
        journal, was_second = self._journal, False
        for _ in range(TRIES):
            claim = await self._claimed() if self._epoch is None else None
            if claim is None and journal.is_shared:
                self._check_epoch()
                self._hear_subagents()
            seen = journal.fold.seq
            self.planner.is_calling = self._made_calls is not None and self._made_calls.is_under_way
            self.interrupt.is_set = False  # the planner knows by now what that was for
            try:
                step = self.planner.next(journal.fold, self._state, self._facts)
                is_over = self.planner.is_calling and step.action != "call"
                entries = [*self._facts, *step.entries]
                if step.action == "call":
                    step = self._batched(step, entries)
            except Exception as error:  # noqa: BLE001 - a check of the output is anybody's code
                self._fail_once(error)
                continue
            if self._prelude is not None and step.action == "ask":
                prepared = await self._prepared(self._prelude, step, is_claimed=claim is None)
                self._pay(self._prelude)
                if prepared is None:
                    continue
                step = prepared
                entries = [*self._facts, *step.entries]
            if is_over:
                await self._stop_calls()  # what has ended by now counts
                continue
            if was_second and claim is not None and not entries and step.action in ("end", "wait"):
                return step, ()  # others have seen to it, and there is nothing left to claim it for
            if journal.is_shared:
                self._owned(entries, claim, step)
            try:
                if not entries or await self._appended(entries, seen, is_claim=claim is not None):
                    break
            except (InvalidInput, TypeError, ValueError) as error:
                self._unwritable(error)
                continue
            was_second = True
            self._look_again()
        else:
            raise crowded(journal.session_id)
        running = self._state.running_subagents if self._state is not None else ()
        self._take(entries)
        if claim is not None and self._attendant is not None:
            await self._attendant.claimed()
        if running and self._family is not None:
            await self._end_subagents(self._family, running, entries)
        return step, self._visible(entries)

    async def _end_subagents(
        self, family: Family, running: Sequence[SubagentStarted], entries: Sequence[LedgerEntry]
    ) -> None:
        """Nobody works on for a turn that has ended."""
        if any(isinstance(entry, TurnFinished | TurnFailed | TurnCancelled) for entry in entries):
            await family.cancel([each.session_id for each in running], ENDED)

    async def _prepared(self, prelude: Prelude, step: Step, *, is_claimed: bool) -> Step | None:
        """The step once what comes before a question is seen to; `None` when it is to be decided anew."""
        try:
            if await self.interrupt.wait(prelude.check(step.entries, self._facts)):
                return None
            if not prelude.wants_compaction(step.entries, self._facts):
                return step
            if self._journal.is_shared and not (is_claimed and self._has_only_inputs()):
                return Step((), "again")  # nothing is spent before the session is ours, and all is known
            turn_id = self._state.id if self._state is not None and self._state.ended is None else ""
            compacting = prelude.compact(step.entries, self._facts, turn_id)
            compacted = await self.interrupt.wait(compacting)
        except Interrupted:
            return None
        if compacted is not None:
            self._facts.append(compacted)
            self._journal.note((compacted,))
            if self._state is not None and self._journal.is_shared and turn_id:
                self._state.take(compacted)
        return None

    def _has_only_inputs(self) -> bool:
        return all(isinstance(fact, MessageReceived) for fact in self._facts)

    async def _appended(self, entries: Sequence[LedgerEntry], seen: int, *, is_claim: bool) -> bool:
        appending = self._journal.try_append(entries, seen)
        if is_claim and self._attendant is not None:
            appending = self._attendant.claiming(appending)
        try:
            return await appending
        except BaseException:
            self._is_unsure = True
            raise

    def _fail_once(self, error: Exception) -> None:
        """The turn fails with it; unless it is the failing that fails."""
        if self.planner.failure is not None:
            raise error
        self.planner.failure = error

    def _unwritable(self, error: Exception) -> None:
        """What came about cannot be written down: the turn fails with what it spent, at once."""
        turn, facts = self._journal.fold.open_turn, self._facts
        if self._epoch is None or turn is None or not facts or self.planner.failure is not None:
            raise error
        self._state, self._facts, self.planner.failure = turn.copy(), [], error
        for fact in facts:
            if isinstance(fact, MessageCompleted):
                self._state.count_completed(fact)

    def _check_epoch(self) -> None:
        """A runner whose claim is not the last one stops, also when the last is of its own process."""
        epoch = self._journal.fold.epoch
        if epoch != self._epoch:
            raise Superseded(f"session {self._journal.session_id!r} was claimed anew (epoch {epoch})")

    def _hear_subagents(self) -> None:
        """Sub-agents that have ended while others were started count, however the turn ends."""
        turn, state = self._journal.fold.open_turn, self._state
        if turn is None or state is None or not turn.finished:
            return
        for started in state.running_subagents:
            if started.subagent_id in turn.finished:
                state.take(turn.finished[started.subagent_id])

    def _look_again(self) -> None:
        """Others were first; or we ourselves were, and were broken off before we knew."""
        if self._is_unsure:
            self._is_unsure = False
            turn = self._journal.fold.open_turn
            self._state = turn.copy() if turn is not None else None
            turn_id = turn.id if turn is not None else None
            self._facts = [
                fact
                for fact in self._facts
                # What is of a turn that has ended stands, or came too late.
                if getattr(fact, "turn_id", turn_id) == turn_id and not self._journal.fold.has(fact)
            ]
            for fact in self._facts:
                if self._state is not None:
                    self._state.take(fact)
        self.look()

    def _owned(self, entries: list[LedgerEntry], claim: Claimed | None, step: Step) -> None:
        """With our claim, when it is the first step, and our release, when it is the last."""
        if claim is not None:
            entries.insert(len(self._facts), claim)
        if step.action == "wait" or (step.action == "end" and not self._leaves_unstarted(entries)):
            entries.append(Released(self._owner, self.planner.epoch))

    def _leaves_unstarted(self, entries: Sequence[LedgerEntry]) -> bool:
        """Whether sub-agents may not have been started: then it is not let go of, and so found again."""
        if not self.planner.is_spawning or self._state is None or not self._state.running_subagents:
            return False
        return not any(isinstance(entry, TurnFinished | TurnFailed | TurnCancelled) for entry in entries)

    async def _claimed(self) -> Claimed | None:
        """Our claim, which goes on with the turn that is open; it holds once it is written."""
        fold = self._journal.fold
        await self._journal.check_free(self._owner, take_over=self._take_over)
        self.planner.begin(fold.epoch + 1)
        self._state = fold.open_turn.copy() if fold.open_turn is not None else None
        if self._watched is not None:
            self._watched.resumed = self._state.id if self._state is not None else None
        completed = fold.turn.completed if fold.turn is not None else None
        self.planner.is_spawning = fold.owner is not None
        self._begun = frozenset(fold.intents), completed.message_id if completed is not None else ""
        if self._made_calls is not None:
            self._made_calls.begin(*self._begun)
        return Claimed(self._owner, fold.epoch + 1) if self._journal.is_shared else None

    def _batched(self, step: Step, entries: list[LedgerEntry]) -> Step:
        """With the calls to be seen to, and what is to be written before."""
        assert self._state is not None
        self._batch = self._calls.next(self._state)
        entries += self._batch.entries
        self.planner.is_spawning = self.planner.is_spawning or self._batch.kind == "spawn"
        return step if self._batch.kind != "answer" else Step(step.entries, "again")

    def _take(self, entries: Sequence[LedgerEntry]) -> None:
        """What is written is known. The facts were known when they came about."""
        self._epoch = self.planner.epoch
        if self._watched is not None:
            self._watched.unseen += entries
        for entry in entries[len(self._facts) :]:
            if entry.__class__ is TurnStarted:
                self._begin(cast(TurnStarted, entry))
            elif self._state is not None and self._journal.is_shared:
                self._state.take(entry)
        self._facts = []
        if not self._journal.is_shared:
            self._state = self._journal.fold.turn
        if self._prelude is not None:
            self._pay(self._prelude)

    def _pay(self, prelude: Prelude) -> None:
        """The turn pays for shorter views that came to nothing; for those before it, too."""
        if prelude.unpaid and self._state is not None and self._state.ended is None:
            for aside in prelude.unpaid:
                self._state.count((aside.usage,), aside.cost)
            prelude.unpaid.clear()

    def _begin(self, started: TurnStarted) -> None:
        if self._journal.is_shared:
            self._state = TurnState(started)
        self.planner.began()

    def _visible(self, entries: list[LedgerEntry]) -> list[LedgerEntry]:
        """An error is raised where there is somebody to raise it to, and not told twice."""
        if self.planner.failure is None or not self._raises:
            return entries
        return [entry for entry in entries if not isinstance(entry, TurnFailed)]

    def _know(self, *facts: LedgerEntry) -> None:
        """What came about, and is to be written with the next step."""
        assert self._state is not None
        self._facts += facts
        if not self._journal.is_shared:
            self._journal.note(facts)  # its state is ours: nobody else can write in between
            return
        for fact in facts:
            self._state.take(fact)

    # --- asking

    def _asked(self) -> ModelStarted:
        assert self._state is not None
        assert self._state.asking is not None
        return self._state.asking

    def _begun_attempt(self) -> Attempt:
        asking, self._questions.is_proving = self._asked(), False
        return self._channel.begin(asking.turn_id, asking.message_id, asking.attempt, self._journal.fold.seq)

    async def _next_request(self) -> Request:
        assert self._state is not None
        extra = self._calls.extra_tools if self._journal.fold.cut else ()
        questions, turn_id = self._questions, self._state.id
        request = questions.known(turn_id, extra) or await self.interrupt.wait(questions.ask(turn_id, extra))
        if self.interrupt.is_set:
            raise Interrupted
        return request

    def _heard(self, request: Request, response: Response | None) -> None:
        asking = self._asked()
        if response is None:
            raise StreamCut("the answer ended before it was complete")
        self._know(*self._answers.guarded(asking))
        self._know(completed(asking, request, response, self._books, self._clock))

    def _broken_off(self, error: BaseException, request: Request | None, attempt: Attempt) -> bool:
        """The turn keeps what was said, or fails; gives whether the error ends here."""
        self._channel.end()
        if not isinstance(error, Exception) and not is_meant_for_us(error):
            broken = BrokenOff(error)  # of the instructions, or of whoever else is asked on the way
            broken.__cause__ = error
            error = broken
        if isinstance(error, Interrupted | GeneratorExit | asyncio.CancelledError):
            self._keep_partial(request, attempt)
            return isinstance(error, Interrupted)
        if self._questions.is_proving or not isinstance(error, Exception):
            return False  # of the session's own store; others may use stores too
        if self._prelude is not None and self._prelude.take_in(error, attempt.message_id):
            self._answers.again = "the conversation was too long for the model"
            self._count_spent(error)
            return True
        said = self._answers.said
        if isinstance(error, GuardrailTripped) and said is not None and request is not None:
            self._heard(request, stopped(attempt.events, said, request, self._books))
        self._fail(error)  # and it is raised from there, where there is somebody to raise it to
        return True

    def _keep_partial(self, request: Request | None, attempt: Attempt) -> None:
        """A turn that is cut short keeps what was said and paid for."""
        if request is None or (self.planner.is_leaving and not self.planner.is_cancelled):
            return  # it will be asked again
        response = partial(attempt.events, request, self._books, self._answers.said)
        if response is not None:
            self._heard(request, response)

    def _fail(self, error: Exception) -> None:
        assert self._state is not None
        self.planner.failure = error
        self._count_spent(error)

    def _count_spent(self, error: Exception) -> None:
        assert self._state is not None
        spent = cast("tuple[Spent, ...]", getattr(error, "spent", ()))  # also of one that ends a retry
        if spent:
            self._state.count(spent, self._books.cost_of(spent, self._clock.now()))

    # --- calling

    async def _call(self) -> AsyncGenerator[RunEvent, None]:
        """The calls of the batch, and what they report while they run."""
        assert self._state is not None
        try:
            if self.interrupt.is_set:
                raise Interrupted  # it was ended while a reader had the turn
            if self._questions.is_stale():  # whoever has taken over since has seen to these calls
                await self.interrupt.wait(self._journal.prove())
            async with aclosing(self._calls.run(self._state, self._batch)) as events:
                async for event in events:
                    yield event
            self.planner.is_spawning = self.planner.is_spawning and self._batch.kind != "spawn"
        except Interrupted:
            await self._calls.stop()
        finally:
            self._know_calls()

    def _know_calls(self) -> None:
        """What the calls came to; a result that a guardrail stopped ends the turn."""
        taken = self._calls.taken()
        self._know(*taken)
        stopped = stopped_by([each for each in taken if isinstance(each, Guarded)])
        if stopped is not None and self.planner.failure is None:
            self.planner.failure = stopped

    async def _stop_calls(self) -> None:
        await self._calls.stop()
        self._know_calls()

    # --- leaving

    async def _leave(self) -> None:
        """Whoever read the run is gone, or the runner is stopped: what is known is written down."""
        if not self._is_unsure and self._has_nothing_open():
            return
        if self._epoch is None:
            self._facts = []  # what was brought along stands, or is not wanted any more
        if self._made_calls is not None:
            await self._stop_calls()
        if self._cancels:
            self.cancel("the reader left")
        self.planner.is_leaving = not self._cancels
        if not self._journal.is_shared:
            await self._commit()
            return
        await _patiently(asyncio.ensure_future(self._ended()))

    def _has_nothing_open(self) -> bool:
        return self._epoch is None or self._state is None or self._state.ended is not None

    async def _ended(self) -> None:
        with suppress(StorageError):  # it stays open, and is found by whoever comes next
            self.planner.stop_after_this()
            await self._commit()


def _as_raised(failure: BaseException) -> BaseException:
    """What ends a program ends it; a cancellation that nobody asked for does not end whoever waits."""
    cause = failure.__cause__ if isinstance(failure, BrokenOff) else None
    return failure if cause is None or isinstance(cause, asyncio.CancelledError) else cause


async def _patiently(task: asyncio.Task[None]) -> None:
    """Wait for the end, also when told to hurry; but not for ever, since a store may hang."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _GRACE_S
    while not task.done() and loop.time() < deadline:
        with suppress(asyncio.CancelledError):
            await asyncio.wait({task}, timeout=deadline - loop.time())
