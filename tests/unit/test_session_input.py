"""What a session is given by hand: said to be wrong before anything is written."""

from __future__ import annotations

import pytest
from session_stage import StagedStorage, make_row

from gnomon import Agent
from gnomon.errors import AskUser, ConfigError, Conflict, InvalidInput, TurnUnfinished
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.storage.memory import MemoryStorage
from gnomon.testing._session_patience import Gate, beside, until
from gnomon.testing._session_tools import StageTool, held_tool
from gnomon.types.messages import Image, Message, Text


async def ask(context) -> str:
    raise AskUser("Which?")


@pytest.mark.parametrize("given", [None, 5, b"bytes", bytearray(b"bytes"), {"text": "x"}, object()])
async def test_what_is_no_prompt_is_refused_and_not_written(given: object) -> None:
    store = StagedStorage()
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        for asking in (agent.session("s").send, agent.run):
            with pytest.raises(TypeError, match="a prompt is text, parts or a Message, not"):
                await asking(given)  # type: ignore[operator]
        assert store.appends == 0


async def test_a_part_or_several_are_a_message() -> None:
    image = Image(data=b"\x89PNG", media_type="image/png")
    script = ScriptedProvider([says("One."), says("Two.")])
    async with Agent(script, storage=MemoryStorage()) as agent:
        session = agent.session("s")
        await session.run(image)
        await session.run(["look", image, Text("here")])
    shown = [message for message in script.requests[1].messages if message.role == "user"]
    assert [len(message.content) for message in shown] == [1, 3]


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"when_busy": "later"}, "when_busy is 'later'; it may be one of queue"),
        ({"message_id": ""}, "cannot be the id of a message"),
        ({"message_id": "fix_1"}, "cannot be the id of a message"),
    ],
)
async def test_a_wrong_way_to_send_is_said_and_nothing_is_written(wrong, match: str) -> None:
    store = StagedStorage()
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        with pytest.raises(InvalidInput, match=match):
            await agent.session("s").send("go", **wrong)
        assert store.appends == 0


async def test_a_turn_is_cancelled_in_one_of_two_ways() -> None:
    async with Agent(ScriptedProvider([])) as agent:
        with pytest.raises(InvalidInput, match="'now' or 'after_step', not 'later'"):
            await agent.session("s").cancel("later")  # type: ignore[arg-type]


async def test_an_answer_says_something_or_lets_the_call_run_again() -> None:
    tools = [StageTool("ask", ask, read_only=True)]
    script = ScriptedProvider([calls("ask"), says("Done.")])
    async with Agent(script, tools=tools, storage=MemoryStorage()) as agent:
        session = agent.session("s")
        with pytest.raises(TurnUnfinished):
            await session.run("go")
        with pytest.raises(InvalidInput, match="an answer is empty"):
            await session.answer()
        for wrong in (b"bytes", 5, None):
            with pytest.raises(TypeError, match="an answer is text or parts, not"):
                await session.answer(wrong)  # type: ignore[arg-type]
        await session.answer(["this", Text("and that")])
        assert (await session.turn_result()).text == "Done."
    assert script.requests[1].messages[-1].tool_results[0].text == "thisand that"


async def test_a_closed_session_takes_no_message() -> None:
    store = StagedStorage()
    await make_row(store, status="closed", runnable=False)
    async with Agent(ScriptedProvider([]), storage=store) as agent:
        with pytest.raises(Conflict, match="session 's' is closed"):
            await agent.session("s").send("go")
        assert store.appends == 0


async def test_a_fork_does_not_write_into_a_session_that_is_there() -> None:
    store = MemoryStorage()
    async with Agent(ScriptedProvider([says("One."), says("Two.")]), storage=store) as agent:
        await agent.session("s").run("one")
        await agent.session("other").run("two")
        before = (await store.list_events("other")).items
        with pytest.raises(Conflict, match="session 'other' is there already"):
            await agent.session("s").fork(session_id="other")
        assert (await store.list_events("other")).items == before


async def test_a_session_that_is_left_goes_on() -> None:
    gate = Gate()
    script = ScriptedProvider([calls("hold"), says("Done.")])
    async with Agent(script, tools=[held_tool("hold", gate)], storage=MemoryStorage()) as agent:
        async with agent.session("s") as session:
            await session.send("go")
            await gate.reached("the tool")
            assert session.status.state == "running"
        assert session.status.state == "idle", "of what was let go of nothing is known here"
        gate.open()
        assert (await session.turn_result()).text == "Done."


async def test_a_turn_that_is_to_end_after_its_step_is_cancelling_until_then() -> None:
    gate = Gate()
    script = ScriptedProvider([calls("hold"), says("Done.")])
    async with Agent(script, tools=[held_tool("hold", gate)], storage=MemoryStorage()) as agent:
        session = agent.session("s")
        await session.send("go")
        await gate.reached("the tool")
        async with beside(session.cancel("after_step")) as cancelling:
            await until("the cancel", lambda: session.status.state == "cancelling")
            gate.open()
            await cancelling
        assert (await session.turn_result()).stop == "cancelled"
        assert session.status.state == "idle"


@pytest.mark.parametrize("name", ["", None, 5, "half \ud800"])
def test_an_agent_needs_a_name_that_can_be_stored(name: object) -> None:
    with pytest.raises(ConfigError, match="name"):
        Agent(ScriptedProvider([]), name=name)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [["hello"], [Message.user("a"), None], (x for x in ())])
async def test_earlier_messages_are_a_list_of_messages(wrong: object) -> None:
    async with Agent(ScriptedProvider([])) as agent:
        with pytest.raises(TypeError, match="messages are a list of Message"):
            agent.stream("go", messages=wrong)  # type: ignore[arg-type]
