"""One command on this side of the wall: what it is given, what it writes, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from gnomon.sandboxes._output import Kept, StreamName
from gnomon.sandboxes._starter import starter

__all__ = ["Ending", "Run"]

_READ_BYTES = 1 << 18
_MOST_TOLD = 65_536
_LATE_S = 1.0
"""How long after its deadline a supervisor may take to say that all is over."""
_LEFT_S = 0.5
"""How long what was written before the end may take to be read."""


class Failed(NamedTuple):
    """The step that a command did not come past, and the error number where there is one."""

    step: str
    number: int | None
    text: str


class Ending(msgspec.Struct, kw_only=True):
    """What a supervisor tells last."""

    why: str = ""
    exit_code: int | None = None
    failed: Failed | None = None
    is_up: bool = True
    broken: str = ""
    is_lost: bool = False


class Run:
    """A command that runs. On the event loop that it was started on."""

    def __init__(self, kept: Kept, show: Callable[[StreamName, bytes], None] | None) -> None:
        self._kept = kept
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ending] = self._loop.create_future()
        self._readers: dict[int, tuple[StreamName, asyncio.Future[None]]] = {}
        self._writer = -1
        self._input = memoryview(b"")
        self._began = 0.0
        self._stopped = ""
        self.may_have_begun = False

    def start(self, order: int, stdin: bytes | None) -> None:
        """`order` is a file, which is closed here."""
        pipes: list[int] = []
        try:
            theirs, ours = os.pipe2(os.O_CLOEXEC)
            pipes += [theirs, ours]
            reads: list[int] = []
            for _ in range(2):
                reading, writing = os.pipe2(os.O_CLOEXEC)
                pipes += [reading, writing]
                reads.append(reading)
            self._status = starter.start(order, theirs, pipes[3], pipes[5])
        except BaseException:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        finally:
            os.close(order)
        for descriptor in (theirs, pipes[3], pipes[5]):
            os.close(descriptor)
        self._began = time.monotonic()
        self._loop.add_reader(self._status, self._hear)
        self._read(reads[0], "stdout")
        self._read(reads[1], "stderr")
        self._write(ours, stdin or b"")

    def stop(self, why: str) -> None:
        """End it; the supervisor then tells that it has."""
        self._stopped = self._stopped or why
        with suppress(OSError):
            self._status.send(b"end")

    async def ending(self, timeout_s: float) -> Ending:
        """How it ended, once all that it started is gone and what it wrote is read."""
        late = asyncio.shield(self._ended)
        try:
            ending = await asyncio.wait_for(late, max(timeout_s - self.duration_s, 0) + _LATE_S)
        except TimeoutError:
            ending = Ending(why="timeout", is_lost=True)
        readers = [done for _, done in self._readers.values()]
        if readers:
            await asyncio.wait(readers, timeout=_LEFT_S)
        if self._stopped and ending.why == "told":
            ending.why = self._stopped
        return ending

    @property
    def duration_s(self) -> float:
        return time.monotonic() - self._began

    def close(self) -> None:
        """Let go of everything; a command that still runs is ended by that."""
        self._loop.remove_reader(self._status)
        self._status.close()
        for descriptor in list(self._readers):
            self._done_reading(descriptor)
        self._done_writing()

    # --- what it tells

    def _hear(self) -> None:
        try:
            data = self._told()
        except (BlockingIOError, InterruptedError):
            return
        if self._ended.done():
            self._loop.remove_reader(self._status)
            return
        if not data:
            self._ended.set_result(Ending(is_lost=True))
            self._loop.remove_reader(self._status)
            return
        told: dict[str, Any] = msgspec.json.decode(data)
        self.may_have_begun = True
        if "begins" not in told:
            self._ended.set_result(msgspec.convert(told, Ending))

    def _told(self) -> bytes:
        """A message; nothing when there will be no more."""
        for _ in range(2):
            try:
                return self._status.recv(_MOST_TOLD)
            except ConnectionResetError:
                # It has ended without having read that it should; what it told before that is still there.
                continue
            except (BlockingIOError, InterruptedError):
                raise
            except OSError:
                break
        return b""

    # --- what it writes

    def _read(self, descriptor: int, stream: StreamName) -> None:
        os.set_blocking(descriptor, False)
        self._readers[descriptor] = stream, self._loop.create_future()
        self._loop.add_reader(descriptor, self._take, descriptor, stream)

    def _take(self, descriptor: int, stream: StreamName) -> None:
        try:
            data = os.read(descriptor, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._done_reading(descriptor)
            return
        self._kept.add(stream, data)
        if self._show is not None and (shown := self._kept.to_show(data)):
            self._show(stream, shown)

    def _done_reading(self, descriptor: int) -> None:
        _, done = self._readers.pop(descriptor)
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        if not done.done():
            done.set_result(None)

    # --- what it reads

    def _write(self, descriptor: int, data: bytes) -> None:
        self._writer, self._input = descriptor, memoryview(data)
        os.set_blocking(descriptor, False)
        if data:
            self._loop.add_writer(descriptor, self._give)
        else:
            self._done_writing()

    def _give(self) -> None:
        try:
            given = os.write(self._writer, self._input[:_MOST_TOLD])
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:  # it has closed its end, or ended
            if error.errno not in (errno.EPIPE, errno.EBADF):
                raise
            given = len(self._input)
        self._input = self._input[given:]
        if not self._input:
            self._done_writing()

    def _done_writing(self) -> None:
        if self._writer >= 0:
            self._loop.remove_writer(self._writer)
            os.close(self._writer)
            self._writer = -1
