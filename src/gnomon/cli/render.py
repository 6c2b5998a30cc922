"""The three ways to show a turn: text for people, one JSON object, or one event a line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Protocol, cast

import msgspec

from gnomon.cli.event_words import kind_of, words
from gnomon.cli.leave import Leave, ask_leave, can_ask
from gnomon.cli.problems import clean, one_line
from gnomon.cli.screen import Screen
from gnomon.config import Output
from gnomon.contracts.provider import Provider
from gnomon.types.codec import encode_event, error_event
from gnomon.types.events import (
    ApprovalRequested,
    AttemptDiscarded,
    Compacted,
    Error,
    Guarded,
    MessageCompleted,
    ModelStarted,
    RunEvent,
    StreamWarning,
    SubagentStarted,
    TextDelta,
    ThinkingDelta,
    ToolCallEnd,
    ToolFinished,
)
from gnomon.types.messages import ToolCall, ToolResult
from gnomon.types.requests import Usage
from gnomon.types.steps import Turn

__all__ = ["Renderer", "renderer"]


class Renderer(Protocol):
    """Shows one turn while it runs."""

    def show(self, event: RunEvent) -> None: ...

    async def leave(self, asked: ApprovalRequested) -> Leave | None:
        """What a person answers to a request for leave; `None` where nobody can be asked."""
        ...

    def finish(self, turn: Turn, provider: Provider) -> None:
        """The turn is over, be it complete or at a limit."""
        ...

    def fail(self, error: BaseException) -> None:
        """The turn ended in an exception, which the caller reports on stderr."""
        ...


def renderer(form: Output, screen: Screen) -> Renderer:
    if form == "json":
        return JSONRenderer()
    return LineRenderer() if form == "stream-json" else TextRenderer(screen)


class TextRenderer:
    """The answer as it comes; thinking, tool calls and the bill beside it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._calls: dict[str, ToolCall] = {}
        self._drawn: list[str] = []  # of the message that is being said
        self._has_thought = False
        self._handlers: dict[type, Callable[..., None]] = {
            ModelStarted: self._model_started,
            TextDelta: self._text,
            ThinkingDelta: self._thinking,
            ToolCallEnd: self._call,
            ToolFinished: self._tool_finished,
            MessageCompleted: self._message_completed,
            StreamWarning: self._warning,
            AttemptDiscarded: self._discarded,
            Guarded: self._noted,
            Compacted: self._noted,
            SubagentStarted: self._noted,
        }

    def show(self, event: RunEvent) -> None:
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    async def leave(self, asked: ApprovalRequested) -> Leave | None:
        return await ask_leave(asked, self._screen) if can_ask() else None

    def finish(self, turn: Turn, provider: Provider) -> None:
        self._screen.end_answer()
        self._screen.note(_bill(turn, provider))

    def fail(self, error: BaseException) -> None:
        self._screen.end_answer()

    # One small function a kind of event.

    def _model_started(self, _: ModelStarted) -> None:
        self._drawn, self._has_thought = [], False

    def _text(self, event: TextDelta) -> None:
        self._drawn.append(event.text)
        self._screen.answer(event.text)

    def _thinking(self, event: ThinkingDelta) -> None:
        self._has_thought = True
        self._screen.thought(event.text)

    def _call(self, event: ToolCallEnd) -> None:
        self._calls[event.call.id] = event.call

    def _tool_finished(self, event: ToolFinished) -> None:
        result = event.result
        call = self._calls.pop(result.call_id, None)  # it may have been made before this was watched
        named = _as_call(call) if call is not None else one_line(result.name, 64)
        self._screen.note(f"{named} → {_as_result(result)}")

    def _message_completed(self, event: MessageCompleted) -> None:
        """Of what another process runs, the deltas may be late or not come at all: the message is whole."""
        drawn, whole = "".join(self._drawn), event.message.text
        if not self._has_thought and event.message.thinking:
            self._screen.thought(event.message.thinking)
        if len(whole) > len(drawn) and whole.startswith(drawn):
            self._screen.answer(whole[len(drawn) :])
        self._drawn, self._has_thought = [], False
        self._calls.update({call.id: call for call in event.message.tool_calls})
        self._screen.end_answer()

    def _warning(self, event: StreamWarning) -> None:
        self._screen.note(f"warning: {one_line(event.message, 300)}")

    def _noted(self, event: Guarded | Compacted | SubagentStarted) -> None:
        self._screen.note(f"{kind_of(event)}: {words(event)}")

    def _discarded(self, event: AttemptDiscarded) -> None:
        self._calls.clear()
        self._drawn = []
        self._screen.take_back_answer()
        self._screen.note(f"forget the answer so far, it starts again: {one_line(event.reason, 200)}")


