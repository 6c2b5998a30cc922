"""Whose a session is: kept with it, known to tools, hooks and memory, and no way into it for another user."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from wired import PRICES, USED, Diary, asked_of, entries

from gnomon import Agent, Memory, registry, sync, tool
from gnomon.contracts.tool import ToolContext
from gnomon.errors import AskUser, BudgetExceeded, ConfigError, Conflict, InvalidInput, TurnUnfinished
from gnomon.hooks.cost import CostTracker
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.types.messages import Message
from gnomon.types.records import SessionRecord
from gnomon.types.requests import Request
from gnomon.types.steps import HookEvent, Turn

Ask = Callable[[Agent[Any]], Awaitable[Turn[Any]]]


class Heard:
    """Who a tool, a hook and the instructions were told that the user is."""

    def __init__(self) -> None:
        self.by_tool: list[str] = []
        self.by_instructions: list[str] = []
        self.diary = Diary()

    @property
    def by_hook(self) -> dict[str, set[str]]:
        told: dict[str, set[str]] = {}
        for _, _, event in self.diary.book:
            told.setdefault(event.kind, set()).add(event.user_id)
        return told

    def look(self, ctx: ToolContext) -> str:
        """Look out of the window."""
        self.by_tool.append(ctx.user_id)
        return "rain"

    def instructions(self, ctx: ToolContext) -> str:
        self.by_instructions.append(ctx.user_id)
        return "Be brief."

    def agent(self, *lines: object, **given: Any) -> Agent:
        script = list(lines) or [calls("look"), says("It rains.")]
        return Agent(
            ScriptedProvider(script),
            instructions=self.instructions,
            tools=[tool(self.look)],
            hooks=[self.diary],
            **given,
        )


async def by_run(agent: Agent[Any]) -> Turn[Any]:
    return await agent.run("go", user_id="ann")


async def by_stream(agent: Agent[Any]) -> Turn[Any]:
    async with agent.stream("go", user_id="ann") as run:
        async for _ in run:
            pass
    return run.turn


async def by_a_stream_that_may_be_left(agent: Agent[Any]) -> Turn[Any]:
    async with agent.stream("go", user_id="ann", on_leave="detach") as run:
        async for _ in run:
            pass
    return run.turn


async def in_a_session(agent: Agent[Any]) -> Turn[Any]:
    return await agent.session("s", user_id="ann").run("go")


async def in_a_new_session(agent: Agent[Any]) -> Turn[Any]:
    return await agent.session(user_id="ann").run("go")


async def sent_to_a_session(agent: Agent[Any]) -> Turn[Any]:
    session = agent.session("s", user_id="ann")
    await session.send("go")
    return await session.turn_result()


async def streamed_from_a_session(agent: Agent[Any]) -> Turn[Any]:
    async with agent.session("s", user_id="ann").stream("go") as run:
        async for _ in run:
            pass
    return run.turn


RUNS: list[Ask] = [by_run, by_stream, by_a_stream_that_may_be_left]
SESSIONS: list[Ask] = [in_a_session, in_a_new_session, sent_to_a_session, streamed_from_a_session]


async def users_in(store: Any) -> list[tuple[str, str]]:
    """The agent and the user of each session in a store."""
    page = await store.list_sessions()
    return sorted((row.agent_id, row.user_id) for row in page.items)


# --- it is kept and told --------------------------------------------------------------------


@pytest.mark.parametrize("ask", [*RUNS, *SESSIONS])
@pytest.mark.parametrize("is_kept", [True, False])
async def test_tools_hooks_and_instructions_are_told_whose_the_session_is(ask: Ask, is_kept: bool) -> None:
    heard, store = Heard(), MemoryStorage()
    async with heard.agent(storage=store if is_kept else None) as agent:
        turn = await ask(agent)
    assert turn.text == "It rains."
    assert (heard.by_tool, set(heard.by_instructions)) == (["ann"], {"ann"})
    assert heard.by_hook == {kind: {"ann"} for kind in ("session", "turn", "model", "tool")}
    if is_kept:
        assert await users_in(store) == [("agent", "ann")]


async def test_a_session_of_nobody_has_no_user() -> None:
    heard, store = Heard(), MemoryStorage()
    async with heard.agent(storage=store) as agent:
        await agent.session("s").run("go")
    assert heard.by_tool == [""]
    assert set.union(*heard.by_hook.values()) == {""}
    assert await users_in(store) == [("agent", "")]


@tool
def pay(ctx: ToolContext) -> str:
    """Pay."""
    raise AskUser("Really?")


async def test_who_goes_on_with_a_turn_after_a_restart_is_told_whose_it_is(tmp_path: Path) -> None:
    url, heard = f"sqlite:///{tmp_path}/s.db", Heard()
    async with Agent(ScriptedProvider([calls("pay")]), tools=[pay], storage=url) as agent:
        with pytest.raises(TurnUnfinished):
            await agent.session("s", user_id="ann").run("go")
    lines = [calls("look"), says("It rains.")]
    async with heard.agent(*lines, storage=url) as agent:
        session = agent.session("s")
        await session.answer("yes")
        assert (await session.turn_result()).text == "It rains."
    assert heard.by_tool == ["ann"]
    assert heard.by_hook == {kind: {"ann"} for kind in ("session", "turn", "model", "tool")}


async def test_a_session_keeps_its_user_when_it_goes_on_without_one() -> None:
    heard, store = Heard(), MemoryStorage()
    async with heard.agent(says("Hello."), calls("look"), says("Rain."), storage=store) as agent:
        await agent.session("s", user_id="ann").run("hello")
        await agent.session("s").run("go")
    assert heard.by_tool == ["ann"]
    assert await users_in(store) == [("agent", "ann")]


class Asks:
    """A compactor that has the model of the agent write the summary."""

    name = "asks"

    async def compact(self, messages: Sequence[Message], budget: int) -> tuple[Message, ...]:
        raise NotImplementedError

    async def compact_asking(self, messages: Sequence[Message], budget: int, ask: Any) -> tuple[Message, ...]:
        answer = await ask(Request(messages=(Message.user("Summarise."),), model=""))
        return (Message.user("Sum up."), Message.assistant(answer.text), Message.user("Go on."))


async def test_a_compaction_by_hand_is_known_to_be_of_the_user(tmp_path: Path) -> None:
    url, diary = f"sqlite:///{tmp_path}/s.db", Diary()
    async with Agent(ScriptedProvider([says("Hello.")]), storage=url) as agent:
        await agent.session("s", user_id="ann").run("Sum it all up for me. " * 20)
    shorter = ScriptedProvider([says("In short.")], verbatim=False)
    async with Agent(shorter, storage=url, hooks=[diary], compactor=Asks()) as again:
        assert await again.session("s").compact() is not None
    assert [event.user_id for event in diary.pages("model")] == ["ann"]


# --- delete-by-user finds them all ----------------------------------------------------------


@pytest.mark.parametrize("ask", RUNS)
async def test_what_is_deleted_of_a_user_is_all_of_it(ask: Ask, tmp_path: Path) -> None:
    url, heard = f"sqlite:///{tmp_path}/s.db", Heard()
    below = heard.agent(name="below")
    middle = Agent(
        ScriptedProvider([calls("spawn", task="look"), says("Told.")]), name="middle", subagents=[below]
    )
    script = [calls("spawn", task="find out"), says("Rain."), says("Bob's.")]
    async with Agent(ScriptedProvider(script), name="top", subagents=[middle], storage=url) as agent:
        turn = await ask(agent)
        await agent.session(turn.session_id).fork(session_id="copy")
        await agent.run("hello", user_id="bob")
    assert heard.by_tool == ["ann"]
    assert heard.by_hook["tool"] == {"ann"}
    store = registry.storage(url)
    await store.migrate()
    mine = [("below", "ann"), ("middle", "ann"), ("top", "ann"), ("top", "ann")]
    assert await users_in(store) == sorted([*mine, ("top", "bob")])
    await store.delete_user("ann")
    assert await users_in(store) == [("top", "bob")]
    await store.close()


# --- no way in for another ------------------------------------------------------------------


class Watched(MemoryStorage):
    """Counts what is asked of it, and does something first where a row is made."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()
        self.before_create: list[Callable[[], Awaitable[object]]] = []

    async def get_session(self, session_id: str) -> SessionRecord | None:
        self.asked["get_session"] += 1
        return await super().get_session(session_id)

    async def create_session(self, session: SessionRecord) -> None:
        self.asked["write"] += 1
        if self.before_create:
            await self.before_create.pop()()
        await super().create_session(session)

    async def update_session(self, session: SessionRecord) -> SessionRecord:
        self.asked["write"] += 1
        return await super().update_session(session)

    async def append_events(self, *given: Any, **more: Any) -> None:
        self.asked["write"] += 1
        await super().append_events(*given, **more)


