"""Which container engine there is: one that answers on a socket, or Podman's program, which can be made to.

In this order: the socket that is named; those that CONTAINER_HOST and DOCKER_HOST name; Podman's own;
Podman's program, with an API of its own for as long as it is needed; Docker's own; the one that Docker's
program uses.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from gnomon.errors import ConfigError, SandboxError
from gnomon.sandboxes._engine_service import Service
from gnomon.sandboxes._engine_wire import Answer, Wire

__all__ = ["Engine", "engine_for"]

_PROBE_S = 10.0
_INSTALL = "install podman (Debian, Ubuntu, Fedora: package podman) or Docker, or use ProcessSandbox"
_CGROUPS = (
    "it has to be given control groups: run it as root, or with cgroups of version 2 delegated to the user"
    " (systemd: Delegate=memory pids cpu)"
)
_NEEDED = {"MemoryLimit": "memory", "PidsLimit": "processes"}
_first_rung = 0
"""The options of a service of ours that worked last; the next one begins with them."""


class _Place(NamedTuple):
    """Where an engine may be: a socket, or Podman's program."""

    path: str
    is_program: bool = False


class Engine:
    """One that answers, and what it says of itself."""

    def __init__(self, place: _Place) -> None:
        self.wire = Wire(place.path)
        self._program = place.path if place.is_program else ""
        self._lock = threading.Lock()
        self._service: Service | None = None
        self._let_go: weakref.finalize[..., Engine] | None = None
        self.rung = _first_rung
        self.is_podman, self.is_rootless, self.has_filter = place.is_program, False, False
        self.version = ""
        if self._program:
            self._serve()

    def ask(self) -> None:
        """What it is, and whether it can hold a container."""
        version, facts = self._told("/version"), self._told("/info")
        components: list[dict[str, Any]] = version.get("Components") or []
        self.is_podman = any("podman" in str(each.get("Name", "")).lower() for each in components)
        options = [str(each) for each in facts.get("SecurityOptions") or ()]
        self.is_rootless = any("rootless" in each for each in options)
        self.has_filter = any("seccomp" in each for each in options)
        self.version = str(version.get("Version", ""))
        if missing := [what for name, what in _NEEDED.items() if not facts.get(name)]:
            what = " and ".join(missing)
            raise SandboxError(f"{self.name} cannot limit {what} on this machine", hint=_CGROUPS)

    @property
    def name(self) -> str:
        return f"{'Podman' if self.is_podman else 'Docker'} {self.version}".strip()

    @property
    def program(self) -> str:
        """What somebody would type."""
        return "podman" if self.is_podman else "docker"

    def call(self, method: str, path: str, body: object = None, *, patience_s: float = 60.0) -> Answer:
        """From a thread. A service of ours that somebody has ended is started again."""
        asked = self.wire.path
        try:
            return self.wire.call(method, path, body, patience_s=patience_s)
        except SandboxError:
            if not self._is_served_anew(asked):
                raise
            return self.wire.call(method, path, body, patience_s=patience_s)

    def _is_served_anew(self, asked: str) -> bool:
        """Whether our service answers elsewhere by now than where it was asked."""
        with self._lock:
            if self._service is None or self._let_go is None or not self._let_go.alive:
                return False
            if self.wire.path == asked and not self._service.is_up():
                self._service.ensure()
                self.wire.path = self._service.socket_path
            return self.wire.path != asked

    def climb(self, rung: int) -> bool:
        """Where no container could be started with the options of this rung: whether there is another to try.

        Podman chooses well on most machines. Without systemd, or with control groups of both versions, what
        it takes may be something that cannot work there, which only trying shows.
        """
        global _first_rung
        with self._lock:
            if not self._program or self.rung > rung:  # another thread has climbed
                return bool(self._program)
            if rung + 1 >= len(_rungs()):
                return False
            self.rung = _first_rung = rung + 1
            self._serve()
            return True

    def close(self) -> None:
        if self._let_go is not None:
            self._let_go()

    def _serve(self) -> None:
        service = Service.take(self._program, _rungs()[self.rung])
        self.close()
        self._service, self.wire.path = service, service.socket_path
        self._let_go = weakref.finalize(self, service.give_back)

    def _told(self, path: str) -> dict[str, Any]:
        answer = self.call("GET", path, patience_s=_PROBE_S)
        if not answer.is_good or not answer.content:
            raise SandboxError(f"what answers at {self.wire.path} is no container engine: {answer.words}")
        return answer.content


