"""The seccomp filter: its numbers are the kernel's, and what it refuses is refused."""

from __future__ import annotations

import asyncio
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gnomon.sandboxes import _seccomp
from gnomon.sandboxes.process import ProcessSandbox

HEADERS = {
    0: Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    1: Path("/usr/include/asm-generic/unistd.h"),
}
# pyright: reportPrivateUsage=false
ALL: dict[str, tuple[int, int]] = {
    **_seccomp.CALLS,
    **_seccomp.ALONE,
    **_seccomp.ASKED,
    **_seccomp._ABSENT,
    **_seccomp._XATTRS,
    **_seccomp._OF_ITSELF,
    **{name: numbers for name, (numbers, _) in _seccomp.MODES.items()},
    **{name: numbers for name, (numbers, _) in _seccomp._OF_ITS_GROUP.items()},
    **_seccomp._UNCOUNTED,
    "clone": _seccomp._CLONE,
    "socket": _seccomp._SOCKET,
    "socketpair": _seccomp._SOCKETPAIR,
    "ioctl": _seccomp._IOCTL,
    "fcntl": _seccomp._FCNTL,
    "personality": _seccomp._PERSONALITY,
    "openat2": _seccomp._OPENAT2,
    "truncate": _seccomp._TRUNCATE,
}

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")


@pytest.mark.parametrize("column", [0, 1])
def test_numbers_are_those_of_the_headers(column: int) -> None:
    header = HEADERS[column]
    if not header.exists():
        pytest.skip(f"the header {header.name} is not installed")
    known = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)\b", header.read_text()))
    wrong = {
        name: numbers[column]
        for name, numbers in ALL.items()
        if name in known and int(known[name]) != numbers[column]
    }
    assert wrong == {}
    assert len(set(ALL) & set(known)) > 60, "the header was read"


@pytest.mark.parametrize("column", [0, 1])
def test_no_number_stands_for_two_calls(column: int) -> None:
    numbers = [each[column] for each in ALL.values() if each[column] >= 0]
    assert len(numbers) == len(set(numbers))


_TRY = """
import ctypes, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, number in json.loads(sys.stdin.read()).items():
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), -1, -1, -1, -1, -1, -1)
    found[name] = ctypes.get_errno()
print(json.dumps(found))
"""


@on_x86
@pytest.mark.parametrize("without", [(), ("bubblewrap",)])
async def test_what_is_refused_is_refused(without: tuple[Any, ...]) -> None:
    x86_only: Mapping[str, int] = _seccomp.X86_ONLY
    asked = {**{name: numbers[0] for name, numbers in _seccomp.CALLS.items()}, **x86_only}
    if without:
        asked |= {name: numbers[0] for name, numbers in _seccomp.ALONE.items()}
        asked |= {name: numbers[0] for name, numbers in _seccomp._OF_ITSELF.items()}
        asked |= {name: numbers[0] for name, (numbers, _) in _seccomp._OF_ITS_GROUP.items()}
    found = await _errors(asked, without)
    assert {name for name, number in found.items() if number != 1} == set()


@on_x86
async def test_what_has_a_way_around_is_said_to_be_absent() -> None:
    absent: Mapping[str, tuple[int, int]] = _seccomp._ABSENT
    found = await _errors({**{name: numbers[0] for name, numbers in absent.items()}, "openat2": 437}, ())
    assert set(found.values()) == {38}


async def _errors(asked: Mapping[str, int], without: tuple[Any, ...]) -> dict[str, int]:
    import json

    sandbox = ProcessSandbox(without=without)
    try:
        result = await sandbox.execute(
            sandbox.python, ["-c", _TRY], 20.0, stdin=json.dumps(dict(asked)).encode()
        )
    finally:
        await asyncio.shield(sandbox.close())
    assert result.exit_code == 0, result.error_text
    return json.loads(result.text)


