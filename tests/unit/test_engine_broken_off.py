"""Code of others that ends itself: a turn goes on or fails by it, and nobody who waits is ended with it."""

from __future__ import annotations

import asyncio
import logging

import pytest
from told_provider import Told, Word, calling, ended

from gnomon import Agent, TextDelta, ToolContext, tool
from gnomon.errors import GuardrailTripped, HookFailed
from gnomon.types.messages import Message
from gnomon.types.steps import GuardrailResult, HookEvent


class Odd(BaseException):
    """No error as others are."""


ENDS = [asyncio.CancelledError, Odd, SystemExit]
STORES = [None, "memory://"]
FINE = [TextDelta(0, "Fine."), ended()]


@tool(read_only=True)
def note(text: str) -> str:
    """Write it down.

    text: what
    """
    return "done"


class Ending:
    """A hook that ends itself at one place."""

    def __init__(self, where: str, error: BaseException) -> None:
        self._where, self._error = where, error

    async def before(self, event: HookEvent) -> None:
        self._end(f"before {event.kind}")

    async def after(self, event: HookEvent) -> None:
        self._end(f"after {event.kind}")

    async def around(self, event: HookEvent, call):  # type: ignore[no-untyped-def]
        self._end(f"around {event.kind}")
        return await call(event)

    def _end(self, where: str) -> None:
        if where == self._where:
            raise self._error


async def asked(agent: Agent, store: str | None) -> str:
    async with agent, asyncio.timeout(20):
        if store is None:
            return (await agent.run("Go on.")).text
        return (await agent.session("s").run("Go on.")).text


@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("kind", ["model", "tool", "turn", "session"])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_hook_that_only_looks_ends_nobody(
    when: str, kind: str, store: str | None, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    told = Told(calling("note", '{"text":"it"}'), FINE)
    hook = Ending(f"{when} {kind}", error())
    with caplog.at_level(logging.ERROR, "gnomon.hooks"):
        assert await asked(Agent(told, tools=[note], hooks=[hook], storage=store), store) == "Fine."
    assert f"hook 'Ending' failed in {when} of {kind}" in caplog.text


@pytest.mark.parametrize("error", ENDS)
@pytest.mark.parametrize("store", STORES)
async def test_a_hook_around_the_model_fails_the_turn(store: str | None, error: type[BaseException]) -> None:
    told = Told(FINE)
    with pytest.raises(HookFailed, match="hook 'Ending' failed around 'told:m'"):
        await asked(Agent(told, hooks=[Ending("around model", error())], storage=store), store)


@pytest.mark.parametrize("error", [*ENDS, AssertionError])
@pytest.mark.parametrize("store", STORES)
async def test_a_hook_around_a_tool_fails_the_call(store: str | None, error: type[BaseException]) -> None:
    told = Told(calling("note", '{"text":"it"}'), FINE)
    hook = Ending("around tool", error())
    assert await asked(Agent(told, tools=[note], hooks=[hook], storage=store), store) == "Fine."
    assert told.was_shown("not done: ")


class EndingGuardrail(Word):
    async def check(self, content: str) -> GuardrailResult:
        raise asyncio.CancelledError


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("position", ["input", "output"])
async def test_a_guardrail_that_ends_itself_stops_the_turn_under_its_name(
    position: str, store: str | None
) -> None:
    guardrail = EndingGuardrail("x", position)  # type: ignore[arg-type]
    with pytest.raises(GuardrailTripped, match=r"guardrail .word. stopped .*was cancelled"):
        await asked(Agent(Told(FINE), guardrails=[guardrail], storage=store), store)


@pytest.mark.parametrize("store", STORES)
async def test_instructions_that_end_themselves_fail_the_turn(store: str | None) -> None:
    async def instructions(_: ToolContext) -> str:
        raise asyncio.CancelledError

    with pytest.raises(Exception, match="raised CancelledError"):
        await asked(Agent(Told(FINE), instructions=instructions, storage=store), store)


class EndingSource:
    def tools(self) -> tuple[()]:
        return ()

    async def instructions(self, context: ToolContext) -> str:
        raise asyncio.CancelledError


async def test_a_source_that_ends_itself_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(Told(FINE), instructions="Be brief.", skills=[EndingSource()])  # type: ignore[list-item]
    assert await asked(agent, None) == "Fine."
    assert "EndingSource says nothing" in caplog.text


class EndingCompactor:
    async def compact(self, messages: object, budget: int) -> tuple[Message, ...]:
        raise asyncio.CancelledError


async def test_a_compactor_that_ends_itself_is_done_without(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent(Told(FINE, FINE), compactor=EndingCompactor(), context_tokens=1)
    async with agent, agent.session("s") as session, asyncio.timeout(20):
        assert (await session.run("Go on.")).text == "Fine."
        assert (await session.run("And on.")).text == "Fine."
    assert "was cancelled" in caplog.text


async def test_a_runner_that_cannot_go_on_is_not_run_again_at_once() -> None:
    tries = 0

    class Leaving(Ending):
        def _end(self, where: str) -> None:
            nonlocal tries
            tries += where == "before model"
            super()._end(where)

    agent = Agent(Told(), hooks=[Leaving("before model", GeneratorExit())], storage="memory://")
    async with agent:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await agent.session("s").run("Go on.")
    assert 0 < tries < 20
