"""Which model answers when neither flag, variable nor file names one.

The first of: a provider whose key is in the environment or the config, a model
server on its usual port of this machine, the small local model when it is
installed and no tools were asked for, and the built-in demo.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from gnomon import config, registry

__all__ = ["DEMO", "KEYS", "Choice", "chosen", "discovered", "keyed", "local_is_ready", "settings_for"]

DEMO = "demo"

KEYS = {
    "ANTHROPIC_API_KEY": "anthropic",
    "ANTHROPIC_AUTH_TOKEN": "anthropic",
    "OPENAI_API_KEY": "openai",
    "GEMINI_API_KEY": "gemini",
    "GOOGLE_API_KEY": "gemini",
    "MISTRAL_API_KEY": "mistral",
    "AZURE_OPENAI_API_KEY": "azure",
    "OPENROUTER_API_KEY": "openrouter",
    "GROQ_API_KEY": "groq",
    "TOGETHER_API_KEY": "together",
    "DEEPSEEK_API_KEY": "deepseek",
    "FIREWORKS_API_KEY": "fireworks",
    "PERPLEXITY_API_KEY": "perplexity",
    "XAI_API_KEY": "xai",
    "CEREBRAS_API_KEY": "cerebras",
}
"""Variable → the provider that reads it, under its name in the registry, in the order of preference."""


class Choice(msgspec.Struct, frozen=True):
    """A model, why it was taken, and the settings it needs beside those of the config."""

    model: str
    because: str
    settings: dict[str, object] = {}


def chosen(settings: config.Config, env: Mapping[str, str]) -> Choice:
    """The model for settings that name none."""
    return _by_key(settings, env) or _by_server(settings, env) or _built_in(settings)


def keyed(settings: config.Config, env: Mapping[str, str]) -> dict[str, str]:
    """Each provider of ours that has a key, and where the key is."""
    found = {
        provider: variable for variable, provider in reversed(KEYS.items()) if env.get(variable, "").strip()
    }
    places = {provider: found[provider] for provider in KEYS.values() if provider in found}
    for provider, own in settings.providers.items():
        if own.get("key"):
            places.setdefault(provider, f"[providers.{provider}] of the config")
    if not places:
        return {}
    known = registry.names("providers")  # slow, and only of use to those who have a key
    return {provider: place for provider, place in places.items() if provider in known}


def settings_for(provider: str, settings: config.Config) -> dict[str, object]:
    """What the config sets for a provider; one that falls back on others gets theirs to hand on."""
    own = settings.providers.get(provider, {})
    return {"settings": settings.providers, **own} if provider == "fallback" else own


def discovered(model: str, settings: config.Config, env: Mapping[str, str]) -> Choice:
    """A model that was found on a port of this machine, where it is now."""
    from gnomon.cli.servers import servers

    provider = registry.parse_model(model).provider
    if not settings.providers.get(provider, {}).get("base_url"):
        for server in asyncio.run(servers(env)):
            if server.provider == provider and server.models:
                return Choice(model, "as before", {"base_url": server.base_url})
    return Choice(model, "as before")


def local_is_ready() -> bool:
    """Whether the local model could answer: both its engine and its weights are installed."""
    from gnomon.providers._local_weights import bundled_path, engine_installed

    return engine_installed() and bundled_path() is not None


def _by_key(settings: config.Config, env: Mapping[str, str]) -> Choice | None:
    found = keyed(settings, env)
    offers = [Choice(provider, _key_reason(place)) for provider, place in found.items()]
    # One that has to be told its model comes last, and says so.
    return next(
        (offer for offer in offers if _has_own_model(offer.model, settings)), next(iter(offers), None)
    )


def _key_reason(place: str) -> str:
    return f"{place} is set" if place in KEYS else f"its key is in {place}"


def _has_own_model(provider: str, settings: config.Config) -> bool:
    try:
        return bool(registry.provider(provider, settings_for(provider, settings)).model)
    except Exception:  # noqa: BLE001 - a provider from another package may raise anything
        return True  # whoever asks it is told what is wrong


def _by_server(settings: config.Config, env: Mapping[str, str]) -> Choice | None:
    from gnomon.cli.servers import servers

    answering = [server for server in asyncio.run(servers(env)) if server.models]
    if not answering:
        return None
    known = registry.names("providers")
    for server in answering:
        if server.provider in known and not settings.providers.get(server.provider, {}).get("base_url"):
            model = f"{server.provider}:{server.models[0]}"
            because = f"a {server.usual_name} server answers on port {server.port}"
            return Choice(model, because, {"base_url": server.base_url})
    return None


def _built_in(settings: config.Config) -> Choice:
    if not settings.tools and local_is_ready():
        return Choice("local", "no key and no model server were found, and it is installed here")
    because = "no key and no model server were found; it is built in, and not an AI"
    return Choice(DEMO, because)
