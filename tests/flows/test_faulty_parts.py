"""Whatever an agent is given may raise, hang, talk nonsense, or not hear that it is to end. The turn goes on
without it, or fails under its name; the next message is answered; and nothing is left behind."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from faced import ByHand, results_in, until

from gnomon import Agent, tool
from gnomon import _begun as begun
from gnomon.contracts.tool import ToolContext
from gnomon.engine import context, guards, instructions, patience
from gnomon.errors import GuardrailTripped, HookFailed
from gnomon.hooks import chain
from gnomon.memory import Memory
from gnomon.session import _chores, _tracing
from gnomon.storage.memory import MemoryStorage
from gnomon.testing import Line, ScriptedProvider, calls, says
from gnomon.tracing.exporter import Tracing
from gnomon.types.messages import ToolResult
from gnomon.types.requests import Request
from gnomon.types.steps import GuardrailResult, HookEvent

WAYS = ("raises", "hangs", "nonsense", "deaf", "cancels")
"""`deaf` goes on though it is cancelled; `cancels` raises a cancellation that nobody asked for."""
DOORS = ("run", "session")
LIMIT_S = 0.05


class Fault:
    """What is wrong with one part of an agent, until it is mended."""

    def __init__(self, way: str) -> None:
        self.way = way
        self.is_on = True
        self.times = 0
        self.over = asyncio.Event()
        self.ended = threading.Event()

    async def strike(self, otherwise: object = None) -> Any:
        """Misbehave; mended, it gives what it ought to."""
        if not self.is_on:
            return otherwise
        self.times += 1
        match self.way:
            case "raises":
                raise ZeroDivisionError("broken on purpose")
            case "cancels":
                raise asyncio.CancelledError
            case "nonsense":
                return 42
            case "hangs":
                await self.over.wait()
            case _:
                while not self.over.is_set():
                    try:
                        await self.over.wait()
                    except asyncio.CancelledError:
                        continue
        return otherwise


# --- the parts, each with the name by which it is known when it is at fault


class FaultyHook:
    def __init__(self, fault: Fault, when: str) -> None:
        self._fault = fault
        self._when = when

    async def before(self, event: HookEvent) -> None:
        await self._met("before", event)

    async def after(self, event: HookEvent) -> None:
        await self._met("after", event)

    async def _met(self, when: str, event: HookEvent) -> None:
        if when == self._when and event.kind in ("model", "tool"):
            await self._fault.strike()
            if self._fault.is_on and self._fault.way == "nonsense":
                event.nonsense


class FaultyAroundHook:
    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    async def before(self, event: HookEvent) -> None: ...

    async def after(self, event: HookEvent) -> None: ...

    async def around(self, event: HookEvent, call: Callable[[HookEvent], Awaitable[Any]]) -> Any:
        struck = await self._fault.strike()
        return struck if struck is not None else await call(event)


class FaultyGuardrail:
    name = "faulty-guardrail"

    def __init__(self, fault: Fault, position: str) -> None:
        self._fault = fault
        self.positions = {position}

    async def check(self, content: str) -> GuardrailResult:
        return await self._fault.strike(GuardrailResult(passed=True))


class FaultyCompactor:
    name = "faulty-compactor"

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    async def compact(self, messages: Any, budget: int) -> Any:
        return await self._fault.strike(messages)


class FaultySource:
    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def tools(self) -> list[Any]:
        return []

    async def instructions(self, context: ToolContext) -> str:
        return await self._fault.strike("")


class FaultyMemories(MemoryStorage):
    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self._fault = fault

    async def list_memory(self, *args: Any, **more: Any) -> Any:
        kept = await super().list_memory(*args, **more)
        return await self._fault.strike(kept)


class FaultyAudit(MemoryStorage):
    def __init__(self, fault: Fault) -> None:
        super().__init__()
        self._fault = fault

    async def append_audit_log_after(self, *args: Any, **more: Any) -> Any:
        struck = await self._fault.strike()
        return struck if struck is not None else await super().append_audit_log_after(*args, **more)


class FaultyExporter:
    """Called in a thread, or by whoever sends: it cannot be cancelled at all."""

    def __init__(self, fault: Fault, when: str) -> None:
        self._fault = fault
        self._when = when

    def here(self) -> Any:
        return self._struck({}) if self._when == "here" else {}

    def export(self, spans: Any, parent: Any = None) -> Any:
        return self._struck(None) if self._when == "export" else None

    def _struck(self, otherwise: object) -> Any:
        if not self._fault.is_on:
            return otherwise
        self._fault.times += 1
        if self._fault.way == "raises":
            raise ZeroDivisionError("broken on purpose")
        if self._fault.way == "hangs":
            self._fault.ended.wait()
        return 42


def options_of(part: str, fault: Fault) -> dict[str, Any]:
    """The part, as an agent is given it."""
    kind, _, where = part.partition(" ")
    match kind:
        case "hook" if where == "around":
            return {"hooks": [FaultyAroundHook(fault)]}
        case "hook":
            return {"hooks": [FaultyHook(fault, where)]}
        case "guardrail":
            return {"guardrails": [FaultyGuardrail(fault, where)]}
        case "compactor":
            return {"compactor": FaultyCompactor(fault), "context_tokens": 1}
        case "source":
            return {"skills": [FaultySource(fault)]}
        case "memory":
            memory = Memory(FaultyMemories(fault), agent_id="agent", user_id="u", timeout_s=LIMIT_S)
            return {"memory": memory}
        case "exporter":
            return {"traces": Tracing(exporter=FaultyExporter(fault, where)), "storage": "memory://"}
        case "audit":
            return {"storage": FaultyAudit(fault)}
        case _:
            return {"subagents": [_helper(fault)]}


def _helper(fault: Fault) -> Agent:
    async def work(_: ToolContext) -> Any:
        return await fault.strike(ToolResult("", "act", (), "ok"))

    act = ByHand(work)
    act.timeout_s = LIMIT_S  # type: ignore[attr-defined]

    def answer(request: Request) -> Line:
        last = request.messages[-1]
        return says(last.tool_results[0].text) if last.role == "tool" else calls("act")

    return Agent(ScriptedProvider(answer), name="helper", tools=[act])


STOPS = ("guardrail input", "guardrail output", "guardrail tool_arguments", "guardrail tool_results")
"""The turn fails: what could not be checked does not pass."""
NAMES = {
    "hook before": "FaultyHook",
    "hook after": "FaultyHook",
    "compactor": "faulty-compactor",
    "source": "FaultySource",
    "memory": "memory",
    "exporter here": "FaultyExporter",
    "exporter export": "FaultyExporter",
    "audit": "audit",
    "sub-agent": "act",
    **dict.fromkeys(STOPS, "faulty-guardrail"),
}
SYNC = {"exporter here": ("raises",), "exporter export": ("raises", "hangs")}
"""What is not async can do less; what an exporter gives is not looked at."""
SESSION_ONLY = (*SYNC, "audit", "sub-agent")
CASES = [
    (part, way, door)
    for part in NAMES
    for way in SYNC.get(part, WAYS)
    for door in (DOORS[1:] if part in SESSION_ONLY else DOORS)
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits long for anything."""
    for module, name in [
        (guards, "LIMIT_S"),
        (context, "LIMIT_S"),
        (instructions, "_SOURCE_S"),
        (_tracing, "_LIMIT_S"),
        (_chores, "LIMIT_S"),
        (_chores, "_CLOSING_S"),
        (_chores, "_GRACE_S"),
        (patience, "GRACE_S"),
        (begun, "GRACE_S"),
    ]:
        monkeypatch.setattr(module, name, LIMIT_S, raising=False)
    assert chain.Chain.__init__.__kwdefaults__ is not None
    monkeypatch.setitem(chain.Chain.__init__.__kwdefaults__, "patience_s", LIMIT_S)