async def read(events: Any) -> list[Any]:
    async with events:
        return [event async for event in events]


WAYS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "send": lambda session: session.send("mine"),
    "steer": lambda session: session.send("mine", when_busy="steer"),
    "interrupt": lambda session: session.send("mine", when_busy="interrupt"),
    "run": lambda session: session.run("mine"),
    "stream": lambda session: read(session.stream("mine")),
    "follow": lambda session: session.follow(),
    "events": lambda session: read(session.events()),
    "events from a place": lambda session: read(session.events(after=3)),
    "refresh": lambda session: session.refresh(),
    "is_attended": lambda session: session.is_attended(),
    "turn_result": lambda session: session.turn_result(),
    "cancel": lambda session: session.cancel(),
    "answer": lambda session: session.answer("yes"),
    "approvals": lambda session: session.approvals(),
    "approve": lambda session: session.approve(),
    "deny": lambda session: session.deny(),
    "subagents": lambda session: session.subagents(),
    "compact": lambda session: session.compact(),
    "resume": lambda session: session.resume(),
    "take over": lambda session: session.resume(take_over=True),
    "fork": lambda session: session.fork(),
    "fork_plan": lambda session: session.fork_plan(),
}


@pytest.mark.parametrize("is_warm", [True, False], ids=["known here", "opened anew"])
@pytest.mark.parametrize("owner", ["ann", None], ids=["another's", "nobody's"])
async def test_what_is_not_the_users_is_neither_shown_nor_written_to(
    owner: str | None, is_warm: bool
) -> None:
    store, heard = Watched(), Heard()
    given: dict[str, Any] = {"storage": store, "permissions": "ask", "compactor": "truncate"}
    first, other = heard.agent(calls("look"), **given), heard.agent(says("Never."), adopt=False, **given)
    async with first as agent, other as elsewhere:
        hers = agent.session("s", user_id=owner)
        asked = await asked_of(hers, "go")
        while (row := await store.get_session("s")) is None or row.status != "waiting":  # noqa: ASYNC110 - of a row nobody is told
            await asyncio.sleep(0.01)
        before = await entries(store, "s")
        for way in WAYS.values():
            session = (agent if is_warm else elsewhere).session("s", user_id="bob")
            with pytest.raises(Conflict, match="is not of the user that was given") as refused:
                async with asyncio.timeout(5):
                    await way(session)
            assert "ann" not in f"{refused.value} {refused.value.hint}"
            assert session.status.position == 0
        await asyncio.sleep(0.3)  # rows are written a moment later
        assert (await entries(store, "s"), await store.get_session("s")) == (before, row)
        assert [each.approval_id for each in await hers.approvals()] == [asked.approval_id]
    assert heard.by_tool == []


