"""Whoever reads a turn hears of what stands around it: a shorter view, and a sub-agent that needs leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import pytest
from wired import WordByWord, ask_and_read

from gnomon import Agent, TurnUnfinished, tool
from gnomon.contracts.guardrail import Window
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.stream import Stream
from gnomon.types.events import Finish, ProviderEvent, TextDelta
from gnomon.types.requests import Request

SOON_S = 20.0


async def test_a_reader_is_told_that_the_view_was_made_shorter_before_the_turn() -> None:
    seen: list[str] = []
    async with Agent("demo", compactor="truncate", context_tokens=600) as agent, asyncio.timeout(SOON_S):
        session = agent.session("long")
        for number in range(6):
            async with session.stream(f"Tell me about day {number} " + "and night " * 20) as run:
                seen += [type(event).__name__ async for event in run]
    assert "Compacted" in seen
    seen = [name for name in seen if name in ("Compacted", "TurnStarted")]
    assert seen[seen.index("Compacted") + 1] == "TurnStarted"


def asking(paid: list[int]) -> Agent[str]:
    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    script = [calls("pay", amount=5), says("Paid.").expecting(result="paid")]
    return Agent(ScriptedProvider(script), name="clerk", tools=[pay], permissions="ask")


@pytest.mark.parametrize("adopt", [True, False])
async def test_a_run_whose_sub_agent_needs_leave_ends_and_goes_on_when_it_is_given(adopt: bool) -> None:
    paid: list[int] = []
    script = [calls("spawn", task="Pay 5."), says("Done.").expecting(result="Paid.")]
    boss = Agent(ScriptedProvider(script), subagents=[asking(paid)], adopt=adopt)
    async with boss, asyncio.timeout(SOON_S):
        async with boss.stream("Have it paid.") as run:
            async for _ in run:
                pass
        with pytest.raises(TurnUnfinished, match="leave to call pay"):
            _ = run.turn
        session = boss.session(run.session_id)
        (asked,) = await session.approvals()
        assert asked.path
        assert not paid
        await session.approve()
        assert (await session.turn_result()).text == "Done."
    assert paid == [5]


async def test_an_answer_by_another_agent_does_not_make_it_run_the_session() -> None:
    store = MemoryStorage()

    def owner() -> Agent[str]:
        return Agent(model, name="clerk", tools=["now"], storage=store, rules=["ask now"], permissions="ask")

    model = ScriptedProvider([calls("now"), says("Noon.")])
    async with owner() as clerk:
        with pytest.raises(TurnUnfinished):
            await clerk.session("s").run("What time is it?")
    stranger = ScriptedProvider([])
    async with Agent(stranger, name="stranger", storage=store) as other:
        await other.session("s").approve()
        await asyncio.sleep(0.5)
        assert not stranger.requests
    async with owner() as clerk:
        assert (await clerk.session("s").turn_result()).text == "Noon."


async def test_what_a_guardrail_stopped_is_told_once_also_where_it_stood_in_several_blocks() -> None:
    class Blocks(ScriptedProvider):
        def stream(self, request: Request) -> Stream:
            return Stream(self._blocks(), provider="scripted", model="scripted")

        async def _blocks(self) -> AsyncGenerator[ProviderEvent, None]:
            for index, text in enumerate(("One, then ", "two, then ", "seven.")):
                yield TextDelta(index, text)
                await asyncio.sleep(0.02)  # the reader hears of each as it is said
            yield Finish(stop_reason="end_turn")

    guard = WordByWord("seven", "output", view=Window(5))
    async with Agent(Blocks([]), guardrails=[guard]) as agent, agent.session("s") as session:
        told = await ask_and_read(session.stream("Count."))
    assert told.turn.error is not None
    assert told.turn.error.code == "guardrail_tripped"
    assert told.deltas == told.turn.text == "One, then two, then "
