"""Each hook that comes with gnomon, by every door: a step is told once, and counted once."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from wired import DOORS, PRICES, USED

from gnomon import Agent, AttemptDiscarded, tool
from gnomon.errors import BudgetExceeded, Overloaded, RateLimited
from gnomon.hooks.cache import CacheHook
from gnomon.hooks.chain import Chain
from gnomon.hooks.cost import CostTracker
from gnomon.hooks.logging import LoggingHook
from gnomon.hooks.metrics import MetricsHook
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.hooks.retry import RetryHook
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.types.events import TextDelta
from gnomon.types.requests import Usage


@tool(read_only=True)
def tide(port: str) -> str:
    """The next high tide.

    port: where
    """
    return f"noon at {port}"


async def at_once(_: float) -> None:
    """No wait at all."""


def provider() -> ScriptedProvider:
    return ScriptedProvider(
        [
            calls("tide", port="Dover").expecting(text="When?"),
            says("At noon.", usage=USED).expecting(result="noon at Dover"),
        ]
    )


def breaking() -> ScriptedProvider:
    """One that has said half of its answer when the service fails."""
    return ScriptedProvider(
        [
            says("I think it is", usage=USED).failing(Overloaded("busy")),
            says("At noon.", usage=USED).expecting(text="When?"),
        ]
    )


@DOORS
async def test_logging_has_a_line_for_each_step(ask: Callable, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gnomon.hooks.logging"):
        async with Agent(provider(), tools=[tide], hooks=[LoggingHook()]) as agent:
            await ask(agent, "When?")
    told = [record.getMessage() for record in caplog.records if record.name == "gnomon.hooks.logging"]
    assert told.count("model scripted:scripted: ok") == 2
    assert told.count("tool tide: ok") == 1
    assert told.count("turn agent: ok") == 1
    assert told.count("session agent: ok") == 1


@DOORS
async def test_a_retry_starts_the_answer_anew_and_pays_for_both(ask: Callable) -> None:
    script = breaking()
    async with Agent(script, hooks=[RetryHook(sleep=at_once)], models=PRICES) as agent:
        told = await ask(agent, "When?")
    script.assert_finished()
    assert told.turn.text == "At noon."
    assert told.turn.usage == Usage(input_tokens=200_000, output_tokens=20_000)
    assert told.turn.cost == pytest.approx(0.4)
    assert len(told.turn.messages) == 2
    discarded = [event for event in told.events if isinstance(event, AttemptDiscarded)]
    assert len(discarded) == (1 if told.events else 0)


@DOORS
async def test_what_a_turn_cost_is_counted_once(ask: Callable) -> None:
    cost = CostTracker(models=PRICES)
    async with Agent(provider(), tools=[tide], hooks=[cost], models=PRICES) as agent:
        turn = (await ask(agent, "When?")).turn
    report = cost.report()
    assert report.total.usage == turn.usage
    assert float(report.total.known) == pytest.approx(turn.cost)
    assert [name.partition("/")[2] for name in report.runs] == [turn.id]


@DOORS
async def test_outside_of_a_retry_the_cost_of_every_attempt_is_counted_once(ask: Callable) -> None:
    cost = CostTracker(models=PRICES)
    hooks = [cost, RetryHook(sleep=at_once)]
    async with Agent(breaking(), hooks=hooks, models=PRICES) as agent:
        turn = (await ask(agent, "When?")).turn
    assert cost.report().total.usage == turn.usage == Usage(input_tokens=200_000, output_tokens=20_000)


@DOORS
async def test_a_budget_that_is_used_up_stops_before_the_model_is_asked(ask: Callable) -> None:
    script = ScriptedProvider([says("At noon.", usage=USED)], verbatim=False)
    async with Agent(script, hooks=[CostTracker(total=0.1, models=PRICES)]) as agent:
        await ask(agent, "When?")
        with pytest.raises(BudgetExceeded, match="used up"):
            await ask(agent, "And then?")
    assert len(script.requests) == 1


@DOORS
async def test_metrics_count_each_step_once(ask: Callable) -> None:
    metrics = MetricsHook(models=PRICES)
    async with Agent(provider(), tools=[tide], hooks=[metrics], models=PRICES) as agent:
        await ask(agent, "When?")
    text = metrics.text()
    assert 'gnomon_steps_total{kind="model",name="scripted:scripted",outcome="ok"} 2' in text
    assert 'gnomon_steps_total{kind="tool",name="tide",outcome="ok"} 1' in text
    assert 'gnomon_steps_total{kind="turn",name="agent",outcome="ok"} 1' in text
    assert 'gnomon_steps_total{kind="session",name="agent",outcome="ok"} 1' in text


@DOORS
async def test_a_chain_within_a_chain_is_a_hook_like_any_other(ask: Callable) -> None:
    cost = CostTracker(models=PRICES)
    hooks = [Chain([cost, Chain([RetryHook(sleep=at_once)])])]
    script = breaking()
    async with Agent(script, hooks=hooks, models=PRICES) as agent:
        turn = (await ask(agent, "When?")).turn
    script.assert_finished()
    assert cost.report().total.usage == turn.usage


@DOORS
async def test_a_hook_by_its_name_is_the_same(ask: Callable, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "gnomon.hooks.logging"):
        async with Agent(provider(), tools=[tide], hooks=["logging"]) as agent:
            await ask(agent, "When?")
    assert [record.getMessage() for record in caplog.records].count("tool tide: ok") == 1


@DOORS
async def test_what_was_asked_before_is_replayed_from_the_cache_and_costs_nothing(ask: Callable) -> None:
    cost, cache = CostTracker(models=PRICES), CacheHook()
    script = ScriptedProvider([says("At noon, and at midnight.", usage=USED)])
    async with Agent(script, hooks=[cost, cache], models=PRICES) as agent:
        first = await ask(agent, "When?")
        again = await ask(agent, "When?")
    assert len(script.requests) == 1
    assert again.turn.text == first.turn.text == "At noon, and at midnight."
    assert (again.turn.cost, again.turn.usage.total_tokens) == (0, 0)
    assert float(cost.report().total.known) == pytest.approx(0.2)
    assert [event.text for event in again.events if isinstance(event, TextDelta)] == [
        event.text for event in first.events if isinstance(event, TextDelta)
    ]
    assert (cache.hits, cache.misses) == (1, 1)


@DOORS
async def test_a_tool_that_the_cache_knows_is_not_run_again(ask: Callable) -> None:
    ran: list[str] = []

    @tool(read_only=True)
    def level(port: str) -> str:
        """How high the water stands.

        port: where
        """
        ran.append(port)
        return f"low at {port}"

    script = ScriptedProvider(
        [
            calls("level", port="Dover"),
            calls("level", port="Dover").expecting(result="low at Dover"),
            says("Low.").expecting(result="low at Dover"),
        ]
    )
    async with Agent(script, tools=[level], hooks=[CacheHook(tools=["level"])]) as agent:
        await ask(agent, "How high?")
    script.assert_finished()
    assert ran == ["Dover"]


@DOORS
async def test_a_question_over_the_rate_is_not_asked(ask: Callable) -> None:
    limit = RateLimitHook(requests_per_minute=1, max_wait_s=0)
    script = ScriptedProvider([says("At noon.", usage=USED)], verbatim=False)
    async with Agent(script, hooks=[limit]) as agent:
        assert (await ask(agent, "When?")).turn.text == "At noon."
        with pytest.raises(RateLimited, match="max_wait_s"):
            await ask(agent, "And then?")
    assert len(script.requests) == 1


@DOORS
async def test_what_an_answer_used_counts_against_the_rate(ask: Callable) -> None:
    """The estimate before the question is small: it is the usage of the answer that uses up the minute."""
    limit = RateLimitHook(tokens_per_minute=50_000, max_wait_s=0, output_tokens=10)
    script = ScriptedProvider([says("At noon.", usage=USED)], verbatim=False)
    async with Agent(script, hooks=[limit]) as agent:
        await ask(agent, "When?")
        with pytest.raises(RateLimited):
            await ask(agent, "And then?")
    assert len(script.requests) == 1
