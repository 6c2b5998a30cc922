"""Tools that raise, hang, or return nonsense, through the front door.

Whatever a tool does, its call has exactly one result, the model is told as much as it should know, and
the session takes the next message.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from typing import Any

import pytest
from faced import PATIENCE_S, SECRET, WAYS, ByHand, faced, longest_gap_s, until

from gnomon import Agent, Message, Text, ToolContext, ToolFailed, ToolResult, tool
from gnomon._threads import abandoned
from gnomon.errors import ToolDenied, ToolTimeout
from gnomon.testing import Line, ScriptedProvider, calls, says
from gnomon.types.messages import File, Image, ToolCall
from gnomon.types.requests import Request


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """What hangs in a thread hangs until this is set, which it is in the end."""
    event = threading.Event()
    yield event
    event.set()


# --- it raises --------------------------------------------------------------------


class Odd(BaseException):
    """Outside the family of `Exception`."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")

    __repr__ = __str__


def _group() -> BaseException:
    return BaseExceptionGroup(SECRET, [Odd(SECRET), ValueError(SECRET)])


BUGS: dict[str, Callable[[], BaseException]] = {
    "an exception": lambda: ValueError(SECRET),
    "another": lambda: KeyError(SECRET),
    "a base exception": lambda: Odd(SECRET),
    "an exit": lambda: SystemExit(SECRET),
    "an exit with a number": lambda: SystemExit(3),
    "a group": _group,
    "an exception without words": Unspeakable,
    "no memory": lambda: MemoryError(),
    "no stack": lambda: RecursionError(SECRET),
    "the end of an iteration": lambda: StopIteration(SECRET),
    "the end of an async iteration": lambda: StopAsyncIteration(SECRET),
    "a cancellation": lambda: asyncio.CancelledError(SECRET),
    "a timeout of its own": lambda: TimeoutError(SECRET),
}


