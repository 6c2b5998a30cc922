"""Pains of other frameworks with runs and sessions, each with the design that avoids it.

They go through the front door: an agent on a store, and its sessions. Pains 34 and 36 are in
`test_tool_pains.py`.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from recorded_effects import entries_of, of_kind
from terminals import PATIENCE_S, STORES, Work, terminal, until, work_on

from gnomon import Agent, Budget, ToolFailed, tool
from gnomon.contracts.storage import Storage
from gnomon.engine.ledger import Ledger
from gnomon.engine.loop import Loop
from gnomon.errors import Conflict, GnomonError, Overloaded, TurnUnfinished
from gnomon.providers.scripted import Line, Script, ScriptedProvider, calls, says
from gnomon.session.local import LocalSession
from gnomon.types.events import (
    CancelRequested,
    Event,
    Live,
    MessageCompleted,
    MessageReceived,
    ModelStarted,
    QuestionAsked,
    TextDelta,
    ToolFinished,
    ToolIntent,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnPaused,
    TurnResumed,
    TurnStarted,
)
from gnomon.types.requests import Request, Usage
from storing import opened, sqlite_url


@tool(read_only=True)
def weather(city: str) -> str:
    return f"rain in {city}"


class Gate:
    """A tool that waits in the middle of its work, and counts."""

    def __init__(self, **options: Any) -> None:
        self.runs = 0
        self.entered, self.over = asyncio.Event(), asyncio.Event()

        @tool(**options)
        async def hold() -> str:
            self.runs += 1
            self.entered.set()
            await self.over.wait()
            return "held"

        self.tool = hold


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture(params=STORES)
def work(request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    return work_on(request.param, tmp_path)


@asynccontextmanager
async def on(path: Path, script: Script, *tools: Any, **options: Any) -> AsyncGenerator[Agent[str], None]:
    provider = ScriptedProvider(script, verbatim=False, delay_s=options.pop("delay_s", 0.0))
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        Agent(provider, tools=list(tools), storage=sqlite_url(path), **options) as agent,
    ):
        yield agent


async def ledger_of(path: Path, session_id: str) -> list[Event]:
    async with opened(path) as storage:
        return await entries_of(storage, session_id)


def results(entries: Sequence[Event]) -> list[tuple[str, str]]:
    found = [entry.result for entry in entries if isinstance(entry, ToolFinished)]
    return [(result.name, result.status) for result in found]


def paired(entries: list[Event]) -> bool:
    calls = [call.id for entry in of_kind(entries, MessageCompleted) for call in entry.message.tool_calls]
    return [entry.result.call_id for entry in of_kind(entries, ToolFinished)] == calls


# --- 1 ----------------------------------------------------------------------------


@pytest.mark.parametrize("said", ["I will look that up.", " ", "\n"])
@pytest.mark.parametrize("way", ["run", "stream", "session"])
async def test_pain_01_text_before_a_tool_call_does_not_end_the_run(path: Path, said: str, way: str) -> None:
    script = [says(said).calling("weather", city="Rome"), says("Take an umbrella.").expecting(result="rain")]
    async with on(path, script, weather) as agent:
        if way == "run":
            turn = await agent.run("rain?")
        elif way == "session":
            turn = await agent.session("s").run("rain?")
        else:
            async with agent.stream("rain?") as run:
                text = "".join([piece async for piece in run.text()])
            turn = run.turn
            assert text == said + "Take an umbrella."
        assert (turn.text, turn.rounds) == ("Take an umbrella.", 2)
    entries = await ledger_of(path, turn.session_id)
    assert results(entries) == [("weather", "ok")]
    assert len(of_kind(entries, TurnFinished)) == 1


# --- 5 ----------------------------------------------------------------------------


async def _cancel(session: LocalSession[str], gate: Gate) -> None:
    await session.send("go")
    await gate.entered.wait()
    await session.cancel()


async def _fail(session: LocalSession[str], gate: Gate) -> None:
    with pytest.raises(GnomonError):
        await session.run("go")
    assert (await session.turn_result()).stop == "failed"


async def _end(session: LocalSession[str], gate: Gate) -> None:
    await session.run("go")


def _breaks() -> str:
    raise ToolFailed("the service is away")


_INTERRUPTED: dict[str, tuple[Line, dict[str, Any], Callable[..., Any], str]] = {
    "cancelled": (calls("hold").calling("weather", city="Rome"), {}, _cancel, "cancelled"),
    "timed out": (calls("hold"), {"timeout_s": 0.1}, _end, "timeout"),
    "denied": (calls("hold"), {"permissions": "deny"}, _end, "denied"),
    "out of rounds": (calls("weather", city="Rome"), {"budget": Budget(rounds=1)}, _end, "ok"),
    "cut off": (
        says("Let me see.").calling("hold").failing(Overloaded("busy"), after=2),
        {},
        _fail,
        "",
    ),
}


@pytest.mark.parametrize("how", list(_INTERRUPTED))
async def test_pain_05_an_interrupted_turn_does_not_poison_the_session(path: Path, how: str) -> None:
    first, options, act, status = _INTERRUPTED[how]
    gate = Gate(**({"timeout_s": options.pop("timeout_s")} if "timeout_s" in options else {}))

    def answer(request: Request) -> Line:
        user = next(message for message in reversed(request.messages) if message.role == "user")
        if user.text == "next":
            return says("Here again.")
        return says("So be it.") if request.messages[-1].role == "tool" else first

    async with on(path, answer, gate.tool, weather, **options) as agent:
        session = agent.session("s")
        await act(session, gate)
        before = await ledger_of(path, "s")
        assert paired(before)
        assert status in [status for _, status in results(before)] or not status
        turn = await session.run("next")  # the model itself refuses a call without a result
        assert turn.text == "Here again."
    assert (await ledger_of(path, "s"))[: len(before)] == before, "what was stored is not mended afterwards"


# --- 6 ----------------------------------------------------------------------------


async def test_pain_06_cancelling_does_not_throw_the_turn_away(path: Path) -> None:
    used = Usage(input_tokens=11, output_tokens=7)
    gate = Gate()
    script = [
        Line(text="I will hold it.", calls=calls("hold").calls, usage=used),
        says("Here again.").expecting(check=lambda request: "I will hold it." in _shown(request)),
    ]
    async with on(path, script, gate.tool) as agent:
        session = agent.session("s")
        await session.send("go")
        await gate.entered.wait()
        await session.cancel()
        entries = await ledger_of(path, "s")  # `cancel` has returned, so it is committed
        (ended,) = of_kind(entries, TurnCancelled)
        assert (ended.usage.input_tokens, ended.usage.output_tokens) == (11, 7)
        assert [entry.message.text for entry in of_kind(entries, MessageCompleted)] == ["I will hold it."]
        assert (await session.run("next")).text == "Here again."


async def test_pain_06_what_was_said_before_a_cancel_is_kept_and_counted(path: Path) -> None:
    """In the middle of a message; and the end is told to readers after it is committed."""
    script = [says("word " * 200), says("Here again.").expecting(check=lambda r: "word word" in _shown(r))]
    async with on(path, script, delay_s=0.01) as agent:
        session = agent.session("s")
        await session.send("go")
        async with session.events() as reader:
            async for event in reader:
                if isinstance(event, Live) and event.idx == 5:
                    await session.cancel()
                if isinstance(event, TurnCancelled):
                    assert event in await ledger_of(path, "s")
                    break
        entries = await ledger_of(path, "s")
        (partial,) = of_kind(entries, MessageCompleted)
        assert partial.message.text.startswith("word word")
        (ended,) = of_kind(entries, TurnCancelled)
        assert ended.usage.total_tokens
        assert (await session.run("next")).text == "Here again."


def _shown(request: Request) -> str:
    return "\n".join(message.text for message in request.messages)


# --- 7 ----------------------------------------------------------------------------


@pytest.mark.parametrize(("on_leave", "end"), [("detach", TurnFinished), ("cancel", TurnCancelled)])
async def test_pain_07_what_a_disconnect_does_is_said_and_is_not_what_a_cancel_does(
    path: Path, on_leave: Any, end: type[Event]
) -> None:
    async with on(path, [says("word " * 60)], delay_s=0.01) as agent:
        async with agent.stream("go", on_leave=on_leave) as run:
            async for event in run:
                if isinstance(event, TextDelta):
                    break
        session = agent.session(run.session_id)
        turn = await session.turn_result()
        entries = await ledger_of(path, run.session_id)
        assert len(of_kind(entries, end)) == 1  # type: ignore[type-var]
        assert of_kind(entries, CancelRequested) == []
        assert (turn.stop == "end_turn") == (on_leave == "detach")


async def test_pain_07_a_reader_that_leaves_or_is_killed_does_not_disturb_the_run(work: Work) -> None:
    async with terminal(work, 0.02) as owner, terminal(work) as reader:
        await owner.do("send", session="s", text="say 60")
        reader.begin("read", session="s")
        await until("some deltas", lambda: any('"live"' in line.event for line in reader.latest))
        await reader.kill()
        assert (await owner.do("result", session="s"))[0] == "end_turn"


async def test_pain_07_a_cancel_works_from_any_process_and_is_an_event(work: Work) -> None:
    async with terminal(work) as owner, terminal(work) as other:
        await owner.do("send", session="s", text="hold model")
        await until("the call of the model", lambda: work.effects.all("asked"))
        await other.do("cancel", session="s")
        assert (await owner.do("result", session="s"))[0] == "cancelled"
    async with opened(work.url) as storage:
        entries = await entries_of(storage, "s")
    assert len(of_kind(entries, CancelRequested)) == len(of_kind(entries, TurnCancelled)) == 1


# --- 12 ---------------------------------------------------------------------------


async def test_pain_12_the_refund_is_not_paid_twice(work: Work) -> None:
    """The process is killed after the effect and before its result is written."""
    async with terminal(work) as first, terminal(work) as second:
        await first.do("send", session="s", text="hold tool")
        await until("the effect", lambda: work.effects.all("effect"))
        await first.kill()
        await second.do("resume", session="s")
        await _until_state(second, "waiting")
        assert len(work.effects.all("effect")) == 1, "nobody runs it again in silence"
        await second.do("answer", session="s")
        await _until_state(second, "idle")
        assert await second.do("result", session="s") == ["end_turn", "Held."]
    async with opened(work.url) as storage:
        entries = await entries_of(storage, "s")
    assert results(entries) == [("hold", "ok"), ("pay", "ok")]
    (asked,) = of_kind(entries, QuestionAsked)
    assert asked.unknown
    assert work.effects.by_key("effect") == Counter(entry.key for entry in of_kind(entries, ToolIntent))


async def _until_state(process: Any, state: str) -> None:
    for _ in range(2_000):
        if await process.do("state", session="s") == state:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"the session is never {state}")


# --- 13 ---------------------------------------------------------------------------


async def test_pain_13_a_call_that_takes_long_is_not_started_again_while_it_runs(work: Work) -> None:
    """However often another process looks, waits for the result or asks to go on."""
    async with terminal(work) as owner, terminal(work) as other:
        await owner.do("send", session="s", text="hold tool")
        await until("the call", lambda: work.effects.all("effect"))
        waiting = other.begin("result", session="s")
        for _ in range(20):
            with pytest.raises(Exception, match="held by"):
                await other.do("resume", session="s")
        assert len(work.effects.all("ran")) == 1
        work.effects.open()
        assert await other.end(waiting) == ["end_turn", "Held."]
    assert sorted(line.name for line in work.effects.all("ran")) == ["hold", "pay"]
    assert len(work.effects.all("asked")) == 2


async def test_pain_13_what_a_step_came_to_and_what_comes_next_are_one_transaction(path: Path) -> None:
    groups: list[list[str]] = []
    async with opened(path) as storage:
        append = storage.append_events

        async def noted(events: Sequence[Any], **more: Any) -> None:
            groups.append([event.type for event in events])
            await append(events, **more)

        storage.append_events = noted  # type: ignore[method-assign]

        @tool
        def act() -> str:
            return "done"

        provider = ScriptedProvider([calls("act"), says("Done.")])
        async with Agent(provider, tools=[act], storage=storage) as agent:
            await agent.run("go")
    assert groups == [
        ["message_received", "claimed", "turn_started", "model_started"],
        ["message_completed", "tool_intent"],
        ["tool_finished", "model_started"],
        ["message_completed", "turn_finished", "released"],
    ]


# --- 15 ---------------------------------------------------------------------------


async def test_pain_15_what_is_stored_grows_with_the_conversation_and_not_with_its_square(path: Path) -> None:
    sizes: list[int] = []
    text = "what was said is stored once " * 30
    async with on(path, lambda request: says(text)) as agent:
        session = agent.session("s")
        for _ in range(3):
            for _ in range(60):
                await session.run(text)
            async with opened(path) as storage:
                sizes.append(await _stored(storage))
                point = await storage.get_checkpoint("s")
                assert point is not None
                assert len(str(point.state)) < 40_000
                assert "stored once" not in str(point.state), "a checkpoint has no messages"
    first, second, third = sizes[0], sizes[1] - sizes[0], sizes[2] - sizes[1]
    assert second < 1.1 * first
    assert third < 1.1 * first
    assert sizes[2] < 180 * 2 * len(text) + 180 * 2_500, "per turn what was said, and a little more"


async def _stored(storage: Storage) -> int:
    page = await storage.list_events("s", 0, 10_000)
    total = sum(len(event.payload) for event in page.items)
    while page.next is not None or len(page.items) == 10_000:
        page = await storage.list_events("s", page.items[-1].seq, 10_000)
        total += sum(len(event.payload) for event in page.items)
    return total


# --- 17 ---------------------------------------------------------------------------


async def test_pain_17_a_recovery_that_is_itself_killed_deletes_nothing_and_can_be_repeated(
    work: Work,
) -> None:
    kept: list[Event] = []
    async with terminal(work) as first, opened(work.url) as storage:
        await first.do("stop_at", write=9, when="after")
        first.begin("send", session="s", text="Go.")
        await first.stopped()
        await first.kill()
        for write in (1, 2, 3, 4, 5):
            async with terminal(work) as next_one:
                await next_one.do("stop_at", write=write, when="before")
                next_one.begin("resume", session="s")
                await next_one.stopped()
                await next_one.kill()
            entries = await entries_of(storage, "s")
            assert entries[: len(kept)] == kept
            kept = entries
        async with terminal(work) as last:
            await last.do("resume", session="s")
            for _ in range(200):
                if await last.do("state", session="s") == "waiting":
                    await last.do("answer", session="s")
                elif await last.do("state", session="s") == "idle":
                    break
                await asyncio.sleep(0.05)
            assert await last.do("result", session="s") == ["end_turn", "Done."]
        entries = await entries_of(storage, "s")
    assert entries[: len(kept)] == kept
    assert set(work.effects.by_key("effect").values()) == {1}


# --- 18 ---------------------------------------------------------------------------


async def test_pain_18_two_runs_on_one_session_do_not_interleave(path: Path) -> None:
    """Ten from each of two agents at once: one after the other, and each is shown all that was before it."""

    def answer(request: Request) -> Line:
        roles = [message.role for message in request.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        return says(f"re: {request.messages[-1].text}")

    async with on(path, answer) as one, on(path, answer) as two:
        runs = [(one, two)[at % 2].session("s").run(f"message {at}") for at in range(20)]
        turns = await asyncio.gather(*runs)
    assert [turn.text for turn in turns] == [f"re: message {at}" for at in range(20)]
    entries = await ledger_of(path, "s")
    assert len(of_kind(entries, ModelStarted)) == len(of_kind(entries, TurnFinished)) == 20
    open_turns = Counter[str]()
    for entry in entries:
        open_turns["open"] += isinstance(entry, TurnStarted) - isinstance(entry, TurnFinished)
        assert open_turns["open"] <= 1


@pytest.mark.parametrize("policy", ["queue", "reject", "interrupt", "steer"])
async def test_pain_18_a_second_message_gets_the_policy_that_was_chosen(path: Path, policy: Any) -> None:
    gate = Gate()

    def answer(request: Request) -> Line:
        last = request.messages[-1]
        return calls("hold") if last.text == "one" else says(f"re: {_last_user(request)}")

    async with on(path, answer, gate.tool) as agent, on(path, answer, gate.tool) as other:
        session = agent.session("s")
        await session.send("one")
        await gate.entered.wait()
        if policy == "reject":
            with pytest.raises(Conflict, match="busy"):
                await other.session("s").send("two", when_busy=policy)
        else:
            await other.session("s").send("two", when_busy=policy)
        gate.over.set()
        turn = await session.turn_result()
        expected = "re: one" if policy == "reject" else "re: two"
        assert turn.text == expected
    ends = {"queue": 2, "reject": 1, "interrupt": 2, "steer": 1}
    entries = await ledger_of(path, "s")
    ended = [entry for entry in entries if isinstance(entry, TurnFinished | TurnCancelled | TurnFailed)]
    assert len(ended) == ends[policy]
    assert isinstance(ended[0], TurnCancelled) == (policy == "interrupt")
    assert len(of_kind(entries, MessageReceived)) == (1 if policy == "reject" else 2)


def _last_user(request: Request) -> str:
    return next(message.text for message in reversed(request.messages) if message.role == "user")


# --- 19 ---------------------------------------------------------------------------


@asynccontextmanager
async def _left_open(path: Path) -> AsyncGenerator[None, None]:
    """A turn that an agent of the old definition has left in the middle of a model's answer."""
    entered = asyncio.Event()

    async def never(request: Request) -> Line:
        entered.set()
        await asyncio.sleep(600)
        return says("never said")

    async with on(path, never, weather, instructions="Be brief.") as old:
        await old.session("s").send("go")
        await entered.wait()
    yield


