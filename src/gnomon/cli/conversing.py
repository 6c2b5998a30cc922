"""A turn that is read to its end and shown, and what is said of one that waits for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gnomon.errors import TurnUnfinished
from gnomon.types.codec import exception_of
from gnomon.types.events import RunEvent, TurnFailed

if TYPE_CHECKING:
    from gnomon.agent import Agent
    from gnomon.engine.run import Run
    from gnomon.types.steps import SessionStatus, Turn

__all__ = ["Shows", "shown_turn", "unfinished"]


class Shows(Protocol):
    def show(self, event: RunEvent) -> None: ...


async def shown_turn(agent: Agent[str], run: Run[str], show: Shows) -> Turn:
    """What the turn came to. Of one that failed the error is raised, and not shown as well."""
    async for event in run:
        if not isinstance(event, TurnFailed):
            show.show(event)
    try:
        turn = run.turn
    except TurnUnfinished as waits:
        status = await agent.session(run.session_id).refresh()
        hint = _hint(status, run.session_id)
        raise TurnUnfinished(waits.summary, turn_id=waits.turn_id, hint=hint) from None
    if turn.error is not None:
        raise exception_of(turn.error)
    return turn


def unfinished(status: SessionStatus, session_id: str) -> TurnUnfinished:
    """What a person has to do before the turn that is open goes on."""
    asked = (f"waits for an answer: {each.question}" for each in status.questions)
    what = next(asked, "is paused: its agent was changed")
    return TurnUnfinished(f"the turn {what}", turn_id=status.turn_id or "", hint=_hint(status, session_id))


def _hint(status: SessionStatus, session_id: str) -> str:
    if not status.questions:
        return f"gnomon resume {session_id} goes on under the new definition"
    again = ", or --run-again" if status.questions[0].unknown else ""
    return f"gnomon resume {session_id} --answer TEXT{again}; gnomon cancel {session_id} ends it"
