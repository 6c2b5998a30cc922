"""Pains of other frameworks with who gets to see what: other users, tracers, and other machines."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from terminals import PATIENCE_S, STORES

import servers
from gnomon import Agent, ToolContext, tool
from gnomon.contracts.storage import Storage
from gnomon.errors import ApprovalRefused, NotFound
from gnomon.memory import Memory
from gnomon.providers.scripted import Line, ScriptedProvider, calls, says
from gnomon.session.local import LocalSession
from gnomon.storage.memory import MemoryStorage
from gnomon.tracing import Tracing
from gnomon.tracing.otel import OpenTelemetryExporter
from gnomon.types.events import ApprovalRequested, TextDelta
from gnomon.types.requests import Request
from storing import opened, sqlite_url

# --- 25 ---------------------------------------------------------------------------


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "store.db")
    return f"{servers.shared('postgres').url}?schema=t{uuid.uuid4().hex}"


@tool
def pay(euros: int) -> str:
    return f"paid {euros}"


def echoing(request: Request) -> Line:
    """Tells all that it was shown, and pays when it is told to."""
    shown = " / ".join(message.text for message in request.messages if message.text)
    if "pay" in request.messages[-1].text:
        return calls("pay", euros=5)
    return says(f"{request.system or ''} {shown}")


@asynccontextmanager
async def of_tenant(store: Storage, tenant: str) -> AsyncGenerator[tuple[Agent[str], Storage], None]:
    scope = store.scoped(tenant)
    memory = Memory(scope, agent_id="helper", user_id="ann")
    made = Agent(
        ScriptedProvider(echoing, verbatim=False),
        name="helper",
        tools=[pay],
        permissions="ask",
        memory=memory,
        storage=scope,
    )
    async with asyncio.timeout(PATIENCE_S), made as agent:
        yield agent, scope


async def until_asked(session: LocalSession[str]) -> tuple[ApprovalRequested, ...]:
    while True:
        if asked := await session.approvals():
            return asked
        await asyncio.sleep(0.01)


async def test_pain_25_a_session_of_the_same_name_is_another_one_for_another_tenant(url: str) -> None:
    """Its messages, events, approvals, memory, traces, audit rows and its very existence."""
    async with (
        opened(url) as store,
        of_tenant(store, "acme") as (ours, our_scope),
        of_tenant(store, "evil") as (theirs, their_scope),
    ):
        await Memory(our_scope, agent_id="helper", user_id="ann").remember("pet", "a cat named Rosa")
        mine, other = ours.session("s"), theirs.session("s")
        await mine.run("The plan is Overlord.")
        await mine.send("Now pay.")
        asked = await until_asked(mine)
        assert (await other.refresh()).position == 0
        assert await other.approvals() == ()
        with pytest.raises((NotFound, ApprovalRefused)):
            await other.approve(asked[0].approval_id, by="eve")
        with pytest.raises(NotFound):
            await other.fork()
        await other.cancel()
        said = (await other.run("What do you know?")).text
        assert "Overlord" not in said
        assert "Rosa" not in said
        assert (await mine.refresh()).state == "waiting"  # whatever the other did to theirs
        assert await mine.approvals() == asked
        for scope, titles in ((our_scope, ["The plan is Overlord."]), (their_scope, ["What do you know?"])):
            assert [row.title for row in (await scope.list_sessions()).items] == titles
        await mine.approve(by="ann")
        assert "Rosa" in (await mine.turn_result()).text
    async with opened(url) as store:
        assert all(row.actor != "ann" for row in (await store.scoped("evil").list_audit_logs("s")).items)
        assert (await store.list_sessions()).items == ()  # and neither is the plain store's


async def test_pain_25_a_worker_of_one_tenant_does_not_take_up_what_another_left(url: str) -> None:
    async with opened(url) as store:
        async with of_tenant(store, "acme") as (agent, _):
            session = agent.session("s")
            await session.send("Now pay.")
            await until_asked(session)
        async with of_tenant(store, "evil") as (agent, _):
            serving = asyncio.ensure_future(agent.serve())
            with pytest.raises((NotFound, ApprovalRefused)):
                await agent.session("s").approve()
            with pytest.raises(RuntimeError):
                await agent.session("s").turn_result()
            serving.cancel()
            await asyncio.wait({serving})
        async with of_tenant(store, "acme") as (agent, _):
            await agent.session("s").approve()
            assert "paid" not in (await agent.session("s").turn_result()).text


class Person(msgspec.Struct):
    user: str


async def test_pain_25_a_model_cannot_read_or_write_the_memory_of_another_user(url: str) -> None:
    """Whose memory it is comes from the program; what a model says of it is not heard."""

    def user_of(context: ToolContext[Person]) -> str:
        return context.deps.user

    async def asked(user: str, store: Storage, *lines: Line) -> None:
        memory = Memory(store, agent_id="helper", user_id=user_of)
        provider = ScriptedProvider(list(lines), verbatim=False)
        made = Agent(provider, name="helper", memory=memory, storage=store, deps=Person(user))
        async with asyncio.timeout(PATIENCE_S), made as agent:
            await agent.session(f"of {user}").run("Go on.")
        provider.assert_finished()

    def hides(request: Request) -> bool:
        return "green" not in repr(request)

    async with opened(url) as store:
        await asked("ann", store, calls("remember", key="colour", value="green"), says("Kept."))
        await asked(
            "bob",
            store,
            calls("recall", query="colour").expecting(check=hides),
            calls("recall", query="colour", user_id="ann").expecting(check=hides),
            calls("forget", key="colour").expecting(check=hides),
            calls("forget_all").expecting(check=hides),
            says("Nothing.").expecting(check=hides),
        )
        await asked("ann", store, says("Green.").expecting(system="green"))


# --- 32 ---------------------------------------------------------------------------


class Collected:
    """An SDK of our own, so that nothing global is touched."""

    def __init__(self) -> None:
        self._memory = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._memory))
        self.tracing = Tracing(exporter=OpenTelemetryExporter(self.provider))

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._memory.get_finished_spans())


@pytest.mark.parametrize("left", ["closed", "closed elsewhere", "cancelled", "forgotten"])
async def test_pain_32_a_stream_that_is_left_early_is_one_trace_and_no_error(
    left: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Within a span of the application's own, which is current before and after."""
    collected, store = Collected(), MemoryStorage()
    provider = ScriptedProvider([says("Here you are, at last. " * 20)], delay_s=0.001)
    made = Agent(provider, name="shop", storage=store, traces=collected.tracing)
    tracer = collected.provider.get_tracer("app")
    with caplog.at_level(logging.DEBUG):
        async with asyncio.timeout(PATIENCE_S), made as agent:
            with tracer.start_as_current_span("request") as request:
                session_id = await leave(agent, left)
                assert api.get_current_span() is request
            turn = await agent.session(session_id).turn_result()
    assert turn.stop == "cancelled"
    assert "different Context" not in caplog.text
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR] == []
    spans = {span.name: span for span in collected.spans}
    assert set(spans) == {"request", "invoke_agent shop", "chat scripted"}
    assert len({span.context.trace_id for span in collected.spans}) == 1
    assert spans["invoke_agent shop"].parent.span_id == spans["request"].context.span_id
    assert spans["chat scripted"].parent.span_id == spans["invoke_agent shop"].context.span_id


