"""What a container holds, by the names of the table in docs/security.md."""

from __future__ import annotations

from gnomon.sandboxes._engines import Engine
from gnomon.types.steps import SandboxReport

__all__ = ["report_of"]

_MOUNTS = "a root of its own from the image, read-only; the workspace and empty folders"
_PIDS = "a pid namespace"
_GROUP = "a control group"
_HELD = {
    "time": "held from outside",
    "environment": "made anew, over that of the image",
    "output": "held from outside",
    "cpu": "RLIMIT_CPU, and a watch on all processes together",
    "disk": "RLIMIT_FSIZE, sizes of tmpfs, and a watch",
    "memory": _GROUP,
    "memory_total": _GROUP,
    "processes": _GROUP,
    "descendants": _PIDS,
    "signals": _PIDS,
    "ptrace": _PIDS,
    "privileges": "no capabilities, no new privileges",
    "files_read": _MOUNTS,
    "files_write": _MOUNTS,
    "home": _MOUNTS,
    "proc": _PIDS,
    "tmp": "a tmpfs, empty for each command",
    "devices": "a /dev of its own",
    "network": "a network namespace",
    "loopback": "a network namespace",
    "unix_sockets": _MOUNTS,
}


def report_of(engine: Engine) -> SandboxReport:
    held = {name: f"{how} ({engine.name})" for name, how in _HELD.items()}
    if engine.has_filter:
        return SandboxReport(
            level="container", held={**held, "kernel": f"a seccomp filter of calls ({engine.name})"}
        )
    why = f"{engine.name} runs containers without a seccomp filter"
    return SandboxReport(level="container", held=held, missing={"kernel": why}, hint=why)
