"""What Linux tells of processes and their sockets, read from /proc; standard library only."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["descendants", "end", "is_alive", "kill", "listening", "send", "started"]

LISTEN = "0A"
POLL_S = 0.01
_PROC = Path("/proc")


def is_alive(pid: int) -> bool:
    """Whether it, or a thread of it, runs. One that ended and waits for somebody to ask how does not."""
    return _state_and_parent(pid)[0] not in ("", "Z", "X") or _threads(pid) > 1


def started(pid: int) -> str:
    """When it began, in the kernel's ticks: tells it from a later process with the same number."""
    stat = _stat(pid)
    return stat[19] if stat else ""


def descendants(pid: int) -> list[int]:
    """Its children, theirs, and so on."""
    parents = {child: _state_and_parent(child)[1] for child in _pids()}
    found, last = [], [pid]
    while last:
        last = [child for child, parent in parents.items() if parent in last]
        found += last
    return found


def send(pid: int, sign: int) -> None:
    """A signal, if there is still somebody to take it."""
    with suppress(ProcessLookupError):
        os.kill(pid, sign)


def kill(pid: int) -> list[int]:
    """SIGKILL to a process and all below it; gives those it hit. Held still first, it has no more."""
    send(pid, signal.SIGSTOP)
    family = [*descendants(pid), pid]
    for member in family:
        send(member, signal.SIGKILL)
    return family


def end(pid: int, sign: int, limit_s: float) -> list[int]:
    """Ask a process to end, and kill what is left after `limit_s`; gives all that there were."""
    family = [*descendants(pid), pid]
    for member in family:
        send(member, signal.SIGCONT)  # one that is held still cannot listen
    send(pid, sign)
    until = time.monotonic() + limit_s
    while any(map(is_alive, family)) and time.monotonic() < until:
        time.sleep(POLL_S)
    for member in family:
        if is_alive(member):
            kill(member)
    return family


def listening(pid: int) -> set[tuple[str, int]]:
    """Where a process and all below it accept connections: address (as hexadecimal) and port."""
    mine = {inode for member in (pid, *descendants(pid)) for inode in _sockets(member)}
    tables = (line for name in ("tcp", "tcp6") for line in _table(name))
    return {
        (line[1].partition(":")[0], int(line[1].partition(":")[2], 16))
        for line in tables
        if line[3] == LISTEN and line[9] in mine
    }


def _pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(_PROC) if name.isdecimal())


def _state_and_parent(pid: int) -> tuple[str, int]:
    stat = _stat(pid)
    return (stat[0], int(stat[1])) if stat else ("", 0)


def _threads(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return len(os.listdir(_PROC / str(pid) / "task"))
    return 0


def _stat(pid: int) -> list[str]:
    """The fields from the third on: the second, a name in brackets, may hold anything."""
    try:
        return (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _sockets(pid: int) -> Iterator[str]:
    with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with suppress(OSError):
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    yield target[8:-1]


def _table(name: str) -> list[list[str]]:
    with suppress(FileNotFoundError):
        return [line.split() for line in (_PROC / "net" / name).read_text().splitlines()[1:]]
    return []
