"""How memory and skills are wired to an agent: what the model is told first, and their tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from wired import DOORS

from gnomon import Agent
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.memory import Memory
from gnomon.skills import Skills
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import ScriptedProvider, calls, says

MEMORY_TOOLS = ["remember", "recall", "forget", "forget_all"]


def skills_in(folder: Path) -> Skills:
    (folder / "tides").mkdir(parents=True)
    text = "---\nname: tides\ndescription: Reads tide tables.\n---\nLook at the moon.\n"
    (folder / "tides" / "SKILL.md").write_text(text, "utf-8")
    return Skills([folder], trusted=True)


class Says:
    """A source that says how often it was asked, and in which session."""

    def __init__(self) -> None:
        self.asked: list[ToolContext] = []

    def tools(self) -> tuple[Tool, ...]:
        return ()

    async def instructions(self, context: ToolContext) -> str:
        self.asked.append(context)
        return f"This is turn {len(self.asked)}."


@DOORS
async def test_what_was_remembered_is_told_first_the_next_time(ask: Callable) -> None:
    script = ScriptedProvider(
        [
            calls("remember", key="port", value="Dover").expecting(tools=MEMORY_TOOLS),
            says("Noted."),
            says("Dover.").expecting(system="Dover").expecting(system="Be brief."),
        ],
        verbatim=False,
    )
    async with Agent(script, instructions="Be brief.", memory=True) as agent:
        await ask(agent, "I live in Dover.")
        assert (await ask(agent, "Where do I live?")).turn.text == "Dover."
    script.assert_finished()
    assert "Dover" not in (script.requests[0].system or "")


async def test_what_was_remembered_stands_in_the_store_of_the_agent(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/s.db"
    first = ScriptedProvider([calls("remember", key="port", value="Dover"), says("Noted.")])
    async with Agent(first, memory=True, storage=store) as agent:
        await agent.run("I live in Dover.")
    later = ScriptedProvider([says("Dover.").expecting(system="Dover")])
    async with Agent(later, memory=True, storage=store) as agent:
        await agent.run("Where do I live?")
    later.assert_finished()
    stranger = ScriptedProvider([says("No idea.")])
    async with Agent(stranger, name="stranger", memory=True, storage=store) as agent:
        await agent.run("Where do I live?")
    assert "Dover" not in (stranger.requests[0].system or "")


@DOORS
async def test_a_memory_of_its_own_is_used_as_it_is(ask: Callable) -> None:
    memory = Memory(MemoryStorage(), agent_id="ann", user_id="ann")
    await memory.remember("port", "Dover")
    script = ScriptedProvider([says("Dover.").expecting(system="Dover", tools=MEMORY_TOOLS)])
    async with Agent(script, memory=memory) as agent:
        await ask(agent, "Where do I live?")
    script.assert_finished()


@DOORS
async def test_skills_are_named_to_the_model_and_read_with_a_tool(ask: Callable, tmp_path: Path) -> None:
    script = ScriptedProvider(
        [
            calls("skill", name="tides").expecting(system="Reads tide tables."),
            says("At noon.").expecting(result="Look at the moon."),
        ]
    )
    async with Agent(script, skills=[skills_in(tmp_path)]) as agent:
        assert (await ask(agent, "When?")).turn.text == "At noon."
    script.assert_finished()


@DOORS
async def test_all_sources_are_told_after_the_instructions_in_their_order(
    ask: Callable, tmp_path: Path
) -> None:
    memory = Memory(MemoryStorage(), agent_id="ann", user_id="ann")
    await memory.remember("port", "Dover")
    script = ScriptedProvider(["Hello."])
    async with Agent(
        script, instructions="Be brief.", memory=memory, skills=[skills_in(tmp_path), Says()]
    ) as agent:
        await ask(agent, "Hi.")
    told = script.requests[0].system or ""
    places = [told.index(each) for each in ("Be brief.", "Dover", "Reads tide tables.", "This is turn 1.")]
    assert places == sorted(places)


async def test_a_source_is_asked_anew_for_each_turn_and_not_for_each_question(tmp_path: Path) -> None:
    source = Says()
    script = ScriptedProvider(
        [
            calls("skill", name="tides").expecting(system="This is turn 1."),
            says("Once.").expecting(system="This is turn 1."),
            says("Twice.").expecting(system="This is turn 2."),
        ]
    )
    agent = Agent(script, skills=[source, skills_in(tmp_path)])
    async with agent, agent.session("s") as session:
        await session.send("When?")
        await session.send("And then?")
        await session.turn_result()
    assert [context.session_id for context in source.asked] == ["s", "s"]
    assert len({context.turn_id for context in source.asked}) == 2
    script.assert_finished()


@DOORS
async def test_a_source_that_fails_says_nothing_and_the_turn_goes_on(
    ask: Callable, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Says):
        async def instructions(self, context: ToolContext) -> str:
            raise ValueError("torn")

    script = ScriptedProvider([says("Hello.").expecting(system="This is turn 1.")])
    async with Agent(script, skills=[Broken(), Says()]) as agent:
        await ask(agent, "Hi.")
    assert "Broken says nothing to the model in this turn" in caplog.text
