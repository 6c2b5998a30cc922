"""The seccomp filter: its numbers are the kernel's, and what it refuses is refused."""

from __future__ import annotations

import asyncio
import platform
import re
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
ALL: dict[str, tuple[int, int]] = {
    **_seccomp.CALLS,
    **_seccomp._ABSENT,  # pyright: ignore[reportPrivateUsage]
    **_seccomp._LEAVING_THE_GROUP,  # pyright: ignore[reportPrivateUsage]
    "clone": _seccomp._CLONE,  # pyright: ignore[reportPrivateUsage]
    "socket": _seccomp._SOCKET,  # pyright: ignore[reportPrivateUsage]
    "ioctl": _seccomp._IOCTL,  # pyright: ignore[reportPrivateUsage]
    "personality": _seccomp._PERSONALITY,  # pyright: ignore[reportPrivateUsage]
}

on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the numbers are those of x86-64")


@pytest.mark.parametrize("column", [0, 1])
def test_numbers_are_those_of_the_headers(column: int) -> None:
    header = HEADERS[column]
    if not header.exists():
        pytest.skip(f"the header {header.name} is not installed")
    known = dict(re.findall(r"#define __NR_(\w+)\s+(\d+)\b", header.read_text()))
    wrong = {
        name: numbers[column]
        for name, numbers in ALL.items()
        if name in known and int(known[name]) != numbers[column]
    }
    assert wrong == {}
    assert len(set(ALL) & set(known)) > 60, "the header was read"


@pytest.mark.parametrize("column", [0, 1])
def test_no_number_stands_for_two_calls(column: int) -> None:
    numbers = [each[column] for each in ALL.values()]
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
    x86_only: Mapping[str, int] = _seccomp._X86_ONLY  # pyright: ignore[reportPrivateUsage]
    asked = {**{name: numbers[0] for name, numbers in _seccomp.CALLS.items()}, **x86_only}
    if without:
        asked |= {"setsid": 112, "setpgid": 109}
    found = await _errors(asked, without)
    assert {name for name, number in found.items() if number != 1} == set()


@on_x86
async def test_what_has_a_way_around_is_said_to_be_absent() -> None:
    absent: Mapping[str, tuple[int, int]] = _seccomp._ABSENT  # pyright: ignore[reportPrivateUsage]
    found = await _errors({name: numbers[0] for name, numbers in absent.items()}, ())
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
