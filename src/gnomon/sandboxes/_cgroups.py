"""Control groups, of either version and of both at once: what a command and all below it use together.

A group is made where this process may make one, and used again for the next command, since making one takes
longer than most commands. Those of programs that were killed are removed by whoever makes the next.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import NamedTuple

from gnomon.sandboxes._owners import in_a_name, is_left

__all__ = ["Group", "Groups", "Place", "kills_in", "place_of", "places"]

_NAME = "gnomon-"
_MOUNTS = "/proc/self/mountinfo"
_MINE = "/proc/self/cgroup"
_WANTED = ("memory", "pids")
_MOST_LEFT = 1 / 8
"""How much of the memory of a command may be taken by what others have left in its group."""


class Place(NamedTuple):
    """A folder in which groups for some controllers can be made."""

    folder: str
    controllers: tuple[str, ...]
    version: int


class _Mount(NamedTuple):
    root: str
    point: str
    kind: str
    options: tuple[str, ...]


def places(mounts: str = _MOUNTS, mine: str = _MINE) -> tuple[list[Place], str]:
    """Where groups can be made, and why there are not more of them."""
    try:
        found, own = _mounts(_text(mounts)), _own_groups(_text(mine))
    except OSError as error:
        return [], f"the groups of this process cannot be read: {error.strerror}"
    if not found:
        return [], "no control groups are mounted"
    made: list[Place] = []
    reasons: list[str] = []
    for controller in _WANTED:
        place = _version_1(controller, found, own) or _version_2(controller, found, own)
        if place is None:
            reasons.append(f"no group for {controller} can be made by this user")
        elif place.version == 2 and any(each.version == 2 and each.folder != place.folder for each in made):
            # A process is in one group of version 2: it would leave the other for this one.
            reasons.append(
                f"no group for {controller} can be made where there is one for {made[0].controllers[0]}"
            )
        else:
            made.append(place)
    return _together(made), "; ".join(reasons)


def place_of(pid: int, controller: str, within: str) -> Place | None:
    """The group that a process is in for a controller, where this process can see it. `within` is part of its
    path: another namespace of processes has others by the same number."""
    try:
        found, groups = _mounts(_text(_MOUNTS)), _own_groups(_text(f"/proc/{pid}/cgroup"))
    except OSError:
        return None
    for mount in found:
        version = 2 if mount.kind == "cgroup2" else 1
        path = groups.get("" if version == 2 else controller, "")
        folder = f"{mount.point}/{os.path.relpath(path, mount.root)}" if within in path else ""
        if version == 1 and controller not in mount.options:
            continue
        if version == 2 and controller not in ("", *_words(f"{folder}/cgroup.controllers")):
            continue
        if folder and os.path.isdir(folder):
            return Place(folder, (controller,), version)
    return None


def _together(found: list[Place]) -> list[Place]:
    """One group is enough where several controllers are in one folder."""
    by_folder: dict[str, Place] = {}
    for place in found:
        known = by_folder.get(place.folder)
        controllers = (*known.controllers, *place.controllers) if known else place.controllers
        by_folder[place.folder] = place._replace(controllers=controllers)
    return list(by_folder.values())


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _mounts(text: str) -> list[_Mount]:
    made: list[_Mount] = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) >= 5 and right and right[0] in ("cgroup", "cgroup2"):
            options = tuple(right[-1].split(","))
            made.append(_Mount(_unescaped(left[3]), _unescaped(left[4]), right[0], options))
    return made


def _unescaped(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")


def _own_groups(text: str) -> dict[str, str]:
    """Controller → the group of this process; that of version 2 under the empty name."""
    own: dict[str, str] = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        names, _, path = rest.partition(":")
        own |= dict.fromkeys(names.split(","), path)
    return own


def _version_1(controller: str, mounts: list[_Mount], own: dict[str, str]) -> Place | None:
    path = own.get(controller)
    mount = next((each for each in mounts if each.kind == "cgroup" and controller in each.options), None)
    if path is None or mount is None:
        return None
    folder = _within(mount, path)
    return Place(folder, (controller,), 1) if folder and _may_make(folder) else None


def _version_2(controller: str, mounts: list[_Mount], own: dict[str, str]) -> Place | None:
    """The nearest group above ours that hands the controller on; ours has processes, so it cannot."""
    path = own.get("")
    mount = next((each for each in mounts if each.kind == "cgroup2"), None)
    folder = _within(mount, path) if path is not None and mount is not None else None
    while folder and mount is not None and folder.startswith(mount.point):
        if controller in _words(f"{folder}/cgroup.subtree_control") and _may_make(folder):
            return Place(folder, (controller,), 2)
        folder = os.path.dirname(folder)
    return None


def _within(mount: _Mount, path: str) -> str | None:
    """The folder of a group, as far as the mount shows it."""
    below = os.path.relpath(path, mount.root)
    if below.startswith(".."):
        below = "."  # a namespace of groups: what is mounted begins at ours
    return os.path.normpath(os.path.join(mount.point, below))


def _may_make(folder: str) -> bool:
    """By trying: neither modes nor read-only mounts say it for certain."""
    trial = f"{folder}/{_NAME}{in_a_name()}-{secrets.token_hex(4)}"
    try:
        os.mkdir(trial)
    except OSError:
        return False
    with suppress(OSError):
        os.rmdir(trial)
    return os.access(f"{folder}/cgroup.procs", os.W_OK)


def _words(path: str) -> list[str]:
    try:
        return _text(path).split()
    except OSError:
        return []


class Group:
    """One group for one command at a time: a folder in each place."""

    def __init__(self, found: list[Place]) -> None:
        name = f"{_NAME}{in_a_name()}-{secrets.token_hex(4)}"
        self._folders: list[tuple[str, Place]] = []
        self._memory_bytes = 0
        try:
            for place in found:
                folder = f"{place.folder}/{name}"
                os.mkdir(folder)
                self._folders.append((folder, place))
        except OSError:
            self.remove()
            raise

    @property
    def to_join(self) -> list[str]:
        """The files that a process of one thread writes a 0 to.

        Before the kernel moves a whole process, it waits until none can be forking any more: 6 ms, or twice
        that. One thread is moved at once, and version 1 can be asked for that. In version 2 a command is born
        in its group; see `kernel.fork_into`.
        """
        return [
            f"{folder}/{'tasks' if place.version == 1 else 'cgroup.procs'}" for folder, place in self._folders
        ]

    @property
    def controllers(self) -> set[str]:
        return {each for _, place in self._folders for each in place.controllers}

    def limit(self, *, memory_bytes: int, processes: int) -> None:
        for folder, place in self._folders:
            if "pids" in place.controllers:
                _write(f"{folder}/pids.max", processes)
            if "memory" in place.controllers and memory_bytes != self._memory_bytes:
                _limit_memory(folder, place.version, memory_bytes, grows=memory_bytes > self._memory_bytes)
                self._memory_bytes = memory_bytes

    def left_bytes(self) -> int:
        """What is still counted of earlier commands: files of theirs that are kept in memory."""
        for folder, place in self._folders:
            if "memory" in place.controllers:
                name = "memory.current" if place.version == 2 else "memory.usage_in_bytes"
                return int(next(iter(_words(f"{folder}/{name}")), 0))
        return 0

    def kills_for_memory(self) -> int:
        """How often the kernel has ended something in it for want of memory."""
        for folder, place in self._folders:
            if "memory" in place.controllers:
                return kills_in(folder, place.version)
        return 0

    def remove(self) -> bool:
        """Whether it is gone: nothing is in it any more."""
        left: list[tuple[str, Place]] = []
        for folder, place in self._folders:
            try:
                os.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                left.append((folder, place))
        self._folders = left
        return not left


def _limit_memory(folder: str, version: int, memory_bytes: int, *, grows: bool) -> None:
    if version == 2:
        _write(f"{folder}/memory.max", memory_bytes)
        with suppress(OSError):  # absent where there is no swap
            _write(f"{folder}/memory.swap.max", 0)
        with suppress(OSError):
            _write(f"{folder}/memory.oom.group", 1)
        return
    # With swap it may never be less than without it, so the order depends on where it was.
    names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
    for name in reversed(names) if grows else names:
        with suppress(FileNotFoundError):  # a kernel that does not count swap
            _write_or_lower(f"{folder}/{name}", memory_bytes)


def _write_or_lower(path: str, value: int) -> None:
    try:
        _write(path, value)
    except OSError:
        if not path.endswith("memsw.limit_in_bytes"):
            raise


def _write(path: str, value: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, str(value).encode())
    finally:
        os.close(descriptor)


def kills_in(folder: str, version: int) -> int:
    """How often the kernel has ended something in a group for want of memory."""
    name = "memory.events" if version == 2 else "memory.oom_control"
    words = _words(f"{folder}/{name}")
    pairs = dict(zip(words[::2], words[1::2], strict=False))
    return int(pairs.get("oom_kill", 0))


class Groups:
    """The groups of one sandbox: as many as commands run at once, at most."""

    def __init__(self, found: list[Place]) -> None:
        self._places = found
        self._free: list[Group] = []
        self._all: list[Group] = []
        self._owner = os.getpid()
        for place in found:
            _sweep(place.folder)

    def take(self, *, memory_bytes: int, processes: int) -> Group | None:
        """A group with these limits in which nothing runs; `None` where none can be made any more."""
        self._forget_those_of_another()
        while self._free:
            group = self._free.pop()
            with suppress(OSError):  # somebody has removed it, or it holds more than it now may
                if group.left_bytes() <= memory_bytes * _MOST_LEFT:
                    group.limit(memory_bytes=memory_bytes, processes=processes)
                    return group
            if group.remove():
                self._all.remove(group)
        if not self._places:
            return None
        try:
            made = Group(self._places)
        except OSError:
            return None
        self._all.append(made)
        made.limit(memory_bytes=memory_bytes, processes=processes)
        return made

    def give_back(self, group: Group) -> None:
        self._free.append(group)

    def remove(self) -> None:
        self._forget_those_of_another()
        self._all = [group for group in self._all if not group.remove()]
        self._free.clear()

    def _forget_those_of_another(self) -> None:
        """A fork of the program has copies of its groups, in which the program runs commands of its own."""
        if self._owner != os.getpid():
            self._free, self._all, self._owner = [], [], os.getpid()


def _sweep(folder: str) -> None:
    """Remove the empty groups of programs that have ended without it."""
    with suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(_NAME) and is_left(name.removeprefix(_NAME)):
                with suppress(OSError):
                    os.rmdir(f"{folder}/{name}")
