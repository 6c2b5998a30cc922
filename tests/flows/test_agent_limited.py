"""An agent with hooks that limit and cache."""

from __future__ import annotations

import asyncio

import pytest

from gnomon import Agent, StreamFold, tool
from gnomon.errors import RateLimited
from gnomon.hooks.cache import CacheHook
from gnomon.hooks.cost import CostTracker
from gnomon.hooks.metrics import MetricsHook
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.hooks.retry import RetryHook
from gnomon.testing import ScriptedProvider, calls, fails, says
from gnomon.types.events import StreamWarning, TextDelta
from gnomon.types.requests import Usage

PRICES = {"scripted:*": {"input_price": 1.0, "output_price": 10.0}}
USED = Usage(input_tokens=100_000, output_tokens=10_000)


# --- the cache


async def test_the_same_question_in_another_session_is_answered_from_the_cache_and_costs_nothing() -> None:
    cost, metrics, cache = CostTracker(models=PRICES), MetricsHook(models=PRICES), CacheHook()
    provider = ScriptedProvider([says("At noon.", usage=USED).expecting(text="When?")])
    async with Agent(provider, hooks=[cost, metrics, cache], models=PRICES) as agent:
        first = await agent.run("When?")
        fold, events = StreamFold(), []
        async with agent.stream("When?") as run:
            async for event in run:
                fold.add(event)
                events.append(event)
    provider.assert_finished()
    assert first.text == run.turn.text == fold.message.text == "At noon."
    assert first.cost == pytest.approx(0.2)
    assert (run.turn.cost, run.turn.usage.total_tokens) == (0, 0)
    assert "cached" in [event.code for event in events if isinstance(event, StreamWarning)]
    assert any(isinstance(event, TextDelta) for event in events)
    assert float(cost.report().total.cost) == pytest.approx(0.2)
    assert 'gnomon_cost_usd_total{name="scripted:scripted"} 0.2' in metrics.text()


async def test_a_hit_costs_nothing_also_where_the_price_is_not_known() -> None:
    provider = ScriptedProvider([says("At noon.", usage=USED)])
    async with Agent(provider, hooks=[CacheHook()]) as agent:
        assert (await agent.run("When?")).cost is None
        assert (await agent.run("When?")).cost == 0


async def test_ten_turns_at_once_with_the_same_question_ask_once() -> None:
    provider = ScriptedProvider([says("At noon.", usage=USED)])
    async with Agent(provider, hooks=[CacheHook()], models=PRICES) as agent:
        turns = await asyncio.gather(*(agent.run("When?") for _ in range(10)))
    assert {turn.text for turn in turns} == {"At noon."}
    assert sum(turn.cost for turn in turns) == pytest.approx(0.2)
    provider.assert_finished()


async def test_a_tool_that_was_named_runs_once_for_the_same_arguments_and_each_call_has_its_result() -> None:
    ran: list[str] = []

    @tool(read_only=True)
    def tide(port: str) -> str:
        """The next high tide.

        port: where
        """
        ran.append(port)
        return f"noon at {port}"

    provider = ScriptedProvider(
        [
            calls("tide", port="Dover"),
            calls("tide", port="Dover").expecting(result="noon at Dover"),
            calls("tide", port="Calais").expecting(result="noon at Dover"),
            says("At noon.").expecting(result="noon at Calais"),
        ]
    )
    async with Agent(provider, tools=[tide], hooks=[CacheHook(tools={"tide"})]) as agent:
        turn = await agent.run("When?")
    provider.assert_finished()
    assert ran == ["Dover", "Calais"]
    asked = [call.id for message in turn.messages for call in message.tool_calls]
    answered = [result.call_id for message in turn.messages for result in message.tool_results]
    assert asked == answered
    assert len(set(asked)) == 3


# --- the limit


async def test_a_turn_is_cancelled_while_it_waits_for_its_turn_and_holds_nobody_up() -> None:
    provider = ScriptedProvider([says("At noon."), says("At six.")])
    limit = RateLimitHook(concurrent=1)
    async with Agent(provider, hooks=[limit]) as agent, agent.session("s") as session:
        async with agent.stream("When?") as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    break
            await session.send("And then?")
            running = asyncio.create_task(session.turn_result())
            while not limit._lanes._gates["scripted:scripted"]._line:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0)
            await session.cancel()
            assert (await running).stop == "cancelled"
        assert (await agent.run("And now?")).text == "At six."
    provider.assert_finished()


async def test_a_turn_whose_turn_does_not_come_fails_with_what_to_do_and_the_model_is_not_asked() -> None:
    provider = ScriptedProvider([says("At noon.")])
    async with Agent(provider, hooks=[RateLimitHook(requests_per_minute=1, max_wait_s=0)]) as agent:
        await agent.run("When?")
        with pytest.raises(RateLimited, match="max_wait_s"):
            await agent.run("And then?")
    provider.assert_finished()


async def test_inside_of_a_retry_every_attempt_counts_and_the_wait_of_the_service_is_kept() -> None:
    """The retry does not wait at all by itself: it is the limit that keeps the second attempt back."""

    async def at_once(_: float) -> None: ...

    provider = ScriptedProvider(
        [fails(RateLimited("slow down", vendor="acme", retry_after=0.3)), says("At noon.")]
    )
    limit = RateLimitHook(requests_per_minute=1_000)
    clock = asyncio.get_running_loop().time
    async with Agent(provider, hooks=[RetryHook(sleep=at_once), limit]) as agent:
        began = clock()
        assert (await agent.run("When?")).text == "At noon."
    assert clock() - began > 0.29
    provider.assert_finished()


async def test_an_agent_that_is_closed_closes_the_connections_of_its_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed = False

    async def close(self: RateLimitHook) -> None:
        nonlocal closed
        closed = True

    monkeypatch.setattr(RateLimitHook, "close", close)
    async with Agent(ScriptedProvider(["Hello."]), hooks=[RateLimitHook(concurrent=1)]) as agent:
        await agent.run("Hi")
    assert closed
