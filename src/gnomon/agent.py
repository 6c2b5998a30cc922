"""The front door: names or objects in, an `Agent` out. The only place that wires."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeAlias, cast, overload

import msgspec

from gnomon._parts import (
    OutputMode,
    OwnWorkspace,
    answer_of,
    chain_of,
    compactor_from,
    context_of,
    counter_of,
    from_spec,
    guards_of,
    listed,
    provider_of,
    rules_of,
    skills_of,
    spawning,
    store_of,
    toolbox_of,
    tracing_of,
    workspace_from,
    workspace_of,
)
from gnomon.contracts.compactor import Compactor
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.guardrail import Guardrail
from gnomon.contracts.hook import Hook
from gnomon.contracts.provider import Provider
from gnomon.contracts.sandbox import Sandbox
from gnomon.contracts.session import OnLeave
from gnomon.contracts.storage import Storage
from gnomon.contracts.tool import Tool
from gnomon.engine.accounts import Accounts
from gnomon.engine.budget import Budget
from gnomon.engine.clock import Clock, SystemClock
from gnomon.engine.definition import Definition, OnChange, Permissions
from gnomon.engine.given import check_number, checked_messages, checked_name, of_kind, one_of
from gnomon.engine.history import settled
from gnomon.engine.ids import new_id
from gnomon.engine.instructions import Instructions, Source, check_instructions
from gnomon.engine.journal import Scratch
from gnomon.engine.live import Channel
from gnomon.engine.loop import Loop
from gnomon.engine.permissions import Rule
from gnomon.engine.run import Run
from gnomon.engine.subagents import Subagents, check_names, members
from gnomon.engine.turn import TurnState
from gnomon.errors import ConfigError
from gnomon.facts.catalogue import Catalogue
from gnomon.session._chores import Observing
from gnomon.session._input import as_message, checked_metadata, checked_user_id
from gnomon.session.local import LocalSession
from gnomon.session.runs import Detached, Durable
from gnomon.session.runtime import Runtime
from gnomon.tools.workspace import SupportsWorkspace, Workspace
from gnomon.types.events import MessageReceived, RunEvent
from gnomon.types.messages import Content, Message, Part
from gnomon.types.requests import Reasoning
from gnomon.types.steps import Out, Turn

if TYPE_CHECKING:
    from gnomon.memory import Memory
    from gnomon.tracing.exporter import Tracing

__all__ = ["Agent", "OutputMode", "Prompt", "ToolLike"]

Prompt: TypeAlias = str | Part | Message | Sequence[Content]
"""What an agent is asked: text, an image, a whole message, or several of them in one list."""

ToolLike: TypeAlias = Tool | SupportsWorkspace | Callable[..., object] | str
"""A tool, a plain function, the name of a registered tool, or what becomes one in a workspace."""


class Agent(Generic[Out]):
    """A model with instructions and tools.

    ```python
    agent = Agent("demo", instructions="Be brief.", tools=[weather])
    turn = await agent.run("Will it rain in Rome?")
    print(turn.text)
    ```

    `run` and `stream` begin a new session each; `session(id)` is a conversation that goes on. What
    happens is written to `storage` first: the URL of a store, or a `Storage`. Without one, sessions are
    kept in memory for as long as the agent is, and nothing is kept of a single run.

    `instructions` are a text or a function that gives one for each turn. `output` is the type of
    `Turn.output`: a pydantic model, dataclass, TypedDict, msgspec struct or plain type. `permissions` say
    which calls run and which wait for leave, from `"bypass"` (all run) over `"auto"`, `"accept_edits"` and
    `"ask"` to `"plan"` (what only reads) and `"deny"`; `rules` such as `"deny delete_file"` say it of single
    tools and arguments. Leave is given with `session.approve()`, within `approval_timeout_s` where that is
    given. `on_change` is the rule for an open turn that began under another definition of the agent.

    `workspace` is the folder that built-in tools such as "read_file" work in, or a `Workspace`, which says
    more of it; `sandbox` is where their commands run.

    `subagents` are agents that the model may hand tasks to; one of them is also a tool, by `as_tool()`.
    `hooks` stand around each step, the first outermost; `guardrails` check what goes in and what comes out,
    before it is shown. A `compactor` makes a conversation shorter that has grown over `context_tokens`, or
    over what the model is known to take. `memory` is what it remembers of a user, `skills` are folders of
    instructions that it can look up. `traces` keeps spans of its turns, `audit` who decided and what ran.

    An agent also takes up the sessions of its name that nobody runs; with `adopt=False` it runs what is
    asked of it alone: the turns of messages that are sent here, and what is open where it is told to go on.
    `deps` is handed to the tools, as `ToolContext.deps`; no model sees it. `models` says what is known
    better here than in the facts that come with a release, such as `{"openai:gpt-5": {"input_price": 1.0,
    "output_price": 8.0}}`; `counter` estimates the tokens that a vendor does not report.
    """

    @overload
    def __init__(
        self: Agent[str],
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[ToolLike] = (),
        workspace: Workspace | str | PathLike[str] | None = None,
        sandbox: Sandbox | str | None = None,
        output: None = None,
        output_mode: OutputMode = "auto",
        storage: str | Storage | None = None,
        permissions: Permissions = "bypass",
        rules: Sequence[Rule | str] = (),
        approval_timeout_s: float | None = None,
        budget: Budget | None = None,
        on_change: OnChange = "continue",
        adopt: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
        subagents: Sequence[Agent[object]] = (),
        hooks: Sequence[Hook | str] = (),
        guardrails: Sequence[Guardrail | str] = (),
        compactor: Compactor | str | None = None,
        context_tokens: int | None = None,
        memory: Memory | bool | None = None,
        skills: Sequence[Source | str] = (),
        traces: Tracing | bool | None = None,
        audit: bool = True,
    ) -> None: ...

    @overload
    def __init__(
        self,
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[ToolLike] = (),
        workspace: Workspace | str | PathLike[str] | None = None,
        sandbox: Sandbox | str | None = None,
        output: type[Out],
        output_mode: OutputMode = "auto",
        storage: str | Storage | None = None,
        permissions: Permissions = "bypass",
        rules: Sequence[Rule | str] = (),
        approval_timeout_s: float | None = None,
        budget: Budget | None = None,
        on_change: OnChange = "continue",
        adopt: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
        subagents: Sequence[Agent[object]] = (),
        hooks: Sequence[Hook | str] = (),
        guardrails: Sequence[Guardrail | str] = (),
        compactor: Compactor | str | None = None,
        context_tokens: int | None = None,
        memory: Memory | bool | None = None,
        skills: Sequence[Source | str] = (),
        traces: Tracing | bool | None = None,
        audit: bool = True,
    ) -> None: ...

    def __init__(
        self,
        model: str | Provider,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[ToolLike] = (),
        workspace: Workspace | str | PathLike[str] | None = None,
        sandbox: Sandbox | str | None = None,
        output: type[object] | None = None,
        output_mode: OutputMode = "auto",
        storage: str | Storage | None = None,
        permissions: Permissions = "bypass",
        rules: Sequence[Rule | str] = (),
        approval_timeout_s: float | None = None,
        budget: Budget | None = None,
        on_change: OnChange = "continue",
        adopt: bool = True,
        temperature: float | None = None,
        max_tokens: int | None = None,
        thinking: Reasoning | None = None,
        settings: Mapping[str, object] | None = None,
        models: Mapping[str, Mapping[str, object]] | None = None,
        counter: TokenCounter | str | None = None,
        deps: object = None,
        clock: Clock | None = None,
        subagents: Sequence[Agent[object]] = (),
        hooks: Sequence[Hook | str] = (),
        guardrails: Sequence[Guardrail | str] = (),
        compactor: Compactor | str | None = None,
        context_tokens: int | None = None,
        memory: Memory | bool | None = None,
        skills: Sequence[Source | str] = (),
        traces: Tracing | bool | None = None,
        audit: bool = True,
    ) -> None:
        check_instructions(instructions)
        check_number("temperature", temperature, may_be_zero=True)
        check_number("max_tokens", max_tokens, is_whole=True)
        check_number("approval_timeout_s", approval_timeout_s)
        provider, catalogue = provider_of(model, settings), Catalogue(models)
        answer = answer_of(output, output_mode, provider, catalogue)
        accounts = Accounts(counter_of(counter), catalogue)
        sources = (*self._memory(memory, name), *skills_of(skills))
        known = [tool for source in sources for tool in source.tools()]
        self._workspace = workspace_of(workspace, sandbox)
        self._owns_workspace = self._workspace is not workspace or isinstance(workspace, OwnWorkspace)
        all_tools = (*listed(tools, "tools"), *spawning(_definitions(subagents)), *known)
        toolbox = toolbox_of(all_tools, answer, self._workspace)
        self._observing = Observing(audit, tracing_of(traces))
        self._clock = clock or SystemClock()
        self._store = store_of(storage)
        self._owns_store = isinstance(storage, str)
        self._adopts = adopt
        self._chain = chain_of(hooks)
        self._runtime: Runtime | None = None
        self._definition = Definition(
            name=checked_name(name),
            provider=provider,
            tools=toolbox,
            budget=of_kind("a budget", budget, Budget, "Budget(rounds=10)") or Budget(),
            accounts=accounts,
            instructions=instructions,
            answer=answer,
            permissions=one_of("permissions", permissions, Permissions),
            rules=rules_of(rules, toolbox),
            approval_timeout_s=approval_timeout_s,
            on_change=one_of("on_change", on_change, OnChange),
            temperature=temperature,
            max_tokens=max_tokens,
            thinking=of_kind("thinking", thinking, Reasoning, "Reasoning(effort='low')"),
            deps=deps,
            hooks=self._chain,
            guards=guards_of(guardrails),
            context=context_of(compactor, context_tokens, accounts, catalogue, provider),
            sources=sources,
        )
        check_names(self._definition)

        # A run that may have to wait, for leave or for a sub-agent, is a session that can, be it in memory.
        self._is_durable = storage is not None or self._definition.may_ask or any(members(self._definition))

    def _memory(self, given: object, name: str) -> tuple[Source, ...]:
        """What it remembers: where it keeps its sessions, when nothing else is said."""
        if given is None or given is False:
            return ()
        from gnomon.memory import Memory

        if given is True:
            return (Memory(lambda: self._live().storage(), agent_id=name),)
        if not isinstance(given, Memory):
            raise TypeError(f"memory is a Memory or True, not {type(given).__name__}")
        return (given,)

    @classmethod
    def from_file(
        cls,
        path: str | PathLike[str],
        name: str | None = None,
        *,
        tools: Sequence[ToolLike] = (),
        storage: str | Storage | None = None,
        deps: object = None,
        clock: Clock | None = None,
    ) -> Agent[str]:
        """The agent that a YAML, TOML or JSON file describes; `name` says which, where there are several.

        `tools` are added to those that the file names, `storage` takes the place of the file's.
        """
        return _from_file(Path(path), name, (), tools=tools, storage=storage, deps=deps, clock=clock)

    @property
    def name(self) -> str:
        return self._definition.name

    @property
    def definition(self) -> Definition:
        """What the engine knows of it."""
        return self._definition

    @property
    def provider(self) -> Provider:
        return self._definition.provider

    async def run(
        self,
        prompt: Prompt,
        *,
        messages: Sequence[Message] = (),
        metadata: Mapping[str, object] | None = None,
        user_id: str | None = None,
    ) -> Turn[Out]:
        """The whole turn at once: the stream, read to its end. It is a session of its own."""
        async with self.stream(prompt, messages=messages, metadata=metadata, user_id=user_id) as run:
            async for _ in run:
                pass
            return run.turn

    def stream(
        self,
        prompt: Prompt,
        *,
        messages: Sequence[Message] = (),
        on_leave: OnLeave = "cancel",
        metadata: Mapping[str, object] | None = None,
        user_id: str | None = None,
    ) -> Run[Out]:
        """The turn as it happens. Nothing is asked before the first event is read.

        A reader that leaves before the end cancels the turn; with `on_leave="detach"` it goes on without it.
        `metadata` is kept in the row of the session, and so is `user_id`, which says whose it is.
        """
        message, earlier, kept = as_message(prompt), checked_messages(messages), checked_metadata(metadata)
        user = checked_user_id(user_id) or ""
        if on_leave != "cancel":
            one_of("on_leave", on_leave, OnLeave)
            return self._detached(message, earlier, kept, user)
        if any(members(self._definition)):  # the turn is put aside while they work, and gone on with
            return self._detached(message, earlier, kept, user, is_left=True)
        turn_id, session_id = new_id("turn"), new_id("ses")
        if self._is_durable:
            started = Durable(self._live, session_id, turn_id, message, earlier, kept, user)
            return self._reading(started.events(), started.state, turn_id, session_id)
        journal = Scratch(session_id, settled(earlier) if earlier else (), self._clock, user_id=user)
        loop = Loop(
            self._definition,
            journal,
            owner="",
            clock=self._clock,
            channel=Channel(session_id),
            opening=(MessageReceived(new_id("msg"), message),),
            turns=1,
            turn_id=turn_id,
        )
        return self._reading(loop.events(), lambda: journal.fold.turn, turn_id, "")

    def _reading(
        self,
        events: AsyncGenerator[RunEvent, None],
        state: Callable[[], TurnState | None],
        turn_id: str,
        session_id: str,
    ) -> Run[Out]:
        return Run(events, state, turn_id=turn_id, session_id=session_id, answer=self._definition.answer)

    def _detached(
        self,
        message: Message,
        earlier: Sequence[Message],
        metadata: Mapping[str, object],
        user_id: str,
        *,
        is_left: bool = False,
    ) -> Run[Out]:
        """A run by the runtime. With `is_left` a reader that leaves ends it, and gets its error raised."""
        session_id = new_id("ses")
        started = Detached(
            self._live, session_id, message, earlier, metadata, user_id=user_id, is_left=is_left
        )
        return self._reading(started.events(), started.state, "", session_id)

    def session(
        self,
        session_id: str | None = None,
        *,
        metadata: Mapping[str, object] | None = None,
        user_id: str | None = None,
    ) -> LocalSession[Out]:
        """The conversation of that id; a new one without. It is made by its first message.

        `metadata` is kept in its row then; of one that is there nothing is changed. So is `user_id`, which
        says whose it is: one that is not that user's is neither shown nor written to, with `Conflict`.
        """
        return LocalSession(self._live(), session_id, checked_metadata(metadata), checked_user_id(user_id))

    def as_tool(self, name: str | None = None, description: str | None = None) -> Tool:
        """This agent as a tool of another: each call is a session of its own, with this agent's budget.

        The other one's turn is put aside meanwhile, and holds nothing open. What the work cost counts there,
        and what it needs leave for is asked there. `storage`, where it has one, is not used: the other's is.
        """
        told = description or f"Hands a task to the agent {self.name!r}, and gives what it answers."
        return Subagents([self._definition], name or self.name, told)

    async def serve(self) -> None:
        """Run what is left of this agent's sessions in the store, and what comes, until cancelled."""
        runtime = self._live()
        await runtime.storage()
        runtime.serve()
        await runtime.served()

    def _live(self) -> Runtime:
        """What runs sessions here; anew for an event loop that is another than the last."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                f"a session of the agent {self.name!r} needs a running event loop: "
                "ask for it inside an async function, or use gnomon.sync"
            ) from None
        last = self._runtime
        if last is not None and last.event_loop is loop:
            return last
        if last is not None and not last.event_loop.is_closed():
            raise RuntimeError(
                f"the agent {self.name!r} is used in another event loop: close it there, or make two"
            )
        left = last.left_open if last is not None else None
        self._runtime = Runtime(
            self._definition,
            self._store,
            self._clock,
            owns_store=self._owns_store,
            left=left,
            adopts=self._adopts,
            observing=self._observing,
        )
        return self._runtime

    async def close(self) -> None:
        """Let go of what the agent holds open. What runs stays open in the store. May be called twice."""
        runtime = self._runtime
        if runtime is not None and runtime.event_loop.is_closed():
            runtime = self._live()  # which lets go of what was left open in a loop that is over
        if runtime is not None and runtime.event_loop is asyncio.get_running_loop():
            await runtime.close()
        if self._owns_workspace:
            await self._workspace.close()
        if self._chain is not None:
            await self._chain.close()
        await self.provider.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _from_file(
    path: Path,
    name: str | None,
    above: tuple[str, ...],
    *,
    tools: Sequence[ToolLike] = (),
    storage: str | Storage | None = None,
    deps: object = None,
    clock: Clock | None = None,
) -> Agent[str]:
    """An agent of the file with those that work for it; `above` are those that it works for."""
    from gnomon.agent_files import read_agent

    spec = read_agent(path, name)
    if spec.output_schema is not None:
        raise ConfigError(
            f"{path}: agent {spec.name!r} has an output_schema, which is not used from a file yet",
            hint="give Agent(output=…) a type in code, and leave it out of the file",
        )
    line = (*above, spec.name)
    if spec.name in above:
        raise ConfigError(f"{path}: agents work for one another in a circle: {' → '.join(line)}")
    try:
        return Agent(
            spec.model,
            name=spec.name,
            instructions=spec.instructions,
            tools=(*spec.tools, *tools),
            workspace=workspace_from(spec),
            storage=storage if storage is not None else spec.storage,
            permissions=spec.permissions or "bypass",
            rules=spec.rules,
            approval_timeout_s=spec.approval_timeout_s,
            budget=msgspec.convert(spec.budget, Budget) if spec.budget else None,
            on_change=spec.on_change or "continue",
            temperature=spec.temperature,
            max_tokens=spec.max_tokens,
            thinking=spec.thinking,
            settings=spec.settings or None,
            deps=deps,
            clock=clock,
            subagents=[_from_file(path, each, line, deps=deps, clock=clock) for each in spec.subagents],
            hooks=[cast(Hook, from_spec("hooks", each)) for each in spec.hooks],
            guardrails=[cast(Guardrail, from_spec("guardrails", each)) for each in spec.guardrails],
            compactor=compactor_from(spec.compactor),
            context_tokens=spec.context_tokens,
            memory=spec.memory,
            skills=spec.skills,
        )
    except ConfigError as error:
        if not error.message.startswith(("agent ", f"{path}: ")):  # of one that works for it
            error.message = f"agent {spec.name!r} of {path}: {error.message}"
        raise


def _definitions(given: object) -> list[Definition]:
    """What the engine knows of those that work for an agent."""
    agents = listed(given, "subagents")
    for each in agents:
        if not isinstance(each, Agent):
            raise TypeError(f"a sub-agent is an Agent, not {type(each).__name__}")
    return [cast("Agent[object]", each).definition for each in agents]
