"""Turns that are ended, given up or left: the right one, soon, and what is written of it is true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from gnomon import Agent
from gnomon._payload import unpacked
from gnomon.contracts.tool import ToolContext
from gnomon.errors import AskUser, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_audit import unsound
from gnomon.testing._session_patience import Gate, beside, until, until_found, within
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.types.events import (
    CancelRequested,
    LedgerEntry,
    QuestionAsked,
    Released,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFinished,
    TurnStarted,
)
from gnomon.types.messages import ToolResult
from gnomon.types.records import SessionRecord


class Hooked(MemoryStorage):
    """A store in which something happens before a write, once."""

    def __init__(self) -> None:
        super().__init__()
        self.before_append: Callable[[], Awaitable[None]] | None = None
        self.before_create: Callable[[], Awaitable[None]] | None = None
        self.before_update: Callable[[], Awaitable[None]] | None = None

    async def append_events(self, events, *, checkpoint=None) -> None:
        hook, self.before_append = self.before_append, None
        if hook is not None:
            await hook()
        await super().append_events(events, checkpoint=checkpoint)

    async def create_session(self, session: SessionRecord) -> None:
        hook, self.before_create = self.before_create, None
        if hook is not None:
            await hook()
        await super().create_session(session)

    async def update_session(self, session: SessionRecord) -> SessionRecord:
        hook, self.before_update = self.before_update, None
        if hook is not None:
            await hook()
        return await super().update_session(session)


async def ledger_of(store: MemoryStorage, session_id: str = "s") -> list[LedgerEntry]:
    page = await store.list_events(session_id, 0, 1_000)
    return [unpacked(event, {}) for event in page.items]


def of_kind(entries: list[LedgerEntry], kind: type) -> list:
    return [entry for entry in entries if isinstance(entry, kind)]


async def results_of(store: MemoryStorage) -> dict[str, ToolResult]:
    finished = of_kind(await ledger_of(store), ToolFinished)
    return {entry.result.name: entry.result for entry in finished}


# --- which turn a cancel ends


@pytest.mark.parametrize("moment", ["before_update", "before_append"])
async def test_a_cancel_that_comes_too_late_does_not_end_the_next_turn(moment: str) -> None:
    store, first, second = Hooked(), Gate(), Gate()
    script = [calls("one"), says("One."), calls("two"), says("Two.")]
    tools = [held_tool("one", first), held_tool("two", second)]
    async with Agent(ScriptedProvider(script), tools=tools, storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        await first.reached()
        queued = await session.send("two")

        async def end_the_first() -> None:
            first.open()
            await second.reached()

        setattr(store, moment, end_the_first)
        if (
            moment == "before_append"
        ):  # elsewhere: here the append of the cancel would hold that of the runner
            async with Agent(ScriptedProvider([]), tools=tools, storage=store) as elsewhere:
                await within("the end of cancel", elsewhere.session("s").cancel())
        else:
            await within("the end of cancel", session.cancel())
        second.open()
        turn = await within("the second turn", session.turn_result())
        assert (turn.text, turn.stop) == ("Two.", "end_turn")
        ledger = await ledger_of(store)
        assert not of_kind(ledger, TurnCancelled)
        assert not of_kind(ledger, CancelRequested)
        assert of_kind(ledger, TurnStarted)[1].inputs == (queued,)
        assert unsound(ledger) == []


async def test_a_cancel_of_a_message_that_waits_ends_the_turn_that_takes_it() -> None:
    store, gate = Hooked(), Gate()
    script = [calls("hold"), says("Next.").expecting(text="next")]
    async with Agent(ScriptedProvider(script), tools=[held_tool("hold", gate)], storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        assert session.status.turn_id is None

        store.before_update = gate.reached
        await within("the end of cancel", session.cancel())
        assert (await session.turn_result()).stop == "cancelled"
        assert (await session.run("next")).text == "Next."


async def test_a_cancel_waits_for_its_own_turn_and_not_for_the_next() -> None:
    """The next may be cancelled too, and take its time about it."""
    store, first, second = Hooked(), Gate(), Gate()
    script = [calls("one"), calls("two"), says("Three.")]
    tools = [held_tool("one", first), held_tool("two", second)]
    async with Agent(ScriptedProvider(script), tools=tools, storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        await first.reached()
        await session.send("two")
        async with beside(session.cancel("after_step")) as early:
            await until_found("the cancel", lambda: _has(store, CancelRequested, 1))
            first.open()
            await second.reached()
            async with beside(session.cancel("after_step")) as late:
                await until_found("both cancels", lambda: _has(store, CancelRequested, 2))
                await within("the end of the first cancel", early)
                assert not late.done()
                second.open()
                await within("the end of the second cancel", late)


async def _has(store: MemoryStorage, kind: type, count: int) -> bool:
    return len(of_kind(await ledger_of(store), kind)) >= count


# --- closing an agent


@pytest.mark.parametrize("names", [("hang",), ("look", "hang", "hang")], ids=["alone", "among others"])
async def test_a_call_that_only_reads_does_not_hold_up_the_end_of_its_agent(names: tuple[str, ...]) -> None:
    """It is given up, and made again by whoever goes on."""
    store, gate, looked = MemoryStorage(), Gate(), StageTool("look", read_only=True)
    script = calls(names[0])
    for name in names[1:]:
        script = script.calling(name)
    tools = [looked, held_tool("hang", gate, read_only=True)]
    agent = Agent(ScriptedProvider([script]), tools=tools, storage=store)
    session = agent.session("s")
    await session.send("one")
    await until("the calls", lambda: gate.arrivals == names.count("hang"))
    started = time.monotonic()
    await agent.close()
    assert time.monotonic() - started < 3
    ledger = await ledger_of(store)
    assert isinstance(ledger[-1], Released)
    assert [entry.result.name for entry in of_kind(ledger, ToolFinished)] == ["look"] * names.count("look")

    again = StageTool("hang", read_only=True)
    async with Agent(ScriptedProvider([says("Done.")]), tools=[looked, again], storage=store) as other:
        turn = await within("the end of the turn", other.session("s").turn_result())
    assert turn.text == "Done."
    assert (again.runs, looked.runs) == (names.count("hang"), names.count("look"))
    assert unsound(await ledger_of(store)) == []


async def test_a_call_with_an_effect_is_waited_for_at_the_end_of_its_agent() -> None:
    store, gate = MemoryStorage(), Gate()
    agent = Agent(ScriptedProvider([calls("pay")]), tools=[held_tool("pay", gate)], storage=store)
    session = agent.session("s")
    await session.send("one")
    await gate.reached()
    async with beside(agent.close()) as closing:
        await asyncio.sleep(0.3)
        assert not closing.done()
        gate.open()
        await within("the end of close", closing)
    ledger = await ledger_of(store)
    assert [entry.result.status for entry in of_kind(ledger, ToolFinished)] == ["ok"]
    assert isinstance(ledger[-1], Released)


async def test_a_call_with_an_effect_that_is_about_to_begin_is_made_when_its_agent_is_closed() -> None:
    """Its start is written: who left now would leave an outcome that nobody knows."""
    store, paid = Hooked(), StageTool("pay")
    agent = Agent(ScriptedProvider([calls("pay")]), tools=[paid], storage=store)
    closing: list[asyncio.Task[None]] = []

    async def close() -> None:
        closing.append(asyncio.ensure_future(agent.close()))
        await asyncio.sleep(0.05)

    async def close_at_the_next() -> None:
        store.before_append = close

    session = agent.session("s")
    store.before_append = None
    await session.send("one")
    store.before_append = close_at_the_next  # the claim; the next is that of the message and the intent
    await until("the end of the agent", lambda: closing)
    await within("the end of close", closing[0])
    ledger = await ledger_of(store)
    assert len(of_kind(ledger, ToolIntent)) == len(of_kind(ledger, ToolFinished)) == paid.runs


async def test_a_model_that_is_about_to_be_asked_is_not_waited_for_at_the_end_of_its_agent() -> None:
    store, pace = Hooked(), Gate()

    async def never(seconds: float) -> None:
        await pace.wait()

    provider = ScriptedProvider([says("One two three.")], delay_s=1, sleep=never)
    agent = Agent(provider, storage=store)
    closing: list[asyncio.Task[None]] = []

    async def close() -> None:
        closing.append(asyncio.ensure_future(agent.close()))
        await asyncio.sleep(0.05)

    session = agent.session("s")
    await session.send("one")
    store.before_append = close
    await until("the end of the agent", lambda: closing)
    started = time.monotonic()
    await within("the end of close", closing[0])
    assert time.monotonic() - started < 3
    assert unsound(await ledger_of(store)) == []


# --- what is written of calls that were under way


async def test_calls_under_way_end_before_a_cancel_after_the_step_takes_effect() -> None:
    store, slow, slower, paid = MemoryStorage(), Gate(), Gate(), StageTool("pay")
    reading = [held_tool("slow", slow, read_only=True), held_tool("slower", slower, read_only=True)]
    script = [calls("slow").calling("slower").calling("pay")]
    async with Agent(ScriptedProvider(script), tools=[*reading, paid], storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        await slower.reached()
        async with beside(session.cancel("after_step")) as cancelling:
            await until_found("the cancel", lambda: _has(store, CancelRequested, 1))
            slow.open()
            await until_found("a result", lambda: _has(store, ToolFinished, 1))
            slower.open()
            await within("the end of cancel", cancelling)
        assert (await session.turn_result()).stop == "cancelled"
    found = await results_of(store)
    told = {name: result.status for name, result in found.items()}
    assert told == {"slow": "ok", "slower": "ok", "pay": "cancelled"}
    assert "not run" in found["pay"].text
    assert paid.runs == 0


async def test_a_cancel_after_the_step_that_is_found_by_an_append_lets_the_calls_end() -> None:
    """Another process asks for it in the moment in which the first result is written."""
    store, first, second = Hooked(), Gate(), Gate()
    tools = [held_tool("one", first, read_only=True), held_tool("two", second, read_only=True)]
    script = [calls("one").calling("two")]
    async with (
        Agent(ScriptedProvider(script), tools=tools, storage=store) as agent,
        Agent(ScriptedProvider([]), tools=tools, storage=store) as elsewhere,
    ):
        session, other = agent.session("s"), elsewhere.session("s")
        await session.send("one")
        await second.reached()
        cancelling: list[asyncio.Task[None]] = []

        async def cancel() -> None:
            cancelling.append(asyncio.ensure_future(other.cancel("after_step")))
            await until_found("the cancel", lambda: _has(store, CancelRequested, 1))

        await other.refresh()
        store.before_append = cancel
        first.open()
        await until("the cancel", lambda: cancelling)
        await until_found("the first result", lambda: _has(store, ToolFinished, 1))
        second.open()
        await within("the end of cancel", cancelling[0])
    assert {name: result.status for name, result in (await results_of(store)).items()} == {
        "one": "ok",
        "two": "ok",
    }


async def test_a_call_that_has_ended_keeps_its_result_when_a_cancel_is_found_by_an_append() -> None:
    store, first, hanging = Hooked(), Gate(), Gate()
    ended = StageTool("two", read_only=True)
    tools = [held_tool("one", first, read_only=True), held_tool("hang", hanging, read_only=True), ended]
    script = [calls("one").calling("hang").calling("two")]
    async with (
        Agent(ScriptedProvider(script), tools=tools, storage=store) as agent,
        Agent(ScriptedProvider([]), tools=tools, storage=store) as elsewhere,
    ):
        session, other = agent.session("s"), elsewhere.session("s")
        await session.send("one")
        await hanging.reached()
        await until("the third call", lambda: ended.runs)
        cancelling: list[asyncio.Task[None]] = []

        async def cancel() -> None:
            cancelling.append(asyncio.ensure_future(other.cancel("now")))
            await until_found("the cancel", lambda: _has(store, CancelRequested, 1))

        await other.refresh()
        store.before_append = cancel
        first.open()
        await until("the cancel", lambda: cancelling)
        await within("the end of cancel", cancelling[0])
    found = await results_of(store)
    assert {name: result.status for name, result in found.items()} == {
        "one": "ok",
        "hang": "cancelled",
        "two": "ok",
    }
    assert "not run" not in found["hang"].text
    assert unsound(await ledger_of(store)) == []


async def test_a_call_that_was_under_way_is_not_said_not_to_have_run() -> None:
    store, gate = MemoryStorage(), Gate()
    tools = [held_tool("look", gate, read_only=True), StageTool("pay")]
    script = [calls("look").calling("pay")]
    async with Agent(ScriptedProvider(script), tools=tools, storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached()
        await within("the end of cancel", session.cancel("now"))
    found = await results_of(store)
    assert (found["look"].status, found["pay"].status) == ("cancelled", "cancelled")
    assert "not run" not in found["look"].text
    assert "not run" in found["pay"].text


async def test_calls_beside_one_that_asks_a_person_run_to_their_end_and_once() -> None:
    store, gate, slow, told = MemoryStorage(), Gate(), Gate(), StageTool("told", read_only=True)

    async def ask(context: ToolContext) -> str:
        await gate.wait()
        raise AskUser("Which?")

    tools = [StageTool("ask", ask, read_only=True), held_tool("slow", slow, read_only=True), told]
    script = [calls("ask").calling("slow").calling("told")]
    async with Agent(ScriptedProvider(script), tools=tools, storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached()
        await until("the third call", lambda: told.runs)
        gate.open()
        await until_found("the question", lambda: _has(store, QuestionAsked, 1))
        assert "slow" not in await results_of(store)
        slow.open()
        await until_found("the rest", lambda: _has(store, Released, 1))
        found = await results_of(store)
        assert (found["told"].status, found["slow"].status, told.runs) == ("ok", "ok", 1)
        await within("the end of cancel", session.cancel())
    assert unsound(await ledger_of(store)) == []


async def _stands(store: MemoryStorage, session_id: str, kind: type) -> bool:
    return bool(of_kind(await ledger_of(store, session_id), kind))


async def test_a_tool_with_an_effect_does_not_begin_when_it_was_cancelled_before() -> None:
    store, paid = MemoryStorage(), StageTool("pay")
    async with Agent(ScriptedProvider([calls("pay")]), tools=[paid], storage=store) as agent:
        async with agent.stream("one") as run:
            async for event in run:
                if isinstance(event, ToolIntent):
                    async with beside(agent.session(run.session_id).cancel()):
                        await until_found(
                            "the cancel", lambda: _stands(store, run.session_id, CancelRequested)
                        )
            assert run.turn.stop == "cancelled"
        ledger = await ledger_of(store, run.session_id)
    assert paid.runs == 0
    assert [entry.result.status for entry in of_kind(ledger, ToolFinished)] == ["cancelled"]
    assert not of_kind(ledger, TurnFinished)


# --- the row of a run that was left


async def test_a_run_that_is_left_while_it_begins_has_a_row_by_which_it_is_found() -> None:
    """The append with its message stands, its row is yet to come, and then the store is away for a moment."""
    appended, late = asyncio.Event(), asyncio.Event()

    class Failing(Hooked):
        appends = 0

        async def append_events(self, events, *, checkpoint=None) -> None:
            self.appends += 1
            if self.appends > 1:
                raise Unavailable("the store is away")
            await super().append_events(events, checkpoint=checkpoint)
            appended.set()

    store = Failing()

    async def wait() -> None:
        await late.wait()

    store.before_create = wait
    agent = Agent(ScriptedProvider([says("One.")]), storage=store)
    run = agent.stream("one")

    async def read() -> None:
        async with run:
            async for _ in run:
                pass

    reading = asyncio.ensure_future(read())
    await within("the append", appended.wait())
    await asyncio.sleep(0)
    reading.cancel()
    asyncio.get_running_loop().call_later(0.05, late.set)
    await within("the end of the run", asyncio.wait({reading}))
    await agent.close()
    ledger = await ledger_of(store, run.session_id)
    assert of_kind(ledger, TurnStarted)
    row = await store.get_session(run.session_id)
    assert row is not None
    assert row.runnable
