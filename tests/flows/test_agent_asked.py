"""An agent that adopts nothing runs what is asked of it, and leaves to others what is theirs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import storing
from gnomon import Agent, tool
from gnomon.contracts.storage import Storage
from gnomon.errors import AskUser, Conflict, InvalidInput, StorageError, TurnUnfinished, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.session.local import LocalSession
from gnomon.storage.memory import MemoryStorage
from gnomon.types.events import TextDelta
from gnomon.types.records import LedgerEvent

SOON_S = 15.0
A_WHILE_S = 1.0
"""Several times as long as whoever waits for a session takes to look at it again."""


@pytest.fixture
def store(tmp_path: Path) -> str:
    """Each agent opens it for itself, as another process would."""
    return storing.sqlite_url(tmp_path / "asked.db")


class Held:
    """A tool that takes as long as the test says."""

    def __init__(self) -> None:
        self.begun, self.goes_on = asyncio.Event(), asyncio.Event()

    def tool(self) -> object:
        @tool(read_only=True)
        async def hold() -> str:
            """Wait."""
            self.begun.set()
            await self.goes_on.wait()
            return "held"

        return hold


def held(storage: str | Storage, hold: Held, *answers: str, adopt: bool = False) -> Agent[str]:
    script = [calls("hold"), *(says(text) for text in answers)]
    return Agent(ScriptedProvider(script), tools=[hold.tool()], storage=storage, adopt=adopt)


def speaking(storage: str | Storage, *, adopt: bool = False, text: str = "Here.") -> Agent[str]:
    return Agent(ScriptedProvider(lambda _: says(text), verbatim=False), storage=storage, adopt=adopt)


async def left_open(storage: str | Storage, session_id: str) -> None:
    """A session whose turn was begun, and that nobody runs."""
    hold = Held()
    async with held(storage, hold) as agent:
        await agent.session(session_id).send("one")
        await hold.begun.wait()
        closing = asyncio.ensure_future(agent.close())
        await asyncio.sleep(0.05)
        hold.goes_on.set()
        await closing


# --- what is not asked for ----------------------------------------------------


@pytest.mark.parametrize("adopt", [False, True])
async def test_a_session_that_nobody_runs_is_taken_up_by_an_agent_that_adopts(
    store: str, adopt: bool
) -> None:
    await left_open(store, "left")
    async with asyncio.timeout(SOON_S), speaking(store, adopt=adopt) as agent:
        assert (await agent.session("other").run("hi")).text == "Here."
        await agent.run("hi")
        left = agent.session("left")
        if adopt:
            while (await left.refresh()).state != "idle":  # noqa: ASYNC110 - until it was run
                await asyncio.sleep(0.02)
        else:
            before = await left.refresh()
            assert before.state == "running"
            await asyncio.sleep(A_WHILE_S)
            assert await left.refresh() == before
            assert not await left.is_attended()


@pytest.mark.parametrize("adopt", [False, True])
async def test_a_message_of_another_in_the_same_session_is_begun_by_an_agent_that_adopts(
    store: str, adopt: bool
) -> None:
    hold = Held()
    async with (
        asyncio.timeout(SOON_S),
        held(store, hold, "First.", *["Second."] * adopt, adopt=adopt) as one,
    ):
        running = asyncio.ensure_future(one.session("s").run("one"))
        await hold.begun.wait()
        async with speaking(store) as two:
            await two.session("s").send("two")
        hold.goes_on.set()
        assert (await running).text == "First."
        session = one.session("s")
        if adopt:
            assert (await session.turn_result()).text == "Second."
        else:
            await left_alone(session)


async def left_alone(session: LocalSession[str]) -> None:
    """A message waits in it, and nobody does anything about it."""
    await asyncio.sleep(0.1)
    before = await session.refresh()
    await asyncio.sleep(A_WHILE_S)
    assert before.state == "running"
    assert await session.refresh() == before
    assert not await session.is_attended()


async def test_a_message_that_comes_during_an_answer_is_left_to_who_sent_it(store: str) -> None:
    goes_on = asyncio.Event()

    async def wait(_: float) -> None:
        await goes_on.wait()

    provider = ScriptedProvider(says("One two three."), delay_s=1, sleep=wait)
    async with asyncio.timeout(SOON_S), Agent(provider, storage=store, adopt=False) as one:
        session = one.session("s")
        async with session.stream("one") as run:
            async for event in run:
                if isinstance(event, TextDelta) and not goes_on.is_set():
                    async with speaking(store) as two:
                        await two.session("s").send("two")
                    goes_on.set()
        assert run.turn.text == "One two three."
        await left_alone(session)


async def test_going_on_with_a_session_ends_with_what_was_open_in_it(store: str) -> None:
    await left_open(store, "left")
    async with speaking(store) as writer:
        await writer.session("left").send("two", message_id="msg_two")
        # closed at once: whatever it began of it stays open, and is gone on with below
    async with asyncio.timeout(SOON_S), speaking(store) as agent:
        session = agent.session("left")
        run = await session.follow()
        assert run is not None
        await session.resume()
        async for _ in run:
            pass
        assert run.turn.stop == "end_turn"


# --- what is asked for --------------------------------------------------------


async def test_what_is_sent_is_answered_however_it_is_waited_for(store: str) -> None:
    async with asyncio.timeout(SOON_S), speaking(store) as agent:
        session = agent.session("s")
        await session.send("one")
        assert (await session.turn_result()).text == "Here."
        assert (await session.run("two")).text == "Here."
        async with session.stream("three") as run:
            assert "".join([text async for text in run.text()]) == "Here."
        assert run.turn.messages[0].text == "three"
        async with agent.stream("four", on_leave="detach") as alone:
            assert "".join([text async for text in alone.text()]) == "Here."
        assert (await agent.run("five")).text == "Here."


async def test_two_that_adopt_nothing_take_turns_in_one_session(store: str) -> None:
    hold = Held()
    async with asyncio.timeout(SOON_S), held(store, hold, "First.") as one, speaking(store) as two:
        first = asyncio.ensure_future(one.session("s").run("one"))
        await hold.begun.wait()
        second = asyncio.ensure_future(two.session("s").run("two"))
        third = asyncio.ensure_future(two.session("s").run("three"))
        await asyncio.sleep(0.3)
        assert await two.session("s").is_attended()
        assert not second.done()
        hold.goes_on.set()
        turns = [(turn.messages[0].text, turn.text) for turn in (await first, await second, await third)]
        assert turns == [("one", "First."), ("two", "Here."), ("three", "Here.")]


async def test_a_turn_that_was_left_open_is_cancelled(store: str) -> None:
    await left_open(store, "left")
    async with asyncio.timeout(SOON_S), speaking(store) as agent:
        session = agent.session("left")
        await session.cancel(reason="enough")
        assert (await session.turn_result()).stop == "cancelled"
        assert agent.provider.requests == []  # type: ignore[attr-defined]


async def with_two_waiting(store: str) -> None:
    """A session in which a turn has ended, and two messages wait for theirs."""
    hold = Held()
    async with asyncio.timeout(SOON_S), held(store, hold, "First.") as one:
        running = asyncio.ensure_future(one.session("s").run("one"))
        await hold.begun.wait()
        async with speaking(store) as two:
            for text in ("two", "three"):
                await two.session("s").send(text)
        hold.goes_on.set()
        await running


async def test_a_message_that_waits_is_cancelled_and_those_behind_it_are_not(store: str) -> None:
    await with_two_waiting(store)
    async with asyncio.timeout(SOON_S), speaking(store) as agent:
        session = agent.session("s")
        await session.cancel()
        assert (await session.refresh()).state == "running"  # the third waits for who wants it
        turn = await session.turn_result()
        assert (turn.messages[0].text, turn.stop) == ("three", "end_turn")


async def test_where_no_turn_is_open_the_next_is_begun_and_no_more(store: str) -> None:
    await with_two_waiting(store)
    async with asyncio.timeout(SOON_S), speaking(store) as agent:
        session = agent.session("s")
        run = await session.follow()
        assert run is not None
        await session.resume()
        async with run:
            assert "".join([text async for text in run.text()]) == "Here."
        assert run.turn.messages[0].text == "two"
        await left_alone(session)


async def test_a_question_is_answered_and_the_turn_gone_on_with(store: str) -> None:
    @tool
    def ask() -> str:
        """Ask."""
        raise AskUser("Which?")

    script = [calls("ask"), says("Then b.").expecting(result="b")]
    agent = Agent(ScriptedProvider(script), tools=[ask], storage=store, adopt=False)
    async with asyncio.timeout(SOON_S), agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished, match="Which"):
            await session.run("choose")
        run = await session.follow()
        assert run is not None
        await session.answer("b")
        async with run:
            assert [text async for text in run.text()] == ["Then b."]


async def test_a_session_is_taken_over_while_it_is_followed(store: str) -> None:
    hold = Held()
    async with asyncio.timeout(SOON_S), held(store, hold) as one, speaking(store) as two:
        await one.session("s").send("one")
        await hold.begun.wait()
        session = two.session("s")
        with pytest.raises(Conflict):
            await session.resume()
        run = await session.follow()
        assert run is not None
        taking = asyncio.ensure_future(session.resume(take_over=True))
        async for _ in run:
            pass
        await taking
        hold.goes_on.set()
        assert run.turn.stop == "end_turn"


class Slow(MemoryStorage):
    """A store in which it takes a while to find out who is alive."""

    def __init__(self) -> None:
        super().__init__()
        self.looked = asyncio.Event()

    async def is_held(self, owner: str) -> bool:
        self.looked.set()
        await asyncio.sleep(0.1)
        return await super().is_held(owner)


async def test_a_session_is_taken_over_while_somebody_here_looks_whether_it_is_free() -> None:
    storage, hold = Slow(), Held()
    async with asyncio.timeout(SOON_S), held(storage, hold) as one, speaking(storage) as two:
        await one.session("s").send("one")
        await hold.begun.wait()
        session = two.session("s")
        waiting = asyncio.ensure_future(session.turn_result())
        await storage.looked.wait()
        await session.resume(take_over=True)
        assert (await waiting).stop == "end_turn"
        hold.goes_on.set()


# --- who reads is told --------------------------------------------------------


class Failing(MemoryStorage):
    """A store that takes nothing more once it is told so."""

    is_full = False

    async def append_events(self, events: object, *, checkpoint: object = None) -> None:
        if self.is_full:
            raise Unavailable("the disk is full")
        await super().append_events(events, checkpoint=checkpoint)  # type: ignore[arg-type]

    async def append_event(self, event: LedgerEvent) -> None:
        await self.append_events([event])


@pytest.mark.parametrize("adopt", [False, True])
async def test_a_store_that_fails_is_told_to_who_reads_the_turn(adopt: bool) -> None:
    storage = Failing()
    agent = Agent(
        ScriptedProvider(says("One two three."), delay_s=0.01), storage=storage, adopt=adopt, name="a"
    )
    async with asyncio.timeout(SOON_S), agent:

        async def read() -> None:
            async with agent.session("s").stream("one") as run:
                async for event in run:
                    storage.is_full = storage.is_full or isinstance(event, TextDelta)

        with pytest.raises(StorageError, match="the disk is full"):
            await read()
        storage.is_full = False
        assert (await agent.session("s").refresh()).state == "running"


@pytest.mark.parametrize("adopt", [False, True])
async def test_a_run_that_its_store_failed_is_gone_on_with(adopt: bool) -> None:
    """Also by an agent that adopts nothing: it was asked for here, and nobody else would take it up."""
    storage = Failing()
    provider = ScriptedProvider(lambda _: says("One two three."), delay_s=0.01)
    async with asyncio.timeout(SOON_S), Agent(provider, storage=storage, adopt=adopt) as agent:
        run = agent.stream("one")

        async def read() -> None:
            async with run:
                async for event in run:
                    storage.is_full = storage.is_full or isinstance(event, TextDelta)

        with pytest.raises(StorageError, match="the disk is full"):
            await read()
        storage.is_full = False
        session = agent.session(run.session_id)
        while (await session.refresh()).state != "idle":  # noqa: ASYNC110 - until it was run
            await asyncio.sleep(0.02)
        await asyncio.sleep(A_WHILE_S)
        assert ((await session.refresh()).state, len(provider.requests)) == ("idle", 2)


async def test_an_agent_that_is_closed_is_told_to_who_reads_a_turn(store: str) -> None:
    hold = Held()
    async with asyncio.timeout(SOON_S), held(store, hold, "One.") as agent:

        async def read() -> None:
            async with agent.session("s").stream("one", on_leave="detach") as run:
                async for _ in run:
                    pass

        reading = asyncio.ensure_future(read())
        await hold.begun.wait()
        closing = asyncio.ensure_future(agent.close())
        await asyncio.sleep(0.05)
        hold.goes_on.set()
        await closing
        with pytest.raises(RuntimeError, match="is closed"):
            await reading


# --- what is kept with a session ----------------------------------------------


async def test_metadata_are_kept_in_the_row_of_a_new_session(store: str) -> None:
    async with asyncio.timeout(SOON_S), speaking(store) as agent:
        given = {"customer": 7, "tags": ["a", "b"]}
        session = agent.session("s", metadata=given)
        given["customer"] = 8
        await session.run("one")
        await agent.session("s", metadata={"customer": 9}).run("two")
        run_id = (await agent.run("three", metadata={"from": "run"})).session_id
        async with agent.stream("four", metadata={"from": "stream"}, on_leave="detach") as run:
            async for _ in run:
                pass
        fork = await session.fork()
    async with storing.opened(store) as opened:
        kept = [await opened.get_session(at) for at in ("s", fork.id, run_id, run.session_id)]
    found = [{**row.metadata, "owner": None} for row in kept if row is not None]
    told = {"customer": 7, "tags": ["a", "b"]}
    assert [{key: value for key, value in each.items() if key != "owner"} for each in found] == [
        told,
        told,
        {"from": "run"},
        {"from": "stream"},
    ]


@pytest.mark.parametrize("wrong", [{"owner": "me"}, {"at": object()}, {"x": {1: object}}])
async def test_metadata_that_cannot_be_kept_are_refused_at_once(wrong: dict[str, object]) -> None:
    async with Agent("demo") as agent:
        for use in (agent.session, lambda **given: agent.stream("hi", **given)):
            with pytest.raises(InvalidInput, match="metadata"):
                use(metadata=wrong)  # type: ignore[operator]
        with pytest.raises(TypeError, match="metadata are given as a dict"):
            agent.session(metadata=["a"])  # type: ignore[arg-type]


async def test_a_session_says_how_far_it_was_read(store: str) -> None:
    async with asyncio.timeout(SOON_S), speaking(store) as agent:
        session = agent.session("s")
        assert (await session.refresh()).position == 0
        await session.run("one")
        end = (await session.refresh()).position
        async with session.events() as reader:
            while reader.position < end:
                await reader.__anext__()
        assert end > 3
