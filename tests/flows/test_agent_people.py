"""Turns that wait for a person, and what whoever waits for them is told."""

from __future__ import annotations

import asyncio

import pytest

from gnomon import Agent, QuestionAsked, tool
from gnomon.contracts.session import WhenBusy
from gnomon.errors import AskUser, NotFound, TurnUnfinished
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.types.requests import Request

STORES = (None, "memory://")


@tool
def order(what: str) -> str:
    """Order something."""
    raise AskUser(f"Really {what}?")


def script(request: Request) -> Line:
    last = request.messages[-1]
    return calls("order", what="tea") if last.text == "Tea." else says(f"After {last.text or 'that'}.")


def agent(storage: str | None) -> Agent[str]:
    return Agent(ScriptedProvider(script, verbatim=False), tools=[order], storage=storage)


async def test_a_run_that_waits_for_a_person_says_what_for() -> None:
    async with agent("memory://") as one:
        with pytest.raises(TurnUnfinished, match="waits for an answer: Really tea") as caught:
            await one.run("Tea.")
        assert caught.value.turn_id
        assert "agent.session(" in str(caught.value.hint)


async def test_a_stored_run_that_waits_is_answered_in_its_session() -> None:
    async with agent("memory://") as one:
        async with one.stream("Tea.") as run:
            seen = [event async for event in run]
        assert isinstance(seen[-1], QuestionAsked)
        with pytest.raises(TurnUnfinished):
            _ = run.turn
        session = one.session(run.session_id)
        await session.answer("Yes.")
        assert (await session.turn_result()).text == "After that."


@pytest.mark.parametrize("storage", STORES)
async def test_the_reader_of_a_run_that_goes_on_by_itself_comes_to_an_end_when_a_person_has_to_act(
    storage: str | None,
) -> None:
    async with agent(storage) as one, asyncio.timeout(10):
        async with one.stream("Tea.", on_leave="detach") as run:
            seen = [event async for event in run]
        assert isinstance(seen[-1], QuestionAsked)
        with pytest.raises(TurnUnfinished, match="Really tea"):
            _ = run.turn
        session = one.session(run.session_id)
        await session.answer("Yes.")
        assert (await session.turn_result()).text == "After that."


@pytest.mark.parametrize("when_busy", ["queue", "steer"])
async def test_a_message_behind_a_turn_that_waits_for_a_person_is_not_waited_for_in_vain(
    when_busy: WhenBusy,
) -> None:
    async with agent("memory://") as one, asyncio.timeout(10):
        session = one.session("s")
        with pytest.raises(TurnUnfinished) as first:
            await session.run("Tea.")
        assert "do not send it again" not in str(first.value)
        with pytest.raises(TurnUnfinished, match=r"Really tea.*kept behind it, so do not send it again"):
            await session.run("Milk.", when_busy=when_busy)
        await session.answer("Yes.")
        last = await session.turn_result()
        assert last.text == "After Milk.."  # it stayed in its place


async def test_a_message_that_interrupts_a_turn_that_waits_is_answered() -> None:
    async with agent("memory://") as one, asyncio.timeout(10):
        session = one.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("Tea.")
        assert (await session.run("Milk.", when_busy="interrupt")).text == "After Milk.."


async def test_an_answer_that_finds_no_question_says_why_and_names_no_call_that_was_not_named() -> None:
    provider = ScriptedProvider([calls("order", what="tea"), says("Done.")])
    async with Agent(provider, tools=[order], storage="memory://") as one:
        session = one.session("s")
        with pytest.raises(NotFound, match=r"^session 's' has no open question \(nothing waits"):
            await session.answer("Yes.")
        with pytest.raises(TurnUnfinished):
            await session.run("Tea.")
        with pytest.raises(NotFound, match="no open question of call 'c9'"):
            await session.answer("Yes.", call_id="c9")


async def test_an_answer_to_one_of_several_questions_says_to_which() -> None:
    provider = ScriptedProvider([calls("order", what="tea").calling("order", what="milk"), says("Done.")])
    side_by_side = tool(order, read_only=True)
    async with Agent(provider, tools=[side_by_side], storage="memory://") as one:
        session = one.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("Both.")
        async with asyncio.timeout(10):
            while len(asked := (await session.refresh()).questions) < 2:  # noqa: ASYNC110 - it is in a store
                await asyncio.sleep(0.01)
        with pytest.raises(NotFound, match=r"has 2 open questions, and which .* \(waiting: ") as caught:
            await session.answer("Yes.")
        assert all(question.call_id in str(caught.value.hint) for question in asked)
        for question in asked:
            await session.answer("Yes.", call_id=question.call_id)
        assert (await session.turn_result()).text == "Done."
