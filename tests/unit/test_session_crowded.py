"""A store that says again and again that others were first: nobody tries for ever, and nothing is lost."""

from __future__ import annotations

import asyncio

import pytest
from session_stage import StagedStorage, make_row, opening, write

from gnomon import Agent
from gnomon.engine.ledger import Ledger
from gnomon.errors import AskUser, Conflict, TurnUnfinished
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.testing._session_tools import StageTool
from gnomon.types.events import MessageReceived, Released, TurnPaused
from gnomon.types.messages import Message

CROWDED = "written by too many at once"


def refusing(*types: str) -> StagedStorage:
    store = StagedStorage()
    store.refused = set(types)
    return store


@pytest.mark.parametrize("start", ["empty", "begun"])
async def test_a_ledger_that_cannot_be_written_is_given_up(start: str) -> None:
    store = refusing("message_received", "claimed")
    if start == "begun":
        await write(store, MessageReceived("a", Message.user("a")))
    ledger = await Ledger.open(store, "s")
    async with asyncio.timeout(10):
        with pytest.raises(Conflict, match=CROWDED):
            await ledger.receive(MessageReceived("b", Message.user("b")))
        with pytest.raises(Conflict, match=CROWDED):
            await ledger.claim("me")


async def test_a_row_that_cannot_be_written_is_given_up() -> None:
    store = StagedStorage()
    await make_row(store)

    async def refuse() -> None:
        raise Conflict("it was changed")

    store.before_update = refuse
    with pytest.raises(Conflict, match=f"row of session 's' is {CROWDED}"):
        await (await Ledger.open(store, "s")).project("idle")


@pytest.mark.parametrize("kind", ["claimed", "message_completed"])
async def test_a_run_whose_steps_cannot_be_written_ends_with_an_error(kind: str) -> None:
    """It would try for ever, and whoever waits for it wait as long."""
    store, script = refusing(kind), ScriptedProvider([says("Done."), says("Done.")])
    async with asyncio.timeout(20), Agent(script, storage=store) as agent:
        with pytest.raises(Conflict, match=CROWDED):
            await agent.run("go")
        assert len(script.requests) == (0 if kind == "claimed" else 1)
        store.refused = set()


async def test_a_session_that_could_not_be_claimed_is_tried_again_soon_and_said_so(caplog) -> None:
    """Nobody else has it: it is not passed over as one that another runs."""
    store, script = refusing("claimed"), ScriptedProvider(says("Done."))
    async with Agent(script, storage=store) as agent:
        session = agent.session("s")
        await session.send("go")
        async with asyncio.timeout(5):
            while CROWDED not in caplog.text:  # noqa: ASYNC110 - what is waited for is in a log
                await asyncio.sleep(0.01)
            store.refused = set()
            assert (await session.turn_result()).text == "Done."


async def test_a_session_whose_row_could_not_be_written_is_gone_on_with_soon() -> None:
    """Its claim stands, so that nobody else would."""
    store, script = StagedStorage(), ScriptedProvider(says("Done."))
    async with Agent(script, storage=store) as agent:
        session = agent.session("s")
        await session.send("go")

        async def refuse() -> None:
            if store.updates < 1_100:
                raise Conflict("it was changed")

        store.before_update = refuse
        async with asyncio.timeout(5):
            assert (await session.turn_result()).text == "Done."
        assert store.updates > 1_000


async def test_a_message_that_depends_on_the_state_is_not_tried_for_ever() -> None:
    store = refusing("message_received")
    async with asyncio.timeout(10), Agent(ScriptedProvider([]), storage=store) as agent:
        with pytest.raises(Conflict, match=CROWDED):
            await agent.session("s").send("go", when_busy="reject")


async def test_an_answer_that_cannot_be_written_is_given_up() -> None:
    async def ask(context) -> str:
        raise AskUser("Which?")

    store, script = refusing("question_answered"), ScriptedProvider([calls("ask"), says("Done.")])
    async with (
        asyncio.timeout(10),
        Agent(script, tools=[StageTool("ask", ask, read_only=True)], storage=store) as agent,
    ):
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("go")
        with pytest.raises(Conflict, match=CROWDED):
            await session.answer("this")
        store.refused = set()
        await session.answer("this")
        assert (await session.turn_result()).text == "Done."


async def test_a_paused_turn_that_cannot_be_resumed_says_so() -> None:
    store = refusing("turn_resumed")
    async with asyncio.timeout(10), Agent(ScriptedProvider([]), storage=store, on_change="pause") as agent:
        await make_row(store, runnable=False)
        paused = TurnPaused("t1", "another", "it was changed")
        await write(store, *opening(agent, agent_hash="another"), paused, Released("gone", 1))
        with pytest.raises(Conflict, match=CROWDED):
            await agent.session("s").resume()


@pytest.mark.parametrize("when_busy", ["reject", "interrupt"])
async def test_a_message_that_depends_on_the_state_is_looked_at_again_when_others_were_first(
    when_busy: str,
) -> None:
    """What was an idle session is a busy one by the time of the write."""
    store = StagedStorage()
    async with Agent(ScriptedProvider([says("One."), says("Two.")]), storage=store) as agent:
        session = agent.session("s")
        await session.refresh()

        async def come_first() -> None:
            store.before_append = StagedStorage().before_append
            await write(store, MessageReceived("other", Message.user("of another")))

        store.before_append = come_first
        if when_busy == "reject":
            with pytest.raises(Conflict, match="busy"):
                await session.send("go", when_busy="reject")
        else:
            await session.send("go", when_busy="interrupt", message_id="ours")
        sent = [event.type for event in (await store.list_events("s")).items]
        expected = ["message_received"]
        if when_busy == "interrupt":
            expected += ["cancel_requested", "message_received"]
        assert sent[: len(expected)] == expected
        await session.turn_result()
