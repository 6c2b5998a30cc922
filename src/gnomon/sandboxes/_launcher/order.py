"""What a supervisor is told: one command, and how to hold it."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

__all__ = ["Order", "read_order"]


class Order(NamedTuple):
    """See `gnomon.sandboxes._orders`, which writes it."""

    argv: list[str]
    env: dict[str, str]
    cwd: str
    timeout_s: float
    rlimits: dict[str, int]
    """By the name in `resource`, such as RLIMIT_CORE."""
    processes: int
    memory_bytes: int
    cpu_s: float
    disk_bytes: int
    disk_of: list[str]
    """The folders that the command may write to on a disk."""
    watched: list[str]
    """What the supervisor itself has to look after: memory, processes."""
    cgroups: list[str]
    """The files of control groups that whoever joins them writes a 0 to."""
    filter_hex: str
    """The seccomp filter; empty for none."""
    is_wrapped: bool
    """Whether `argv` is bubblewrap, which takes the filter and tells how it went."""
    readable: list[str]
    writable: list[str]
    devices: list[str]
    landlock: bool
    network: bool
    drop: bool
    """Whether to give up all capabilities and privileges before the start."""
    uid: int
    gid: int
    """As whom it runs; -1 stays what it is."""


def read_order(file: int) -> Order:
    """From its beginning, whoever has read it before."""
    size, text = os.fstat(file).st_size, b""
    while len(text) < size:
        text += os.pread(file, size - len(text), len(text))
    told: dict[str, Any] = json.loads(text)
    return Order(**told)
