"""A container as the host's kernel shows it: what is left in it can hide inside, and not from here.

Where the engine is elsewhere (a virtual machine, another namespace of processes) or belongs to another user,
there is no such sight, and a container serves one command only.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from gnomon.sandboxes._cgroups import Place, kills_in, place_of

__all__ = ["Sight", "sight_of"]

_FRESH = ("tmpfs", "mqueue")
"""Kinds of file systems that begin empty with a container."""
_KERNEL = ("proc", "sysfs", "devpts", "cgroup", "cgroup2")
_MOST_ENTRIES = 2_000
_SETTLES_S = 0.03
"""How long the kernel may take to count a process out that has ended."""
_STARTS_S = 5.0
_POLL_S = 0.001

_Entries = dict[str, tuple[object, ...]]


class _State(NamedTuple):
    members: frozenset[int]
    entries: _Entries


class Sight:
    """Of one container, by its first process: with that, all the others in it end."""

    def __init__(
        self, pid: int, pidfd: int, processes: Place, memory: Place | None, cpu: Place | None
    ) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self._processes = processes
        self._memory = memory
        self._cpu = cpu
        self._folders: list[str] | None = None
        self._lock = threading.Lock()
        self._closed = weakref.finalize(self, os.close, pidfd)
        self._fresh: _State | None = None

    # --- its end

    def kill(self) -> bool:
        """End everything in it, at once. Whether this process may."""
        return self._signal(signal.SIGKILL)

    def is_over(self, within_s: float = 0.0) -> bool:
        if not self._closed.alive:
            return True
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(within_s * 1000))

    def close(self) -> None:
        with self._lock:
            self._closed()

    def _signal(self, number: int) -> bool:
        with self._lock:
            if not self._closed.alive:  # the descriptor may be another container's by now
                return True
            try:
                signal.pidfd_send_signal(self.pidfd, number)
            except ProcessLookupError:
                return True
            except OSError:
                return False
            return True

    # --- what it uses

    def kills_for_memory(self) -> int:
        return kills_in(self._memory.folder, self._memory.version) if self._memory else 0

    def cpu_s(self) -> float:
        """Of all its processes, also those that have ended."""
        if self._cpu is None:
            return 0.0
        with suppress(OSError, ValueError, IndexError):
            if self._cpu.version == 1:
                return int(_text(f"{self._cpu.folder}/cpuacct.usage")) / 1e9
            return int(_text(f"{self._cpu.folder}/cpu.stat").split()[1]) / 1e6
        return 0.0

    def members(self) -> frozenset[int]:
        return frozenset(int(pid) for pid in _text(f"{self._processes.folder}/cgroup.procs").split())

    # --- whether it is as new

    def remember(self, processes: int, workspace: str) -> None:
        """How it is before its first command, once as many processes run as there should be."""
        until = time.monotonic() + _STARTS_S
        while len(self.members()) != processes:
            if time.monotonic() > until or self.is_over():
                return
            time.sleep(_POLL_S)
        self._spare(self.members())
        with suppress(OSError):
            self._folders = _fresh_folders(self.pid, workspace)
            if self._folders is not None and self._signal(0):
                self._fresh = self._state()

    def _spare(self, keepers: frozenset[int]) -> None:
        """Let the kernel end commands for want of memory, and not these, with which all would be lost."""
        with suppress(OSError):  # only root may
            for pid in keepers:
                with open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
                    file.write("0")

    @property
    def can_tell(self) -> bool:
        """Whether it can be seen that nothing is left in it."""
        return self._fresh is not None

    def has_left_processes(self) -> bool:
        """Whether a command has left some; those that are just ending have a moment for it."""
        if self._fresh is None:
            return True
        until = time.monotonic() + _SETTLES_S
        while self.members() != self._fresh.members:
            if time.monotonic() > until:
                return True
            time.sleep(_POLL_S)
        return False

    def is_as_new(self) -> bool:
        try:
            return self._fresh is not None and self._state() == self._fresh
        except (OSError, RecursionError):  # folders in folders without end
            return False

    def _state(self) -> _State:
        entries: _Entries = {}
        for folder in self._folders or ():
            entries |= _entries(f"/proc/{self.pid}/root{folder}")
        return _State(self.members(), entries)


def sight_of(pid: int, container: str) -> Sight | None:
    """`None` where the container cannot be seen from here."""
    if sys.platform != "linux" or pid <= 0:
        return None
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return None
    # Once the descriptor is there, so that what is looked at is this process, and no other by its number.
    processes = place_of(pid, "pids", container) or place_of(pid, "", container)
    if processes is None:
        os.close(pidfd)
        return None
    cpu = place_of(pid, "cpuacct", container) or place_of(pid, "cpu", container)
    return Sight(pid, pidfd, processes, place_of(pid, "memory", container), cpu)


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _fresh_folders(pid: int, workspace: str) -> list[str] | None:
    """Where a command can leave something beside the workspace; `None`: in more than can be seen."""
    folders: list[str] = []
    for line in _text(f"/proc/{pid}/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        point, options, kind = left.split()[4], left.split()[5].split(","), right.split()[0]
        if "rw" not in options or point == workspace or kind in _KERNEL:
            continue
        if point.startswith(("/proc/", "/sys/")):  # covered by the engine, and nobody's to write to
            continue
        if kind not in _FRESH:  # a volume that the image asks for
            return None
        folders.append(point.replace("\\040", " "))
    return folders


def _entries(folder: str) -> _Entries:
    """It and all that is in it. What was changed has another time of change, which no program can set.

    The folder itself has one for each file that is gone again, and a device for its use.
    """
    own = os.stat(folder)
    found: _Entries = {folder: (*_rights(own), *_attributes(folder))}
    for path, facts in _below(folder, own.st_dev):
        is_device = stat.S_ISCHR(facts.st_mode) or stat.S_ISBLK(facts.st_mode)
        found[path] = facts.st_ino, *(_rights(facts) if is_device else (facts.st_ctime_ns,))
        if len(found) > _MOST_ENTRIES:
            raise OSError("there is too much to look through")
    return found


def _rights(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_mode, facts.st_uid, facts.st_gid


def _attributes(folder: str) -> list[tuple[str, bytes]]:
    return [(name, os.getxattr(folder, name)) for name in sorted(os.listxattr(folder))]


def _below(folder: str, device: int) -> Iterator[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            facts = entry.stat(follow_symlinks=False)
            if facts.st_dev != device:
                continue
            yield entry.path, facts
            if stat.S_ISDIR(facts.st_mode):
                yield from _below(entry.path, device)
