"""Pains of other frameworks with limits, money and the prompt cache."""

from __future__ import annotations

import asyncio
import json
import sys
import uuid
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from recorded_effects import entries_of, of_kind
from terminals import PATIENCE_S

import servers
from gnomon import Agent, Provider, tool
from gnomon.compactors.summarize import SummarizeCompactor
from gnomon.compactors.truncate import TruncateCompactor
from gnomon.errors import Overloaded, RateLimited
from gnomon.hooks.cache import CacheHook
from gnomon.hooks.cost import CostTracker
from gnomon.hooks.rate_limit import RateLimitHook
from gnomon.hooks.retry import RetryHook
from gnomon.memory import Memory
from gnomon.providers.anthropic import AnthropicProvider
from gnomon.providers.openai import OpenAIProvider
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.skills import Skills
from gnomon.testing import FakeClock, FaultServer, ReceivedRequest, ServerReply, Wire
from gnomon.types.events import Compacted, MessageCompleted, SubagentFinished
from gnomon.types.requests import Request, Usage, add_usage
from storing import Child, child, opened, sqlite_url

WIRES = Path(__file__).parent.parent / "wire"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


async def at_once(_: float) -> None:
    """No wait at all."""


# --- 28 ---------------------------------------------------------------------------

PRICES = {
    "input_price": "3.1",
    "output_price": "15.7",
    "cache_read_price": "0.31",
    "cache_write_price": "3.91",
}
MODELS = {"scripted:*": {name: float(price) for name, price in PRICES.items()}}


class Vendor:
    """Answers, and keeps what it will send a bill for: each answer used other numbers of tokens."""

    def __init__(self, answer: Callable[[Request], Line]) -> None:
        self.bill: list[Usage] = []
        self._answer = answer
        self.provider = ScriptedProvider(self._reply, verbatim=False)

    def _reply(self, request: Request) -> Line:
        n = len(self.bill) + 1
        used = Usage(
            input_tokens=1_001 * n,
            output_tokens=107 * n + 3,
            cache_read_tokens=10_007 * n,
            cache_write_tokens=503 * n,
            reasoning_tokens=11 * n,
        )
        self.bill.append(used)
        return msgspec.structs.replace(self._answer(request), usage=used)


def owed(*bills: Sequence[Usage]) -> Decimal:
    """What those tokens cost, each of them once."""
    total = add_usage([usage for bill in bills for usage in bill])
    counts = {
        "input_price": total.input_tokens,
        "output_price": total.output_tokens,
        "cache_read_price": total.cache_read_tokens,
        "cache_write_price": total.cache_write_tokens,
    }
    return sum(
        (Decimal(PRICES[name]) * (count or 0) / 1_000_000 for name, count in counts.items()), Decimal()
    )


def chief_of(tried: list[str]) -> Callable[[Request], Line]:
    """Fails at times, hands work on, and writes summaries."""

    def answer(request: Request) -> Line:
        text = request.messages[-1].text
        if not request.tools:
            return says("They spoke of this and that.")
        if request.messages[-1].role == "tool":
            return says("It is done. " + "So it is. " * 40)
        if text not in tried:  # the first attempt of each question
            tried.append(text)
            return says("I would").failing(Overloaded("busy"), after=4)
        return calls("worker", task="count to ten").calling("worker", task="count to ten")

    return answer