@tool
async def note(text: str) -> str:
    return f"noted {text}"


def script(part: str) -> Callable[[Request], Line]:
    def answer(request: Request) -> Line:
        last = request.messages[-1]
        if last.role == "tool":
            return says("First.")
        if last.text == "Next.":
            return says("Second.")
        return calls("spawn", task="help") if part == "sub-agent" else calls("note", text="x")

    return answer


async def first_turn(agent: Agent, door: str, session_id: str) -> str:
    if door == "session":
        return (await agent.session(session_id).run("Go.")).text
    return (await agent.run("Go.")).text


async def stopped(agent: Agent, door: str) -> str:
    with pytest.raises(GuardrailTripped) as caught:
        await first_turn(agent, door, "s")
    return str(caught.value)


async def second_turn(agent: Agent, door: str, session_id: str) -> str:
    if door == "session":
        return (await agent.session(session_id).run("Next.")).text
    return (await agent.run("Next.")).text


@pytest.mark.parametrize(("part", "way", "door"), CASES)
async def test_a_part_that_is_at_fault_is_named_and_the_next_message_is_answered(
    part: str, way: str, door: str, caplog: pytest.LogCaptureFixture
) -> None:
    fault, before = Fault(way), asyncio.all_tasks()
    provider = ScriptedProvider(script(part), verbatim=False)
    agent = Agent(provider, tools=[note], **options_of(part, fault))
    async with asyncio.timeout(8):
        told = await first_turn(agent, door, "s") if part not in STOPS else await stopped(agent, door)
        assert part in STOPS or told == "First."
        if door == "session":
            await settled(agent)
        fault.is_on = False
        assert await second_turn(agent, door, "s") == "Second."
        await agent.close()
        fault.over.set()
        fault.ended.set()
        while asyncio.all_tasks() - before:  # noqa: ASYNC110 - nobody rings
            await asyncio.sleep(0.01)
    assert fault.times > 0
    told += "".join(result.text for each in provider.requests for result in results_in(each))
    told += "".join(record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert NAMES[part].lower() in told.lower(), told


@pytest.mark.parametrize("way", ["raises", "nonsense", "cancels"])
@pytest.mark.parametrize("door", DOORS)
async def test_a_hook_that_fails_around_a_step_fails_the_turn_under_its_name(way: str, door: str) -> None:
    fault, before = Fault(way), asyncio.all_tasks()
    agent = Agent(ScriptedProvider(script(""), verbatim=False), tools=[note], hooks=[FaultyAroundHook(fault)])
    async with asyncio.timeout(8):
        with pytest.raises(HookFailed, match="FaultyAroundHook"):
            await first_turn(agent, door, "s")
        fault.is_on = False
        assert await second_turn(agent, door, "s") == "Second."
        await agent.close()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("way", ["hangs", "deaf"])
async def test_a_turn_is_cancelled_that_hangs_in_a_hook_around_a_step(way: str) -> None:
    fault, before = Fault(way), asyncio.all_tasks()
    agent = Agent(ScriptedProvider(script(""), verbatim=False), tools=[note], hooks=[FaultyAroundHook(fault)])
    async with asyncio.timeout(8):
        session = agent.session("s")
        await session.send("Go.")
        await until(lambda: fault.times > 0)
        await session.cancel()
        assert (await session.turn_result()).stop == "cancelled"
        fault.is_on = False
        assert await second_turn(agent, "session", "s") == "Second."
        await agent.close()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("way", ["hangs", "deaf"])
async def test_a_reader_leaves_a_run_that_hangs_in_a_hook_around_a_step(way: str) -> None:
    fault, before = Fault(way), asyncio.all_tasks()
    agent = Agent(ScriptedProvider(script(""), verbatim=False), tools=[note], hooks=[FaultyAroundHook(fault)])
    async with asyncio.timeout(8):
        running = asyncio.ensure_future(agent.run("Go."))
        await until(lambda: fault.times > 0)
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        fault.is_on = False
        assert await second_turn(agent, "run", "s") == "Second."
        await agent.close()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("way", WAYS)
async def test_an_agent_is_closed_also_when_a_hook_cannot_be(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    class UnclosableHook(FaultyHook):
        async def close(self) -> None:
            await self._fault.strike()

    fault = Fault(way)
    async with asyncio.timeout(8):
        async with Agent(ScriptedProvider(["Hello."]), hooks=[UnclosableHook(fault, "")]) as agent:
            assert (await agent.run("Hi")).text == "Hello."
    assert fault.times == 1
    assert way == "nonsense" or "UnclosableHook" in caplog.text


async def settled(agent: Agent) -> None:
    """What is done for the session while nobody waits for it has begun to go wrong."""
    await asyncio.sleep(3 * LIMIT_S)
