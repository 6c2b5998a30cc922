"""Pains of other frameworks with what is shown of an answer before it is whole: errors, and guardrails."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from recorded_effects import entries_of, of_kind
from terminals import PATIENCE_S

from gnomon import Agent, StreamFold, tool
from gnomon.contracts.guardrail import Sentence, View, Whole, Window
from gnomon.errors import GuardrailTripped, StreamCut
from gnomon.guardrails.blocklist import BlocklistGuardrail
from gnomon.hooks.retry import RetryHook
from gnomon.providers.compatible import CompatibleProvider
from gnomon.providers.fallback import FallbackProvider
from gnomon.providers.scripted import ScriptedProvider, calls, says
from gnomon.testing import FaultServer, ReceivedRequest, ServerReply
from gnomon.testing._server import Close, Reset, Send, Step
from gnomon.types.codec import encode_event
from gnomon.types.events import (
    AttemptDiscarded,
    Guarded,
    Live,
    MessageCompleted,
    MessageReceived,
    TextDelta,
    TurnFailed,
    TurnFinished,
)
from gnomon.types.requests import Usage
from gnomon.types.steps import GuardrailResult
from storing import opened, sqlite_url


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def at_once(_: float) -> None:
    """No wait at all."""


async def written(path: Path, session_id: str = "s") -> list[Any]:
    async with opened(path) as storage:
        return await entries_of(storage, session_id)


# --- 26 ---------------------------------------------------------------------------


def chunk(text: str = "", *, finish: str | None = None, usage: tuple[int, int] | None = None) -> bytes:
    """A piece of an answer as OpenAI's chat API and its many followers send it."""
    told: dict[str, Any] = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    told["choices"] = [{"index": 0, "delta": {"content": text} if text else {}, "finish_reason": finish}]
    if usage is not None:
        told["usage"] = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    return b"data: " + json.dumps(told).encode() + b"\n\n"


WHOLE = chunk("All of ") + chunk("it.") + chunk(finish="stop", usage=(70, 4)) + b"data: [DONE]\n\n"
SHOWN = chunk("Half of", usage=(60, 2))
UNSHOWN = chunk(usage=(60, 0))
ERROR = b'data: {"error": {"message": "overloaded", "type": "server_error", "code": 503}}\n\n'

FAULTS: dict[str, tuple[Step, ...]] = {
    "reset": (Reset(),),
    "closed": (Close(),),
    "ended": (),
    "error": (Send(ERROR),),
}


class Failing:
    """A server whose first answers break off, and that then gives a whole one."""

    def __init__(self, *before: tuple[Step, ...]) -> None:
        self._left = list(before)

    def __call__(self, request: ReceivedRequest) -> ServerReply:
        kind = (("content-type", "text/event-stream"),)
        if self._left:
            return ServerReply(headers=kind, steps=self._left.pop(0))
        return ServerReply(headers=kind, body=WHOLE)


@asynccontextmanager
async def asked_twice(
    path: Path, way: str, *before: tuple[Step, ...]
) -> AsyncGenerator[tuple[Agent[str], FaultServer], None]:
    """An agent that tries again: by its hook, or by its provider."""
    async with asyncio.timeout(PATIENCE_S), FaultServer(Failing(*before)) as server:
        made = CompatibleProvider(model="m", base_url=server.url, key="k")
        provider = made if way == "hook" else FallbackProvider(providers=[made], retries=3, wait_s=0.0)
        hooks = [RetryHook(sleep=at_once)] if way == "hook" else []
        async with Agent(provider, hooks=hooks, storage=sqlite_url(path)) as agent:
            yield agent, server
        assert server.problems == []


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", ["hook", "fallback"])
async def test_pain_26_an_error_after_the_first_chunk_is_tried_again(
    path: Path, way: str, fault: str
) -> None:
    """Whoever read the first half is told to drop it; what it used is in the bill."""
    async with asked_twice(path, way, (Send(SHOWN), *FAULTS[fault])) as (agent, server):
        fold, kinds = StreamFold(), []
        async with agent.stream("Say it.") as run:
            async for event in run:
                fold.add(event)
                kinds.append(type(event))
        assert len(server.requests) == 2
    assert run.turn.text == fold.message.text == "All of it."
    assert kinds.count(AttemptDiscarded) == 1
    assert kinds.index(TextDelta) < kinds.index(AttemptDiscarded)
    assert run.turn.usage == Usage(input_tokens=130, output_tokens=6)
    (completed,) = of_kind(await written(path, run.session_id), MessageCompleted)
    assert completed.message.text == "All of it."
    assert [spent.total_tokens for spent in completed.response.discarded] == [62]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("way", ["hook", "fallback"])
