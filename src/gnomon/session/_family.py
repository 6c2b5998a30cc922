"""Sessions that work for another: who is above them, what they may use, and how their end is told.

Nothing of this is held open. Whose work a session does stands in its row; that it has ended, or needs
leave, is written to the ledger above by whoever sees it come to rest, and again by whoever comes after
one that was lost.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from gnomon.engine.answer import Answer
from gnomon.engine.budget import Budget
from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Ledger
from gnomon.engine.subagents import CHILD, Task, share_of, task_of
from gnomon.engine.turn import TurnState
from gnomon.session._sending import Sending
from gnomon.types.events import (
    ApprovalDecided,
    ApprovalRequested,
    CancelRequested,
    LedgerEntry,
    MessageReceived,
    QuestionAnswered,
    QuestionAsked,
    SubagentFinished,
    SubagentStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
)
from gnomon.types.messages import Message

if TYPE_CHECKING:
    from gnomon.session.runtime import Runtime

__all__ = ["Household", "Kin", "ended_as", "is_wanted", "kin_of", "report", "tell_decided", "tell_root"]

log = logging.getLogger("gnomon.session")

_Told: TypeAlias = ApprovalRequested | ApprovalDecided | QuestionAsked | QuestionAnswered

_KEY = "subagent"
_TRIES = 100


class Kin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For whom a session works: the call of the turn above it, and the way down from the root."""

    parent: str
    turn: str
    call: str
    root: str
    path: tuple[str, ...]
    """From the root's own sub-agent down to this one."""
    budget: Budget | None = None

    @property
    def depth(self) -> int:
        return len(self.path)


async def kin_of(ledger: Ledger) -> Kin | None:
    """Whose work the session does; `None` of one that a person began."""
    if not ledger.session_id.startswith(CHILD):
        return None
    row = ledger.known_row or await ledger.row()
    try:
        return msgspec.convert(row.metadata.get(_KEY), Kin) if row is not None else None
    except msgspec.ValidationError:
        return None


class Household:
    """The sub-agents of one session."""

    def __init__(self, runtime: Runtime, session_id: str, kin: Kin | None) -> None:
        self._runtime = runtime
        self._id = session_id
        self._kin = kin

    @property
    def depth(self) -> int:
        return self._kin.depth if self._kin is not None else 0

    async def start(self, started: SubagentStarted, task: Task, budget: Budget) -> None:
        """Its session, which is of the same user, is sent the task.

        A second time that changes nothing, and has it looked at.
        """
        above = self._kin
        kin = Kin(
            parent=self._id,
            turn=started.turn_id,
            call=started.call_id,
            root=above.root if above is not None else self._id,
            path=(*(above.path if above is not None else ()), started.session_id),
            budget=budget,
        )
        member = await self._runtime.family.member(task.agent)
        ledger = await member.ledger(started.session_id)
        parent = await self._runtime.ledger(self._id, refresh=False)
        sending = Sending(
            member,
            started.session_id,
            {_KEY: msgspec.to_builtins(kin)},
            is_new=False,
            user_id=await parent.whose() or None,
        )
        received = MessageReceived(f"task_{started.session_id}", Message.user(task.text))
        await sending.send(ledger, received, "queue")
        member.look_at(started.session_id)  # also where it has ended, and nobody was told

    async def see_to(self, turn: TurnState) -> None:
        """Have those looked at that still work: who was to start them, or ran them, may have been lost."""
        runtime, running = self._runtime, turn.running_subagents
        above = self._kin.budget if self._kin is not None else None
        for started in running:
            ledger = await runtime.ledger(started.session_id)
            runner = await runtime.family.runner_of(ledger) if ledger.fold.seq else None
            task = task_of(turn, runtime.agent, started.call_id)
            if runner is not None:
                runner.look_at(started.session_id)
            elif task is not None and not ledger.fold.seq:
                share = share_of(above or runtime.agent.budget, task.agent.budget, turn, len(running))
                await self.start(started, task, share)

    async def cancel(self, session_ids: Sequence[str], reason: str) -> None:
        for session_id in session_ids:
            ledger = await self._runtime.ledger(session_id)
            if not ledger.fold.seq:  # it was named, and never started
                await _deliver(
                    self._runtime, self._id, SubagentFinished("", session_id, "cancelled", cost=0.0)
                )
                continue
            is_open = ledger.fold.open_turn is not None or ledger.fold.waiting
            if is_open and ledger.fold.cancel is None:
                await ledger.receive(CancelRequested("now", reason))
            await self._runtime.family.wake(ledger)  # also where it has ended, and that was told to nobody


