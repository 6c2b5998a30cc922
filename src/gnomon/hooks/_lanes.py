"""The ways in, one a key."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from weakref import WeakKeyDictionary

from gnomon.hooks._gate import Gate
from gnomon.hooks._limits import Lane, Limits
from gnomon.hooks._shared import OnLost, SharedGate, SharedLimits, store_at

__all__ = ["Lanes"]

FEWEST_KEPT = 1_000


class Lanes:
    """Lanes by key, made when they are first asked for; those that nobody uses are forgotten in time.

    A shared one belongs to the event loop that uses it, since connections do.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        shared: str | None = None,
        on_lost: OnLost = "local",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits
        self._url = shared
        self._on_lost: OnLost = on_lost
        self._clock = clock
        self._gates: dict[str, Gate] = {}
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()
        self._kept = FEWEST_KEPT

    def __len__(self) -> int:
        return len(self._gates)

    def lane(self, key: str) -> Lane:
        gate = self._gates.get(key)
        if gate is None:
            self._forget_the_idle()
            gate = self._gates[key] = Gate(key, self._limits, self._clock)
        return gate if self._url is None else self._shared(self._url).gate(key, self._limits, gate)

    async def close(self) -> None:
        """Let go of the connections of this loop. What is asked for afterwards opens others."""
        shared = self._of_loop.pop(asyncio.get_running_loop(), None)
        if shared is not None:
            await shared.limits.store.close()

    def _shared(self, url: str) -> _Shared:
        loop = asyncio.get_running_loop()
        found = self._of_loop.get(loop)
        if found is None:
            found = self._of_loop[loop] = _Shared(SharedLimits(store_at(url), self._on_lost))
        return found

    def _forget_the_idle(self) -> None:
        """Seldom, since all are looked at: a limit that is whole is like one that was never used."""
        if len(self._gates) < self._kept:
            return
        self._gates = {key: gate for key, gate in self._gates.items() if not gate.is_idle}
        for shared in self._of_loop.values():
            shared.forget_the_idle()
        self._kept = max(FEWEST_KEPT, 2 * len(self._gates))


class _Shared:
    """What one event loop has open."""

    def __init__(self, limits: SharedLimits) -> None:
        self.limits = limits
        self._gates: dict[str, SharedGate] = {}

    def gate(self, key: str, limits: Limits, spare: Gate) -> SharedGate:
        found = self._gates.get(key)
        if found is None:
            found = self._gates[key] = SharedGate(key, limits, self.limits, spare)
        return found

    def forget_the_idle(self) -> None:
        self._gates = {key: gate for key, gate in self._gates.items() if not gate.is_idle}
