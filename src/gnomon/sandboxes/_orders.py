"""The order that a supervisor is given, written on this side. `_launcher/order.py` reads it."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from gnomon.sandboxes._limits import Limits

__all__ = ["Confinement", "rlimits", "written"]

_MB = 1 << 20
_OPEN_FILES = 1024


class Confinement(NamedTuple):
    """How one command is held, beside its limits."""

    cgroups: list[str]
    watched: list[str]
    filter_program: bytes
    is_wrapped: bool
    readable: list[str]
    writable: list[str]
    devices: list[str]
    landlock: bool
    disk_of: list[str]
    drop: bool
    uid: int
    gid: int


def rlimits(limits: Limits, timeout_s: float) -> dict[str, int]:
    """What the kernel holds of each process by itself. Of memory it counts what a process can write to."""
    return {
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": _OPEN_FILES,
        "RLIMIT_FSIZE": limits.disk_bytes,
        "RLIMIT_DATA": limits.memory_bytes,
        "RLIMIT_CPU": max(1, int(limits.cpu_s) + 1),
        "RLIMIT_MEMLOCK": min(limits.memory_bytes, 8 * _MB),
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_SIGPENDING": 1024,
    }


def written(
    argv: list[str], env: dict[str, str], cwd: str, timeout_s: float, limits: Limits, held: Confinement
) -> int:
    """A file in memory with the order. Names that are not UTF-8 travel as surrogates."""
    order: dict[str, object] = {
        "argv": argv,
        "env": env,
        "cwd": cwd,
        "timeout_s": timeout_s,
        "rlimits": rlimits(limits, timeout_s),
        "processes": limits.processes,
        "memory_bytes": limits.memory_bytes,
        "cpu_s": limits.cpu_s,
        "disk_bytes": limits.disk_bytes,
        "disk_of": held.disk_of,
        "watched": held.watched,
        "cgroups": held.cgroups,
        "filter_hex": held.filter_program.hex(),
        "is_wrapped": held.is_wrapped,
        "readable": held.readable,
        "writable": held.writable,
        "devices": held.devices,
        "landlock": held.landlock,
        "network": limits.network,
        "drop": held.drop,
        "uid": held.uid,
        "gid": held.gid,
    }
    descriptor = os.memfd_create("order", os.MFD_CLOEXEC)
    data = json.dumps(order).encode()
    while data:
        data = data[os.write(descriptor, data) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
