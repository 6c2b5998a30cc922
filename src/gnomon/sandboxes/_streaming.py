"""Output as it comes, from a command that calls back for each piece."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable

from gnomon.sandboxes._output import StreamName
from gnomon.types.steps import ExecOutput, ExecResult

__all__ = ["streamed"]

Show = Callable[[StreamName, bytes], None]

_PIECE = 65_536


class _Waiting:
    """What was written and not taken yet. Small pieces are joined: a million of one byte each would take
    a hundred times what they hold.
    """

    def __init__(self, withheld: bytes) -> None:
        self._pieces: deque[tuple[StreamName, bytearray]] = deque()
        self._more = asyncio.Event()
        self._withheld = withheld
        self._held = bytearray()
        """The beginning of the stream of errors, while it is that of what may not be the command's."""

    def add(self, stream: StreamName, data: bytes) -> None:
        if stream == "stderr" and self._withheld:
            self._held += data
            if self._withheld.startswith(bytes(self._held[: len(self._withheld)])):
                return
            self.let_go()
        else:
            self._put(stream, data)

    def let_go(self) -> None:
        """What was held is the command's."""
        self._withheld = b""
        if self._held:
            self._put("stderr", self._held)
            self._held = bytearray()

    def _put(self, stream: StreamName, data: bytes | bytearray) -> None:
        if self._pieces and self._pieces[-1][0] == stream and len(self._pieces[-1][1]) < _PIECE:
            self._pieces[-1][1].extend(data)
        else:
            self._pieces.append((stream, bytearray(data)))
        self._more.set()

    def wake(self) -> None:
        self._more.set()

    async def come(self) -> None:
        await self._more.wait()
        self._more.clear()

    def take(self) -> ExecOutput | None:
        if not self._pieces:
            return None
        stream, data = self._pieces.popleft()
        return ExecOutput(stream=stream, data=bytes(data))


async def streamed(
    begin: Callable[[Show], Awaitable[ExecResult]], *, withheld: bytes = b""
) -> AsyncGenerator[ExecOutput | ExecResult, None]:
    """The pieces, then the result. Closing this ends the command.

    What is shown ends at the limit of output, so that what waits for a slow reader is never more than that.
    Errors that begin with `withheld` are shown at the end, if the result has them too: until then they may be
    words of what holds the command.
    """
    waiting = _Waiting(withheld)
    work = asyncio.ensure_future(begin(waiting.add))
    work.add_done_callback(lambda _: waiting.wake())
    try:
        while not work.done():
            await waiting.come()
            while (piece := waiting.take()) is not None:
                yield piece
        result = work.result()
        if result.stderr:
            waiting.let_go()
        while (piece := waiting.take()) is not None:
            yield piece
        yield result
    finally:
        work.cancel()
        await asyncio.wait((work,))
        if not work.cancelled():
            work.exception()
