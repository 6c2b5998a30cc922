"""The front door: names or objects in, an `Agent` out. The only place that wires."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeAlias, cast, overload

import msgspec

from gnomon import registry
from gnomon.contracts.compactor import Compactor
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.guardrail import Guardrail
from gnomon.contracts.hook import Hook
from gnomon.contracts.provider import Provider
from gnomon.contracts.session import OnLeave
from gnomon.contracts.storage import Storage
from gnomon.contracts.tool import Tool
from gnomon.engine.accounts import Accounts
from gnomon.engine.answer import Answer
from gnomon.engine.budget import Budget
from gnomon.engine.clock import Clock, SystemClock
from gnomon.engine.context import Context
from gnomon.engine.definition import Definition, OnChange, Permissions, Toolbox
from gnomon.engine.given import check_number, checked_messages, checked_name, of_kind, one_of
from gnomon.engine.guards import Guards
from gnomon.engine.history import settled
from gnomon.engine.ids import new_id
from gnomon.engine.instructions import Instructions, Source, check_instructions
from gnomon.engine.journal import Scratch
from gnomon.engine.live import Channel
from gnomon.engine.loop import Loop
from gnomon.engine.permissions import Rule, check_rules
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
from gnomon.tools.function import as_tool
from gnomon.types.events import MessageReceived, RunEvent
from gnomon.types.messages import Content, Message, Part
from gnomon.types.requests import Reasoning
from gnomon.types.steps import Out, Turn

if TYPE_CHECKING:
    from gnomon.agent_files import Made
    from gnomon.hooks.chain import Chain
    from gnomon.memory import Memory
    from gnomon.tracing.exporter import Tracing

__all__ = ["Agent", "OutputMode", "Prompt", "ToolLike"]

OutputMode: TypeAlias = Literal["auto", "native", "tool"]
"""How an output is asked for: as a schema that the vendor holds the model to, or as a tool's arguments."""

Prompt: TypeAlias = str | Part | Message | Sequence[Content]
"""What an agent is asked: text, an image, a whole message, or several of them in one list."""

ToolLike: TypeAlias = Tool | Callable[..., object] | str
"""A tool, a plain function, or the name of a registered tool."""


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
        provider, catalogue = _provider(model, settings), Catalogue(models)
        answer = _answer(output, output_mode, provider, catalogue)
        accounts = Accounts(_counter(counter), catalogue)
        sources = (*self._memory(memory, name), *_skills(skills))
        known = [tool for source in sources for tool in source.tools()]
        toolbox = _toolbox((*_listed(tools, "tools"), *_spawn(subagents), *known), answer)
        self._observing = Observing(audit, _tracing(traces))
        self._clock = clock or SystemClock()
        self._store = _store(storage)
        self._owns_store = isinstance(storage, str)
        self._adopts = adopt
        self._chain = _hook(hooks)
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
            rules=_rules(rules, toolbox),
            approval_timeout_s=approval_timeout_s,
            on_change=one_of("on_change", on_change, OnChange),
            temperature=temperature,
            max_tokens=max_tokens,
            thinking=of_kind("thinking", thinking, Reasoning, "Reasoning(effort='low')"),
            deps=deps,
            hooks=self._chain,
            guards=_guards(guardrails),
            context=_context(compactor, context_tokens, accounts, catalogue, provider),
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
            hooks=[cast(Hook, _from_spec("hooks", each)) for each in spec.hooks],
            guardrails=[cast(Guardrail, _from_spec("guardrails", each)) for each in spec.guardrails],
            compactor=_compactor_from(spec.compactor),
            context_tokens=spec.context_tokens,
            memory=spec.memory,
            skills=spec.skills,
        )
    except ConfigError as error:
        if not error.message.startswith(("agent ", f"{path}: ")):  # of one that works for it
            error.message = f"agent {spec.name!r} of {path}: {error.message}"
        raise