async def test_a_sub_agents_session_is_the_users_too(tmp_path: Path) -> None:
    store, heard = MemoryStorage(), Heard()
    script = [calls("spawn", task="look"), says("Rain.")]
    async with Agent(
        ScriptedProvider(script), name="top", subagents=[heard.agent(name="below")], storage=store
    ) as agent:
        await agent.session("s", user_id="ann").run("go")
        (below,) = await agent.session("s", user_id="ann").subagents()
        assert (await agent.session(below.id, user_id="ann").refresh()).position > 0
        with pytest.raises(Conflict):
            await agent.session(below.id, user_id="bob").refresh()


async def test_of_two_users_who_begin_one_session_at_once_one_has_it() -> None:
    store = Watched()
    async with (
        Agent(ScriptedProvider([says("For Ann.")]), storage=store) as one,
        Agent(ScriptedProvider([says("For Bob.")]), storage=store) as two,
    ):
        store.before_create.append(lambda: two.session("s", user_id="bob").run("Bob's secret"))
        with pytest.raises(Conflict, match="is not of the user that was given"):
            await one.session("s", user_id="ann").run("Ann's secret")
    assert "Ann" not in repr(await entries(store, "s"))
    assert await users_in(store) == [("agent", "bob")]


async def test_one_user_who_begins_a_session_twice_at_once_has_one() -> None:
    store = Watched()
    async with (
        Agent(ScriptedProvider([says("One."), says("Two.")]), storage=store) as one,
        Agent(ScriptedProvider([says("One."), says("Two.")]), storage=store) as two,
    ):
        store.before_create.append(lambda: two.session("s", user_id="ann").run("first"))
        assert (await one.session("s", user_id="ann").run("second")).stop == "end_turn"
    assert await users_in(store) == [("agent", "ann")]


