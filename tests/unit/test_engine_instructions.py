"""What a model is told first, as a text or by a function."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gnomon import Agent, ToolContext, tool
from gnomon.engine.instructions import instructions_for
from gnomon.errors import ConfigError, GnomonError
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.types.events import Released

CONTEXT: ToolContext = ToolContext(call_id="", session_id="ses", turn_id="turn", deps={"who": "Ada"})


async def told(given: Any) -> str | None:
    async with asyncio.timeout(5):
        return await instructions_for(given, CONTEXT)


async def later(context: ToolContext) -> str:
    await asyncio.sleep(0)
    return f"for {context.deps['who']}"  # type: ignore[index]


class Told:
    """Its parameters are those of its call."""

    def __call__(self, context: ToolContext) -> str:
        return f"in {context.session_id}"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        ("Be brief.", "Be brief."),
        (lambda: "Be brief.", "Be brief."),
        (lambda context: f"Turn {context.turn_id}", "Turn turn"),
        (later, "for Ada"),
        (lambda: later(CONTEXT), "for Ada"),
        (Told(), "in ses"),
    ],
    ids=["none", "text", "plain", "of the context", "async", "gives an awaitable", "object"],
)
async def test_a_text_or_a_function_of_any_kind_gives_the_instructions(
    given: Any, wanted: str | None
) -> None:
    assert await told(given) == wanted


async def test_a_function_that_is_not_async_may_block() -> None:
    here = threading.get_ident()
    assert await told(lambda: str(threading.get_ident())) != str(here)


async def test_a_function_whose_parameters_nobody_knows_gets_the_context() -> None:
    class Odd:
        __signature__ = "none of the kind"

        def __call__(self, context: ToolContext) -> str:
            return context.turn_id

    assert await told(Odd()) == "turn"


@pytest.mark.parametrize("gives", [None, 5, b"bytes", ["Be brief."]], ids=repr)
async def test_what_is_not_text_is_refused(gives: object) -> None:
    with pytest.raises(ConfigError, match=f"gave {type(gives).__name__}, not text"):
        await told(lambda: gives)


@pytest.mark.parametrize("given", [5, ["Be brief."], b"Be brief."], ids=repr)
def test_what_cannot_be_instructions_is_refused_at_once(given: Any) -> None:
    with pytest.raises(TypeError, match="instructions are a text or a function"):
        Agent("demo", instructions=given)


async def test_a_function_is_asked_once_a_turn_and_its_failure_ends_the_turn() -> None:
    asked: list[str] = []

    @tool
    def look() -> str:
        return "seen"

    def instructions(context: ToolContext) -> str:
        asked.append(context.turn_id)
        if len(asked) == 3:
            raise LookupError("no file")
        return f"This is turn {len(asked)}."

    def with_system(number: int) -> Callable[..., bool]:
        return lambda request: request.system == f"This is turn {number}."

    script = [
        calls("look").expecting(check=with_system(1)),
        says("one").expecting(check=with_system(1)),
        says("two").expecting(check=with_system(2)),
    ]
    agent = Agent(ScriptedProvider(script), instructions=instructions, tools=[look])
    assert (await agent.run("a")).text == "one"
    assert (await agent.run("b")).text == "two"
    with pytest.raises(LookupError, match="no file"):
        await agent.run("c")
    assert len(set(asked)) == 3


async def cancelled() -> str:
    raise asyncio.CancelledError


async def cancels_itself() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


async def leaves() -> str:
    raise SystemExit(3)


@pytest.mark.parametrize("instructions", [cancelled, cancels_itself, leaves])
async def test_a_function_that_ends_its_own_task_fails_its_turn_and_nothing_else(instructions: Any) -> None:
    agent = Agent(ScriptedProvider(["never"]), instructions=instructions)
    with pytest.raises(RuntimeError, match="a function that raised"):
        await agent.run("a")
    async with agent, asyncio.timeout(10):
        session = agent.session("s")
        with pytest.raises(GnomonError, match="a function that raised"):
            await session.run("a")
        assert (await session.turn_result()).stop == "failed"
        async with session.events() as reader:
            seen = [await reader.__anext__() for _ in range(6)]
        assert isinstance(seen[-1], Released)  # and it is not begun again and again


async def test_a_reader_that_leaves_while_the_instructions_are_made_ends_them() -> None:
    ended = asyncio.Event()

    async def instructions() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    agent = Agent(ScriptedProvider(["never"]), instructions=instructions)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await agent.run("a")
    assert ended.is_set()
