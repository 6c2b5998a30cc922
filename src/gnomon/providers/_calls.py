"""How a tool call ends, for every vendor alike."""

from __future__ import annotations

from secrets import token_hex

import msgspec

from gnomon.types.messages import Meta, ToolCall

__all__ = ["ended_call", "is_complete_json", "made_up_id"]


def made_up_id() -> str:
    """An id for a call that came without one; unique in the conversation, not only in the response."""
    return f"call_{token_hex(12)}"


def ended_call(
    call_id: str, name: str, arguments: str, index: int, *, limited: bool = False, meta: Meta | None = None
) -> ToolCall:
    """The whole call: sound when its arguments are complete JSON, else truncated, whatever label (S5, S16).

    No argument text stands for `{}`, but not where a limit may have cut it off (`limited`).
    """
    if not arguments.strip() and not limited:
        return ToolCall(call_id, name, "{}", index, meta=meta or {})
    truncated = not is_complete_json(arguments)
    return ToolCall(call_id, name, arguments, index, truncated=truncated, meta=meta or {})


def is_complete_json(text: str) -> bool:
    try:
        msgspec.json.decode(text, type=msgspec.Raw)  # its form; a number may be too large for us
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