@pytest.mark.parametrize("rule", ["continue", "pause", "refuse"])
async def test_pain_19_a_deploy_does_not_break_what_is_running(path: Path, rule: Any) -> None:
    """The definition is another one now; what then becomes of an open turn was declared."""
    async with _left_open(path), on(path, ["Done."], weather, instructions="Be long.", on_change=rule) as new:
        session = new.session("s")
        if rule == "pause":
            with pytest.raises(TurnUnfinished, match="paused"):
                await session.turn_result()
            await session.resume()
        turn = await session.turn_result()
        assert (turn.stop, turn.text) == (("failed", "") if rule == "refuse" else ("end_turn", "Done."))
    entries = await ledger_of(path, "s")
    assert len(of_kind(entries, TurnStarted)) == 1, "nothing is run again from its beginning"
    assert len(of_kind(entries, TurnPaused)) == (rule == "pause")
    resumed = [entry.by for entry in of_kind(entries, TurnResumed)]
    assert resumed == {"continue": ["continue"], "pause": ["resume"], "refuse": []}[rule]


async def test_pain_19_a_deploy_waits_for_the_step_under_way_and_loses_none(path: Path) -> None:
    """The agent is closed in the middle of a tool: its result is written, and the next process goes on."""
    gate = Gate()
    script = [calls("hold"), says("Done.").expecting(result="held")]
    async with on(path, script, gate.tool) as old:
        await old.session("s").send("go")
        await gate.entered.wait()
        closing = asyncio.ensure_future(old.close())
        await asyncio.sleep(0.05)
        gate.over.set()
        await closing
    assert results(await ledger_of(path, "s")) == [("hold", "ok")]
    async with on(path, [says("Done.").expecting(result="held")], gate.tool) as new:
        assert (await new.session("s").turn_result()).text == "Done."
    assert gate.runs == 1


# --- 30 ---------------------------------------------------------------------------


async def test_pain_30_a_long_running_process_does_not_fill_up(path: Path) -> None:
    """Nothing is kept of a session that nobody holds; the long version is `test_agent_soak.py`."""

    def kept() -> Counter[str]:
        gc.collect()
        kinds = (LocalSession, Ledger, Loop)
        return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))

    async with on(path, lambda request: says("Hello.")) as agent:
        await agent.run("warm up")
        for number in range(40):
            await agent.run("one")
            await agent.session(f"s{number}").run("two")
            async with agent.session(f"s{number}").events() as reader:
                async for event in reader:
                    if isinstance(event, TurnFinished):
                        break
        await asyncio.sleep(0.6)  # a runner that looks at its ledgers may hold one for a moment
        assert sum(kept().values()) <= 8, kept()  # of 81 sessions: the last ones
