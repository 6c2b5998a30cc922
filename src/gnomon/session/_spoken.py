"""What a reader was shown of a message while it was being said, and what is missing when it is whole.

A reader follows the ledger. Of a message that was said faster than that, or in a process
that is hard to hear, deltas are missing: whoever reads a turn alone gets them from the message.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gnomon.types.events import (
    AttemptDiscarded,
    ModelStarted,
    PartEnd,
    RunEvent,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from gnomon.types.messages import Message, Part, Text, Thinking, ToolCall

__all__ = ["Spoken"]


class Spoken:
    def __init__(self) -> None:
        self._blocks: dict[int, list[str]] = {}
        self._ended: set[int] = set()
        self._texts: set[int] = set()

    def take(self, event: RunEvent) -> None:
        """What was shown."""
        match event:
            case TextDelta(index=index, text=text) | ThinkingDelta(index=index, text=text):
                self._blocks.setdefault(index, []).append(text)
                if isinstance(event, TextDelta):
                    self._texts.add(index)
            case ToolCallDelta(index=index, arguments=text):
                self._blocks.setdefault(index, []).append(text)
            case ToolCallStart(index=index):
                self._blocks[index] = []
            case ToolCallEnd(index=index) | PartEnd(index=index):
                self._blocks.setdefault(index, [])
                self._ended.add(index)
            case ModelStarted() | AttemptDiscarded():
                self._blocks.clear()
                self._ended.clear()
                self._texts.clear()
            case _:
                pass

    def rest(self, message: Message) -> Iterator[StreamEvent]:
        """What of the message was not shown. Its parts are the blocks, in their order."""
        known = sorted(self._blocks)
        if self._is_cut_short(message):
            said = "".join(self._said(index) for index in known if index in self._texts)
            if rest := _after(said, message.text):
                yield TextDelta(known[-1] + 1, rest)
            return
        last = known[-1] if known else -1
        for at, part in enumerate(message.content):
            if at >= len(known):  # a call knows its block
                last = part.index if isinstance(part, ToolCall) and part.index > last else last + 1
            yield from self._missing(known[at] if at < len(known) else last, part)

    def _is_cut_short(self, message: Message) -> bool:
        """Whether of several blocks the text was kept alone, and all of it is one part."""
        if len(message.content) != 1 or not isinstance(message.content[0], Text):
            return False
        return len(self._blocks) > 1 or bool(self._blocks.keys() - self._texts)

    def _said(self, index: int) -> str:
        return "".join(self._blocks.get(index, ()))

    def _missing(self, index: int, part: Part) -> Iterator[StreamEvent]:
        said = self._said(index)
        match part:
            case Text(text=text) if rest := _after(said, text):
                yield TextDelta(index, rest)
            case Thinking(text=text) if rest := _after(said, text):
                yield ThinkingDelta(index, rest)
            case ToolCall() if index not in self._ended:
                if index not in self._blocks:
                    yield ToolCallStart(index, part.id, part.name)
                if rest := _after(said, part.arguments):
                    yield ToolCallDelta(index, part.id, rest)
                yield ToolCallEnd(index, part if part.index == index else replace(part, index=index))
            case _:
                pass


def _after(said: str, whole: str) -> str:
    """The end that is missing; nothing where something else was said."""
    return whole[len(said) :] if whole.startswith(said) else ""
