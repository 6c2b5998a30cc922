"""What runs sessions in a process: whose it leaves alone, what it lets go of, and when it ends."""

from __future__ import annotations

import asyncio
import gc
import time
from contextlib import suppress
from pathlib import Path
from typing import get_args

import pytest
from session_stage import StagedStorage, answered, ledger_of, make_row, opening, write

from gnomon import Agent
from gnomon.contracts.driver import Idle, Suspended
from gnomon.errors import AskUser, TurnUnfinished, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.testing._session_audit import unsound
from gnomon.testing._session_patience import Gate, Pace, beside, until, until_found
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.types.events import (
    Claimed,
    LedgerEntry,
    Released,
    RunEvent,
    TextDelta,
    TurnFinished,
    TurnPaused,
)
from gnomon.types.records import SessionRecord, utc_now

# --- runs that go on by themselves


async def test_a_detached_run_is_read_like_any_other() -> None:
    events: dict[str, list[RunEvent]] = {}
    for way in ("cancel", "detach"):
        pace = Pace()
        script = ScriptedProvider(says("One two three."), delay_s=1, sleep=pace)
        async with Agent(script, storage=StagedStorage()) as agent:
            async with agent.stream("go", on_leave=way) as run:
                events[way] = []
                async for event in run:
                    events[way].append(event)
                    if isinstance(event, TextDelta):
                        pace.free()
            assert (run.turn.text, run.turn.stop) == ("One two three.", "end_turn")
    shown = {way: [type(event) for event in read] for way, read in events.items()}
    assert TextDelta in shown["detach"], "it is heard while it is said"
    recorded = [kind for kind in shown["cancel"] if kind in get_args(LedgerEntry)]
    assert [kind for kind in shown["detach"] if kind in get_args(LedgerEntry)] == recorded


async def test_a_detached_run_goes_on_when_its_reader_has_left() -> None:
    gate = Gate()
    script = ScriptedProvider([calls("hold"), says("Done.")])
    async with Agent(script, tools=[held_tool("hold", gate)], storage=StagedStorage()) as agent:
        async with agent.stream("go", on_leave="detach") as run:
            await anext(run)
            await gate.reached("the tool")
        gate.open()
        assert (await agent.session(run.session_id).turn_result()).text == "Done."


async def test_a_detached_run_that_waits_for_a_person_ends_and_says_so() -> None:
    async def ask(context) -> str:
        raise AskUser("Which?")

    tools = [StageTool("ask", ask, read_only=True)]
    async with Agent(ScriptedProvider(calls("ask")), tools=tools, storage=StagedStorage()) as agent:
        async with asyncio.timeout(10), agent.stream("go", on_leave="detach") as run:
            async for _ in run:
                pass
        with pytest.raises(TurnUnfinished, match="waits for an answer: Which"):
            run.turn


async def test_a_session_whose_turn_is_paused_says_so_to_whoever_waits_for_it() -> None:
    store = StagedStorage()
    async with Agent(ScriptedProvider([]), storage=store, on_change="pause") as agent:
        await make_row(store, runnable=False)
        paused = TurnPaused("t1", "another", "it was changed")
        await write(store, *opening(agent, agent_hash="another"), paused, Released("gone", 1))
        with pytest.raises(TurnUnfinished, match="paused: its agent was changed"):
            await agent.session("s").turn_result()


# --- whose it is


async def test_a_server_goes_on_with_what_is_left_of_its_own_agents_sessions() -> None:
    store, script = StagedStorage(), ScriptedProvider(says("Done."))
    async with Agent(script, storage=store) as agent:
        await make_row(store)
        await write(store, *opening(agent))
        async with beside(agent.serve()) as serving:
            await until("the turn", lambda: script.requests)
            assert not serving.done(), "it serves until it is told to end"
            assert (await agent.session("s").turn_result()).text == "Done."


@pytest.mark.parametrize("whose", ["another agent's", "a living owner's"])
async def test_a_server_leaves_what_is_not_its_own(whose: str) -> None:
    store = StagedStorage()
    async with store.holding("alive"), Agent(ScriptedProvider([]), storage=store) as agent:
        owner = {"owner": "alive"} if whose == "a living owner's" else {}
        await make_row(store, agent="agent" if owner else "another", metadata=owner)
        await write(store, *opening(agent, owner="alive" if owner else "gone"))
        assert await agent._live()._unattended() == []
        async with beside(agent.serve()):
            await asyncio.sleep(0.05)
        assert len(await ledger_of(store)) == 4


async def test_a_server_finds_its_own_behind_many_of_others() -> None:
    store, now = StagedStorage(), utc_now()
    for number in range(250):
        name = "agent" if number in (0, 249) else "another"
        row = SessionRecord(
            id=f"s{number}", agent_id=name, created_at=now, updated_at=now, runnable=True, wake_at=now
        )
        await store.create_session(row)
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        found = await agent._live()._unattended()
    assert sorted(row.id for _, row in found) == ["s0", "s249"]


