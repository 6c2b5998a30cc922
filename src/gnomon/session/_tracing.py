"""The spans of a session, from its ledger into its store, and to whoever collects them.

A span is written once: its id comes from the ledger, and one that has ended is not
replaced. The turn's own is written last, and only who wrote it exports the turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import msgspec

from gnomon._payload import blobs_named, unpacked
from gnomon._threads import run_in_thread
from gnomon.contracts.storage import Storage, SupportsBlobs, read_events
from gnomon.errors import Conflict, Damaged, scrub
from gnomon.tracing.exporter import Parent, Tracing
from gnomon.tracing.spans import Placed, Tracer
from gnomon.types.records import LedgerEvent, Trace

__all__ = ["rebuild", "write_traces"]

log = logging.getLogger("gnomon.session")

_LIMIT_S = 30.0
_TOGETHER = 32
"""How many spans are written at a time: a store may put them into one commit."""
_PAGE = 200
_MOST = 10_000
"""Spans of sub-agents that are exported with a turn."""


async def write_traces(
    storage: Storage,
    session_id: str,
    turn_id: str,
    tracing: Tracing,
    *,
    after_seq: int = 0,
    parent: Parent | None = None,
) -> None:
    """Store the spans of a turn that has ended, and export them when that is wanted.

    The ledger is read from `after_seq` on. Nothing that fails here reaches the caller: it is logged.
    """
    try:
        async with asyncio.timeout(_LIMIT_S):
            found = await _turn(storage, session_id, turn_id, tracing.content, after_seq)
            if await _written(storage, found):
                await _export(storage, found, tracing, parent)
    except Exception as error:  # noqa: BLE001 - a turn is never lost for what is told of it
        log.warning(
            "the spans of turn %s were not written: %s", turn_id, scrub(f"{type(error).__name__}: {error}")
        )


async def rebuild(storage: Storage, session_id: str, tracing: Tracing | None = None) -> int:
    """Store the spans of the whole ledger that are not there, or not ended; how many that were.

    Turns that nobody had written are exported too, when that is wanted.
    """
    tracing = tracing or Tracing()
    before = {trace.id async for trace in _stored(storage, session_id) if trace.ended_at is not None}
    tracer, count = Tracer(session_id, content=tracing.content), 0
    async with aclosing(_read(storage, session_id, 0, content=tracing.content)) as reads:
        async for seq, entry, at in reads:
            made = tracer.take(seq, entry, at)
            count += sum(trace.id not in before for trace in made)
            if made and made[0].id not in before and await _written(storage, made):
                await _export(storage, made, tracing, None)
    rest = tracer.rest()
    await _written(storage, rest)
    return count + sum(trace.id not in before for trace in rest)


# --- reading


async def _turn(
    storage: Storage, session_id: str, turn_id: str, content: bool, after_seq: int
) -> tuple[Trace, ...]:
    """The spans of that turn, its own first."""
    tracer = Tracer(session_id, content=content)
    async with aclosing(_read(storage, session_id, after_seq, content=content)) as reads:
        async for seq, entry, at in reads:
            made = tracer.take(seq, entry, at)
            if made and made[0].attributes.get("turn_id") == turn_id:
                return made
    rest = tracer.rest()
    return rest if rest and rest[0].attributes.get("turn_id") == turn_id else ()


async def _read(
    storage: Storage, session_id: str, after_seq: int, *, content: bool
) -> AsyncGenerator[Placed, None]:
    async with read_events(storage, session_id, after_seq=after_seq, page_size=_PAGE) as events:
        async for event in events:
            try:
                yield event.seq, unpacked(event, await _blobs(storage, event, content)), event.created_at
            except Damaged as error:  # `verify` tells of it; the other spans are made all the same
                log.warning("no span is made of %s", error)


async def _blobs(storage: Storage, event: LedgerEvent, content: bool) -> dict[str, bytes]:
    """What the event keeps elsewhere: long texts and media, which only `content` shows."""
    named = blobs_named(event)
    if not content or not isinstance(storage, SupportsBlobs):
        return dict.fromkeys(named, b"")
    found = [(digest, await storage.get_blob(digest)) for digest in named]
    return {digest: blob for digest, blob in found if blob is not None}


async def _stored(storage: Storage, session_id: str) -> AsyncGenerator[Trace, None]:
    cursor: str | None = None
    while True:
        page = await storage.list_traces(session_id, _PAGE, cursor=cursor)
        for trace in page.items:
            yield trace
        cursor = page.next
        if cursor is None:
            return


# --- writing


async def _written(storage: Storage, traces: Sequence[Trace]) -> bool:
    """Store them, the first last; whether it was this call that stored the first, ended."""
    if not traces:
        return False
    root, inner = traces[0], traces[1:]
    for start in range(0, len(inner), _TOGETHER):
        await _gathered(storage, inner[start : start + _TOGETHER])
    return await _insert(storage, root) and root.ended_at is not None


async def _gathered(storage: Storage, traces: Sequence[Trace]) -> None:
    """All of them are waited for, also when one fails: nothing is left behind."""
    done = await asyncio.gather(*(_insert(storage, trace) for trace in traces), return_exceptions=True)
    for failure in done:
        if isinstance(failure, BaseException):
            raise failure


async def _insert(storage: Storage, trace: Trace) -> bool:
    try:
        await storage.insert_trace(trace)
    except Conflict:  # it has ended, and stands
        return False
    return True


# --- exporting


async def _export(storage: Storage, traces: Sequence[Trace], tracing: Tracing, parent: Parent | None) -> None:
    """In a thread: an exporter may wait for the network."""
    if tracing.exporter is not None:
        whole = await _with_subagents(storage, traces)
        exporter = tracing.exporter
        try:
            # A thread of our own: one that hangs is given up, and keeps nobody from ending.
            await run_in_thread(lambda: exporter.export(whole, parent), name="export")
        except Exception as error:  # noqa: BLE001 - it is named here, and nobody else is to know
            log.warning("%s failed: %s", type(exporter).__name__, scrub(f"{type(error).__name__}: {error}"))
        except asyncio.CancelledError:
            log.warning("%s did not end in time, and was given up", type(exporter).__name__)
            raise


async def _with_subagents(storage: Storage, traces: Sequence[Trace]) -> list[Trace]:
    """With what sub-agents did, below the spans that started them: one turn is one trace."""
    whole = list(traces)
    for trace in whole:  # which grows meanwhile: sub-agents have sub-agents
        session_id = trace.attributes.get("subagent_session_id")
        if trace.kind != "subagent" or not isinstance(session_id, str):
            continue
        async with aclosing(_stored(storage, session_id)) as inner:
            async for each in inner:
                if len(whole) < _MOST and _is_within(each, trace):
                    whole.append(_below(each, trace))
    return whole


def _is_within(inner: Trace, outer: Trace) -> bool:
    """A sub-agent that is asked again goes on in the same session."""
    return inner.started_at >= outer.started_at and (
        outer.ended_at is None or inner.started_at <= outer.ended_at
    )


def _below(inner: Trace, outer: Trace) -> Trace:
    return msgspec.structs.replace(inner, parent_id=outer.id) if inner.parent_id is None else inner
