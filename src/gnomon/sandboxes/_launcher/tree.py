"""What runs below a process, and what it uses."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

__all__ = [
    "Clock",
    "Usage",
    "descendants",
    "kill_all",
    "looks",
    "may_hide_files",
    "may_hide_memory",
    "memory_of",
    "shared_by_all",
    "unlinked_bytes",
    "used",
    "written",
]

_TICKS = os.sysconf("SC_CLK_TCK")
_KILL_ROUNDS = 2_000
_MOST_FILES = 200_000
"""How many files a command may make; it is looked for only when it makes many."""
_AT_A_TIME = 1_000
_NO_FILES = (b"/dev/zero", b"/dev/shm/", b"/memfd:", b"/SYSV")
_OWN, _PARTS = ("RssAnon", "RssShmem"), ("Pss_Anon", "Pss_Shmem")
_TABLES = ("VmPTE",)
"""Where memory is, which may take more than the memory itself: all pages that are only read are one."""


class Usage(NamedTuple):
    family: list[int]
    processes: int
    memory_bytes: int
    """At most: what several share is counted for each of them."""
    cpu_s: float


class Clock:
    """Processor time of all that ran below this process.

    The kernel adds the time of a process to that of who has waited for it. Where nobody does, because the
    parent ignores the ends of its children, what was seen of it last is what is left.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int], float] = {}
        self._gone_s = 0.0

    def total_s(self, family: list[int]) -> float:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        waited_for_s = ended.ru_utime + ended.ru_stime
        seen: dict[tuple[int, int], float] = {}
        for member in family:
            fields = _read(f"/proc/{member}/stat").rpartition(b")")[2].split()
            if len(fields) > 19:
                own, of_children = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
                seen[member, int(fields[19])] = own / _TICKS  # with when it began: numbers are used again
                waited_for_s += (own + of_children) / _TICKS
        self._gone_s += sum(self._seen[one] for one in self._seen.keys() - seen.keys())
        self._seen = seen
        return max(waited_for_s, self._gone_s + sum(seen.values()))


def descendants(pid: int, most: int = sys.maxsize) -> list[int]:
    """All below it, parents before their children. Threads may have children of their own.

    Where there are more than `most`, some of them: who makes them is faster than who looks at them all.
    """
    found: list[int] = []
    open_ends = [pid]
    while open_ends and len(found) <= most:
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
        with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
            yield from map(int, file.read().split())


def used(pid: int, clock: Clock, most: int) -> Usage:
    """By all below it together. Where they are more than `most`, that alone is told, and at once."""
    family = descendants(pid, most)
    if len(family) > most:
        return Usage(family, len(family), 0, 0.0)
    told = [_status(member) for member in family]
    memory = sum(one.get(name, 0) for one in told for name in (*_OWN, *_TABLES))
    return Usage(family, sum(one.get("Threads", 0) for one in told), memory * 1024, clock.total_s(family))


def memory_of(family: Iterable[int]) -> int:
    """What several share is counted once. To know that takes as much longer as they have more."""
    total = 0
    for member in family:
        told = _status(member)
        parts = _numbers(f"/proc/{member}/smaps_rollup", _PARTS)
        # A process that does not let us look has told of none.
        own = parts or {name: told.get(name, 0) for name in _OWN}
        total += sum(own.values()) + sum(told.get(name, 0) for name in _TABLES)
    return total * 1024


def shared_by_all() -> int:
    """What the machine has in memory that belongs to no process, such as what processes share."""
    return _numbers("/proc/meminfo", ("Shmem",)).get("Shmem", 0) * 1024


def may_hide_memory(family: Iterable[int]) -> bool:
    """Whether one of these has such memory that has no name: it may have more of it than it shows."""
    for member in family:
        try:
            with open(f"/proc/{member}/maps", "rb") as file:
                if b"/dev/zero (deleted)" in file.read():
                    return True
        except PermissionError:
            return True
        except OSError:  # it has just ended
            continue
    return False


def _status(pid: int) -> dict[str, int]:
    return _numbers(f"/proc/{pid}/status", (*_OWN, *_TABLES, "Threads"))


def _numbers(path: str, names: tuple[str, ...]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in _read(path).splitlines():
        name, _, rest = line.partition(b":")
        if name.decode(errors="replace") in names:
            found[name.decode()] = int(rest.split()[0])
    return found


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
    return next(bool(found) for found in looks(folders, since, most_bytes) if found is not False)


def looks(folders: list[str], since: float, most_bytes: int) -> Iterator[bool | None]:
    """The same, step by step.

    A folder may hold a million files, and who watches has other things to do meanwhile: each step looks at
    some more of them. `None` is that there are no more; then it begins anew. What a command has put out of
    sight counts as too much.
    """
    while True:
        total = files = 0
        for number, entry in enumerate(_entries(folders, since)):
            if entry is None:
                yield True
            elif entry.st_ctime >= since - 1:
                total += entry.st_blocks * 512
                files += 1
                if total > most_bytes or files > _MOST_FILES:
                    yield True
            if number % _AT_A_TIME == _AT_A_TIME - 1:
                yield False
        yield None


def _entries(folders: list[str], since: float) -> Iterator[os.stat_result | None]:
    """All that is in them; `None` for what cannot be looked at, and where the command may have written."""
    open_ends = [*folders]
    while open_ends:
        place = open_ends.pop()
        try:
            with os.scandir(place) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        open_ends.append(entry.path)
                    try:
                        yield entry.stat(follow_symlinks=False)
                    except OSError as error:
                        if _is_out_of_sight(error, place, since):
                            yield None
        except OSError as error:
            if _is_out_of_sight(error, place, since):
                yield None


def _is_out_of_sight(error: OSError, folder: str, since: float) -> bool:
    """Deeper than a path can be, or behind a lock of its own; not what is gone, or was locked by others."""
    is_deep = error.errno == errno.ENAMETOOLONG
    return is_deep or (error.errno == errno.EACCES and _may_be_its_own(folder, since))


def _may_be_its_own(folder: str, since: float) -> bool:
    """Others' folders that nobody here may look into were there before, and stay as they are."""
    try:
        found = os.stat(folder, follow_symlinks=False)
    except OSError:
        return False
    return found.st_uid == os.geteuid() or found.st_ctime >= since - 1


def may_hide_files(members: Iterable[int]) -> bool:
    """Whether one of these has files that have no name and that it does not have open: it has them in its
    memory, or on their way through a socket. How large they are cannot be seen.
    """
    for member in members:
        try:
            if _maps_what_is_gone(member) or _sends_files(member):
                return True
        except PermissionError:
            return True
        except OSError:  # it has just ended
            continue
    return False


def _maps_what_is_gone(pid: int) -> bool:
    with open(f"/proc/{pid}/maps", "rb") as file:
        gone = [line.split(maxsplit=5)[5] for line in file if line.endswith(b" (deleted)\n")]
    return not all(path.startswith(_NO_FILES) for path in gone)


def _sends_files(pid: int) -> bool:
    names = os.listdir(f"/proc/{pid}/fd")  # where this is not to be had, what it has open is hidden too
    return any(_numbers(f"/proc/{pid}/fdinfo/{name}", ("scm_fds",)).get("scm_fds") for name in names)


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
