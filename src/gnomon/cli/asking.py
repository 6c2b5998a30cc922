"""The next question in a session that is there, and what is left open in one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnomon.cli.conversing import Conversing, unfinished
from gnomon.cli.finding import short
from gnomon.errors import Conflict

if TYPE_CHECKING:
    from gnomon.cli.render import Renderer
    from gnomon.cli.runner import CommandAgent
    from gnomon.cli.screen import Screen
    from gnomon.contracts.session import WhenBusy
    from gnomon.engine.fold import Fold
    from gnomon.types.messages import Content
    from gnomon.types.steps import Turn

__all__ = ["asked_in", "went_on"]


async def asked_in(
    agent: CommandAgent,
    session_id: str,
    prompt: str | list[Content],
    show: Renderer,
    screen: Screen,
    *,
    when_busy: WhenBusy,
) -> Turn:
    """Send, and show the turn that answers it."""
    async with agent:
        session = agent.session(session_id)
        fold = (await agent.ledger(session_id)).fold
        turn = fold.open_turn
        if turn is not None and when_busy != "interrupt" and (turn.open_questions or turn.is_paused):
            raise unfinished(turn, session_id)
        start = fold.seq if turn is None else turn.seq - 1
        before = fold.seq
        await _say_when_busy(agent, fold, session_id, screen, when_busy)
        message_id = await session.send(prompt, when_busy=when_busy)
        conversing = Conversing(agent, session, show, message_id=message_id)
        return await conversing.turn(start=start, shown_after=before)


async def _say_when_busy(
    agent: CommandAgent, fold: Fold, session_id: str, screen: Screen, when_busy: WhenBusy
) -> None:
    if fold.open_turn is None and not fold.waiting:
        return
    try:
        await agent.check_free(session_id)
    except Conflict:
        if when_busy == "queue":
            screen.note(f"gnomon: session {short(session_id)} is busy: queued (see --when-busy)")
        return
    if when_busy == "queue":
        screen.note(f"gnomon: session {short(session_id)} has a turn that was not finished: that comes first")


async def went_on(
    agent: CommandAgent,
    session_id: str,
    show: Renderer,
    *,
    answer: str | None,
    call_id: str | None,
    run_again: bool,
    take_over: bool,
) -> Turn | None:
    """Go on with what is open in the session, and show it from here; `None` when nothing is."""
    async with agent:
        session = agent.session(session_id)
        ledger = await agent.ledger(session_id)
        if answer is not None or run_again:
            await session.answer(answer or (), call_id=call_id, run_again=run_again)
        turn = ledger.fold.open_turn
        if turn is None and not ledger.fold.waiting:
            return None
        if turn is not None and turn.open_questions:
            raise unfinished(turn, session_id)
        if not take_over:
            await _check_free(agent, session_id)
            await session.resume()
        message_id, start = _open_message(ledger.fold)
        conversing = Conversing(agent, session, show, message_id=message_id)
        return await conversing.turn(
            start=start, shown_after=ledger.fold.seq, turns=0 if turn is not None else 1, take_over=take_over
        )


async def _check_free(agent: CommandAgent, session_id: str) -> None:
    try:
        await agent.check_free(session_id)
    except Conflict:
        hint = f"gnomon events -f {session_id} shows it; gnomon resume --take-over takes it away from there"
        raise Conflict(f"session {session_id!r} is run by another process", hint=hint) from None


def _open_message(fold: Fold) -> tuple[str, int]:
    """A message that the open turn answers, and a place before all of them."""
    turn = fold.open_turn
    if turn is None:
        first = next(iter(fold.waiting.values()))
        return first.received.message_id, first.seq - 1
    inputs = turn.started.inputs
    places = [turn.seq, *(fold.recent[at] for at in inputs if at in fold.recent)]
    return inputs[-1] if inputs else "", min(places) - 1