async def report(runtime: Runtime, ledger: Ledger, kin: Kin) -> None:
    """Tell those above how the session stands, now that it rests."""
    fold = ledger.fold
    if fold.open_turn is None and not fold.waiting:
        if fold.left:
            return  # it is told when all is known that it cost
        finished = ended_as(fold, ledger.session_id, kin.turn, runtime.agent.answer)
        if finished is not None:
            await _deliver(runtime, kin.parent, finished, kin)
        return
    await tell_decided(runtime, ledger, kin)
    turn = fold.open_turn
    for asked in (*turn.open_requests, *turn.open_questions) if turn is not None else ():
        told = msgspec.structs.replace(asked, turn_id="", path=kin.path)
        await tell_root(runtime, kin, told)


async def tell_decided(runtime: Runtime, ledger: Ledger, kin: Kin) -> None:
    """What was decided or answered, or was not in time, is waited for no longer at the root either."""
    turn = ledger.fold.turn
    for decided in (*turn.decisions.values(), *turn.answers.values()) if turn is not None else ():
        await tell_root(runtime, kin, decided)


async def tell_root(runtime: Runtime, kin: Kin, told: _Told) -> None:
    """What a sub-agent needs leave for or asks, and what was said to it, is known at the root too."""
    root = await runtime.ledger(kin.root)
    for _ in range(_TRIES):
        turn = root.fold.open_turn
        if turn is None or _is_known(turn, told):
            return
        entry: LedgerEntry = told
        if isinstance(told, ApprovalRequested | QuestionAsked):
            entry = msgspec.structs.replace(told, turn_id=turn.id)
        if await root.try_receive((entry,), root.fold.seq):
            return
        await root.refresh()


def _is_known(turn: TurnState, told: _Told) -> bool:
    match told:
        case ApprovalRequested(approval_id=at) | QuestionAsked(question_id=at):
            return at in turn.told
        case ApprovalDecided(approval_id=at):
            return at in turn.decisions or at not in turn.told
        case QuestionAnswered(question_id=at):
            return at in turn.answered or at not in turn.told


async def _deliver(
    runtime: Runtime, session_id: str, finished: SubagentFinished, kin: Kin | None = None
) -> None:
    """The end of the work, for the call that it was for; what it cost, for a turn that has ended before."""
    above = await runtime.ledger(session_id)
    for _ in range(_TRIES):
        is_left = finished.subagent_id in above.fold.left
        if not is_left and (kin is None or not is_wanted(above.fold, kin)):
            if kin is not None and is_told(above.fold, kin):  # by one that may have been lost since
                await runtime.family.wake(above)
            return
        if await above.try_receive((finished,), above.fold.seq):
            await runtime.family.wake(above)
            return
        await above.refresh()


def is_wanted(above: Fold, kin: Kin) -> bool:
    """Whether the call is still open that the work is for, and nobody has told of its end."""
    turn = _turn_of(above, kin)
    return turn is not None and turn.finished_of(kin.call) is None


def is_told(above: Fold, kin: Kin) -> bool:
    """Whether somebody has told of the end, and nobody has gone on with it."""
    turn = _turn_of(above, kin)
    return turn is not None and turn.finished_of(kin.call) is not None


def _turn_of(above: Fold, kin: Kin) -> TurnState | None:
    """The turn that the work is for, while the call is open."""
    turn = above.open_turn
    if turn is None or turn.id != kin.turn or kin.call in turn.results:
        return None
    return turn if kin.call in turn.subagents else None


def ended_as(
    fold: Fold, session_id: str, turn_id: str, answer: Answer | None = None
) -> SubagentFinished | None:
    """What a session came to that works for that turn; `None` while it has not ended."""
    turn = fold.turn
    if turn is None or turn.ended is None:
        return None
    said = (
        message.text if answer is None else answer.given(message)
        for message in reversed(turn.messages)
        if message.role == "assistant"
    )
    error = turn.ended.error if isinstance(turn.ended, TurnFailed) else None
    return SubagentFinished(
        turn_id, session_id, _status(turn.ended), fold.usage, fold.cost, next(said, ""), error
    )


def _status(
    ended: TurnFinished | TurnFailed | TurnCancelled,
) -> Literal["finished", "failed", "cancelled", "budget"]:
    if isinstance(ended, TurnFailed):
        return "failed"
    if isinstance(ended, TurnCancelled):
        return "cancelled"
    return "budget" if ended.stop in ("rounds", "tokens", "seconds", "cost") else "finished"