def _rungs() -> list[tuple[str, ...]]:
    tried: list[tuple[str, ...]] = [(), ("--cgroup-manager=cgroupfs",)]
    runc = shutil.which("runc")
    return [*tried, ("--cgroup-manager=cgroupfs", "--runtime", runc)] if runc else tried


def engine_for(wanted: str | None) -> Engine:
    """The first that answers and can hold a container; the reasons of all others where none can."""
    reasons: list[SandboxError] = []
    for place in _places(wanted):
        try:
            return _asked(place)
        except SandboxError as error:
            reasons.append(error)
    if not reasons:
        what = {"podman": "Podman was not", "docker": "Docker was not"}.get(wanted or "")
        found = f"{what or 'neither Podman nor Docker was'} found"
        where = "there is no socket" if wanted == "docker" else "there is no program in PATH, and no socket"
        raise SandboxError(f"{found}: {where}{_elsewhere()}", hint=_INSTALL)
    if len(reasons) == 1:
        raise reasons[0]
    why = "; ".join(reason.message for reason in reasons)
    raise SandboxError(f"no container engine can be used: {why}", hint=reasons[0].hint or _INSTALL)


def _asked(place: _Place) -> Engine:
    engine = Engine(place)
    try:
        engine.ask()
    except BaseException:
        engine.close()
        raise
    return engine


def _places(wanted: str | None) -> Iterator[_Place]:
    match wanted:
        case None:
            yield from (_Place(path) for name in ("CONTAINER_HOST", "DOCKER_HOST") for path in _named(name))
            yield from _podman()
            yield from _docker()
        case "podman":
            yield from (_Place(path) for path in _named("CONTAINER_HOST"))
            yield from _podman()
        case "docker":
            yield from (_Place(path) for path in _named("DOCKER_HOST"))
            yield from _docker()
        case _:
            yield _Place(_socket(wanted))


def _socket(wanted: str) -> str:
    path = wanted.removeprefix("unix://")
    if not path.startswith("/"):
        known = '"podman", "docker" or the path of a socket'
        raise ConfigError(f"there is no container engine {wanted!r}", hint=f"there is {known}")
    return path


def _podman() -> Iterator[_Place]:
    usual = "/run" if os.geteuid() == 0 else _run_folder()
    if os.path.exists(path := f"{usual}/podman/podman.sock"):
        yield _Place(path)
    if program := shutil.which("podman"):
        yield _Place(program, is_program=True)


def _docker() -> Iterator[_Place]:
    home = os.path.expanduser("~/.docker")
    usual = ("/var/run", _run_folder(), f"{home}/run", f"{home}/desktop")
    known = [path for folder in usual if os.path.exists(path := f"{folder}/docker.sock")]
    if not known and (program := shutil.which("docker")):
        known = _of_context(program)
    yield from map(_Place, known)


def _run_folder() -> str:
    return os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"


def _named(variable: str) -> list[str]:
    """A socket that the environment names. An engine on another machine would not have our workspace."""
    value = os.environ.get(variable, "")
    return [value.removeprefix("unix://")] if value.startswith("unix://") else []


def _elsewhere() -> str:
    named = [name for name in ("CONTAINER_HOST", "DOCKER_HOST") if os.environ.get(name) and not _named(name)]
    return f"; {' and '.join(named)} must begin with unix:// to be used" if named else ""


def _of_context(program: str) -> list[str]:
    """The socket that Docker's program would use."""
    words = [program, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(  # noqa: S603 - a program of the user's
            words, capture_output=True, text=True, timeout=_PROBE_S, check=False, stdin=subprocess.DEVNULL
        )
        said = done.stdout.strip()
        return [said.removeprefix("unix://")] if said.startswith("unix://") else []
    return []
