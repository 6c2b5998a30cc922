"""Names → back ends, imported on first use.

A name stands here and nowhere else: lists in the docs are made from this table.
Other packages add theirs as entry points (`gnomon.providers`, `gnomon.storage`,
…); a built-in name always wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from gnomon.contracts.embedder import Embedder
from gnomon.contracts.provider import Provider
from gnomon.contracts.storage import Storage
from gnomon.errors import ConfigError, MissingExtra, UnknownName, scrub

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["KINDS", "ModelName", "embedder", "load", "names", "near", "parse_model", "provider", "storage"]

KINDS: dict[str, str] = {
    "providers": "provider",
    "embedders": "embedder",
    "counters": "token counter",
    "storage": "storage",
    "vector_stores": "vector store",
    "knowledge": "knowledge",
    "guardrails": "guardrail",
    "hooks": "hook",
    "sandboxes": "sandbox",
    "tools": "tool",
    "compactors": "compactor",
    "drivers": "driver",
}
"""Each kind of back end and what one of it is called in a sentence."""

_BUILT_IN: dict[str, dict[str, str]] = {
    "providers": {
        "anthropic": "gnomon.providers.anthropic:AnthropicProvider",
        "azure": "gnomon.providers.azure:AzureProvider",
        "cerebras": "gnomon.providers.compatible:CerebrasProvider",
        "compatible": "gnomon.providers.compatible:CompatibleProvider",
        "deepseek": "gnomon.providers.compatible:DeepSeekProvider",
        "demo": "gnomon.providers.demo:DemoProvider",
        "fallback": "gnomon.providers.fallback:FallbackProvider",
        "fireworks": "gnomon.providers.compatible:FireworksProvider",
        "gemini": "gnomon.providers.gemini:GeminiProvider",
        "groq": "gnomon.providers.compatible:GroqProvider",
        "litellm": "gnomon.providers.compatible:LiteLLMProvider",
        "llamacpp": "gnomon.providers.compatible:LlamaCppProvider",
        "lmstudio": "gnomon.providers.compatible:LMStudioProvider",
        "local": "gnomon.providers.local:LocalProvider",
        "mistral": "gnomon.providers.mistral:MistralProvider",
        "ollama": "gnomon.providers.ollama:OllamaProvider",
        "openai": "gnomon.providers.openai:OpenAIProvider",
        "openrouter": "gnomon.providers.compatible:OpenRouterProvider",
        "perplexity": "gnomon.providers.compatible:PerplexityProvider",
        "scripted": "gnomon.providers.scripted:ScriptedProvider",
        "together": "gnomon.providers.compatible:TogetherProvider",
        "vllm": "gnomon.providers.compatible:VLLMProvider",
        "xai": "gnomon.providers.compatible:XAIProvider",
    },
    "compactors": {
        "summarize": "gnomon.compactors.summarize:SummarizeCompactor",
        "truncate": "gnomon.compactors.truncate:TruncateCompactor",
    },
    "counters": {
        "calibrated": "gnomon.counters.calibrated:CalibratedCounter",
        "estimating": "gnomon.counters.estimating:EstimatingCounter",
    },
    "embedders": {
        "cached": "gnomon.embedders.cached:CachedEmbedder",
        "hashed": "gnomon.embedders.hashed:HashedEmbedder",
        "ollama": "gnomon.embedders.ollama:OllamaEmbedder",
        "openai": "gnomon.embedders.openai:OpenAIEmbedder",
    },
    "guardrails": {
        "blocklist": "gnomon.guardrails.blocklist:BlocklistGuardrail",
        "max_length": "gnomon.guardrails.max_length:MaxLengthGuardrail",
        "pii": "gnomon.guardrails.pii:PIIGuardrail",
        "secrets": "gnomon.guardrails.secrets:SecretsGuardrail",
    },
    "hooks": {
        "cache": "gnomon.hooks.cache:CacheHook",
        "cost": "gnomon.hooks.cost:CostTracker",
        "logging": "gnomon.hooks.logging:LoggingHook",
        "metrics": "gnomon.hooks.metrics:MetricsHook",
        "rate_limit": "gnomon.hooks.rate_limit:RateLimitHook",
        "retry": "gnomon.hooks.retry:RetryHook",
    },
    "sandboxes": {
        "container": "gnomon.sandboxes.container:ContainerSandbox",
        "process": "gnomon.sandboxes.process:ProcessSandbox",
    },
    "storage": {
        "dynamo": "gnomon.storage.dynamo:DynamoStorage",
        "memory": "gnomon.storage.memory:MemoryStorage",
        "mongo": "gnomon.storage.mongo:MongoStorage",
        "postgres": "gnomon.storage.postgres:PostgresStorage",
        "redis": "gnomon.storage.redis:RedisStorage",
        "sqlite": "gnomon.storage.sqlite:SQLiteStorage",
    },
    "tools": {
        "ask_user": "gnomon.tools.ask_user:ask_user",
        "calculate": "gnomon.tools.calculator:calculate",
        "edit_file": "gnomon.tools.edit_file:edit_file",
        "glob": "gnomon.tools.glob:glob",
        "grep": "gnomon.tools.grep:grep",
        "http_get": "gnomon.tools.http_get:http_get",
        "list_dir": "gnomon.tools.list_dir:list_dir",
        "now": "gnomon.tools.clock:now",
        "python": "gnomon.tools.python:python",
        "read_file": "gnomon.tools.read_file:read_file",
        "save_note": "gnomon.tools.notes:save_note",
        "shell": "gnomon.tools.shell:shell",
        "todo": "gnomon.tools.todo:todo",
        "write_file": "gnomon.tools.write_file:write_file",
    },
}

_EXTRAS: dict[tuple[str, str], str] = {("embedders", "hashed"): "knowledge"}
"""The extra that brings a back end's driver, where it is not called like the back end."""