@on_x86
async def test_sockets_namespaces_and_keys_of_a_terminal() -> None:
    code = """
import ctypes, fcntl, os, socket
def tried(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)  # clone(CLONE_NEWUSER)
print(ctypes.get_errno(), tried(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)),
      tried(lambda: socket.socket(40, 1)), tried(lambda: socket.socket(socket.AF_UNIX)),
      tried(lambda: fcntl.ioctl(0, 0x5412, b"x")), tried(lambda: fcntl.ioctl(0, 0x541C, b"x")))
pid = os.fork()
os._exit(0) if not pid else print(os.waitpid(pid, 0)[1])
import threading; threading.Thread(target=print, args=("thread",)).start()
"""
    sandbox = ProcessSandbox()
    try:
        result = await sandbox.execute(sandbox.python, ["-c", code], 20.0)
    finally:
        await sandbox.close()
    assert result.text.split() == ["1", "97", "97", "0", "1", "1", "0", "thread"], result.error_text


@on_x86
@pytest.mark.parametrize("without", [(), ("bubblewrap",)])
async def test_no_file_is_left_that_runs_as_its_owner(without: tuple[Any, ...], tmp_path: Path) -> None:
    code = """
import os
open("file", "w").close()
os.mkdir("folder")
file = os.open("file", os.O_RDONLY)
for work in (
    lambda: os.chmod("file", 0o4755),
    lambda: os.chmod(file, 0o2755),
    lambda: os.chmod("file", 0o4755, dir_fd=os.open(".", os.O_RDONLY)),
    lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755),
    lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755),
    lambda: os.mknod("made", 0o104755),
):
    try:
        work()
        print("done")
    except OSError as error:
        print(error.errno)
os.chmod("file", 0o700)
"""
    sandbox = ProcessSandbox(tmp_path, without=without)
    try:
        result = await sandbox.execute(sandbox.python, ["-c", code], 20.0)
    finally:
        await sandbox.close()
    assert result.text.split() == ["1"] * 6, result.error_text
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o700


_LEAVE = """
import os
for leave in (os.setsid, lambda: os.setpgid(0, 0), lambda: os.setpgid(0, os.getppid())):
    child = os.fork()
    if not child:
        try:
            leave()
        except PermissionError:
            os._exit(1)
        os._exit(0)
    print(os.waitpid(child, 0)[1] >> 8)
"""


async def test_without_namespaces_nobody_leaves_its_process_group() -> None:
    sandbox = ProcessSandbox(without=("bubblewrap",))
    try:
        result = await sandbox.execute(sandbox.python, ["-c", _LEAVE], 20.0)
    finally:
        await sandbox.close()
    assert result.text.split() == ["1", "1", "1"], result.error_text


# getpid of a 32-bit machine, by the door that such programs take: mov eax, 20; int 0x80; ret
_OTHER_NUMBERS = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
code.write(bytes.fromhex("b814000000cd80c3"))
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
print("came back with", call(), flush=True)
"""


@on_x86
@pytest.mark.parametrize("without", [(), ("bubblewrap",), ("bubblewrap", "landlock")])
async def test_a_call_by_the_numbers_of_another_machine_ends_who_makes_it(without: tuple[Any, ...]) -> None:
    """They mean other calls: what is refused by one number would be allowed by the other."""
    sandbox = ProcessSandbox(without=without, require="none")
    try:
        result = await sandbox.execute(sandbox.python, ["-c", _OTHER_NUMBERS], 20.0)
    finally:
        await sandbox.close()
    assert (result.exit_code, result.text) == (128 + signal.SIGSYS, ""), result


_UNDER_A_FILTER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from _launcher import kernel
kernel.no_new_privileges()
kernel.load_filter(bytes.fromhex(sys.argv[2]), listens=True)
for work in (
    lambda: os.truncate("file", 0),
    lambda: os.open("file", os.O_RDONLY | os.O_TRUNC),
    lambda: os.open("file", os.O_RDONLY),
    lambda: os.open("file", os.O_WRONLY | os.O_TRUNC),
):
    try:
        work()
        print("done", flush=True)
    except OSError as error:
        print(error.errno, flush=True)
"""


@on_x86
@pytest.mark.parametrize(("landlock", "said"), [(2, ["1", "1", "done", "done"]), (3, ["done"] * 4)])
def test_an_old_landlock_lets_files_be_cut_short_and_the_filter_does_not(
    landlock: int, said: list[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("text")
    program = _seccomp.filter_program((), alone=True, landlock=landlock)
    folder = Path(_seccomp.__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", _UNDER_A_FILTER, str(folder), program.hex()],
        cwd=tmp_path,
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert done.stdout.decode().split() == said
