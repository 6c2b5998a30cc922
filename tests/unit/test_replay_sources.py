"""Where a recording comes from, and a model that says again what it said."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from replay_stage import Tools, recorded

from gnomon import Agent
from gnomon.errors import BadRequest, Damaged, InvalidInput, NotFound
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.replay import ReplayProvider, read_archive, read_store, replay
from gnomon.replay.provider import spoken
from gnomon.storage.memory import MemoryStorage
from gnomon.types.events import Done, TextDelta, ThinkingDelta, ToolCallDelta
from gnomon.types.messages import Image, Message, Text, Thinking, ToolCall
from gnomon.types.requests import Request, Response, Spent, Usage
from gnomon.upkeep.archive import export

ASK = Request(messages=(Message.user("go"),))


# --- recordings ---------------------------------------------------------------------


async def filled(*names: str) -> tuple[MemoryStorage, Agent]:
    store, tools = MemoryStorage(), Tools()
    script = [step for _ in names for step in (calls("weather", city="x" * 50_000), says("ok"))]
    agent = Agent(ScriptedProvider(script), tools=tools.all, storage=store)
    for name in names:
        await agent.session(name).run("go")
    return store, agent


async def archived(store: MemoryStorage) -> io.BytesIO:
    file = io.BytesIO()
    await export(store, file)
    file.seek(0)
    return file


async def test_a_session_in_an_archive_is_the_one_in_the_store(tmp_path: Path) -> None:
    store, agent = await filled("one")
    async with agent:
        wanted = await read_store(store, "one")
        file = await archived(store)
        path = tmp_path / "all.jsonl"
        path.write_bytes(file.getvalue())
        for source, name in ((file, None), (path, "one"), (str(path), None)):
            found = await read_archive(source, name)
            assert found == wanted
            (await replay(found, agent=agent)).check(whole=True)


async def test_of_several_sessions_in_an_archive_one_has_to_be_named() -> None:
    store, agent = await filled("one", "two")
    async with agent:
        file = await archived(store)
        with pytest.raises(InvalidInput, match="several sessions, such as two, one"):
            await read_archive(file)
        file.seek(0)
        assert (await read_archive(file, "two")).session_id == "two"
        file.seek(0)
        with pytest.raises(NotFound, match="no sessions"):
            await read_archive(file, tenant="other")


async def test_an_archive_that_is_damaged_or_not_there_says_so(tmp_path: Path) -> None:
    store, agent = await filled("one")
    async with agent:
        file = await archived(store)
        whole = file.getvalue()
        with pytest.raises(InvalidInput, match="cut off"):
            await read_archive(io.BytesIO(whole[: len(whole) // 2]))
        with pytest.raises(InvalidInput, match=r"gone\.jsonl.*cannot be read: No such file"):
            await read_archive(tmp_path / "gone.jsonl")


async def test_a_session_without_events_is_not_found() -> None:
    with pytest.raises(NotFound, match="'nobody' has no events"):
        await read_store(MemoryStorage(), "nobody")


# --- the model ----------------------------------------------------------------------

PARTS = [
    (Text("a b  c\n"),),
    (Text(""),),
    (Thinking("hm m", "signed", provider="p", model="m"), Text("so"), ToolCall("c1", "f", '{"a": 1}', 2)),
    (ToolCall("c1", "f", "{}", 0), ToolCall("c2", "f", '{"a": "cut', 1, truncated=True)),
    (Text("x" * 500 + " é 🙂 "), ToolCall("c1", "f", "{}", 0)),
    (ToolCall("c1", "f", "{}", 3), Text("between"), ToolCall("c2", "f", "{}", 5), Text("after")),
    (Image(url="https://example.org/x.png"), Text("see", {"vendor": {"k": [1]}})),
    (),
]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: "-".join(type(part).__name__ for part in parts))
async def test_a_recorded_response_comes_out_of_its_stream_as_it_was(parts: tuple) -> None:
    message = Message("assistant", parts)
    cut = any(call.truncated for call in message.tool_calls)
    response = Response(
        message=message,
        stop_reason="max_tokens" if cut else "tool_use" if message.tool_calls else "stop_sequence",
        id="r1",
        provider="other",
        model="its",
        raw_stop_reason="raw",
        usage=Usage(input_tokens=3, output_tokens=2),
        warnings=("w",),
        discarded=(Spent(input_tokens=1, provider="p"),),
    )
    provider = ReplayProvider([response], name="other", model="its")
    async with provider.stream(ASK) as stream:
        events = [event async for event in stream]
    assert stream.response == response
    assert isinstance(events[-1], Done)
    texts = [event for event in events if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta)]
    assert len(texts) > 1 or len(message.text.split()) < 2


async def test_a_model_of_recorded_answers_gives_them_in_order_and_then_refuses() -> None:
    answers = [Response(message=Message.assistant(text), stop_reason="end_turn") for text in ("one", "two")]
    async with Agent(ReplayProvider(answers)) as agent:
        assert [(await agent.run("go")).text for _ in answers] == ["one", "two"]
        with pytest.raises(BadRequest, match="no recorded answer left"):
            await agent.run("go")


def test_blocks_out_of_order_are_damaged() -> None:
    both = Message.assistant(ToolCall("c1", "f", "{}", 1), ToolCall("c2", "f", "{}", 1))
    with pytest.raises(Damaged, match="block 1"):
        list(spoken(Response(message=both, stop_reason="tool_use")))


# --- the kit ------------------------------------------------------------------------


async def test_the_kit_has_it_and_no_key_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    from gnomon import testing

    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    provider = ScriptedProvider([says("hi")])
    provider.name, provider.model = "openai", "gpt-5"
    async with Agent(provider, instructions="Be brief.") as agent:
        session = agent.session("s")
        await session.run("go")
        found = await testing.replay(
            await recorded(session), agent=Agent("openai:gpt-5", instructions="Be brief.")
        )
        found.check(whole=True)
        assert (found.turns, found.rounds) == (1, 1)
        found = await testing.replay(session, agent=Agent("openai:gpt-5", instructions="Be long."))
        with pytest.raises(AssertionError, match=r"instructions changed: -Be brief\. \+Be long\."):
            found.check()
