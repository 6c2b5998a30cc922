"""How a cost is measured, and how it is set beside its floor.

The number is CPU time (user and system), not the clock: a busy machine delays a process more than
it makes it work. It does slow it down, though (a core shared with a neighbour runs at half speed), so
what is compared runs in turns, one right after the other, and every round gives a ratio of its own.
The median of those ratios counts. Their spread and the ratio of the two best times stand beside it:
when they are far from it, the run says little.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median

import msgspec

Timer = Callable[[], float]
Samples = dict[str, list[float]]


class Row(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the table: `value` is what the limit is about, a ratio or an amount of `unit`."""

    what: str
    value: float
    limit: float | None = None
    ours: str = ""
    floor: str = ""
    spread: tuple[float, float] | None = None
    best: float | None = None
    unit: str = ""

    @property
    def ok(self) -> bool:
        return self.limit is None or self.value <= self.limit


def say(text: str) -> None:
    """What is going on, for whoever waits."""
    print(text, file=sys.stderr, flush=True)


def compared(
    what: str,
    ours: Sequence[float],
    floor: Sequence[float],
    *,
    limit: float | None = None,
    scale: float = 1.0,
) -> Row:
    """Ours against the floor, round by round; `scale` turns seconds into what is shown, in ms or µs."""
    pairs = [a / b for a, b in zip(ours, floor, strict=True)]
    return Row(
        what=what,
        value=median(pairs),
        limit=limit,
        ours=shown(median(ours)),
        floor=shown(median(floor)),
        spread=(min(pairs), max(pairs)),
        best=min(ours) / min(floor),
    )


def shown(seconds: float) -> str:
    if seconds >= 1e-3:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds * 1e6:.3g} µs"


def in_turns(timers: Mapping[str, Timer], rounds: int) -> Samples:
    """Every timer once a round, the order turned around each time."""
    samples: Samples = {name: [] for name in timers}
    for number in range(rounds):
        for name in reversed(timers) if number % 2 else timers:
            samples[name].append(timers[name]())
    return samples


async def in_turns_on_this_loop(jobs: Mapping[str, Callable[[], Awaitable[None]]], rounds: int) -> Samples:
    """The same for coroutines, on the loop that runs already; one round to warm up is not counted."""
    samples: Samples = {name: [] for name in jobs}
    for number in range(-1, rounds):
        for name in reversed(jobs) if number % 2 else jobs:
            gc.collect()
            start = time.process_time()
            await jobs[name]()
            if number >= 0:
                samples[name].append(time.process_time() - start)
    return samples


def child_cpu(command: Sequence[str], *, env: Mapping[str, str]) -> float:
    """The CPU seconds of one process from its start to its end."""
    quiet = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in (0, 1, 2)]
    pid = os.posix_spawn(command[0], command, env, file_actions=quiet)
    _, status, used = os.wait4(pid, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime


PEAK = """
def peak():
    \"""Megabytes at the most so far; what `getrusage` says begins with what the parent had.\"""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) / 1024
"""
"""For a program that tells how much it grows. On Linux."""
