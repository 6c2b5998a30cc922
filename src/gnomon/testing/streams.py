"""Streams and bytes made by hand."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from random import Random

from gnomon.stream import Stream
from gnomon.types.events import ProviderEvent

__all__ = ["chop", "stream_of"]


def stream_of(events: Iterable[ProviderEvent], *, provider: str = "", model: str = "") -> Stream:
    """A checked stream over ready events. Nothing is added: without a `Finish` it is cut."""
    return Stream(_ready(events), provider=provider, model=model)


async def _ready(events: Iterable[ProviderEvent]) -> AsyncGenerator[ProviderEvent, None]:
    for event in events:
        yield event


def chop(data: bytes, at: Sequence[int] | Random | int) -> list[bytes]:
    """The bytes in pieces, for what must not care how they are split; joined they are `data` again.

    `at` is the offsets of the cuts (one given twice makes an empty piece), the
    length of each piece, or a `random.Random` whose seed decides.
    """
    if isinstance(at, Random):
        return _cut(data, _random_offsets(len(data), at))
    if isinstance(at, int):
        if at < 1:
            raise ValueError(f"a piece has at least one byte; {at} was given")
        return _cut(data, range(at, len(data), at))
    for offset in at:
        if not 0 <= offset <= len(data):
            raise ValueError(f"there is no offset {offset} in {len(data)} bytes")
    return _cut(data, sorted(at))


def _cut(data: bytes, offsets: Sequence[int]) -> list[bytes]:
    ends = [*offsets, len(data)]
    return [data[start:end] for start, end in zip([0, *offsets], ends, strict=True)]


def _random_offsets(length: int, random: Random) -> list[int]:
    """Small steps, which tear tokens apart, among large ones, which leave many together."""
    offsets: list[int] = []
    at = 0
    while True:
        at += random.choice((1, 1, 2, 3, 5, 17, random.randint(1, max(1, length // 4))))
        if at >= length:
            return offsets
        offsets.append(at)