def _from_spec(kind: str, made: Made) -> object:
    """What the registry makes of a name and settings."""
    if not made.settings:
        return _made(kind, made.name)
    try:
        return cast("Callable[..., object]", registry.load(kind, made.name))(**made.settings)
    except (TypeError, ValueError) as error:
        what = registry.KINDS[kind]
        raise ConfigError(f"{what} {made.name!r} cannot be made with these settings: {error}") from None


def _compactor_from(made: Made | None) -> Compactor | str | None:
    if made is None or not made.settings:
        return made.name if made is not None else None
    return cast(Compactor, _from_spec("compactors", made))


def _store(given: object) -> Callable[[], Storage]:
    """What gives the store when it is needed. One that is in memory is the agent's own."""
    if isinstance(given, Storage) and not isinstance(given, type):
        return lambda: given
    if given is None:
        made: list[Storage] = []

        def in_memory() -> Storage:
            if not made:
                made.append(registry.storage("memory://"))
            return made[0]

        return in_memory
    if not isinstance(given, str):
        raise TypeError(
            f"storage is a URL such as 'sqlite:///gnomon.db' or a Storage, not {type(given).__name__}"
        )
    registry.check_storage(given)
    return lambda: registry.storage(given)


def _answer(output: object, mode: OutputMode, provider: Provider, catalogue: Catalogue) -> Answer | None:
    """How the output is asked for: as the vendor can, as far as that is known."""
    one_of("output_mode", mode, OutputMode)
    if output is None or output is str:
        return None
    from gnomon.engine.answer import Answer
    from gnomon.engine.output import OutputType

    if mode == "auto":
        known = catalogue.facts(f"{provider.name}:{provider.model}").structured_output
        mode = "tool" if known is False else "native"
    return Answer(OutputType(output), mode)


def _counter(given: object) -> Callable[[], TokenCounter]:
    """What gives the counter when there is something to count: a name that is wrong is said at once."""
    if given is None:
        return lambda: _made_counter("calibrated")
    if isinstance(given, str):
        registry.load("counters", given)
        return lambda: _made_counter(given)
    if isinstance(given, TokenCounter) and not isinstance(given, type):
        return lambda: given
    raise TypeError(f"a counter is a name such as 'calibrated' or a TokenCounter, not {type(given).__name__}")


def _made_counter(name: str) -> TokenCounter:
    made = cast("Callable[[], object]", registry.load("counters", name))()
    if not isinstance(made, TokenCounter):
        raise ConfigError(f"token counter {name!r} gave {type(made).__name__}, not a TokenCounter")
    return made


def _hook(given: object) -> Chain | None:
    """The hooks as one, which the engine has around each step."""
    hooks = [_made("hooks", each) for each in _listed(given, "hooks")]
    if not hooks:
        return None
    from gnomon.hooks.chain import Chain

    return Chain(cast("Sequence[Hook]", hooks))


def _guards(given: object) -> Guards | None:
    guardrails = [_made("guardrails", each) for each in _listed(given, "guardrails")]
    for each in guardrails:
        if isinstance(each, type) or not isinstance(each, Guardrail):
            raise TypeError(f"a guardrail has a name, positions and a check; {each!r} has not")
    return Guards(cast("Sequence[Guardrail]", guardrails)) if guardrails else None


def _context(
    compactor: object, tokens: int | None, accounts: Accounts, catalogue: Catalogue, provider: Provider
) -> Context | None:
    check_number("context_tokens", tokens, is_whole=True)
    if compactor is None:
        if tokens is not None:
            raise ConfigError("context_tokens need a compactor", hint='such as compactor="truncate"')
        return None
    made = compactor
    if isinstance(compactor, str):
        made = cast("Callable[..., object]", registry.load("compactors", compactor))(counter=accounts.counter)
    if isinstance(made, type) or not isinstance(made, Compactor):
        raise TypeError(f"a compactor is a name such as 'truncate' or a Compactor, not {made!r}")
    window = catalogue.facts(f"{provider.name}:{provider.model}").context_window
    return Context(made, lambda: accounts.counter, limit=tokens, window=window)


