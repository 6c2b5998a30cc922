"""Looks at the ledgers of the sessions that are run here: others may have written to them.

Whoever writes in this process says so. What another process has written is found by
the next append; for the time of a long answer or a slow tool there is this look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from gnomon.engine.ledger import Ledger
from gnomon.engine.loop import Loop
from gnomon.errors import StorageError

__all__ = ["Lookout"]

_PAUSE_S = 0.25
_EACH_S = 0.004
"""With many sessions the looks are further apart, so that they stay a small part of the work."""


class Lookout:
    def __init__(self, loops: Mapping[str, tuple[Loop, Ledger]]) -> None:
        self._loops = loops
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look for as long as there is something to look at."""
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while self._loops:
            await asyncio.sleep(max(_PAUSE_S, _EACH_S * len(self._loops)))
            for loop, ledger in tuple(self._loops.values()):
                with suppress(StorageError):  # the runner's own next append says so
                    await ledger.refresh()
                    loop.look()

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
