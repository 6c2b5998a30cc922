"""What runs below a process, and what it uses."""

from __future__ import annotations

import os
import resource
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

__all__ = ["Usage", "descendants", "kill_all", "unlinked_bytes", "used", "written"]

_TICKS = os.sysconf("SC_CLK_TCK")
_KILL_ROUNDS = 2_000
_MOST_FILES = 200_000
"""How many files a command may make; it is looked for only when it makes many."""


class Usage(NamedTuple):
    processes: int
    memory_bytes: int
    cpu_s: float


def descendants(pid: int) -> list[int]:
    """All below it, parents before their children. Threads may have children of their own."""
    found: list[int] = []
    open_ends = [pid]
    while open_ends:
        children = list(_children(open_ends.pop()))
        found += children
        open_ends += children
    return found


def _children(pid: int) -> Iterator[int]:
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return
    for thread in threads:
        yield from map(int, _read(f"/proc/{pid}/task/{thread}/children").split())


def used(pid: int) -> Usage:
    """By all below it together. What several share is counted once, as the most that one of them has."""
    family = descendants(pid)
    own = shared = 0
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = ended.ru_utime + ended.ru_stime
    for member in family:
        status = _status(member)
        own += status.get("RssAnon", 0)
        shared = max(shared, status.get("RssShmem", 0))
        cpu_s += _cpu_s(member)
    return Usage(_threads(family), (own + shared) * 1024, cpu_s)


def _threads(family: list[int]) -> int:
    return sum(_status(member).get("Threads", 0) for member in family)


def _status(pid: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in _read(f"/proc/{pid}/status").splitlines():
        name, _, rest = line.partition(b":")
        if name in (b"RssAnon", b"RssShmem", b"Threads"):
            found[name.decode()] = int(rest.split()[0])
    return found


def _cpu_s(pid: int) -> float:
    """Its own time and that of its children that have ended."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS if len(fields) > 15 else 0.0


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(65_536) or b""
    except OSError:  # it has just ended
        return b""


def kill_all(group: int = 0) -> None:
    """Ends the process group, and all else below this process, until there is nothing left to wait for."""
    for number in range(_KILL_ROUNDS):
        if group:
            with suppress(OSError):
                os.killpg(group, signal.SIGKILL)
        for member in descendants(os.getpid()):
            with suppress(OSError):
                os.kill(member, signal.SIGKILL)
        if not _reap():
            return
        time.sleep(min(0.0001 * (number + 1), 0.001))  # most are gone at once, or nearly so


def _reap() -> bool:
    """Whether there are children left."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
        except ChildProcessError:
            return False
        if ended is None:
            return True


def written(folders: list[str], since: float, most_bytes: int) -> bool:
    """Whether more than so many bytes, or very many files, were written there since then."""
    total = files = 0
    for folder in folders:
        for entry in _entries(folder):
            if entry.st_ctime >= since - 1:
                total += entry.st_blocks * 512
                files += 1
                if total > most_bytes or files > _MOST_FILES:
                    return True
    return False


def _entries(folder: str) -> Iterator[os.stat_result]:
    open_ends = [folder]
    while open_ends:
        try:
            with os.scandir(open_ends.pop()) as entries:
                for entry in entries:
                    with suppress(OSError):
                        if entry.is_dir(follow_symlinks=False):
                            open_ends.append(entry.path)
                        yield entry.stat(follow_symlinks=False)
        except OSError:
            continue


def unlinked_bytes(members: Iterable[int]) -> int:
    """What files take that have no name any more, and that one of these processes still has open."""
    seen: dict[tuple[int, int], int] = {}
    for member in members:
        folder = f"/proc/{member}/fd"
        with suppress(OSError):
            for name in os.listdir(folder):
                with suppress(OSError):
                    found = os.stat(f"{folder}/{name}")
                    if found.st_nlink == 0 and stat.S_ISREG(found.st_mode):
                        seen[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(seen.values())
