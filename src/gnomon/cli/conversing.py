"""A turn that is read to its end and shown, and what is said of one that waits for a person."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from gnomon.cli.leave import Leave, by_whom
from gnomon.errors import ApprovalRefused, Conflict, NotFound, TurnUnfinished
from gnomon.types.codec import exception_of
from gnomon.types.events import ApprovalRequested, RunEvent, TurnFailed

if TYPE_CHECKING:
    from gnomon.agent import Agent
    from gnomon.engine.run import Run
    from gnomon.session.local import LocalSession
    from gnomon.types.steps import SessionStatus, Turn

__all__ = ["Shows", "decided", "shown_turn", "unfinished"]


class Shows(Protocol):
    def show(self, event: RunEvent) -> None: ...

    async def leave(self, asked: ApprovalRequested) -> Leave | None:
        """What a person answers to a request for leave; `None` where nobody can be asked."""
        ...


async def shown_turn(agent: Agent[str], run: Run[str], show: Shows, *, is_kept: bool = True) -> Turn:
    """What the turn came to. Of one that failed the error is raised, and not shown as well.

    Where it waits for leave, whoever looks on is asked, and it goes on.
    """
    await _show(run, show)
    while (waits := _waits(run)) is not None:
        session = agent.session(run.session_id)
        further = await session.follow(on_leave="cancel")
        if further is None:  # it was answered elsewhere, and has ended since
            return _unfailed(await session.turn_result())
        if not await _asked(session, show):
            status = await session.refresh()
            hint = _hint(status, run.session_id) if is_kept else _UNKEPT
            raise TurnUnfinished(waits.summary, turn_id=waits.turn_id, hint=hint) from None
        run = further
        async with further:
            with suppress(Conflict):  # it was answered elsewhere, and goes on there
                await session.resume()
            await _show(further, show)
    return _unfailed(run.turn)


def _unfailed(turn: Turn) -> Turn:
    if turn.error is not None:
        raise exception_of(turn.error)
    return turn


async def _show(run: Run[str], show: Shows) -> None:
    async for event in run:
        if not isinstance(event, TurnFailed):
            show.show(event)


def _waits(run: Run[str]) -> TurnUnfinished | None:
    try:
        _ = run.turn
    except TurnUnfinished as waits:
        return waits
    return None


async def _asked(session: LocalSession[str], show: Shows) -> bool:
    """Whether all that waits for leave was answered."""
    pending = await session.approvals()
    for asked in pending:
        leave = await show.leave(asked)
        if leave is None:
            return False
        with suppress(ApprovalRefused, NotFound):  # somebody else was quicker
            await decided(session, asked, leave, by=by_whom())
    return bool(pending)


async def decided(session: LocalSession[str], asked: ApprovalRequested, leave: Leave, *, by: str) -> None:
    """Write the answer down, for the arguments that were shown."""
    if leave.decision == "deny":
        await session.deny(asked.approval_id, by=by, reason=leave.reason)
    else:
        await session.approve(
            asked.approval_id,
            by=by,
            reason=leave.reason,
            always=leave.decision == "always",
            arguments_hash=asked.arguments_hash,
        )


# --- what a person has to do ----------------------------------------------------------

_UNKEPT = "nothing of it is kept, so nobody can answer: ask without --no-store, or at a terminal"


def unfinished(status: SessionStatus, session_id: str) -> TurnUnfinished:
    """What a person has to do before the turn that is open goes on."""
    what = "is paused: its agent was changed"
    if status.pending_approvals:
        what = f"waits for leave ({', '.join(status.pending_approvals)})"
    for each in status.questions[:1]:
        what = f"waits for an answer: {each.question}"
    return TurnUnfinished(f"the turn {what}", turn_id=status.turn_id or "", hint=_hint(status, session_id))


def _hint(status: SessionStatus, session_id: str) -> str:
    if status.questions:
        again = ", or --run-again" if status.questions[0].unknown else ""
        return f"gnomon resume {session_id} --answer TEXT{again}; gnomon cancel {session_id} ends it"
    if status.pending_approvals:
        shows = f"gnomon approvals {session_id} shows it"
        return f"gnomon approve {session_id}, or gnomon deny {session_id}; {shows}"
    return f"gnomon resume {session_id} goes on under the new definition"
