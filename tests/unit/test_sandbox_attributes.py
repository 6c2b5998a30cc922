"""Modes, owners and times of files under Landlock, which has no rules for them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnomon.sandboxes._survey import survey
from gnomon.sandboxes.process import ProcessSandbox
from gnomon.types.steps import ExecResult

pytestmark = pytest.mark.skipif(
    survey(("bubblewrap",)).level != "process", reason="this machine has no Landlock or no filter for it"
)


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[ProcessSandbox]:
    (tmp_path / "work").mkdir()
    made = ProcessSandbox(tmp_path / "work", without=("bubblewrap",))
    yield made
    asyncio.run(made.close())


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of the host that nobody showed to the command."""
    file = tmp_path / "outside"
    file.write_text("of the host")
    file.chmod(0o640)
    os.utime(file, (1_000_000_000, 1_000_000_000))
    return file


async def run(sandbox: ProcessSandbox, script: str) -> ExecResult:
    return await sandbox.execute("sh", ["-c", script], 20.0)


def is_untouched(outside: Path) -> bool:
    found = outside.stat()
    return (found.st_mode & 0o7777, found.st_mtime, found.st_uid) == (0o640, 1_000_000_000, os.getuid())


async def test_in_the_workspace_all_goes_as_programs_expect(sandbox: ProcessSandbox) -> None:
    script = """
        set -e
        echo text > file; chmod 640 file; chmod u+x ./file; stat -c %a file
        touch -d '2001-02-03 04:05:06 UTC' file; stat -c %Y file
        cp -p file copy; stat -c '%a %Y' copy
        mkdir folder; tar cf all.tar file copy; tar xf all.tar -C folder; stat -c '%a %Y' folder/copy
        ln -s file link; chmod 600 link; stat -c %a file
        touch -h -d '2001-02-03 04:05:06 UTC' link; stat -c %Y link
        cd folder; chmod 711 ../file "$PWD/copy"; stat -c %a ../file copy
        touch new; chown $(id -u):$(id -g) new
    """
    result = await run(sandbox, script)
    expected = "740 981173106 740 981173106 740 981173106 600 981173106 711 711"
    assert result.text.split() == expected.split(), result.error_text
    assert result.exit_code == 0, result.error_text


async def test_through_descriptors_too(sandbox: ProcessSandbox) -> None:
    code = """
import os, shutil
open("file", "w").close()
file, folder = os.open("file", os.O_RDONLY), os.open(".", os.O_RDONLY)
os.fchmod(file, 0o711)
os.utime(file, (5, 6))
print(oct(os.stat("file").st_mode), os.stat("file").st_mtime)
os.chmod("file", 0o700, dir_fd=folder)
os.chmod(f"/proc/self/fd/{file}", 0o701)
os.chmod(f"/dev/fd/{file}", 0o702)
os.utime("file", ns=(7, 8), dir_fd=folder)
shutil.copy2("file", "copy")
print(oct(os.stat("copy").st_mode), os.stat("copy").st_mtime_ns)
os.utime("file")
print(os.stat("file").st_mtime > 1e9)
"""
    result = await sandbox.execute(sandbox.python, ["-c", code], 20.0)
    assert result.text.split() == ["0o100711", "6.0", "0o100702", "8", "True"], result.error_text


@pytest.mark.parametrize(
    "script",
    [
        "chmod 777 {0}",
        "chmod 000 ../outside",
        "ln -s {0} link; chmod 000 link",
        "ln -s .. up; chmod 000 up/outside",
        "touch -d 2001-01-01 {0}",
        "touch -h {0}",
        "chown 1:1 {0}",
        "cd /; chmod 000 .{0}",
        "{1} -c 'import os; os.chmod(\"/proc/self/cwd/../outside\", 0)'",
        "{1} -c 'import os; os.chmod(os.open(\"..\", os.O_PATH), 0)'",
        '{1} -c \'import os; os.chmod("outside", 0, dir_fd=os.open("..", os.O_PATH))\'',
        '{1} -c \'import os; os.utime("outside", (5, 5), dir_fd=os.open("..", os.O_PATH))\'',
    ],
)
async def test_outside_nothing_is_changed(sandbox: ProcessSandbox, outside: Path, script: str) -> None:
    before = outside.parent.stat().st_mode
    result = await run(sandbox, script.format(outside, sandbox.python))
    assert result.exit_code != 0
    assert is_untouched(outside)
    assert outside.parent.stat().st_mode == before


