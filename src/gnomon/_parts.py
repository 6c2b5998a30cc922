"""The parts of an agent: what it was given, as the engine takes it. Names become objects here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from gnomon import registry
from gnomon.contracts.compactor import Compactor
from gnomon.contracts.counter import TokenCounter
from gnomon.contracts.guardrail import Guardrail
from gnomon.contracts.hook import Hook
from gnomon.contracts.provider import Provider
from gnomon.contracts.sandbox import Sandbox
from gnomon.contracts.storage import Storage
from gnomon.contracts.tool import Tool
from gnomon.engine.accounts import Accounts
from gnomon.engine.answer import Answer
from gnomon.engine.context import Context
from gnomon.engine.definition import Definition, Toolbox
from gnomon.engine.given import check_number, one_of
from gnomon.engine.guards import Guards
from gnomon.engine.instructions import Source
from gnomon.engine.permissions import Rule, check_rules
from gnomon.engine.subagents import Subagents
from gnomon.errors import ConfigError
from gnomon.facts.catalogue import Catalogue
from gnomon.tools.workspace import Recipe, Workspace, tool_in

if TYPE_CHECKING:
    from gnomon.agent_files import AgentSpec, Made
    from gnomon.hooks.chain import Chain
    from gnomon.tracing.exporter import Tracing

__all__ = [
    "OutputMode",
    "OwnWorkspace",
    "answer_of",
    "chain_of",
    "compactor_from",
    "context_of",
    "counter_of",
    "from_spec",
    "guards_of",
    "listed",
    "provider_of",
    "rules_of",
    "skills_of",
    "spawning",
    "store_of",
    "toolbox_of",
    "tracing_of",
    "workspace_from",
    "workspace_of",
]

OutputMode: TypeAlias = Literal["auto", "native", "tool"]
"""How an output is asked for: as a schema that the vendor holds the model to, or as a tool's arguments."""


def from_spec(kind: str, made: Made) -> object:
    """What the registry makes of a name and settings."""
    if not made.settings:
        return _made(kind, made.name)
    try:
        return cast("Callable[..., object]", registry.load(kind, made.name))(**made.settings)
    except (TypeError, ValueError) as error:
        what = registry.KINDS[kind]
        raise ConfigError(f"{what} {made.name!r} cannot be made with these settings: {error}") from None


def compactor_from(made: Made | None) -> Compactor | str | None:
    """What a file says of a compactor: its name alone means that it is made for the agent."""
    if made is None or not made.settings:
        return made.name if made is not None else None
    return cast(Compactor, from_spec("compactors", made))


def store_of(given: object) -> Callable[[], Storage]:
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


def answer_of(output: object, mode: OutputMode, provider: Provider, catalogue: Catalogue) -> Answer | None:
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


def counter_of(given: object) -> Callable[[], TokenCounter]:
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


def chain_of(given: object) -> Chain | None:
    """The hooks as one, which the engine has around each step."""
    hooks = [_made("hooks", each) for each in listed(given, "hooks")]
    if not hooks:
        return None
    from gnomon.hooks.chain import Chain

    return Chain(cast("Sequence[Hook]", hooks))


def guards_of(given: object) -> Guards | None:
    """The guardrails as one, by the places that they stand at."""
    guardrails = [_made("guardrails", each) for each in listed(given, "guardrails")]
    for each in guardrails:
        if isinstance(each, type) or not isinstance(each, Guardrail):
            raise TypeError(f"a guardrail has a name, positions and a check; {each!r} has not")
    return Guards(cast("Sequence[Guardrail]", guardrails)) if guardrails else None


def context_of(
    compactor: object, tokens: int | None, accounts: Accounts, catalogue: Catalogue, provider: Provider
) -> Context | None:
    """What makes a conversation shorter, and when."""
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


def provider_of(model: object, settings: object) -> Provider:
    """Whom the agent asks."""
    if settings is not None and not isinstance(settings, Mapping):
        raise TypeError(f"settings are a mapping by name, not {type(settings).__name__}")
    if isinstance(model, str):
        return registry.provider(model, cast("Mapping[str, object] | None", settings))
    if isinstance(model, Provider):
        if settings:
            raise ConfigError("settings are for a model given by name; this provider is made already")
        return model
    raise TypeError(f"a model is a string such as 'demo' or a Provider, not {type(model).__name__}")


