"""A limit inside one process: first come, first served."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from math import inf
from threading import Lock

from gnomon.hooks._limits import MOMENT_S, Limits, waited_too_long

__all__ = ["Gate"]


class Gate:
    """Whoever comes takes what it needs, or waits behind those who came before.

    What is left of a limit is kept as the time when it will be whole again: to take moves
    that time away, and nothing has to be counted while it passes. It may be used from several
    threads, each with a loop of its own. A waiter that is cancelled has taken nothing.
    """

    def __init__(self, key: str, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._key = key
        self._limits = limits
        self._clock = clock
        self._request_s, self._token_s = limits.request_s, limits.token_s
        self._room_s = limits.room_s(limits.request_s)
        self._burst_s = limits.burst_s
        self._requests_whole = self._tokens_whole = self._shut_until = clock()
        self._most_inside = inf if limits.concurrent is None else limits.concurrent
        self._inside = 0
        self._line: deque[_Waiter] = deque()
        self._lock = Lock()

    # Every step comes through the next and the last of these: `with` takes longer, and so does a coroutine.

    def enter_at_once(self, tokens: float) -> bool:
        lock = self._lock
        lock.acquire()
        try:
            return not self._line and not self._taken_or_wait_s(tokens)
        finally:
            lock.release()

    async def enter(self, tokens: float, max_wait_s: float | None = None) -> str:
        if not self.enter_at_once(tokens):
            await self._stand_in_line(tokens, max_wait_s)
        return ""

    def leave(self, taken: str, tokens: float, used: float) -> None:
        lock = self._lock
        lock.acquire()
        try:
            self._inside -= 1
            if used > tokens:  # while a limit is whole, nothing comes back
                self._tokens_whole = max(self._tokens_whole, self._clock())
            self._tokens_whole += (used - tokens) * self._token_s
            if self._line:
                self._line[0].wake()
        finally:
            lock.release()

    async def shut_for(self, seconds: float) -> None:
        self._shut_until = max(self._shut_until, self._clock() + seconds)

    @property
    def is_idle(self) -> bool:
        latest = max(self._requests_whole, self._tokens_whole, self._shut_until)
        return not self._inside and not self._line and latest <= self._clock()

    # --- inside

    def _taken_or_wait_s(self, tokens: float) -> float:
        """0 when it was taken, all of it; else nothing was, and this is how long it takes at least."""
        if self._inside >= self._most_inside:
            return inf  # until somebody leaves
        now = self._clock()
        cost_s, burst_s = tokens * self._token_s, self._burst_s
        requests, whole = self._requests_whole, self._tokens_whole
        ready = requests - self._room_s
        tokens_ready = whole - burst_s + cost_s if cost_s < burst_s else whole
        if tokens_ready > ready:
            ready = tokens_ready
        if self._shut_until > ready:
            ready = self._shut_until
        if ready > now + MOMENT_S:
            return ready - now
        self._requests_whole = (requests if requests > now else now) + self._request_s
        self._tokens_whole = (whole if whole > now else now) + cost_s
        self._inside += 1
        return 0.0

    async def _stand_in_line(self, tokens: float, max_wait_s: float | None) -> None:
        waiter = _Waiter()
        began = self._clock()
        deadline = inf if max_wait_s is None else began + max_wait_s
        with self._lock:
            self._line.append(waiter)
        try:
            while True:
                waiter.rearm()  # before looking: a call that comes in between is not lost
                wait_s = self._turn(waiter, tokens)
                if not wait_s:
                    return
                now = self._clock()
                # Somebody may give tokens back before they are due, but nobody opens what is shut.
                if now >= deadline or self._shut_until > deadline:
                    raise waited_too_long(self._key, self._limits, now - began, wait_s)
                await waiter.rest_for(min(wait_s, deadline - now))
        finally:
            self._go_out_of_line(waiter)

    def _turn(self, waiter: _Waiter, tokens: float) -> float:
        with self._lock:
            if self._line[0] is not waiter:
                return inf
            return self._taken_or_wait_s(tokens)

    def _go_out_of_line(self, waiter: _Waiter) -> None:
        with self._lock:
            self._line.remove(waiter)
            if self._line:
                self._line[0].wake()


class _Waiter:
    """One who waits, on its own loop; anybody may wake it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._called: asyncio.Future[None] = self.loop.create_future()

    def rearm(self) -> None:
        if self._called.done():
            self._called = self.loop.create_future()

    async def rest_for(self, seconds: float) -> None:
        """Until it is called, but not longer."""
        timer = self.loop.call_later(seconds, self._call) if seconds < inf else None
        try:
            await self._called
        finally:
            if timer is not None:
                timer.cancel()

    def wake(self) -> None:
        if asyncio.get_running_loop() is self.loop:
            self._call()
            return
        with suppress(RuntimeError):  # its loop was closed a moment ago
            self.loop.call_soon_threadsafe(self._call)

    def _call(self) -> None:
        if not self._called.done():
            self._called.set_result(None)
