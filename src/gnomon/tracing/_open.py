"""A span while it is being made."""

from __future__ import annotations

from datetime import datetime

from gnomon.types.messages import Meta
from gnomon.types.records import Trace
from gnomon.types.requests import Usage

__all__ = ["OpenSpan", "spent"]


class OpenSpan:
    """Begins when it is made; what becomes known of it is set on it."""

    ended_at: datetime | None = None
    error: str | None = None
    input: object = None
    output: object = None

    def __init__(
        self, span_id: str, name: str, kind: str, started_at: datetime, parent_id: str | None
    ) -> None:
        self.id = span_id
        self.name = name
        self.kind = kind
        self.started_at = started_at
        self.parent_id = parent_id
        self.attributes: Meta = {}

    def end(self, at: datetime, error: str | None = None) -> None:
        """What has ended stays as it is."""
        if self.ended_at is None:
            # The clocks of two machines may differ, but no span ends before it begins.
            self.ended_at = max(at, self.started_at)
            self.error = error

    def note(self, **attributes: object) -> None:
        """What is known of it; what is not is left out."""
        self.attributes |= {name: value for name, value in attributes.items() if value not in (None, "")}

    def trace(self, session_id: str) -> Trace:
        return Trace(
            id=self.id,
            session_id=session_id,
            name=self.name,
            kind=self.kind,
            started_at=self.started_at,
            ended_at=self.ended_at,
            parent_id=self.parent_id,
            input=self.input,
            output=self.output,
            error=self.error,
            attributes=dict(self.attributes),
        )


def spent(usage: Usage, cost: float | None) -> Meta:
    """The tokens by their class, as far as they were reported, and US dollars."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "estimated": usage.estimated or None,
        "cost": cost,
    }