async def test_pain_26_as_long_as_nothing_was_shown_nobody_hears_of_it(
    path: Path, way: str, fault: str
) -> None:
    async with asked_twice(path, way, (Send(UNSHOWN), *FAULTS[fault])) as (agent, server):
        async with agent.session("s").stream("Say it.") as run:
            kinds = [type(event) async for event in run]
        assert len(server.requests) == 2
    assert AttemptDiscarded not in kinds
    assert run.turn.text == "All of it."
    assert run.turn.usage == Usage(input_tokens=130, output_tokens=4)


async def test_pain_26_every_reader_of_the_session_comes_to_the_same_text(path: Path) -> None:
    """Twice broken off; one who reads from elsewhere drops what was dropped."""
    broken = (Send(SHOWN), Close())
    async with asked_twice(path, "hook", broken, broken) as (agent, _):
        session, fold, dropped = agent.session("s"), StreamFold(), 0
        await session.send("Say it.")
        async with agent.session("s").events() as reader:
            async for event in reader:
                if isinstance(event, Live):
                    fold.add(event.event)
                    dropped += isinstance(event.event, AttemptDiscarded)
                if isinstance(event, TurnFinished):
                    break
        turn = await session.turn_result()
    assert turn.text == "All of it."
    assert fold.message.text in ("", "All of it.")  # who came late has it from the ledger alone
    assert dropped <= 2
    assert turn.usage == Usage(input_tokens=190, output_tokens=8)


async def test_pain_26_what_fails_to_the_end_is_paid_for_and_the_session_goes_on(path: Path) -> None:
    broken = (Send(SHOWN), Close())
    async with asked_twice(path, "hook", *([broken] * 4)) as (agent, server):
        session = agent.session("s")
        with pytest.raises(StreamCut, match="in the middle of the answer"):
            await session.run("Say it.")
        assert len(server.requests) == 4
        assert (await session.turn_result()).usage == Usage(input_tokens=240, output_tokens=8)
        assert (await session.run("Again.")).text == "All of it."
        sent = json.loads(server.requests[-1].body)["messages"]
    assert "Half" not in json.dumps(sent)


# --- 37 ---------------------------------------------------------------------------


class Careful:
    """Stops an answer with a bad word in it; it is shown as much at a time as the test says."""

    name = "careful"
    positions = frozenset({"output"})

    def __init__(self, view: View) -> None:
        self.view = view

    async def check(self, content: str) -> GuardrailResult:
        return GuardrailResult("xylophone" not in content, "the password was in it")


SECRET = "The weather is fine today. The password is xylophone, keep it."


async def everything_shown(agent: Agent[str], path: Path) -> str:
    """All that anybody could read of a turn: its reader, a reader of the session, the ledger, the traces."""
    session, shown = agent.session("s"), []
    async with session.stream("Tell me.") as run:
        async for event in run:
            shown.append(repr(event))
    assert run.turn.error is not None
    assert run.turn.error.code == GuardrailTripped.code
    shown.append(repr(await session.turn_result()))
    async with agent.session("s").events() as reader:
        async for event in reader:
            shown.append(repr(event))
            if isinstance(event, TurnFailed):
                break
    shown += [encode_event(entry).decode() for entry in await written(path)]
    async with opened(path) as storage:
        shown += [repr(trace) for trace in (await storage.list_traces("s", 100)).items]
    return "\n".join(shown)


