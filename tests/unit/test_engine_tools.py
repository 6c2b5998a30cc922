"""The calls of one message: which run together, in which order, and what each comes to."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeAlias

import msgspec
import pytest

from gnomon import (
    Budget,
    Finish,
    Message,
    Provider,
    Request,
    Text,
    ToolCall,
    ToolCallEnd,
    ToolCallStart,
    ToolContext,
    ToolFailed,
    ToolFinished,
    ToolIntent,
    ToolResult,
    tool,
)
from gnomon.contracts.tool import Tool
from gnomon.counters.estimating import EstimatingCounter
from gnomon.engine import definition
from gnomon.engine.accounts import Accounts
from gnomon.engine.calls import PARALLEL
from gnomon.engine.clock import SystemClock
from gnomon.engine.definition import Definition, Toolbox
from gnomon.engine.ids import idempotency_key
from gnomon.engine.journal import Scratch
from gnomon.engine.live import Channel
from gnomon.engine.loop import Loop
from gnomon.engine.tools import ToolRunner
from gnomon.errors import ConfigError, InvalidArguments, ToolDenied, ToolTimeout
from gnomon.facts.catalogue import Catalogue
from gnomon.types.codec import decode_message, encode_message
from gnomon.types.events import MessageReceived, ProviderEvent

ToolEvent: TypeAlias = ToolIntent | ToolFinished


class Probe:
    """A tool written by hand; it does what the function says."""

    description = "A probe."

    def __init__(
        self,
        name: str,
        work: Callable[[ToolContext], Awaitable[Any]] | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        self.name = name
        self.read_only = read_only
        self.parameters: dict[str, object] = {"type": "object"}
        self._work = work

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        value = await self._work(context) if self._work else "done"
        return ToolResult(context.call_id, self.name, (Text(value),)) if isinstance(value, str) else value


class Limited(Probe):
    timeout_s: float | None = 0.02


def call(name: str, id: str = "c1", arguments: str = "{}", **more: Any) -> ToolCall:
    return ToolCall(id, name, arguments, **more)


class Asker(Provider):
    """Makes these calls, and is content."""

    name = model = "asker"

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self._calls = calls

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        if request.messages[-1].role == "user":
            for at, made in enumerate(self._calls):
                yield ToolCallStart(at, made.id, made.name)
                yield ToolCallEnd(at, msgspec.structs.replace(made, index=at))
        yield Finish(stop_reason="end_turn")


def defined(calls: Sequence[ToolCall], tools: Toolbox) -> Definition:
    return Definition(
        name="agent",
        provider=Asker(calls),
        tools=tools,
        budget=Budget(),
        accounts=Accounts(EstimatingCounter, Catalogue()),
    )


async def run_calls(
    calls: Sequence[ToolCall], tools: Toolbox, turn: str, session: str = "session_1"
) -> AsyncGenerator[ToolEvent, None]:
    """The loop with one message that makes these calls, and what comes of them."""
    loop = Loop(
        defined(calls, tools),
        Scratch(session),
        owner="",
        clock=SystemClock(),
        channel=Channel(session),
        opening=[MessageReceived("msg_1", Message.user("go"))],
        turns=1,
        turn_id=turn,
    )
    async with aclosing(loop.events()) as running:
        async for event in running:
            if isinstance(event, ToolIntent | ToolFinished):
                yield event


async def events(calls: list[ToolCall], *tools: Tool, turn: str = "turn_1") -> list[ToolEvent]:
    found: list[ToolEvent] = []
    async with asyncio.timeout(10), aclosing(run_calls(calls, Toolbox(tools), turn)) as running:
        async for event in running:
            found.append(event)
    return found


async def results(calls: list[ToolCall], *tools: Tool) -> list[ToolResult]:
    return [event.result for event in await events(calls, *tools) if isinstance(event, ToolFinished)]


async def one(made: Tool, arguments: str = "{}") -> ToolResult:
    (found,) = await results([call(made.name, arguments=arguments)], made)
    return found


# --- together and in order --------------------------------------------------


class Stage:
    """Watches which calls run at the same time."""

    def __init__(self) -> None:
        self.running: list[str] = []
        self.met: set[frozenset[str]] = set()
        self.log: list[str] = []

    def tool(self, name: str, *, read_only: bool, steps: int = 3) -> Probe:
        async def work(context: ToolContext) -> str:
            self.running.append(context.call_id)
            self.log.append(f"+{context.call_id}")
            for _ in range(steps):
                self.met.add(frozenset(self.running))
                await asyncio.sleep(0)
            self.running.remove(context.call_id)
            self.log.append(f"-{context.call_id}")
            return context.call_id

        return Probe(name, work, read_only=read_only)


async def test_read_only_calls_run_side_by_side() -> None:
    meet = asyncio.Barrier(3)  # nobody passes before all three are there

    async def work(context: ToolContext) -> str:
        await meet.wait()
        return context.call_id

    found = await results([call("read", id) for id in "abc"], Probe("read", work, read_only=True))
    assert [result.text for result in found] == ["a", "b", "c"]


async def test_writes_run_one_after_the_other_in_the_order_of_the_calls() -> None:
    stage = Stage()
    found = await results([call("write", id) for id in "abc"], stage.tool("write", read_only=False))
    assert stage.log == ["+a", "-a", "+b", "-b", "+c", "-c"]
    assert [result.text for result in found] == ["a", "b", "c"]


async def test_a_write_never_runs_beside_anything() -> None:
    stage = Stage()
    tools = [stage.tool("read", read_only=True), stage.tool("write", read_only=False)]
    kinds = {
        "r1": "read",
        "r2": "read",
        "w1": "write",
        "r3": "read",
        "w2": "write",
        "w3": "write",
        "r4": "read",
    }
    found = await results([call(kind, id) for id, kind in kinds.items()], *tools)
    assert [result.call_id for result in found] == list(kinds)
    assert frozenset({"r1", "r2"}) in stage.met
    assert all(len(together) == 1 or together == {"r1", "r2"} for together in stage.met)
    for write in ("w1", "w2", "w3"):
        at = list(kinds).index(write)
        before, after = list(kinds)[:at], list(kinds)[at + 1 :]
        start, end = stage.log.index(f"+{write}"), stage.log.index(f"-{write}")
        assert all(stage.log.index(f"-{id}") < start for id in before)
        assert all(stage.log.index(f"+{id}") > end for id in after)


async def test_a_call_that_is_not_run_does_not_part_the_reads_around_it() -> None:
    meet = asyncio.Barrier(2)

    async def work(context: ToolContext) -> str:
        await meet.wait()
        return "met"

    calls = [call("read", "a"), call("nobody", "b"), call("read", "c", truncated=True), call("read", "d")]
    found = await results(calls, Probe("read", work, read_only=True))
    assert [(result.call_id, result.status) for result in found] == [
        ("a", "ok"),
        ("b", "error"),
        ("c", "truncated"),
        ("d", "ok"),
    ]


async def test_results_are_in_the_order_of_the_calls_and_not_of_their_ends() -> None:
    gates = {id: asyncio.Event() for id in "abc"}
    gates["c"].set()
    ended: list[str] = []

    async def work(context: ToolContext) -> str:
        await gates[context.call_id].wait()
        ended.append(context.call_id)
        before = {"c": "b", "b": "a"}.get(context.call_id)
        if before:
            gates[before].set()
        return context.call_id

    found = await results([call("read", id) for id in "abc"], Probe("read", work, read_only=True))
    assert ended == ["c", "b", "a"]
    assert [result.text for result in found] == ["a", "b", "c"]


async def test_no_more_read_only_calls_run_at_a_time_than_allowed_and_as_many() -> None:
    running, most, meet = 0, 0, asyncio.Barrier(PARALLEL)

    async def work(context: ToolContext) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await meet.wait()
        running -= 1
        return "met"

    calls = [call("read", f"c{n}") for n in range(2 * PARALLEL)]
    assert len(await results(calls, Probe("read", work, read_only=True))) == 2 * PARALLEL
    assert most == PARALLEL


async def test_a_result_is_given_out_as_soon_as_it_is_its_turn() -> None:
    """The first read is shown while the second still runs."""
    gate = asyncio.Event()

    async def work(context: ToolContext) -> str:
        if context.call_id == "b":
            await gate.wait()
        return context.call_id

    made = Toolbox([Probe("read", work, read_only=True)])
    async with (
        asyncio.timeout(10),
        aclosing(run_calls([call("read", "a"), call("read", "b")], made, "t")) as run,
    ):
        first = await anext(run)
        assert isinstance(first, ToolFinished)
        assert first.result.call_id == "a"
        gate.set()
        assert [event async for event in run]


async def test_one_that_fails_does_not_take_its_neighbours_with_it() -> None:
    async def work(context: ToolContext) -> str:
        if context.call_id == "b":
            raise ToolFailed("no")
        await asyncio.sleep(0)
        return "yes"

    found = await results([call("read", id) for id in "abc"], Probe("read", work, read_only=True))
    assert [result.status for result in found] == ["ok", "error", "ok"]


# --- intents ----------------------------------------------------------------


async def test_an_intent_stands_before_the_side_effect_and_only_there() -> None:
    order: list[str] = []

    async def work(context: ToolContext) -> str:
        order.append(f"ran {context.call_id}")
        return context.idempotency_key

    tools = Toolbox([Probe("read", work, read_only=True), Probe("write", work)])
    calls = [call("read", "a"), call("write", "b"), call("write", "c"), call("nobody", "d")]
    async with aclosing(run_calls(calls, tools, "turn_1", "session_1")) as running:
        async for event in running:
            if isinstance(event, ToolIntent):
                assert f"ran {event.call_id}" not in order
                assert (event.turn_id, event.name) == ("turn_1", "write")
                order.append(f"intent {event.call_id}")
            else:
                assert event.turn_id == "turn_1"
                assert event.duration_s >= 0
                order.append(f"end {event.result.call_id}")
    assert order == ["ran a", "end a", "intent b", "ran b", "end b", "intent c", "ran c", "end c", "end d"]


async def test_the_effect_does_not_happen_before_the_intent_was_taken() -> None:
    ran: list[str] = []

    async def work(context: ToolContext) -> str:
        ran.append(context.call_id)
        return "x"

    async with aclosing(run_calls([call("write")], Toolbox([Probe("write", work)]), "t")) as running:
        assert isinstance(await anext(running), ToolIntent)
        for _ in range(5):
            await asyncio.sleep(0)
    assert ran == [], "whoever leaves after the intent has had no effect"


async def test_a_truncated_write_has_no_intent() -> None:
    found = await events([call("write", truncated=True)], Probe("write"))
    assert [type(event) for event in found] == [ToolFinished]


async def test_the_key_is_the_same_for_the_same_call_and_another_for_any_other() -> None:
    async def work(context: ToolContext) -> str:
        return context.idempotency_key

    intent, finished = await events([call("write", "a")], Probe("write", work))
    assert isinstance(intent, ToolIntent)
    assert isinstance(finished, ToolFinished)
    assert finished.result.text == intent.key

    def key(session: str, turn: str, message: str, call_id: str) -> str:
        runner = ToolRunner(defined([], Toolbox()), session, turn, message, asyncio.Semaphore(1))
        return runner.key(call("write", call_id))

    assert key("s", "t", "m", "a") == key("s", "t", "m", "a")
    ids = list(itertools.product(("s1", "s2"), ("t1", "t2"), ("m1", "m2"), ("a", "b")))
    assert len({key(*each) for each in ids}) == len(ids)


def test_a_key_cannot_be_had_by_moving_a_boundary() -> None:
    assert idempotency_key("a", "bc", "d", "e") != idempotency_key("ab", "c", "d", "e")
    assert idempotency_key("a", "b", "c\0d", "e") != idempotency_key("a", "b", "c", "d\0e")


async def test_the_context_says_what_the_call_is() -> None:
    seen: list[ToolContext] = []

    async def work(context: ToolContext) -> str:
        seen.append(context)
        return "x"

    async with aclosing(run_calls([call("read", "a")], Toolbox([Probe("read", work)]), "t", "s")) as running:
        assert [event async for event in running]
    (context,) = seen
    assert (context.call_id, context.turn_id, context.session_id, context.attempt) == ("a", "t", "s", 1)


# --- what is not run --------------------------------------------------------


async def test_an_unknown_tool_is_answered_with_the_known_ones() -> None:
    (found,) = await results([call("raed")], Probe("read"), Probe("write"))
    assert (found.status, found.name) == ("error", "raed")
    assert found.text == "there is no tool called 'raed'; the tools are: read, write"


async def test_an_unknown_tool_is_answered_when_there_are_none() -> None:
    (found,) = await results([call("read")])
    assert "none" in found.text


@pytest.mark.parametrize("arguments", ['{"path": "/etc', "", "{}", '{"complete": true}'])
async def test_a_truncated_call_is_not_run_and_the_model_is_told(arguments: str) -> None:
    async def work(context: ToolContext) -> str:
        raise AssertionError("a truncated call was run")

    (found,) = await results([call("write", arguments=arguments, truncated=True)], Probe("write", work))
    assert found.status == "truncated"
    assert "not run" in found.text
    assert "cut off" in found.text


async def test_invalid_arguments_are_told_and_the_function_does_not_run() -> None:
    ran: list[int] = []

    @tool
    def act(n: int) -> None:
        ran.append(n)

    found = await one(act, '{"n": "one"}')
    assert (found.status, ran) == ("error", [])
    assert found.text == "invalid arguments: Expected `int`, got `str` - at `$.n`"


# --- what goes wrong --------------------------------------------------------


async def failing(error: BaseException) -> ToolResult:
    async def work(context: ToolContext) -> str:
        raise error

    return await one(Probe("act", work))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ToolFailed("the shop is closed"), "error"),
        (InvalidArguments("the shop is closed"), "error"),
        (ToolDenied("the shop is closed"), "denied"),
        (ToolTimeout("the shop is closed"), "timeout"),
    ],
)
async def test_what_a_tool_says_of_its_failure_reaches_the_model(error: Exception, status: str) -> None:
    found = await failing(error)
    assert (found.status, found.text) == (status, "the shop is closed")


@pytest.mark.parametrize(
    "error", [ValueError("db.internal: s3cr3t-pa55"), KeyError("s3cr3t-pa55"), Exception()]
)
async def test_a_bug_is_told_barely_to_the_model_and_in_full_to_the_log(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="gnomon.tools"):
        found = await failing(error)
    assert (found.status, found.text) == ("error", "act failed: internal error in the tool")
    assert b"s3cr3t" not in encode_message(Message.tool(found))
    (record,) = caplog.records
    assert record.name == "gnomon.tools"
    assert record.exc_info is not None
    assert record.exc_info[1] is error
    assert "'act'" in record.getMessage()


async def test_a_failure_the_tool_told_of_is_no_bug_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    await failing(ToolFailed("closed"))
    assert caplog.records == []


async def test_a_secret_in_what_a_tool_says_is_taken_out() -> None:
    found = await failing(ToolFailed("refused: api_key=sk-abcdefghijklmnop"))
    assert "abcdefghijklmnop" not in found.text


@pytest.mark.parametrize(
    "nonsense", [None, 5, {"a": 1}, Message.user("x"), ToolResult, [ToolResult("c1")]], ids=repr
)
async def test_a_tool_that_returns_nonsense_has_failed(
    nonsense: object, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(context: ToolContext) -> object:
        return nonsense

    found = await one(Probe("act", work))
    assert (found.call_id, found.status) == ("c1", "error")
    assert "act failed" in found.text
    assert "not a ToolResult" in caplog.text


@pytest.mark.parametrize("content", [("plain text",), ["plain text"], "plain text"])
async def test_text_in_place_of_parts_is_shown_as_text(content: Any) -> None:
    async def work(context: ToolContext) -> object:
        return ToolResult(context.call_id, "act", content)

    found = await one(Probe("act", work))
    assert found.text == "plain text"
    assert decode_message(encode_message(Message.tool(found))).tool_results == (found,)


@pytest.mark.parametrize("fails", [True, False])
async def test_text_with_half_characters_does_not_poison_what_is_recorded(fails: bool) -> None:
    """A file name that is not UTF-8 comes out of `os.listdir` like this."""

    @tool
    def look() -> str:
        if fails:
            raise ToolFailed("no file name-\udcff.txt")
        return "name-\udcff.txt"

    found = await one(look)
    assert decode_message(encode_message(Message.tool(found))).tool_results == (found,)
    assert "name-" in found.text
    assert found.text.endswith(".txt")


async def test_a_result_under_a_wrong_id_answers_the_call_it_was_made_for() -> None:
    async def work(context: ToolContext) -> object:
        return ToolResult("somebody elses", "other", (Text("x"),), "ok", {"kept": 1})

    found = await one(Probe("act", work))
    assert found == ToolResult("c1", "act", (Text("x"),), "ok", {"kept": 1})


async def test_a_tool_that_is_no_coroutine_function_has_failed(caplog: pytest.LogCaptureFixture) -> None:
    class Plain(Probe):
        def execute(self, arguments: str, context: ToolContext) -> ToolResult:  # type: ignore[override]
            return ToolResult(context.call_id)

    assert (await one(Plain("act"))).status == "error"


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_cancellation_of_the_tools_own_is_a_failure_and_not_the_end_of_the_turn(
    read_only: bool,
) -> None:
    """A connection pool that shuts down cancels whoever waits for it; nobody cancelled the turn."""

    async def work(context: ToolContext) -> str:
        if context.call_id == "b":
            lost = asyncio.get_running_loop().create_future()
            lost.cancel()
            await lost
        return "x"

    found = await results([call("act", id) for id in "abc"], Probe("act", work, read_only=read_only))
    assert [result.call_id for result in found] == ["a", "b", "c"]
    assert found[0].status == found[2].status == "ok"
    assert found[1].status in ("error", "cancelled")


@pytest.mark.parametrize("beside", [1, 2])
async def test_a_tool_cannot_end_the_process(beside: int) -> None:
    async def work(context: ToolContext) -> str:
        raise SystemExit(3)

    found = await results([call("act", f"c{n}") for n in range(beside)], Probe("act", work, read_only=True))
    assert [result.status for result in found] == ["error"] * beside


# --- time -------------------------------------------------------------------


async def forever(context: ToolContext) -> str:
    await asyncio.Event().wait()
    return "never"


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_call_ends_after_the_tools_own_timeout(read_only: bool) -> None:
    found = await results(
        [call("slow", "a"), call("slow", "b")], Limited("slow", forever, read_only=read_only)
    )
    assert [result.status for result in found] == ["timeout", "timeout"]
    assert found[0].text == "slow did not finish within 0.02 seconds"


@pytest.mark.parametrize("made", [Probe("slow", forever), Limited("slow", forever)])
async def test_a_tool_without_a_timeout_gets_the_default_one(
    made: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Limited, "timeout_s", None)
    monkeypatch.setattr(definition, "DEFAULT_TOOL_TIMEOUT_S", 0.02)
    assert (await one(made)).status == "timeout"


async def test_a_timeout_error_of_the_tools_own_is_a_failure_like_any_other() -> None:
    found = await failing(TimeoutError("the database s3cr3t did not answer"))
    assert (found.status, found.text) == ("error", "act failed: internal error in the tool")


async def test_a_tool_that_times_out_is_unwound_before_its_result_is_told() -> None:
    cleaned: list[str] = []

    async def work(context: ToolContext) -> str:
        try:
            return await forever(context)
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    assert (await one(Limited("slow", work))).status == "timeout"
    assert cleaned == ["up"]


async def test_the_time_spent_waiting_for_a_place_is_not_the_tools_own() -> None:
    gate = asyncio.Event()

    async def work(context: ToolContext) -> str:
        if context.call_id == "last":
            return "x"
        await gate.wait()
        return "x"

    class Patient(Probe):
        timeout_s = 5.0

    made = Toolbox([Patient("read", work, read_only=True)])
    calls = [*(call("read", f"c{n}") for n in range(PARALLEL)), call("read", "last")]
    async with aclosing(run_calls(calls, made, "t")) as running:
        reading = asyncio.create_task(_last(running))
        await asyncio.sleep(0.1)
        gate.set()
        last = await reading
    assert last.result.call_id == "last"
    assert last.duration_s < 0.1


async def _last(running: Any) -> ToolFinished:
    return [event async for event in running][-1]


async def test_a_sync_function_that_hangs_times_out_and_can_see_that_nobody_waits() -> None:
    told = threading.Event()

    @tool(timeout_s=0.05)
    def hang(context: ToolContext) -> None:
        end = time.monotonic() + 2
        while time.monotonic() < end and not context.cancelled:
            time.sleep(0.001)
        if context.cancelled:
            told.set()

    assert (await one(hang)).status == "timeout"
    assert await asyncio.to_thread(told.wait, 2.5), "the thread was never told that it is abandoned"


async def test_a_call_that_runs_is_not_called_cancelled() -> None:
    @tool
    def look(context: ToolContext) -> bool:
        return context.cancelled

    assert (await one(look)).text == "false"


# --- leaving ----------------------------------------------------------------


async def test_leaving_cancels_what_runs_and_waits_until_it_has_let_go() -> None:
    left: list[str] = []

    async def work(context: ToolContext) -> str:
        if context.call_id == "a":
            return "x"
        try:
            return await forever(context)
        finally:
            await asyncio.sleep(0)
            left.append(context.call_id)

    tools = Toolbox([Probe("read", work, read_only=True)])
    async with aclosing(run_calls([call("read", id) for id in "abc"], tools, "t")) as running:
        await anext(running)
        await asyncio.sleep(0)
    assert sorted(left) == ["b", "c"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_second_cancellation_does_not_leave_tools_behind() -> None:
    """Somebody presses Ctrl-C again while a tool still cleans up."""
    cleaning, left = asyncio.Event(), list[str]()

    async def work(context: ToolContext) -> str:
        try:
            return await forever(context)
        finally:
            try:
                if context.call_id == "b":
                    cleaning.set()
                    await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                left.append(context.call_id)

    calls = [call("read", id) for id in "ab"]
    task = asyncio.create_task(results(calls, Probe("read", work, read_only=True)))
    await asyncio.sleep(0.01)
    task.cancel()
    await cleaning.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(left) == ["a", "b"]


# --- the toolbox ------------------------------------------------------------


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two tools are called 'read'"):
        Toolbox([Probe("read"), Probe("read")])


def test_a_model_is_told_of_the_effects_that_a_tool_declares() -> None:
    @tool(destructive=True, idempotent=True)
    def drop() -> None:
        """Drop it."""

    plain, dropped = Toolbox([Probe("read", read_only=True), drop]).definitions
    assert (plain.name, plain.read_only, plain.destructive, plain.idempotent) == ("read", True, False, False)
    assert (dropped.name, dropped.read_only, dropped.destructive, dropped.idempotent) == (
        "drop",
        False,
        True,
        True,
    )
    assert (dropped.description, dropped.schema) == ("Drop it.", drop.parameters)


async def test_waiting_for_a_thread_is_not_the_tools_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon import _threads

    monkeypatch.setattr(_threads, "LIMIT", 1)

    @tool(read_only=True, timeout_s=0.3)
    def slow() -> str:
        time.sleep(0.12)
        return "slept"

    found = await results([call("slow", id) for id in "abcdef"], slow)
    assert [result.status for result in found] == ["ok"] * 6


async def test_an_exception_outside_the_family_is_a_failure_too() -> None:
    class Odd(BaseException):
        pass

    async def work(context: ToolContext) -> str:
        raise Odd("odd")

    assert (await one(Probe("act", work))).status == "error"
