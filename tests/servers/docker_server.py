"""Docker's own daemon, on a socket of its own, with its images and containers in a folder of its own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

from .images import import_into
from .install import docker_folder
from .packages import found
from .programs import expect_linux, missing
from .running import Server

__all__ = ["DockerServer", "docker"]

_KEY_UNTIL = 23
"""Before this version it writes a key beside its settings, unless it is told of another place."""


def docker() -> DockerServer:
    """Whoever is not root, or has no Docker, skips."""
    expect_linux()
    if os.geteuid() != 0:
        missing("Docker's daemon is started by root alone")
    if not docker_folder().is_dir():
        missing(f"docker is not at {docker_folder()}: `make servers` fetches it")
    if found("runc") is None:
        missing("runc is not installed: `make servers` installs it, where it may")
    return DockerServer()


class DockerServer(Server):
    """It has no network to give, and no port: it answers on a socket."""

    name = "docker"

    @property
    def url(self) -> str:
        """The path of its socket."""
        return str(self.folder / "docker.sock")

    def image(self) -> str:
        """The name of an image that it has."""
        return import_into(str(docker_folder() / "usr/bin/docker"), "--host", f"unix://{self.url}")

    def _command(self) -> list[str]:
        program = str(docker_folder() / "usr/sbin/dockerd")
        settings = self.folder / "settings.json"  # it reads the machine's where it is told of none
        key = {"deprecated-key-path": f"{self.folder}/key.json"} if _version(program) < _KEY_UNTIL else {}
        settings.write_text(json.dumps(key))
        places = {
            "config-file": settings,
            "data-root": self.folder / "data",
            "exec-root": self.folder / "exec",
            "pidfile": self.folder / "docker.pid",
            "host": f"unix://{self.url}",
        }
        return [
            program,
            *(f"--{name}={place}" for name, place in places.items()),
            *("--iptables=false", "--ip6tables=false", "--bridge=none"),
        ]

    def _environment(self) -> dict[str, str]:
        runc = str(Path(found("runc") or "").parent)
        path = [str(docker_folder() / "usr/bin"), os.defpath, runc]
        return {**super()._environment(), "PATH": os.pathsep.join(path)}

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(self.url) == 0


def _version(program: str) -> int:
    """The first number of "Docker version 20.10.24+dfsg1, build …"."""
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return int(said.split()[2].split(".")[0])
