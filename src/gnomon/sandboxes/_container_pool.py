"""The containers of one sandbox: one for each command that runs, and some that wait for the next."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress

from gnomon.errors import SandboxError
from gnomon.sandboxes._container_box import Box, Maker, sweep, wait_removed
from gnomon.sandboxes._engine_wire import in_background
from gnomon.sandboxes._engines import Engine
from gnomon.sandboxes._limits import Limits

__all__ = ["Pool"]

_MOST_WAITING = 4
_MOST_COMMANDS = 200
"""Engines remember each command of a container for as long as there is the container."""


class Pool:
    """From any thread, and on any event loop."""

    def __init__(self, engine: Engine, maker: Maker, *, warm: bool) -> None:
        self._engine = engine
        self._maker = maker
        self._warm = warm
        self._lock = threading.Lock()
        self._waiting: list[Box] = []
        self._coming: list[tuple[Limits, Future[Box]]] = []
        self._all: set[Box] = set()
        self._going: set[Future[None]] = set()
        self._is_closed = False
        self._is_swept = False

    async def take(self, limits: Limits) -> Box:
        """One in which nothing is left of anybody."""
        key = limits._replace(output_bytes=0)
        while True:
            box = self._ready(key) or await self._arrived(key)
            if box.is_alive():
                return box
            self.discard(box)

    def give_back(self, box: Box) -> None:
        """As new, for the next command with the same limits."""
        box.commands += 1
        with self._lock:
            keeps = self._warm and not self._is_closed and box.commands < _MOST_COMMANDS
            if keeps:
                self._waiting.append(box)
            surplus = [self._waiting.pop(0)] if len(self._waiting) > _MOST_WAITING else []
        for each in surplus if keeps else [box]:
            self.discard(each)

    def discard(self, box: Box) -> None:
        """Everything in it ends now; it is removed in the background."""
        box.kill()
        gone = in_background(box.remove)
        with self._lock:
            self._going.add(gone)

        def over(_: object) -> None:
            with self._lock:
                self._going.discard(gone)
                self._all.discard(box)

        gone.add_done_callback(over)

    def prepare(self, limits: Limits) -> None:
        """One for the next command, made meanwhile, unless one waits."""
        key = limits._replace(output_bytes=0)
        with self._lock:
            known = [box.limits for box in self._waiting] + [each for each, _ in self._coming]
            if not self._warm or self._is_closed or key in known:
                return
        coming = self._begin(key)
        with self._lock:
            self._coming.append((key, coming))

    def close(self) -> None:
        """From a thread. When this returns, nothing runs any more."""
        with self._lock:
            self._is_closed = True
            coming = [each for _, each in self._coming]
            self._coming.clear()
        for each in coming:
            with suppress(Exception):
                each.result(timeout=60.0)
        boxes = list(self._all)
        for box in boxes:
            box.kill()
        for gone in [in_background(box.remove) for box in boxes]:
            with suppress(SandboxError):
                gone.result()
        wait_removed(boxes)
        self._waiting.clear()
        self._all.clear()

    def kill(self) -> None:
        """End what runs, at once where that can be done from here."""
        with self._lock:
            self._is_closed = True
            boxes = list(self._all)
        for box in boxes:
            box.kill()

    # --- how

    def _ready(self, key: Limits) -> Box | None:
        with self._lock:
            for box in self._waiting:
                if box.limits == key:
                    self._waiting.remove(box)
                    return box
        return None

    async def _arrived(self, key: Limits) -> Box:
        coming = self._next(key)
        try:
            return await asyncio.wrap_future(_shielded(coming))
        except asyncio.CancelledError:
            coming.add_done_callback(self._unwanted)
            raise

    def _next(self, key: Limits) -> Future[Box]:
        with self._lock:
            for each in self._coming:
                if each[0] == key:
                    self._coming.remove(each)
                    return each[1]
        return self._begin(key)

    def _begin(self, key: Limits) -> Future[Box]:
        return in_background(lambda: self._made(key))

    def _made(self, key: Limits) -> Box:
        if not self._is_swept:
            self._is_swept = True
            sweep(self._engine)
        box = self._maker.make(key)
        with self._lock:
            self._all.add(box)
            is_late = self._is_closed
        if is_late:
            self.discard(box)
            raise SandboxError("the sandbox is closed", hint="make another one")
        return box

    def _unwanted(self, coming: Future[Box]) -> None:
        if coming.exception() is None:
            self.give_back(coming.result())  # nothing has run in it


def _shielded(future: Future[Box]) -> Future[Box]:
    """The same outcome; whoever cancels it does not cancel the other."""
    copy: Future[Box] = Future()

    def over(done: Future[Box]) -> None:
        if copy.set_running_or_notify_cancel():
            if (error := done.exception()) is not None:
                copy.set_exception(error)
            else:
                copy.set_result(done.result())

    future.add_done_callback(over)
    return copy
