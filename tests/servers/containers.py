"""Podman for tests: the image to run, its API on a socket, and what is left of containers."""

from __future__ import annotations

import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import linux
from .images import import_into
from .programs import system_program

__all__ = ["LABEL", "image", "left_of", "service"]

LABEL = "org.gnomon.sandbox"
_START_S = 30.0


def image() -> str:
    """The name of an image that Podman has. Whoever has no Podman skips."""
    return import_into(str(system_program("podman")))


@contextmanager
def service() -> Iterator[str]:
    """Podman's API on a socket, as a daemon would serve it."""
    with tempfile.TemporaryDirectory(prefix="gnomon-podman-") as folder:
        path = f"{folder}/podman.sock"
        process = subprocess.Popen(
            ["podman", "system", "service", "--time", "0", f"unix://{path}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(Path(folder) / "log").open("wb"),
            start_new_session=True,
        )
        try:
            _wait(path, process)
            yield path
        finally:
            linux.end(process.pid, 15, 10.0)
            process.wait()


def _wait(path: str, process: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _START_S
    while True:
        with socket.socket(socket.AF_UNIX) as client:
            if client.connect_ex(path) == 0:
                return
        assert process.poll() is None, f"podman's service ended with {process.returncode}"
        assert time.monotonic() < until, "podman's service does not answer"
        time.sleep(0.02)


def left_of(owner: int) -> list[str]:
    """The containers that a process has made and that are still there."""
    listed = ["podman", "ps", "--all", "--no-trunc", "--filter", f"label={LABEL}"]
    shown = subprocess.run(
        [*listed, "--format", f'{{{{.ID}}}} {{{{index .Labels "{LABEL}"}}}}'],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [line.split()[0] for line in shown.splitlines() if f":{owner}:" in line]
