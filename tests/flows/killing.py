"""Runners that are killed at a write, on one store, and what must hold of what they leave."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import msgspec
from effects import Effects
from killed_agent import Job

import counted
import servers
from gnomon.contracts.storage import Storage
from storing import Child, child, opened, sqlite_url

__all__ = ["STORES", "Check", "Killing", "Point", "killing_on"]

RUNNER = Path(__file__).parent / "killed_agent.py"
STORES = ("sqlite", "postgres")

Check: TypeAlias = Callable[[Storage, str, Effects], Awaitable[Counter[str]]]
Point: TypeAlias = tuple[int, str, float] | tuple[int, str, float, str]
"""At which write, before or after it or while it goes on, how long after that, and the runner's act."""


class Killing:
    """Runs of one scene on one store, and who was killed in them."""

    def __init__(self, url: str, folder: Path, runner: Child, check: Check, scene: str) -> None:
        self._url = url
        self._folder = folder
        self._runner = runner
        self._check_run = check
        self._scene = scene
        self._jobs = 0
        self._runs = 0
        self.counts: Counter[str] = Counter()

    def run(self, *points: Point, last: str = "") -> list[bool]:
        """A session whose runners are killed at these points, one after another, and that then ends.

        The one that ends it has `last` for its act. Says of each whether it was killed: a runner may be done
        before it comes to its point.
        """
        self._runs += 1
        self.counts["runs"] += 1
        session = f"run-{self._runs}"
        effects = self._folder / session
        killed = [self._once(session, effects, *point) for point in points]
        assert not self._once(session, effects, 0, "", 0.0, last)
        asyncio.run(self._check(session, Effects(effects)))
        return killed

    async def _check(self, session: str, effects: Effects) -> None:
        async with opened(self._url) as storage:
            self.counts.update(await self._check_run(storage, session, effects))

    def _once(
        self, session: str, effects: Path, point: int, when: str, pause_s: float, act: str = ""
    ) -> bool:
        """One runner, from its start to its end; whether that was a violent one."""
        self._jobs += 1
        job = Job(self._jobs, self._url, str(effects), session, point, when, self._scene, act)
        self._runner.tell(msgspec.json.encode(job).decode())
        pid = int(self._heard("pid")[0])
        is_done = False
        while (words := self._words())[0] != "ended":
            if words[0] == "at":
                time.sleep(pause_s)
                with suppress(ProcessLookupError):  # it may have come to its end meanwhile
                    os.kill(pid, signal.SIGKILL)
            is_done = is_done or words[0] == "done"
        killed = words[1] == str(-signal.SIGKILL)
        self.counts["kills"] += killed
        assert killed or (is_done and words[1] == "0"), self._runner.complaints()
        return killed

    def _heard(self, what: str) -> list[str]:
        words = self._words()
        assert words[0] == what, (words, self._runner.complaints())
        return words[1:]

    def _words(self) -> list[str]:
        line = self._runner.line().split()
        assert line, f"the runner ended by itself: {self._runner.complaints()}"
        assert int(line[0]) == self._jobs
        return line[1:]


@contextmanager
def killing_on(store: str, folder: Path, check: Check, scene: str = "killed_agent") -> Iterator[Killing]:
    """A store, and what is counted on it for the end of the run."""
    if store == "sqlite":
        url = sqlite_url(folder / "store.db")
    else:
        url = f"{servers.shared('postgres').url}?schema=t{uuid.uuid4().hex}"
    with child(sys.executable, str(RUNNER), scene) as runner:
        made = Killing(url, folder, runner, check, scene)
        yield made
    counted.kills.setdefault(f"{scene} on {store}", Counter()).update(made.counts)
