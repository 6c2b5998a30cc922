"""A step as it was, event by event, to be played again."""

from __future__ import annotations

from collections.abc import Generator
from typing import cast

import msgspec

from gnomon.types.codec import decode_event, encode_event
from gnomon.types.events import (
    AttemptDiscarded,
    Done,
    RunEvent,
    StreamWarning,
    ToolCallStart,
    ToolFinished,
    ToolProgress,
    UsageUpdate,
)
from gnomon.types.requests import Response, Usage
from gnomon.types.steps import HookEvent

__all__ = ["CACHED", "Recording", "replayed"]

CACHED = StreamWarning("answered from the cache: the model was not asked, and nothing is paid", "cached")
"""What a replay of a model's answer begins with."""

_NOTHING = Usage(input_tokens=0, output_tokens=0)
_WHOLE = frozenset({"end_turn", "stop_sequence", "tool_use"})
_UNREADABLE = (TypeError, ValueError, RecursionError)
"""Something that JSON cannot hold: an object of a vendor's, half a character, a structure without end."""


class Recording:
    """Takes down a step as it goes by, as lines.

    `is_kept` says whether it may be played again, as far as is known; `is_whole` that it came to its end.
    """

    def __init__(self, *, tool_calls: bool, most_bytes: int) -> None:
        self.is_kept = True
        self.is_whole = False
        self._tool_calls = tool_calls
        self._most_bytes = most_bytes
        self._lines = bytearray()
        self._warnings = bytearray()

    @property
    def lines(self) -> bytes:
        return bytes(self._lines)

    def add(self, event: RunEvent) -> None:
        if not self.is_kept:
            return
        if isinstance(event, AttemptDiscarded):
            self._lines[:] = self._warnings  # what was given up is not played, what was warned of is
            return
        try:
            line = encode_event(_unpaid(event)) + b"\n"
        except _UNREADABLE:
            self._give_up()
            return
        self._lines += line
        if isinstance(event, StreamWarning):
            self._warnings += line
        if not self._may_keep(event) or len(self._lines) > self._most_bytes:
            self._give_up()
        elif isinstance(event, Done | ToolFinished):
            self.is_whole = True

    def _may_keep(self, event: RunEvent) -> bool:
        if isinstance(event, ToolCallStart):
            return self._tool_calls
        if isinstance(event, Done):
            return _is_whole(event.response) and (self._tool_calls or not event.response.tool_calls)
        return not isinstance(event, ToolFinished) or event.result.status == "ok"

    def _give_up(self) -> None:
        self.is_kept = False
        self._lines.clear()


def _is_whole(response: Response) -> bool:
    """Whether it says all that the model had to say, and that is something."""
    return response.stop_reason in _WHOLE and bool(response.message.content)


def _unpaid(event: RunEvent) -> RunEvent:
    """As it is played: what was paid once is not paid again."""
    if isinstance(event, UsageUpdate):
        return UsageUpdate(_NOTHING)
    if isinstance(event, ToolFinished):
        return msgspec.structs.replace(event, duration_s=0.0)
    if not isinstance(event, Done):
        return event
    warnings = (CACHED.message, *event.response.warnings)
    return Done(msgspec.structs.replace(event.response, usage=_NOTHING, warnings=warnings, discarded=()))


def replayed(lines: bytes, event: HookEvent) -> Generator[RunEvent, None, None]:
    """The events, as they belong to this step."""
    if event.kind == "model":
        yield CACHED
    for line in lines.splitlines():
        yield _of_step(cast(RunEvent, decode_event(line)), event)


def _of_step(played: RunEvent, event: HookEvent) -> RunEvent:
    call_id = event.tool_call.id if event.tool_call is not None else ""
    if isinstance(played, ToolProgress):
        return msgspec.structs.replace(played, turn_id=event.turn_id, call_id=call_id)
    if isinstance(played, ToolFinished):
        result = msgspec.structs.replace(played.result, call_id=call_id)
        return msgspec.structs.replace(played, turn_id=event.turn_id, result=result)
    return played
