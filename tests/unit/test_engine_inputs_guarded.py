"""An input that guardrails have something against is in no view: of a copy, a later turn, another run."""

from __future__ import annotations

import asyncio

import pytest
from told_provider import Told, Word, calling, ended

from gnomon import Agent, TextDelta, tool
from gnomon.errors import AskUser, GuardrailTripped, TurnUnfinished
from gnomon.types.messages import Message

FINE = [TextDelta(0, "Fine."), ended()]


@tool
def ask(text: str) -> str:
    """Ask a person.

    text: what
    """
    raise AskUser("And?")


async def test_the_messages_of_a_turn_are_those_that_the_model_was_shown() -> None:
    told = Told(FINE, FINE)
    async with Agent(told, guardrails=[Word("forbidden", "input", replacement="***")]) as agent:
        turn = await agent.run("It is forbidden.")
        await agent.run("Go on.", messages=turn.messages)
    assert turn.messages[0] == Message.user("It is ***.")
    assert not told.was_shown("forbidden")
    assert told.was_shown("It is ***.")


async def test_the_messages_of_a_turn_that_was_stopped_have_nothing_of_the_input() -> None:
    async with Agent(Told(), guardrails=[Word("forbidden", "input")]) as agent:
        session = agent.session("s")
        with pytest.raises(GuardrailTripped):
            await session.run("It is forbidden.")
        assert (await session.turn_result()).messages == ()


async def test_a_message_that_was_cancelled_before_its_turn_began_was_not_checked_and_is_not_shown() -> None:
    told = Told(FINE, FINE)
    async with Agent(told, guardrails=[Word("forbidden", "input")]) as agent:
        session = agent.session("s")
        await session.run("Hello.")
        await session.send("It is forbidden.")
        await session.cancel()
        assert (await session.turn_result()).stop == "cancelled"
        await session.run("Go on.")
        reopened = await (await session.fork()).refresh()
    assert reopened.state == "idle"
    assert len(told.requests) == 2
    assert not told.was_shown("forbidden")


@pytest.mark.parametrize("replacement", [None, "***"])
async def test_messages_that_wait_in_a_copy_are_checked(replacement: str | None) -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def hangs() -> None:
        asked.set()
        await go_on.wait()

    told = Told([TextDelta(0, "Well."), hangs, ended()], FINE, FINE, FINE)
    async with Agent(told, guardrails=[Word("forbidden", "input", replacement=replacement)]) as agent:
        session = agent.session("s")
        await session.send("Hello.")
        await asked.wait()
        await session.send("It is forbidden.")
        copy = await session.fork()
        await copy.run("Go on.")
        assert told.was_shown("Go on.")
        go_on.set()
        await session.turn_result()
    assert told.was_shown("It is ***.") is (replacement is not None)
    assert not told.was_shown("forbidden")


@pytest.mark.parametrize("replacement", [None, "***"])
async def test_what_a_person_answers_for_a_call_is_a_result_like_others(replacement: str | None) -> None:
    told = Told(calling("ask", '{"text":"it"}'), FINE)
    guardrails = [Word("forbidden", "tool_results", replacement=replacement)]
    async with Agent(told, tools=[ask], guardrails=guardrails) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("Hello.")
        await session.answer("It is forbidden.")
        turn = await session.turn_result()
    assert (turn.error is None) is (replacement is not None)
    assert not told.was_shown("forbidden")
    assert told.was_shown("It is ***.") is (replacement is not None)


async def test_a_message_that_was_to_steer_and_is_stopped_with_no_turn_to_steer_is_done_with() -> None:
    async with Agent(Told(FINE), guardrails=[Word("forbidden", "input")], storage="memory://") as agent:
        session = agent.session("s")
        await session.send("It is forbidden.", when_busy="steer")
        async with asyncio.timeout(10):
            stopped = await session.turn_result()
            fine = await session.run("And this?")
    assert stopped.error is not None
    assert stopped.error.code == "guardrail_tripped"
    assert fine.text == "Fine."
    assert session.status.position < 20, "nobody claims it again and again"


async def test_a_steer_that_is_stopped_ends_its_turn_and_the_next_message_has_its_own() -> None:
    gate = asyncio.Event()

    @tool(read_only=True)
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    told = Told(calling("wait", "{}"), FINE)
    async with Agent(
        told, tools=[wait], guardrails=[Word("forbidden", "input")], storage="memory://"
    ) as agent:
        session = agent.session("s")
        await session.send("Begin.")
        await session.send("It is forbidden.", when_busy="steer")
        last = await session.send("And this?")
        gate.set()
        async with asyncio.timeout(10):
            turn = await session.turn_result()
    assert last
    assert turn.text == "Fine."
    assert not told.was_shown("forbidden")
