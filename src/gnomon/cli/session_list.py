"""`gnomon sessions`: the rows of a store, the newest first."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Literal, TypeAlias

import click
import msgspec

from gnomon.cli.finding import SHORT, in_store, short
from gnomon.cli.keeping import Place
from gnomon.cli.kept import AGENT, Kept
from gnomon.cli.problems import clean, one_line
from gnomon.cli.screen import Screen
from gnomon.contracts.storage import Storage, SupportsOwners
from gnomon.engine.subagents import CHILD
from gnomon.types.records import SessionRecord, utc_now

__all__ = ["Row", "State", "listed"]

State: TypeAlias = Literal["idle", "running", "waiting", "unfinished", "closed"]
"""`waiting` is for a person's answer; `unfinished` is what nobody runs any more."""

_NARROWEST = 20
_TITLE = 80


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A session as it is listed."""

    id: str
    state: State
    title: str
    agent: str
    created_at: datetime
    updated_at: datetime
    events: int
    cwd: str | None = None
    model: str | None = None


class _Listed(msgspec.Struct, frozen=True):
    sessions: list[Row]
    next: str | None


def listed(place: Place, limit: int, after: str | None, *, as_json: bool, quiet: bool) -> int:
    """Show them; the exit code."""

    async def work(store: Storage) -> _Listed:
        page = await store.list_sessions("", limit, cursor=after)
        return _Listed([await _row(store, row) for row in page.items], page.next)

    found = in_store(place, work) if place.is_there else _Listed([], None)
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    else:
        _show(found, limit, Screen(quiet=quiet))
    return 0


async def _row(store: Storage, row: SessionRecord) -> Row:
    kept = Kept.of(row.metadata)
    return Row(
        id=row.id,
        state=await _state(store, row),
        title=clean(row.title),
        agent=row.agent_id,
        created_at=row.created_at,
        updated_at=row.updated_at,
        events=row.last_seq,
        cwd=kept.cwd or None,
        model=kept.model,
    )


async def _state(store: Storage, row: SessionRecord) -> State:
    """A row says what its last runner knew; whether that one lives is asked."""
    if row.status == "closed":
        return "closed"
    owner = row.metadata.get("owner")
    if isinstance(owner, str):
        is_alive = await store.is_held(owner) if isinstance(store, SupportsOwners) else True
        return "running" if is_alive else "unfinished"
    if row.status == "waiting":
        return "waiting"
    return "unfinished" if row.runnable or row.status != "idle" else "idle"


def _show(found: _Listed, limit: int, screen: Screen) -> None:
    now = utc_now()
    ids = _shortest([row.id for row in found.sessions])
    wide = max(map(len, ids), default=0)
    room = _room(wide + 28)
    for row, shown in zip(found.sessions, ids, strict=True):
        whose = "" if row.agent == AGENT else f"[{one_line(row.agent, 20)}] "
        title = one_line(whose + row.title, room)
        click.echo(f"{shown:<{wide}}  {_age(now, row.updated_at):>10}  {row.state:<10}  {title}".rstrip())
    _hints(found, limit, ids, screen)


def _hints(found: _Listed, limit: int, ids: list[str], screen: Screen) -> None:
    for row, shown in zip(found.sessions, ids, strict=True):
        if row.state in ("unfinished", "waiting") and not row.id.startswith(CHILD):
            screen.note(f"gnomon: gnomon resume {shown} goes on with what is {row.state} there")
            break
    if found.next is not None:
        screen.note(f"gnomon: there are more: gnomon sessions --limit {limit * 5}")
    if not found.sessions:
        screen.note("gnomon: no session is kept yet (gnomon PROMPT begins one)")


def _shortest(ids: list[str]) -> list[str]:
    """The ids, shortened; two that would look alike are whole."""
    heads = [session_id[:SHORT] for session_id in ids]
    return [
        short(session_id) if heads.count(head) == 1 else one_line(session_id, 60)
        for session_id, head in zip(ids, heads, strict=True)
    ]


def _room(taken: int) -> int:
    if not sys.stdout.isatty():
        return _TITLE
    from shutil import get_terminal_size

    return max(_NARROWEST, get_terminal_size().columns - taken)


def _age(now: datetime, then: datetime) -> str:
    seconds = max(0.0, (now - then).total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit} ago"
    return f"{seconds:.0f} s ago"
