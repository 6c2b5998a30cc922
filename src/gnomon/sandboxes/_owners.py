"""Who made a container, a folder or a group, in a word that another process can ask the system about."""

from __future__ import annotations

import os

__all__ = ["in_a_name", "is_gone", "is_left", "oneself"]


def oneself() -> str:
    """This process: not its number alone, which another may have later, or has in another namespace."""
    return f"{_place()}:{os.getpid()}:{_began(os.getpid())}"


def is_gone(owner: str) -> bool:
    """Whether that process has ended for certain; nobody knows of processes elsewhere."""
    place, _, who = owner.partition(":")
    pid, _, began = who.partition(":")
    return place == _place() and pid.isdigit() and _began(int(pid)) != began


def in_a_name() -> str:
    """This process, short and of digits: its number, and the namespace that it has it in."""
    return f"{os.getpid()}-{_namespace()}"


def is_left(name: str) -> bool:
    """Whether it begins with such a word, of a process that is gone for certain. Folders and groups are
    shared by containers, and each has processes of its own that the others cannot see.
    """
    pid, _, rest = name.partition("-")
    namespace = rest.partition("-")[0]
    return namespace == str(_namespace()) and pid.isdigit() and not os.path.exists(f"/proc/{pid}")


def _namespace() -> int:
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def _place() -> str:
    """This start of this machine, and this namespace of processes on it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot}-{_namespace()}"
    except OSError:
        return os.uname().nodename


def _began(pid: int) -> str:
    """When it was started, as the kernel counts; nothing for a process that is not there."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""
