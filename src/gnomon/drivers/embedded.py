"""The driver that needs nothing: wakes and timers in this process, and a look at the store now and then.

It remembers nothing that counts. What a session is about is in its ledger; a wake
that is lost with the process is found again by the look at the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import TypeAlias

from gnomon.contracts.driver import Outcome, RunSegment, Yield
from gnomon.errors import GnomonError
from gnomon.types.records import SessionRecord

__all__ = ["EmbeddedDriver", "Look"]

log = logging.getLogger("gnomon.driver")

Look: TypeAlias = Callable[[], Awaitable[list[tuple[str, SessionRecord]]]]
"""What to look for: the sessions of each tenant that have something to do, and that nobody runs."""

LOOK_S = 10.0
_REMEMBERED = 10_000
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 30.0

_Key: TypeAlias = tuple[str, str]


async def _nothing() -> list[tuple[str, SessionRecord]]:
    return []


class EmbeddedDriver:
    """Wakes sessions in this process."""

    def __init__(self, look: Look = _nothing, *, look_s: float = LOOK_S) -> None:
        self._look = look
        self._look_s = look_s
        self._due: dict[_Key, None] = {}
        self._again: set[_Key] = set()
        self._running: dict[_Key, asyncio.Task[None]] = {}
        self._timers: dict[tuple[str, str, int], asyncio.TimerHandle] = {}
        self._later: dict[tuple[str, str, int], float] = {}
        """When a session is to run, by the loop's clock; kept while nobody serves."""
        self._woken: OrderedDict[tuple[str, str, int], None] = OrderedDict()
        self._failures: dict[_Key, int] = {}
        self._news = asyncio.Event()
        self._is_closed = False

    async def wake(
        self, tenant: str, session_id: str, reason_seq: int, delay: timedelta | None = None
    ) -> None:
        """Have the session run. The same wake again does nothing."""
        reason = (tenant, session_id, reason_seq)
        if self._is_closed or reason in self._woken:
            return
        self._woken[reason] = None
        while len(self._woken) > _REMEMBERED:
            self._woken.popitem(last=False)
        self._put((tenant, session_id), delay.total_seconds() if delay is not None else 0.0, reason_seq)

    def look_at(self, tenant: str, session_id: str, delay_s: float = 0.0) -> None:
        """Have the session looked at, for no reason of the ledger's."""
        if not self._is_closed:
            self._put((tenant, session_id), delay_s)

    def is_running(self, tenant: str, session_id: str) -> bool:
        """Whether a segment of the session is under way."""
        return (tenant, session_id) in self._running

    def _put(self, key: _Key, delay_s: float = 0.0, reason_seq: int = 0) -> None:
        if delay_s <= 0:
            self._due[key] = None
            self._news.set()
            return
        reason = (*key, reason_seq)
        if reason not in self._later:
            self._later[reason] = asyncio.get_running_loop().time() + delay_s
            self._set_timer(reason)

    def _set_timer(self, reason: tuple[str, str, int]) -> None:
        loop = asyncio.get_running_loop()
        self._timers[reason] = loop.call_at(self._later[reason], self._ring, reason)

    def _ring(self, reason: tuple[str, str, int]) -> None:
        self._timers.pop(reason, None)
        self._later.pop(reason, None)
        self._put(reason[:2])

    async def serve(self, run_segment: RunSegment) -> None:
        """Run what is woken, until cancelled; then let what runs stop."""
        for reason in self._later:
            if reason not in self._timers:
                self._set_timer(reason)
        looking = asyncio.ensure_future(self._keep_looking())
        try:
            while not self._is_closed:
                await self._news.wait()
                self._news.clear()
                self._start(run_segment)
        finally:
            looking.cancel()
            await self._stop(looking)

    def _start(self, run_segment: RunSegment) -> None:
        due, self._due = self._due, {}
        for key in due:
            if key in self._running:
                self._again.add(key)  # it may have looked already, and seen nothing
            else:
                self._running[key] = asyncio.ensure_future(self._run(run_segment, key))

    async def _run(self, run_segment: RunSegment, key: _Key) -> None:
        outcome: Outcome | None = None
        delay_s = 0.0
        try:
            outcome = await run_segment(*key)
            self._failures.pop(key, None)
        except Exception as error:  # noqa: BLE001 - one session's trouble is not another's
            delay_s = self._delay_after(key)
            told = str(error) if isinstance(error, GnomonError) else repr(error)
            log.warning("session %s of %s: %s; again in %.1f s", key[1], key[0], told, delay_s)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or not task.cancelling():  # of something within: again, but not at once
                delay_s = self._delay_after(key)
            raise
        except BaseException:
            delay_s = self._delay_after(key)
            raise
        finally:
            del self._running[key]
            if outcome is None or isinstance(outcome, Yield) or key in self._again:
                self._again.discard(key)
                with suppress(RuntimeError):  # the loop is ending
                    self._put(key, delay_s)

    def _delay_after(self, key: _Key) -> float:
        failed = self._failures[key] = self._failures.get(key, 0) + 1
        return min(_FIRST_DELAY_S * 2 ** min(failed, 20), _LONGEST_DELAY_S)

    async def _keep_looking(self) -> None:
        """For sessions whose runner died, and for messages whose wake was lost."""
        while True:
            try:
                for tenant, row in await self._look():
                    if (tenant, row.id) not in self._running:
                        self._put((tenant, row.id))
            except GnomonError as error:
                log.warning("the store could not be looked at for sessions to run: %s", error)
            await asyncio.sleep(self._look_s)

    async def _stop(self, looking: asyncio.Future[None]) -> None:
        """Nothing is left running, also when the end itself is hurried."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while running := [task for task in (looking, *self._running.values()) if not task.done()]:
            for task in running:
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait(running)

    async def close(self) -> None:
        self._is_closed = True
        self._news.set()
