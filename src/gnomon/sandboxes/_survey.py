"""What this machine offers to hold a command with, found out by trying; and what each rung holds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Collection
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

from gnomon.errors import ConfigError
from gnomon.sandboxes._cgroups import Place, places
from gnomon.sandboxes._seccomp import is_known_machine
from gnomon.types.steps import IsolationLevel, SandboxReport

__all__ = ["Protection", "Survey", "check_protections", "survey"]

Protection: TypeAlias = Literal["bubblewrap", "landlock", "seccomp", "cgroups"]
"""What a sandbox may be told to do without."""

_TRIAL_S = 5.0
_SIGNALS_SCOPED = 6  # the version of Landlock that also keeps signals in
_PACKAGE = "install bubblewrap (Debian, Ubuntu, Fedora: package bubblewrap)"
_NAMESPACES = "bubblewrap is there, but this machine lets it make no namespaces"

_ALWAYS = ("time", "environment", "output", "cpu")
_FILES = ("disk", "files_read", "files_write", "home", "proc", "tmp", "devices")
_CALLS = ("network", "loopback", "unix_sockets", "kernel")
ALL = (
    *_ALWAYS,
    "memory",
    "memory_total",
    "processes",
    "descendants",
    "signals",
    "ptrace",
    "privileges",
    *_FILES,
    *_CALLS,
)


class Survey(NamedTuple):
    """The protections there are; an empty path, 0 and no places are none."""

    bubblewrap: str
    landlock: int
    seccomp: bool
    cgroups: tuple[Place, ...]
    reasons: dict[str, str]
    """Why a protection is not there."""

    @property
    def level(self) -> IsolationLevel:
        if self.bubblewrap:
            return "namespaces"
        return "process" if self.landlock and self.seccomp else "none"

    @property
    def controllers(self) -> set[str]:
        return {name for place in self.cgroups for name in place.controllers}

    def report(self) -> SandboxReport:
        held = self._held()
        missing = {name: self._why_not(name) for name in ALL if name not in held}
        return SandboxReport(
            level=self.level,
            held={name: held[name] for name in ALL if name in held},
            missing=missing,
            hint=self._hint(),
        )

    def _held(self) -> dict[str, str]:
        held: dict[str, str] = dict.fromkeys(_ALWAYS, "held from outside")
        held["cpu"] = "RLIMIT_CPU, and a watch on all processes together"
        held["environment"] = "made anew"
        held["memory"] = self._by_group("memory", "RLIMIT_DATA and a watch")
        if self.seccomp or "memory" in self.controllers:
            held["memory_total"] = self._by_group("memory", "a watch, twenty times a second")
        held["processes"] = self._by_group(
            "pids", "RLIMIT_NPROC and a watch" if self.bubblewrap else "a watch"
        )
        held["privileges"] = "no capabilities, no new privileges"
        if self.bubblewrap:
            return held | self._held_by_namespaces()
        if self.seccomp:
            held |= dict.fromkeys(_CALLS, "a seccomp filter")
        if self.landlock:
            held |= dict.fromkeys((*_FILES, "ptrace"), f"Landlock, version {self.landlock}")
            held["disk"] = "RLIMIT_FSIZE, and a watch"
        if self.landlock >= _SIGNALS_SCOPED:
            held["signals"] = f"Landlock, version {self.landlock}"
            held["descendants"] = "a subreaper, in a process group that nobody can leave"
        if not (self.landlock and self.seccomp):
            held.pop("descendants", None)
        return held

    def _held_by_namespaces(self) -> dict[str, str]:
        held: dict[str, str] = dict.fromkeys((*_FILES, "unix_sockets"), "a mount namespace")
        held["disk"] = "RLIMIT_FSIZE, sizes of tmpfs, and a watch"
        held |= dict.fromkeys(("network", "loopback"), "a network namespace")
        held |= dict.fromkeys(("descendants", "signals", "ptrace"), "a pid namespace")
        if self.seccomp:
            held["kernel"] = "a seccomp filter"
        return held

    def _by_group(self, controller: str, otherwise: str) -> str:
        version = next((place.version for place in self.cgroups if controller in place.controllers), 0)
        return f"a control group, version {version}" if version else otherwise

    def _why_not(self, name: str) -> str:
        if name in _CALLS:
            return self.reasons.get("seccomp", "nothing else holds it")
        if name == "memory_total":
            return "it takes a control group for memory, or seccomp"
        if name in ("signals", "descendants") and self.landlock:
            needed = f"Landlock version {_SIGNALS_SCOPED} and seccomp, or bubblewrap"
            return f"it takes {needed}; Landlock is {self.landlock}"
        return self.reasons.get("landlock", "nothing holds it")

    def _hint(self) -> str:
        if self.bubblewrap or "bubblewrap" not in self.reasons:
            return ""
        return self.reasons["bubblewrap"]


def survey(without: Collection[Protection] = ()) -> Survey:
    """What there is, less what is to be done without."""
    reasons = {name: f"left out by without={name!r}" for name in without}
    bubblewrap = "" if "bubblewrap" in without else _bubblewrap(os.environ.get("PATH", os.defpath), reasons)
    landlock = 0 if "landlock" in without else _landlock(reasons)
    seccomp = "seccomp" not in without and _seccomp(reasons)
    found: list[Place] = []
    if "cgroups" not in without:
        found, why = places()
        if why:
            reasons["cgroups"] = why
    return Survey(bubblewrap, landlock, seccomp, tuple(found), reasons)


def check_protections(without: Collection[str]) -> None:
    known: tuple[str, ...] = get_args(Protection)
    if not isinstance(cast("object", without), Collection):
        raise ConfigError(
            f"without is a list of protections, not {without!r}", hint="known: " + ", ".join(known)
        )
    for name in [without] if isinstance(without, str) else without:
        if name not in known:
            raise ConfigError(f"there is no protection called {name!r}", hint="known: " + ", ".join(known))


def _bubblewrap(search: str, reasons: dict[str, str]) -> str:
    path = shutil.which("bwrap", path=search)
    if path is None:
        reasons["bubblewrap"] = _PACKAGE
        return ""
    problem = _trial(path)
    if problem:
        reasons["bubblewrap"] = f"{_NAMESPACES}: {problem}"
        return ""
    return path


@lru_cache(maxsize=4)
def _trial(path: str) -> str:
    """What is wrong with it: some machines forbid user namespaces, which only trying shows."""
    namespaces = ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    command = [
        path,
        *namespaces,
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--",
        "/bin/true",
    ]
    try:
        done = subprocess.run(  # noqa: S603 - nothing in it is given by anybody
            command,
            capture_output=True,
            timeout=_TRIAL_S,
            check=False,
            stdin=subprocess.DEVNULL,
            env={},
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return "" if done.returncode == 0 else said[-1] if said else f"it ends with {done.returncode}"


def _landlock(reasons: dict[str, str]) -> int:
    from gnomon.sandboxes._launcher.kernel import landlock_abi

    found = landlock_abi() if sys.platform == "linux" else 0
    if not found:
        reasons["landlock"] = "this kernel has no Landlock, or it is switched off (Linux 5.13 has it)"
    return found


def _seccomp(reasons: dict[str, str]) -> bool:
    if not os.path.exists("/proc/sys/kernel/seccomp"):
        reasons["seccomp"] = "this kernel has no seccomp filters"
    elif not is_known_machine():
        import platform

        reasons["seccomp"] = f"there is no filter for the processor {platform.machine()}"
    else:
        return True
    return False
