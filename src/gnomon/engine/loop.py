"""Ask, run tools, repeat, stop.

There is one loop. A blocking run is this one read to its end; a durable run is
this one with a ledger for its history.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import datetime

from gnomon.engine.budget import Meter
from gnomon.engine.clock import Clock
from gnomon.engine.definition import Definition
from gnomon.engine.history import History
from gnomon.engine.ids import new_id
from gnomon.engine.tools import run_calls
from gnomon.types.events import (
    Done,
    MessageCompleted,
    MessageReceived,
    RunEvent,
    TurnFinished,
    TurnStarted,
    TurnStop,
)
from gnomon.types.messages import Message

__all__ = ["run_turn"]


async def run_turn(
    agent: Definition,
    history: History,
    message: Message,
    *,
    turn_id: str,
    clock: Clock,
    on_finished: Callable[[TurnFinished, datetime], None] = lambda finished, started_at: None,
) -> AsyncGenerator[RunEvent, None]:
    """One turn, event by event. What is yielded has been recorded before, but for deltas."""
    meter, books, started_at = Meter(agent.budget, clock), agent.accounts.open(agent.model), clock.now()
    started = TurnStarted(turn_id, agent.name, agent.model)
    await history.append(MessageReceived(new_id("msg"), message), started)
    yield started
    stop: TurnStop | None = None
    while stop is None:
        message_id = new_id("msg")
        request = agent.request(history.messages)
        async with agent.provider.stream(request) as answer:
            async for event in answer:
                if type(event) is not Done:
                    yield event
        response = books.settled(request, answer.response)
        completed = MessageCompleted(turn_id, message_id, response)
        meter.count(response, books.cost(response, clock.now()))
        await history.append(completed)
        yield completed
        async with aclosing(_run_tools(agent, history, completed)) as events:
            async for event in events:
                yield event
        stop = _stop(completed, meter)
    finished = TurnFinished(turn_id, stop, meter.rounds, meter.usage, meter.cost)
    await history.append(finished)
    on_finished(finished, started_at)
    yield finished


async def _run_tools(
    agent: Definition, history: History, completed: MessageCompleted
) -> AsyncGenerator[RunEvent, None]:
    """Run what the message calls for. Nothing starts before the message is recorded."""
    calls, turn_id = completed.message.tool_calls, completed.turn_id
    running = run_calls(calls, agent.tools, turn_id, message_id=completed.message_id, deps=agent.deps)
    async with aclosing(running) as events:
        async for event in events:
            await history.append(event)
            yield event


def _stop(completed: MessageCompleted, meter: Meter) -> TurnStop | None:
    """A turn is over when its message calls no tool, or a limit is reached; a label decides nothing."""
    if not completed.message.tool_calls:
        return completed.response.stop_reason
    return meter.reached()
