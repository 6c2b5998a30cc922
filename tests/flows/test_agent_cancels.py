"""Cancel at every event of a turn, at once or after the step, from here or from another process.

Whatever was under way: the turn ends, every call has its one result, what was used is recorded, and the
session takes the next message.
"""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest
from effects import Effects, ten_steps, tools_of
from recorded_effects import entries_of, of_kind
from terminals import PATIENCE_S, STORES, Terminal, Work, terminal, until, work_on

from gnomon import Agent
from gnomon.providers.scripted import Line, ScriptedProvider, says
from gnomon.session.local import LocalSession
from gnomon.types.events import (
    CancelRequested,
    Event,
    MessageCompleted,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.requests import Request, Usage
from storing import opened

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
MODES = ("now", "after_step")
STEPS = ("look", "pay", "book", "mail")
ELSEWHERE = 40 if SOAK else 3
EVERY = 3
"""Of the events, when not all are tried."""
FAR = 200
"""More events than the turn has."""


@pytest.fixture(params=STORES)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    return work_on(request.param, tmp_path)


def four_steps(effects: Effects, request: Request) -> Line:
    """Each said with some words before, so that there are deltas to cancel at."""
    last = next(message for message in reversed(request.messages) if message.role == "user")
    if last.text == "next":
        return says("Here again.")
    line = ten_steps(effects, STEPS)(request)
    return Line(
        text="Let me see what there is.", calls=line.calls, usage=Usage(input_tokens=10, output_tokens=5)
    )


async def cancelled_at(session: LocalSession[str], number: int, mode: str) -> bool:
    """Whether the turn had so many events; it is cancelled at that one."""
    await session.send("Go.")
    async with session.events() as reader:
        for _ in range(number):
            event = await reader.__anext__()
            if isinstance(event, TurnFinished):
                return False
        await session.cancel(mode)  # type: ignore[arg-type]
        return True


@pytest.mark.parametrize("mode", MODES)
async def test_a_turn_that_is_cancelled_at_any_event_leaves_a_session_that_goes_on(
    work: Work, mode: str
) -> None:
    effects = work.effects
    provider = ScriptedProvider(lambda request: four_steps(effects, request), verbatim=False, delay_s=0.002)
    async with (
        opened(work.url) as storage,
        Agent(provider, name="cancelled", tools=tools_of(effects), storage=storage) as agent,
    ):
        cancelled = 0
        for number in range(1 if SOAK else 1 + SEED % EVERY, FAR, 1 if SOAK else EVERY):
            async with asyncio.timeout(PATIENCE_S):
                session = agent.session(f"s{number}")
                is_in_time = await cancelled_at(session, number, mode)
                assert (await session.refresh()).state == "idle", number
                assert (await session.run("next")).text == "Here again."
            entries = await entries_of(storage, session.id)
            cancelled += check(entries)
            if not is_in_time:
                break
        else:
            raise AssertionError("the turn never ended by itself")
    assert cancelled > (40 if SOAK else 40 // EVERY)
    assert set(effects.by_key("effect").values()) <= {1}


def check(entries: list[Event]) -> bool:
    """What the ledger must say of two turns, the first of which somebody wanted to end; whether it was."""
    started = [at for at, entry in enumerate(entries) if isinstance(entry, TurnStarted)]
    assert len(started) == 2
    first = entries[: started[1]]
    calls = [call.id for entry in of_kind(first, MessageCompleted) for call in entry.message.tool_calls]
    assert [entry.result.call_id for entry in of_kind(first, ToolFinished)] == calls
    assert {entry.call_id for entry in of_kind(first, ToolIntent)} <= set(calls)
    ends = [*of_kind(first, TurnCancelled), *of_kind(first, TurnFinished)]
    assert len(ends) == 1
    used = sum(entry.response.usage.total_tokens or 0 for entry in of_kind(first, MessageCompleted))
    assert (ends[0].usage.total_tokens or 0) == used
    return isinstance(ends[0], TurnCancelled)


@pytest.mark.parametrize("mode", MODES)
async def test_a_turn_that_another_process_cancels_leaves_a_session_that_goes_on(
    work: Work, mode: str
) -> None:
    """It reads along, and cancels when it has read so far; the runner is elsewhere."""
    chance = random.Random(SEED)
    asked = 0
    async with terminal(work, 0.01) as owner, terminal(work) as other:
        for number in range(ELSEWHERE):
            session, far = f"s{number}", chance.randrange(1, 40)
            await owner.do("send", session=session, text="Go.")
            other.begin("read", session=session)
            await _has_read(other, far)
            await other.do("cancel", session=session, mode=mode)
            assert await other.do("state", session=session) == "idle"
            assert await other.do("run", session=session, text="next") == ["end_turn", "re: next"]
            async with opened(work.url) as storage:
                entries = await entries_of(storage, session)
            check(entries)
            asked += len(of_kind(entries, CancelRequested))
    assert asked
    assert set(work.effects.by_key("effect").values()) <= {1}


async def _has_read(reader: Terminal, far: int) -> None:
    """So many events, or all that there are."""
    events = reader.latest
    await until(
        f"{far} events",
        lambda: len(events) >= far or any('"turn_finished"' in line.event for line in events),
    )


async def test_a_long_call_elsewhere_ends_soon_after_another_process_cancels_it(work: Work) -> None:
    """In the model, and in a tool: nothing is written meanwhile that could collide with the cancel."""
    async with terminal(work) as owner, terminal(work) as other:
        for held in ("hold model", "hold tool", "block tool"):
            session = held.replace(" ", "-")
            await owner.do("send", session=session, text=held)
            await _has_begun(work, held)
            await other.do("cancel", session=session)
            assert await other.do("state", session=session) == "idle", held
            assert await other.do("run", session=session, text="next") == ["end_turn", "re: next"]
            async with opened(work.url) as storage:
                check(await entries_of(storage, session))


async def _has_begun(work: Work, held: str) -> None:
    name, what = held.split()
    if what == "model":
        await until("the call of the model", lambda: work.effects.all("asked"))
    else:
        await until("the call", lambda: any(line.name == name for line in work.effects.all("effect")))
