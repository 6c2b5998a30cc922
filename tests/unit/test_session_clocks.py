"""Clocks that jump: a machine that was suspended, and a time of day that goes back."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

import msgspec
import pytest

from gnomon import Agent
from gnomon._payload import unpacked
from gnomon.contracts.tool import ToolContext
from gnomon.engine.clock import SystemClock
from gnomon.errors import AskUser, TurnUnfinished
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.session.runtime import LOST_WAKE
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_audit import unsound
from gnomon.testing._session_patience import Gate, until_found, within
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.types.codec import encode_event
from gnomon.types.events import Claimed, LedgerEntry, MessageReceived, Released, TurnFinished
from gnomon.types.messages import Message
from gnomon.types.records import LedgerEvent, SessionRecord, utc_now
from gnomon.types.requests import Request

DAY = timedelta(days=1)


class Hooked(MemoryStorage):
    """A store in which something happens after a write, once."""

    after_append: Callable[[], Awaitable[None]] | None = None

    async def append_events(self, events, *, checkpoint=None) -> None:
        await super().append_events(events, checkpoint=checkpoint)
        hook, self.after_append = self.after_append, None
        if hook is not None:
            await hook()


async def ledger_of(store: MemoryStorage, session_id: str = "s") -> list[LedgerEntry]:
    page = await store.list_events(session_id, 0, 1_000)
    return [unpacked(event, {}) for event in page.items]


async def write(store: MemoryStorage, *entries: LedgerEntry) -> None:
    """What another process writes."""
    after = len(await ledger_of(store))
    events = [
        LedgerEvent(
            session_id="s",
            seq=seq,
            id=f"other-{seq}",
            type=str(entry.__struct_config__.tag),
            payload=encode_event(entry),
            created_at=utc_now(),
        )
        for seq, entry in enumerate(entries, after + 1)
    ]
    await MemoryStorage.append_events(store, events)


# --- a machine that was suspended


class Suspended(SystemClock):
    """Of a machine that slept for so long; the clock that stands still meanwhile does not know of it."""

    slept_s = 0.0

    def boottime(self) -> float:
        return super().boottime() + self.slept_s


@pytest.mark.parametrize("slept_s", [0.0, 60.0])
async def test_a_runner_that_slept_with_its_machine_looks_again_before_it_asks(slept_s: float) -> None:
    """Another has the session since. Without the sleep there was no time for that."""
    store, clock = Hooked(), Suspended()
    provider = ScriptedProvider([says("Hello.")])
    async with Agent(provider, storage=store, clock=clock) as agent:

        async def sleep() -> None:
            clock.slept_s = slept_s
            if slept_s:
                await write(store, Claimed("other", 2))

        session = agent.session("s")
        await session.send("one")
        store.after_append = sleep  # of the claim and the question
        await until_found("the claims", lambda: _claims(store, 2 if slept_s else 1))
        if slept_s:
            await within("the end of the runner", until_found("its end", lambda: _is_over(agent)))
            await write(store, Released("other", 2))
        else:
            await within("the answer", session.turn_result())
    assert len(provider.requests) == (0 if slept_s else 1)


async def _claims(store: MemoryStorage, count: int) -> bool:
    return sum(isinstance(entry, Claimed) for entry in await ledger_of(store)) >= count


async def _is_over(agent: Agent) -> bool:
    runtime = agent._runtime
    return runtime is not None and not runtime.loops


def test_the_time_since_the_machine_was_started_goes_forward() -> None:
    clock = SystemClock()
    first, second = clock.boottime(), clock.boottime()
    assert 0 < first <= second


# --- a time of day that goes back


class Jumping(SystemClock):
    """The time of day, and how far it is off."""

    off = timedelta(0)

    def now(self) -> datetime:
        return utc_now() + self.off


@pytest.mark.parametrize("seed", range(4))
async def test_a_conversation_goes_on_whatever_the_time_of_day_does(seed: int) -> None:
    """It jumps by up to a day at each write; what is said, and what the row says, is the same."""
    chance, clock = random.Random(seed), Jumping()

    class Unsteady(MemoryStorage):
        def jump(self) -> None:
            clock.off = DAY * chance.uniform(-1, 1)

        async def append_events(self, events, *, checkpoint=None) -> None:
            self.jump()
            await super().append_events(events, checkpoint=checkpoint)

        async def update_session(self, session: SessionRecord) -> SessionRecord:
            self.jump()
            return await super().update_session(session)

    def answer(request: Request) -> Line:
        last = request.messages[-1]
        return calls("hold") if last.text == "hold" else says(f"re: {last.text}")

    store, gate = Unsteady(), Gate()
    provider = ScriptedProvider(answer, verbatim=False)
    async with Agent(provider, tools=[held_tool("hold", gate)], storage=store, clock=clock) as agent:
        session = agent.session("s")
        for number in range(3):
            assert (await within("a turn", session.run(str(number)))).text == f"re: {number}"
        await session.send("hold")
        await gate.reached()
        await session.send("queued")
        await within("the end of cancel", session.cancel())
        assert (await within("the queued turn", session.turn_result())).text == "re: queued"
        fork = await session.fork()
        assert (await within("a turn of the fork", fork.run("forked"))).text == "re: forked"
        turn = await within("a turn", session.run("last"))
        assert turn.text == "re: last"
    for id in ("s", fork.id):
        row = await store.get_session(id)
        assert row is not None
        assert (row.status, row.runnable) == ("idle", False)
        assert row.last_seq == len(await ledger_of(store, id))
        assert unsound(await ledger_of(store, id)) == []
    clock.off = DAY * 3
    async with Agent(provider, tools=[held_tool("hold", gate)], storage=store, clock=clock) as late:
        late._live().serve()
        await until_found("nothing left to be looked at", lambda: _is_settled(store, clock))
        assert sum(isinstance(entry, TurnFinished) for entry in await ledger_of(store)) == 5


async def _is_settled(store: MemoryStorage, clock: Jumping) -> bool:
    return not (await store.list_runnable(clock.now(), 10)).items


@pytest.mark.parametrize("off", [-DAY, DAY], ids=["back", "ahead"])
async def test_a_wake_that_was_lost_is_found_by_a_runner_with_another_time_of_day(off: timedelta) -> None:
    """What is new or was being run is found at once, whatever the time. A session that rested is looked
    at when the time has come that its row names: a clock that went back makes that later, and no more."""
    store, clock = MemoryStorage(), Jumping()

    def answer(request: Request) -> Line:
        return says(f"re: {request.messages[-1].text}")

    async with Agent(ScriptedProvider(answer), storage=store, clock=clock) as agent:
        assert (await agent.session("s").run("one")).text == "re: one"
    row = await store.get_session("s")
    assert row is not None
    now = clock.now()
    await store.update_session(_announced(row, now + LOST_WAKE))
    await write(store, MessageReceived("lost", Message.user("two")))
    clock.off = off
    async with Agent(ScriptedProvider(answer), storage=store, clock=clock) as other:
        found = [row.id for row in (await store.list_runnable(clock.now(), 10)).items]
        assert found == (["s"] if off > LOST_WAKE else [])
        clock.off = LOST_WAKE + timedelta(seconds=1)
        runtime = other._live()
        runtime.serve()
        await until_found("the answer", lambda: _answered(store, 2))
    row = await store.get_session("s")
    assert row is not None
    assert (row.status, row.runnable, row.wake_at) == ("idle", False, None)


def _announced(row: SessionRecord, wake_at: datetime) -> SessionRecord:
    return msgspec.structs.replace(row, wake_at=wake_at)


async def _answered(store: MemoryStorage, count: int) -> bool:
    return sum(isinstance(entry, TurnFinished) for entry in await ledger_of(store)) >= count


async def test_a_turn_that_waits_is_answered_after_the_time_of_day_went_back() -> None:
    store, clock = MemoryStorage(), Jumping()

    async def ask(context: ToolContext) -> str:
        raise AskUser("Which?")

    tools = [StageTool("ask", ask)]
    async with Agent(
        ScriptedProvider([calls("ask"), says("Red.")]), tools=tools, storage=store, clock=clock
    ) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("one")
        clock.off = -DAY
        await session.answer("red")
        turn = await within("the turn", session.turn_result())
        assert turn.text == "Red."
        clock.off = -2 * DAY
        assert (await session.refresh()).state == "idle"
    row = await store.get_session("s")
    assert row is not None
    assert (row.status, row.runnable) == ("idle", False)