async def test_who_looked_before_there_was_a_session_is_shown_nothing_of_anothers() -> None:
    store = MemoryStorage()
    script = ScriptedProvider([says("Hers."), says("Hers.")])
    async with Agent(script, storage=store) as agent, Agent(script, storage=store, adopt=False) as other:
        readers = []
        for where in (agent, other):
            session = where.session("s", user_id="bob")
            assert (await session.refresh()).position == 0
            readers += [(session, asyncio.ensure_future(read(session.events(after)))) for after in (0, 2)]
        await asyncio.sleep(0.05)
        await agent.session("s", user_id="ann").run("go")
        for _, reading in readers:
            with pytest.raises(Conflict, match="is not of the user that was given"):
                async with asyncio.timeout(5):
                    await reading
        with pytest.raises(Conflict):
            _ = readers[0][0].status


async def test_who_reads_a_session_of_their_own_before_it_begins_is_shown_it() -> None:
    async with Agent(ScriptedProvider([says("Hello.")] * 2), storage=MemoryStorage()) as agent:
        for session in (agent.session(user_id="ann"), agent.session("s", user_id="ann")):
            async with session.events() as events:
                coming = asyncio.ensure_future(anext(events))
                await asyncio.sleep(0.05)
                await session.run("hello")
                await coming
            assert session.status.position > 0


@pytest.mark.parametrize("user_id", ["", "  ", "a\0b", "\ud800", "é" * 257, 7, b"ann", ["ann"]])
@pytest.mark.parametrize("is_kept", [True, False])
async def test_what_cannot_be_a_user_is_said_and_nothing_is_written(user_id: object, is_kept: bool) -> None:
    store = Watched()
    async with Agent(ScriptedProvider([]), storage=store if is_kept else None) as agent:
        for given in (agent.run, agent.stream):
            with pytest.raises(ConfigError, match="user_id"):
                await given("go", user_id=user_id)  # type: ignore[arg-type,misc]
        with pytest.raises(ConfigError, match="user_id"):
            agent.session("s", user_id=user_id)  # type: ignore[arg-type]
    assert store.asked["write"] == 0


# --- what it costs --------------------------------------------------------------------------


