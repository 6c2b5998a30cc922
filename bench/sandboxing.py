"""What a sandbox costs: a command that does nothing, beside one by hand, and the memory of a flood of output.

By the clock: most of a start is waiting for the kernel and for others, and what a command is held by are
processes that are nobody's children here. Without bubblewrap or Podman the lines that need them are left out.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from statistics import median

from measure import PEAK, Row, Samples, compared, say

from gnomon.sandboxes.container import ContainerSandbox
from gnomon.sandboxes.process import ProcessSandbox

ROUNDS, QUICK_ROUNDS = 201, 41
CONTAINER_ROUNDS, QUICK_CONTAINER_ROUNDS = 41, 11
IN_A_ROW = 10
TIMES, ABOVE_MS, WARM_TIMES = 3.0, 5.0, 2.0
MEMORY_MB = 20.0
FLOOD_BYTES = 1_000_000_000
PATIENCE_S = 60.0

Job = Callable[[], Awaitable[None]]


def rows(*, quick: bool) -> list[Row]:
    found: list[Row] = []
    if sys.platform != "linux":
        say("sandboxing: it is about Linux, so nothing is said of it")
        return found
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with tempfile.TemporaryDirectory(prefix="gnomon-bench-") as folder:
        found += asyncio.run(_processes(folder, rounds))
        found.append(_flooded("ProcessSandbox()", "a process sandbox"))
        if image := _image():
            found += asyncio.run(_containers(image, QUICK_CONTAINER_ROUNDS if quick else CONTAINER_ROUNDS))
            found.append(_flooded(f"ContainerSandbox({image!r}, engine='podman')", "a warm container"))
    return found


# --- processes ---------------------------------------------------------------------


async def _processes(folder: str, rounds: int) -> list[Row]:
    program = shutil.which("bwrap")
    walled, landlocked = ProcessSandbox(), ProcessSandbox(require="none", without={"bubblewrap"})
    jobs: dict[str, Job] = {"plain": _by_hand(["true"]), "landlocked": _in(landlocked)}
    if program:
        jobs |= {"bwrap": _by_hand(_bubblewrap(program, folder)), "walled": _in(walled)}
        jobs |= {"bwraps": _row_of(jobs["bwrap"]), "row": _row_of(jobs["walled"])}
    else:
        say("sandboxing: no bubblewrap here, so nothing is said of it")
    say(f"sandboxing: {rounds} rounds of commands that do nothing")
    took = await _timed(jobs, rounds)
    await walled.close()
    await landlocked.close()
    above = [(a - b) * 1e3 for a, b in zip(took["landlocked"], took["plain"], strict=True)]
    found = [
        Row(
            what="`true` without bubblewrap: time above a plain subprocess",
            value=median(above),
            limit=ABOVE_MS,
            spread=(min(above), max(above)),
            unit=" ms",
        )
    ]
    if program:
        started = compared(
            "`true` in namespaces / bubblewrap by hand", took["walled"], took["bwrap"], limit=TIMES
        )
        in_a_row = f"{IN_A_ROW} of them, one right after the other / by hand"
        found += [started, compared(in_a_row, took["row"], took["bwraps"])]
    return found


def _bubblewrap(program: str, folder: str) -> list[str]:
    """As somebody would write it who wants the same walls."""
    links = [(name, f"usr{name}") for name in ("/bin", "/sbin", "/lib", "/lib64") if Path(name).is_symlink()]
    return [
        program,
        *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *("--ro-bind", "/usr", "/usr", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
        *(word for name, target in links for word in ("--symlink", target, name)),
        *("--bind", folder, folder, "--chdir", folder, "true"),
    ]


def _by_hand(command: list[str]) -> Job:
    """Not by asyncio, whose own watch of children would be on top."""

    async def job() -> None:
        subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=True)  # noqa: ASYNC221

    return job


def _in(sandbox: ProcessSandbox | ContainerSandbox) -> Job:
    async def job() -> None:
        result = await sandbox.execute("true", [], PATIENCE_S)
        assert result.exit_code == 0, result

    return job


def _row_of(job: Job) -> Job:
    async def jobs() -> None:
        for _ in range(IN_A_ROW):
            await job()

    return jobs


async def _timed(jobs: Mapping[str, Job], rounds: int) -> Samples:
    """Seconds by the clock; every job once a round, the order turned around each time."""
    samples: Samples = {name: [] for name in jobs}
    for number in range(-2, rounds):  # two rounds to warm up
        for name in reversed(jobs) if number % 2 else jobs:
            start = time.perf_counter()
            await jobs[name]()
            if number >= 0:
                samples[name].append(time.perf_counter() - start)
    return samples


# --- containers ----------------------------------------------------------------------


def _image() -> str:
    """The image of the tests; nothing where there is no Podman."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    try:
        from servers import containers

        return containers.image()
    except BaseException as reason:  # a skip of the test suite is no exception of the usual kind
        if isinstance(reason, KeyboardInterrupt):
            raise
        say(f"sandboxing: no Podman here ({reason}), so nothing is said of it")
        return ""


async def _containers(image: str, rounds: int) -> list[Row]:
    say(f"sandboxing: {rounds} rounds of commands in a warm container")
    sandbox, ours = ContainerSandbox(image, engine="podman"), "a command in a warm container"
    try:
        await _in(sandbox)()
        (warm,) = _ours_now()  # by hand in the very same one, with its limits and walls
        jobs: dict[str, Job] = {"podman": _by_hand(["podman", "exec", warm, "true"]), "ours": _in(sandbox)}
        took = await _timed(jobs, rounds)
    finally:
        await sandbox.close()
    return [compared(f"{ours} / podman exec by hand", took["ours"], took["podman"], limit=WARM_TIMES)]


def _ours_now() -> list[str]:
    from servers import containers

    return containers.left_of(os.getpid())


# --- a flood ---------------------------------------------------------------------------

_FLOOD = (
    PEAK
    + """
import asyncio, sys
from gnomon.sandboxes.container import ContainerSandbox
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.types.steps import ExecLimits

async def main(size, patience):
    sandbox = SANDBOX
    await sandbox.execute("true", [], patience)
    start = peak()
    flood = ["-c", f"head -c {size} /dev/zero"]
    result = await sandbox.execute("sh", flood, patience, limits=ExecLimits(output_bytes=1_000_000))
    assert result.truncated and result.exit_code == 0, result.note
    assert 900_000 < len(result.stdout) < 1_001_000, len(result.stdout)
    print(peak() - start)
    await sandbox.close()

asyncio.run(main(int(sys.argv[1]), float(sys.argv[2])))
"""
)


def _flooded(sandbox: str, name: str) -> Row:
    say(f"sandboxing: {FLOOD_BYTES // 10**9} GB of output from {name}")
    program = _FLOOD.replace("SANDBOX", sandbox)
    command = [sys.executable, "-c", program, str(FLOOD_BYTES), str(PATIENCE_S)]
    grown = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    what = f"1 GB of output with a cap of 1 MB from {name}: memory above the start"
    return Row(what=what, value=grown, limit=MEMORY_MB, unit=" MB")