async def test_a_session_that_is_run_here_is_not_run_twice() -> None:
    store, gate = StagedStorage(), Gate()
    script = ScriptedProvider([calls("hold"), says("Done.")])
    async with Agent(script, tools=[held_tool("hold", gate)], storage=store) as agent:
        session = agent.session("s")
        await session.send("go")
        await gate.reached("the tool")
        assert await agent._live().run_segment("default", "s") == Suspended()
        assert gate.arrivals == 1
        gate.open()
        await session.turn_result()


async def test_a_session_with_nothing_to_do_and_no_row_is_left_without_one() -> None:
    store = StagedStorage()
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        assert await agent._live().run_segment("default", "s") == Idle()
        assert (await store.get_session("s"), store.appends) == (None, 0)


async def test_a_row_that_says_the_truth_is_not_written_again() -> None:
    store = StagedStorage()
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        await make_row(store, runnable=False)
        finished = (answered("One."), TurnFinished("t1", "end_turn", 1), Released("gone", 1))
        await write(store, *opening(agent), *finished)
        assert await agent._live().run_segment("default", "s") == Idle()
    assert store.updates == 0


async def test_a_claim_of_the_dead_is_not_ended_under_a_run_that_begins_meanwhile() -> None:
    """To see whether its owner lives takes a moment; in that moment the next turn has begun here."""
    store, gate = StagedStorage(), Gate()
    script = ScriptedProvider([calls("hold"), says("Two.")], verbatim=False)
    async with Agent(script, tools=[held_tool("hold", gate)], storage=store) as agent:
        await make_row(store)
        finished = (answered("One."), TurnFinished("t1", "end_turn", 1))
        await write(store, *opening(agent), *finished)
        session = agent.session("s")
        asking, waits = store.is_held, [True]

        async def slow(owner: str) -> bool:
            if waits.pop() if waits else False:
                await session.send("next")
                await gate.reached("the tool of the next turn")
            return await asking(owner)

        store.is_held = slow
        await agent._live().run_segment("default", "s")
        gate.open()
        assert (await session.turn_result()).text == "Two."
        entries = await ledger_of(store)
        assert unsound(entries) == []
        holds = [entry for entry in entries if isinstance(entry, Claimed | Released)]
        assert [(type(entry), entry.epoch) for entry in holds] == [
            (Claimed, 1),
            (Claimed, 2),
            (Released, 2),
        ]


# --- the end


async def test_an_agent_that_is_closed_twice_is_closed_once(monkeypatch) -> None:
    store = StagedStorage()
    monkeypatch.setattr("gnomon.registry.storage", lambda url: store)
    agent = Agent(ScriptedProvider(says("Done.")), storage="memory://")
    await agent.run("go")
    await asyncio.gather(agent.close(), agent.close())
    await agent.close()
    assert store.closes == 1
    with pytest.raises(RuntimeError, match="the agent 'agent' is closed"):
        await agent.run("go")


async def test_a_close_does_not_wait_long_for_a_reader_that_does_not_come_back() -> None:
    store = StagedStorage()
    agent = Agent(ScriptedProvider(says("Done.")), storage=store)
    run = agent.stream("go")
    await anext(run)
    began = time.monotonic()
    await agent.close()
    assert 0.4 < time.monotonic() - began < 5
    await run.aclose()  # it comes at last, and the turn ends as it would have
    assert unsound(await ledger_of(store, run.session_id)) == []

    async def rests() -> bool:
        row = await store.get_session(run.session_id)
        return row is not None and row.status == "idle"

    await until_found("the row of a session that rests", rests)
    await asyncio.sleep(0)


async def test_whoever_serves_an_agent_that_is_being_closed_is_not_kept() -> None:
    gate = Gate()
    agent = Agent(ScriptedProvider(calls("hold")), tools=[held_tool("hold", gate)], storage=StagedStorage())
    run = agent.stream("go")

    async def read() -> None:
        async for _ in run:
            pass

    async with beside(read()):
        await gate.reached("the tool")
        async with beside(agent.close()) as closing, asyncio.timeout(5):
            await agent.serve()
            gate.open()
            await closing
    await run.aclose()


async def test_whoever_closes_an_agent_cancels_nobody_who_serves_it() -> None:
    agent = Agent(ScriptedProvider(says("Done.")), storage=StagedStorage())
    async with beside(agent.serve()) as serving, asyncio.timeout(5):
        await asyncio.sleep(0.05)
        await agent.close()
        await serving
        assert not serving.cancelled()