async def leave(agent: Agent[str], left: str) -> str:
    """Read the first words of an answer, and go, in one of the ways in which people go."""
    run = agent.session("s").stream("Tea, please.")

    async def read() -> None:
        async for event in run:
            if isinstance(event, TextDelta) and left != "cancelled":
                return

    if left == "cancelled":
        task = asyncio.create_task(read())
        while agent.session("s").status.state == "idle" and not agent.provider.requests:  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        task.cancel()
        await asyncio.wait({task})
        await run.aclose()
    elif left == "closed":
        await read()
        await run.aclose()
    elif left == "closed elsewhere":
        await read()
        await asyncio.create_task(run.aclose())
    else:
        await read()
        del read, run
        gc.collect()
    return "s"


async def test_pain_32_one_interaction_with_tools_and_sub_agents_is_one_trace(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Side by side with another one, which is another."""

    def chief(request: Request) -> Line:
        return says("Done.") if len(request.messages) > 1 else calls("worker", task="look")

    collected = Collected()
    worker = Agent(ScriptedProvider(lambda request: says("Seen.")), name="worker")
    made = Agent(
        ScriptedProvider(chief),
        name="chief",
        tools=[worker.as_tool()],
        storage=MemoryStorage(),
        traces=collected.tracing,
    )
    tracer = collected.provider.get_tracer("app")

    async def interact(agent: Agent[str], name: str) -> None:
        with tracer.start_as_current_span(name):
            await agent.session(name).run("Look.")

    async with asyncio.timeout(PATIENCE_S), made as agent:
        await asyncio.gather(interact(agent, "one"), interact(agent, "two"))
    assert "different Context" not in caplog.text
    traces: dict[int, list[str]] = {}
    for span in collected.spans:
        traces.setdefault(span.context.trace_id, []).append(span.name)
    assert len(traces) == 2
    for names in traces.values():
        ours = [name for name in names if name not in ("one", "two")]
        assert {"invoke_agent chief", "invoke_agent worker"} <= set(ours)
        assert len(names) - len(ours) == 1


# --- 33 ---------------------------------------------------------------------------

PROGRAM = """
import asyncio, os, sys
asked = []
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen"):
        if event != "socket.connect" or isinstance(arguments[1], tuple):
            asked.append((event, str(arguments)))
sys.addaudithook(watch)

from gnomon import Agent, tool

@tool
def look() -> str:
    return "a secret"

async def main():
    worker = Agent("demo", name="worker")
    async with Agent("demo", tools=[look, worker.as_tool()], storage="sqlite:///store.db", traces=True,
                     memory=True, compactor="truncate", hooks=["metrics", "cost", "retry"]) as agent:
        turn = await agent.session("s").run("what is 12*(3+4)? My word is Xylophone.")
        assert turn.text
    from gnomon import registry
    storage = registry.storage("sqlite:///store.db")
    traces = (await storage.list_traces("s")).items
    await storage.close()
    assert traces
    assert "Xylophone" not in repr(traces), traces
asyncio.run(main())
from opentelemetry import trace
assert "Proxy" in type(trace.get_tracer_provider()).__name__, trace.get_tracer_provider()
assert not asked, asked
assert "opentelemetry.sdk" not in sys.modules
print("quiet")
"""


def test_pain_33_nothing_leaves_the_machine_unless_it_is_told_to(tmp_path: Path) -> None:
    """Not even where the environment names a collector; and what was said is in no span."""
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OPENAI_API_KEY": "sk-nobody",
        "ANTHROPIC_API_KEY": "sk-nobody",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "quiet\n"), done.stderr


async def test_pain_33_content_is_told_only_where_it_is_asked_for() -> None:
    for content in (False, True):
        collected, store = Collected(), MemoryStorage()
        tracing = Tracing(content=content, exporter=OpenTelemetryExporter(collected.provider))
        provider = ScriptedProvider([calls("pay", euros=5), says("You are in debt.")])
        async with Agent(provider, tools=[pay], storage=store, traces=tracing) as agent:
            await agent.session("s").run("Pay the ransom.")
        told = " ".join(span.to_json() for span in collected.spans) + repr(
            (await store.list_traces("s")).items
        )
        for words in ("ransom", "in debt", "paid 5"):
            assert (words in told) == content
