"""Writes that are broken off, runners in each other's way: the ledger stays sound, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

import msgspec
import pytest
from session_stage import answered, ledger_of, make_row, write

from gnomon import Agent
from gnomon.contracts.provider import Provider
from gnomon.contracts.tool import ToolContext
from gnomon.engine.ledger import Ledger
from gnomon.engine.run import Run
from gnomon.errors import AskUser, Conflict, StorageError, TurnUnfinished, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.storage.sqlite import SQLiteStorage
from gnomon.testing._session_audit import is_end, unsound
from gnomon.testing._session_patience import Gate
from gnomon.testing._session_tools import StageTool, held_tool
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
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFinished,
    TurnPaused,
    TurnStarted,
)
from gnomon.types.messages import Message, ToolCall, ToolResult
from gnomon.types.records import SessionRecord, utc_now
from gnomon.types.requests import Request


class Hooked(MemoryStorage):
    """A store that tells of each write before and after it is done."""

    def __init__(self) -> None:
        super().__init__()
        self.appends = 0
        self.after_append: Callable[[], object] = lambda: None
        self.after_update: Callable[[], object] = lambda: None

    async def append_events(self, events, *, checkpoint=None) -> None:
        await super().append_events(events, checkpoint=checkpoint)
        self.appends += 1
        await _done(self.after_append())

    async def update_session(self, session: SessionRecord) -> SessionRecord:
        stored = await super().update_session(session)
        await _done(self.after_update())
        return stored


async def _done(found: object) -> None:
    if asyncio.iscoroutine(found):
        await found


async def until(look: Callable[[], object], what: str) -> None:
    async with asyncio.timeout(10):
        while not look():  # noqa: ASYNC110 - what is waited for is in a store
            await asyncio.sleep(0.005)
    assert look(), what


async def read_whole(run: Run[str]) -> None:
    async with run:
        async for _ in run:
            pass


def opening(agent: Agent, *content, owner: str = "gone") -> list[LedgerEntry]:
    """A turn that a runner has begun, up to the message with its calls."""
    hash = agent._definition.hash
    return [
        MessageReceived("u1", Message.user("go")),
        Claimed(owner, 1),
        TurnStarted("t1", "agent", "m", hash, inputs=("u1",)),
        ModelStarted("t1", "m1", (1, 1)),
        answered(*content),
    ]


# --- opened from a checkpoint


async def reopened(*entries: LedgerEntry) -> tuple[Ledger, Ledger]:
    store = MemoryStorage()
    ledger = await Ledger.open(store, "s")
    for entry in entries:
        await ledger.append(entry)
    await ledger.checkpoint()
    return ledger, await Ledger.open(store, "s")


async def test_a_message_that_steered_a_turn_is_not_waiting_again_after_a_checkpoint() -> None:
    live, opened = await reopened(
        MessageReceived("a", Message.user("a")),
        TurnStarted("t1", "agent", "m", inputs=("a",)),
        ModelStarted("t1", "m1", (1, 1)),
        MessageReceived("b", Message.user("b"), steer=True),
        answered("one"),
        ModelStarted("t1", "m2", (1, 1), ("b",)),
        answered("two", message_id="m2"),
        TurnFinished("t1", "end_turn", 2),
        MessageReceived("c", Message.user("c")),
        TurnStarted("t2", "agent", "m", inputs=("c",)),
        ModelStarted("t2", "m3", (1, 1)),
    )
    assert list(opened.fold.waiting) == list(live.fold.waiting) == []
    assert opened.fold.messages == live.fold.messages


async def test_an_open_turn_has_used_what_it_used_also_when_opened_from_a_checkpoint() -> None:
    call = ToolCall("c1", "look", index=0)
    live, opened = await reopened(
        MessageReceived("a", Message.user("a")),
        TurnStarted("t1", "agent", "m", inputs=("a",)),
        ModelStarted("t1", "m1", (1, 1)),
        answered(call),
        ToolFinished("t1", ToolResult.of(call, "ok")),
    )
    assert live.fold.turn is not None
    assert opened.fold.turn is not None
    assert (opened.fold.turn.rounds, opened.fold.turn.usage) == (1, live.fold.turn.usage)


# --- calls that had begun


async def test_a_call_that_began_while_a_runner_was_not_looking_is_not_run_again() -> None:
    """The ledger it knew had another call open: what it made of that must not outlive the look."""
    store, save = MemoryStorage(), StageTool("save")
    first, second = ToolCall("c1", "save", index=0), ToolCall("c2", "save", index=1)
    async with Agent(ScriptedProvider([]), tools=[save], storage=store) as agent:
        await make_row(store)
        await write(store, *opening(agent, first, second), ToolIntent("t1", "c1", "save", "k1"))
        session = agent.session("s")
        await session.refresh()
        done = ToolFinished("t1", ToolResult.of(first, "ok"))
        await write(store, Claimed("gone too", 2), done, ToolIntent("t1", "c2", "save", "k2"), after=6)
        await agent._live().run_segment("default", "s")
        assert save.runs == 0
        asked = (await session.refresh()).questions
        assert [(question.call_id, question.unknown) for question in asked] == [("c2", True)]


class SameNames(Provider):
    """A server that names the first call of every answer alike: it calls once, and then it speaks."""

    name = model = "same-names"

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if len(request.messages) < 4:
            yield ToolCallStart(0, "call_0", "save")
            yield ToolCallDelta(0, "call_0", "{}")
            yield ToolCallEnd(0, ToolCall("call_0", "save", "{}", index=0))
            yield Finish(stop_reason="tool_use")
        else:
            yield TextDelta(0, "Done.")
            yield Finish(stop_reason="end_turn")


async def test_a_call_is_not_taken_for_one_of_the_same_id_that_was_lost() -> None:
    store, save = MemoryStorage(), StageTool("save", on_unknown="tell")
    async with Agent(SameNames(), tools=[save], storage=store) as agent:
        await make_row(store)
        lost = ToolCall("call_0", "save", index=0)
        await write(store, *opening(agent, lost), ToolIntent("t1", "call_0", "save", "k1"))
        turn = await agent.session("s").turn_result()
        assert turn.text == "Done."
        results = [entry for entry in await ledger_of(store, "s") if isinstance(entry, ToolFinished)]
        assert [entry.result.status for entry in results] == ["unknown", "ok"]
        assert save.runs == 1


async def test_calls_of_a_turn_that_was_cancelled_do_not_go_on_into_the_next() -> None:
    store, gate, next_gate, ended = MemoryStorage(), Gate(), Gate(), asyncio.Event()

    async def long(context: ToolContext) -> str:
        try:
            await gate.wait()
        finally:
            ended.set()
        return "late"

    async def short(context: ToolContext) -> str:
        await asyncio.sleep(0.05)
        return "soon"

    tools = [
        StageTool("short", short, read_only=True),
        StageTool("long", long, read_only=True, timeout_s=2),
        held_tool("hold", next_gate),
    ]
    script = ScriptedProvider([calls("short").calling("long"), calls("hold"), says("Next.")])
    async with Agent(script, tools=tools, storage=store) as agent:
        session = agent.session("s")
        await session.send("one")
        await session.send("two")
        await gate.reached("the long call")
        await session.cancel("after_step")
        await next_gate.reached("the call of the next turn")
        assert ended.is_set()
        next_gate.open()
        assert (await session.turn_result()).text == "Next."
        assert unsound(await ledger_of(store, "s")) == []


# --- appends that are broken off


@pytest.mark.parametrize("number", range(1, 5))
async def test_a_reader_that_leaves_during_an_append_leaves_a_sound_ledger(number: int) -> None:
    """What was being written may stand: it is not written a second time."""
    store = Hooked()
    reached: asyncio.Event = asyncio.Event()

    async def hang() -> None:
        if store.appends == number:
            reached.set()
            await asyncio.sleep(60)

    store.after_append = hang
    script = ScriptedProvider([calls("save"), calls("save"), says("Done."), says("Next.")])
    async with Agent(script, tools=[StageTool("save")], storage=store) as agent:
        run = agent.stream("go")
        reading = asyncio.ensure_future(read_whole(run))
        async with asyncio.timeout(5):
            await reached.wait()
        store.after_append = lambda: None
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        entries = await ledger_of(store, run.session_id)
        assert unsound(entries) == []
        assert len([entry for entry in entries if is_end(entry)]) == 1
        assert isinstance(entries[-1], Released)


@pytest.mark.parametrize("turns", range(0, 60, 2))
async def test_a_reader_that_is_cancelled_at_any_moment_leaves_a_sound_ledger(tmp_path, turns: int) -> None:
    """On a store with a thread of its own, which does what it was given also when nobody waits."""
    store = SQLiteStorage(f"sqlite:///{tmp_path}/s.db")
    script = ScriptedProvider([calls("save"), says("Done.")])
    async with Agent(script, tools=[StageTool("save")], storage=store) as agent:
        await agent._live().storage()
        run = agent.stream("go")
        reading = asyncio.ensure_future(read_whole(run))
        for _ in range(turns):
            await asyncio.sleep(0.0002)
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading
        entries = await ledger_of(store, run.session_id)
        assert unsound(entries) == []
        started = [entry for entry in entries if isinstance(entry, TurnStarted)]
        assert len([entry for entry in entries if is_end(entry)]) == len(started)
    await store.close()


@pytest.mark.parametrize("adopts", [True, False])
async def test_a_run_whose_first_append_stands_though_it_failed_is_gone_on_with(adopts: bool) -> None:
    """Nobody can say whether it stands, so the row must not say that there is nothing to do."""
    store = Hooked()

    def fail() -> None:
        store.after_append = lambda: None
        raise Unavailable("the answer of the store was lost")

    store.after_append = fail
    script = ScriptedProvider(says("Done."))
    async with Agent(script, storage=store, adopt=adopts) as agent:
        run = agent.stream("go")
        with pytest.raises(Unavailable):
            await read_whole(run)
        await until(lambda: script.requests, "nobody went on with the run")
        turn = await agent.session(run.session_id).turn_result()
        assert turn.text == "Done."
        assert unsound(await ledger_of(store, run.session_id)) == []


async def test_a_message_behind_a_run_whose_last_append_stands_though_it_failed_is_found() -> None:
    """The run is let go of by one who is alive and adopts nothing: its row must not keep others away."""
    store, gate = Hooked(), Gate()
    script = ScriptedProvider(calls("hold"))
    mine = Agent(script, tools=[held_tool("hold", gate)], storage=store, adopt=False)
    run = mine.stream("go")

    async def read() -> None:
        with pytest.raises(Unavailable):
            await read_whole(run)

    def fail() -> None:
        store.after_append = lambda: None
        raise Unavailable("the answer of the store was lost")

    reading = asyncio.ensure_future(read())
    await gate.reached("the tool")
    end = len(await ledger_of(store, run.session_id))
    theirs = MessageReceived("u2", Message.user("and this")), CancelRequested("now")
    await write(store, *theirs, after=end, session_id=run.session_id)
    store.after_append = fail
    await reading

    async def rows() -> list[str]:
        return [row.id for row in (await store.list_runnable(utc_now())).items if "owner" not in row.metadata]

    async with asyncio.timeout(5):
        while await rows() != [run.session_id]:  # noqa: ASYNC110 - a store cannot tell
            await asyncio.sleep(0.02)
    await mine.close()


async def test_a_message_whose_append_stands_though_it_failed_is_answered() -> None:
    store = Hooked()
    script = ScriptedProvider([says("One."), says("Two.")])
    async with Agent(script, storage=store) as agent:
        session = agent.session("s")
        await session.run("one")

        def fail() -> None:
            store.after_append = lambda: None
            raise Unavailable("the answer of the store was lost")

        store.after_append = fail
        with pytest.raises(Unavailable):
            await session.send("two")
        await until(lambda: len(script.requests) == 2, "the second message was never answered")


# --- two runners


async def test_two_that_take_over_in_one_process_make_one_run() -> None:
    store, save = MemoryStorage(), StageTool("save")
    script = ScriptedProvider([calls("save"), says("Done.")])
    async with Agent(script, tools=[save], storage=store) as agent:
        await make_row(store)
        hash = agent._definition.hash
        await write(
            store,
            MessageReceived("u1", Message.user("go")),
            Claimed("gone", 1),
            TurnStarted("t1", "agent", "m", hash, inputs=("u1",)),
            ModelStarted("t1", "m1", (1, 1)),
        )
        both = (agent.session("s").resume(take_over=True) for _ in range(2))
        failed = await asyncio.gather(*both, return_exceptions=True)
        assert all(error is None or isinstance(error, Conflict) for error in failed)
        assert (await agent.session("s").turn_result()).text == "Done."
        assert (len(script.requests), save.runs) == (2, 1)
        assert unsound(await ledger_of(store, "s")) == []


async def test_a_runner_that_broke_off_after_its_claim_lets_go_of_a_session_with_nothing_to_do() -> None:
    store = Hooked()
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        await make_row(store)
        runtime = agent._live()
        await runtime.hold()
        await write(store, Claimed(runtime.owner, 1))
        await runtime.run_segment("default", "s")
        assert isinstance((await ledger_of(store, "s"))[-1], Released)


async def test_a_turn_that_is_paused_goes_on_under_the_definition_that_it_began_with() -> None:
    store = MemoryStorage()
    async with Agent(ScriptedProvider(says("Done.")), storage=store, on_change="pause") as agent:
        await make_row(store)
        hash = agent._definition.hash
        await write(
            store,
            MessageReceived("u1", Message.user("go")),
            Claimed("gone", 1),
            TurnStarted("t1", "agent", "m", hash, inputs=("u1",)),
            ModelStarted("t1", "m1", (1, 1)),
            Claimed("changed", 2),
            TurnPaused("t1", hash, "it was changed"),
            Released("changed", 2),
        )
        assert (await agent.session("s").turn_result()).text == "Done."


# --- rows


async def test_a_row_whose_update_failed_is_read_again_before_it_is_trusted() -> None:
    """It may say that the session rests; then nobody would find it when its runner dies."""
    store, gate = Hooked(), Gate()
    script = ScriptedProvider([says("One."), calls("hold"), says("Two.")])
    async with Agent(script, tools=[held_tool("hold", gate)], storage=store) as agent:
        session = agent.session("s")
        await session.run("one")

        def fail() -> None:
            store.after_update = lambda: None
            raise Unavailable("the answer of the store was lost")

        store.after_update = fail
        await agent._live().rows.write()
        waiting = asyncio.ensure_future(session.run("two"))
        await gate.reached("the tool")
        row = await store.get_session("s")
        assert row is not None
        assert row.runnable
        gate.open()
        assert (await waiting).text == "Two."


async def test_a_row_that_is_being_put_to_rest_does_not_hide_the_run_that_comes() -> None:
    store, gate, slow = Hooked(), Gate(), Gate()
    script = ScriptedProvider([says("One."), calls("hold"), says("Two.")])
    async with Agent(script, tools=[held_tool("hold", gate)], storage=store) as agent:
        session = agent.session("s")
        await session.run("one")

        async def wait() -> None:
            store.after_update = lambda: None
            await slow.wait()

        store.after_update = wait
        resting = asyncio.ensure_future(agent._live().rows.write())
        await slow.reached("the row that says the session rests")
        waiting = asyncio.ensure_future(session.run("two"))
        await asyncio.sleep(0.05)
        slow.open()
        await gate.reached("the tool")
        row = await store.get_session("s")
        assert row is not None
        assert row.runnable
        gate.open()
        await asyncio.gather(resting, waiting)


async def test_a_message_is_announced_also_where_another_has_written_the_row_since() -> None:
    """The sender may die before it has run the session: the row is how others find the message."""
    store = Hooked()
    async with (
        Agent(ScriptedProvider([says("One."), says("Three.")]), storage=store) as agent,
        Agent(ScriptedProvider(says("Two.")), storage=store) as other,
    ):
        session = agent.session("s")
        await session.run("one")
        await agent._live().rows.write()
        await other.session("s").run("two")
        await other._live().rows.write()
        row = await store.get_session("s")
        assert row is not None
        await store.update_session(msgspec.structs.replace(row, wake_at=None))  # as it is after a while
        seen: list[SessionRecord | None] = []

        async def look() -> None:
            store.after_append = lambda: None
            seen.append(await store.get_session("s"))

        store.after_append = look
        await session.run("three")
        assert seen[0] is not None
        assert seen[0].runnable or seen[0].wake_at is not None


@pytest.mark.parametrize("act", ["answer", "cancel"])
async def test_what_is_done_about_a_waiting_turn_is_announced(act: str) -> None:
    store = Hooked()

    async def ask(context: ToolContext) -> str:
        raise AskUser("Which?")

    script = ScriptedProvider([calls("ask"), says("Done.")])
    async with Agent(script, tools=[StageTool("ask", ask, read_only=True)], storage=store) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("one")
        await agent._live().rows.write()
        seen: list[SessionRecord | None] = []

        async def look() -> None:
            store.after_append = lambda: None
            seen.append(await store.get_session("s"))

        store.after_append = look
        await (session.answer("this") if act == "answer" else session.cancel())
        await session.turn_result()
        assert seen[0] is not None
        assert seen[0].runnable or seen[0].wake_at is not None


# --- waiting, cancelling, forking


async def test_whoever_waits_for_a_turn_is_told_when_the_agent_is_closed() -> None:
    store, gate = MemoryStorage(), Gate()
    agent = Agent(ScriptedProvider(calls("hold")), tools=[held_tool("hold", gate)], storage=store)
    waiting = asyncio.ensure_future(agent.session("s").run("one"))
    await gate.reached("the tool")
    closing = asyncio.ensure_future(agent.close())
    await asyncio.sleep(0.05)
    gate.open()
    await closing
    with pytest.raises(RuntimeError, match="closed"):
        async with asyncio.timeout(5):
            await waiting


async def test_a_softer_cancel_does_not_take_back_one_that_was_to_be_at_once() -> None:
    """A runner elsewhere may read both of them in one look."""
    ledger = await Ledger.open(MemoryStorage(), "s")
    await ledger.receive(MessageReceived("a", Message.user("a")), TurnStarted("t1", "agent", "m"))
    await ledger.receive(CancelRequested("now"), CancelRequested("after_step"))
    assert ledger.fold.cancel == CancelRequested("now")


async def test_nobody_finds_a_fork_before_it_is_whole() -> None:
    store, gate = Hooked(), Gate()
    async with Agent(
        ScriptedProvider(calls("hold")), tools=[held_tool("hold", gate)], storage=store
    ) as agent:
        session = agent.session("s")
        await session.send("one")
        await gate.reached("the tool")
        found: list[bool] = []

        async def look() -> None:
            row = await store.get_session("copy")
            found.append(row is not None and row.runnable)

        store.after_append = look
        await session.fork(session_id="copy")
        store.after_append = lambda: None
        assert found == [False, False]
        await session.cancel()


async def test_a_fork_of_a_session_that_waits_is_ended_by_whoever_forks_it() -> None:
    store = MemoryStorage()

    async def ask(context: ToolContext) -> str:
        raise AskUser("Which?")

    tools = [StageTool("ask", ask, read_only=True)]
    async with Agent(ScriptedProvider(calls("ask")), tools=tools, storage=store) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("one")
        assert [type(entry) for entry in (await ledger_of(store, "s"))[-2:]] == [QuestionAsked, Released]
        other = await session.fork()
        assert unsound(await ledger_of(store, other.id)) == []
        with suppress(StorageError):
            await session.cancel()


async def test_a_turn_that_ends_while_it_is_being_resumed_is_not_resumed() -> None:
    store = Hooked()
    async with Agent(ScriptedProvider([]), storage=store, on_change="pause") as agent:
        await make_row(store, runnable=False)
        await write(
            store,
            MessageReceived("u1", Message.user("go")),
            Claimed("gone", 1),
            TurnStarted("t1", "agent", "m", "another", inputs=("u1",)),
            TurnPaused("t1", "another", "it was changed"),
            Released("gone", 1),
        )

        async def end() -> None:
            store.after_update = lambda: None
            ended = [Claimed("other", 2), TurnCancelled("t1"), Released("other", 2)]
            await write(store, *ended, after=5)
            await session.refresh()

        session = agent.session("s")
        store.after_update = end
        await session.resume()
        assert unsound(await ledger_of(store, "s")) == []


def test_each_message_is_asked_for_anew_under_a_number_of_its_own() -> None:
    """That another message of the same runner was asked for twice says nothing of this one."""
    asked: list[LedgerEntry] = []
    for at in ("m1", "m2"):
        asked += [
            ModelStarted("t1", at, (1, 1)),
            ModelStarted("t1", at, (1, 2)),
            answered("Yes.", message_id=at),
        ]
    received, claimed = MessageReceived("u1", Message.user("go")), Claimed("me", 1)
    started = TurnStarted("t1", "agent", "m", inputs=("u1",))
    assert unsound([received, claimed, started, *asked]) == []
    again = [ModelStarted("t1", "m1", (1, 2)), ModelStarted("t1", "m1", (1, 1))]
    assert len(unsound([received, claimed, started, *again])) == 1
