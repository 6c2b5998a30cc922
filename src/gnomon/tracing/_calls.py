"""The span of one call of a tool, and what it waited for."""

from __future__ import annotations

from datetime import datetime

from gnomon.tracing._content import arguments_of, result_of
from gnomon.tracing._open import OpenSpan
from gnomon.types.events import ToolFinished
from gnomon.types.messages import ToolCall

__all__ = ["CallSpan"]

_NO_FAULT = ("ok", "cancelled")


class CallSpan:
    """A call that a message asked for, at `called_at`. Its span begins with the first thing told of it.

    Of one that only reads nothing is told before its result: that one begins when it was asked for.
    """

    def __init__(self, call: ToolCall, called_at: datetime, *, content: bool) -> None:
        self.call = call
        self.called_at = called_at
        self.span: OpenSpan | None = None
        self.runs = 0
        self.waits: list[OpenSpan] = []
        self._content = content

    def begin(self, span_id: str, parent_id: str, at: datetime) -> OpenSpan:
        span = self.span = OpenSpan(span_id, self.call.name, "tool", at, parent_id)
        span.note(call_id=self.call.id)
        span.input = arguments_of(self.call) if self._content else None
        return span

    def finish(self, span: OpenSpan, finished: ToolFinished, at: datetime) -> None:
        result = finished.result
        self.end(span, at, None if result.status in _NO_FAULT else result.status)
        span.note(status=result.status, run_s=finished.duration_s or None)
        span.output = result_of(result) if self._content else None

    def end(self, span: OpenSpan, at: datetime, error: str | None) -> None:
        """The call is over, and so is whatever it waited for."""
        for waiting in self.waits:
            waiting.end(at)
        span.end(at, error)
        waits = ((each.started_at, each.ended_at) for each in self.waits)
        waited = sum((end - start).total_seconds() for start, end in waits if end is not None)
        span.note(runs=self.runs if self.runs > 1 else None, waited_s=waited or None)
