"""`session.run` on a session that rests: its message is written with the claim, and never lost or doubled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gnomon import Agent, tool
from gnomon._payload import unpacked
from gnomon.errors import AskUser, StorageError, TurnUnfinished, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_audit import unsound
from gnomon.types.events import Claimed, MessageReceived, TurnFinished
from gnomon.types.records import SessionRecord


def echo() -> ScriptedProvider:
    """A model that says what it was told last."""
    return ScriptedProvider(lambda request: says(request.messages[-1].text))


class Watched(MemoryStorage):
    """A store that counts what is written, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.before: Callable[[str], object] = lambda _: None
        self.after: Callable[[str], object] = lambda _: None

    async def append_events(self, events, *, checkpoint=None) -> None:
        self._write("append")
        await super().append_events(events, checkpoint=checkpoint)
        self.after("append")

    async def create_session(self, session: SessionRecord) -> None:
        self._write("create")
        await super().create_session(session)

    async def update_session(self, session: SessionRecord) -> SessionRecord:
        self._write("update")
        return await super().update_session(session)

    def _write(self, what: str) -> None:
        self.before(what)
        self.writes.append(what)


async def ledger_of(store: MemoryStorage, session_id: str) -> list[object]:
    page = await store.list_events(session_id, 0, 1_000)
    return [unpacked(event, {}) for event in page.items]


def received(entries: list[object]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry, MessageReceived)]


def finished(entries: list[object]) -> int:
    return sum(isinstance(entry, TurnFinished) for entry in entries)


async def test_a_turn_of_a_new_session_is_two_appends_and_its_row() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        assert (await agent.session().run("hello")).text == "hello"
        assert sorted(store.writes) == ["append", "append", "create"]


async def test_the_next_turn_is_two_appends_and_nothing_else() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session()
        await session.run("hello")
        store.writes.clear()
        await session.run("again")
        assert store.writes == ["append", "append"]


async def test_many_who_ask_a_session_at_once_are_all_answered_in_one_order() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        turns = await asyncio.gather(*(session.run(f"hello {at}") for at in range(20)))
        assert [turn.text for turn in turns] == [f"hello {at}" for at in range(20)]
    entries = await ledger_of(store, "s")
    assert sorted(received(entries)) == sorted(f"hello {at}" for at in range(20))
    assert finished(entries) == 20
    assert unsound(entries) == []  # type: ignore[arg-type]


async def test_two_that_know_a_session_by_its_id_share_its_ledger() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        one = agent.session()
        two = agent.session(one.id)
        turns = await asyncio.gather(two.run("by its id"), one.run("by hand"))
        assert [turn.text for turn in turns] == ["by its id", "by hand"]
        assert (await one.refresh()).state == "idle"
        assert finished(await ledger_of(store, one.id)) == 2


async def test_a_message_that_cannot_be_written_is_told_to_whoever_sent_it() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")

        def full(what: str) -> None:
            raise StorageError("the disk is full")

        store.before = full
        async with asyncio.timeout(5):
            with pytest.raises(StorageError, match="the disk is full"):
                await session.run("lost")
        store.before = lambda _: None
        assert (await session.run("second")).text == "second"
        assert received(await ledger_of(store, "s")) == ["first", "second"]


async def test_a_message_of_which_nobody_knows_whether_it_stands_is_answered_if_it_does() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")

        def lost(what: str) -> None:
            store.after = lambda _: None
            raise Unavailable("the server went away")

        store.after = lost
        async with asyncio.timeout(5):
            with pytest.raises(Unavailable):
                await session.run("doubtful")
        async with asyncio.timeout(10):
            while finished(await ledger_of(store, "s")) < 2:  # noqa: ASYNC110 - a store cannot tell
                await asyncio.sleep(0.02)
        entries = await ledger_of(store, "s")
        assert received(entries) == ["first", "doubtful"]
        assert unsound(entries) == []  # type: ignore[arg-type]


async def test_a_session_that_another_runs_meanwhile_gets_the_message_all_the_same() -> None:
    """Known here as resting; in truth it is held by a runner that is alive, and waits for a person."""
    store = Watched()
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    theirs = ScriptedProvider([calls("wait"), says("theirs"), says("ours")])
    async with Agent(echo(), storage=store) as here, Agent(theirs, tools=[wait], storage=store) as there:
        session = here.session("s")
        await session.run("first")
        await there.session("s").send("to be held")
        async with asyncio.timeout(10):
            while not theirs.requests:  # noqa: ASYNC110 - another agent is at work
                await asyncio.sleep(0.01)
        ours = asyncio.ensure_future(session.run("queued"))
        await asyncio.sleep(0.1)
        gate.set()
        assert (await asyncio.wait_for(ours, 10)).text == "ours"
    entries = await ledger_of(store, "s")
    assert received(entries) == ["first", "to be held", "queued"]
    assert len({entry.owner for entry in entries if isinstance(entry, Claimed)}) == 2


async def test_a_caller_who_leaves_before_anything_is_written_leaves_a_sound_session() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")
        asking = asyncio.ensure_future(session.run("left"))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await session.run("after")).text == "after"
        entries = await ledger_of(store, "s")
        assert received(entries) in (["first", "after"], ["first", "left", "after"])
        assert unsound(entries) == []  # type: ignore[arg-type]


async def test_a_message_to_a_session_that_waits_for_a_person_stays_in_its_place() -> None:
    @tool
    def ask() -> str:
        """Ask."""
        raise AskUser("Which one?")

    provider = ScriptedProvider([calls("ask"), says("one"), says("two")])
    async with Agent(provider, tools=[ask], storage=Watched()) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("first")
        with pytest.raises(TurnUnfinished):
            await session.run("second")
        await session.answer("that one")
        assert (await session.turn_result()).text == "two"


async def test_a_message_that_is_sent_to_a_new_session_is_its_row_and_an_append() -> None:
    store = Watched()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.send("hello")
        assert store.writes == ["create", "append"]
        assert (await session.turn_result()).text == "hello"