async def _rows_read(user_id: str | None) -> int:
    """How often the store is asked for a row, while a session begins, goes on, and is opened by another."""
    store = Watched()
    heard, again = Heard(), Heard()
    async with heard.agent(*[says("Hello.")] * 4, storage=store) as agent:
        session = agent.session("s", user_id=user_id)
        await session.run("one")
        await session.run("two")
        await agent.session(user_id=user_id).run("three")
        await agent.run("four", user_id=user_id)
    async with again.agent(says("Hello."), storage=store) as agent:
        await agent.session("s", user_id=user_id).run("five")
    return store.asked["get_session"]


async def test_to_know_whose_a_session_is_costs_a_turn_no_read() -> None:
    assert await _rows_read("ann") == await _rows_read(None)


# --- who uses it ----------------------------------------------------------------------------


async def test_each_user_has_a_budget() -> None:
    tracker = CostTracker(user=0.1, models=PRICES)
    script = ScriptedProvider([says("One.", usage=USED)] * 3)
    async with Agent(script, hooks=[tracker], storage=MemoryStorage()) as agent:
        await agent.run("go", user_id="ann")
        with pytest.raises(BudgetExceeded, match="budget of user 'ann'"):
            await agent.session("s", user_id="ann").run("go")
        await agent.run("go", user_id="bob")
        await agent.run("go")
    assert {name: float(spend.known) for name, spend in tracker.report().users.items()} == {
        "ann": pytest.approx(0.2, abs=0.01),
        "bob": pytest.approx(0.2, abs=0.01),
    }


def _bob(event: HookEvent) -> str:
    return "bob"


async def test_who_says_whose_a_step_is_has_the_last_word() -> None:
    tracker = CostTracker(user=10.0, user_of=_bob, models=PRICES)
    async with Agent(ScriptedProvider([says("One.", usage=USED)]), hooks=[tracker]) as agent:
        await agent.run("go", user_id="ann")
    assert set(tracker.report().users) == {"bob"}


@pytest.mark.parametrize("is_given", [True, False], ids=["Memory", "memory=True"])
async def test_what_is_remembered_is_of_the_user_of_the_session(is_given: bool) -> None:
    store = MemoryStorage()
    script = ScriptedProvider(
        [
            calls("remember", key="port", value="Dover"),
            says("Noted."),
            says("Dover.").expecting(system="Dover"),
            calls("remember", key="port", value="Calais"),
            says("Noted."),
            says("Calais.").expecting(system="Calais"),
        ]
    )
    memory = Memory(store, agent_id="agent")
    async with Agent(script, memory=memory if is_given else True, storage=store) as agent:
        await agent.run("I live in Dover.", user_id="ann")
        await agent.session("s", user_id="ann").run("Where do I live?")
        await agent.run("I live in Calais.")
        await agent.session("t").run("Where do I live?")
    assert "Dover" not in f"{script.requests[3].system} {script.requests[5].system}"
    assert [each.value for each in await memory.recall(user_id="ann")] == ["Dover"]
    assert [each.value for each in await memory.recall(user_id="local")] == ["Calais"]
    with pytest.raises(ConfigError, match="known only within a call"):
        await memory.recall()
    await store.delete_user("ann")
    assert await memory.recall(user_id="ann") == ()


def test_it_is_the_same_without_an_event_loop(tmp_path: Path) -> None:
    url, heard = f"sqlite:///{tmp_path}/s.db", Heard()
    script = ScriptedProvider([calls("look"), says("Rain.")] * 3)
    with sync.Agent(script, tools=[tool(heard.look)], storage=url) as agent:
        agent.run("go", user_id="ann")
        with agent.stream("go", user_id="ann") as run:
            list(run)
        agent.session("s", user_id="ann").run("go")
        with pytest.raises(Conflict):
            agent.session("s", user_id="bob").refresh()
        with pytest.raises(InvalidInput):
            agent.session(user_id="")
    assert heard.by_tool == ["ann"] * 3
