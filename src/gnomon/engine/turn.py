"""One turn, as its events make it: what was said, what it used, and what is still open in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import cast

import msgspec

from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    BudgetWarning,
    Compacted,
    Event,
    Guarded,
    MessageCompleted,
    ModelStarted,
    QuestionAnswered,
    QuestionAsked,
    SubagentFinished,
    SubagentStarted,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall, ToolResult
from gnomon.types.requests import Usage, add_usage

REPAIR = "fix_"
"""What the id of a message begins with by which the engine asks for a better output."""

__all__ = ["REPAIR", "Ended", "TurnMark", "TurnState"]

Ended = TurnFinished | TurnFailed | TurnCancelled


class TurnMark(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a checkpoint keeps of an open turn that began before the view; never messages."""

    started: TurnStarted
    seq: int
    rounds: int = 0
    repairs: int = 0
    usage: Usage = Usage()
    cost: str | None = "0"
    agent_hash: str = ""


class TurnState:
    """The latest turn of a session. Whoever runs it and whoever reads it take in the same events."""

    completed: MessageCompleted | None = None
    asking: ModelStarted | None = None
    """The call of the model that has not been answered."""
    ended: Ended | None = None
    ended_at: datetime | None = None
    is_paused: bool = False
    rounds: int = 0
    repairs: int = 0
    """How often the model was told that its output does not fit."""
    usage: Usage = Usage()
    cost: Decimal | None = Decimal(0)
    calls: tuple[ToolCall, ...] = ()
    called_at: int = 0
    """Where the message with the calls stands."""

    def __init__(self, started: TurnStarted, at: datetime | None = None, seq: int = 0) -> None:
        self.id = started.turn_id
        self.started = started
        self.seq = seq
        """Where it stands in the ledger."""
        self.started_at = at
        self.agent_hash = started.agent_hash
        self.messages: list[Message] = []
        """What it added to the conversation, the user's message first."""
        self.results: dict[str, ToolResult] = {}
        self.intents: dict[str, str] = {}
        self.questions: dict[str, QuestionAsked] = {}
        self.answers: dict[str, QuestionAnswered] = {}
        self.requests: dict[str, ApprovalRequested] = {}
        """The calls of the last message that leave was asked for."""
        self.decisions: dict[str, ApprovalDecided] = {}
        """What was decided, by the id of the request; the first answer holds."""
        self.subagents: dict[str, SubagentStarted] = {}
        """The calls of the last message that sub-agents see to."""
        self.finished: dict[str, SubagentFinished] = {}
        """The sub-agents that have ended, by their id."""
        self.told: dict[str, ApprovalRequested | QuestionAsked] = {}
        """What sub-agents need leave for, or ask, by the id of the request or of the question."""
        self.answered: dict[str, QuestionAnswered] = {}
        """What was answered to them, by the id of the question."""
        self.warned: set[str] = set()
        """The limits that were said to be near."""
        self.guarded: set[tuple[str, str]] = set()
        """The guardrails that had something against calls or results, and against which."""

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last message that have no result yet, in their order."""
        if not self.calls:
            return ()
        results = self.results
        return tuple(call for call in self.calls if call.id not in results)

    @property
    def open_questions(self) -> tuple[QuestionAsked, ...]:
        """What a person has yet to answer."""
        if not self.questions:
            return ()
        return tuple(
            asked
            for call_id, asked in self.questions.items()
            if call_id not in self.results and call_id not in self.answers
        )

    @property
    def open_requests(self) -> tuple[ApprovalRequested, ...]:
        """The calls that nobody has given or refused leave for."""
        if not self.requests:
            return ()
        return tuple(
            asked
            for call_id, asked in self.requests.items()
            if call_id not in self.results and asked.approval_id not in self.decisions
        )

    @property
    def running_subagents(self) -> tuple[SubagentStarted, ...]:
        """Those that work for this turn, and have not ended."""
        return tuple(each for each in self.subagents.values() if each.subagent_id not in self.finished)

    def finished_of(self, call_id: str) -> SubagentFinished | None:
        """How the sub-agent ended that saw to a call, if it has."""
        started = self.subagents.get(call_id)
        return self.finished.get(started.subagent_id) if started is not None else None

    @property
    def told_requests(self) -> tuple[ApprovalRequested, ...]:
        """What sub-agents that still work need leave for, and nobody has decided."""
        return tuple(each for each in self._told() if isinstance(each, ApprovalRequested))

    @property
    def told_questions(self) -> tuple[QuestionAsked, ...]:
        """What sub-agents that still work ask, and nobody has answered."""
        return tuple(each for each in self._told() if isinstance(each, QuestionAsked))

    def _told(self) -> Sequence[ApprovalRequested | QuestionAsked]:
        if not self.told:
            return ()
        running = {each.session_id for each in self.running_subagents}
        settled = self.decisions.keys() | self.answered.keys()
        return [each for at, each in self.told.items() if at not in settled and each.path[0] in running]

    @property
    def is_waiting(self) -> bool:
        """Whether a person has to answer something, here or in a sub-agent."""
        return self.is_blocked or bool(self._told())

    @property
    def is_blocked(self) -> bool:
        """Whether it goes on only when a person has answered: calls before the one that waits may run."""
        if self.open_questions:
            return True
        asked = self.requests.get(self.open_calls[0].id) if self.requests and self.open_calls else None
        return asked is not None and asked.approval_id not in self.decisions

    def take(self, entry: Event, at: datetime | None = None, *, counts: bool = True) -> Message | None:
        """The next event; the message that it completes, if it does. `counts` is off for what is counted."""
        kind = entry.__class__
        if kind is MessageCompleted:
            return self._complete(cast(MessageCompleted, entry), counts)
        if kind is ToolFinished:
            return self._answer(cast(ToolFinished, entry).result)
        if kind is ModelStarted:
            self._ask(cast(ModelStarted, entry), counts)
        else:
            self._note(entry, at, counts)
        return None

    def _ask(self, started: ModelStarted, counts: bool) -> None:
        self.asking = started
        if started.inputs and counts:
            self.repairs += sum(message_id.startswith(REPAIR) for message_id in started.inputs)

    def _note(self, entry: Event, at: datetime | None, counts: bool) -> None:
        match entry:
            case ToolIntent(call_id=call_id, key=key):
                self.intents[call_id] = key
                self.answers.pop(call_id, None)  # leave to run again is used up by the run
                self.questions.pop(call_id, None)
            case QuestionAsked(path=(_, *_)):
                self.told.setdefault(entry.question_id, entry)
            case QuestionAsked(call_id=call_id):
                self.questions[call_id] = entry
                self.answers.pop(call_id, None)
            case QuestionAnswered(question_id=question_id) if question_id in self.told:
                self.answered.setdefault(question_id, entry)
            case QuestionAnswered(call_id=call_id) if self.is_awaited(entry):
                self.answers[call_id] = entry
            case Guarded(guardrail=guardrail, call_id=call_id) if call_id:
                self.guarded.add((guardrail, call_id))
            case SubagentStarted(call_id=call_id):
                self.subagents.setdefault(call_id, entry)
            case ApprovalRequested(path=(_, *_)):
                self.told.setdefault(entry.approval_id, entry)
            case ApprovalRequested(call=call):
                self.requests.setdefault(call.id, entry)
            case ApprovalDecided(approval_id=approval_id):
                known = approval_id in self.told
                if known or any(asked.approval_id == approval_id for asked in self.requests.values()):
                    self.decisions.setdefault(approval_id, entry)
            case SubagentFinished(turn_id=self.id, subagent_id=ended, usage=usage, cost=cost):
                if self.finished.setdefault(ended, entry) is entry and counts:
                    self.count((usage,), None if cost is None else Decimal(str(cost)))
            case Compacted(usage=usage, cost=cost) if counts:
                self.count((usage,), None if cost is None else Decimal(str(cost)))
            case BudgetWarning(kind=kind):
                self.warned.add(kind)
            case TurnPaused():
                self.is_paused = True
            case TurnResumed(agent_hash=agent_hash):
                self.is_paused, self.agent_hash = False, agent_hash
            case TurnFinished() | TurnFailed() | TurnCancelled():
                self.ended, self.ended_at, self.asking = entry, at, None
            case _:
                pass

    def is_awaited(self, answer: QuestionAnswered) -> bool:
        """Whether it is the first answer to a question that was asked here."""
        asked = self.questions.get(answer.call_id)
        if asked is None or answer.call_id in self.answers:
            return False
        return answer.question_id in ("", asked.question_id)

    def replace(self, old: Message, new: Message | None) -> None:
        """What it was given is another message, or none: its messages may be handed to another run."""
        shown = [(new if each is old else each) for each in self.messages]
        self.messages = [each for each in shown if each is not None]

    def count(self, usages: Sequence[Usage], cost: Decimal | None) -> None:
        """What was spent without a message to show for it."""
        self.usage = add_usage((self.usage, *usages))
        self.cost = None if self.cost is None or cost is None else self.cost + cost

    def count_completed(self, completed: MessageCompleted) -> None:
        """What a message was paid for with, also one that could not be kept."""
        cost = None if completed.cost is None else Decimal(str(completed.cost))
        self.count((*completed.response.discarded, completed.response.usage), cost)

    def _complete(self, completed: MessageCompleted, counts: bool) -> Message:
        response = completed.response
        if counts:
            self.rounds += 1
            self.count_completed(completed)
        self.asking, self.completed = None, completed
        self.calls = response.message.tool_calls
        if self.results:
            self.results, self.intents, self.questions, self.answers = {}, {}, {}, {}
            self.requests, self.decisions, self.told, self.answered = {}, {}, {}, {}
            self.subagents, self.finished = {}, {}
        self.messages.append(response.message)
        return response.message

    def _answer(self, result: ToolResult) -> Message | None:
        """A call has one result: of two, the first holds. All of them are one message."""
        wanted = [call.id for call in self.calls]
        if result.call_id in self.results or result.call_id not in wanted:
            return None
        self.results[result.call_id] = result
        if len(self.results) < len(wanted):
            return None
        message = Message.tool(*(self.results[call_id] for call_id in wanted))
        self.messages.append(message)
        return message

    def copy(self) -> TurnState:
        """The same, to go on from by itself."""
        same = TurnState.__new__(TurnState)
        same.__dict__.update(self.__dict__)
        same.messages = list(self.messages)
        same.results, same.intents = dict(self.results), dict(self.intents)
        same.questions, same.answers = dict(self.questions), dict(self.answers)
        same.guarded, same.warned = set(self.guarded), set(self.warned)
        same.subagents, same.finished = dict(self.subagents), dict(self.finished)
        same.told, same.answered = dict(self.told), dict(self.answered)
        same.requests, same.decisions = dict(self.requests), dict(self.decisions)
        return same

    # --- how a checkpoint keeps it

    def mark(self) -> TurnMark:
        return TurnMark(
            started=self.started,
            seq=self.seq,
            rounds=self.rounds,
            repairs=self.repairs,
            usage=self.usage,
            cost=None if self.cost is None else str(self.cost),
            agent_hash=self.agent_hash,
        )

    @classmethod
    def of(cls, mark: TurnMark) -> TurnState:
        state = cls(mark.started, seq=mark.seq)
        state.rounds, state.usage, state.agent_hash = mark.rounds, mark.usage, mark.agent_hash
        state.repairs = mark.repairs
        state.cost = None if mark.cost is None else Decimal(mark.cost)
        return state