async def test_pain_28_a_session_costs_what_the_vendor_will_ask_for_and_not_a_token_more_or_less(
    path: Path,
) -> None:
    """Cached tokens, failed attempts, summaries, sub-agents and answers from a cache, over several turns."""
    chief = Vendor(chief_of([]))
    hand = Vendor(lambda request: says("Ten."))
    tracker = CostTracker(models=MODELS)
    worker = Agent(hand.provider, name="worker", hooks=[tracker, CacheHook()], models=MODELS)
    made = Agent(
        chief.provider,
        name="chief",
        tools=[worker.as_tool()],
        hooks=[tracker, RetryHook(sleep=at_once)],
        compactor=SummarizeCompactor(),
        context_tokens=900,
        models=MODELS,
        storage=sqlite_url(path),
        counter="estimating",
    )
    turns = []
    async with asyncio.timeout(2 * PATIENCE_S), made as agent:
        session = agent.session("s")
        for at in range(6):
            turns.append(await session.run(f"Task {at}: " + "please count. " * 30))
        status = await session.refresh()
    async with opened(path) as storage:
        entries = await entries_of(storage, "s")
    discarded = [e.response.discarded for e in of_kind(entries, MessageCompleted) if e.response.discarded]
    assert len(discarded) == 6
    assert of_kind(entries, Compacted) != []
    assert len(of_kind(entries, SubagentFinished)) == 12
    assert len(hand.bill) == 1  # the other eleven were answered from the cache
    everything = add_usage([*chief.bill, *hand.bill])
    assert add_usage([turn.usage for turn in turns]) == everything
    assert status.tokens_used == everything.total_tokens
    due = owed(chief.bill, hand.bill)
    assert status.cost == float(due)
    assert sum(Decimal(str(turn.cost)) for turn in turns) == due
    assert tracker.report().total.usage == everything
    assert tracker.report().total.cost == due


async def test_pain_28_a_compaction_by_hand_and_a_turn_that_failed_are_paid_for_too(path: Path) -> None:
    def answer(request: Request) -> Line:
        if "fail" in request.messages[-1].text and request.tools:
            return says("I can").failing(Overloaded("busy"))
        return says("Words. " * 60) if request.tools else says("A summary.")

    @tool
    def nothing() -> str:
        return ""

    vendor = Vendor(answer)
    made = Agent(
        vendor.provider,
        tools=[nothing],
        compactor=SummarizeCompactor(),
        models=MODELS,
        storage=sqlite_url(path),
        counter="estimating",
    )
    async with asyncio.timeout(PATIENCE_S), made as agent:
        session = agent.session("s")
        for text in (*("tell me " * 10 for _ in range(8)), "fail", "and on"):
            if text == "fail":
                with pytest.raises(Overloaded):
                    await session.run(text)
            else:
                await session.run(text)
        compacted = await session.compact()
        assert compacted is not None
        assert compacted.usage == vendor.bill[-1]
        status = await session.refresh()
    assert len(vendor.bill) == 11
    assert status.tokens_used == add_usage(vendor.bill).total_tokens
    assert status.cost == float(owed(vendor.bill))
    async with Agent(vendor.provider, models=MODELS, storage=sqlite_url(path)) as agent:
        read = await agent.session("s").refresh()  # by who reads it anew
    assert (read.tokens_used, read.cost) == (status.tokens_used, status.cost)


@pytest.mark.parametrize(
    ("wire", "kind", "name", "model"),
    [
        ("anthropic", AnthropicProvider, "usage_cache", "claude-opus-5-5"),
        ("anthropic", AnthropicProvider, "usage_at_end", "claude-opus-5-5"),
        ("openai", OpenAIProvider, "usage_at_end", "gpt-5"),
    ],
)
async def test_pain_28_cached_tokens_of_a_real_reply_are_priced_once_and_by_their_class(
    wire: str, kind: type[Provider], name: str, model: str
) -> None:
    """A reply that reads from the cache is not priced as one that does not."""
    told = json.loads((WIRES / wire / f"{name}.json").read_text())["usage"]
    usage = Usage(**told)
    async with replying(wire, name) as server:
        provider = kind(key="test", base_url=server.url, model=model)  # type: ignore[call-arg]
        prices = {name: float(price) for name, price in PRICES.items()}
        async with Agent(provider, models={f"{provider.name}:*": prices}) as agent:
            turn = await agent.run("Hello")
    assert turn.usage == usage
    assert (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0) > 0
    assert turn.cost == float(owed([usage]))


# --- 29 ---------------------------------------------------------------------------


@asynccontextmanager
async def replying(wire: str, *names: str) -> AsyncGenerator[FaultServer, None]:
    """A service that plays these replies in turn; the last one stays."""
    replies, left = Wire(WIRES / wire), list(names)

    def answer(request: ReceivedRequest) -> ServerReply:
        fixture = replies[left.pop(0) if len(left) > 1 else left[0]]
        return ServerReply(status=fixture.status, headers=fixture.headers, body=fixture.body)

    async with asyncio.timeout(PATIENCE_S), FaultServer(answer) as server:
        yield server
    assert server.problems == []


