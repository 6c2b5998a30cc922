"""What tests of tracing share: ledgers that are written by hand, a second apart, and spans by their name."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from gnomon.tracing import Placed
from gnomon.types.events import Event, MessageCompleted, ModelStarted, TurnStarted
from gnomon.types.messages import Message, ToolCall
from gnomon.types.records import Trace
from gnomon.types.requests import Response, Spent, Usage

__all__ = ["START", "STARTED", "after", "answered", "asked", "by_kind", "only", "placed", "tree"]

START = datetime(2026, 11, 1, 12, 0, 0, 123456, tzinfo=UTC)
STARTED = TurnStarted("t1", "shop", "openai:gpt-5", "h1", inputs=("u1",))


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def placed(*entries: Event | tuple[float, Event]) -> list[Placed]:
    """The events, one a second unless it is said when they came."""
    timed = [each if isinstance(each, tuple) else (at, each) for at, each in enumerate(entries)]
    return [(seq, entry, after(at)) for seq, (at, entry) in enumerate(timed, 1)]


def asked(message_id: str = "m1", attempt: tuple[int, int] = (1, 1)) -> ModelStarted:
    return ModelStarted("t1", message_id, attempt)


def answered(*content: str | ToolCall, message_id: str = "m1", discarded: tuple[Spent, ...] = ()):
    called = any(isinstance(part, ToolCall) for part in content)
    response = Response(
        message=Message.assistant(*content),
        stop_reason="tool_use" if called else "end_turn",
        id="r1",
        provider="openai",
        model="gpt-5-2026",
        usage=Usage(input_tokens=10, output_tokens=4, cache_read_tokens=30, reasoning_tokens=1),
        discarded=discarded,
    )
    return MessageCompleted("t1", message_id, response, 0.25)


def by_kind(spans: Iterable[Trace], kind: str) -> list[Trace]:
    return [span for span in spans if span.kind == kind]


def only(spans: Iterable[Trace], kind: str) -> Trace:
    (found,) = by_kind(spans, kind)
    return found


def tree(spans: Iterable[Trace]) -> set[tuple[str, str, str | None]]:
    """Each as kind, name, and the kind and name of its parent."""
    known = {span.id: span for span in spans}

    def named(span_id: str | None) -> str | None:
        return None if span_id is None else f"{known[span_id].kind} {known[span_id].name}"

    return {(span.kind, span.name, named(span.parent_id)) for span in known.values()}
