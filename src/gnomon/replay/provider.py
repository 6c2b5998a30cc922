"""A model that says again what it said before."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Iterator

from gnomon.contracts.provider import Provider
from gnomon.errors import BadRequest, Damaged
from gnomon.types.events import (
    Done,
    PartEnd,
    ProviderEvent,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageUpdate,
)
from gnomon.types.messages import Part, Text, Thinking, ToolCall
from gnomon.types.requests import Request, Response

__all__ = ["ReplayProvider", "spoken"]

_PIECES = re.compile(r"\s*\S{1,40}\s?|\s+")


class ReplayProvider(Provider):
    """Answers with recorded responses, one a request, in their order; each is streamed part by part.

    No key is needed, and nothing is asked. A request too many is a `BadRequest`.
    """

    def __init__(
        self, responses: Iterable[Response], *, name: str = "replay", model: str = "recorded"
    ) -> None:
        self.name = name
        self.model = model
        self._responses = iter(responses)

    async def events(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        response = next(self._responses, None)
        if response is None:
            raise BadRequest("there is no recorded answer left", vendor=self.name)
        for event in spoken(response):
            yield event
        yield Done(response)


def spoken(response: Response) -> Iterator[ProviderEvent]:
    """The events that a response was made of, as far as its parts tell."""
    content = response.message.content
    for index, part in zip(_indexes(content), content, strict=True):
        yield from _streamed(index, part)
    yield UsageUpdate(response.usage)


def _streamed(index: int, part: Part) -> Iterator[ProviderEvent]:
    if isinstance(part, ToolCall):
        yield ToolCallStart(index, part.id, part.name)
        yield from (ToolCallDelta(index, part.id, piece) for piece in _PIECES.findall(part.arguments))
        yield ToolCallEnd(index, part)
        return
    if isinstance(part, Text):
        yield from (TextDelta(index, piece) for piece in _PIECES.findall(part.text))
    elif isinstance(part, Thinking):
        yield from (ThinkingDelta(index, piece) for piece in _PIECES.findall(part.text))
    yield PartEnd(index, part)


def _indexes(content: tuple[Part, ...]) -> list[int]:
    """A block for each part, in their order: a call knows its own, the others stand between."""
    indexes: list[int] = []
    following = max((part.index for part in content if isinstance(part, ToolCall)), default=0) + len(content)
    for part in reversed(content):
        index = part.index if isinstance(part, ToolCall) else following - 1
        if index >= following:
            raise Damaged(f"block {index} of a recorded message stands behind block {following}")
        indexes.append(index)
        following = index
    return indexes[::-1]
