"""`session.run` beside others who write to the session, take it over or read it: nothing is lost or mixed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress

import pytest
from session_stage import StagedStorage, answered, ledger_of, make_row, opening, write

from gnomon import Agent, Provider, Request, tool
from gnomon._payload import unpacked
from gnomon.errors import Conflict, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.stream import PullStream
from gnomon.testing._session_audit import unsound
from gnomon.types.events import (
    CancelRequested,
    Claimed,
    Finish,
    LedgerEntry,
    MessageReceived,
    ModelStarted,
    ProviderEvent,
    QuestionAsked,
    Released,
    TurnCancelled,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall
from gnomon.types.records import LedgerEvent, SessionRecord


def echo() -> ScriptedProvider:
    """A model that says what it was told last."""
    return ScriptedProvider(lambda request: says(request.messages[-1].text))


def texts(entries: list[LedgerEntry]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry, MessageReceived)]


async def nothing() -> None:
    pass


async def test_nobody_is_told_that_a_message_stays_in_its_place_before_it_stands() -> None:
    """Known here as resting; in truth it waits for a person, and the store goes away just then."""
    store = StagedStorage()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")
        await write(
            store,
            MessageReceived("u9", Message.user("theirs")),
            Claimed("gone", 2),
            TurnStarted("t9", "agent", "m", agent_hash=agent._definition.hash, inputs=("u9",)),
            ModelStarted("t9", "m9", (2, 1)),
            answered(ToolCall(id="c1", name="ask", arguments="{}"), message_id="m9", turn_id="t9"),
            QuestionAsked("t9", "c1", "which?"),
            Released("gone", 2),
            after=len(await ledger_of(store)),
        )
        appends = 0

        async def away() -> None:
            nonlocal appends
            appends += 1
            if appends > 1:
                await asyncio.sleep(0.02)
                raise Unavailable("the store went away")

        store.before_append = away
        async with asyncio.timeout(5):
            with pytest.raises(Unavailable):
                await session.run("lost")
        store.before_append = nothing
        assert "lost" not in texts(await ledger_of(store))


async def test_a_message_brought_along_comes_after_those_that_wait_and_is_not_cancelled_for_them() -> None:
    store = StagedStorage()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")
        theirs = MessageReceived("u9", Message.user("theirs"))
        end = len(await ledger_of(store))
        await write(store, theirs, CancelRequested("now", "not wanted"), after=end)
        async with asyncio.timeout(5):
            turn = await session.run("mine")
        assert (turn.stop, turn.text) == ("end_turn", "mine")
        entries = (await ledger_of(store))[end:]
        assert next(entry for entry in entries if isinstance(entry, TurnStarted)).inputs == ("u9",)
        assert sum(isinstance(entry, TurnCancelled) for entry in entries) == 1


async def test_a_message_is_written_though_whoever_takes_the_session_over_is_broken_off() -> None:
    store, gate = StagedStorage(), asyncio.Event()

    async def hold() -> None:
        await gate.wait()

    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")
        store.before_append = hold
        asking = asyncio.ensure_future(session.run("mine"))
        taking_over = asyncio.ensure_future(session.resume(take_over=True))
        await asyncio.sleep(0.05)
        taking_over.cancel()
        await asyncio.sleep(0.02)
        store.before_append = nothing
        gate.set()
        assert (await asyncio.wait_for(asking, 5)).text == "mine"
        with suppress(asyncio.CancelledError):
            await taking_over
        assert texts(await ledger_of(store)) == ["first", "mine"]


async def test_a_runner_that_is_broken_off_from_within_leaves_nobody_waiting() -> None:
    class Cutting(StagedStorage):
        cuts = False

        async def append_events(self, events, *, checkpoint=None) -> None:
            if self.cuts:
                self.cuts = False
                raise asyncio.CancelledError
            await super().append_events(events, checkpoint=checkpoint)

    store = Cutting()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")
        store.cuts = True
        async with asyncio.timeout(5):
            with pytest.raises(RuntimeError, match="stopped before"):
                await session.run("mine")


async def test_a_message_that_comes_a_moment_late_steers_the_turn_that_was_quicker() -> None:
    store, gate = StagedStorage(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    def model(request):
        return calls("wait") if request.messages[-1].text == "one" else says(request.messages[-1].text)

    async def slowly() -> None:
        await asyncio.sleep(0.01)

    async with Agent(ScriptedProvider(model), tools=[wait], storage=store) as agent:
        session = agent.session("s")
        await session.run("zero")
        async with asyncio.timeout(5):
            while (await store.get_session("s")).runnable:  # noqa: ASYNC110 - a row is written a moment later
                await asyncio.sleep(0.02)
        store.before_update = slowly
        one = asyncio.ensure_future(session.run("one"))
        two = asyncio.ensure_future(session.run("two", when_busy="steer"))
        async with asyncio.timeout(5):
            while "two" not in texts(await ledger_of(store)):  # noqa: ASYNC110 - a store cannot tell
                await asyncio.sleep(0.02)
        gate.set()
        assert [(await one).id, (await one).text] == [(await two).id, "two"]


async def test_a_fork_has_its_row_already(caplog) -> None:
    async with Agent(echo(), storage=StagedStorage()) as agent:
        session = agent.session("s")
        await session.run("first")
        fork = await session.fork()
        with caplog.at_level(logging.WARNING):
            assert (await fork.run("more")).text == "more"
        assert not caplog.records


async def test_a_new_session_that_is_being_read_by_its_id_has_one_ledger() -> None:
    class Slow(MemoryStorage):
        async def list_events(self, *given, **more):
            await asyncio.sleep(0.05)
            return await super().list_events(*given, **more)

    async with Agent(echo(), storage=Slow()) as agent:
        one = agent.session()
        two = agent.session(one.id)
        await asyncio.gather(two.run("by its id"), one.run("by hand"))
        assert one._ledger is two._ledger


async def test_a_session_that_was_closed_meanwhile_gets_no_message() -> None:
    class Shut(StagedStorage):
        async def shut(self) -> None:
            row = await self.get_session("s")
            assert row is not None
            closed = {name: getattr(row, name) for name in row.__struct_fields__} | {"status": "closed"}
            await self.update_session(SessionRecord(**closed))

    store = Shut()
    async with Agent(echo(), storage=store) as agent:
        session = agent.session("s")
        await session.run("first")
        async with asyncio.timeout(5):
            while (await store.get_session("s")).runnable:  # noqa: ASYNC110 - a row is written a moment later
                await asyncio.sleep(0.02)
        await store.shut()
        with pytest.raises(Conflict, match="closed"):
            await session.run("late")
        row = await store.get_session("s")
        assert row is not None
        assert (row.status, row.wake_at) == ("closed", None)


async def test_a_reader_that_leaves_does_not_end_the_turn_that_comes_after_its_own() -> None:
    """Its own ends while it leaves, and the next begins at once."""
    store, gate = StagedStorage(), asyncio.Event()

    def model(request):
        return says(request.messages[-1].text)

    async with Agent(ScriptedProvider(model), storage=store) as agent:
        session = agent.session("s")
        await make_row(store)
        own, other = MessageReceived("u1", Message.user("own")), MessageReceived("u2", Message.user("other"))
        started = TurnStarted("t1", "agent", "m", agent_hash=agent._definition.hash, inputs=("u1",))
        await write(store, own, Claimed("else", 1), started, ModelStarted("t1", "m1", (1, 1)), other)
        read = session._opened
        looks = 0

        async def and_then_it_ends(**given):
            nonlocal looks
            ledger = await read(**given)
            looks += 1
            if looks == 1:
                after = TurnStarted("t2", "agent", "m", agent_hash=started.agent_hash, inputs=("u2",))
                ended = TurnCancelled("t1", "ended by itself")
                await write(store, ended, after, ModelStarted("t2", "m2", (1, 1)), after=5)
            return ledger

        session._opened = and_then_it_ends  # type: ignore[method-assign]
        async with asyncio.timeout(5):
            await session._leaving("t1")
        gate.set()
        entries = await ledger_of(store)
        assert not [entry for entry in entries if isinstance(entry, CancelRequested)]


async def test_a_runner_is_not_held_up_for_ever_by_the_cancel_of_a_turn_that_others_have_ended() -> None:
    """It hears of the cancel while it claims the session, and then of the turn that came after."""
    store = StagedStorage()
    async with Agent(echo(), storage=store) as agent:
        await make_row(store)
        await write(store, *opening(agent))
        given = agent._definition.hash
        theirs: list[list[LedgerEntry]] = [
            [CancelRequested("now", "not wanted")],
            [
                TurnCancelled("t1", "not wanted"),
                MessageReceived("u2", Message.user("next")),
                TurnStarted("t2", "agent", "m", agent_hash=given, inputs=("u2",)),
                ModelStarted("t2", "m2", (1, 1)),
            ],
        ]

        async def others_are_first() -> None:
            await asyncio.sleep(0)
            if theirs:
                await write(store, *theirs.pop(0), after=len(await ledger_of(store)))

        store.before_append = others_are_first
        async with asyncio.timeout(5):
            session = agent.session("s")
            await session.resume()
            assert (await session.turn_result()).text == "next"
        asked = [entry for entry in await ledger_of(store) if isinstance(entry, ModelStarted)]
        assert len(asked) <= 4


@pytest.mark.parametrize("adopts", [True, False])
async def test_a_session_that_was_taken_over_in_an_append_that_was_broken_off_is_gone_on_with(adopts) -> None:
    """The one it was taken from is alive: nobody else would look at it."""

    class Cutting(StagedStorage):
        is_cut = False

        async def append_events(self, events, *, checkpoint=None) -> None:
            await super().append_events(events, checkpoint=checkpoint)
            if self.is_cut:
                self.is_cut = False
                raise Unavailable("the store went away")

    store = Cutting()
    async with Agent(echo(), storage=store, adopt=adopts) as agent, store.holding("alive"):
        await make_row(store, metadata={"owner": "alive"}, status="running")
        await write(store, *opening(agent, owner="alive"))
        session = agent.session("s")
        store.is_cut = True
        with pytest.raises(Unavailable):
            await session.resume(take_over=True)
        async with asyncio.timeout(5):
            while (await session.refresh()).state != "idle":  # noqa: ASYNC110 - a store cannot tell
                await asyncio.sleep(0.02)


async def test_what_ended_one_turn_is_not_written_into_the_next_by_a_runner_that_is_stopped() -> None:
    """The append that ends a turn and begins that of a message which waits stands, but is broken off."""

    class Hanging(StagedStorage):
        hung: asyncio.Event | None = None

        async def append_events(self, events, *, checkpoint=None) -> None:
            await super().append_events(events, checkpoint=checkpoint)
            if self.hung is None and any(event.type == "turn_finished" for event in events):
                self.hung = asyncio.Event()
                await self.hung.wait()

    store = Hanging()
    async with Agent(echo(), storage=store) as agent:
        await make_row(store)
        await write(store, *opening(agent), MessageReceived("u2", Message.user("next")))
        session = agent.session("s")
        running = asyncio.ensure_future(session.resume(take_over=True))
        async with asyncio.timeout(5):
            while store.hung is None:  # noqa: ASYNC110 - a store cannot tell
                await asyncio.sleep(0.01)
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            assert (await session.turn_result()).text == "next"
        assert unsound(await ledger_of(store)) == []


class Deaf(MemoryStorage):
    """A store that tells nobody what was written: a reader lags behind for ever."""

    def watch(self, session_id: str, after_seq: int = 0) -> PullStream[LedgerEvent]:
        return PullStream(self._silence())

    async def _silence(self) -> AsyncGenerator[LedgerEvent, None]:
        await asyncio.Event().wait()
        yield  # type: ignore[misc]


async def test_who_leaves_a_turn_that_has_begun_without_hearing_of_it_cancels_it() -> None:
    store, asked = Deaf(), asyncio.Event()

    class Slow(Provider):
        name = model = "slow"

        async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
            asked.set()
            await asyncio.Event().wait()
            yield Finish(stop_reason="end_turn")

    async with Agent(Slow(), storage=store) as agent:

        async def read() -> None:
            async with agent.session("s").stream("hello") as run:
                async for _ in run:
                    pass

        reading = asyncio.ensure_future(read())
        await asyncio.wait_for(asked.wait(), 5)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        entries = [unpacked(event, {}) for event in (await store.list_events("s")).items]
        assert [type(entry) for entry in entries][-2:] == [TurnCancelled, Released]
