"""Ends servers whose tests are no more: a child process that outlives whoever was killed.

One for each process that runs tests. It is told of servers on its standard input, and works when that ends
or when its parent is another process: every server that it still knows of ends, and its folder goes.

PR_SET_PDEATHSIG would not do: it fires when the thread that started a server ends, and leaves the folder.
"""

from __future__ import annotations

import atexit
import os
import select
import shutil
import subprocess
import sys
import threading
from pathlib import Path

__all__ = ["forget", "watch"]

LOOK_S = 1.0
END_S = 5.0
_lock = threading.Lock()
_watchdogs: dict[int, subprocess.Popen[bytes]] = {}


def watch(folder: Path, pid: int, sign: int) -> None:
    """This server is to end with this process. `pid` 0 is a server that is down: its folder is to go."""
    _say(f"{folder}\t{pid}\t{sign}\n")


def forget(folder: Path) -> None:
    """This server ended, and its folder is gone."""
    _say(f"{folder}\n")


def _say(line: str) -> None:
    with _lock:
        process = _watchdogs.get(os.getpid()) or _start()
        assert process.stdin is not None
        process.stdin.write(line.encode())
        process.stdin.flush()


def _start() -> subprocess.Popen[bytes]:
    command = [sys.executable, "-I", str(Path(__file__)), str(os.getpid())]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    _watchdogs[os.getpid()] = process
    atexit.register(_close, process, os.getpid())
    return process


def _close(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner and process.stdin is not None:  # and not a fork of it
        process.stdin.close()
        process.wait()


# --- the child ---------------------------------------------------------------


def _main(parent: int) -> None:
    known: dict[str, tuple[int, str, int]] = {}
    rest = b""
    while select.select([0], [], [], LOOK_S)[0] or os.getppid() == parent:
        if not select.select([0], [], [], 0)[0]:
            continue
        if not (read := os.read(0, 65536)):
            break
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            _learn(known, *line.decode().split("\t"))
    for folder, (pid, started, sign) in known.items():
        _clear(Path(folder), pid, started, sign)


def _learn(known: dict[str, tuple[int, str, int]], folder: str, pid: str = "", sign: str = "") -> None:
    if pid:
        known[folder] = (int(pid), linux.started(int(pid)), int(sign))
    else:
        known.pop(folder, None)


def _clear(folder: Path, pid: int, started: str, sign: int) -> None:
    if pid and linux.started(pid) == started:  # and not another process that was given its number
        linux.end(pid, sign, END_S)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    import linux

    _main(int(sys.argv[1]))
