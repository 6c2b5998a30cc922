"""The filter of calls in a container: it refuses what that of a sandbox without one refuses."""

from __future__ import annotations

import json
import platform
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gnomon.sandboxes import _container_calls, _seccomp
from gnomon.sandboxes.container import ContainerSandbox
from servers import containers

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")

_EACH = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
found = {}
for name, number in json.loads(sys.stdin.read()).items():
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), -1, -1, -1, -1, -1, -1)
    found[name] = ctypes.get_errno()
print(json.dumps(found))
"""

_SOME = """
import ctypes, fcntl, os, socket, sys, threading
def tried(work):
    try:
        work()
    except OSError as error:
        return error.errno
    return 0
libc = ctypes.CDLL(None, use_errno=True)
def called(*given):
    ctypes.set_errno(0)
    libc.syscall(*given)
    return ctypes.get_errno()
high = 1 << 32
open("file", "w").close()
file = os.open("file", os.O_RDONLY)
for family in (1, 2, 10, 16, 17, 38, 40):
    print(family, tried(lambda: socket.socket(family, socket.SOCK_RAW if family > 10 else 1).close()))
print("clone", called(56, 0x10000000 | 17, 0, 0, 0, 0), called(435, 0, 0), called(425, 1, 0))
print("keys", called(16, 0, 0x5412, b"x"), called(16, 0, ctypes.c_long(high | 0x5412), b"x"))
print("lease", called(72, file, 1024, 0), called(72, file, ctypes.c_long(high | 1024), 0),
      called(72, file, 1))
print("persona", called(135, 0x40000), called(135, 0x0004000), called(135, 0xFFFFFFFF))
print("chmod", tried(lambda: os.chmod("file", 0o4755)), tried(lambda: os.chmod(file, 0o2755)))
print("made", tried(lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o4755)) != 0,
      tried(lambda: os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)) != 0,
      called(452, file, b"", 0o4755, 0x1000), tried(lambda: os.mknod("made", 0o104755)),
      tried(lambda: os.open("made", os.O_CREAT | os.O_WRONLY, 0o755)))
thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
pid = os.fork()
os._exit(0) if not pid else print("child", os.waitpid(pid, 0)[1])
"""


@asynccontextmanager
async def opened() -> AsyncGenerator[ContainerSandbox, None]:
    sandbox = ContainerSandbox(containers.image(), engine="podman")
    try:
        yield sandbox
    finally:
        await sandbox.close()


@on_x86
async def test_every_call_that_is_refused_elsewhere_is_refused_in_a_container() -> None:
    asked = {**{name: numbers[0] for name, numbers in _seccomp.CALLS.items()}, **_seccomp.X86_ONLY}
    async with opened() as sandbox:
        result = await sandbox.execute("python3", ["-c", _EACH], 60, stdin=json.dumps(asked).encode())
    assert result.exit_code == 0, result.error_text
    found: dict[str, int] = json.loads(result.text)
    # Names that the engine's own library does not know yet, it cannot refuse: such a call does not exist.
    assert {name for name, number in found.items() if number not in (1, 38)} == set()
    assert sum(number == 1 for number in found.values()) > 50


@on_x86
async def test_calls_are_told_apart_by_what_they_ask_for() -> None:
    async with opened() as sandbox:
        result = await sandbox.execute("python3", ["-c", _SOME], 60)
    assert result.text.splitlines() == [
        *("1 0", "2 0", "10 0", "16 0", "17 97", "38 97", "40 97"),
        "clone 1 38 38",
        "keys 1 1",
        "lease 1 1 0",
        "persona 1 1 0",
        "chmod 1 1",
        "made True True 1 1 0",
        "thread",
        "child 0",
    ], result.error_text


def test_nothing_is_allowed_that_is_refused_elsewhere() -> None:
    rules: list[dict[str, Any]] = json.loads(_container_calls.filter_text())["syscalls"]
    allowed = {
        name for rule in rules if not rule["args"] and "ALLOW" in rule["action"] for name in rule["names"]
    }
    refused = {*_seccomp.CALLS, *_seccomp.X86_ONLY, *_seccomp.MODES, "clone3", "openat2", "socket", "clone"}
    assert allowed & refused == set()


@pytest.mark.parametrize("values", [(1024, 1026), (0,), (0xFFFFFFFF, 7), (1, 2, 10, 16)])
def test_all_other_numbers_are_all_and_no_others(values: tuple[int, ...]) -> None:
    found = list(_container_calls._all_but(values))  # pyright: ignore[reportPrivateUsage]
    tried = {*range(70), *range(1000, 1050), 1 << 31, *(0xFFFFFFFF - n for n in range(10)), *values}
    for number in tried:
        assert sum(number & mask == value for mask, value in found) == (number not in values)
