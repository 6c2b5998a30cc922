"""Output as it comes, from a command that calls back for each piece."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

from gnomon.sandboxes._output import StreamName
from gnomon.types.steps import ExecOutput, ExecResult

__all__ = ["streamed"]

Show = Callable[[StreamName, bytes], None]


async def streamed(
    begin: Callable[[Show], Awaitable[ExecResult]],
) -> AsyncGenerator[ExecOutput | ExecResult, None]:
    """The pieces, then the result. Closing this ends the command.

    What is shown ends at the limit of output, so that what waits for a slow reader is never more than that.
    """
    pieces: asyncio.Queue[ExecOutput | None] = asyncio.Queue()

    def show(stream: StreamName, data: bytes) -> None:
        pieces.put_nowait(ExecOutput(stream=stream, data=data))

    work = asyncio.ensure_future(begin(show))
    work.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
        yield work.result()
    finally:
        work.cancel()
        await asyncio.wait((work,))
        if not work.cancelled():
            work.exception()
