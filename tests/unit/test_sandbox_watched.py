"""What the kernel does not count, or not where it is looked for, and a command is held to all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gnomon.sandboxes._launcher import tree
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.types.steps import ExecLimits, ExecResult

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="namespaces and Landlock are Linux's")

HOLDING: list[tuple[Any, ...]] = [(), ("bubblewrap",)]
WATCHED: list[tuple[Any, ...]] = [("cgroups",), ("bubblewrap", "cgroups")]
MB = 1 << 20


@asynccontextmanager
async def opened(*arguments: Any, **options: Any) -> AsyncIterator[ProcessSandbox]:
    sandbox = ProcessSandbox(*arguments, **options)
    try:
        yield sandbox
    finally:
        await sandbox.close()


async def python(without: tuple[Any, ...], code: str, limits: ExecLimits, *place: Path) -> ExecResult:
    async with opened(*place, without=without) as sandbox:
        return await sandbox.execute(sandbox.python, ["-c", code], 60.0, limits=limits)


# --- processor time -----------------------------------------------------------------

UNWAITED = """
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork() == 0:
        until = time.process_time() + 0.3
        while time.process_time() < until:
            pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
"""


@pytest.mark.parametrize("without", [*HOLDING, *WATCHED])
async def test_the_time_of_children_that_nobody_waits_for_is_counted(without: tuple[Any, ...]) -> None:
    result = await python(without, UNWAITED, ExecLimits(cpu_s=1.5))
    assert result.note == "ended: it used more than 1.5 s of processor time"


# --- memory -------------------------------------------------------------------------

TABLES = """
import mmap
kept = []
for _ in range(400):
    kept.append(mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | 0x4000, prot=mmap.PROT_READ))
    for at in range(0, 1 << 30, 2 << 20):
        kept[-1][at]
"""
LET_GO = """
import mmap
shared = mmap.mmap(-1, 1 << 30)
for at in range(0, 1 << 30, 32 << 20):
    for page in range(at, at + (32 << 20), 4096):
        shared[page] = 1
    shared.madvise(mmap.MADV_DONTNEED, at, 32 << 20)
"""
SEMAPHORES = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print([libc.semget(0, 32000, 0o600), libc.msgget(0, 0o600)])
"""
SHARED_ALIKE = """
import os, time
kept = bytearray(80 << 20)
for at in range(0, len(kept), 4096):
    kept[at] = 1
children = []
for _ in range(6):
    children.append(os.fork())
    if not children[-1]:
        time.sleep(1)
        os._exit(0)
for child in children:
    os.waitpid(child, 0)
print("done")
"""


@pytest.mark.parametrize("without", WATCHED)
@pytest.mark.parametrize("code", [TABLES, LET_GO], ids=["tables", "let go"])
async def test_memory_that_a_process_does_not_show_as_its_own_is_counted(
    without: tuple[Any, ...], code: str
) -> None:
    result = await python(without, code, ExecLimits(memory_bytes=200 * MB))
    assert (result.oom, result.note) == (True, "ended: it used more than 200 MB of memory")


@pytest.mark.parametrize("without", WATCHED)
async def test_sets_of_semaphores_are_not_to_be_had_where_nobody_counts_them(
    without: tuple[Any, ...],
) -> None:
    assert (await python(without, SEMAPHORES, ExecLimits())).text == "[-1, -1]\n"


@pytest.mark.parametrize("without", WATCHED)
async def test_memory_that_a_fork_shares_is_counted_once(without: tuple[Any, ...]) -> None:
    result = await python(without, SHARED_ALIKE, ExecLimits(memory_bytes=250 * MB))
    assert result.text == "done\n", result.note


# --- processes ----------------------------------------------------------------------

CHILDREN = """
import os, time
for _ in range(900):
    if os.fork() == 0:
        time.sleep(30)
        os._exit(0)
time.sleep(2)
"""


async def test_more_children_than_one_page_of_numbers_are_all_seen() -> None:
    limits = ExecLimits(processes=800, memory_bytes=8 << 30)
    result = await python(("bubblewrap", "cgroups"), CHILDREN, limits)
    assert result.note == "ended: it started more than 800 processes"


def test_of_too_many_no_more_are_looked_at_than_it_takes_to_know() -> None:
    children = [subprocess.Popen(["sleep", "30"]) for _ in range(8)]
    try:
        use = tree.used(os.getpid(), tree.Clock(), 3)
        assert 3 < use.processes <= len(tree.descendants(os.getpid()))
        assert (use.memory_bytes, use.cpu_s) == (0, 0.0)
        assert tree.used(os.getpid(), tree.Clock(), 1_000).memory_bytes > 0
    finally:
        for child in children:
            child.kill()
            child.wait()


# --- disks --------------------------------------------------------------------------

HIDDEN = """
import ctypes, os, socket, time
libc = ctypes.CDLL(None)
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.mmap.restype = ctypes.c_void_p
ours, theirs = socket.socketpair()
for _ in range(4):
    file = os.open("file", os.O_RDWR | os.O_CREAT)
    for _ in range(10):
        os.write(file, bytes(1 << 20))
    os.fsync(file)
    HIDE
    os.unlink("file")
    os.close(file)
time.sleep(3)
print("kept")
"""
MAPPED, SENT = "libc.mmap(None, 4096, 1, 1, file, 0)", "socket.send_fds(ours, [b'x'], [file])"
SHUT = "libc.prctl(4, 0); os.dup(file)"  # nobody but root may look at what it has open then


@pytest.mark.parametrize("without", HOLDING)
@pytest.mark.parametrize("hide", [MAPPED, SENT, SHUT], ids=["mapped", "sent", "shut"])
async def test_files_that_are_neither_named_nor_open_fill_no_disk(
    without: tuple[Any, ...], hide: str, tmp_path: Path
) -> None:
    result = await python(without, HIDDEN.replace("HIDE", hide), ExecLimits(disk_bytes=20 * MB), tmp_path)
    assert result.note == "ended: it wrote more than 20 MB"


def test_a_folder_of_many_files_is_looked_through_a_step_at_a_time(tmp_path: Path) -> None:
    for number in range(2_500):
        (tmp_path / str(number)).touch()
    (tmp_path / "old").mkdir()
    looks = tree.looks([str(tmp_path)], 0.0, MB)
    assert [next(looks) for _ in range(4)] == [False, False, None, False]
    (tmp_path / "large").write_bytes(os.urandom(2 * MB))
    assert True in [next(looks) for _ in range(6)]
    assert tree.written([str(tmp_path)], 0.0, MB)
    assert not tree.written([str(tmp_path)], 0.0, 1 << 40)
