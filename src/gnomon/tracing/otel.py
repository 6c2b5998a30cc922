"""Spans for OpenTelemetry, through its API alone: the application's SDK says where they go.

They are made when a turn is over, with the times and the parents that the ledger gives
them. No span is ever current, so none can be left behind by a stream that is broken off.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from opentelemetry.context import Context
from opentelemetry.trace import (
    SpanKind,
    Status,
    StatusCode,
    Tracer,
    TracerProvider,
    get_tracer_provider,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gnomon.tracing._attributes import attributes_of, name_of
from gnomon.tracing.exporter import Parent
from gnomon.types.records import Trace

__all__ = ["OpenTelemetryExporter"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_W3C = TraceContextTextMapPropagator()


class OpenTelemetryExporter:
    """Hands the spans of a turn to a tracer provider: the one that is given, else the application's own.

    `parent` is a context of OpenTelemetry, or what `here` gave. Without one each turn is a trace of its own.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._provider = tracer_provider

    def here(self) -> Parent:
        """The caller's place in a trace, to be given as `parent` later on; empty where there is none."""
        carrier: dict[str, str] = {}
        _W3C.inject(carrier)
        return carrier

    def export(self, spans: Sequence[Trace], parent: Parent | Context | None = None) -> None:
        """Make them, parents first. What is still open is left out, with all that is below it."""
        above = _context(parent)
        tracer = (self._provider or get_tracer_provider()).get_tracer("gnomon")
        known = {span.id for span in spans}
        below: dict[str | None, list[Trace]] = {}
        for span in spans:
            below.setdefault(span.parent_id if span.parent_id in known else None, []).append(span)
        for root in below.get(None, ()):
            _export(tracer, root, above, below, "")


def _context(parent: Parent | Context | None) -> Context:
    """Never none: without a context, a span would look for its parent in the current one."""
    if isinstance(parent, Context):
        return parent
    carrier: Mapping[str, str] = parent or {}
    return _W3C.extract(dict(carrier), context=Context())


def _export(
    tracer: Tracer, span: Trace, above: Context, below: Mapping[str | None, Sequence[Trace]], agent: str
) -> None:
    agent = span.name if span.kind == "turn" else agent
    if span.ended_at is None:
        return
    made = tracer.start_span(
        name_of(span),
        context=above,
        kind=SpanKind.CLIENT if span.kind == "model" else SpanKind.INTERNAL,
        attributes=attributes_of(span, agent),
        start_time=_nanoseconds(span.started_at),
    )
    if span.error is not None:
        made.set_status(Status(StatusCode.ERROR, span.error))
    within = set_span_in_context(made, above)
    for inner in below.get(span.id, ()):
        _export(tracer, inner, within, below, agent)
    made.end(end_time=_nanoseconds(span.ended_at))


def _nanoseconds(at: datetime) -> int:
    """In whole numbers: a float does not hold the microseconds of today."""
    return (at - _EPOCH) // timedelta(microseconds=1) * 1_000
