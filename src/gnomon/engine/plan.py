"""What comes next in a session: decided from what is known, without doing anything.

A step is what is to be written and what is to be done once it stands. When others
have written in between, the same questions are asked again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from gnomon.engine.answer import OUTPUT_TOOL, Answer
from gnomon.engine.budget import Budget, Meter
from gnomon.engine.calls import is_suspended
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition
from gnomon.engine.fold import Fold
from gnomon.engine.guards import stopped_by
from gnomon.engine.ids import new_id
from gnomon.engine.turn import TurnState
from gnomon.errors import DefinitionChanged, InvalidOutput
from gnomon.types.codec import error_event
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    Guarded,
    LedgerEntry,
    MessageReceived,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    ToolFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
    TurnStop,
)
from gnomon.types.messages import ToolCall, ToolResult

__all__ = ["Planner", "Step", "cancelling", "has_expired", "has_work", "is_held_back", "wakes_at"]

_COMPLETE = ("end_turn", "tool_use", "stop_sequence")


class Step(NamedTuple):
    """What to write first, and what to do then."""

    entries: Sequence[LedgerEntry]
    action: Literal["ask", "call", "again", "end", "wait"]


_END = Step((), "end")


class Planner:
    """The decisions of one runner, turn after turn."""

    epoch: int = 0
    failure: BaseException | None = None
    is_cancelled: bool = False
    reason: str = ""
    is_leaving: bool = False
    """Whether the runner is to let go of the session, whatever is open in it."""
    is_again: bool = False
    """Whether the model is asked for a message that it was asked for before."""
    is_calling: bool = False
    """Whether calls are under way: the step that a cancel may have to wait for."""
    is_spawning: bool = False
    """Whether sub-agents of the turn may not have been started, though the ledger names them."""
    _attempts: int = 0
    _stopped: BaseException | None = None
    """What the turn that is about to begin ends with at once."""

    def __init__(
        self,
        agent: Definition,
        clock: Clock,
        *,
        turns: int | None,
        turn_id: str | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._agent = agent
        self._clock = clock
        self._meter = Meter(budget or agent.budget, clock)
        self._turns = turns
        self._turn_id = turn_id
        """How many turns may still begin; `None` is any number."""
        self.guarded: dict[str, list[Guarded]] = {}
        """What guardrails have against messages, of those that they were shown."""

    def begin(self, epoch: int) -> None:
        """A runner has claimed the session, or is about to."""
        self.epoch = epoch
        self._meter.start()

    def seconds_left(self) -> float | None:
        """How long the turn may still run, where that is limited."""
        return self._meter.seconds_left

    def stop_after_this(self) -> None:
        """No more turns begin."""
        self._turns = 0

    def next(self, fold: Fold, turn: TurnState | None, facts: Sequence[LedgerEntry]) -> Step:
        """What comes after the facts, which are not in the fold yet."""
        self._stopped = None
        if turn is None or turn.ended is not None:
            return self._between(fold, facts, is_cancelled=fold.cancel is not None)
        ending = self._ending(fold, turn)
        if ending is not None:
            return self._ended(fold, ending)
        return _END if self.is_leaving else self._within(fold, turn)

    def _ended(self, fold: Fold, ending: Sequence[LedgerEntry]) -> Step:
        after = self._between(fold, ())
        return Step((*ending, *after.entries), after.action)

    # --- between turns

    def _between(self, fold: Fold, facts: Sequence[LedgerEntry], *, is_cancelled: bool = False) -> Step:
        if self._turns == 0 or self.is_leaving or not (inputs := self._inputs(fold, facts)):
            return _END
        agent = self._agent
        turn_id = self._turn_id or new_id("turn")
        started = TurnStarted(turn_id, agent.name, agent.model, agent.hash, inputs=inputs)
        if is_cancelled:  # before it began
            reason = fold.cancel.reason if fold.cancel is not None else ""
            unseen = (*self._against(turn_id, inputs), *self._unchecked(turn_id, inputs))
            return Step((started, *unseen, TurnCancelled(turn_id, reason, cost=0.0)), "again")
        guarded = self._against(turn_id, inputs)
        self._stopped = stopped_by(guarded) if guarded else None
        if self._stopped is not None:
            return Step(
                (started, *guarded, TurnFailed(turn_id, error_event(self._stopped), cost=0.0)), "again"
            )
        return Step((started, *guarded, self._asked(turn_id)), "ask")

    def _against(self, turn_id: str, inputs: Sequence[str]) -> list[Guarded]:
        """What guardrails have against the messages that the model would be shown now."""
        found = [each for message_id in inputs for each in self.guarded.get(message_id, ())]
        return [msgspec.structs.replace(each, turn_id=turn_id) for each in found]

    def _unchecked(self, turn_id: str, inputs: Sequence[str]) -> list[Guarded]:
        """Messages that no guardrail was shown, and so no model is."""
        guards = self._agent.guards
        if guards is None or not guards.input:
            return []
        return [
            Guarded(
                turn_id=turn_id,
                guardrail=guards.input[0].name,
                position="input",
                reason="cancelled before it was checked",
                message_id=message_id,
            )
            for message_id in inputs
            if message_id not in self.guarded
        ]

    def _inputs(self, fold: Fold, facts: Sequence[LedgerEntry]) -> tuple[str, ...]:
        """One turn a message; what is handed in together is answered together."""
        given = {entry.message_id: entry for entry in facts if isinstance(entry, MessageReceived)}
        inputs: list[str] = []
        for received in ({at: each.received for at, each in fold.waiting.items()} | given).values():
            inputs.append(received.message_id)
            if not received.joins_next:
                break
        return tuple(inputs)

    def began(self) -> None:
        """A turn has begun."""
        self._meter.start()
        self._turn_id = None
        self.failure, self.is_cancelled, self.reason = self._stopped, False, ""
        if self._turns is not None:
            self._turns = max(self._turns - 1, 0)  # no more may begin, said while this one was written

    # --- the end of a turn

    def _ending(self, fold: Fold, turn: TurnState) -> Sequence[LedgerEntry] | None:
        """The entries that end the turn, when it is to end."""
        if self.is_cancelled or (fold.cancel is not None and not self._is_in_step(fold.cancel, turn)):
            return self._cancelled(fold, turn)
        if self.failure is not None:
            return self._failed(turn, self.failure)
        if turn.agent_hash != self._agent.hash and self._agent.on_change == "refuse":
            return self._failed(turn, self._changed(turn))
        if (turn.calls and turn.open_calls) or turn.asking is not None or turn.completed is None:
            return None
        return self._finished(fold, turn)

    def _is_in_step(self, asked: CancelRequested, turn: TurnState) -> bool:
        """Whether the step that is to end first has not ended."""
        return asked.mode == "after_step" and self.is_calling and not turn.is_blocked

    def _cancelled(self, fold: Fold, turn: TurnState) -> Sequence[LedgerEntry]:
        reason = self.reason or (fold.cancel.reason if fold.cancel is not None else "")
        return cancelling(turn, reason, self._agent)

    def _failed(self, turn: TurnState, error: BaseException) -> Sequence[LedgerEntry]:
        results = _closed(
            turn, self._agent, "interrupted", "the turn failed before this was known to have had its effect"
        )
        return (*results, TurnFailed(turn.id, error_event(error), turn.usage, _cost(turn)))

    def _finished(self, fold: Fold, turn: TurnState) -> Sequence[LedgerEntry] | None:
        """A turn is over when its message calls no tool, or a limit is reached; a label decides nothing."""
        assert turn.completed is not None
        limit = self._meter.reached(turn)
        stop: TurnStop | None = limit
        if not turn.calls or self._has_output(turn):
            stop = turn.completed.response.stop_reason
            if _steers(fold) or self._lacks_output(turn, stop):
                stop = limit
        return None if stop is None else (TurnFinished(turn.id, stop, turn.rounds, turn.usage, _cost(turn)),)

    def _has_output(self, turn: TurnState) -> bool:
        """Whether the output tool, where there is one, took what the last message gave it."""
        answer = self._agent.answer
        if answer is None or answer.mode != "tool":
            return False
        return any(
            call.name == OUTPUT_TOOL and turn.results[call.id].status == "ok"
            for call in turn.calls
            if call.id in turn.results
        )

    def _lacks_output(self, turn: TurnState, stop: TurnStop) -> bool:
        """Whether the model is to be asked for a better output."""
        answer = self._agent.answer
        if answer is None or stop not in _COMPLETE:
            return False
        try:
            answer.value(turn.messages)
        except InvalidOutput:
            return True
        return False

    # --- within a turn

    def _within(self, fold: Fold, turn: TurnState) -> Step:
        agent = self._agent
        if turn.agent_hash == agent.hash and not turn.is_paused:
            return self._inside(fold, turn)
        if turn.agent_hash != agent.hash and agent.on_change == "pause":
            paused = TurnPaused(turn.id, turn.agent_hash, str(self._changed(turn)))
            return Step(() if turn.is_paused else (paused,), "wait")
        after = self._inside(fold, turn)
        return Step((TurnResumed(turn.id, agent.hash, agent.on_change), *after.entries), after.action)

    def _inside(self, fold: Fold, turn: TurnState) -> Step:
        if turn.open_calls:
            expired = _expired(turn, self._clock.now()) if turn.requests or turn.questions else ()
            if expired:
                return Step(expired, "again")
            # What runs beside a call that asks something is not given up: it would be done a second time.
            is_blocked = turn.is_blocked and not self.is_calling
            is_idle = is_blocked or (self._is_settled(turn) and is_suspended(turn, self._agent, fold.rules))
            return Step((), "wait" if is_idle else "call")
        return self._go_on(fold, turn)

    def _is_settled(self, turn: TurnState) -> bool:
        """Whether there are sub-agents, and all of them are known to have been started."""
        return bool(turn.subagents) and not self.is_spawning

    def _go_on(self, fold: Fold, turn: TurnState) -> Step:
        """Ask the model, with what there is to tell it."""
        steers = _steers(fold)
        repair = () if steers or turn.asking is not None else self._repair(turn)
        if isinstance(repair, InvalidOutput):
            self.failure = repair
            return self._ended(fold, self._failed(turn, repair))
        inputs = (*steers, *(entry.message_id for entry in repair))
        guarded = self._against(turn.id, inputs)
        stopped = stopped_by(guarded) if guarded else None
        if stopped is not None:
            self.failure = stopped
            # What stopped it waits no longer once that stands; only then may the next turn begin.
            return Step((*guarded, *self._failed(turn, stopped)), "again")
        near = self._meter.near(turn)
        return Step((*near, *repair, *guarded, self._asked(turn.id, turn, inputs)), "ask")

    def _asked(
        self, turn_id: str, turn: TurnState | None = None, inputs: tuple[str, ...] = ()
    ) -> ModelStarted:
        """Asked anew, a message keeps its id, and its attempt is a later one."""
        again = turn.asking if turn is not None else None
        self.is_again = again is not None
        self._attempts = self._attempts + 1 if again is not None else 1
        message_id = again.message_id if again is not None else new_id("msg")
        return ModelStarted(turn_id, message_id, (self.epoch, self._attempts), inputs)

    def _repair(self, turn: TurnState) -> tuple[MessageReceived, ...] | InvalidOutput:
        """What to tell a model whose output does not fit; or, after too many times, the end of it."""
        answer = self._agent.answer
        if answer is None or turn.completed is None or (turn.calls and not self._has_output(turn)):
            return () if answer is None or not _is_refused(turn, answer) else _give_up(turn)
        try:
            answer.value(turn.messages)
        except InvalidOutput as error:
            if turn.repairs >= answer.repairs:
                return error
            return (MessageReceived(new_id("fix"), answer.complaint(error)),)
        return ()

    def _changed(self, turn: TurnState) -> DefinitionChanged:
        name = self._agent.name
        return DefinitionChanged(
            f"agent {name!r} is defined otherwise now than when turn {turn.id} began",
            hint="resume the session to go on under the new definition, or cancel the turn",
        )


def cancelling(turn: TurnState, reason: str, agent: Definition) -> Sequence[LedgerEntry]:
    """What ends a turn that is open, with a result for every call."""
    results = _closed(turn, agent, "cancelled", "cancelled before it was known to have had its effect")
    return (*results, TurnCancelled(turn.id, reason, turn.usage, _cost(turn)))


def has_work(fold: Fold, agent: Definition, now: datetime | None = None) -> bool:
    """Whether a runner would find something to do: a turn that can go on, or a message that waits.

    By `now` what was asked for may not have been given in time.
    """
    turn = fold.open_turn
    if turn is None:
        return bool(fold.waiting)
    if fold.cancel is not None:
        return True
    if is_held_back(turn, agent):
        return False
    if now is not None and (turn.requests or turn.questions) and _expired(turn, now):
        return True
    if turn.is_blocked:
        return False
    # Whoever was lost before it let go may not have come to start what it has named.
    is_settled = bool(turn.subagents) and fold.owner is None
    return not (is_settled and is_suspended(turn, agent, fold.rules))


def wakes_at(fold: Fold) -> datetime | None:
    """When to look at a session that waits for a person: nobody may come."""
    turn = fold.open_turn
    asked = (*turn.open_requests, *turn.open_questions) if turn is not None else ()
    return min((each.expires_at for each in asked if each.expires_at), default=None)


def has_expired(turn: TurnState, now: datetime) -> bool:
    """Whether nobody decided or answered in time, here or a sub-agent: the turn is about to go on without."""
    asked = (*turn.open_requests, *turn.told_requests, *turn.open_questions, *turn.told_questions)
    return any(each.expires_at is not None and each.expires_at <= now for each in asked)


def _expired(turn: TurnState, now: datetime) -> tuple[ApprovalDecided | QuestionAnswered, ...]:
    """The requests and the questions that nobody has answered in time."""

    def is_late(asked: ApprovalRequested | QuestionAsked) -> bool:
        return asked.expires_at is not None and asked.expires_at <= now

    requests = (
        ApprovalDecided(each.approval_id, "expired", by="") for each in turn.open_requests if is_late(each)
    )
    questions = (
        QuestionAnswered(each.call_id, question_id=each.question_id, expired=True)
        for each in turn.open_questions
        if is_late(each)
    )
    return (*requests, *questions)


def is_held_back(turn: TurnState, agent: Definition) -> bool:
    """Whether a turn is paused, and this agent would not go on with it unasked."""
    return turn.is_paused and turn.agent_hash != agent.hash and agent.on_change == "pause"


def _steers(fold: Fold) -> tuple[str, ...]:
    if not fold.waiting:
        return ()
    return tuple(message_id for message_id, waiting in fold.waiting.items() if waiting.received.steer)


def _closed(
    turn: TurnState, agent: Definition, status: Literal["cancelled", "interrupted"], why: str
) -> list[ToolFinished]:
    """Every call gets its one result, whatever ends the turn."""
    told = [
        (call, why if call.id in turn.intents else _unbegun(call, turn, agent)) for call in turn.open_calls
    ]
    return [ToolFinished(turn.id, ToolResult.of(call, text, status=status)) for call, text in told]


def _unbegun(call: ToolCall, turn: TurnState, agent: Definition) -> str:
    """Of a call without an intent: one that only reads has none, and may have been under way."""
    tool = agent.tools.get(call.name)
    may_have_run = tool.read_only if tool is not None else turn.agent_hash != agent.hash
    return "no result: the turn ended before" if may_have_run else "not run: the turn ended before"


def _cost(turn: TurnState) -> float | None:
    return None if turn.cost is None else float(turn.cost)


def _is_refused(turn: TurnState, answer: Answer) -> bool:
    """Whether the output tool has refused too often."""
    return answer.mode == "tool" and _refusals(turn) > answer.repairs


def _refusals(turn: TurnState) -> int:
    return sum(
        result.name == OUTPUT_TOOL and result.status == "error"
        for message in turn.messages
        for result in message.tool_results
    )


def _give_up(turn: TurnState) -> InvalidOutput:
    last = next(
        result.text for result in reversed(turn.messages[-1].tool_results) if result.name == OUTPUT_TOOL
    )
    return InvalidOutput(f"the model's output was refused {_refusals(turn)} times: {last}")
