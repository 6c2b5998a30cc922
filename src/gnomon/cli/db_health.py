"""`gnomon db migrate`, `status` and `verify`: how a store is."""

from __future__ import annotations

import click
import msgspec

from gnomon.cli.meter import Meter
from gnomon.cli.problems import FAILED, clean, printable
from gnomon.cli.stores import check_tenants, on_store, told, where
from gnomon.contracts.storage import Storage, SupportsStatus, SupportsTenants
from gnomon.upkeep import DEFAULT_TENANT, Findings, verify

__all__ = ["StatusShown", "TenantCounts", "migrated", "shown_status", "verified"]

_MOST = 1_000
"""A count ends here: it is to be quick on a store of any size."""
_TENANTS = 50


class TenantCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How much a tenant has: a count of `at_most` may be more."""

    name: str
    sessions: int
    memory: int
    at_most: int = _MOST


class StatusShown(msgspec.Struct, frozen=True, kw_only=True):
    where: str
    is_ready: bool
    schema_found: int | None = None
    schema_known: int | None = None
    notes: tuple[str, ...] = ()
    tenants: tuple[TenantCounts, ...] = ()
    more_tenants: bool = False


# --- migrate ------------------------------------------------------------------------


def migrated(url: str, *, quiet: bool) -> int:
    async def work(store: Storage, _: Meter) -> str:
        before = await _status(store, url)
        await store.migrate()
        after = await _status(store, url)
        if after.schema_found is None:
            return f"{after.where} has the tables it needs"
        if before.schema_found == after.schema_found:
            return f"{after.where} has schema {after.schema_found} already"
        had = f"it had {before.schema_found}" if before.schema_found else "it had no tables"
        return f"{after.where} has schema {after.schema_found} now; {had}"

    click.echo(printable(on_store(url, work, "making its tables", quiet=quiet), 1_000))
    return 0


async def _status(store: Storage, url: str) -> StatusShown:
    if not isinstance(store, SupportsStatus):
        return StatusShown(where=await where(store, url), is_ready=True)
    found = await store.status()
    return StatusShown(
        where=found.where,
        is_ready=found.schema_found == found.schema_known,
        schema_found=found.schema_found,
        schema_known=found.schema_known,
        notes=found.notes,
    )


# --- status -------------------------------------------------------------------------


def shown_status(url: str, *, as_json: bool, quiet: bool) -> int:
    async def work(store: Storage, _: Meter) -> StatusShown:
        found = await _status(store, url)
        return await _with_counts(store, found) if found.is_ready else found

    found = told(lambda: on_store(url, work, "asking how it is", quiet=quiet), as_json=as_json)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        click.echo(_status_text(found))
    return 0 if found.is_ready else FAILED


async def _with_counts(store: Storage, found: StatusShown) -> StatusShown:
    names, more = (DEFAULT_TENANT,), False
    if isinstance(store, SupportsTenants):
        page = await store.list_tenants(_TENANTS)
        names, more = page.items, page.next is not None
    counts = [await _counts(store.scoped(name), name) for name in names]
    return msgspec.structs.replace(found, tenants=tuple(counts), more_tenants=more)


async def _counts(view: Storage, name: str) -> TenantCounts:
    sessions = await view.list_sessions(limit=_MOST)
    memory = await view.list_memory(limit=_MOST)
    return TenantCounts(name=name, sessions=len(sessions.items), memory=len(memory.items))


def _status_text(found: StatusShown) -> str:
    lines = [("schema", _schema_line(found)), *(("durability", note) for note in found.notes)]
    for tenant in found.tenants:
        counts = f"{_bounded(tenant.sessions)} sessions, {_bounded(tenant.memory)} memory records"
        lines.append((f"tenant {tenant.name}", counts))
    if found.is_ready and not found.tenants:
        lines.append(("tenants", "none: nothing was stored yet"))
    if found.more_tenants:
        lines.append(("more tenants", "not counted here"))
    width = min(24, max(len(name) for name, _ in lines))
    shown = [f"  {printable(name, 60):<{width}}  {printable(text, 400)}" for name, text in lines]
    return "\n".join((printable(clean(found.where), 400), *shown))


def _schema_line(found: StatusShown) -> str:
    if found.schema_found is None:
        return "not told by this store"
    if found.schema_found == 0:
        return "no tables yet (gnomon db migrate)"
    if found.is_ready:
        return f"{found.schema_found}, as this gnomon knows it"
    what = "upgrade gnomon" if found.schema_found > (found.schema_known or 0) else "gnomon db migrate"
    return f"{found.schema_found}, and this gnomon knows {found.schema_known} ({what})"


def _bounded(count: int) -> str:
    return f"{count:,}+" if count >= _MOST else f"{count:,}"


# --- verify -------------------------------------------------------------------------


def verified(url: str, *, tenants: tuple[str, ...] | None, as_json: bool, quiet: bool) -> int:
    async def work(store: Storage, meter: Meter) -> Findings:
        await check_tenants(store, tenants)
        return await verify(store, tenants=tenants, progress=meter)

    found = told(lambda: on_store(url, work, "looking", quiet=quiet), as_json=as_json)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        for line in _finding_lines(found):
            click.echo(line)
    return 0 if found.is_sound else FAILED


def _finding_lines(found: Findings) -> list[str]:
    lines = [
        printable(
            f"tenant {finding.tenant!r}, "
            + (f"session {finding.session_id!r}" if finding.session_id else "no session")
            + f": {finding.message}",
            400,
        )
        for finding in found.found
    ]
    looked = f"{found.sessions:,} sessions with {found.events:,} events of {found.tenants:,} tenants"
    count = len(found.found) + found.more
    wrong = (
        "nothing is wrong" if not count else f"{count:,} {'thing is' if count == 1 else 'things are'} wrong"
    )
    return [*lines, f"{looked}: {wrong}"]
