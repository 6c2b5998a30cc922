"""What a session has come to: the sum of its events, taken in one after another.

The same events give the same fold, wherever they are read. A snapshot carries
what lies before the current view, so that a long session is opened from there.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import msgspec

from gnomon._payload import skimmed_message, skimmed_received
from gnomon.engine.history import interrupted
from gnomon.engine.turn import REPAIR, Ended, TurnMark, TurnState
from gnomon.engine.view import View
from gnomon.types.events import (
    ApprovalDecided,
    CancelRequested,
    Claimed,
    Compacted,
    Event,
    Guarded,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAsked,
    Released,
    SubagentFinished,
    ToolFinished,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import Message, Meta, ToolCall
from gnomon.types.records import LedgerEvent
from gnomon.types.requests import Usage, add_usage

__all__ = ["VERSION", "Fold", "Snapshot", "Waiting"]

_RECENT = 1_000
"""How many messages are remembered by their id, to know one that is sent again."""

_SAID = frozenset(
    {
        "message_completed",
        "message_received",
        "turn_started",
        "model_started",
        "tool_finished",
        "compacted",
        "guarded",
    }
)
"""What makes the conversation, and so is looked at also where a snapshot covers it."""

_ENDS = frozenset({"turn_finished", "turn_cancelled", "turn_failed"})

_seq = attrgetter("seq")


class Waiting(NamedTuple):
    """A message that no turn has taken yet, with its place."""

    seq: int
    received: MessageReceived


class Snapshot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of a checkpoint: where the view starts, what is open, totals; never messages."""

    view_start: int = 1
    owner: str | None = None
    epoch: int = 0
    turn: TurnMark | None = None
    last_turn: int = 0
    """Where the latest turn begins, open or ended."""
    waiting: dict[str, int] = {}
    early: tuple[int, ...] = ()
    """Where messages stand that came before the view, and that turns within it have taken."""
    recent: dict[str, int] = {}
    usage: Usage = Usage()
    cost: float | None = 0.0
    cancel: CancelRequested | None = None
    rules: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """The sub-agents that were at work when their turn ended, and of whose end nothing is known."""
    version: int = 0
    """Of this form; written by hand, since a default would not be."""


VERSION = 2


