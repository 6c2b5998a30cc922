"""Several real processes keep one limit together, on real servers; those that are killed hold nobody up."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

import servers

CHILD = Path(__file__).with_name("limited_child.py")
PROCESSES = 4


@pytest.fixture(params=["redis", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    setting = {"redis": "prefix", "postgres": "schema"}[request.param]
    return f"{servers.shared(request.param).url}?{setting}=t{uuid.uuid4().hex}"


class Child:
    def __init__(self, task: dict[str, Any]) -> None:
        command = [sys.executable, str(CHILD), msgspec.json.encode(task).decode()]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.read() == "ready"

    def go(self) -> None:
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def read(self) -> str:
        return self.process.stdout.readline().strip()

    def finish(self) -> list[tuple[float, float]]:
        """When each of its steps was inside."""
        self.process.stdin.close()
        lines = self.process.stdout.read().split("\n")
        assert self.process.wait(60) == 0
        return [tuple(msgspec.json.decode(line)) for line in lines if line]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


@contextmanager
def children(count: int, **task: Any) -> Generator[list[Child], None, None]:
    with ExitStack() as stack:
        made: list[Child] = []
        for _ in range(count):
            made.append(Child(task))
            stack.callback(made[-1].kill)
        yield made


def run_all(seconds: float, **task: Any) -> tuple[float, list[tuple[float, float]]]:
    """What they did together, and how long that took at most."""
    with children(PROCESSES, **task) as made:
        began = time.monotonic()
        for child in made:
            child.go()
        time.sleep(seconds)
        stays = [stay for child in made for stay in child.finish()]
        return time.monotonic() - began, stays


def test_together_they_never_make_more_requests_than_the_limit(url: str) -> None:
    """30 at once and 10 a second; each by itself would make as many."""
    took_s, stays = run_all(3, url=url, settings={"requests_per_minute": 600, "burst_s": 3}, workers=8)
    assert 30 <= len(stays) <= 30 + 10 * took_s
    for first, last in ((0, 29), (0, len(stays) - 1)):
        entered = sorted(stay[0] for stay in stays)
        assert (
            last - first + 1 <= 30 + 10 * (entered[last] - entered[first]) + 3
        )  # three, for a slow messenger


def test_together_they_never_use_more_tokens_than_the_limit(url: str) -> None:
    """3,000 at once and 1,000 a second, 100 for each step; more is reserved, and given back."""
    settings = {"tokens_per_minute": 60_000, "burst_s": 3}
    took_s, stays = run_all(3, url=url, settings=settings, tokens=100, workers=8)
    assert 20 <= len(stays) <= 30 + 10 * took_s


def test_together_they_are_never_more_inside_than_the_limit(url: str) -> None:
    _, stays = run_all(3, url=url, settings={"concurrent": 2}, hold_s=0.05)
    assert len(stays) > 4
    changes = sorted([(entered, 1) for entered, _ in stays] + [(left, -1) for _, left in stays])
    inside = most = 0
    for _, change in changes:
        inside += change
        most = max(most, inside)
    assert most == 2


def test_the_place_of_a_process_that_was_killed_is_free_after_a_while(url: str) -> None:
    with children(2, url=url, settings={"concurrent": 1}, lease_s=1.0, hold_s=0.2, workers=1) as made:
        first, second = made
        first.go()
        assert first.read()  # it has made a step, and is in the next one, or about to be
        first.kill()
        second.go()
        assert second.read()


def test_a_process_that_waits_and_is_killed_holds_nobody_up(url: str) -> None:
    task = {"url": url, "settings": {"concurrent": 1}, "patience_s": 1.0, "workers": 1}
    with children(1, **task, hold_s=3.0) as (holder,), children(2, **task) as (waiter, last):
        holder.go()
        time.sleep(0.5)
        waiter.go()
        time.sleep(0.5)
        waiter.kill()
        last.go()
        assert last.read()