@pytest.mark.parametrize("view", [Window(12), Sentence(), Whole()], ids=["window", "sentence", "whole"])
@pytest.mark.parametrize("delay_s", [0.0, 0.001])
async def test_pain_37_a_guardrail_speaks_before_the_answer_is_shown(
    path: Path, view: View, delay_s: float
) -> None:
    provider = ScriptedProvider([says(SECRET)], delay_s=delay_s)
    made = Agent(provider, guardrails=[Careful(view)], storage=sqlite_url(path), traces=True)
    async with asyncio.timeout(PATIENCE_S), made as agent:
        shown = await everything_shown(agent, path)
    for start in range(len("xylophone") - 3):
        assert "xylophone"[start : start + 4] not in shown
    assert ("The weather is fine" in shown) == (not isinstance(view, Whole))
    (guarded,) = of_kind(await written(path), Guarded)
    assert (guarded.guardrail, guarded.position, guarded.replaced) == ("careful", "output", False)


async def test_pain_37_no_effect_follows_what_was_stopped(path: Path) -> None:
    """The answer with the bad word also calls a tool: it is not run, whichever came first."""
    ran: list[str] = []

    @tool
    def launch() -> str:
        ran.append("launch")
        return "launched"

    line = calls("launch")
    line = type(line)(text=SECRET, calls=line.calls)
    made = Agent(
        ScriptedProvider([line]), tools=[launch], guardrails=[Careful(Whole())], storage=sqlite_url(path)
    )
    async with asyncio.timeout(PATIENCE_S), made as agent:
        with pytest.raises(GuardrailTripped):
            await agent.session("s").run("Tell me, and launch.")
    assert ran == []


async def test_pain_37_a_stopped_input_costs_nothing_and_is_in_no_later_view(path: Path) -> None:
    fine = says("Hello.").expecting(check=lambda request: "xylophone" not in repr(request.messages))
    provider = ScriptedProvider([fine])
    blocklist = BlocklistGuardrail(["xylophone"], positions=["input"])
    made = Agent(provider, guardrails=[blocklist], storage=sqlite_url(path))
    async with asyncio.timeout(PATIENCE_S), made as agent:
        session = agent.session("s")
        with pytest.raises(GuardrailTripped):
            await session.run("The word is XYLOPHONE.")
        assert provider.requests == []
        stopped = await session.turn_result()
        assert (stopped.usage, stopped.cost) == (Usage(), 0.0)
        assert (await session.run("Hello?")).text == "Hello."
    provider.assert_finished()
    received = [entry.message.text for entry in of_kind(await written(path), MessageReceived)]
    assert received == ["The word is XYLOPHONE.", "Hello?"]  # the ledger keeps what came


async def test_pain_37_what_is_replaced_is_replaced_everywhere_and_the_turn_goes_on(path: Path) -> None:
    blocklist = BlocklistGuardrail(["xylophone"], on_match="redact", positions=["output"])
    starred = says("Good.").expecting(
        check=lambda request: "xylophone" not in repr(request.messages) and "***" in repr(request.messages)
    )
    provider = ScriptedProvider([says(SECRET), starred], verbatim=False)
    made = Agent(provider, guardrails=[blocklist], storage=sqlite_url(path))
    async with asyncio.timeout(PATIENCE_S), made as agent:
        session, fold = agent.session("s"), StreamFold()
        async with session.stream("Tell me.") as run:
            async for event in run:
                fold.add(event)
        expected = SECRET.replace("xylophone", "***")
        assert run.turn.text == fold.message.text == expected
        await session.run("And now?")
    provider.assert_finished()
    assert "xylophone" not in "".join(encode_event(entry).decode() for entry in await written(path))


@pytest.mark.parametrize("position", ["tool_arguments", "tool_results"])
async def test_pain_37_a_call_and_its_result_are_guarded_before_anybody_has_them(
    path: Path, position: Any
) -> None:
    ran: list[str] = []

    @tool
    def whisper(word: str) -> str:
        ran.append(word)
        return "it is xylophone"

    word = "xylophone" if position == "tool_arguments" else "tell"
    provider = ScriptedProvider([calls("whisper", word=word)])
    blocklist = BlocklistGuardrail(["xylophone"], positions=[position])
    made = Agent(provider, tools=[whisper], guardrails=[blocklist], storage=sqlite_url(path))
    async with asyncio.timeout(PATIENCE_S), made as agent:
        with pytest.raises(GuardrailTripped):
            await agent.session("s").run("Whisper.")
    assert ran == ([] if position == "tool_arguments" else ["tell"])
    assert len(provider.requests) == 1
    assert "xylophone" not in "".join(encode_event(entry).decode() for entry in await written(path))
