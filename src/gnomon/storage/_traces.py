"""The rows of spans."""

from __future__ import annotations

import msgspec

from gnomon.contracts.storage import PAGE_SIZE
from gnomon.errors import Conflict
from gnomon.storage._keys import joined, time_key
from gnomon.storage._part import Part
from gnomon.storage._rows import Place, Row, Span
from gnomon.storage._values import checked_name, checked_time, encoded
from gnomon.types.records import Page, Trace

__all__ = ["TraceRows"]

_OPEN, _ENDED = 1, 2


class TraceRows(Part):
    async def insert_trace(self, trace: Trace) -> None:
        """A row's revision says whether the span has ended: an open one alone may be replaced."""
        row = _row(trace)
        await self._enrol()
        for expect in (0, _OPEN):
            if await self._rows.write(self._tenant, row, expect):
                return
        raise Conflict(f"trace {trace.id!r} has ended already")

    async def get_trace(self, trace_id: str) -> Trace | None:
        return await self._get("traces", checked_name("the trace's id", trace_id), Trace)

    async def list_traces(
        self, session_id: str, limit: int = PAGE_SIZE, offset: int = 0, *, cursor: str | None = None
    ) -> Page[Trace]:
        part = checked_name("the session's id", session_id, empty=True)
        span = Span(kind="traces", index="session", part=part)
        return await self._page("list_traces", span, Trace, limit, offset, cursor)


def _row(trace: Trace) -> Row:
    checked_name("the trace's id", trace.id)
    checked_name("the session's id", trace.session_id, empty=True)
    ended = trace.ended_at and checked_time("ended_at", trace.ended_at)
    trace = msgspec.structs.replace(
        trace, started_at=checked_time("started_at", trace.started_at), ended_at=ended
    )
    started = joined(time_key(trace.started_at), trace.id)
    touched = joined(time_key(ended or trace.started_at), trace.id)
    return Row(
        kind="traces",
        id=trace.id,
        revision=_ENDED if ended else _OPEN,
        body=encoded("trace", trace, "input", "output", "attributes"),
        places={"session": Place(trace.session_id, started), "touched": Place("", touched)},
    )