_SCHEMES = {
    "dynamodb": "dynamo",
    "mongodb": "mongo",
    "mongodb+srv": "mongo",
    "postgresql": "postgres",
    "rediss": "redis",
}
"""What the URL of a store begins with, where that is not its name."""


class ModelName(NamedTuple):
    """`provider:model`, taken apart; no model means the provider's own choice."""

    provider: str
    model: str | None


def names(kind: str) -> tuple[str, ...]:
    """Every name of a kind: the built-in ones first, then those of other packages."""
    built_in = _table(kind)
    added = sorted({point.name for point in _entry_points(kind)} - built_in.keys())
    return (*built_in, *added)


def load(kind: str, name: str) -> object:
    """The class or function behind a name."""
    target = _table(kind).get(name)
    if target is not None:
        return _import_built_in(kind, name, target)
    points = [point for point in _entry_points(kind) if point.name == name]
    if not points:
        raise _unknown(kind, name)
    return _import_added(kind, name, points)


def parse_model(text: str) -> ModelName:
    """`openai:gpt-5`, `anthropic/claude-…`, `fallback:a,b` or `demo`; the first separator counts."""
    name = text.strip()
    cut = min((at for at in (name.find(":"), name.find("/")) if at >= 0), default=len(name))
    provider_name, model = name[:cut].strip(), name[cut + 1 :].strip()
    if not provider_name:
        raise ConfigError(f"model {text!r} names no provider", hint="write provider:model, or demo")
    return ModelName(provider_name, model or None)


def provider(text: str, settings: Mapping[str, object] | None = None) -> Provider:
    """The provider that a model string names, made with these settings."""
    kind, chosen = _wanted("providers", text, settings)
    if not issubclass(kind, Provider):
        raise _no_such_class("providers", text, kind, Provider)
    _check_settings("providers", text, kind, chosen)
    return kind(**chosen)


def embedder(text: str, settings: Mapping[str, object] | None = None) -> Embedder:
    """The embedder that `openai:text-embedding-3-small` names, made with these settings.

    `cached:` stands before another: `cached:ollama:embeddinggemma`.
    """
    kind, chosen = _wanted("embedders", text, settings)
    _check_settings("embedders", text, kind, chosen)
    made = kind(**chosen)
    if not isinstance(made, Embedder):  # a protocol with attributes cannot be asked of the class
        raise _no_such_class("embedders", text, kind, Embedder)
    return made


def storage(url: str, settings: Mapping[str, object] | None = None) -> Storage:
    """The store that `sqlite:///gnomon.db`, `postgresql://…` or the like names, made with these settings."""
    name, kind, chosen = _storage(url, settings)
    made = kind(**chosen)
    if not isinstance(made, Storage):
        raise _no_such_class("storage", name, kind, Storage)
    return made


def check_storage(url: str, settings: Mapping[str, object] | None = None) -> None:
    """Whether there is such a store, and can be made; nothing is opened."""
    _storage(url, settings)


