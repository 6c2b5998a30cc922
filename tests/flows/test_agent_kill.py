"""`kill -9` at every write of a run of ten calls, and again at every write of its recovery.

Effects are counted in a file outside the store. No effect of a call that has its result is repeated, none of
a call of which nobody knows is repeated in silence, and every run ends. With `GNOMON_SOAK=1` every pair of
points is tried; otherwise some, by `GNOMON_TEST_SEED`.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from effects import Effects
from killed_agent import Job
from recorded_effects import check_run

import servers
from storing import Child, child, opened, sqlite_url

SOAK = os.environ.get("GNOMON_SOAK") == "1"
SEED = int(os.environ.get("GNOMON_TEST_SEED") or 1)
RUNNER = Path(__file__).parent / "killed_agent.py"

STORES = ("sqlite", "postgres")
WRITES = 26
"""How often a run that is not disturbed writes; a test of its own says so when that is no longer true."""
POINTS = [(point, when) for point in range(1, WRITES + 1) for when in ("before", "after")]
CHANCE = random.Random(SEED)
CHOSEN = POINTS if SOAK else sorted(CHANCE.sample(POINTS, 6))
LATER = 200 if SOAK else 2
"""How many points of the recovery are tried for each point of the run."""
MOMENTS = 150 if SOAK else 6


class Killing:
    """Runs of ten calls on one store, and who was killed in them."""

    def __init__(self, url: str, folder: Path, runner: Child) -> None:
        self._url = url
        self._folder = folder
        self._runner = runner
        self._jobs = 0
        self._runs = 0
        self.counts: Counter[str] = Counter()

    def run(self, *points: tuple[int, str, float]) -> list[bool]:
        """A session whose runners are killed at these points, one after another, and that then ends.

        Says of each whether it was killed: a runner may be done before it comes to its point.
        """
        self._runs += 1
        session = f"run-{self._runs}"
        effects = self._folder / session
        killed = [self._once(session, effects, *point) for point in points]
        assert not self._once(session, effects, 0, "", 0.0)
        asyncio.run(self._check(session, Effects(effects)))
        return killed

    async def _check(self, session: str, effects: Effects) -> None:
        async with opened(self._url) as storage:
            self.counts.update(await check_run(storage, session, effects))

    def _once(self, session: str, effects: Path, point: int, when: str, pause_s: float) -> bool:
        """One runner, from its start to its end; whether that was a violent one."""
        self._jobs += 1
        job = Job(self._jobs, self._url, str(effects), session, point, when)
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


@pytest.fixture(params=STORES)
def killing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Killing]:
    """A store, and what is counted on it, for whoever runs this with -s."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path / "store.db")
    else:
        url = f"{servers.shared('postgres').url}?schema=t{uuid.uuid4().hex}"
    with child(sys.executable, str(RUNNER)) as runner:
        made = Killing(url, tmp_path, runner)
        yield made
    print(f"\n{request.param}: " + ", ".join(f"{n} {what}" for what, n in sorted(made.counts.items())))


def test_a_run_that_nobody_kills_writes_as_often_as_is_counted_on_here(killing: Killing) -> None:
    # A row that collides with another writer's is written once more.
    assert killing.run((WRITES + 3, "before", 0.0)) == [False]
    assert killing.run((WRITES, "before", 0.0)) == [True]
    assert killing.counts["effects"] == 16  # eight calls of ten change something


@pytest.mark.parametrize(("point", "when"), CHOSEN)
def test_a_runner_that_is_killed_at_any_write_and_again_in_its_recovery_repeats_no_effect(
    killing: Killing, point: int, when: str
) -> None:
    assert killing.run((point, when, 0.0)) == [True]
    later = [(at, moment) for at in range(1, WRITES + 10) for moment in ("before", "after")]
    if not SOAK:
        later = random.Random(SEED * 100 + point).sample(later[: 2 * max(2, WRITES - point)], LATER)
    for at, moment in later:
        if not killing.run((point, when, 0.0), (at, moment, 0.0))[1] and SOAK:
            break  # the recovery has no more writes


def test_a_runner_that_is_killed_at_any_moment_repeats_no_effect(killing: Killing) -> None:
    """Not at a write, but in the midst of what comes of it; three runners in a row."""
    chance = random.Random(SEED)
    for _ in range(MOMENTS):
        points = [(chance.randint(1, WRITES), "during", chance.uniform(0, 0.008)) for _ in range(3)]
        killing.run(*points)
    assert killing.counts["kills"] > MOMENTS
