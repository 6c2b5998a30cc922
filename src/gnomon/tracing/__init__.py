"""Spans of what a session did, made from its ledger; for the store, and for OpenTelemetry."""

from gnomon.tracing.exporter import Exporter, Parent, Tracing
from gnomon.tracing.spans import Placed, Tracer, spans

__all__ = ["Exporter", "Parent", "Placed", "Tracer", "Tracing", "spans"]