@pytest.mark.parametrize("where", ["on the loop", "in a thread", "by hand"])
@pytest.mark.parametrize("bug", BUGS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_raises_is_told_barely_and_the_session_goes_on(
    way: str, bug: str, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    @tool
    async def on_the_loop() -> str:
        raise BUGS[bug]()

    @tool
    def in_a_thread() -> str:
        raise BUGS[bug]()

    async def by_hand(context: ToolContext) -> ToolResult:
        raise BUGS[bug]()

    made = {"on the loop": on_the_loop, "in a thread": in_a_thread, "by hand": ByHand(by_hand)}[where]
    made.name = "act"
    with caplog.at_level(logging.ERROR, logger="gnomon.tools"):
        found = (await faced(way, made)).result
    assert found.status == "error"
    assert found.text == "act failed: internal error in the tool"
    assert [record.name for record in caplog.records] == ["gnomon.tools"], "its owner is told, once"


@pytest.mark.parametrize("way", WAYS)
async def test_a_failure_that_a_tool_tells_of_is_what_the_model_reads(way: str) -> None:
    for error, status in [
        (ToolFailed("the shop is closed"), "error"),
        (ToolDenied("the shop is closed"), "denied"),
        (ToolTimeout("the shop is closed"), "timeout"),
    ]:
        found = (await faced(way, tool(_raising(error)))).result
        assert (found.status, found.text) == (status, "the shop is closed")


def _raising(error: Exception) -> Callable[[], str]:
    def act() -> str:
        raise error

    return act


# --- it hangs ---------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_an_async_tool_that_hangs_times_out(way: str) -> None:
    @tool(timeout_s=0.1)
    async def act() -> str:
        await asyncio.Event().wait()
        return "never"

    found = await faced(way, act)
    assert found.result.status == "timeout"
    assert found.result.text == "act did not finish within 0.1 seconds"
    assert found.took_s < 5


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_hangs_in_a_thread_times_out_and_is_left_behind(
    way: str, release: threading.Event
) -> None:
    late: list[str] = []

    @tool(timeout_s=0.1)
    def act(context: ToolContext) -> str:
        release.wait()
        late.append(f"cancelled: {context.cancelled}")
        return "too late"

    before = abandoned()
    found = await faced(way, act)
    assert (found.result.status, found.took_s < 5) == ("timeout", True)
    assert abandoned() == before + 1, "it is counted"
    release.set()
    await until(lambda: abandoned() == before)
    assert late == ["cancelled: True"], "and may ask whether anybody waits for it"
    assert "too late" not in found.result.text


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_cancels_itself_has_failed_and_the_turn_goes_on(way: str) -> None:
    @tool
    async def act() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(5)
        return "never"

    assert (await faced(way, act)).result.status == "error"


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_whose_own_task_was_cancelled_has_failed_and_the_turn_goes_on(way: str) -> None:
    @tool
    async def act() -> str:
        inner = asyncio.ensure_future(asyncio.sleep(5))
        asyncio.get_running_loop().call_soon(inner.cancel)
        await inner
        return "never"

    assert (await faced(way, act)).result.status == "error"


# --- it returns nonsense ------------------------------------------------------------


def _circle() -> object:
    circle: list[object] = []
    circle.append(circle)
    return circle


async def _never_awaited() -> str:
    return "awaited after all"


FROM_FUNCTIONS: dict[str, tuple[Callable[[], object], str]] = {
    "an object": (object, "error"),
    "a function": (lambda: print, "error"),
    "a class": (lambda: ToolResult, "error"),
    "a circle": (_circle, "error"),
    "a generator": (lambda: (number for number in range(3)), "error"),
    "a lock": (threading.Lock, "error"),
    "an open file": (lambda: sys.stdout, "error"),
    "a number without end": (lambda: float("nan"), ""),
    "a huge number": (lambda: 10**5000, ""),
    "bytes": (lambda: b"\x00\xff", "ok"),
    "nothing": (lambda: None, "ok"),
    "an empty text": (lambda: "", "ok"),
    "an empty list": (list, "ok"),
    "a coroutine": (_never_awaited, "ok"),
    "a result for another call": (lambda: ToolResult("somebody", "else", (Text("mine"),)), "ok"),
}


@pytest.mark.parametrize("what", FROM_FUNCTIONS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_function_that_returns_nonsense_leaves_the_session_usable(way: str, what: str) -> None:
    make, status = FROM_FUNCTIONS[what]

    @tool
    def act() -> object:
        return make()

    found = (await faced(way, act)).result
    assert found.status == status or not status
    assert found.name == "act"
    assert found.content or what == "an empty text"


BY_HAND: dict[str, Callable[[ToolContext], object]] = {
    "nothing": lambda context: None,
    "a text": lambda context: "done",
    "a dictionary": lambda context: {"call_id": context.call_id},
    "a message": lambda context: Message.user("done"),
    "two results": lambda context: [ToolResult(context.call_id), ToolResult(context.call_id)],
    "its class": lambda context: ToolResult,
}


@pytest.mark.parametrize("what", BY_HAND)
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_by_hand_that_returns_no_result_has_failed(way: str, what: str) -> None:
    async def work(context: ToolContext) -> object:
        return BY_HAND[what](context)

    assert (await faced(way, ByHand(work))).result.status == "error"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "content",
    [
        (ToolCall("call_x", "act", "{}"),),
        (ToolResult("call_x", "act", (Text("x"),)),),
        (Image(url="https://example.org/a.png"), File(data=b"\x00", media_type="text/plain")),
        (),
    ],
    ids=["a call", "a result in a result", "media", "nothing at all"],
)
async def test_odd_parts_in_a_result_do_not_poison_the_session(way: str, content: Any) -> None:
    async def work(context: ToolContext) -> object:
        return ToolResult("wrong", "wrong", content)

    found = (await faced(way, ByHand(work))).result
    assert found.name == "act"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fails", [False, True])
async def test_text_with_half_characters_can_be_stored_and_sent(way: str, fails: bool) -> None:
    @tool
    def act() -> str:
        if fails:
            raise ToolFailed("half \ud83d of one")
        return "half \ud83d of one"

    found = (await faced(way, act)).result
    assert found.text == "half \\ud83d of one"


# --- it does more than it was asked for ----------------------------------------------


@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_changes_its_context_changes_nothing_else(way: str) -> None:
    seen: list[tuple[str, object]] = []

    @tool
    async def act(context: ToolContext, number: int) -> str:
        seen.append((context.call_id, context.deps))
        context.call_id = "somebody else's"
        context.session_id = context.turn_id = context.idempotency_key = "stolen"
        context.deps = None
        del context.attempt
        return f"number {number}"

    first = calls("act", number=1).calling("act", number=2)
    found = await faced(way, act, first=first, deps="ours")
    assert [result.text for result in found.results] == ["number 1", "number 2"]
    assert len({result.call_id for result in found.results}) == 2
    assert [call_id for call_id, _ in seen] == [result.call_id for result in found.results]
    assert [deps for _, deps in seen] == ["ours", "ours"]


@pytest.mark.parametrize("way", WAYS)
async def test_tasks_that_a_tool_starts_are_its_own(way: str) -> None:
    """They neither hold up the turn nor end with it; one that fails ends nobody else."""
    started: list[asyncio.Task[None]] = []

    async def fail() -> None:
        raise ValueError(SECRET)

    @tool
    async def act() -> str:
        started.append(asyncio.create_task(asyncio.Event().wait()))  # type: ignore[arg-type]
        started.append(asyncio.create_task(fail()))
        return "under way"

    found = await faced(way, act)
    assert found.result.text == "under way"
    forever, failed = started
    await asyncio.wait({failed})
    assert not forever.done()
    assert isinstance(failed.exception(), ValueError)
    forever.cancel()
    await asyncio.wait({forever})


@pytest.mark.parametrize("way", WAYS)
async def test_a_group_of_tasks_that_fails_is_a_failure_of_its_tool_alone(way: str) -> None:
    async def fail() -> None:
        raise ValueError(SECRET)

    @tool
    async def act() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(5))
            group.create_task(fail())
        return "never"

    found = await faced(way, act)
    assert (found.result.status, found.took_s < 4) == ("error", True)
    assert SECRET not in found.result.text


# --- it reports, and misbehaves ------------------------------------------------------


async def _hangs() -> AsyncGenerator[str, None]:
    yield "one moment"
    await asyncio.Event().wait()


async def _raises() -> AsyncGenerator[str, None]:
    yield "one moment"
    raise ValueError(SECRET)


async def _says_nothing() -> AsyncGenerator[str, None]:
    for text in ():
        yield text


async def _yields_nonsense() -> AsyncGenerator[object, None]:
    yield object()
    yield "the result"


async def _cleans_up_badly() -> AsyncGenerator[str, None]:
    try:
        yield "one moment"
        await asyncio.Event().wait()
    finally:
        raise ValueError(SECRET)


def _hangs_in_a_thread(release: threading.Event) -> Callable[[], Generator[str, None, str]]:
    def act() -> Generator[str, None, str]:
        yield "one moment"
        release.wait()
        return "too late"

    return act


@pytest.mark.parametrize(
    ("make", "statuses"),
    [
        (_hangs, {"timeout"}),
        (_raises, {"error"}),
        (_says_nothing, {"ok", "error"}),
        (_yields_nonsense, {"ok", "error"}),
        (_cleans_up_badly, {"timeout", "error"}),
        ("in a thread", {"timeout"}),
    ],
)
@pytest.mark.parametrize("way", WAYS)
async def test_a_tool_that_misbehaves_between_its_reports_has_one_result(
    way: str, make: Any, statuses: set[str], release: threading.Event
) -> None:
    function = _hangs_in_a_thread(release) if make == "in a thread" else make
    found = await faced(way, tool(name="act", timeout_s=0.2)(function))
    assert found.result.status in statuses
    assert SECRET not in found.result.text
    assert found.took_s < 5


@pytest.mark.parametrize("way", WAYS)
async def test_a_flood_of_reports_ends_in_one_result(way: str) -> None:
    @tool
    async def act() -> AsyncGenerator[str, None]:
        for number in range(20_000):
            yield f"{number} " * 10
        yield "done at last"

    assert (await faced(way, act)).result.text == "done at last"


# --- many of them --------------------------------------------------------------------


def by_prompt(request: Request) -> Line:
    """Calls the tool that the user names, and says what it came to."""
    last = request.messages[-1]
    if last.role == "user":
        return calls(last.text) if last.text != "talk" else says("word " * 50)
    return says(last.tool_results[0].status)


async def test_forty_hung_tools_freeze_neither_the_loop_nor_other_sessions(release: threading.Event) -> None:
    """More than there are places for; each is given up after its time, and its place goes to the next."""

    @tool(timeout_s=0.5)
    def hang() -> str:
        release.wait()
        return "too late"

    @tool
    def quick() -> str:
        return "quick"

    @tool
    async def wait() -> str:
        await asyncio.sleep(0.01)
        return "waited"

    before, stop = abandoned(), asyncio.Event()
    async with Agent(ScriptedProvider(by_prompt), tools=[hang, quick, wait], storage="memory://") as agent:
        watching = asyncio.create_task(longest_gap_s(stop))
        async with asyncio.timeout(PATIENCE_S):
            hung = [asyncio.create_task(agent.run("hang")) for _ in range(40)]
            await asyncio.sleep(0.1)
            async_s = await _took_s([agent.run("wait") for _ in range(10)])
            sync_s = await _took_s([agent.run("quick") for _ in range(10)])
            ended = await asyncio.gather(*hung)
        assert [turn.text for turn in ended] == ["timeout"] * 40
        assert async_s < 0.5, "async tools need no thread"
        assert sync_s < 2.5, "no tool waits longer than those before it are given"
        assert abandoned() == before + 40
        again = await agent.session(ended[0].session_id).run("quick")
        assert again.text == "ok"
        stop.set()
        assert await watching < 0.4
    release.set()
    await until(lambda: abandoned() == before)


async def _took_s(runs: list[Any]) -> float:
    started = time.monotonic()
    turns = await asyncio.gather(*runs)
    assert {turn.text for turn in turns} == {"ok"}
    return time.monotonic() - started
