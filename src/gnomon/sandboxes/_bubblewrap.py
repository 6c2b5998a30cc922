"""The arguments of bubblewrap: a root of its own, in which there is what a command needs and nothing else."""

from __future__ import annotations

import os
from typing import NamedTuple

from gnomon.sandboxes._limits import Limits

__all__ = ["HOME", "USER", "Room", "wrapped"]

HOME = "/tmp"  # noqa: S108 - the command's own, fresh each time
USER = 1000
_EMPTY = (f"{HOME}/", "/var/tmp/", "/dev/shm/")  # noqa: S108 - of the command
_SECRET_FACTS = ("/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/sched_debug", "/proc/timer_list")
"""What /proc says of the whole machine, to root or to everybody."""


class Room(NamedTuple):
    """What is shown in the sandbox. Paths are the same inside as outside."""

    links: list[tuple[str, str]]
    folders: list[str]
    """To be read."""
    etc: str
    etc_folders: list[str]
    writable: list[str]
    """Of these and the folders to be read none lies in another of these: whoever may write there could put a
    link in its place, which would then be followed from outside."""


def wrapped(
    program: str, room: Room, limits: Limits, *, cwd: str, has_filter: bool, argv: list[str]
) -> list[str]:
    """The whole command. What begins with @ stands for a descriptor, which the supervisor puts in."""
    return [
        program,
        *("--unshare-user", "--uid", str(USER), "--gid", str(USER)),
        *("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--hostname", "sandbox"),
        *(() if limits.network else ("--unshare-net",)),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *_system(room),
        *_fresh(limits),
        *_own(room),
        *_kernel_files(),
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", cwd, "--json-status-fd", "@STATUS", "--block-fd", "@BLOCK"),
        *(("--seccomp", "@FILTER") if has_filter else ()),
        "--",
        *argv,
    ]


def _system(room: Room) -> list[str]:
    made: list[str] = []
    for path in room.folders:
        if not _begins_empty(path):
            made += ["--ro-bind-try", path, path]
    for target, path in room.links:
        made += ["--symlink", target, path]
    made += ["--ro-bind", room.etc, "/etc"]
    for path in room.etc_folders:
        made += ["--ro-bind-try", path, path]
    return made


def _fresh(limits: Limits) -> list[str]:
    """What begins empty with each command. A tmpfs without a size would be half of the machine's memory."""
    room = str(limits.disk_bytes)
    shared = str(min(limits.disk_bytes, limits.memory_bytes))
    return [
        *("--proc", "/proc", "--dev", "/dev"),
        *("--perms", "1777", "--size", shared, "--tmpfs", "/dev/shm"),  # noqa: S108 - the command's own
        *("--perms", "1777", "--size", room, "--tmpfs", HOME),
        *("--dir", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp"),  # noqa: S108 - it leads there
    ]


def _kernel_files() -> list[str]:
    """Nothing in /proc is written to.

    Where this is root, the kernel takes the command for root when it changes a setting, in spite of its user
    namespace; and one of the settings is a program that the host runs when something crashes.
    """
    made: list[str] = []
    for path in _SECRET_FACTS:
        if os.path.exists(path):
            made += ["--ro-bind", "/dev/null", path]
    return [*made, "--remount-ro", "/proc"]


def _own(room: Room) -> list[str]:
    made: list[str] = []
    for path in room.folders:
        if _begins_empty(path):  # shown earlier, it would lie under the empty folder
            made += ["--ro-bind-try", path, path]
    for path in room.writable:
        made += ["--bind", path, path]
    return made


def _begins_empty(path: str) -> bool:
    """Whether it lies in a folder that is the command's own, or leads there."""
    return path.startswith(_EMPTY)
