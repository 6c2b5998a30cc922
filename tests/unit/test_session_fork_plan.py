"""What a fork is said to come to is what it comes to; and what it says of effects is so."""

from __future__ import annotations

import pytest
from replay_stage import Tools, recorded

from gnomon import Agent
from gnomon import sync as blocking
from gnomon.engine.ledger import Ledger
from gnomon.errors import InvalidInput, NotFound
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_patience import Gate, within
from gnomon.testing._session_tools import held_tool
from gnomon.types.events import (
    MessageCompleted,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.forks import ForkPlan


def names(calls: tuple) -> list[tuple[str, bool, str | None]]:
    return [(call.name, call.acts, call.status) for call in calls]


async def place_of(session: object, kind: type, nth: int = 0) -> int:
    return [read.seq for read in (await recorded(session)).events if isinstance(read.entry, kind)][nth]


async def test_at_every_place_the_fork_comes_to_what_the_plan_says() -> None:
    store, tools = MemoryStorage(), Tools()
    script = [
        calls("weather", city="Rome").calling("book", room=3),
        says("none"),
        says('{"result": [1]}'),
        says('{"result": [2]}'),
    ]
    async with Agent(ScriptedProvider(script), output=list[int], tools=tools.all, storage=store) as agent:
        session = agent.session("s")
        await session.run("one")
        await session.run("two")
        events = (await recorded(session)).events
        for at in range(1, len(events) + 1):
            plan = await session.fork_plan(at)
            fork = await session.fork(at)
            ledger = Ledger(store, fork.id)
            added = [read.entry for read in await ledger.refresh() if read.seq > at]
            assert plan.messages == len(ledger.fold.messages), at
            ended = [entry.turn_id for entry in added if isinstance(entry, TurnCancelled)]
            known = [turn.id for turn in plan.turns if turn.fate == "cancelled"]
            assert [turn_id for turn_id in ended if turn_id in known] == known, at
            closed = [entry.result.call_id for entry in added if isinstance(entry, ToolFinished)]
            assert [call.call_id for call in plan.open_calls] == closed, at
            begun = [entry for entry in added if isinstance(entry, TurnStarted)]
            assert plan.waiting == (begun[0].inputs if begun else ()), at
            assert (await recorded(session)).events == events


async def test_what_had_run_and_what_the_fork_does_not_know_of() -> None:
    tools = Tools()
    script = [calls("weather", city="Rome").calling("book", room=3), calls("book", room=4), says("done")]
    async with Agent(ScriptedProvider(script), tools=tools.all) as agent:
        session = agent.session("s")
        await session.run("go")
        plan = await session.fork_plan()
        assert names(plan.ran) == [("weather", False, "ok"), ("book", True, "ok"), ("book", True, "ok")]
        assert (plan.unknown_to_fork, plan.open_calls, plan.waiting) == ((), (), ())
        assert [turn.fate for turn in plan.turns] == ["kept"]
        assert plan.is_last_answered
        plan = await session.fork_plan(await place_of(session, ToolIntent))
        assert names(plan.ran) == [("weather", False, "ok")]
        assert names(plan.open_calls) == [("book", True, None)]
        assert names(plan.unknown_to_fork) == [("book", True, "ok"), ("book", True, "ok")]
        assert [turn.fate for turn in plan.turns] == ["cancelled"]
        assert not plan.is_last_answered
        plan = await session.fork_plan(await place_of(session, MessageCompleted))
        assert names(plan.open_calls) == [("weather", False, None), ("book", False, None)]
        assert names(plan.unknown_to_fork)[0] == ("weather", False, "ok")


async def test_messages_that_wait_and_turns_that_are_left_out() -> None:
    gate = Gate()
    script = [says("hello"), calls("hold"), says("held"), says("more")]
    async with Agent(ScriptedProvider(script), tools=[held_tool("hold", gate)]) as agent:
        session = agent.session("s")
        first = await session.send("one", message_id="one")
        await session.turn_result()
        await session.send("two", message_id="two")
        await gate.reached()
        await session.send("three", message_id="three")
        plan = await session.fork_plan()
        assert (plan.waiting, plan.last_message_id, plan.is_last_answered) == (("three",), "three", False)
        assert names(plan.open_calls) == [("hold", True, None)]
        assert names(plan.unknown_to_fork) == []  # it has not ended yet
        assert [turn.fate for turn in plan.turns] == ["kept", "cancelled"]
        gate.open()
        await within("the end", session.turn_result())
        plan = await session.fork_plan(await place_of(session, TurnFinished))
        assert [turn.fate for turn in plan.turns] == ["kept", "left out", "left out"]
        assert (plan.last_message_id, plan.is_last_answered) == (first, True)
        assert names(plan.unknown_to_fork) == [("hold", True, "ok")]


async def test_calls_that_never_ran_are_not_said_to_have_had_an_effect() -> None:
    gate, tools = Gate(), Tools()
    script = [calls("hold").calling("book", room=1), says("next")]
    async with Agent(ScriptedProvider(script), tools=[*tools.all, held_tool("hold", gate)]) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached()
        at = (await session.refresh()).position
        await within("the cancel", session.cancel())
        plan = await session.fork_plan(at)
        assert names(plan.unknown_to_fork) == [("hold", True, "cancelled")]
        assert tools.ran == []


async def test_a_message_that_steered_a_turn_is_answered_by_it() -> None:
    gate = Gate()
    async with Agent(
        ScriptedProvider([calls("hold"), says("so")], verbatim=False), tools=[held_tool("hold", gate)]
    ) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached()
        await session.send("so", when_busy="steer", message_id="steers")
        gate.open()
        await within("the end", session.turn_result())
        plan = await session.fork_plan()
        assert (plan.last_message_id, plan.is_last_answered) == ("steers", True)


async def test_a_place_that_is_not_there_is_refused() -> None:
    async with Agent(ScriptedProvider([says("hi")])) as agent:
        session = agent.session("s")
        with pytest.raises(NotFound, match="no events to fork from"):
            await session.fork_plan()
        await session.run("go")
        for at in (0, 99, True):
            with pytest.raises(InvalidInput, match="events 1 to"):
                await session.fork_plan(at)


def test_it_is_there_without_an_event_loop() -> None:
    agent = blocking.Agent(ScriptedProvider([says("hi")]))
    session = agent.session("s")
    session.run("go")
    plan = session.fork_plan()
    assert isinstance(plan, ForkPlan)
    assert (plan.messages, plan.is_last_answered) == (2, True)
    agent.close()