def skill_folder(folder: Path) -> Path:
    for name in ("baking", "sailing"):
        (folder / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: All about {name}.\n---\nBe careful.\n"
        (folder / name / "SKILL.md").write_text(text)
    return folder


@tool(read_only=True)
def weather(city: str) -> str:
    """The weather in a city."""
    return "rain"


@tool(read_only=True)
def clock(zone: str) -> str:
    """The time in a zone."""
    return "noon"


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode


def parts_of(wire: str, body: bytes) -> tuple[bytes, bytes, list[bytes]]:
    """The tools, the instructions and each message as they were sent, without Anthropic's marks."""
    if wire == "anthropic":
        sent = _fields(json.dumps(_unmarked(json.loads(body))))
        return bytes(sent["tools"]), bytes(sent["system"]), [bytes(each) for each in _items(sent["messages"])]
    sent = _fields(body)
    return bytes(sent["tools"]), bytes(sent["instructions"]), [bytes(each) for each in _items(sent["input"])]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        if "role" in value and isinstance(value["content"], str):  # short for a list with that text
            value = {**value, "content": [{"type": "text", "text": value["content"]}]}
        return {name: _unmarked(each) for name, each in value.items() if name != "cache_control"}
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    return value


def breaks(wire: str, bodies: Sequence[bytes]) -> int:
    """How often a request did not begin with the whole of the one before it."""
    sent = [parts_of(wire, body) for body in bodies]
    return sum(
        one[:2] != two[:2] or two[2][: len(one[2])] != one[2] or len(two[2]) <= len(one[2])
        for one, two in pairwise(sent)
    )


VENDORS = [("anthropic", AnthropicProvider), ("openai", OpenAIProvider)]


@asynccontextmanager
async def talking(
    wire: str, kind: type[Provider], path: Path, names: Sequence[str], days: int = 0, **options: Any
) -> AsyncGenerator[tuple[Agent[str], FaultServer], None]:
    """An agent with all that tells a model something beside the conversation, so many days from now."""
    clock_of = FakeClock()
    clock_of.advance(timedelta(days=days).total_seconds())
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(replying(wire, *names))
        storage = await stack.enter_async_context(opened(path))
        memory = Memory(storage, agent_id="helper", user_id="ann", now=clock_of.now)
        if not await memory.recall():
            await memory.remember("name", "Ann")
            await memory.remember("likes", "tea")
        skills = Skills([skill_folder(path.parent / f"skills{uuid.uuid4().hex}")], trusted=True)
        provider = kind(key="test", base_url=server.url, model="m")  # type: ignore[call-arg]
        options = {"tools": [weather, clock], **options}
        agent = Agent(
            provider,
            name="helper",
            instructions="Help.",
            memory=memory,
            skills=[skills],
            storage=storage,
            clock=clock_of,
            **options,
        )
        yield await stack.enter_async_context(agent), server


@pytest.mark.parametrize(("wire", "kind"), VENDORS)
async def test_pain_29_every_request_begins_with_the_bytes_of_the_one_before(
    path: Path, wire: str, kind: type[Provider]
) -> None:
    """Over rounds, turns, a restart two days later, and tools that are listed in another order."""
    bodies: list[bytes] = []
    async with talking(wire, kind, path, ["tool", "text", "tools", "text"]) as (agent, server):
        for at in range(2):
            await agent.session("s").run(f"Question {at}?")
        bodies += [request.body for request in server.requests]
    later = talking(wire, kind, path, ["tool", "text"], days=2, tools=[clock, weather])
    async with later as (agent, server):
        await agent.session("s").run("And now?")
        bodies += [request.body for request in server.requests]
    assert len(bodies) == 6
    tools, told, _ = parts_of(wire, bodies[0])
    assert all(name in tools for name in (b"weather", b"remember", b"skill"))
    assert all(name in told for name in (b"Help.", b"tea", b"baking"))
    assert breaks(wire, bodies) == 0


@pytest.mark.parametrize(("wire", "kind"), VENDORS)
async def test_pain_29_a_compaction_breaks_the_prefix_once_and_says_why(
    path: Path, wire: str, kind: type[Provider]
) -> None:
    options = {"compactor": TruncateCompactor(), "counter": "estimating"}
    async with talking(wire, kind, path, ["text"], **options) as (agent, server):
        for at in range(12):
            await agent.session("s").run(f"Question {at}: " + "how is that? " * 10)
            if at == 8:
                await agent.session("s").compact()
        bodies = [request.body for request in server.requests]
    async with opened(path) as storage:
        compacted = of_kind(await entries_of(storage, "s"), Compacted)
    assert [each.reason for each in compacted] == ["asked"]
    assert breaks(wire, bodies) == 1
    tools, told, _ = parts_of(wire, bodies[0])
    assert all(parts_of(wire, body)[:2] == (tools, told) for body in bodies)


@pytest.mark.parametrize(("wire", "kind"), VENDORS)
async def test_pain_29_nothing_that_is_sent_has_a_clock_in_it(
    path: Path, tmp_path: Path, wire: str, kind: type[Provider]
) -> None:
    """Two sessions of the same words, a year apart and on two stores, send the same bytes."""
    sent: list[list[bytes]] = []
    for days, folder in ((0, "a"), (365, "b")):
        (tmp_path / folder).mkdir()
        async with talking(wire, kind, tmp_path / folder / "store.db", ["tool", "text"], days) as (
            agent,
            server,
        ):
            await agent.session("s").run("Rain?")
            sent.append([request.body for request in server.requests])
    assert sent[0] == sent[1]


# --- 27 ---------------------------------------------------------------------------

LIMITED = Path(__file__).with_name("limited_agent.py")


@pytest.fixture(params=["redis", "postgres"])
def shared(request: pytest.FixtureRequest) -> str:
    setting = {"redis": "prefix", "postgres": "schema"}[request.param]
    return f"{servers.shared(request.param).url}?{setting}=t{uuid.uuid4().hex}"


@contextmanager
def agents(count: int, **settings: object) -> Iterator[list[Child]]:
    """So many processes with an agent each, under one limit."""
    with ExitStack() as stack:
        command = (sys.executable, str(LIMITED), json.dumps({**settings, "on_lost": "raise"}))
        made = [stack.enter_context(child(*command)) for _ in range(count)]
        assert [each.line() for each in made] == ["ready"] * count
        yield made


def test_pain_27_agents_of_several_processes_keep_one_limit_together(shared: str) -> None:
    """10 at once, and 10 a second; each by itself would let all 12 of its own go within a quarter of that."""
    with agents(3, shared=shared, requests_per_minute=600, burst_s=1) as made:
        for each in made:
            each.tell("12")
        asked = sorted(at for each in made for at in json.loads(each.line()))
    assert len(asked) == 36
    assert asked[35] - asked[0] > (36 - 10 - 3) / 10  # three, for a slow messenger


def test_pain_27_a_service_that_says_wait_is_heard_by_all_of_them(shared: str) -> None:
    with agents(2, shared=shared, requests_per_minute=60_000) as (one, two):
        one.tell("1 limited")
        (refused,) = json.loads(one.line())
        two.tell("1")
        (asked,) = json.loads(two.line())
    assert asked - refused > 1.99


async def test_pain_27_who_cannot_wait_is_told_so_before_anything_is_spent() -> None:
    """The queue has a deadline: the turn fails with the limit that it met."""
    provider = ScriptedProvider([says("Noon.")])
    hook = RateLimitHook(requests_per_minute=1, burst_s=1, max_wait_s=0.0)
    async with Agent(provider, hooks=[hook]) as agent:
        await agent.run("When?")
        with pytest.raises(RateLimited, match="limited to 1 requests a minute"):
            await agent.session("s").run("And then?")
        failed = await agent.session("s").turn_result()
    assert len(provider.requests) == 1
    assert (failed.usage, failed.cost) == (Usage(), 0.0)
