"""A reader of a stream that waits, beside whoever writes."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from gnomon.stream import PullStream
from gnomon.types.records import LedgerEvent

__all__ = ["SOON_S", "Reader"]

SOON_S = 2.0
"""Within this time a watcher must hear of an event."""

_QUIET_S = 0.05


class Reader:
    """Reads as fast as events come, in a task of its own, which also closes the stream."""

    def __init__(self, stream: PullStream[LedgerEvent]) -> None:
        self._stream = stream
        self._came: asyncio.Queue[LedgerEvent | Exception] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._read())
        await asyncio.sleep(_QUIET_S)  # so that it has read what is there, and waits
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def next(self, count: int, limit_s: float = SOON_S) -> list[LedgerEvent]:
        """The next events, which must come soon; the error that the stream ended with is raised."""
        found: list[LedgerEvent] = []
        try:
            async with asyncio.timeout(limit_s):
                while len(found) < count:
                    each = await self._came.get()
                    if isinstance(each, Exception):
                        raise each
                    found.append(each)
        except TimeoutError:
            last = [each.seq for each in found[-1:]]
            raise AssertionError(
                f"{len(found)} of {count} events came within {limit_s} s, last {last}"
            ) from None
        return found

    async def expect_quiet(self, what: str) -> None:
        """Nothing comes."""
        await asyncio.sleep(_QUIET_S)
        if not self._came.empty():
            raise AssertionError(f"{what}: expected nothing to come, found {self._came.get_nowait()!r}")

    async def end(self) -> object:
        """How the stream has ended, which it must soon: `None`, or the error."""
        done, _ = await asyncio.wait({self._task}, timeout=SOON_S)
        if not done:
            raise AssertionError(f"the stream still waits after {SOON_S} s: expected an end")
        return None if self._came.empty() else self._came.get_nowait()

    async def _read(self) -> None:
        try:
            async with self._stream as stream:
                async for each in stream:
                    self._came.put_nowait(each)
        except Exception as error:  # noqa: BLE001 - the check asks which it is
            self._came.put_nowait(error)
