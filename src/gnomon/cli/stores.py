"""Which store is meant, and work that is done on it: opened, closed, and shown while it takes long."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import click
import msgspec

from gnomon import config, registry
from gnomon.cli.keeping import place
from gnomon.cli.meter import Meter
from gnomon.cli.problems import clean
from gnomon.contracts.storage import Storage, SupportsStatus, SupportsTenants
from gnomon.errors import ConfigError, GnomonError, InvalidInput

__all__ = ["Trouble", "check_tenants", "chosen", "on_store", "opened", "told", "where"]

_T = TypeVar("_T")


def chosen(given: str | None, command: str, *, use_project: bool) -> str:
    """The URL that was typed, else the one of the environment or the config, else of the user's own file."""
    if given is not None:
        return given
    found = place(config.load(use_project=use_project).config, os.environ)
    if found is None or not found.is_there:
        typed = command.replace("URL", "sqlite:///gnomon.db")
        hint = f"gnomon db {typed}; or set GNOMON_STORE, or `store` in the config"
        raise ConfigError("no store was named", hint=hint)
    return found.url


@asynccontextmanager
async def opened(url: str) -> AsyncGenerator[Storage, None]:
    store = registry.storage(url)
    try:
        yield store
    finally:
        await store.close()


async def where(store: Storage, url: str) -> str:
    """The store in words, without a password."""
    from gnomon.storage._url import shown

    return (await store.status()).where if isinstance(store, SupportsStatus) else shown(url)


async def check_tenants(store: Storage, named: Sequence[str] | None) -> None:
    """A name that is mistyped must not look like a tenant that is well, or was saved."""
    if named is None or not isinstance(store, SupportsTenants):
        return
    missing, cursor = dict.fromkeys(named), None
    while missing:
        page = await store.list_tenants(200, cursor=cursor)
        for tenant in page.items:
            missing.pop(tenant, None)
        cursor = page.next
        if cursor is None:
            break
    for tenant in missing:
        raise InvalidInput(f"there is no tenant {tenant!r} in this store", hint="gnomon db status lists them")


def on_store(
    url: str,
    work: Callable[[Storage, Meter], Awaitable[_T]],
    doing: str,
    *,
    quiet: bool,
    waiting_for: str = "the store",
) -> _T:
    """What the work gives; Ctrl-C ends it at once, and the store is closed all the same."""

    async def run() -> _T:
        async with opened(url) as store:
            with Meter(doing, quiet=quiet, waiting_for=waiting_for) as meter:
                return await work(store, meter)

    return asyncio.run(run())


# --- whoever asked for JSON gets JSON ---------------------------------------------


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    code: str
    message: str
    retryable: bool
    hint: str | None = None


class _Failed(msgspec.Struct, frozen=True):
    error: Trouble


def told(work: Callable[[], _T], *, as_json: bool) -> _T:
    """What the work gives; where JSON was asked for, a failure is told in it as well."""
    try:
        return work()
    except GnomonError as error:
        if as_json:
            trouble = Trouble(
                code=error.code,
                message=clean(error.summary),
                retryable=error.retryable,
                hint=clean(error.hint) if error.hint else None,
            )
            click.echo(msgspec.json.encode(_Failed(trouble)).decode())
        raise
