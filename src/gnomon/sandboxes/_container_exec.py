"""One command in a container: what it is given, what it writes, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

from gnomon.errors import SandboxError
from gnomon.sandboxes._container_box import Box
from gnomon.sandboxes._engine_wire import Attached, in_background, shortened
from gnomon.sandboxes._launcher.tree import unlinked_bytes, written
from gnomon.sandboxes._limits import Limits
from gnomon.sandboxes._output import Kept, StreamName
from gnomon.sandboxes._run import Ending, Failed

__all__ = ["Exec", "Gone"]

_READ_BYTES = 1 << 18
_HEAD = 8
_MOST_WORDS = 8_000
_MOST_NOISE = 500
_LEFT_S = 0.5
"""How long what was written before the end may take to be read."""
_TOLD_S = 5.0
"""How long an engine may take to know how a command ended whose streams have."""
_KILLED = 137
_LAST_S = 0.05
_TICK_S = 0.1
_POLL_S = 0.01
_MOST_FILES = 100_000

# What an engine writes to the streams of a command that it could not start: this line, and nothing else.
_ENDS = "OCI runtime error|OCI permission denied|OCI runtime attempted to invoke a command that was not found"
_NOT_STARTED = re.compile(rf"\s*(?:OCI runtime exec failed: [^\n]*|Error: [^\n]*: (?:{_ENDS}))\s*")
_NOT_RUN = re.compile(r"exec [^\n]*: [a-z ]+\n")
_REASONS = (
    ("argument list too long", errno.E2BIG),
    ("executable file not found", errno.ENOENT),
    ("no such file or directory", errno.ENOENT),
    ("permission denied", errno.EACCES),
    ("exec format error", errno.ENOEXEC),
    ("is a directory", errno.EACCES),
)
_CODES_OF_ENGINE = (1, 125, 126, 127, 255, -1)
# Podman's own trouble with a command that has not read all of its input.
_NOISE = re.compile(rb"Error: (?:read|write) unixpacket @->\S+: (?:read|write): [a-z ]+\n")


class Gone(Exception):
    """The container ended before the command was started in it."""


class Exec:
    """A command that runs. On the event loop that it was started on."""

    def __init__(
        self,
        box: Box,
        limits: Limits,
        workspace: str,
        kept: Kept,
        show: Callable[[StreamName, bytes], None] | None,
    ) -> None:
        self._box = box
        self._limits = limits
        self._workspace = workspace
        self._kept = kept
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._stop: asyncio.Future[str] = self._loop.create_future()
        self._began = time.monotonic()
        self._execution = ""
        self._refusal = ""
        self._kills_before = box.sight.kills_for_memory() if box.sight else 0

    @property
    def duration_s(self) -> float:
        return time.monotonic() - self._began

    def stop(self, why: str) -> None:
        """From any thread."""
        with suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._stopped, why)

    def _stopped(self, why: str) -> None:
        if not self._stop.done():
            self._stop.set_result(why)

    async def ending(self, order: dict[str, Any], stdin: bytes | None, timeout_s: float) -> Ending:
        """How it ended. What it has left in the container may still run."""
        streams, watch = self._task(self._streamed(order, stdin)), self._task(self._watched())
        try:
            await asyncio.wait(
                (streams, watch, self._stop), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            if why := self._why(streams, watch):
                self._box.kill()
                await asyncio.wait((streams,), timeout=_LEFT_S)
                return Ending(is_lost=True) if why == "lost" else Ending(why=why)
            streams.result()
            return await self._told()
        finally:
            await _over(streams, watch)

    def kills(self) -> int:
        """How often the kernel has ended a part of it for want of memory."""
        # None where the container has gone, and its group with it.
        return max(0, self._box.sight.kills_for_memory() - self._kills_before) if self._box.sight else 0

    def _why(self, streams: asyncio.Task[None], watch: asyncio.Task[str]) -> str:
        if self._stop.done():
            return self._stop.result()
        if streams.done():
            return ""
        return watch.result() if watch.done() else "timeout"

    def _task(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        return self._loop.create_task(work)

    # --- what it is given and writes

    async def _streamed(self, order: dict[str, Any], stdin: bytes | None) -> None:
        """From its start to the end of its streams."""
        self._execution = await self._created(order)
        path = f"/exec/{self._execution}/start"
        attached = await self._box.engine.wire.attach(path, {"Detach": False, "Tty": False})
        try:
            if attached.status in (101, 200):
                await self._flow(attached, stdin)
            else:
                said = attached.rest or await self._loop.sock_recv(attached.socket, _READ_BYTES)
                self._refusal = said.decode(errors="replace") or f"status {attached.status}"
        finally:
            attached.socket.close()

    async def _created(self, order: dict[str, Any]) -> str:
        box = self._box
        answer = await asyncio.wrap_future(
            in_background(lambda: box.engine.call("POST", f"/containers/{box.id}/exec", order))
        )
        if answer.status in (404, 409) or not (
            answer.is_good or box.is_alive()
        ):  # it is not there, or does not run
            raise Gone(f"the container has ended: {answer.words}")
        if not answer.is_good:
            raise SandboxError(f"{box.engine.name} does not take the command: {answer.words}")
        return str(answer.content["Id"])

    async def _flow(self, attached: Attached, stdin: bytes | None) -> None:
        if not stdin:
            await self._take(attached)
            return
        giving = self._task(self._give(attached.socket, stdin))
        try:
            await self._take(attached)
        finally:
            await _over(giving)  # or it would write to what is closed, or somebody else's by then

    async def _give(self, to: socket.socket, stdin: bytes) -> None:
        """Its input, and that this was all."""
        with suppress(OSError):  # it has ended, or does not want it
            await self._loop.sock_sendall(to, stdin)
            to.shutdown(socket.SHUT_WR)

    async def _take(self, attached: Attached) -> None:
        frames, piece = _Frames(), attached.rest
        with suppress(ConnectionError):
            while True:
                for stream, content in frames.of(piece):
                    if not (len(content) < _MOST_NOISE and _NOISE.fullmatch(content)):
                        self._keep(stream, content)
                piece = await self._loop.sock_recv(attached.socket, _READ_BYTES)
                if not piece:
                    return

    def _keep(self, stream: StreamName, piece: bytes) -> None:
        self._kept.add(stream, piece)
        if self._show is not None and (shown := self._kept.to_show(piece)):
            self._show(stream, shown)

    # --- while it runs

    async def _watched(self) -> str:
        """Until it does what neither the kernel nor the engine keeps it from by itself."""
        free, began, most = _free(self._workspace), time.time(), self._limits.disk_bytes
        sight = self._box.sight
        cpu_before = sight.cpu_s() if sight else 0.0
        while True:
            await asyncio.sleep(_TICK_S)
            if sight is not None and sight.is_over():
                return "memory" if self.kills() else "lost"
            if sight is not None and sight.cpu_s() - cpu_before > self._limits.cpu_s:
                return "cpu"
            if _is_fuller(free, _free(self._workspace), most) and await asyncio.wrap_future(
                in_background(lambda: self._fills_the_disk(began))
            ):
                return "disk"

    def _fills_the_disk(self, since: float) -> bool:
        """From a thread. Files without a name are found by the processes that have them open."""
        most, sight = self._limits.disk_bytes, self._box.sight
        if written([self._workspace], since, most):
            return True
        with suppress(OSError):  # it has just ended
            return sight is not None and unlinked_bytes(sight.members()) > most
        return False

    # --- how it ended

    async def _told(self) -> Ending:
        """What the engine says, once the streams have ended."""
        until = time.monotonic() + _TOLD_S
        while time.monotonic() < until:
            answer = await asyncio.wrap_future(in_background(self._asked))
            if answer is None:
                break
            if not answer.get("Running"):
                code = int(answer.get("ExitCode") or 0)
                return self._ended() if await self._went_with_it(code) else self._ending(code)
            await asyncio.sleep(_POLL_S)
        return self._ended()

    async def _went_with_it(self, code: int) -> bool:
        """Whether it was the container that ended: its first process is then the last to go."""
        sight = self._box.sight
        if sight is None or code != _KILLED:
            return False
        return await asyncio.wrap_future(in_background(lambda: sight.is_over(_LAST_S)))

    def _ended(self) -> Ending:
        return Ending(why="memory") if self.kills() else Ending(is_lost=True)

    def _asked(self) -> dict[str, Any] | None:
        with suppress(SandboxError):
            answer = self._box.engine.call("GET", f"/exec/{self._execution}/json")
            return answer.content if answer.is_good else None
        return None

    def _ending(self, code: int) -> Ending:
        said = self._refusal or (_words_of_engine(self._kept) if code in _CODES_OF_ENGINE else "")
        if not said:
            return Ending(exit_code=code)
        if "chdir to cwd" in said:
            return Ending(exit_code=code, failed=Failed("folder", None, said))
        number = next((number for words, number in _REASONS if words in said.lower()), None)
        return Ending(
            exit_code=code, failed=Failed("program" if number else "the engine", number, shortened(said))
        )


class _Frames:
    """Two streams in one: pieces, each with its stream and its length before it."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._stream: StreamName = "stdout"

    def of(self, data: bytes) -> Iterator[tuple[StreamName, bytes]]:
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                yield self._stream, piece
            else:
                piece = data[at : at + _HEAD - len(self._head)]
                self._head += piece
                at += len(piece)
                self._begin()

    def _begin(self) -> None:
        if len(self._head) == _HEAD:
            self._left = int.from_bytes(self._head[4:], "big")
            self._stream = "stderr" if self._head[0] == 2 else "stdout"
            self._head = b""


async def _over(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.exception()


def _words_of_engine(kept: Kept) -> str:
    """What is there, if it is only what an engine writes. A command that writes the same deceives itself."""
    said = (kept.of("stdout") + kept.of("stderr")).decode(errors="replace")
    if len(said) > _MOST_WORDS:
        return ""
    return said if _NOT_STARTED.fullmatch(said) or _NOT_RUN.fullmatch(said) else ""


def _free(folder: str) -> tuple[int, int]:
    """Bytes and files for which there is room."""
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize, found.f_favail


def _is_fuller(before: tuple[int, int], now: tuple[int, int], most_bytes: int) -> bool:
    """Only a disk that has become fuller is looked through, since others may fill it as well."""
    return before[0] - now[0] > most_bytes or before[1] - now[1] > _MOST_FILES
