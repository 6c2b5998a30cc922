"""`gnomon traces`: the stored spans of a session as a tree, with what each took and cost."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

import click
import msgspec

from gnomon.cli.finding import by_id, in_store, short
from gnomon.cli.keeping import Place
from gnomon.cli.problems import one_line, report
from gnomon.contracts.storage import Storage
from gnomon.errors import NotFound
from gnomon.session._tracing import rebuild
from gnomon.types.records import Trace

__all__ = ["shown"]

_PAGE = 200
_DEEPEST = 40
"""How far a line is moved in: a tree that somebody else has made may be of any depth."""


class _Kept(msgspec.Struct, frozen=True, kw_only=True):
    session_id: str
    traces: list[Trace]
    rebuilt: int | None = None


def shown(place: Place, typed: str, *, anew: bool, as_json: bool, quiet: bool) -> int:
    """Show the spans; the exit code."""
    if not place.is_there:
        raise NotFound(f"there is no session {typed!r}", hint="gnomon sessions lists them")

    async def work(store: Storage) -> _Kept:
        session_id = (await by_id(store, typed)).id
        rebuilt = await rebuild(store, session_id) if anew else None
        async with aclosing(_traces(store, session_id)) as found:
            traces = [trace async for trace in found]
        return _Kept(session_id=session_id, traces=traces, rebuilt=rebuilt)

    kept = in_store(place, work)
    if as_json:
        click.echo(msgspec.json.encode(kept).decode())
        return 0
    for depth, trace in _in_order(kept.traces):
        click.echo(_line(depth, trace))
    if not kept.traces and not quiet:
        report(f"session {short(kept.session_id)}: no spans are stored (--rebuild makes them)", kind="")
    return 0


async def _traces(store: Storage, session_id: str) -> AsyncGenerator[Trace, None]:
    cursor: str | None = None
    while True:
        page = await store.list_traces(session_id, _PAGE, cursor=cursor)
        for trace in page.items:
            yield trace
        cursor = page.next
        if cursor is None:
            return


def _in_order(traces: Sequence[Trace]) -> Iterator[tuple[int, Trace]]:
    """Each with its depth, below its parent; one whose parent is not there stands by itself."""
    known = {trace.id for trace in traces}
    below: dict[str | None, list[Trace]] = {}
    for trace in traces:
        below.setdefault(trace.parent_id if trace.parent_id in known else None, []).append(trace)
    waiting = [(0, trace) for trace in reversed(below.get(None, []))]
    while waiting:
        depth, trace = waiting.pop()
        yield depth, trace
        waiting += [(depth + 1, inner) for inner in reversed(below.get(trace.id, []))]


def _line(depth: int, trace: Trace) -> str:
    name = one_line(f"{trace.kind} {trace.name}", 80)
    facts = [fact for fact in (_tokens(trace), _money(trace), _outcome(trace)) if fact]
    return f"{_took(trace):>10}  {'  ' * min(depth, _DEEPEST)}{' · '.join([name, *facts])}"


def _took(trace: Trace) -> str:
    if trace.ended_at is None:
        return "open"
    return f"{(trace.ended_at - trace.started_at).total_seconds():.3f} s"


def _tokens(trace: Trace) -> str:
    told = [
        f"{trace.attributes[name]} {shown}"
        for name, shown in (("input_tokens", "in"), ("output_tokens", "out"))
        if isinstance(trace.attributes.get(name), int)
    ]
    return f"{', '.join(told)} tokens" if told else ""


def _money(trace: Trace) -> str:
    cost = trace.attributes.get("cost")
    return f"${cost:.6f}" if isinstance(cost, int | float) and cost else ""


def _outcome(trace: Trace) -> str:
    """Why it failed; else how a call, a wait or a turn ended, where that is not plain."""
    if trace.error is not None:
        return f"error: {one_line(trace.error, 60)}"
    told = trace.attributes.get("decision") or trace.attributes.get("status")
    return one_line(str(told), 60) if told not in (None, "ok", "finished") else ""
