"""The rows of sessions that have come to rest: written a moment later, many at a time.

A row is derived from the ledger. One that still says that its session runs is found
by whoever looks for work, who then sees that there is none; so it may wait, and a
conversation that goes on at once costs no row at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime

from gnomon.engine.fold import Fold
from gnomon.engine.ledger import Ledger
from gnomon.errors import GnomonError, NotFound

__all__ = ["Rows"]

log = logging.getLogger("gnomon.session")

_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 10.0
"""Between two times of writing; the longer, the more often a store could not be written to."""


class Rows:
    def __init__(
        self, has_work: Callable[[Fold], bool], wakes_at: Callable[[Fold], datetime | None] = lambda _: None
    ) -> None:
        self._has_work = has_work
        self._wakes_at = wakes_at
        self._resting: dict[str, Ledger] = {}
        self._task: asyncio.Task[None] | None = None
        self._writing: dict[str, asyncio.Future[bool]] = {}

    def settle(self, ledger: Ledger) -> None:
        """The session rests: its row is to say so."""
        self._resting[ledger.session_id] = ledger
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._write_soon())

    async def forget(self, ledger: Ledger) -> None:
        """It runs again, or is about to; from here on nothing is written that says it rests."""
        self._resting.pop(ledger.session_id, None)
        writing = self._writing.get(ledger.session_id)
        if writing is not None:
            await asyncio.wait((writing,))
            self._resting.pop(ledger.session_id, None)

    async def _write_soon(self) -> None:
        pause_s = _PAUSE_S
        try:
            while self._resting:
                await asyncio.sleep(pause_s)
                pause_s = _PAUSE_S if await self.write() else min(2 * pause_s, _LONGEST_PAUSE_S)
        except asyncio.CancelledError:  # the loop ends, and nobody has closed the agent
            await self.write()
            raise

    async def write(self) -> bool:
        """Write what is to be written now. `False`: some could not be, and is to be written yet."""
        resting, self._resting = self._resting, {}
        tasks = {key: asyncio.ensure_future(self._project(ledger)) for key, ledger in resting.items()}
        self._writing |= tasks
        try:
            return all(await asyncio.gather(*tasks.values()))
        finally:
            for key, task in tasks.items():
                if self._writing.get(key) is task:
                    del self._writing[key]

    async def _project(self, ledger: Ledger) -> bool:
        fold = ledger.fold
        if fold.owner is not None:  # it was claimed in the meantime
            return True
        try:
            status = "waiting" if fold.open_turn is not None else "idle"
            await ledger.project(status, runnable=self._has_work(fold), wake_at=self._wakes_at(fold))
        except GnomonError as error:
            log.warning("the row of session %s could not be written: %s", ledger.session_id, error)
            if isinstance(error, NotFound):
                return True
            # Nobody else does: by what it says the session is run here, where nobody may look for work.
            self._resting.setdefault(ledger.session_id, ledger)
            return False
        return True

    async def close(self) -> None:
        if self._writing:  # what is broken off would not be written at all
            await asyncio.wait(self._writing.values())
        if self._task is not None and not self._task.done():
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        await self.write()
