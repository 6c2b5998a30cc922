"""An agent with hooks that log, retry, count and measure: they see the same as the turn does."""

from __future__ import annotations

import asyncio
import logging

import pytest

from gnomon import Agent, AttemptDiscarded, StreamFold, tool
from gnomon.errors import BudgetExceeded, Overloaded, RateLimited
from gnomon.hooks.cost import CostTracker
from gnomon.hooks.logging import LoggingHook
from gnomon.hooks.metrics import MetricsHook
from gnomon.hooks.retry import RetryHook
from gnomon.testing import FakeClock, ScriptedProvider, calls, fails, says
from gnomon.types.requests import Usage

PRICES = {"scripted:*": {"input_price": 1.0, "output_price": 10.0}}
USED = Usage(input_tokens=100_000, output_tokens=10_000)


@tool(read_only=True)
def tide(port: str) -> str:
    """The next high tide.

    port: where
    """
    return f"noon at {port}"


async def at_once(_: float) -> None:
    """No wait at all."""


async def test_a_turn_and_the_hooks_come_to_the_same(caplog: pytest.LogCaptureFixture) -> None:
    cost, metrics = CostTracker(models=PRICES), MetricsHook(models=PRICES)
    provider = ScriptedProvider(
        [
            fails(Overloaded("busy")),
            calls("tide", port="Dover").expecting(text="When?"),
            says("I think it is", usage=USED).failing(Overloaded("busy again")),
            says("At noon.", usage=USED).expecting(result="noon at Dover"),
        ]
    )
    hooks = [LoggingHook(), metrics, cost, RetryHook(sleep=at_once)]
    async with Agent(provider, tools=[tide], hooks=hooks, models=PRICES) as agent:
        fold, events = StreamFold(), []
        with caplog.at_level(logging.INFO, "gnomon.hooks.logging"):
            async with agent.stream("When?") as run:
                async for event in run:
                    fold.add(event)
                    events.append(event)
        turn = run.turn
    provider.assert_finished()
    assert turn.text == fold.message.text == "At noon."
    assert [event for event in events if isinstance(event, AttemptDiscarded)] != []
    report = cost.report()
    assert report.total.cost is not None
    assert float(report.total.cost) == pytest.approx(turn.cost)
    assert report.total.usage == turn.usage
    assert [name.partition("/")[2] for name in report.runs] == [turn.id]
    assert 'gnomon_retries_total{kind="model",name="scripted:scripted"} 2' in metrics.text()
    assert 'gnomon_steps_total{kind="tool",name="tide",outcome="ok"} 1' in metrics.text()
    assert 'gnomon_steps_total{kind="turn"' in metrics.text()
    told = [record.getMessage() for record in caplog.records]
    assert told.count("model scripted:scripted: ok") == 2
    assert told.count("tool tide: ok") == 1


async def test_a_turn_that_fails_has_been_paid_for_as_the_hooks_say() -> None:
    cost = CostTracker(models=PRICES)
    provider = ScriptedProvider([says("x", usage=USED).failing(Overloaded(f"busy {n}")) for n in range(3)])
    agent = Agent(provider, hooks=[cost, RetryHook(attempts=3, sleep=at_once)], models=PRICES)
    async with agent, agent.session("s") as session:
        with pytest.raises(Overloaded, match="busy 2"):
            await session.run("When?")
        turn = await session.turn_result()
    report = cost.report()
    assert report.total.usage == turn.usage == Usage(input_tokens=300_000, output_tokens=30_000)
    assert report.sessions == {"s": report.total}
    assert float(report.total.known) == pytest.approx(0.6)


async def test_a_budget_that_is_used_up_ends_the_turn_before_the_model_is_asked() -> None:
    provider = ScriptedProvider([says("At noon.", usage=USED)])
    async with Agent(provider, hooks=[CostTracker(total=0.1, models=PRICES)]) as agent:
        assert (await agent.run("When?")).text == "At noon."
        with pytest.raises(BudgetExceeded, match="the whole budget is used up"):
            await agent.run("And then?")
    provider.assert_finished()
    assert len(provider.requests) == 1


async def test_a_turn_is_cancelled_while_a_retry_waits() -> None:
    clock = FakeClock()
    provider = ScriptedProvider([fails(RateLimited("slow down", retry_after=50.0))])
    retry = RetryHook(clock=clock.monotonic, sleep=clock.sleep)
    async with Agent(provider, hooks=[retry]) as agent, agent.session("s") as session:
        await session.send("When?")
        running = asyncio.create_task(session.turn_result())
        await clock.until_sleeping()
        await session.cancel()
        turn = await running
    assert turn.stop == "cancelled"
    assert clock.sleeping == 0


async def test_hooks_are_there_by_their_names() -> None:
    async with Agent(ScriptedProvider(["Hello."]), hooks=["logging", "metrics", "cost", "retry"]) as agent:
        assert (await agent.run("Hi")).text == "Hello."
