"""What somebody gives for an agent or sends to a session: what would fail in each turn is refused at once."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon import Agent, Budget, Message, Text, Thinking, ToolCall, ToolResult, tool
from gnomon.errors import ConfigError, InvalidInput, NotFound
from gnomon.providers.scripted import ScriptedProvider

HALF = "a\ud800"


def agent(**given: Any) -> Agent[str]:
    return Agent(ScriptedProvider(lambda _: "Hi.", verbatim=False), **given)


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"budget": {"rounds": 3}}, TypeError, "a budget is a Budget such as Budget(rounds=10), not dict"),
        ({"thinking": "high"}, TypeError, "thinking is a Reasoning such as"),
        ({"temperature": "hot"}, TypeError, "temperature is a number, not str"),
        ({"temperature": float("nan")}, ConfigError, "temperature is nan"),
        ({"max_tokens": -1}, ConfigError, "max_tokens is -1"),
        ({"max_tokens": 1.5}, TypeError, "max_tokens is a whole number, not float"),
        ({"name": HALF}, ConfigError, "the name of an agent: half a character"),
        ({"instructions": HALF}, ConfigError, "the instructions: half a character"),
        ({"instructions": lambda a, b: "x"}, TypeError, "a function of nothing or of the context alone"),
        ({"instructions": lambda *, a: "x"}, TypeError, "a function of nothing or of the context alone"),
    ],
)
def test_what_would_fail_in_each_turn_is_refused_at_once(
    given: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        agent(**given)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"temperature": 0},
        {"temperature": 0.7},
        {"max_tokens": 1},
        {"instructions": lambda: "x"},
        {"instructions": lambda context: "x"},
        {"instructions": lambda *given: "x"},
        {"instructions": str},
    ],
)
def test_what_can_be_used_is_taken(given: dict[str, Any]) -> None:
    agent(**given)


@pytest.mark.parametrize("limits", [{"rounds": "3"}, {"rounds": True}, {"tokens": 1.5}, {"cost": "1"}])
def test_a_budget_is_made_of_numbers(limits: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="number, not"):
        Budget(**limits)


async def test_earlier_messages_from_a_generator_are_not_lost_in_silence() -> None:
    earlier: Any = (message for message in [Message.user("Before."), Message.assistant("Yes.")])
    with pytest.raises(TypeError, match="messages are a list of Message, not generator"):
        await agent().run("Now.", messages=earlier)


CALL = ToolCall("c1", "look", "{}")


@pytest.mark.parametrize(
    "message",
    [
        Message("tool"),
        Message("tool", (ToolResult.of(CALL, "found"),)),
        Message("assistant", (CALL,)),
        Message("assistant", (Text("Hi."),)),
        Message("user", (CALL,)),
        Message("user", (Thinking("Hm."),)),
        Message("nobody", (Text("Hi."),)),  # type: ignore[arg-type]
        CALL,
        ["Look:", ToolResult.of(CALL, "found")],
    ],
)
async def test_what_no_model_could_be_shown_does_not_get_into_a_session(message: Any) -> None:
    async with agent() as one:
        session = one.session("s")
        with pytest.raises(InvalidInput):
            await session.send(message)
        with pytest.raises(InvalidInput):
            await one.run(message)
        assert (await session.run("Hello?")).text == "Hi."


async def test_ids_answers_and_places_of_the_wrong_kind_are_named() -> None:
    wrong: Any = 5
    async with agent() as one:
        session = one.session("s")
        with pytest.raises(NotFound, match="no events to fork from"):
            await session.fork()
        with pytest.raises(InvalidInput, match="5 cannot be the id of a message"):
            await session.send("x", message_id=wrong)
        with pytest.raises(TypeError, match="an answer is text or parts, not int"):
            await session.answer(wrong)
        await session.run("x")
        for at in (True, 1.5, "1", 0, 99):
            place: Any = at
            with pytest.raises(InvalidInput, match="has events 1 to"):
                await session.fork(place)
        with pytest.raises(InvalidInput, match="the id of a session is a text"):
            await session.fork(session_id=wrong)
        with pytest.raises(InvalidInput, match="the id of a session is a text"):
            await session.fork(session_id="")


@tool
def final_output(number: int) -> str:
    """A tool that happens to be called like the engine's own."""
    return f"got {number}"


def test_a_tool_with_the_name_of_the_one_that_takes_the_output_is_refused() -> None:
    provider = ScriptedProvider(["Hi."])
    with pytest.raises(
        ConfigError, match="'final_output', which is the name of the tool that takes the output"
    ):
        Agent(provider, tools=[final_output], output=dict[str, int], output_mode="tool")