class Fold:
    """The state of a session after `seq` events."""

    def __init__(
        self, snapshot: Snapshot | None = None, seq: int = 0, messages: Iterable[Message] = ()
    ) -> None:
        start = snapshot or Snapshot()
        self.seq = start.view_start - 1
        """The last event that was taken in."""
        self.view_start = start.view_start
        self.owner, self.epoch = start.owner, start.epoch
        self.usage, self.cost = start.usage, start.cost
        self.recent = dict(start.recent)
        """The ids of messages that came lately, and where they stand."""
        self.waiting: dict[str, Waiting] = {}
        """The messages that no turn has taken, in the order in which they came."""
        self.cancel: CancelRequested | None = start.cancel
        """What somebody wants to be done to the open turn."""
        self.rules = start.rules
        """What leave was given for once and for all, here: the text of rules."""
        self.left = start.left
        """The sub-agents that were at work when their turn ended, until it is known what they cost."""
        self.turn: TurnState | None = None
        """The latest turn, open or ended."""
        self.taken: dict[str, int] = {}
        """The messages that the latest turn took, and where they stand."""
        self.cut: dict[str, int] = {}
        """The calls whose results were too long to be shown whole, and where those stand."""
        if start.turn is not None and start.turn.seq < start.view_start:
            self.turn = TurnState.of(start.turn)
        self._known = seq if snapshot is not None else 0
        self.settled = min(self._known, start.last_turn - 1) if snapshot is not None else 0
        """Up to here nothing is open, and all is counted: what was said is all there is to know."""
        self._view = View(messages)

    @property
    def messages(self) -> Sequence[Message]:
        """What a model is shown: the current view."""
        return self._view.messages

    @property
    def places(self) -> Sequence[int]:
        """Where each of those messages stands; 0 is before all events."""
        return self._view.places()

    @property
    def open_turn(self) -> TurnState | None:
        return self.turn if self.turn is not None and self.turn.ended is None else None

    @property
    def turn_id(self) -> str | None:
        return self.turn.id if self.turn is not None and self.turn.ended is None else None

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last message that have no result yet."""
        return self.turn.open_calls if self.turn is not None else ()

    @property
    def intents(self) -> dict[str, str]:
        """The open calls that had begun to run, and the key of each."""
        turn = self.turn
        return {} if turn is None else {at: key for at, key in turn.intents.items() if at not in turn.results}

    def has_result(self, call_id: str) -> bool:
        """Whether that call of the last message is answered."""
        return self.turn is not None and call_id in self.turn.results

    def has(self, entry: LedgerEntry) -> bool:
        """Whether that stands already, of what a runner comes to know in the latest turn."""
        turn = self.turn
        match entry:
            case MessageReceived(message_id=message_id):
                return message_id in self.recent
            case MessageCompleted(message_id=message_id):
                completed = turn.completed if turn is not None else None
                return completed is not None and completed.message_id == message_id
            case ToolFinished(result=result):
                return self.has_result(result.call_id)
            case QuestionAsked(call_id=call_id):
                return turn is not None and call_id in turn.questions
            case Guarded(guardrail=guardrail, call_id=call_id) if call_id:
                return turn is not None and (guardrail, call_id) in turn.guarded
            case _:
                return False

    def skim(self, events: Sequence[LedgerEvent], start: int = 0) -> int:
        """Take in events of turns that are settled, as far as that can be done without reading them whole.

        Gives the place of the first that has to be read.
        """
        at = self._skimmed(events, start)
        if at > start:
            self.seq = events[at - 1].seq
        return at

    def _skimmed(self, events: Sequence[LedgerEvent], start: int) -> int:
        if self.turn is not None and self.turn.open_calls:  # they are closed by what comes after them
            return start
        end = bisect_right(events, self.settled, start, key=_seq)
        waiting, show = self.waiting, self._view.add
        # Of a long session thousands pass through here.
        for at in range(start, end):
            event = events[at]
            kind = event.type
            if kind not in _SAID:
                if waiting and kind in _ENDS:  # some of them may have been for this turn alone
                    return at
                continue
            if kind == "message_completed":
                message = skimmed_message(event)
                if message is None:
                    return at
                show(event.seq, message)
            elif kind == "message_received":
                received = skimmed_received(event)
                if received is None:
                    return at
                waiting[received.message_id] = Waiting(event.seq, received)
            elif kind == "turn_started" and _takes_all(event, waiting):
                message_id, waited = waiting.popitem()
                self.taken = {message_id: waited.seq}
                show(waited.seq, waited.received.message)
            elif kind != "model_started" or b'"inputs"' in event.payload:
                return at
        return end

    def snapshot(self) -> Snapshot:
        turn = self.open_turn
        return Snapshot(
            view_start=self.view_start,
            owner=self.owner,
            epoch=self.epoch,
            turn=turn.mark() if turn is not None else None,
            last_turn=self.turn.seq if self.turn is not None else 0,
            waiting={message_id: waiting.seq for message_id, waiting in self.waiting.items()},
            early=self._view.early(self.view_start) if self.view_start > 1 else (),
            recent=self.recent,
            usage=self.usage,
            cost=self.cost,
            cancel=self.cancel,
            rules=self.rules,
            left=self.left,
            version=VERSION,
        )

    def state(self) -> Meta:
        """The snapshot as a checkpoint keeps it."""
        return msgspec.to_builtins(self.snapshot())

    def take(self, seq: int, event: Event, at: datetime | None = None) -> None:
        """The next event. Of those that the snapshot covers, only the conversation needs to know."""
        self.seq = seq
        handler = _HANDLERS.get(event.__class__)
        if handler is not None:
            handler(self, event, at, seq > self._known)
        elif self.turn is not None:
            self.turn.take(event, at)

    def wait(self, seq: int, received: MessageReceived) -> None:
        """A message that stands before the view, and that no turn has taken."""
        self.waiting[received.message_id] = Waiting(seq, received)

    # Each of these takes in one kind of event; `counts` is off for what a snapshot has counted.

    def _receive(self, received: MessageReceived, at: datetime | None, counts: bool) -> None:
        self.waiting[received.message_id] = Waiting(self.seq, received)
        if counts:
            self._remember(received.message_id, self.seq)

    def _claim(self, claimed: Claimed, at: datetime | None, counts: bool) -> None:
        if counts:
            self.owner, self.epoch = claimed.owner, claimed.epoch

    def _release(self, released: Released, at: datetime | None, counts: bool) -> None:
        if counts and released.epoch == self.epoch:
            self.owner = None

    def _start(self, started: TurnStarted, at: datetime | None, counts: bool) -> None:
        self._close_calls()
        self.turn = TurnState(started, at, self.seq)
        self.taken = {}
        self._include(started.inputs or tuple(self.waiting))

    def _want_cancel(self, asked: CancelRequested, at: datetime | None, counts: bool) -> None:
        if self.seq <= self.settled:
            return  # the turn it was meant for has ended, be its end read or not
        # One that comes when there is nothing to do must not end what comes after it.
        if self.open_turn is None and not self.waiting:
            return
        if self.cancel is None or self.cancel.mode != "now":  # what was to end at once still is
            self.cancel = asked

    def _compact(self, compacted: Compacted, at: datetime | None, counts: bool) -> None:
        if counts:
            self.view_start = compacted.view_start
            if not compacted.turn_id:  # by hand, between turns
                self._count(compacted.usage, compacted.cost)
        self._spend(compacted, at, counts)
        head = compacted.head if compacted.summary is None else (compacted.summary, *compacted.head)
        self._view.start(compacted.view_start, head)

    def _decide(self, decided: ApprovalDecided, at: datetime | None, counts: bool) -> None:
        if counts and decided.rule and decided.rule not in self.rules:
            self.rules = (*self.rules, decided.rule)
        if self.turn is not None:
            self.turn.take(decided, at)

    def _spend(self, spent: Compacted | SubagentFinished, at: datetime | None, counts: bool) -> None:
        """What was paid for within a turn, but not for a message of it."""
        turn = self.turn
        if isinstance(spent, SubagentFinished) and spent.subagent_id in self.left:
            if counts:  # of a turn that did not wait for it
                self.left = tuple(each for each in self.left if each != spent.subagent_id)
                self._count(spent.usage, spent.cost)
        elif turn is not None and turn.id == spent.turn_id and turn.ended is None:
            turn.take(spent, at, counts=counts or turn.seq >= self.view_start)

    def _guard(self, guarded: Guarded, at: datetime | None, counts: bool) -> None:
        """An input that was stopped stays in the ledger, and out of every view."""
        if guarded.position != "input":
            return
        waited = self.waiting.pop(guarded.message_id, None)
        seq = self.taken.get(guarded.message_id)
        if waited is None and seq is not None:
            old = self._view.replace(seq, guarded.message)
            if old is not None and self.turn is not None:
                self.turn.replace(old, guarded.message)
        elif waited is not None and guarded.message is not None:
            self.waiting[guarded.message_id] = Waiting(
                waited.seq, msgspec.structs.replace(waited.received, message=guarded.message)
            )

    def _ask(self, started: ModelStarted, at: datetime | None, counts: bool) -> None:
        if started.inputs:
            self._include(started.inputs)
        turn = self.turn
        if turn is not None:
            turn.take(started, at, counts=counts or turn.seq >= self.view_start)

    def _complete(self, completed: MessageCompleted, at: datetime | None, counts: bool) -> None:
        turn = self.turn
        if turn is None:  # of a log that begins in the midst of a turn
            turn = self.turn = TurnState(TurnStarted(completed.turn_id, "", ""), at, self.seq)
        if turn.calls:
            self._close_calls()
        turn.called_at = self.seq
        # The snapshot has counted for a turn that began before the view; one that is read whole counts.
        turn.take(completed, at, counts=counts or turn.seq >= self.view_start)
        self._view.add(self.seq, completed.response.message)

    def _finish_call(self, finished: ToolFinished, at: datetime | None, counts: bool) -> None:
        turn = self.turn
        if turn is None:
            return
        if finished.full:
            self.cut[finished.result.call_id] = self.seq
        message = turn.take(finished, at)
        if message is not None:
            # Results stand where their calls stand, so that a view never parts them.
            self._view.add(turn.called_at, message)

    def _end(self, ended: Ended, at: datetime | None, counts: bool) -> None:
        turn = self.turn
        if turn is not None:
            self._close_calls()
            turn.calls = ()
            turn.take(ended, at)
        if self.seq > self.settled:
            self.cancel = None
        if self.waiting:  # what the engine asked of this turn, in a log that was cut off, is not for another
            self.waiting = {at: it for at, it in self.waiting.items() if not at.startswith(REPAIR)}
        if not counts:
            return
        if turn is not None and turn.subagents:
            self.left = (*self.left, *(each.subagent_id for each in turn.running_subagents))
        self._count(ended.usage, ended.cost)

    def _count(self, usage: Usage, cost: float | None) -> None:
        self.usage = add_usage((self.usage, usage))
        if self.cost is None or cost is None:
            self.cost = None
        elif cost:  # in decimals, as on a bill: floats would drift away from it
            self.cost = float(Decimal(str(self.cost)) + Decimal(str(cost)))

    def _include(self, message_ids: Sequence[str]) -> None:
        """Messages that waited become part of the conversation."""
        for message_id in message_ids:
            waited = self.waiting.pop(message_id, None)
            if waited is not None:
                self._view.add(waited.seq, waited.received.message)
                self.taken[message_id] = waited.seq
                if self.turn is not None:
                    self.turn.messages.append(waited.received.message)

    def _close_calls(self) -> None:
        """No model is shown a call without a result, whatever the log is like."""
        if self.turn is not None and self.turn.open_calls:
            results = self.turn.results
            answers = [results.get(call.id) or interrupted(call) for call in self.turn.calls]
            self._view.add(self.turn.called_at, Message.tool(*answers))

    def _remember(self, message_id: str, seq: int) -> None:
        self.recent[message_id] = seq
        while len(self.recent) > _RECENT:
            del self.recent[next(iter(self.recent))]


def _takes_all(started: LedgerEvent, waiting: dict[str, Waiting]) -> bool:
    """Whether one message waits, and the turn says that it takes it, as nearly every turn does."""
    return len(waiting) == 1 and started.payload.endswith(b'"inputs":["%b"]}' % next(iter(waiting)).encode())


_Handler: TypeAlias = Callable[[Fold, Any, datetime | None, bool], None]

_HANDLERS: dict[type, _Handler] = {
    MessageReceived: Fold._receive,  # pyright: ignore[reportPrivateUsage] - the table is the fold's own
    Claimed: Fold._claim,  # pyright: ignore[reportPrivateUsage]
    Released: Fold._release,  # pyright: ignore[reportPrivateUsage]
    TurnStarted: Fold._start,  # pyright: ignore[reportPrivateUsage]
    ModelStarted: Fold._ask,  # pyright: ignore[reportPrivateUsage]
    MessageCompleted: Fold._complete,  # pyright: ignore[reportPrivateUsage]
    ToolFinished: Fold._finish_call,  # pyright: ignore[reportPrivateUsage]
    CancelRequested: Fold._want_cancel,  # pyright: ignore[reportPrivateUsage]
    Compacted: Fold._compact,  # pyright: ignore[reportPrivateUsage]
    SubagentFinished: Fold._spend,  # pyright: ignore[reportPrivateUsage]
    ApprovalDecided: Fold._decide,  # pyright: ignore[reportPrivateUsage]
    Guarded: Fold._guard,  # pyright: ignore[reportPrivateUsage]
    TurnFinished: Fold._end,  # pyright: ignore[reportPrivateUsage]
    TurnFailed: Fold._end,  # pyright: ignore[reportPrivateUsage]
    TurnCancelled: Fold._end,  # pyright: ignore[reportPrivateUsage]
}
"""By its class: a chain of questions would be asked of every event of a long log."""
