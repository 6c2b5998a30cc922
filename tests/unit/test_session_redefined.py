"""An open turn whose runner is gone, and an agent that is defined otherwise since: each rule is attacked."""

from __future__ import annotations

import asyncio

import pytest

from gnomon import Agent
from gnomon._payload import unpacked
from gnomon.engine.ids import idempotency_key
from gnomon.errors import Conflict, DefinitionChanged, TurnUnfinished
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_audit import unsound
from gnomon.testing._session_patience import until_found, within
from gnomon.testing._session_tools import StageTool
from gnomon.types.codec import encode_event
from gnomon.types.events import (
    Claimed,
    LedgerEntry,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAsked,
    Released,
    ToolFinished,
    ToolIntent,
    TurnPaused,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall
from gnomon.types.records import LedgerEvent, SessionRecord, utc_now
from gnomon.types.requests import Response


async def ledger_of(store: MemoryStorage) -> list[LedgerEntry]:
    page = await store.list_events("s", 0, 1_000)
    return [unpacked(event, {}) for event in page.items]


def of_kind(entries: list[LedgerEntry], kind: type) -> list:
    return [entry for entry in entries if isinstance(entry, kind)]


async def left_open(*, begun: bool, agent: str = "agent") -> MemoryStorage:
    """A turn of another definition, whose runner died: when it had called, or in the midst of the call."""
    store = MemoryStorage()
    message = Message.assistant("so", ToolCall("c1", "pay"))
    entries: list[LedgerEntry] = [
        MessageReceived("u1", Message.user("go")),
        Claimed("gone", 1),
        TurnStarted("t1", agent, "scripted:scripted", "another", inputs=("u1",)),
        ModelStarted("t1", "m1", (1, 1)),
        MessageCompleted("t1", "m1", Response(message=message, stop_reason="tool_use")),
    ]
    if begun:
        entries.append(ToolIntent("t1", "c1", "pay", idempotency_key("s", "t1", "m1", "c1")))
    now = utc_now()
    await store.create_session(
        SessionRecord(id="s", agent_id=agent, created_at=now, updated_at=now, status="running", runnable=True)
    )
    await store.append_events(
        [
            LedgerEvent(
                session_id="s",
                seq=seq,
                id=f"s-{seq}",
                type=str(entry.__struct_config__.tag),
                payload=encode_event(entry),
                created_at=now,
            )
            for seq, entry in enumerate(entries, 1)
        ]
    )
    return store


def defined(
    store: MemoryStorage, rule: str, *tools: StageTool, says_: str = "Done.", told: str = "Now."
) -> Agent:
    provider = ScriptedProvider(lambda request: says(says_), verbatim=False)
    return Agent(provider, tools=tools, storage=store, instructions=told, on_change=rule)  # type: ignore[arg-type]


async def test_a_call_that_began_is_asked_about_though_its_tool_is_gone() -> None:
    store = await left_open(begun=True)
    async with defined(store, "continue") as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await within("the question", session.turn_result())
        (asked,) = of_kind(await ledger_of(store), QuestionAsked)
        assert asked.unknown
        await session.answer("it was paid")
        assert (await within("the turn", session.turn_result())).text == "Done."
        assert of_kind(await ledger_of(store), ToolFinished)[0].result.text == "it was paid"
    assert unsound(await ledger_of(store)) == []


async def test_a_call_that_had_not_begun_is_made_with_the_tool_of_the_new_definition() -> None:
    store, paid = await left_open(begun=False), StageTool("pay")
    async with defined(store, "continue", paid) as agent:
        assert (await within("the turn", agent.session("s").turn_result())).text == "Done."
    entries = await ledger_of(store)
    assert paid.runs == len(of_kind(entries, ToolIntent)) == 1
    assert [entry.by for entry in of_kind(entries, TurnResumed)] == ["continue"]
    assert unsound(entries) == []


@pytest.mark.parametrize("begun", [True, False])
async def test_a_turn_that_is_refused_says_of_its_call_what_is_true(begun: bool) -> None:
    store, paid = await left_open(begun=begun), StageTool("pay")
    async with defined(store, "refuse", paid) as agent:
        session = agent.session("s")
        turn = await within("the turn", session.turn_result())
        assert turn.error is not None
        assert turn.error.code == DefinitionChanged.code
        (finished,) = of_kind(await ledger_of(store), ToolFinished)
        assert finished.result.status == "interrupted"
        known = "known to have had its effect" if begun else "not run"
        assert known in finished.result.text
        assert (await within("the next", session.run("next"))).text == "Done."
    assert paid.runs == 0
    assert unsound(await ledger_of(store)) == []


@pytest.mark.parametrize("begun", [True, False])
async def test_a_turn_that_is_paused_does_nothing_until_somebody_says_so(begun: bool) -> None:
    """However often it is looked at; what is sent meanwhile waits for it."""
    store, paid = await left_open(begun=begun), StageTool("pay", idempotent=True)
    for _ in range(2):
        async with defined(store, "pause", paid) as agent:
            session = agent.session("s")
            with pytest.raises(TurnUnfinished):
                await within("the pause", session.turn_result())
            with pytest.raises(TurnUnfinished):
                await within("a message that waits", session.run("next"))
            agent._live().serve()
            await asyncio.sleep(0.05)
            assert (await session.refresh()).state == "waiting"
            assert not agent.provider.requests  # type: ignore[attr-defined]
    assert paid.runs == 0
    assert len(of_kind(await ledger_of(store), TurnPaused)) == 1
    row = await store.get_session("s")
    assert row is not None
    assert (row.status, row.runnable) == ("waiting", False)
    async with defined(store, "pause", paid) as agent:
        session = agent.session("s")
        await session.resume()
        await within("all of it", session.turn_result())
    entries = await ledger_of(store)
    assert paid.runs == 1
    assert len(of_kind(entries, TurnStarted)) == 3
    assert unsound(entries) == []


async def test_a_turn_that_is_paused_can_be_cancelled_and_then_the_next_is_answered() -> None:
    store, paid = await left_open(begun=True), StageTool("pay")
    async with defined(store, "pause", paid) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await within("the pause", session.turn_result())
        await session.send("next")
        await within("the end of cancel", session.cancel())
        assert (await within("the next", session.turn_result())).text == "Done."
        assert (await session.refresh()).state == "idle"
    assert paid.runs == 0
    assert unsound(await ledger_of(store)) == []


async def test_leave_to_go_on_under_one_definition_is_none_for_the_next() -> None:
    """Whoever resumed it is gone as well, and the agent was changed once more."""
    store, paid = await left_open(begun=False), StageTool("pay", idempotent=True)
    second = defined(store, "pause", paid, told="Second.")
    session = second.session("s")
    with pytest.raises(TurnUnfinished):
        await within("the pause", session.turn_result())
    resumed = TurnResumed("t1", second._definition.hash, "resume")
    await (await second._live().ledger("s")).receive(resumed)
    await second.close()
    async with defined(store, "pause", paid, told="Third.") as third:
        with pytest.raises(TurnUnfinished):
            await within("the second pause", third.session("s").turn_result())
        paused = of_kind(await ledger_of(store), TurnPaused)
        assert [entry.agent_hash for entry in paused] == ["another", second._definition.hash]
        assert paid.runs == 0
    async with defined(store, "pause", paid, told="Second.") as again:
        assert (await within("the turn", again.session("s").turn_result())).text == "Done."
    assert paid.runs == 1
    assert unsound(await ledger_of(store)) == []


async def test_two_that_resume_at_once_make_one_run() -> None:
    store, paid = await left_open(begun=False), StageTool("pay")
    async with defined(store, "pause", paid) as one, defined(store, "pause", paid) as two:
        with pytest.raises(TurnUnfinished):
            await within("the pause", one.session("s").turn_result())
        await asyncio.gather(*(agent.session("s").resume() for agent in (one, two)), return_exceptions=True)
        await until_found("the end", lambda: _is_released(store))
        assert (await within("the turn", two.session("s").turn_result())).text == "Done."
    entries = await ledger_of(store)
    assert paid.runs == 1
    assert unsound(entries) == []


async def _is_released(store: MemoryStorage) -> bool:
    entries = await ledger_of(store)
    return isinstance(entries[-1], Released) and bool(of_kind(entries, ToolFinished))


async def test_the_old_definition_goes_on_with_its_turn_while_the_new_one_holds_it_back() -> None:
    """A deploy that is under way: both run, and what was begun is brought to its end by its own."""
    store, paid = MemoryStorage(), StageTool("pay")
    provider = ScriptedProvider([calls("pay"), says("Old.")])
    async with Agent(provider, tools=[paid], storage=store, on_change="pause", instructions="Old.") as old:
        session = old.session("s")
        await session.send("one")
        async with defined(store, "pause", paid, told="New.") as new:
            new._live().serve()
            assert (await within("the turn", session.turn_result())).text == "Old."
            assert (await within("the next", new.session("s").run("two"))).text == "Done."
    assert paid.runs == 1
    assert not of_kind(await ledger_of(store), TurnPaused)


async def test_a_runner_of_whose_death_the_store_has_not_heard_yet_is_waited_for_by_who_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, paid, asked = await left_open(begun=False), StageTool("pay"), 0

    async def is_held(owner: str) -> bool:
        nonlocal asked
        asked += owner == "gone"
        return asked <= 5

    monkeypatch.setattr(store, "is_held", is_held)
    async with defined(store, "continue", paid) as agent:
        session = agent.session("s")
        await within("being free", session.resume())
        assert asked > 5
        assert (await within("the turn", session.turn_result())).text == "Done."


async def test_a_session_that_another_runs_is_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    store = await left_open(begun=False)

    async def is_held(_: str) -> bool:
        return True

    monkeypatch.setattr(store, "is_held", is_held)
    monkeypatch.setattr("gnomon.session.local._NOTICED_S", 0.1)
    async with defined(store, "continue") as agent:
        with pytest.raises(Conflict, match="held by 'gone'"):
            await agent.session("s").resume()
    assert not of_kind(await ledger_of(store), TurnResumed)
