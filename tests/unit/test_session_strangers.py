"""What the code of others does at odd places: its turn fails, and nobody waits for ever or asks again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, field_validator
from session_stage import StagedStorage, answered, ledger_of, make_row, write

from gnomon import Agent, Provider, Request, tool
from gnomon.contracts.tool import ToolContext
from gnomon.errors import AskUser, Conflict, GnomonError, Overloaded, Superseded, TurnUnfinished, Unavailable
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.testing._session_audit import unsound
from gnomon.types.events import Claimed, Finish, ModelStarted, PartEnd, ProviderEvent, TextDelta, UsageUpdate
from gnomon.types.messages import Text, ToolCall, ToolResult
from gnomon.types.requests import Usage
from gnomon.types.steps import Turn

HALF = "\ud83d"
"""Half a character, which cannot be written down."""


class Checked(BaseModel):
    x: int

    @field_validator("x")
    @classmethod
    def check(cls, x: int) -> int:
        raise KeyError("a mistake in the check")


class Made(msgspec.Struct):
    x: int

    def __post_init__(self) -> None:
        raise RuntimeError("a mistake in the making")


class Says(Provider):
    """A model that says this, whatever it is asked."""

    name = model = "says"

    def __init__(self, *said: ProviderEvent | Exception) -> None:
        self._said = said
        self.asked = 0

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.asked += 1
        for each in self._said:
            if isinstance(each, Exception):
                raise each
            yield each


async def failed(agent: Agent[Any]) -> Turn[Any]:
    """The turn, of which `session.run` only raises the error."""
    session = agent.session("s")
    with pytest.raises(GnomonError) as raised:
        await asyncio.wait_for(session.run("go"), 5)
    turn = await session.turn_result()
    assert turn.error is not None
    assert raised.value.code == turn.error.code
    return turn


@pytest.mark.parametrize("mode", ["native", "tool"])
@pytest.mark.parametrize("output", [Checked, Made])
async def test_a_check_of_the_output_that_breaks_is_not_asked_about_for_ever(output: type, mode) -> None:
    script = ScriptedProvider(lambda _: says('{"x": 1}') if mode == "native" else calls("final_output", x=1))
    store = StagedStorage()
    async with Agent(script, output=output, output_mode=mode, storage=store) as agent:
        turn = await failed(agent)
        assert turn.error is not None
        assert (turn.stop, turn.error.code, len(script.requests)) == ("failed", "internal", 1)
        assert "a mistake in the" in turn.error.message
    assert unsound(await ledger_of(store)) == []


@pytest.mark.parametrize("error", [Unavailable, Conflict, Superseded, GeneratorExit, KeyError])
async def test_instructions_that_fail_fail_the_turn_also_with_an_error_of_some_store(
    error: type[BaseException],
) -> None:
    asked = 0

    async def instructions() -> str:
        nonlocal asked
        asked += 1
        raise error("theirs")

    async with Agent(Says(), instructions=instructions, storage=StagedStorage()) as agent:
        turn = await failed(agent)
    assert (turn.stop, asked) == ("failed", 1)


@pytest.mark.parametrize("error", [Unavailable, Conflict, Superseded])
async def test_a_model_that_fails_with_an_error_of_some_store_fails_the_turn(error: type[Exception]) -> None:
    model = Says(TextDelta(0, "One "), error("theirs"))
    async with Agent(model, storage=StagedStorage()) as agent:
        turn = await failed(agent)
    assert (turn.stop, model.asked) == ("failed", 1)


@pytest.mark.parametrize(
    "said",
    [
        (TextDelta(0, f"One {HALF}"),),
        (TextDelta(0, "One"), PartEnd(0, Text("One", {"by": object()}))),
    ],
)
async def test_an_answer_that_cannot_be_written_down_fails_the_turn_with_what_it_spent(said) -> None:
    model = Says(*said, UsageUpdate(Usage(input_tokens=3, output_tokens=2)), Finish(stop_reason="end_turn"))
    store = StagedStorage()
    async with Agent(model, storage=store) as agent:
        turn = await failed(agent)
        assert turn.error is not None
        assert "cannot be stored" in turn.error.message
        assert (turn.stop, model.asked, turn.usage.total_tokens) == ("failed", 1, 5)
    assert unsound(await ledger_of(store)) == []


async def test_an_error_that_quotes_half_a_character_fails_the_turn() -> None:
    model = Says(Overloaded(f"too busy for {HALF}"))
    async with Agent(model, storage=StagedStorage()) as agent:
        turn = await failed(agent)
    assert turn.error is not None
    assert (turn.error.message, model.asked) == ("too busy for \\ud83d", 1)


def calling(name: str) -> ScriptedProvider:
    return ScriptedProvider(
        lambda request: calls(name) if request.messages[-1].role == "user" else says("Done.")
    )


async def test_a_question_whose_options_hold_half_a_character_is_asked() -> None:
    @tool
    async def ask() -> str:
        """Ask."""
        raise AskUser("Which?", options=(HALF, "b"))

    async with Agent(calling("ask"), tools=[ask], storage=StagedStorage()) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await asyncio.wait_for(session.run("go"), 5)
        assert (await session.refresh()).questions[0].options == ("\\ud83d", "b")


class Odd:
    name, description, read_only, destructive = "odd", "Odd.", True, False
    parameters: dict[str, object] = {"type": "object", "properties": {}}

    def __init__(self, act: Callable[[ToolContext], ToolResult]) -> None:
        self._act = act
        self.runs = 0

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        self.runs += 1
        return self._act(context)


def unstorable(context: ToolContext) -> ToolResult:
    return ToolResult(call_id=context.call_id, name="odd", content=(Text("x", {"by": object()}),))


def leaving(context: ToolContext) -> ToolResult:
    raise GeneratorExit


@pytest.mark.parametrize("act", [unstorable, leaving])
async def test_a_tool_whose_result_is_none_has_failed(act: Callable[[ToolContext], ToolResult]) -> None:
    odd = Odd(act)
    async with Agent(calling("odd"), tools=[odd], storage=StagedStorage()) as agent:
        turn = await asyncio.wait_for(agent.session("s").run("go"), 5)
    assert (turn.text, odd.runs) == ("Done.", 1)
    assert turn.messages[2].tool_results[0].status == "error"


async def test_a_runner_that_knows_that_it_was_superseded_asks_nobody() -> None:
    """Another has taken over while the row was written, and somebody here has read of it."""
    store, script = StagedStorage(), ScriptedProvider(says("Done."))
    async with store.holding("else"), Agent(script, storage=store) as agent:
        session = agent.session("s")
        await make_row(store, runnable=False)

        async def taken_over() -> None:
            asked = (await ledger_of(store))[-1]
            assert isinstance(asked, ModelStarted)
            await write(
                store,
                Claimed("else", 2),
                ModelStarted(asked.turn_id, asked.message_id, (2, 1)),
                answered(
                    ToolCall(id="c1", name="act", arguments="{}"),
                    message_id=asked.message_id,
                    turn_id=asked.turn_id,
                ),
                after=4,
            )
            await session.refresh()

        async def before_update() -> None:
            if len(await ledger_of(store)) == 4:
                await taken_over()

        store.before_update = before_update
        await session.send("go")
        async with asyncio.timeout(5):
            while len(await ledger_of(store)) < 7 or agent._live().loops:  # noqa: ASYNC110 - a store cannot tell
                await asyncio.sleep(0.02)
    assert script.requests == []
