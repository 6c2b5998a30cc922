"""The test's end of `agent_terminal.py`, and stores that several processes can open."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from agent_terminal import Said, Told
from effects import Effects

import servers
from storing import sqlite_url

__all__ = ["PATIENCE_S", "STORES", "Failed", "Terminal", "Work", "terminal", "until", "work_on"]

PATIENCE_S = 40.0
STORES = ("sqlite", "postgres")
PROGRAM = Path(__file__).parent / "agent_terminal.py"

_said = msgspec.json.Decoder(Said).decode


class Failed(Exception):
    """What was told raised this, there."""

    def __init__(self, kind: str, message: object) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Work(msgspec.Struct):
    """A store and a file of effects, for any number of processes."""

    url: str
    file: Path

    @property
    def effects(self) -> Effects:
        return Effects(self.file)


def work_on(store: str, folder: Path) -> Work:
    if store == "sqlite":
        return Work(sqlite_url(folder / "store.db"), folder / "effects")
    return Work(f"{servers.shared('postgres').url}?schema=t{uuid.uuid4().hex}", folder / "effects")


async def until(what: str, holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait for something to be so, and fail by its name."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    while not holds():
        assert loop.time() < deadline, f"waited {patience_s:g} s in vain: {what}"
        await asyncio.sleep(0.01)


class Terminal:
    """Another process with an agent."""

    def __init__(self, process: asyncio.subprocess.Process, complaints: Any) -> None:
        self._process = process
        self._complaints = complaints
        self._number = 0
        self._awaited: dict[int, asyncio.Future[Any]] = {}
        self.events: dict[int, list[Said]] = {}
        self._listening = asyncio.ensure_future(self._listen())

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, what: str, **given: Any) -> asyncio.Future[Any]:
        """Have it do something; what comes of it, in time."""
        self._number += 1
        self.events[self._number] = []
        future = self._awaited[self._number] = asyncio.get_running_loop().create_future()
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(Told(self._number, what, given)) + b"\n")
        return future

    async def do(self, what: str, **given: Any) -> Any:
        return await self.end(self.begin(what, **given), what)

    async def end(self, begun: asyncio.Future[Any], what: str = "") -> Any:
        try:
            return await asyncio.wait_for(asyncio.shield(begun), PATIENCE_S)
        except TimeoutError:
            raise AssertionError(f"{what} took more than {PATIENCE_S:g} s; {self.complaints()}") from None

    @property
    def latest(self) -> list[Said]:
        """What it has said on the way to the end of what it was told last."""
        return self.events[self._number]

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while (line := await self._process.stdout.readline()).endswith(
            b"\n"
        ):  # else it was killed in its midst
            said = _said(line)
            if said.event:
                self.events[said.number].append(said)
            elif said.error:
                self._awaited[said.number].set_exception(Failed(said.error, said.value))
                self._awaited[said.number].exception()  # it may not be waited for
            else:
                self._awaited[said.number].set_result(said.value)
        for future in self._awaited.values():
            if not future.done():
                future.set_exception(AssertionError(f"the process ended: {self.complaints()}"))
                future.exception()

    async def stopped(self) -> None:
        """It stands still when this returns; it may have been told to stop itself."""
        await until("the process to stand still", lambda: self._state() == "T")

    async def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        await self.stopped()

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _state(self) -> str:
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]

    async def kill(self) -> None:
        """It is gone, and all that it had said has been heard."""
        self._process.kill()
        await self._process.wait()
        await self._listening

    async def quit(self) -> None:
        """It is told that there is nothing more, and ends by itself."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            assert await self._process.wait() == 0, self.complaints()

    def complaints(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read().decode()

    async def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
        await self._listening
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(OSError):
            await self._process.stdin.wait_closed()
        self._complaints.close()


@asynccontextmanager
async def terminal(work: Work, delay_s: float = 0.0) -> AsyncGenerator[Terminal, None]:
    """A process with an agent, gone at the end whatever happens."""
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the terminal
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *(str(PROGRAM), work.url, str(work.file), str(delay_s)),
        stdin=pipe,
        stdout=pipe,
        stderr=complaints,
        limit=1 << 24,
    )
    made = Terminal(process, complaints)
    try:
        yield made
    finally:
        await made.close()
