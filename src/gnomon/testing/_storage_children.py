"""Processes of the suite's own that write to the store under test."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import AsyncExitStack, suppress
from types import TracebackType
from typing import Self

import msgspec

from gnomon.testing._storage_asking import together
from gnomon.testing._storage_writer import Ended, Job, Message, Ready, Told

__all__ = ["Child", "at_work"]

_decoder = msgspec.json.Decoder(Message)


class Child:
    """One process: it is started when the block is entered, and gone when it is left."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.told: list[Told] = []
        """What it says the store has acknowledged."""
        self._process: Process | None = None

    async def __aenter__(self) -> Self:
        # The path as it is here: the module that opens the store may be a test's own.
        env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        command = (sys.executable, "-m", "gnomon.testing._storage_writer")
        self._process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=env
        )
        await self._send(msgspec.json.encode(self.job))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.kill()

    async def ready(self) -> None:
        """It has the store open, and waits for the word to begin."""
        message = await self._next()
        if not isinstance(message, Ready):
            await self._fail(message)

    async def begin(self) -> None:
        await self._send(b"begin")

    async def work(self) -> None:
        """Begin, and come back when the job is done; a problem that it had is raised here."""
        await self.begin()
        await self.finish()

    async def finish(self, *, told: int | None = None) -> None:
        """Read what it tells: all of it, or so many at least."""
        while told is None or len(self.told) < told:
            message = await self._next()
            if isinstance(message, Told):
                self.told.append(message)
            elif isinstance(message, Ended) and not message.problem:
                return
            else:
                await self._fail(message)

    async def kill(self) -> None:
        """End it at once; what it has told by then is taken note of."""
        process = self._running
        with suppress(ProcessLookupError):
            process.kill()
        rest, _ = await process.communicate()
        lines = [line for line in rest.splitlines(keepends=True) if line.endswith(b"\n")]
        self.told += [told for told in map(_decoder.decode, lines) if isinstance(told, Told)]

    def told_ids(self, session_id: str) -> list[str]:
        return [told.id for told in self.told if told.session_id == session_id]

    @property
    def _running(self) -> Process:
        if self._process is None:
            raise RuntimeError("the process was not started")
        return self._process

    async def _send(self, line: bytes) -> None:
        stdin = self._running.stdin
        if stdin is not None:
            stdin.write(line + b"\n")
            await stdin.drain()

    async def _next(self) -> Message | None:
        stdout = self._running.stdout
        line = await stdout.readline() if stdout is not None else b""
        return _decoder.decode(line) if line.endswith(b"\n") else None

    async def _fail(self, message: Message | None) -> None:
        problem = message.problem if isinstance(message, Ended) else ""
        process = self._running
        with suppress(ProcessLookupError):
            process.kill()
        _, errors = await process.communicate()
        said = problem or errors.decode(errors="replace").strip()[-500:]
        raise AssertionError(f"a process that should {self.job.task} ended too early: {said}")


async def at_work(*jobs: Job) -> list[Told]:
    """What processes that do these jobs at the same time say is stored."""
    async with AsyncExitStack() as stack:
        children = [await stack.enter_async_context(Child(job)) for job in jobs]
        await together(*(child.ready() for child in children))
        await together(*(child.work() for child in children))
        return [told for child in children for told in child.told]