async def test_what_a_session_could_not_be_opened_for_is_told_once() -> None:
    """Whoever wanted it has left by then: the loop would say it again, as of nobody."""
    gate, told = Gate(), []

    class Away(StagedStorage):
        async def get_checkpoint(self, *given, **more):
            await gate.wait()
            raise Unavailable("the store is away")

    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    async with Agent(ScriptedProvider(says("Done.")), storage=Away()) as agent:
        async with beside(agent.session("s").refresh()) as reading:
            await gate.reached("the checkpoint")
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
        gate.open()
        await asyncio.sleep(0.05)
    gc.collect()
    assert told == []


# --- stores


@pytest.mark.parametrize("owns", [True, False])
async def test_a_store_whose_tables_cannot_be_had_is_closed_by_whoever_made_it(
    owns: bool, monkeypatch
) -> None:
    """Each try makes another: those that failed would stay open for as long as the process lives."""
    stores: list[StagedStorage] = []

    async def fail() -> None:
        raise Unavailable("the store is away")

    def made(url: str = "") -> StagedStorage:
        stores.append(StagedStorage())
        stores[-1].migrate = fail  # type: ignore[method-assign]
        return stores[-1]

    monkeypatch.setattr("gnomon.registry.storage", made)
    agent = Agent(ScriptedProvider([]), storage="memory://" if owns else made())
    for _ in range(3):
        with pytest.raises(Unavailable):
            await agent.run("go")
    await agent.close()
    assert [store.closes for store in stores] == ([1, 1, 1] if owns else [0])


class Counted:
    """The SQLite stores that are open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open: list[SQLiteStorage] = []
        making, closing = SQLiteStorage.__init__, SQLiteStorage.close

        def make(store: SQLiteStorage, *given, **settings) -> None:
            making(store, *given, **settings)
            self.open.append(store)

        async def close(store: SQLiteStorage) -> None:
            self.open.remove(store)
            await closing(store)

        monkeypatch.setattr(SQLiteStorage, "__init__", make)
        monkeypatch.setattr(SQLiteStorage, "close", close)


def test_a_store_that_was_left_open_in_a_loop_that_is_over_is_closed_in_the_next(
    tmp_path: Path, monkeypatch
) -> None:
    stores = Counted(monkeypatch)
    script = ScriptedProvider([says("One."), says("Two."), says("Three.")], verbatim=False)
    agent = Agent(script, storage=f"sqlite:///{tmp_path}/s.db")
    for said in ("One.", "Two.", "Three."):
        assert asyncio.run(agent.run("go")).text == said
        assert len(stores.open) == 1
    asyncio.run(agent.close())
    assert stores.open == []


def test_a_store_that_was_left_open_is_closed_though_a_loop_between_had_no_use_for_it(
    tmp_path: Path, monkeypatch
) -> None:
    stores = Counted(monkeypatch)
    agent = Agent(ScriptedProvider(says("Done.")), storage=f"sqlite:///{tmp_path}/s.db")
    asyncio.run(agent.run("go"))

    async def look() -> str:
        return agent.session("s").status.state

    assert asyncio.run(look()) == "idle"
    asyncio.run(agent.close())
    assert stores.open == []


def test_a_session_in_memory_is_remembered_from_one_loop_to_the_next() -> None:
    script = ScriptedProvider([says("One."), says("Two.")])
    agent = Agent(script)

    async def ask(text: str) -> str:
        return (await agent.session("s").run(text)).text

    assert [asyncio.run(ask(text)) for text in ("one", "two")] == ["One.", "Two."]
    assert [message.text for message in script.requests[1].messages] == ["one", "One.", "two"]
    asyncio.run(agent.close())


def test_nothing_is_left_of_a_loop_in_which_the_store_failed(tmp_path: Path, monkeypatch) -> None:
    stores = Counted(monkeypatch)
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database at all" * 100)
    agent = Agent(ScriptedProvider(says("Done.")), storage=f"sqlite:///{path}")
    with suppress(Exception):
        asyncio.run(agent.run("go"))
    assert stores.open == []
    path.unlink()
    assert asyncio.run(agent.run("go")).text == "Done."
    asyncio.run(agent.close())
    assert stores.open == []
    gc.collect()


def test_a_loop_that_ends_without_a_close_lets_go_of_the_owners_name(tmp_path: Path, caplog) -> None:
    """Otherwise its sessions would be held by nobody who lives."""
    agent = Agent(ScriptedProvider(says("Done.")), storage=f"sqlite:///{tmp_path}/s.db")
    owners: list[str] = []

    async def run() -> None:
        await agent.run("go")
        owners.append(agent._live().owner)

    asyncio.run(run())

    async def look() -> bool:
        store = SQLiteStorage(f"sqlite:///{tmp_path}/s.db")
        try:
            return await store.is_held(owners[0])
        finally:
            await store.close()

    assert asyncio.run(look()) is False
    asyncio.run(agent.close())
    gc.collect()  # what a task has hidden comes to light when it is gone
    assert caplog.text == ""