class JSONRenderer:
    """One object at the end, with everything in it."""

    def __init__(self) -> None:
        self._events: list[msgspec.Raw] = []
        self._warnings: list[str] = []

    def show(self, event: RunEvent) -> None:
        self._events.append(msgspec.Raw(encode_event(event)))
        if type(event) is StreamWarning:
            self._warnings.append(event.message)

    async def leave(self, asked: ApprovalRequested) -> Leave | None:
        """A program answers by itself, with `gnomon approve`."""

    def finish(self, turn: Turn, provider: Provider) -> None:
        _print_json(
            {
                "answer": turn.text,
                "stop": turn.stop,
                "provider": provider.name,
                "model": provider.model,
                "session_id": turn.session_id or None,
                "turn_id": turn.id,
                "rounds": turn.rounds,
                "usage": _usage(turn.usage),
                "cost": turn.cost,
                "messages": turn.messages,
                "warnings": self._warnings,
                "events": self._events,
            }
        )

    def fail(self, error: BaseException) -> None:
        failure = _as_event(error)
        found = {name: getattr(failure, name) for name in ("code", "message", "retryable", "hint")}
        _print_json({"error": found, "warnings": self._warnings, "events": self._events})


class LineRenderer:
    """Each event on a line of its own, as it happens."""

    def show(self, event: RunEvent) -> None:
        _print_line(encode_event(event))

    async def leave(self, asked: ApprovalRequested) -> Leave | None:
        """A program answers by itself, with `gnomon approve`."""

    def finish(self, turn: Turn, provider: Provider) -> None:
        """`TurnFinished` has said it all."""

    def fail(self, error: BaseException) -> None:
        _print_line(encode_event(_as_event(error)))


def _as_event(error: BaseException) -> Error:
    if isinstance(error, KeyboardInterrupt):
        return Error("interrupted", "interrupted")
    event = error_event(error)
    hint = event.hint and clean(event.hint)
    return msgspec.structs.replace(event, message=clean(event.message), hint=hint)


def _print_json(value: object) -> None:
    encoded = msgspec.json.encode(value)
    _print_line(msgspec.json.format(encoded, indent=2) if sys.stdout.isatty() else encoded)


def _print_line(line: bytes) -> None:
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()


def _usage(usage: Usage) -> dict[str, object]:
    """All classes, those that were not reported as null, and their sum."""
    classes = {name: getattr(usage, name) for name in Usage.__struct_fields__}
    return {**classes, "total_tokens": usage.total_tokens}


def _as_call(call: ToolCall) -> str:
    """name(city="Rome", days=2)"""
    try:
        arguments = call.parsed()
    except msgspec.DecodeError:
        arguments = call.arguments
    if isinstance(arguments, dict):
        pairs = cast("dict[str, object]", arguments).items()
        shown = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in pairs)
    else:
        shown = str(arguments)
    return f"{one_line(call.name, 64)}({one_line(shown, 100)})"


def _as_result(result: ToolResult) -> str:
    text = one_line(result.text, 120) or f"{len(result.content)} parts"
    return text if result.status == "ok" else f"{result.status}: {text}"


def _bill(turn: Turn, provider: Provider) -> str:
    """model · tokens · dollars, if known · seconds, and why it stopped when that is not plain."""
    seconds = max((turn.ended_at - turn.started_at).total_seconds(), 0.0)  # a clock may have been put back
    facts = [one_line(f"{provider.name}:{provider.model}", 200), _tokens(turn.usage), f"{seconds:.1f} s"]
    if turn.cost is not None:
        facts.insert(2, _money(turn.cost))
    if turn.stop not in ("end_turn", "stop_sequence"):
        facts.append(f"stopped: {turn.stop}")
    return " · ".join(facts)


def _tokens(usage: Usage) -> str:
    total = usage.total_tokens
    if total is None:
        return "tokens not reported"
    about = "about " if usage.estimated else ""
    return f"{about}{total:,} tokens ({usage.input_tokens or 0:,} in, {usage.output_tokens or 0:,} out)"


def _money(dollars: float) -> str:
    """Two digits that mean something, and never more than six behind the point."""
    return (
        f"${dollars:.2f}"
        if dollars >= 0.1 or not dollars
        else f"${dollars:.4f}"
        if dollars >= 0.001
        else f"${dollars:.6f}"
    )
