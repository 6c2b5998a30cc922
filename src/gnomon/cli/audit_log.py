"""`gnomon audit`: the audit rows of a session, and whether they are what was once written."""

from __future__ import annotations

import click
import msgspec

from gnomon.cli.finding import by_id, in_store
from gnomon.cli.keeping import Place
from gnomon.cli.problems import FAILED, one_line
from gnomon.cli.screen import Screen
from gnomon.contracts.storage import AuditFault, Storage, SupportsAuditCheck
from gnomon.errors import ConfigError, NotFound
from gnomon.types.records import AuditLog

__all__ = ["Audit", "shown"]

_PAGE = 500
_LONGEST = 400
_PLACES = ("seq", "since")
_FAULTS = {
    "edited": "was changed after it was written",
    "removed": "is missing",
    "forked": "does not follow the row before it",
}


class Audit(msgspec.Struct, frozen=True, kw_only=True):
    """The rows, the oldest first. `faults` is `None` where nobody asked for them."""

    session_id: str
    rows: tuple[AuditLog, ...]
    faults: tuple[AuditFault, ...] | None = None


def shown(place: Place, typed: str, *, verify: bool, as_json: bool, quiet: bool) -> int:
    """Show them; the exit code. A chain that does not hold is a failure."""
    if not place.is_there:
        raise NotFound(f"there is no session {typed!r}", hint="gnomon sessions lists them")

    async def work(store: Storage) -> Audit:
        session_id = (await by_id(store, typed)).id
        faults = await _faults(store, session_id) if verify else None
        return Audit(session_id=session_id, rows=await _rows(store, session_id), faults=faults)

    found = in_store(place, work)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        _show(found, Screen(quiet=quiet))
    return FAILED if found.faults else 0


async def _faults(store: Storage, session_id: str) -> tuple[AuditFault, ...]:
    if not isinstance(store, SupportsAuditCheck):
        raise ConfigError("this store cannot say whether its audit rows were changed")
    # Twice: in between, the first rows may have been pruned.
    return await store.verify_audit(session_id) and await store.verify_audit(session_id)


async def _rows(store: Storage, session_id: str) -> tuple[AuditLog, ...]:
    rows: list[AuditLog] = []
    cursor = None
    while True:
        page = await store.list_audit_logs(session_id, _PAGE, cursor=cursor)
        rows += page.items
        cursor = page.next
        if cursor is None:
            return tuple(reversed(rows))


def _show(found: Audit, screen: Screen) -> None:
    for row in found.rows:
        click.echo(_line(row))
    for fault in found.faults or ():
        click.echo(f"row {fault.position} {_FAULTS[fault.reason]}")
    if found.faults is not None:
        count = f"{len(found.rows):,} {'row' if len(found.rows) == 1 else 'rows'}"
        click.echo(f"{count}: the chain {'does not hold' if found.faults else 'holds'}")
    elif not found.rows:
        screen.note("gnomon: nothing in this session was audited")


def _line(row: AuditLog) -> str:
    when = row.created_at.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    who, what = one_line(row.actor, 40), one_line(row.resource, 60)
    known = ((name, value) for name, value in row.detail.items() if name not in _PLACES)
    facts = " ".join(f"{name}={_fact(value)}" for name, value in known)
    head = f"{row.seq:>4}  {when}  {one_line(row.action, 40):<18}  {who:<12}  {what:<16}"
    return f"{head}  {one_line(facts, _LONGEST)}".rstrip()


def _fact(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
