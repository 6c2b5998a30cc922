"""The models of several providers at once: asked together, shown in order, each failure by itself."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping

import click
import msgspec

from gnomon import config, registry
from gnomon.cli.choice import keyed, local_is_ready
from gnomon.cli.problems import FAILED, clean, printable, report
from gnomon.cli.servers import servers
from gnomon.contracts.provider import SupportsModels
from gnomon.errors import ConfigError, GnomonError, ProviderTimeout

__all__ = ["Failure", "Listed", "listing"]

_LONGEST_NAME = 400
_SLOW_S = 1.0
_LIMIT_S = 30.0

_NONE_READY = (
    "no provider is ready: no key is set, no model server answers and no local model is installed"
    " (name one to see its models: gnomon models demo; see: gnomon doctor)"
)


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a provider did not say what it has."""

    provider: str | None
    code: str
    message: str
    hint: str | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What was found, as `provider:model`, and what failed."""

    models: list[str]
    errors: list[Failure]


def listing(name: str | None, *, as_json: bool, use_project: bool, quiet: bool) -> int:
    """Show the models; the exit code."""
    try:
        settings = config.load(use_project=use_project).config
        provider = registry.parse_model(name).provider if name is not None else None
        found = asyncio.run(_listed(provider, settings, quiet=quiet))
    except GnomonError as error:
        if as_json:  # whoever asked for JSON gets JSON
            click.echo(msgspec.json.encode(Listed(models=[], errors=[_failure(name, error)])).decode())
        raise
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        for model in found.models:
            click.echo(printable(model, _LONGEST_NAME))
        for failure in found.errors:
            hint = f" ({failure.hint})" if failure.hint else ""
            report(f"{failure.message}{hint}", kind=_unless_named(failure))
    if not (found.models or found.errors or quiet):
        report(_NONE_READY if name is None else f"{name} has no models to name", kind="")
    return FAILED if found.errors else 0


def _unless_named(failure: Failure) -> str:
    """Whose failure it is, where the message does not begin with that."""
    prefix = f"{failure.provider}: "
    return "" if failure.message.startswith(prefix) else prefix


async def _listed(name: str | None, settings: config.Config, *, quiet: bool) -> Listed:
    if name is not None:
        named = await _models_of(name, settings.providers.get(name, {}), quiet=quiet)
        return Listed(models=[f"{name}:{model}" for model in named], errors=[])
    asked = await _ready(settings, os.environ)
    answers = await asyncio.gather(
        *(_models_of(provider, own, quiet=quiet) for provider, own in asked.items()), return_exceptions=True
    )
    models: list[str] = []
    errors: list[Failure] = []
    for provider, answer in zip(asked, answers, strict=True):
        if isinstance(answer, BaseException):
            errors.append(_failure(provider, answer))
        else:
            models += [f"{provider}:{model}" for model in answer]
    return Listed(models=models, errors=errors)


async def _ready(settings: config.Config, env: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """The providers that could answer, and their settings."""
    found = {provider: settings.providers.get(provider, {}) for provider in keyed(settings, env)}
    known = registry.names("providers")
    for server in await servers(env):
        if server.models and server.provider in known:
            found.setdefault(
                server.provider, {"base_url": server.base_url} | settings.providers.get(server.provider, {})
            )
    for provider, own in settings.providers.items():
        if own.get("base_url") and provider in known:
            found.setdefault(provider, own)
    if local_is_ready():
        found.setdefault("local", settings.providers.get("local", {}))
    return found


async def _models_of(name: str, settings: Mapping[str, object], *, quiet: bool) -> tuple[str, ...]:
    provider = registry.provider(name, settings)
    if not isinstance(provider, SupportsModels):
        raise ConfigError(f"provider {name!r} cannot say which models it has", hint="see its documentation")
    slow = asyncio.get_running_loop().call_later(_SLOW_S, _say_slow, name, quiet)
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await provider.list_models()
    except TimeoutError as error:
        raise ProviderTimeout(f"no list of models came within {_LIMIT_S:g} s", vendor=name) from error
    finally:
        slow.cancel()
        await provider.close()


def _say_slow(name: str, quiet: bool) -> None:
    if not quiet:
        sys.stderr.write(f"gnomon: waiting for {name}\n")
        sys.stderr.flush()


def _failure(provider: str | None, error: BaseException) -> Failure:
    if not isinstance(error, Exception):
        raise error  # an interruption is nobody's failure
    if isinstance(error, GnomonError):
        hint = clean(error.hint) if error.hint else None
        return Failure(provider=provider, code=error.code, message=clean(error.summary), hint=hint)
    message = clean(f"{type(error).__name__}: {error}")
    return Failure(provider=provider, code="internal", message=message)
