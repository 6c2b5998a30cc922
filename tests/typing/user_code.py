"""What a user writes, as a type checker sees it. This file is checked, and never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import assert_type

import msgspec

from gnomon import (
    Agent,
    ApprovalDecided,
    ApprovalRequested,
    Budget,
    Compacted,
    Finish,
    Guarded,
    Guardrail,
    GuardrailResult,
    Hook,
    HookEvent,
    Image,
    LocalSession,
    Message,
    MessageCompleted,
    Provider,
    Reasoning,
    Request,
    Response,
    Rule,
    Run,
    Session,
    Stream,
    StreamFold,
    SubagentFinished,
    SubagentStarted,
    Text,
    TextDelta,
    ThinkingDelta,
    Tool,
    ToolContext,
    ToolFailed,
    ToolFinished,
    ToolIntent,
    ToolResult,
    Turn,
    TurnFinished,
    Usage,
    sync,
    tool,
)
from gnomon.contracts.guardrail import Position
from gnomon.tools.function import FunctionTool
from gnomon.types.events import ProviderEvent, RunEvent, SessionEvent, StreamEvent, TurnStop
from gnomon.types.messages import ToolCall

# --- tools ------------------------------------------------------------------


@tool
def weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city} {days}"


@tool(read_only=True, timeout_s=5)
async def look_up(query: str, *, context: ToolContext) -> list[str]:
    """Look something up."""
    if context.cancelled:
        raise ToolFailed("nobody waits for this any more")
    return [query, context.idempotency_key]


class Shop:
    def take(self, count: int) -> int:
        return count


# The function is kept: its parameters, its result, and that it is async.
assert_type(weather("Rome"), str)
assert_type(weather("Rome", days=2), str)
assert_type(weather.name, str)
assert_type(weather.read_only, bool)
assert_type(weather.parameters, dict[str, object])
assert_type(tool(Shop().take)(3), int)
assert_type(tool(Shop().take)(count=3), int)
assert_type(tool(Shop().take, name="grab")(count=3), int)


async def call_an_async_tool_as_before() -> None:
    assert_type(await look_up("x", context=ToolContext(call_id="c")), list[str])


# What is wrong is seen to be wrong: each of these lines must be an error.
weather()  # pyright: ignore[reportCallIssue] - a city is missing
weather(5)  # pyright: ignore[reportArgumentType] - a city is text
weather("Rome", day=1)  # pyright: ignore[reportCallIssue] - it is called days
tool(name=5)  # pyright: ignore[reportArgumentType] - a name is text
tool(nmae="x")  # pyright: ignore[reportCallIssue] - no such option


def takes_a_tool(given: Tool) -> str:
    return given.name


takes_a_tool(weather)
takes_a_tool(look_up)
takes_a_tool(tool(Shop().take))
takes_a_tool(Shop())  # pyright: ignore[reportArgumentType] - a shop is no tool


class Dice:
    """A tool written by hand."""

    name = "dice"
    description = "Throw dice."
    read_only = True
    timeout_s = 1.0

    @property
    def parameters(self) -> dict[str, object]:
        return {"type": "object", "properties": {}}

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        return ToolResult(context.call_id, self.name, (Text("4"),))


takes_a_tool(Dice())


# --- a provider -------------------------------------------------------------


class Echo(Provider):
    name = "echo"

    def __init__(self, model: str = "echo-1") -> None:
        self.model = model

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        yield TextDelta(0, request.messages[-1].text)
        yield Finish(stop_reason="end_turn", usage=Usage(output_tokens=1))


async def ask_a_provider(provider: Provider) -> None:
    request = Request(messages=(Message.user("hi", Image(url="https://example.org/a.png")),))
    assert_type(await provider.complete(request), Response)
    async with provider.stream(request) as stream:
        assert_type(stream, Stream)
        async for event in stream:
            assert_type(event, StreamEvent)
    assert_type(stream.response, Response)
    assert_type(stream.response.usage.total_tokens, int | None)
    assert_type(stream.response.tool_calls, tuple[ToolCall, ...])


# --- an agent ---------------------------------------------------------------


async def use_an_agent() -> None:
    async with Agent(
        "demo",
        name="guide",
        instructions="Be brief.",
        tools=[weather, look_up, Dice(), Shop().take, "calculate", lambda: 1],
        budget=Budget(rounds=3, tokens=None, seconds=1.5),
        temperature=0,
        max_tokens=100,
        thinking=Reasoning(effort="low"),
        settings={"delay_s": 0},
    ) as agent:
        assert_type(agent, Agent)
        assert_type(agent.provider, Provider)
        turn = await agent.run("hi")
        assert_type(turn, Turn)
        assert_type(turn.text, str)
        assert_type(turn.messages, tuple[Message, ...])
        assert_type(turn.stop, TurnStop)
        await agent.run(["look", Image(url="https://example.org/a.png")], messages=turn.messages)
        await agent.run(Message.user("hi"), messages=[Message.system("be brief"), *turn.messages])
        await agent.run(5)  # pyright: ignore[reportArgumentType] - a number is no prompt
    Agent(Echo(), tools=[5])  # pyright: ignore[reportArgumentType] - a number is no tool
    Agent(5)  # pyright: ignore[reportArgumentType] - a number is no model


async def read_a_stream(agent: Agent) -> str:
    fold = StreamFold()
    async with agent.stream("hi") as run:
        assert_type(run, Run)
        assert_type(run.id, str)
        async for event in run:
            assert_type(event, RunEvent)
            fold.add(event)
            draw(event)
    assert_type(run.turn, Turn)
    assert_type(fold.message, Message)
    async with agent.stream("hi") as run:
        async for piece in run.text():
            assert_type(piece, str)
    return run.turn.text


def draw(event: RunEvent) -> str:
    match event:
        case TextDelta(index, text) | ThinkingDelta(index, text):
            assert_type(index, int)
            return text
        case ToolIntent(name=name, key=key):
            return f"{name} {key}"
        case ToolFinished(result=ToolResult(status="ok") as result):
            assert_type(result, ToolResult)
            return result.text
        case ToolFinished(result=result):
            return result.status
        case MessageCompleted():
            assert_type(event.message, Message)
            return event.message.text
        case TurnFinished(stop=stop, usage=usage):
            assert_type(stop, TurnStop)
            return f"{stop} {usage.total_tokens}"
        case _:
            return ""


# --- without a loop ---------------------------------------------------------


def use_it_without_a_loop() -> None:
    with sync.Agent(Echo(), tools=[weather]) as agent:
        assert_type(agent, sync.Agent)
        turn = agent.run("hi")
        assert_type(turn, Turn)
        with agent.stream("hi", messages=turn.messages) as run:
            assert_type(run, sync.Run)
            for event in run:
                assert_type(event, RunEvent)
                draw(event)
        assert_type(run.turn, Turn)
        with agent.stream("hi") as run:
            for piece in run.text():
                assert_type(piece, str)
    with sync.Stream(Echo().stream(Request(messages=(Message.user("hi"),)))) as stream:
        for event in stream:
            assert_type(event, StreamEvent)
        assert_type(stream.response, Response)


# --- outputs and sessions ---------------------------------------------------


class Invoice(msgspec.Struct):
    total: int


async def ask_for_an_output() -> None:
    agent = Agent(Echo(), output=Invoice)
    assert_type(agent, Agent[Invoice])
    turn = await agent.run("hi")
    assert_type(turn, Turn[Invoice])
    assert_type(turn.output.total, int)
    assert_type((await Agent(Echo()).run("hi")).output, str)
    async with agent.stream("hi", on_leave="detach") as run:
        assert_type(run, Run[Invoice])
        async for partial in run.partials():
            assert_type(partial, object)
    Agent(Echo(), permissions="sometimes")  # type: ignore[reportCallIssue, reportArgumentType]


async def talk_on() -> None:
    async with Agent(Echo(), output=Invoice, storage="memory://") as agent:
        session = agent.session("order-17")
        assert_type(session, LocalSession[Invoice])
        spoken_to: Session = session
        assert_type(await spoken_to.send("hi", when_busy="steer"), str)
        assert_type(await session.run("hi"), Turn[Invoice])
        assert_type((await session.turn_result()).output, Invoice)
        assert_type(await session.fork(at=3), LocalSession[Invoice])
        async with session.events(after=5) as reader:
            async for event in reader:
                assert_type(event, SessionEvent)
            assert_type(reader.position, int)
        await session.cancel("later")  # type: ignore[reportArgumentType]
    assert_type(Agent.from_file("agents.toml"), Agent[str])


def talk_on_without_a_loop() -> None:
    with sync.Agent(Echo(), output=Invoice) as agent:
        assert_type(agent, sync.Agent[Invoice])
        session = agent.session()
        assert_type(session, sync.Session[Invoice])
        assert_type(session.run("hi").output, Invoice)
        assert_type(session.fork(), sync.Session[Invoice])
        with session.events() as reader:
            for event in reader:
                assert_type(event, SessionEvent)
            assert_type(reader.position, int)
        with agent.stream("hi") as run:
            assert_type(run, sync.Run[Invoice])
            assert_type(list(run.partials()), list[object])
    assert_type(sync.Agent.from_file("agents.toml"), sync.Agent[str])
    assert_type(sync.Agent(Echo()).run("hi").output, str)


# --- around the loop ---------------------------------------------------------


class Timed:
    """A hook written by hand."""

    async def before(self, event: HookEvent) -> None:
        event.notes["timed.start"] = event.name

    async def after(self, event: HookEvent) -> None:
        assert_type(event.session_id, str)


class NoNames:
    """A guardrail written by hand."""

    name = "no_names"
    positions = frozenset[Position]({"input", "output"})

    async def check(self, content: str) -> GuardrailResult:
        return GuardrailResult("Ada" not in content, "a name was found", content.replace("Ada", "[name]"))


def stands_around(hook: Hook, guardrail: Guardrail) -> tuple[Hook, Guardrail]:
    return hook, guardrail


async def ask_leave_and_hand_out_work() -> None:
    stands_around(Timed(), NoNames())
    writer = Agent(Echo(), name="writer", output=Invoice)
    async with Agent(
        Echo(),
        tools=[weather, writer.as_tool()],
        subagents=[Agent("demo", name="helper"), Agent(Echo(), name="clerk", output=Invoice)],
        hooks=[Timed(), "logging"],
        guardrails=[NoNames()],
        permissions="ask",
        rules=['allow weather(city="Rome")', Rule("deny", "weather", {"days": 9})],
        approval_timeout_s=60,
        compactor="truncate",
        context_tokens=8_000,
        memory=True,
        skills=["skills"],
        traces=True,
        audit=False,
    ) as agent:
        session = agent.session("order-17")
        for asked in await session.approvals():
            assert_type(asked, ApprovalRequested)
            assert_type(asked.rule, str)
            await session.approve(asked.approval_id, by="ada", arguments_hash=asked.arguments_hash)
        await session.approve(always=True)
        await session.deny(by="ada", reason="too dear")
        assert_type(await session.compact(), Compacted | None)
    Agent(Echo(), rules=[5])  # pyright: ignore[reportArgumentType] - a number is no rule
    Agent(Echo(), subagents=["helper"])  # pyright: ignore[reportArgumentType] - a name is no agent


def draw_what_stands_around(event: SessionEvent) -> str:
    match event:
        case ApprovalRequested(call=call, reason=reason):
            return f"{call.name}: {reason}"
        case ApprovalDecided(decision=decision, by=by):
            return f"{decision} {by}"
        case Guarded(guardrail=name, position=position):
            return f"{name} {position}"
        case Compacted(messages_before=before, messages_after=after):
            return f"{before} {after}"
        case SubagentStarted(name=name):
            return name
        case SubagentFinished(status=status, output=output):
            return f"{status} {output}"
        case _:
            return ""


# --- what is written down ---------------------------------------------------


def spell_out_a_tool(made: FunctionTool[[str, int], str]) -> str:
    return made("Rome", 1)


spell_out_a_tool(tool(lambda city, days: f"{city} {days}"))


# --- instructions of the agent's own dependencies ------------------------------


class Tenant:
    language: str = "en"


async def in_their_language(context: ToolContext[Tenant]) -> str:
    return f"Answer in {context.deps.language}."


def with_any_context(context: ToolContext) -> str:
    return f"This is turn {context.turn_id}."


assert_type(Agent("demo", instructions=in_their_language, deps=Tenant()), Agent[str])
assert_type(Agent("demo", instructions=with_any_context), Agent[str])
