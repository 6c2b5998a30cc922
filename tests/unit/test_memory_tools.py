"""Memory in a model's hands, and what becomes of a session when its store fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from memory_shelves import CountingStore, FailingStore, HangingStore, opened

from gnomon import Agent, Context, ToolResult
from gnomon.contracts.storage import MemoryStore
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import InvalidArguments, ToolFailed, Unavailable
from gnomon.memory import Memory
from gnomon.testing import ScriptedProvider, ToolContract, calls, says

NAMES = ["remember", "recall", "forget", "forget_all"]
HERE = ToolContext(call_id="call_1", session_id="ses_1")


def made(store: MemoryStore, **options: object) -> dict[str, Tool]:
    memory = Memory(store, agent_id="helper", user_id="ann", **options)  # type: ignore[arg-type]
    return {tool.name: tool for tool in memory.tools()}


async def call(tool: Tool, context: ToolContext = HERE, **arguments: object) -> str:
    result = await tool.execute(msgspec.json.encode(arguments).decode(), context)
    assert isinstance(result, ToolResult)
    return result.text


# --- what they do -----------------------------------------------------------


async def test_a_model_remembers_recalls_and_forgets() -> None:
    store = CountingStore()
    tools = made(store)
    assert list(tools) == NAMES
    assert await call(tools["remember"], key="colour", value="green") == "remembered"
    assert await call(tools["remember"], key="colour", value="green") == "remembered"
    assert await call(tools["recall"], query="colour") == '[{"key":"colour","value":"green"}]'
    assert await call(tools["recall"], query="weather") == "nothing is remembered that fits"
    assert await call(tools["forget"], key="colour") == "forgotten"
    assert await call(tools["forget"], key="colour") == "nothing is remembered under this key"
    await call(tools["remember"], key="town", value="Rome")
    assert await call(tools["forget_all"]) == "1 facts forgotten"
    assert store.rows == {}


async def test_what_is_for_this_conversation_is_not_seen_in_another() -> None:
    tools = made(CountingStore())
    there = ToolContext(call_id="call_2", session_id="ses_2")
    await call(tools["remember"], key="task", value="dig", only_here=True)
    assert "dig" in await call(tools["recall"], query="task")
    assert "dig" not in await call(tools["recall"], there, query="task")
    assert await call(tools["forget"], there, key="task") == "nothing is remembered under this key"
    assert await call(tools["forget"], key="task") == "forgotten"


async def test_the_model_is_told_what_is_for_this_conversation() -> None:
    memory = Memory(CountingStore(), agent_id="helper", user_id="ann")
    await memory.remember("task", "dig", session_id="ses_1")
    assert "- task: dig" in await memory.instructions(HERE)
    assert await memory.instructions(ToolContext(call_id="", session_id="ses_2")) == ""


async def test_what_is_for_a_conversation_that_is_not_kept_is_not_kept_for_good_instead() -> None:
    store = CountingStore()
    with pytest.raises(ToolFailed, match="this conversation is not kept"):
        await call(made(store)["remember"], ToolContext(call_id="1"), key="a", value="b", only_here=True)
    assert store.rows == {}


async def test_what_each_tool_does_to_the_world_is_said() -> None:
    tools = made(CountingStore())
    effects = {name: (t.read_only, t.destructive, t.idempotent) for name, t in tools.items()}  # type: ignore[attr-defined]
    assert effects == {
        "remember": (False, False, True),
        "recall": (True, False, False),
        "forget": (False, True, True),
        "forget_all": (False, True, True),
    }


async def test_no_model_can_say_whose_memory_it_means() -> None:
    for tool in made(CountingStore()).values():
        assert not {"user_id", "user", "agent_id", "session_id", "ctx"} & set(tool.parameters["properties"])  # type: ignore[call-overload]
        with pytest.raises(InvalidArguments, match="user_id"):
            await call(tool, user_id="bob")


async def test_a_model_is_told_why_something_is_not_remembered() -> None:
    tools = made(CountingStore())
    with pytest.raises(ToolFailed, match="looks like a password") as caught:
        await call(tools["remember"], key="password", value="hunter22")
    assert "hunter22" not in str(caught.value)
    with pytest.raises(ToolFailed, match="shorten it"):
        await call(tools["remember"], key="k" * 300, value="v")
    with pytest.raises(InvalidArguments, match="limit"):
        await call(tools["recall"], query="x", limit=51)


class TestRemember(ToolContract):
    arguments = '{"key": "colour", "value": "green"}'
    answer = "remembered"
    invalid = {"{}": "key", '{"key": 5, "value": "x"}': "key", '{"key": "a", "value": "b", "c": 1}': "c"}
    failing = '{"key": "password", "value": "hunter22"}'

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        yield made(CountingStore())["remember"]


class TestRecall(ToolContract):
    arguments = '{"query": "colour"}'
    answer = '[{"key":"colour","value":"green"}]'
    invalid = {"{}": "query", '{"query": "x", "limit": 0}': "limit"}

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Tool]:
        tools = made(CountingStore())
        await call(tools["remember"], key="colour", value="green")
        yield tools["recall"]


# --- a store that fails -----------------------------------------------------

EVERY_CALL = {
    "remember": {"key": "colour", "value": "green"},
    "recall": {"query": "colour"},
    "forget": {"key": "colour"},
    "forget_all": {},
}


@pytest.mark.parametrize("name", EVERY_CALL)
async def test_a_store_that_fails_is_told_to_the_model_by_name(name: str) -> None:
    tools = made(FailingStore(Unavailable("the database is away")))
    with pytest.raises(ToolFailed, match="memory cannot be used now: the database is away"):
        await call(tools[name], **EVERY_CALL[name])


@pytest.mark.parametrize("name", EVERY_CALL)
async def test_a_store_with_a_bug_tells_the_log_and_not_the_model(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    tools = made(FailingStore(KeyError("inner name")))
    with pytest.raises(ToolFailed, match="memory cannot be used now: its store failed") as caught:
        await call(tools[name], **EVERY_CALL[name])
    assert "inner name" not in str(caught.value)
    assert "inner name" in caplog.text


@pytest.mark.parametrize("name", EVERY_CALL)
async def test_a_store_that_hangs_is_not_waited_for(name: str) -> None:
    store = HangingStore()
    with pytest.raises(ToolFailed, match=r"memory cannot be used now: .* within 0.01 s"):
        await call(made(store, timeout_s=0.01)[name], **EVERY_CALL[name])
    assert store.stopped == 1


@pytest.mark.parametrize(
    ("store", "said"),
    [
        (FailingStore(Unavailable("the database is away")), "the database is away"),
        (FailingStore(RuntimeError("sk-abcdEFGH12345678")), "RuntimeError"),
        (FailingStore(asyncio.CancelledError()), "was interrupted"),
        (HangingStore(), "did not answer within 0.01 s"),
    ],
)
async def test_a_turn_goes_on_without_a_block_and_the_log_says_so(
    store: MemoryStore, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    memory = Memory(store, agent_id="helper", user_id="ann", timeout_s=0.01)
    with caplog.at_level(logging.WARNING, "gnomon.memory"):
        assert await memory.instructions(HERE) == ""
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith("a turn goes without memory: ")
    assert said in record.getMessage()
    assert "sk-abcd" not in caplog.text


async def test_a_cancellation_from_outside_ends_the_waiting(caplog: pytest.LogCaptureFixture) -> None:
    store = HangingStore()
    waiting = asyncio.create_task(Memory(store, agent_id="helper", user_id="ann").instructions(HERE))
    await store.waiting.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert store.stopped == 1
    assert caplog.records == []


# --- with an agent ----------------------------------------------------------


@dataclass
class Visitor:
    name: str


def agent_for(visitor: str, storage: object, script: list[object]) -> Agent[str]:
    def who(context: Context[Visitor]) -> str:
        return context.deps.name

    memory = Memory(storage, agent_id="helper", user_id=who)  # type: ignore[arg-type]
    return Agent(
        ScriptedProvider(script),  # type: ignore[arg-type]
        name="helper",
        instructions=memory.instructions,
        tools=memory.tools(),
        deps=Visitor(visitor),
    )


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_an_agent_knows_in_the_next_run_what_it_was_told_by_the_same_user(
    kind: str, tmp_path: Path
) -> None:
    async with opened(kind, tmp_path) as storage:
        first = [
            calls("remember", key="colour", value="likes green").expecting(tools=NAMES),
            says("Noted.").expecting(result="remembered"),
        ]
        async with agent_for("ann", storage, first) as agent:
            await agent.run("I like green.")
        second = [says("Green!").expecting(system="- colour: likes green")]
        async with agent_for("ann", storage, second) as agent:
            assert (await agent.run("Which colour do I like?")).text == "Green!"

        def sees_nothing(request: object) -> bool:
            return "likes green" not in str(request)

        stranger = [
            calls("recall", query="green colour"),
            says("I do not know.").expecting(result="nothing is remembered", check=sees_nothing),
        ]
        async with agent_for("bob", storage, stranger) as agent:
            await agent.run("Which do I like?")


async def test_an_agent_whose_memory_is_gone_still_answers(caplog: pytest.LogCaptureFixture) -> None:
    script = [
        calls("remember", key="colour", value="green"),
        says("I cannot remember now.").expecting(result="memory cannot be used now"),
    ]
    async with agent_for("ann", FailingStore(Unavailable("away")), script) as agent:
        assert (await agent.run("I like green.")).text == "I cannot remember now."
    assert "a turn goes without memory" in caplog.text
