"""What a fork would come to: read from the ledger, without writing anything."""

from __future__ import annotations

from collections.abc import Sequence

from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Read
from gnomon.engine.turn import REPAIR, Ended
from gnomon.types.events import (
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    ToolFinished,
    ToolIntent,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.forks import ForkedCall, ForkedTurn, ForkPlan, TurnFate

__all__ = ["fork_plan"]


def fork_plan(session_id: str, reads: Sequence[Read], at: int) -> ForkPlan:
    """What a fork at that place would keep, end and not know of; `reads` is the whole ledger."""
    fold = Fold()
    for read in reads:
        if read.seq <= at:
            fold.take(read.seq, read.entry, read.at)
    calls = _calls(reads)
    open_ids = {call.id for call in fold.open_calls} if fold.open_turn is not None else set[str]()
    turn_id = fold.turn_id
    last = _last_received(reads, at)
    return ForkPlan(
        session_id=session_id,
        at=at,
        turns=tuple(_turns(reads, at)),
        messages=len(fold.messages) + bool(open_ids) + len(_waiting(fold)),
        open_calls=tuple(
            each.told(at) for each in calls if each.turn_id == turn_id and each.is_open_at(at, open_ids)
        ),
        waiting=_waiting(fold),
        ran=tuple(each.told(at) for each in calls if each.finished is not None and each.finished <= at),
        unknown_to_fork=tuple(each.told(None) for each in calls if each.happened_after(at)),
        last_message_id=last,
        is_last_answered=last is not None and _is_answered(reads, at, last),
    )


def _waiting(fold: Fold) -> tuple[str, ...]:
    return tuple(message_id for message_id in fold.waiting if not message_id.startswith(REPAIR))


class _Call:
    """A call of the ledger, with the places where it was asked for, begun and ended."""

    def __init__(self, turn_id: str, call_id: str, name: str, asked: int) -> None:
        self.turn_id, self.call_id, self.name, self.asked = turn_id, call_id, name, asked
        self.begun: int | None = None
        self.finished: int | None = None
        self.result: ToolFinished | None = None

    def is_open_at(self, at: int, open_ids: set[str]) -> bool:
        is_there = self.asked <= at and (self.finished is None or self.finished > at)
        return is_there and self.call_id in open_ids

    def happened_after(self, at: int) -> bool:
        """Whether it ran, and the fork cannot know what came of it."""
        if self.result is None:
            return self.begun is not None and self.begun > at
        ran = self.begun is not None or self.result.result.status not in ("cancelled", "denied", "truncated")
        return ran and (self.finished or 0) > at

    def told(self, at: int | None) -> ForkedCall:
        """As it stands at that place, or in the end."""
        is_known = self.result is not None and (at is None or (self.finished or 0) <= at)
        return ForkedCall(
            turn_id=self.turn_id,
            call_id=self.call_id,
            name=self.name,
            acts=self.begun is not None and (at is None or self.begun <= at),
            status=self.result.result.status if self.result is not None and is_known else None,
        )


def _calls(reads: Sequence[Read]) -> list[_Call]:
    """All calls, in their order. Some servers name the calls of every message alike: the latest counts."""
    calls: list[_Call] = []
    latest: dict[str, _Call] = {}
    for seq, entry, _ in reads:
        match entry:
            case MessageCompleted(turn_id=turn_id):
                for call in entry.message.tool_calls:
                    latest[call.id] = _Call(turn_id, call.id, call.name, seq)
                    calls.append(latest[call.id])
            case ToolIntent(call_id=call_id) if call_id in latest:
                latest[call_id].begun = latest[call_id].begun or seq
            case ToolFinished(result=result) if result.call_id in latest:
                latest[result.call_id].finished, latest[result.call_id].result = seq, entry
            case _:
                pass
    return calls


def _turns(reads: Sequence[Read], at: int) -> list[ForkedTurn]:
    turns: dict[str, tuple[int, int, bool]] = {}
    for seq, entry, _ in reads:
        if isinstance(entry, TurnStarted):
            turns[entry.turn_id] = (seq, seq, False)
        turn_id = getattr(entry, "turn_id", "")
        if turn_id in turns:
            turns[turn_id] = (turns[turn_id][0], seq, isinstance(entry, Ended))
    return [
        ForkedTurn(id=turn_id, fate=_fate(first, last, is_over, at), first=first, last=last)
        for turn_id, (first, last, is_over) in turns.items()
    ]


def _fate(first: int, last: int, is_over: bool, at: int) -> TurnFate:
    if first > at:
        return "left out"
    return "kept" if is_over and last <= at else "cancelled"


def _last_received(reads: Sequence[Read], at: int) -> str | None:
    received = (
        read.entry.message_id
        for read in reversed(reads)
        if read.seq <= at and isinstance(read.entry, MessageReceived)
    )
    return next((message_id for message_id in received if not message_id.startswith(REPAIR)), None)


def _is_answered(reads: Sequence[Read], at: int, message_id: str) -> bool:
    """Whether a turn that took the message has finished before that place."""
    takers: set[str] = set()
    for seq, entry, _ in reads:
        if seq > at:
            break
        if isinstance(entry, TurnStarted | ModelStarted) and message_id in entry.inputs:
            takers.add(entry.turn_id)
        if isinstance(entry, TurnFinished) and entry.turn_id in takers:
            return True
    return False
