"""A conversation as text to report on: who said what, which tools were asked, what they gave."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from gnomon.compactors._marks import mark_of, summary_text
from gnomon.compactors._shorten import LEAST_CHARS, shortened
from gnomon.contracts.counter import TokenCounter
from gnomon.types.messages import Audio, File, Image, Message, Part, Text, ToolCall, ToolResult

__all__ = ["TooMuch", "chunks", "entries"]

_SPARE = 0.9
"""Pieces of a text are made a little smaller than they may be: it is not equally dense everywhere."""


class TooMuch(Exception):
    """It does not go into so many chunks, not shortened either."""


def entries(messages: Iterable[Message]) -> Iterator[str]:
    """An entry for each thing that was said, called or given. Thinking is left out: it was not said."""
    for message in messages:
        mark = mark_of(message)
        if mark is None:
            yield from (entry for part in message.content if (entry := _entry(message, part)))
        elif mark.kind == "summary":
            yield f"[earlier summary] {summary_text(message)}"
        else:
            yield f"[{mark.messages} messages before this are not known any more]"


def _entry(message: Message, part: Part) -> str:
    who = f"{message.role} {message.name}" if message.name else message.role
    match part:
        case ToolCall():
            cut = ", cut off" if part.truncated else ""
            return f"[{who} calls {part.name}, id {part.id}{cut}] {part.arguments}"
        case ToolResult():
            given = " ".join(filter(None, map(_shown, part.content))) or "(nothing)"
            return f"[{part.name or 'tool'} gives for id {part.call_id}, {part.status}] {given}"
        case _:
            shown = _shown(part)
            return f"[{who}] {shown}" if shown else ""


def _shown(part: Part) -> str:
    match part:
        case Text():
            return part.text
        case Image() | Audio() | File():
            return _placeholder(part)
        case _:
            return ""


def _placeholder(part: Image | Audio | File) -> str:
    """What was attached, without its content. An address may hold all that it is the address of."""
    name = f" {part.name}" if isinstance(part, File) and part.name else ""
    kind = f", {part.media_type}" if part.media_type else ""
    where = part.url if part.url and len(part.url) <= LEAST_CHARS and not part.url.startswith("data:") else ""
    return f"({type(part).__name__.lower()}{name}{kind}{', ' + where if where else ''})"


def chunks(texts: Sequence[str], room: int, most: int, counter: TokenCounter) -> list[str]:
    """The texts in order, in as many chunks as it takes, each of at most `room` tokens.

    Where that would be more than `most`, the longest of them are shortened first.
    """
    packed = _packed(_pieces(texts, room, counter), room)
    if len(packed) > most:
        packed = _packed(_pieces(_fewer(texts, room * most, counter), room, counter), room)
    if len(packed) > most:
        raise TooMuch
    return packed


def _pieces(texts: Iterable[str], room: int, counter: TokenCounter) -> Iterator[tuple[str, int]]:
    """Each text with its tokens; one that is too long for a chunk comes in pieces."""
    for text in texts:
        size = counter.count_text(text) + 1  # and the line end after it
        if size <= room or len(text) <= 1:
            yield text, size
        else:
            step = max(1, min(len(text) - 1, int(len(text) * room * _SPARE / size)))
            yield from _pieces(_cut(text, step), room, counter)


def _cut(text: str, most: int) -> Iterator[str]:
    """Pieces of at most so many characters, between words where there are any: a name must not be torn."""
    at = 0
    while at < len(text):
        end = at + most
        if end < len(text):
            end = max(text.rfind(space, at + most // 2, end) + 1 for space in " \n") or end
        yield text[at:end]
        at = end


def _packed(pieces: Iterable[tuple[str, int]], room: int) -> list[str]:
    packed: list[list[str]] = []
    free = 0
    for text, size in pieces:
        if size > free:
            packed.append([])
            free = room
        packed[-1].append(text)
        free -= size
    return ["\n".join(texts) for texts in packed]


def _fewer(texts: Sequence[str], tokens: int, counter: TokenCounter) -> list[str]:
    """All of the texts, the longest of them shortened alike, so that they come to about so many tokens."""
    total = sum(map(counter.count_text, texts)) + len(texts)
    chars = sum(map(len, texts))
    wanted = int(chars * tokens * _SPARE / total)
    limits = range(LEAST_CHARS, max(map(len, texts)) + 1)
    at = bisect_right(limits, wanted, key=lambda limit: sum(min(len(text), limit) for text in texts))
    limit = limits[max(0, at - 1)] if limits else LEAST_CHARS
    return [shortened(text, limit) for text in texts]
