"""What an engine is asked for: a container with its image and its workspace in reach, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gnomon.sandboxes._limits import Limits

__all__ = ["HOME", "KEEPERS", "LABEL", "WORKSPACE", "Shape", "created", "started", "variables"]

HOME = "/tmp"  # noqa: S108 - the command's own, fresh each time
WORKSPACE = "/workspace"
"""The workspace as commands see it."""
LABEL = "org.gnomon.sandbox"

_MB = 1 << 20
_OPEN_FILES = 1024
_MOST_PROCESSES_OF_A_USER = 1 << 15
"""Counted over the whole machine, so far more than a command may have; Podman has no more itself."""
_ENDED_FIRST = 500
"""Of commands, where memory is wanting; who keeps the container is spared then, as far as that is seen to."""
_MOST_PROCESSES = 1 << 22
"""Of the kernel's numbers for them."""
_STARTING = 16
"""Threads of the engine's own program, which is within the limit while it starts a command."""

KEEPERS = 2
# The first process waits for its standard input to end, which it does when this process lets go of it,
# however it ends. Meanwhile the shell waits for every process that has lost its parent: no zombie stays.
_KEEP = "exec 3<&0; cat <&3 >/dev/null & wait"
_NOBODY, _NOBODY_ELSE = 65534, 65533


class Shape(NamedTuple):
    """What all containers of one sandbox have in common."""

    image: str
    workspace: str
    hosts: str
    """A file to be /etc/hosts: an engine would show the machine's own."""
    calls: str
    """The filter of calls, as the engine takes it; nothing where it has none."""
    uid: int
    gid: int
    owner: str
    """Who made it, as `_owners.py` writes it."""
    is_podman: bool
    keeps_ids: bool
    """Whether users have the same numbers inside, where the engine runs without root."""
    cpus: float | None

    @property
    def user(self) -> str:
        return f"{self.uid}:{self.gid}"


def created(shape: Shape, limits: Limits, volumes: Sequence[str], *, sysctls: bool) -> dict[str, Any]:
    """The body of the request that creates it. `volumes` are the folders for which the image asks for one."""
    keeper = _NOBODY_ELSE if shape.uid == _NOBODY else _NOBODY
    return {
        "Image": shape.image,
        "Entrypoint": ["/bin/sh", "-c", _KEEP],
        "Cmd": [],
        # Not who commands run as: they cannot end it, or look into it.
        "User": f"{keeper}:{keeper}",
        "Env": [],
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": {LABEL: shape.owner},
        "Healthcheck": {"Test": ["NONE"]},
        "Tty": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "AttachStdin": True,
        "NetworkDisabled": not limits.network,
        "HostConfig": _held(shape, limits, volumes, sysctls=sysctls),
    }


def _held(shape: Shape, limits: Limits, volumes: Sequence[str], *, sysctls: bool) -> dict[str, Any]:
    room = min(limits.disk_bytes, limits.memory_bytes)
    fresh = f"rw,exec,nosuid,nodev,size={room},mode=1777"
    filled = fresh
    if shape.is_podman:
        fresh += ",notmpcopyup"  # or it is as the image has it
    made: dict[str, Any] = {
        "AutoRemove": True,
        "NetworkMode": "bridge" if limits.network else "none",
        "IpcMode": "private",
        "ReadonlyRootfs": True,
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges", *([f"seccomp={shape.calls}"] if shape.calls else [])],
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,  # of both together: no swap
        "OomScoreAdj": _ENDED_FIRST,
        "PidsLimit": min(limits.processes + KEEPERS + _STARTING, _MOST_PROCESSES),
        "Ulimits": _ulimits(limits),
        "ShmSize": min(room, 64 * _MB),
        # A volume would be on the host's disk, where no limit holds.
        "Tmpfs": {**dict.fromkeys(volumes, filled), HOME: fresh, "/var/tmp": fresh},  # noqa: S108 - its own
        "LogConfig": {"Type": "none"},
        "Mounts": _mounts(shape, limits),
    }
    if shape.cpus is not None:
        made["NanoCpus"] = int(shape.cpus * 1e9)
    if shape.keeps_ids:
        made["UsernsMode"] = "keep-id"
    if sysctls:
        # What the old kinds of shared memory, semaphores and messages keep would outlive a command.
        made["Sysctls"] = {"kernel.shm_rmid_forced": "1", "kernel.msgmni": "0", "kernel.sem": "0 0 0 0"}
    return made


def _mounts(shape: Shape, limits: Limits) -> list[dict[str, Any]]:
    made = [_mount(shape.workspace, WORKSPACE, read_only=False)]
    if not limits.network:
        made.append(_mount(shape.hosts, "/etc/hosts", read_only=True))
    return made


def _mount(source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": "bind", "Source": source, "Target": target, "ReadOnly": read_only}


def _ulimits(limits: Limits) -> list[dict[str, Any]]:
    """Each at most what this process has itself: engines without all of root's powers, as Podman may be,
    cannot give more, and their own defaults would. How many processes there may be is the control group's."""
    wanted = {
        "core": 0,
        "cpu": max(1, int(limits.cpu_s) + 1),
        "fsize": limits.disk_bytes,
        "memlock": min(limits.memory_bytes, 8 * _MB),
        "msgqueue": 0,
        "nofile": _OPEN_FILES,
        "nproc": _MOST_PROCESSES_OF_A_USER,
    }
    return [
        {"Name": name, "Soft": most, "Hard": most}
        for name, most in ((name, _may_have(name, wanted[name])) for name in wanted)
    ]


def _may_have(name: str, wanted: int) -> int:
    import resource

    kind: int | None = getattr(resource, f"RLIMIT_{name.upper()}", None)
    most = resource.RLIM_INFINITY if kind is None else resource.getrlimit(kind)[1]
    return wanted if most == resource.RLIM_INFINITY else min(wanted, most)


def started(
    shape: Shape, argv: list[str], env: dict[str, str], folder: str, *, has_input: bool
) -> dict[str, Any]:
    """The body of the request for one command in it."""
    return {
        "Cmd": argv,
        "Env": [f"{name}={value}" for name, value in variables(env).items()],
        "User": shape.user,
        "WorkingDir": WORKSPACE if folder == "." else f"{WORKSPACE}/{folder}",
        "AttachStdin": has_input,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "Privileged": False,
    }


def variables(env: dict[str, str]) -> dict[str, str]:
    return {"HOME": HOME, "TMPDIR": HOME, "LANG": "C.UTF-8", "USER": "sandbox", **env}