def _storage(url: str, settings: Mapping[str, object] | None) -> tuple[str, type[object], dict[str, object]]:
    scheme, separator, _ = url.strip().partition("://")
    if not separator:
        hint = "write sqlite:///gnomon.db, postgresql://…, redis://…, mongodb://…, dynamodb://region/table"
        typed = repr(scrub(url)) if "@" not in url else "what was typed"  # which may hold a password
        raise ConfigError(f"{typed} is not the URL of a store", hint=hint)
    name = _SCHEMES.get(scheme.lower(), scheme.lower())
    kind = load("storage", name)
    if not isinstance(kind, type):
        raise _no_such_class("storage", name, kind, Storage)
    chosen: dict[str, object] = {**(settings or {}), "url": url.strip()}
    _check_settings("storage", name, kind, chosen)
    return name, kind, chosen


def _wanted(
    kind: str, text: str, settings: Mapping[str, object] | None
) -> tuple[type[object], dict[str, object]]:
    """The class behind the name, and what it is to be made with."""
    wanted = parse_model(text)
    found = load(kind, wanted.provider)
    if not isinstance(found, type):
        raise _no_such_class(kind, text, found, Provider if kind == "providers" else Embedder)
    chosen = dict(settings or {})
    if wanted.model is not None:
        chosen["model"] = wanted.model
    return found, chosen


def near(name: str, known: tuple[str, ...]) -> str:
    """A sentence that helps someone who mistyped."""
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=3, cutoff=0.5)
    if close:
        return "did you mean " + " or ".join(repr(match) for match in close) + "?"
    return "known: " + (", ".join(known) or "none")


def _table(kind: str) -> dict[str, str]:
    if kind not in KINDS:
        raise ConfigError(f"no kind of back end is called {kind!r}", hint=near(kind, tuple(KINDS)))
    return _BUILT_IN.get(kind, {})


def _entry_points(kind: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return tuple(entry_points(group=f"gnomon.{kind}"))


def _import_built_in(kind: str, name: str, target: str) -> object:
    module, _, attribute = target.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", "gnomon"):
            raise
        extra = _EXTRAS.get((kind, name), name)
        raise MissingExtra(
            f"{KINDS[kind]} {name!r} needs {missing}", hint=f"install it: pip install 'gnomon[{extra}]'"
        ) from error


def _import_added(kind: str, name: str, points: list[EntryPoint]) -> object:
    values = {point.value for point in points}
    if len(values) > 1:
        offers = " and ".join(sorted(values))
        raise ConfigError(
            f"two packages offer {KINDS[kind]} {name!r}: {offers}", hint="uninstall one of them"
        )
    try:
        return points[0].load()
    except Exception as error:
        cause = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{KINDS[kind]} {name!r} ({points[0].value}) cannot be loaded: {cause}") from error


def _unknown(kind: str, name: str) -> UnknownName:
    return UnknownName(f"there is no {KINDS[kind]} called {name!r}", hint=near(name, names(kind)))


def _no_such_class(kind: str, text: str, found: object, contract: type[object]) -> ConfigError:
    return ConfigError(f"{_title(kind, text)} is {found!r}, not a class of {contract.__name__}")


def _title(kind: str, text: str) -> str:
    return f"{KINDS[kind]} {parse_model(text).provider!r}"


def _check_settings(kind: str, text: str, made: type[object], settings: Mapping[str, object]) -> None:
    from inspect import Parameter, signature

    title = _title(kind, text)
    parameters = signature(made).parameters
    for parameter in parameters.values():
        variadic = parameter.kind in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        if parameter.default is Parameter.empty and not variadic and parameter.name not in settings:
            raise ConfigError(f"{title} needs the setting {parameter.name!r}")
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters.values())
    for setting in settings:
        if setting not in parameters and not open_ended:
            hint = near(setting, tuple(parameters))
            raise ConfigError(f"{title} takes no setting {setting!r}", hint=hint)
    _check_types(title, made, settings)


def _check_types(title: str, made: type[object], settings: Mapping[str, object]) -> None:
    """By the annotations, as far as they are about data; the value itself is not shown, it may be a key."""
    from typing import get_type_hints

    import msgspec

    try:
        hints = get_type_hints(made.__init__)
    except NameError:  # of another package, which imports the type for type checkers only
        return
    for setting in settings.keys() & hints.keys():
        try:
            msgspec.convert(settings[setting], hints[setting])
        except msgspec.ValidationError as error:
            raise ConfigError(f"setting {setting!r} of {title} cannot be used: {error}") from None
        except TypeError:
            continue  # a function or the like, which no file can give
