"""`gnomon db prune` and `delete`: what is to be forgotten."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import cast

import click
import msgspec

from gnomon.cli.meter import Meter
from gnomon.cli.problems import FAILED, printable, report
from gnomon.cli.stores import check_tenants, on_store
from gnomon.contracts.storage import Storage, SupportsRetention
from gnomon.errors import InvalidInput, StorageError
from gnomon.types.records import utc_now
from gnomon.upkeep import age, prune, sweep
from gnomon.upkeep.pruning import KINDS, parse_kinds
from gnomon.upkeep.sweeping import GRACE

__all__ = ["Doomed", "Pruning", "deleted", "pruned"]


class Pruning(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be pruned, as it was typed."""

    older_than: str | None
    kinds: str | None
    blobs: bool
    grace: str | None
    nobody_writes: bool
    tenants: tuple[str, ...] | None

    def check(self) -> None:
        """Before a store is opened."""
        if not parse_kinds(self.kinds or "") and not self.blobs:
            raise InvalidInput("nothing to prune was named", hint=f"--kind {','.join(KINDS)}, or --blobs")
        if self.kinds and not self.older_than:
            raise InvalidInput("how old is not said", hint="--older-than 30d")
        if self.older_than and not self.kinds:
            hint = f"--kind {','.join(KINDS)}; for blobs: --grace 30d"
            raise InvalidInput("what is to be pruned by its age is not said", hint=hint)
        if self.grace and not self.blobs:
            raise InvalidInput("a grace is for blobs", hint="--blobs --grace 24h")
        _ = (self.least_age, self.grace_given)

    @property
    def least_age(self) -> timedelta:
        return age(self.older_than) if self.older_than else timedelta(0)

    @property
    def grace_given(self) -> timedelta:
        return age(self.grace) if self.grace else GRACE


def pruned(url: str, wanted: Pruning, *, quiet: bool) -> int:
    async def work(store: Storage, meter: Meter) -> list[str]:
        await check_tenants(store, wanted.tenants)
        done: list[str] = []
        if wanted.kinds:
            older_than = utc_now() - wanted.least_age
            removed = await prune(store, parse_kinds(wanted.kinds), older_than, tenants=wanted.tenants)
            done += [f"{kind}: {count:,} removed" for kind, count in removed.items()]
        if wanted.blobs:
            swept = await sweep(
                store,
                grace=wanted.grace_given,
                nobody_writes=wanted.nobody_writes,
                tenants=wanted.tenants,
                progress=meter,
            )
            done.append(f"blobs: {swept.removed:,} removed, {swept.named:,} are named by events")
        return done

    for line in on_store(url, work, "pruning", quiet=quiet):
        click.echo(line)
    return 0


# --- delete -------------------------------------------------------------------------


class Doomed(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be deleted, as it was typed."""

    session: str | None
    user: str | None
    tenant: str

    def check(self) -> None:
        if bool(self.session) == bool(self.user):
            raise InvalidInput("delete needs a session or a user", hint="--session ID, or --user ID")

    def __str__(self) -> str:
        what = f"session {self.session!r}" if self.session else f"everything of user {self.user!r}"
        return printable(f"{what} of tenant {self.tenant!r}", 300)


def deleted(url: str, doomed: Doomed, *, sure: bool, quiet: bool) -> int:
    if not sure:
        _confirm(doomed)

    async def work(store: Storage, _: Meter) -> int:
        view = store.scoped(doomed.tenant)
        if not isinstance(view, SupportsRetention):
            raise StorageError("this store cannot delete", hint="it does not offer SupportsRetention")
        if doomed.session:
            return int(await view.delete_session(doomed.session))
        return await view.delete_user(doomed.user or "")

    count = on_store(url, work, "deleting", quiet=quiet)
    if not count:
        report(f"there is no {doomed}".replace("no everything", "nothing"))
        return FAILED
    click.echo(f"deleted {doomed}")
    return 0


def _confirm(doomed: Doomed) -> None:
    if cast("object", sys.stdin) is None or not sys.stdin.isatty():
        raise InvalidInput(f"{doomed} is not deleted without a person's yes", hint="pass --yes to mean it")
    try:
        is_sure = click.confirm(f"Delete {doomed}? It cannot be undone", default=False, err=True)
    except click.Abort:
        raise KeyboardInterrupt from None
    if not is_sure:
        raise InvalidInput("nothing was deleted")