async def test_what_may_only_be_read_is_not_changed_through_what_was_opened(sandbox: ProcessSandbox) -> None:
    code = """
import fcntl, os, struct, sys
file = os.open(os.__file__, os.O_RDONLY)
for work in (
    lambda: os.fchmod(file, 0o600),
    lambda: os.fchown(file, 1, 1),
    lambda: os.utime(file, (5, 5)),
    lambda: os.setxattr(file, "user.x", b"y"),
    lambda: fcntl.ioctl(file, 0x40086602, struct.pack("q", 0x40)),
    lambda: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK),
):
    try:
        work()
        print("done")
    except OSError as error:
        print(error.errno)
"""
    before = os.stat(os.__file__)
    result = await sandbox.execute(sandbox.python, ["-c", code], 20.0)
    assert result.text.split() == ["1", "1", "1", "95", "1", "1"], result.error_text
    after = os.stat(os.__file__)
    assert (before.st_mode, before.st_mtime, before.st_ctime) == (
        after.st_mode,
        after.st_mtime,
        after.st_ctime,
    )


async def test_a_link_that_is_swapped_all_the_time_leads_nowhere(
    sandbox: ProcessSandbox, outside: Path
) -> None:
    code = f"""
import os, threading, time
open("own", "w").close()
os.symlink("own", "good"); os.symlink({str(outside)!r}, "bad"); os.symlink("own", "link")
until = time.monotonic() + 2
def swap():
    while time.monotonic() < until:
        for name in ("bad", "good"):
            os.symlink(os.readlink(name), "next"); os.rename("next", "link")
threading.Thread(target=swap).start()
done = refused = 0
while time.monotonic() < until:
    try:
        os.chmod("link", 0o777)
        done += 1
    except OSError:
        refused += 1
print(done > 0, refused > 0)
"""
    result = await sandbox.execute(sandbox.python, ["-c", code], 20.0)
    assert result.text.split() == ["True", "True"], result.error_text
    assert is_untouched(outside)


async def test_what_cannot_be_read_of_a_call_is_refused_and_the_next_is_answered(
    sandbox: ProcessSandbox,
) -> None:
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
open("file", "w").close()
def tried(*arguments):
    ctypes.set_errno(0)
    libc.syscall(*map(ctypes.c_long, arguments))
    return ctypes.get_errno()
at = {"x86_64": (268, 280), "aarch64": (53, 88)}[os.uname().machine]
long = ctypes.create_string_buffer(b"x" * 9000)
place = ctypes.addressof(long)
print(tried(at[0], -100, 1, 0o700), tried(at[0], -100, -1, 0o700), tried(at[0], 999, 0, 0o700))
print(tried(at[0], -100, place, 0o700), tried(at[1], 999, 0, 0, 0), tried(at[1], -100, 1, 1, 0))
os.chmod("file", 0o711)
try:
    os.chmod("missing", 0o700)
except FileNotFoundError as error:
    print(error.errno)
"""
    result = await sandbox.execute(sandbox.python, ["-c", code], 20.0)
    *odd, missing = result.text.split()
    assert len(odd) == 6, result.error_text
    assert "0" not in odd
    assert missing == "2"


@pytest.fixture
def other() -> Iterator[int]:
    """A process of the host's."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.kill()
    process.communicate()


@pytest.mark.parametrize(
    ("act", "own"),
    [
        (
            "resource.prlimit({0}, resource.RLIMIT_CPU, (1, 1))",
            "resource.setrlimit(resource.RLIMIT_CPU, (9, 9))",
        ),
        ("os.setpriority(os.PRIO_PROCESS, {0}, 10)", "os.nice(3)"),
        ("os.sched_setaffinity({0}, {{0}})", "os.sched_setaffinity(0, os.sched_getaffinity(0))"),
    ],
)
async def test_processes_of_the_host_keep_their_limits_and_their_place(
    sandbox: ProcessSandbox, other: int, act: str, own: str
) -> None:
    refused = await sandbox.execute(sandbox.python, ["-c", f"import os, resource; {act.format(other)}"], 20.0)
    assert "Operation not permitted" in refused.error_text
    result = await sandbox.execute(sandbox.python, ["-c", f"import os, resource; {own}"], 20.0)
    assert result.exit_code == 0, result.error_text


async def test_many_processes_ask_at_once(sandbox: ProcessSandbox) -> None:
    each = "(for m in 1 2 3 4 5; do touch $n.$m; chmod 711 $n.$m; done)"
    script = f"for n in 1 2 3 4 5 6 7 8; do {each} & done; wait; stat -c %a *.* | sort | uniq -c"
    result = await run(sandbox, script)
    assert result.text.split() == ["40", "711"], result.error_text