def _made(kind: str, given: object) -> object:
    """An object, or what the registry makes of its name."""
    if not isinstance(given, str):
        return given
    make = cast("Callable[[], object]", registry.load(kind, given))
    try:
        return make()
    except TypeError as error:
        what = registry.KINDS[kind]
        raise ConfigError(
            f"{what} {given!r} cannot be made without settings: {error}",
            hint=f"give it as an object: {getattr(make, '__name__', given)}(…)",
        ) from None


def _provider(model: object, settings: object) -> Provider:
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings are a mapping by name, not {type(settings).__name__}")
    if isinstance(model, str):
        return registry.provider(model, cast("Mapping[str, object] | None", settings))
    if isinstance(model, Provider):
        if settings:
            raise ConfigError("settings are for a model given by name; this provider is made already")
        return model
    raise TypeError(f"a model is a string such as 'demo' or a Provider, not {type(model).__name__}")


def _toolbox(tools: object, answer: Answer | None) -> Toolbox:
    made = Toolbox(_tool(item) for item in _listed(tools, "tools"))
    for offered in answer.tools if answer is not None else ():
        if made.get(offered.name) is not None:
            raise ConfigError(
                f"a tool is called {offered.name!r}, which is the name of the tool that takes the output",
                hint="give it another name",
            )
    return made


def _skills(given: object) -> tuple[Source, ...]:
    """Folders with skills, and other things that an agent knows of."""
    made: list[Source] = []
    for each in _listed(given, "skills"):
        if isinstance(each, str):
            from gnomon.skills import Skills

            each = Skills([each])
        if not callable(getattr(each, "tools", None)) or not callable(getattr(each, "instructions", None)):
            raise TypeError(f"skills are folders, Skills or ProjectInstructions, not {type(each).__name__}")
        made.append(cast(Source, each))
    return tuple(made)


def _tracing(given: object) -> Tracing | None:
    if given is None or given is False:
        return None
    from gnomon.tracing.exporter import Tracing

    if given is True:
        return Tracing()
    if not isinstance(given, Tracing):
        raise TypeError(f"traces are True or a Tracing, not {type(given).__name__}")
    return given


def _spawn(given: object) -> tuple[Tool, ...]:
    """The tool with which a model hands out work, where there is somebody to do it."""
    agents = _listed(given, "subagents")
    for each in agents:
        if not isinstance(each, Agent):
            raise TypeError(f"a sub-agent is an Agent, not {type(each).__name__}")
    if not agents:
        return ()
    definitions = [cast("Agent[object]", each).definition for each in agents]
    told = "Hands a task to another agent, and gives its answer. Several calls at once work side by side."
    return (Subagents(definitions, "spawn", told),)


def _rules(given: object, toolbox: Toolbox) -> tuple[Rule, ...]:
    rules = tuple(Rule.parse(each) if isinstance(each, str) else each for each in _listed(given, "rules"))
    for rule in cast("tuple[object, ...]", rules):
        if not isinstance(rule, Rule):
            raise TypeError(
                f"a rule is a text such as 'deny delete_file' or a Rule, not {type(rule).__name__}"
            )
    made = cast("tuple[Rule, ...]", rules)
    check_rules(made, toolbox.definitions)
    return made


def _listed(given: object, what: str) -> Sequence[object]:
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return cast("Sequence[object]", given)
    raise TypeError(f"{what} are given as a list, not as {type(cast(object, given)).__name__}")


def _tool(item: object) -> Tool:
    if isinstance(item, str):
        item = registry.load("tools", item)
    if isinstance(item, Tool) and not isinstance(item, type):
        return item
    if callable(item):
        return as_tool(item)
    raise TypeError(f"a tool is a function, a Tool or a name, not {type(item).__name__}")
