"""Bombs: what a command may use is bounded (X3). Each ends by itself where nothing ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from gnomon.testing import _sandbox_programs as attack
from gnomon.testing._sandbox_suite import (
    MB,
    SandboxSuite,
    expect_ok,
    program,
    run,
    sh,
    shown,
)
from gnomon.testing._suite import expect, expect_some
from gnomon.types.steps import ExecLimits, ExecResult

__all__ = ["SandboxLimits", "memory_growth"]

_MEMORY = ExecLimits(memory_bytes=128 * MB)
_BOMB_MB = 512
_PROCESSES = 24
_FORKS = 250
_DISK_MB = 160
_DISK = ExecLimits(disk_bytes=16 * MB)
_OUTPUT = 64 * 1024
_SLACK = 4096
_FLOOD_MB = 64
_HOST_GROWTH = 24 * MB

_LARGE = (
    f'dd if=/dev/zero of="$1/large" bs=1048576 count={_DISK_MB} 2> /dev/null && echo all; rm -f "$1/large"'
)
_MANY = f"""
at=0; while [ $at -lt {_DISK_MB // 8} ]; do
dd if=/dev/zero of="$1/many$at" bs=1048576 count=8 2> /dev/null || break; at=$((at + 1)); done
[ $at -lt {_DISK_MB // 8} ] || {{ sleep 1; echo all; }}; rm -f "$1"/many*
"""
# Files that nobody finds by a name any more, and that are still there while they are open.
_HIDDEN = """
for at in 3 4 5 6 7 8 9; do eval "exec $at> '$1/hidden'" && rm "$1/hidden"
dd if=/dev/zero bs=1048576 count=15 2> /dev/null >&$at || exit 1; done; sleep 1; echo all
"""
_PLACES = (".", "/tmp", "/dev/shm", "/dev", "/run", "/")  # noqa: S108 - of the sandbox
_DEPTH = 7
_FORK_BOMB = f"""
bomb() {{ echo >> count; [ $1 -le 0 ] || {{ bomb $(($1 - 1)) & bomb $(($1 - 1)) & }}; sleep 1; }}
bomb {_DEPTH}; echo all
"""
_BUSY = "at=0; while [ $at -lt 30000000 ]; do at=$((at + 1)); done; echo all"
# Each for itself takes little.
_BUSY_IN_PARTS = """
part=0; while [ $part -lt 200 ]; do
(at=0; while [ $at -lt 150000 ]; do at=$((at + 1)); done); part=$((part + 1)); done; echo all
"""
_FLOOD = f"printf HEAD; head -c {_FLOOD_MB}000000 /dev/zero | tr '\\0' x; printf TAIL"
_FLOOD_OF_ERRORS = f"({_FLOOD}) >&2; exit 7"


class SandboxLimits(SandboxSuite):
    """The part of the suite about limits."""

    # --- memory

    async def test_a_command_has_no_more_memory_than_its_limit(self) -> None:
        """X3: its own, shared with others, or in files that are nowhere else."""
        self.needs("memory")
        for kind in ("private", "shared"):
            await self._expect_held(attack.allocate, kind, _BOMB_MB)

    async def test_memory_that_is_no_process_s_is_counted(self) -> None:
        """X3: files in memory, of which a command may make any number."""
        self.needs("memory_total")
        await self._expect_held(attack.allocate, "files", _BOMB_MB)

    async def test_many_processes_have_no_more_memory_together(self) -> None:
        """X3: none of them has more than its limit."""
        self.needs("memory_total")
        await self._expect_held(attack.allocate_together, 10, 100)

    async def test_a_command_ended_for_want_of_memory_says_so(self) -> None:
        """X3: it is a result, with `oom`, and with a note for whoever reads it."""
        self.needs("memory_total")
        async with self.open() as sandbox:
            given = program(attack.allocate, "shared", _BOMB_MB)
            result = await run(sandbox, self.needs_python(), *given, limits=_MEMORY)
            expect("oom and timed_out", (True, False), (result.oom, result.timed_out))
            expect("whether it ended well", False, result.exit_code == 0)
            expect_some("the note", result.note)
            expect("oom of the next command", False, (await sh(sandbox, "exit 0")).oom)

    # --- processes and time

    async def test_a_fork_bomb_is_contained(self) -> None:
        """X3: by a shell, and by a program that makes threads."""
        self.needs("processes")
        limits = ExecLimits(processes=_PROCESSES)
        async with self.open() as sandbox:
            result = await sh(sandbox, _FORK_BOMB, limits=limits, timeout_s=10)
            count = int((await sh(sandbox, "wc -l < count")).text)
            if "all" in result.text and count >= 2 ** (_DEPTH + 1) - 1:
                raise AssertionError(f"a fork bomb of {count} went off: {shown(result)}")
        if self.python:
            await self._expect_held(attack.fork_many, _FORKS, limits=limits)
            await self._expect_held(attack.spawn_threads, _FORKS, limits=limits)

    async def test_a_command_has_no_more_processor_time_than_its_limit(self) -> None:
        """X3: at once, or in many small parts."""
        self.needs("cpu")
        limits = ExecLimits(cpu_s=0.5)
        async with self.open() as sandbox:
            work = (sh(sandbox, script, limits=limits, timeout_s=25) for script in (_BUSY, _BUSY_IN_PARTS))
            for result in await asyncio.gather(*work):
                expect("whether it came to its end", False, "all" in result.text)
                expect("timed_out", False, result.timed_out)
                expect("whether it ended well", False, result.exit_code == 0)

    # --- output and files

    async def test_a_flood_of_output_loses_its_middle(self) -> None:
        """X3: what was written first and last is kept, and neither the command nor the host has trouble."""
        self.needs("output")
        limits = ExecLimits(output_bytes=_OUTPUT)
        async with self.open() as sandbox:
            result, grown = await memory_growth(lambda: sh(sandbox, _FLOOD, limits=limits))
            _expect_flooded(result, result.stdout, 0)
            result, again = await memory_growth(lambda: sh(sandbox, _FLOOD_OF_ERRORS, limits=limits))
            _expect_flooded(result, result.stderr, 7)
            expect("whether the memory of the host grew", False, max(grown, again) > _HOST_GROWTH)

    async def test_output_within_its_limit_is_whole(self) -> None:
        """X3: both streams together have one limit."""
        async with self.open() as sandbox:
            limits = ExecLimits(output_bytes=_OUTPUT)
            script = f"head -c {_OUTPUT // 2} /dev/zero; head -c {_OUTPUT // 2} /dev/zero >&2"
            result = await sh(sandbox, script, limits=limits)
            sizes = (len(result.stdout), len(result.stderr), result.truncated)
            expect("sizes of both streams, and truncated", (_OUTPUT // 2, _OUTPUT // 2, False), sizes)

    async def test_a_command_fills_no_disk(self) -> None:
        """X3: by one large file or by many, with or without a name, wherever it may write."""
        self.needs("disk")
        async with self.open() as sandbox:
            for script in (_LARGE, _MANY, _HIDDEN):
                for place in _PLACES:
                    result = await sh(sandbox, script, place, limits=_DISK)
                    expect(f"whether a disk bomb in {place} went off", False, "all" in result.text)
                    await sh(sandbox, "rm -f ./large ./many*")

    async def test_a_command_fills_no_disk_out_of_sight(self) -> None:
        """X3: where no path is long enough to look, or nobody else may."""
        self.needs("disk")
        for where in ("deep", "locked"):
            await self._expect_held(attack.fill_out_of_sight, where, _DISK_MB, limits=_DISK)

    async def _expect_held(
        self,
        bomb: Callable[..., list[str]],
        *given: object,
        limits: ExecLimits = _MEMORY,
    ) -> None:
        """It does not come to where it ends by itself; the next command is none the worse for it."""
        async with self.open() as sandbox:
            result = await run(sandbox, self.needs_python(), *program(bomb, *given), limits=limits)
            if result.text.strip() not in ("", "[]"):
                raise AssertionError(f"a bomb went off: {shown(result)}")
            if result.exit_code == 0 and not result.text:
                raise AssertionError(f"a bomb was not thrown: {shown(result)}")
            expect_ok("the next command", await sh(sandbox, "exit 0"))


def _expect_flooded(result: ExecResult, data: bytes, exit_code: int) -> None:
    expect("truncated", True, result.truncated)
    expect("the beginning and the end", (b"HEAD", b"TAIL"), (data[:4], data[-4:]))
    expect("the exit code", exit_code, result.exit_code)
    kept = len(result.stdout) + len(result.stderr)
    expect(f"whether more than {_OUTPUT} bytes are kept", False, kept > _OUTPUT + _SLACK)
    expect("whether less than half of that is kept", False, kept < _OUTPUT // 2)


async def memory_growth(work: Callable[[], Awaitable[ExecResult]]) -> tuple[ExecResult, int]:
    """What it comes to, and by how many bytes this process was larger meanwhile than before."""
    before = most = _resident()
    running = asyncio.ensure_future(work())
    while not running.done():
        await asyncio.wait({running}, timeout=0.01)
        most = max(most, _resident())
    return running.result(), most - before


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
