"""Where a conversation may be cut: a call and its result are never parted."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from gnomon.types.messages import Message, ToolCall, ToolResult

__all__ = ["between_exchanges", "between_pairs"]


def between_pairs(messages: Sequence[Message]) -> list[int]:
    """Every place at which a tail may begin without parting a call from its result.

    A result without a call stays with the message before it: a tail must not begin with one.
    """
    steps = [0] * (len(messages) + 1)
    for start, end in _pairs(messages):
        steps[start + 1] += 1  # no cut after the call …
        steps[end + 1] -= 1  # … until the result is through
    inside = list(accumulate(steps))
    return [place for place in range(1, len(messages)) if not inside[place]]


def between_exchanges(messages: Sequence[Message], places: Sequence[int]) -> list[int]:
    """Those of the places before which something has come to its end.

    A tail begins with what a user says, or with an answer to the results of tools; not with the answer
    to a question that is gone, and not between two things that a user said one after the other.
    """
    return [place for place in places if _begins(messages[place], messages[place - 1])]


def _begins(message: Message, before: Message) -> bool:
    if message.role == "assistant":
        return _has_results(before)
    return message.role != before.role


def _has_results(message: Message) -> bool:
    return any(type(part) is ToolResult for part in message.content)


def _pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """The places of each call and of its result. An id may be used again: the latest call has the result."""
    open_calls: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for place, message in enumerate(messages):
        for part in message.content:
            if type(part) is ToolCall:
                open_calls[part.id] = place
            elif type(part) is ToolResult:
                found.append((open_calls.get(part.call_id, max(0, place - 1)), place))
    return found
