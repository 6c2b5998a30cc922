"""Results that are too long for a model: head and tail are shown, the rest can be read by a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from gnomon.contracts.tool import ToolContext
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.types.messages import Meta, Part, Text, ToolDef, ToolResult

__all__ = ["FULL_CHARS", "READ_OUTPUT", "ReadOutput", "capped"]

READ_OUTPUT = "read_output"

FULL_CHARS = 4_000_000
"""How much of a result is kept at all."""

_PAGE = 20_000


def capped(result: ToolResult, limit: int) -> tuple[ToolResult, str]:
    """The result as a model is shown it, and its whole text where that is more."""
    texts = [part.text for part in result.content if isinstance(part, Text)]
    total = sum(map(len, texts))
    if total <= limit:
        return result, ""
    full = "".join(texts)
    kept = full if total <= FULL_CHARS else f"{full[:FULL_CHARS]}"
    head, tail = full[: limit * 2 // 3], full[total - limit // 3 :] if limit >= 3 else ""
    lost = "" if total <= FULL_CHARS else f"; only the first {FULL_CHARS} characters are kept"
    note = (
        f"\n[… {total - len(head) - len(tail)} of {total} characters left out{lost}; "
        f"{READ_OUTPUT} with call_id {result.call_id!r} and an offset shows them …]\n"
    )
    others: list[Part] = [part for part in result.content if not isinstance(part, Text)]
    shown = (Text(head + note + tail), *others)
    return msgspec.structs.replace(result, content=shown), kept


class _Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    call_id: str
    offset: int = 0
    length: int = _PAGE


class ReadOutput:
    """The tool by which a model reads what was left out of a result."""

    name = READ_OUTPUT
    description = "Read more of the result of an earlier tool call that was too long to be shown whole."
    read_only = True

    def __init__(self, find: Callable[[str], Awaitable[str | None]]) -> None:
        self._find = find

    @property
    def parameters(self) -> Meta:
        return _SCHEMA

    async def execute(self, arguments: str, context: ToolContext) -> ToolResult:
        try:
            asked = msgspec.json.decode(arguments or "{}", type=_Asked)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise InvalidArguments(f"invalid arguments: {_short(str(error))}") from error
        text = await self._find(asked.call_id)
        if text is None:
            raise ToolFailed(f"no result of a call {_short(asked.call_id)!r} was cut")
        start = max(asked.offset, 0)
        length = min(max(asked.length, 1), _PAGE)
        part = text[start : start + length]
        note = f"[characters {start} to {start + len(part)} of {len(text)}]\n"
        return ToolResult(context.call_id, self.name, (Text(note + part),))


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"


_SCHEMA: Meta = {
    "type": "object",
    "properties": {
        "call_id": {"type": "string", "description": "the id that the shortened result names"},
        "offset": {"type": "integer", "default": 0, "description": "the first character to read"},
        "length": {"type": "integer", "default": _PAGE, "description": f"how many, at most {_PAGE}"},
    },
    "required": ["call_id"],
    "additionalProperties": False,
}

READ_OUTPUT_DEF = ToolDef(
    name=READ_OUTPUT, description=ReadOutput.description, schema=_SCHEMA, read_only=True
)
