"""Where spans go besides the store, and what is wanted of tracing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from gnomon.errors import MissingExtra, UnknownName
from gnomon.types.records import Trace

__all__ = ["Exporter", "Parent", "Tracing"]

Parent = Mapping[str, str]
"""A place in somebody else's trace, in the words of W3C Trace Context: `traceparent`, `tracestate`."""


@runtime_checkable
class Exporter(Protocol):
    """Hands the spans of a turn that has ended to somebody who collects them.

    Experimental.

    - `here` must give the caller's place in a trace, as it is now, or nothing; it
      can be stored, and used in another process.
    - `export` is given whole turns. A span may come before its parent; one whose parent
      is not among them must go below `parent`, and must begin a trace where there is none.
    - it must not look for a parent in the context it is called in, and may be
      called in any thread.
    """

    def here(self) -> Parent: ...

    def export(self, spans: Sequence[Trace], parent: Parent | None = None) -> None: ...


class Tracing:
    """What an agent is to keep and to tell of its turns.

    Spans go to the store. With an `exporter`, an object or the name of one such as "otel", they also go
    there, and nowhere unless it is given. What was said is part of them only with `content`.
    """

    def __init__(self, *, content: bool = False, exporter: Exporter | str | None = None) -> None:
        self.content = content
        self.exporter = _made(exporter) if isinstance(exporter, str) else exporter


def _made(name: str) -> Exporter:
    if name != "otel":
        hint = "there is 'otel'; any other is given as an object with here() and export()"
        raise UnknownName(f"no exporter is called {name!r}", hint=hint)
    try:
        from gnomon.tracing.otel import OpenTelemetryExporter
    except ModuleNotFoundError as error:
        hint = "install it: pip install 'gnomon[otel]'"
        raise MissingExtra("exporter 'otel' needs opentelemetry-api", hint=hint) from error
    return OpenTelemetryExporter()
