"""A call that had begun when its runner was lost: what its tool's lookup may do, and what comes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from gnomon import Text, ToolCall, ToolContext, ToolFinished, ToolResult, tool
from gnomon.contracts.tool import Tool
from gnomon.counters.estimating import EstimatingCounter
from gnomon.engine.accounts import Accounts
from gnomon.engine.budget import Budget
from gnomon.engine.definition import Definition, Toolbox
from gnomon.engine.recovery import recovered
from gnomon.engine.tools import Outcome, ToolRunner, job_of
from gnomon.errors import ToolFailed
from gnomon.facts.catalogue import Catalogue
from gnomon.testing import ScriptedProvider
from gnomon.types.events import QuestionAsked

KEYS: list[str] = []


class Odd(BaseException):
    """Outside the family of `Exception`."""


class Searchable:
    """A tool whose lookup does what the function says; it is never run."""

    name = "pay"
    description = "Pay."
    read_only = False
    parameters: dict[str, object] = {"type": "object"}
    timeout_s: float | None = 0.2
    max_output_chars: int | None = 100
    on_unknown = "ask"

    def __init__(self, find: Callable[[str, str], Awaitable[Any]]) -> None:
        self._find = find

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        raise AssertionError("it was run again")

    async def lookup(self, key: str, arguments: str) -> ToolResult | None:
        return await self._find(key, arguments)


class Telling(Searchable):
    on_unknown = "tell"


async def outcome(made: Tool, arguments: str = '{"sum": 5}') -> Outcome | None:
    agent = Definition(
        name="teller",
        provider=ScriptedProvider(["x"]),
        tools=Toolbox([made]),
        budget=Budget(),
        accounts=Accounts(EstimatingCounter, Catalogue()),
    )
    runner = ToolRunner(agent, "session_1", "turn_1", "msg_1", asyncio.Semaphore(8))
    job = job_of(ToolCall("call_1", made.name, arguments), agent)
    KEYS[:] = [runner.key(job.call)]
    async with asyncio.timeout(5):
        return await recovered(job, runner, "turn_1")


def finds(value: object) -> Callable[[str, str], Awaitable[Any]]:
    async def find(key: str, arguments: str) -> object:
        await asyncio.sleep(0)
        assert (key, arguments) == (KEYS[0], '{"sum": 5}')
        return value

    return find


def raises(error: BaseException) -> Callable[[str, str], Awaitable[Any]]:
    async def find(key: str, arguments: str) -> object:
        await asyncio.sleep(0)
        raise error

    return find


async def hangs(key: str, arguments: str) -> object:
    await asyncio.Event().wait()
    raise AssertionError


async def cancels_itself(key: str, arguments: str) -> object:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(3)
    raise AssertionError


async def test_what_is_found_is_the_result_of_the_call_under_its_own_id() -> None:
    found = await outcome(Searchable(finds(ToolResult("other", "other", (Text("paid"),)))))
    assert isinstance(found, ToolFinished)
    assert found.result == ToolResult("call_1", "pay", (Text("paid"),))


async def test_nothing_found_is_leave_to_call_again() -> None:
    assert await outcome(Searchable(finds(None))) is None


async def test_what_is_found_is_capped_like_any_result() -> None:
    found = await outcome(Searchable(finds(ToolResult("", "", (Text("x" * 10_000),)))))
    assert isinstance(found, ToolFinished)
    assert len(found.result.text) < 600
    assert found.full == "x" * 10_000


CANNOT_TELL = {
    "it raises": raises(ConnectionError("no answer")),
    "it fails": raises(ToolFailed("no answer")),
    "it ends the process": raises(SystemExit(3)),
    "it raises something odd": raises(Odd("no answer")),
    "it was cancelled": raises(asyncio.CancelledError()),
    "it cancels itself": cancels_itself,
    "it hangs": hangs,
    "it gives a text": finds("paid"),
    "it gives its class": finds(ToolResult),
}


@pytest.mark.parametrize("why", CANNOT_TELL)
async def test_a_lookup_that_cannot_tell_leaves_the_call_to_a_person_or_the_model(why: str) -> None:
    """It is never leave to run again, and never the end of the session."""
    asked = await outcome(Searchable(CANNOT_TELL[why]))
    assert isinstance(asked, QuestionAsked)
    assert (asked.call_id, asked.unknown) == ("call_1", True)
    told = await outcome(Telling(CANNOT_TELL[why]))
    assert isinstance(told, ToolFinished)
    assert told.result.status == "unknown"


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


async def test_a_lookup_that_hangs_in_a_thread_is_given_up_too(release: threading.Event) -> None:
    def find(key: str) -> str:
        release.wait()
        return "too late"

    @tool(lookup=find, timeout_s=0.2)
    def pay() -> str:
        raise AssertionError("it was run again")

    assert isinstance(await outcome(pay, "{}"), QuestionAsked)


async def test_a_lookup_that_does_not_understand_the_arguments_cannot_tell() -> None:
    def find(key: str, arguments: dict[str, object]) -> str:
        raise AssertionError("there are no arguments to ask with")

    @tool(lookup=find)
    def pay(sum: int) -> str:
        raise AssertionError("it was run again")

    assert isinstance(await outcome(pay, '{"sum": "a lot"}'), QuestionAsked)


async def test_whoever_is_cancelled_while_a_lookup_runs_leaves_nothing_behind() -> None:
    cleaned: list[str] = []

    async def find(key: str, arguments: str) -> object:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append("up")

    class Patient(Searchable):
        timeout_s = 60.0

    waiting = asyncio.create_task(outcome(Patient(find)))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    assert cleaned == ["up"]
