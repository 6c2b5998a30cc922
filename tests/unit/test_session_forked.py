"""Forks at any place: what was open or waiting there is over, and the fork takes the next message."""

from __future__ import annotations

import pytest

from gnomon import Agent
from gnomon._payload import unpacked
from gnomon.engine.ledger import Ledger
from gnomon.engine.plan import has_work
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_audit import unsound
from gnomon.testing._session_patience import Gate, within
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.types.events import LedgerEntry, MessageReceived, ModelStarted, TurnCancelled
from gnomon.types.requests import Request


async def ledger_of(store: MemoryStorage, session_id: str) -> list[LedgerEntry]:
    page = await store.list_events(session_id, 0, 1_000)
    return [unpacked(event, {}) for event in page.items]


async def expect_at_rest(agent: Agent, store: MemoryStorage, session_id: str) -> None:
    """Its ledger is sound, and ledger, status and row say the same: there is nothing to do."""
    entries = await ledger_of(store, session_id)
    assert unsound(entries) == []
    status = await agent.session(session_id).refresh()
    row = await store.get_session(session_id)
    assert row is not None
    assert (status.state, row.status, row.runnable) == ("idle", "idle", False)
    assert not has_work((await Ledger.open(store, session_id)).fold, agent._definition)


def shown(provider: ScriptedProvider) -> list[str]:
    return [message.text for message in provider.requests[-1].messages]


async def test_a_fork_in_the_midst_of_a_repair_does_not_repair_what_was_forked() -> None:
    """The complaint is the engine's own, and of a turn that is over in the fork."""
    store = MemoryStorage()
    provider = ScriptedProvider([says("none"), says('{"result": [1]}'), says('{"result": [2]}')])
    async with Agent(provider, output=list[int], storage=store) as agent:
        session = agent.session("s")
        assert (await session.run("one")).output == [1]
        entries = await ledger_of(store, "s")
        complaint = next(
            at
            for at, entry in enumerate(entries, 1)
            if isinstance(entry, MessageReceived) and entry.message_id.startswith("fix_")
        )
        assert isinstance(entries[complaint], ModelStarted)
        fork = await session.fork(at=complaint)
        assert (await ledger_of(store, fork.id))[:complaint] == entries[:complaint]
        await expect_at_rest(agent, store, fork.id)
        turn = await within("the next turn", fork.run("two"))
        assert turn.output == [2]
        assert shown(provider) == ["one", "none", "two"]
        await expect_a_late_checkpoint_to_say_the_same(store, fork.id)


async def expect_a_late_checkpoint_to_say_the_same(store: MemoryStorage, session_id: str) -> None:
    ledger = await Ledger.open(store, session_id)
    await ledger.checkpoint()
    again = await Ledger.open(store, session_id)
    assert not again.fold.waiting
    assert again.fold.messages == ledger.fold.messages


@pytest.mark.parametrize("place", ["before its turn", "behind an open turn"])
async def test_a_message_that_waits_where_a_session_is_forked_is_not_answered_unasked(place: str) -> None:
    """Two sessions would act on it. It is part of the conversation that goes on in the fork."""
    store, gate = MemoryStorage(), Gate()

    def answer(request: Request) -> Line:
        last = request.messages[-1]
        return calls("hold") if last.text == "one" else says(f"re: {last.text}")

    provider = ScriptedProvider(answer, verbatim=False)
    async with Agent(provider, tools=[held_tool("hold", gate)], storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached()
        await session.send("two")
        asked = len(provider.requests)
        at = 1 if place == "before its turn" else None
        fork = await session.fork(at)
        await expect_at_rest(agent, store, fork.id)
        assert len(provider.requests) == asked
        assert isinstance((await ledger_of(store, fork.id))[-2], TurnCancelled)
        turn = await within("the next turn", fork.run("three"))
        assert turn.text == "re: three"
        said = [text for text in shown(provider) if text]
        assert said == (["one", "three"] if at else ["one", "two", "three"])
        gate.open()
        await within("the end of the first", session.turn_result())
        assert gate.arrivals == 1


async def test_a_session_can_be_forked_at_every_place_of_its_ledger() -> None:
    store, held = MemoryStorage(), Gate()
    script = [
        calls("look").calling("save"),
        says("nothing"),
        says('{"result": [1]}'),
        says('{"result": [2]}'),
    ]
    held.open()
    tools = [StageTool("look", read_only=True), held_tool("save", held)]
    async with Agent(ScriptedProvider(script), output=list[int], tools=tools, storage=store) as agent:
        session = agent.session("s")
        await session.run("one")
        await session.run("two")
        entries = await ledger_of(store, "s")
    provider = ScriptedProvider(lambda request: says('{"result": [3]}'))
    async with Agent(provider, output=list[int], tools=tools, storage=store) as agent:
        for at in range(1, len(entries) + 1):
            fork = await agent.session("s").fork(at)
            await expect_at_rest(agent, store, fork.id)
            assert (await within("the next turn", fork.run("next"))).output == [3]
            assert unsound(await ledger_of(store, fork.id)) == []