def toolbox_of(tools: object, answer: Answer | None, workspace: Workspace) -> Toolbox:
    """The tools by name, none of which may be called as the one that takes the output."""
    made = Toolbox(tool_in(workspace, item) for item in listed(tools, "tools"))
    for offered in answer.tools if answer is not None else ():
        if made.get(offered.name) is not None:
            raise ConfigError(
                f"a tool is called {offered.name!r}, which is the name of the tool that takes the output",
                hint="give it another name",
            )
    return made


class OwnWorkspace(Workspace):
    """One that was made for an agent alone, which closes it."""


def workspace_from(spec: AgentSpec) -> OwnWorkspace | None:
    """What a file says of the place that its agent's tools work in."""
    if spec.workspace is None and spec.sandbox is None:
        return None
    from gnomon.agent_files import WorkspaceSpec

    said = spec.workspace or WorkspaceSpec()
    sandbox = Recipe(spec.sandbox.name, spec.sandbox.settings) if spec.sandbox is not None else None
    return OwnWorkspace(
        said.root,
        read_only=said.read_only,
        hosts=said.hosts,
        secrets=said.secrets,
        sandbox=cast("str | None", sandbox),
    )


def workspace_of(given: object, sandbox: object) -> Workspace:
    """Where built-in tools work. Without a folder there are no file tools."""
    if isinstance(given, Workspace):
        if sandbox is not None:
            raise ConfigError(
                "the workspace has a sandbox of its own", hint="give it as Workspace(sandbox=…)"
            )
        return given
    if given is not None and not isinstance(given, str | PathLike):
        raise TypeError(f"a workspace is a folder or a Workspace, not {type(given).__name__}")
    return Workspace(cast("str | PathLike[str] | None", given), sandbox=cast("Sandbox | str | None", sandbox))


def skills_of(given: object) -> tuple[Source, ...]:
    """Folders with skills, and other things that an agent knows of."""
    made: list[Source] = []
    for each in listed(given, "skills"):
        if isinstance(each, str):
            from gnomon.skills import Skills

            each = Skills([each])
        if not callable(getattr(each, "tools", None)) or not callable(getattr(each, "instructions", None)):
            raise TypeError(f"skills are folders, Skills or ProjectInstructions, not {type(each).__name__}")
        made.append(cast(Source, each))
    return tuple(made)


def tracing_of(given: object) -> Tracing | None:
    """Where spans go; `True` means the store alone."""
    if given is None or given is False:
        return None
    from gnomon.tracing.exporter import Tracing

    if given is True:
        return Tracing()
    if not isinstance(given, Tracing):
        raise TypeError(f"traces are True or a Tracing, not {type(given).__name__}")
    return given


def spawning(members: Sequence[Definition]) -> tuple[Tool, ...]:
    """The tool with which a model hands out work, where there is somebody to do it."""
    told = "Hands a task to another agent, and gives its answer. Several calls at once work side by side."
    return (Subagents(members, "spawn", told),) if members else ()


def rules_of(given: object, toolbox: Toolbox) -> tuple[Rule, ...]:
    """Rules, read and checked against the tools that there are."""
    rules = tuple(Rule.parse(each) if isinstance(each, str) else each for each in listed(given, "rules"))
    for rule in cast("tuple[object, ...]", rules):
        if not isinstance(rule, Rule):
            raise TypeError(
                f"a rule is a text such as 'deny delete_file' or a Rule, not {type(rule).__name__}"
            )
    made = cast("tuple[Rule, ...]", rules)
    check_rules(made, toolbox.definitions, toolbox.touching)
    return made


def listed(given: object, what: str) -> Sequence[object]:
    """What was given as a list; a single text is not one."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes):
        return cast("Sequence[object]", given)
    raise TypeError(f"{what} are given as a list, not as {type(cast(object, given)).__name__}")
