"""How a compactor is wired to an agent: before what would be too long, after what was, by hand."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from wired import DOORS, PRICES, USED, Diary, entries, texts

from gnomon import Agent, AttemptDiscarded, tool
from gnomon.contracts.compactor import Ask
from gnomon.errors import ConfigError, Conflict, ContextTooLong
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, fails, says
from gnomon.types.events import Compacted, MessageReceived
from gnomon.types.messages import Message
from gnomon.types.requests import Request

LONG = "Sum it all up for me. " * 20
SHORT = ["Sum up.", "Left out.", "Go on."]


class Shortens:
    """Makes three short messages of anything, and remembers what it was given."""

    name = "shortens"

    def __init__(self) -> None:
        self.given: list[tuple[list[str], int]] = []

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        self.given.append(([message.text for message in messages], budget))
        return (Message.user("Sum up."), Message.assistant("Left out."), Message.user("Go on."))


class Asks(Shortens):
    """One that has the model of the agent write the summary."""

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Ask) -> tuple[Message, ...]:
        answer = await ask(Request(messages=(Message.user("Summarise."),), model=""))
        return (Message.user("Sum up."), Message.assistant(answer.text), Message.user("Go on."))


@tool(read_only=True)
def report() -> str:
    """A long report."""
    return "word " * 2_000


def shortened(request: Request) -> bool:
    return texts(request) == SHORT


@DOORS
async def test_a_conversation_over_its_budget_is_made_shorter_before_the_model_is_asked(
    ask: Callable,
) -> None:
    compactor = Shortens()
    script = ScriptedProvider([calls("report"), says("Done.").expecting(check=shortened)], verbatim=False)
    async with Agent(script, tools=[report], compactor=compactor, context_tokens=500) as agent:
        told = await ask(agent, "Sum up.")
    script.assert_finished()
    assert told.turn.text == "Done."
    assert len(compactor.given) == 1
    assert compactor.given[0][1] < 500
    made = [event for event in told.events if isinstance(event, Compacted)]
    assert not told.events or [(each.reason, each.messages_after) for each in made] == [("budget", 3)]


@DOORS
async def test_a_conversation_that_fits_is_left_as_it_is(ask: Callable) -> None:
    compactor = Shortens()
    script = ScriptedProvider([calls("report"), says("Done.").expecting(result="word word")])
    async with Agent(script, tools=[report], compactor=compactor, context_tokens=50_000) as agent:
        await ask(agent, "Sum up.")
    script.assert_finished()
    assert compactor.given == []


async def test_a_message_that_is_about_to_be_taken_counts_too() -> None:
    compactor = Shortens()
    script = ScriptedProvider(["Hello.", "Done."], verbatim=False)
    agent = Agent(script, compactor=compactor, context_tokens=1_000)
    async with agent, agent.session("s") as session:
        await session.run("word " * 700)
        await session.run("else " * 350)
    assert len(compactor.given) == 1
    assert texts(script.requests[1])[:3] == SHORT
    assert texts(script.requests[1])[3].startswith("else else")


@DOORS
async def test_what_a_model_found_too_long_is_made_shorter_and_asked_again(ask: Callable) -> None:
    script = ScriptedProvider(
        [fails(ContextTooLong("too long")), says("Done.").expecting(check=shortened)], verbatim=False
    )
    async with Agent(script, compactor=Shortens()) as agent:
        told = await ask(agent, LONG)
    script.assert_finished()
    assert told.turn.text == "Done."
    assert not told.events or [
        event.reason for event in told.events if isinstance(event, AttemptDiscarded)
    ] == ["the conversation was too long for the model"]
    assert not told.events or [event.reason for event in told.events if isinstance(event, Compacted)] == [
        "too_long"
    ]


@DOORS
async def test_a_model_that_finds_it_too_long_a_second_time_ends_the_turn(ask: Callable) -> None:
    compactor = Shortens()
    script = ScriptedProvider([fails(ContextTooLong(f"too long {n}")) for n in range(3)], verbatim=False)
    async with Agent(script, compactor=compactor) as agent:
        with pytest.raises(ContextTooLong, match="too long 1"):
            await ask(agent, LONG)
    assert len(script.requests) == 2
    assert len(compactor.given) == 1


@DOORS
async def test_without_a_compactor_what_is_too_long_ends_the_turn(ask: Callable) -> None:
    script = ScriptedProvider([fails(ContextTooLong("too long"))])
    async with Agent(script) as agent:
        with pytest.raises(ContextTooLong):
            await ask(agent, "Sum up.")
    assert len(script.requests) == 1


@DOORS
async def test_what_a_summary_cost_is_part_of_the_turn_and_the_hooks_see_it(ask: Callable) -> None:
    diary = Diary()
    script = ScriptedProvider(
        [
            calls("report").expecting(text="Sum up."),
            says("In short.", usage=USED).expecting(text="Summarise."),
            says("Done.", usage=USED).expecting(check=lambda request: "In short." in texts(request)),
        ],
        verbatim=False,
    )
    agent = Agent(script, tools=[report], compactor=Asks(), context_tokens=500, hooks=[diary], models=PRICES)
    async with agent:
        turn = (await ask(agent, "Sum up.")).turn
    script.assert_finished()
    asked = diary.pages("model")
    assert [event.response.message.text for event in asked][1:] == ["In short.", "Done."]
    assert {event.turn_id for event in asked} == {turn.id}
    assert turn.cost == pytest.approx(0.4, abs=0.05)
    assert turn.usage.output_tokens is not None
    assert turn.usage.output_tokens >= 2 * USED.output_tokens


@DOORS
async def test_a_compactor_that_fails_is_named_in_the_log_and_the_model_is_asked_all_the_same(
    ask: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    class Fails(Shortens):
        async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
            raise ValueError("out of ink")

    script = ScriptedProvider([calls("report"), says("Done.").expecting(result="word word")])
    async with Agent(script, tools=[report], compactor=Fails(), context_tokens=500) as agent:
        with caplog.at_level(logging.WARNING, "gnomon.context"):
            assert (await ask(agent, "Sum up.")).turn.text == "Done."
    assert "compactor 'shortens' failed: ValueError: out of ink" in caplog.text


# --- by hand


async def test_a_session_is_made_shorter_by_hand_and_stays_so_for_whoever_opens_it_later(
    tmp_path: Path,
) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    script = ScriptedProvider(["Hello."], verbatim=False)
    async with Agent(script, compactor=Shortens(), storage=store) as agent, agent.session("s") as session:
        await session.run(LONG)
        made = await session.compact()
    assert made is not None
    assert (made.reason, made.turn_id, made.messages_before, made.messages_after) == ("asked", "", 2, 3)
    later = ScriptedProvider(["Done."], verbatim=False)
    async with Agent(later, storage=store) as agent, agent.session("s") as session:
        await session.run("And now?")
    assert texts(later.requests[0]) == [*SHORT, "And now?"]


async def test_what_a_summary_by_hand_cost_is_part_of_the_session_and_the_ledger_keeps_every_message() -> (
    None
):
    storage = MemoryStorage()
    script = ScriptedProvider([says("Hello.", usage=USED), says("In short.", usage=USED)], verbatim=False)
    agent = Agent(script, compactor=Asks(), storage=storage, models=PRICES)
    async with agent, agent.session("s") as session:
        await session.run(LONG)
        made = await session.compact()
        status = await session.refresh()
        said = await entries(storage, "s")
    assert made is not None
    assert (made.usage, made.cost) == (USED, pytest.approx(0.2))
    assert (status.cost, status.tokens_used) == (pytest.approx(0.4), 220_000)
    assert [each.message.text for each in said if isinstance(each, MessageReceived)] == [LONG]
    assert "Hello." in repr(said)


async def test_nothing_is_made_shorter_by_hand_without_a_compactor_or_within_a_turn() -> None:
    async with Agent(ScriptedProvider(["Hello."])) as agent, agent.session("s") as session:
        await session.run("Hi.")
        with pytest.raises(ConfigError, match="has no compactor"):
            await session.compact()
    asking = ScriptedProvider([calls("report")])
    agent = Agent(asking, tools=[report], compactor=Shortens(), permissions="auto", rules=["ask report"])
    async with agent, agent.session("s") as session:
        async with session.stream("Hi.") as run:
            async for _ in run:
                pass
        with pytest.raises(Conflict, match="has an open turn"):
            await session.compact()


async def test_a_compactor_by_its_name_keeps_to_the_tokens_of_the_agent() -> None:
    script = ScriptedProvider([f"word {n} " * 100 for n in range(12)], verbatim=False)
    agent = Agent(script, compactor="truncate", context_tokens=1_000)
    async with agent, agent.session("s") as session:
        for n in range(12):
            await session.run(f"Question {n}?")
    assert max(len(request.messages) for request in script.requests) < 23
    assert texts(script.requests[-1])[0].startswith("Question 0?")
