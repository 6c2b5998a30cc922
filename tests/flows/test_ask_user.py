"""`ask_user`: the model asks a person, the turn is put aside, and goes on with the answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

import pytest

from gnomon import Agent, QuestionAsked
from gnomon.engine.permissions import Mode
from gnomon.errors import InvalidInput, TurnUnfinished
from gnomon.session.local import LocalSession
from gnomon.testing import ScriptedProvider, calls, says
from gnomon.types.messages import Image, Text

Given: TypeAlias = str | Sequence[str]

QUESTION = "Which colour?"
COLOURS = ["red", "Blue", "blue-green"]


def asking(result: str, *, options: Sequence[str] = (), multiple: bool = False, **given: object) -> Agent:
    arguments: dict[str, object] = {"question": QUESTION}
    if options:
        arguments["options"] = list(options)
    if multiple:
        arguments["multiple"] = True
    script = [calls("ask_user", **arguments), says("Painted.").expecting(result=result)]
    return Agent(ScriptedProvider(script), tools=["ask_user"], **({"storage": "memory://"} | given))


async def asked_in(session: LocalSession[str]) -> QuestionAsked:
    with pytest.raises(TurnUnfinished, match="waits for an answer: Which colour"):
        await session.run("Paint it.")
    (asked,) = (await session.refresh()).questions
    return asked


async def answered(result: str, given: Given, options: Sequence[str], *, multiple: bool = False) -> None:
    async with asyncio.timeout(10), asking(result, options=options, multiple=multiple) as agent:
        session = agent.session("s")
        await asked_in(session)
        await session.answer(given)
        assert (await session.turn_result()).text == "Painted."


async def test_the_answer_in_free_words_is_what_the_model_is_told() -> None:
    await answered("the one of the sea", "the one of the sea", ())


async def test_whoever_watches_is_shown_the_question_with_what_may_be_answered() -> None:
    async with asyncio.timeout(10), asking("red", options=COLOURS) as agent:
        async with agent.stream("Paint it.") as run:
            events = [event async for event in run]
        asked = events[-1]
        assert isinstance(asked, QuestionAsked)
        assert (asked.question, asked.options) == (QUESTION, tuple(COLOURS))
        assert (asked.multiple, asked.unknown) == (False, False)
        session = agent.session(run.session_id)
        assert (await session.refresh()).questions == (asked,)
        await session.answer("red", call_id=asked.call_id)
        assert (await session.turn_result()).text == "Painted."


@pytest.mark.parametrize(("given", "told"), [("red", "red"), (" RED\n", "red"), ("blue", "Blue")])
async def test_one_of_the_options_is_told_in_the_words_of_the_option(given: str, told: str) -> None:
    await answered(told, given, COLOURS)


@pytest.mark.parametrize("given", [["blue-green", "red"], ["blue-green", "RED", "red"]])
async def test_several_of_the_options_are_told_a_line_each(given: list[str]) -> None:
    await answered("blue-green\nred", given, COLOURS, multiple=True)


@pytest.mark.parametrize(
    ("given", "multiple", "why"),
    [
        ("green", False, r"'green' is not one of the answers .* \(they are: 'red', 'Blue', 'blue-green'\)"),
        ("green", True, "'green' is not one of the answers"),
        (["red", "green"], True, "'green' is not one of the answers"),
        (["red", "blue"], False, "one answer is to be chosen, and 2 were given"),
        ("red\nblue", True, "is not one of the answers"),
        ("", False, "'' is not one of the answers"),
        ((), False, "empty"),
        ("x" * 5_000, False, "^'x{80}…' is not one"),
        ((Image(data=b"\x89PNG", media_type="image/png"),), False, "a part of kind Image is no answer"),
        (
            (Text("red"), Image(data=b"\x89PNG", media_type="image/png")),
            True,
            "a part of kind Image is no answer",
        ),
    ],
)
async def test_what_is_none_of_the_options_is_refused_and_the_question_stays(
    given: Given, multiple: bool, why: str
) -> None:
    async with asyncio.timeout(10), asking("red", options=COLOURS, multiple=multiple) as agent:
        session = agent.session("s")
        asked = await asked_in(session)
        before = session.status.position
        with pytest.raises(InvalidInput, match=why):
            await session.answer(given)
        status = await session.refresh()
        assert (status.questions, status.position) == ((asked,), before)
        await session.answer("red")
        assert (await session.turn_result()).text == "Painted."


@pytest.mark.parametrize("mode", ["bypass", "auto", "accept_edits", "ask", "plan"])
async def test_it_asks_in_every_mode_and_needs_no_leave_for_that(mode: Mode) -> None:
    async with asyncio.timeout(10), asking("red", permissions=mode) as agent:
        session = agent.session("s")
        await asked_in(session)
        assert await session.approvals() == ()
        await session.answer("red")
        assert (await session.turn_result()).text == "Painted."


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"question": " \n"}, "question: it is empty"),
        ({"question": "x" * 4_001}, "question: it has 4,001 characters"),
        ({"question": "?", "options": ["a"]}, "one alone is no choice"),
        ({"question": "?", "options": ["a", " "]}, "option 2 is empty"),
        ({"question": "?", "options": ["a", "b", "A "]}, "options 1 and 3 are the same"),
        ({"question": "?", "options": ["a", "b" * 201]}, "option 2 has 201 characters"),
        ({"question": "?", "options": [str(at) for at in range(21)]}, "21 are too many"),
        ({"question": "?", "multiple": True}, "no options to choose several of"),
        ({"question": "?", "options": "a"}, "options"),
        ({}, "question"),
    ],
)
async def test_a_question_that_nobody_could_answer_is_not_asked(
    arguments: dict[str, object], told: str
) -> None:
    script = [calls("ask_user", **arguments), says("Then not.").expecting(result=told)]
    async with Agent(ScriptedProvider(script), tools=["ask_user"], storage="memory://") as agent:
        assert (await agent.run("Ask.")).text == "Then not."
