"""The next question in a session that is there, and what is left open in one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from gnomon.cli.conversing import shown_turn, unfinished
from gnomon.cli.finding import short
from gnomon.errors import Conflict

if TYPE_CHECKING:
    from gnomon.agent import Agent
    from gnomon.cli.render import Renderer
    from gnomon.cli.screen import Screen
    from gnomon.contracts.session import WhenBusy
    from gnomon.engine.run import Run
    from gnomon.session.local import LocalSession
    from gnomon.types.messages import Content
    from gnomon.types.steps import Turn

__all__ = ["asked_in", "went_on"]


async def asked_in(
    agent: Agent[str],
    session_id: str,
    prompt: str | list[Content],
    show: Renderer,
    screen: Screen,
    *,
    when_busy: WhenBusy,
) -> Turn:
    """Send, and show the turn that answers it. Ctrl-C cancels that turn, and no other."""
    async with agent:
        session = agent.session(session_id)
        status = await session.refresh()
        if status.state == "waiting" and when_busy != "interrupt":
            raise unfinished(status, session_id)
        if status.state != "idle" and when_busy == "queue":
            await _say_what_comes_first(session, screen)
        async with session.stream(prompt, when_busy=when_busy) as run:
            return await shown_turn(agent, run, show)


async def _say_what_comes_first(session: LocalSession[str], screen: Screen) -> None:
    named = f"gnomon: session {short(session.id)}"
    if await session.is_attended():
        screen.note(f"{named} is busy: queued (see --when-busy)")
    else:
        screen.note(f"{named} has a turn that was not finished: that comes first")


async def went_on(
    agent: Agent[str],
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
        run = await session.follow(on_leave="cancel")
        if answer is not None or run_again:
            await session.answer(answer or (), call_id=call_id, run_again=run_again)
        if run is None:
            return None
        status = await session.refresh()
        if status.questions:
            raise unfinished(status, session_id)
        async with run:
            if take_over:
                return await _taken_over(agent, session, run, show)
            await _resume(session)
            return await shown_turn(agent, run, show)


async def _resume(session: LocalSession[str]) -> None:
    try:
        await session.resume()
    except Conflict:
        hint = f"gnomon events -f {session.id} shows it; gnomon resume --take-over takes it away from there"
        raise Conflict(f"session {session.id!r} is run by another process", hint=hint) from None


async def _taken_over(agent: Agent[str], session: LocalSession[str], run: Run[str], show: Renderer) -> Turn:
    """Run it here, whoever runs it, and show it meanwhile."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(session.resume(take_over=True))
            return await shown_turn(agent, run, show)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
