"""What the tests of faults share: stores by their URL, events with ids, small disks, other processes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from gnomon import registry
from gnomon.contracts.storage import Storage, read_events
from gnomon.types.records import LedgerEvent, utc_now

__all__ = ["Child", "child", "event", "ids", "mounted", "opened", "sqlite_url"]


def sqlite_url(path: Path) -> str:
    return f"sqlite:///{quote(str(path))}"


@asynccontextmanager
async def opened(url: str | Path, *, migrate: bool = True, **settings: object) -> AsyncIterator[Storage]:
    """The store at a URL or in a file, closed at the end."""
    storage = registry.storage(sqlite_url(url) if isinstance(url, Path) else url, settings)
    try:
        if migrate:
            await storage.migrate()
        yield storage
    finally:
        await storage.close()


def event(
    session_id: str, seq: int, payload: bytes = b'{"type":"x"}', at: datetime | None = None
) -> LedgerEvent:
    """An event whose id says where it belongs."""
    name, when = f"{session_id}-{seq}", at or utc_now()
    return LedgerEvent(session_id=session_id, seq=seq, id=name, type="x", payload=payload, created_at=when)


async def ids(storage: Storage, session_id: str) -> list[str]:
    """The ids of a whole ledger, which has no gap."""
    async with read_events(storage, session_id) as events:
        found = [event async for event in events]
    assert [each.seq for each in found] == list(range(1, len(found) + 1))
    return [each.id for each in found]


class Child:
    """Another process: what it says, line by line, and what is done to it."""

    def __init__(self, *command: str) -> None:
        # A pipe that nobody reads would hold it up.
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed at its end
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._complaints, text=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, line: str = "") -> None:
        """Give it the line that it waits for."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def send(self, sign: int) -> None:
        os.kill(self.pid, sign)

    def rest(self) -> list[str]:
        """The lines that it says until its end."""
        assert self.process.stdout is not None
        said = self.process.stdout.read().splitlines()
        self.process.wait()
        return said

    def complaints(self) -> str:
        self._complaints.seek(0)
        return self._complaints.read()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._complaints):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


@contextmanager
def child(*command: str) -> Iterator[Child]:
    """A process that is gone at the end, whatever happens."""
    started = Child(*command)
    try:
        yield started
    finally:
        started.end()


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """A file system of its own in that folder, gone at the end whatever happens."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a file system")
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
