"""Podman for tests: the image to run, and what is left of containers."""

from __future__ import annotations

import subprocess

from .images import import_into
from .programs import system_program

__all__ = ["LABEL", "image", "left_of"]

LABEL = "org.gnomon.sandbox"


def image() -> str:
    """The name of an image that Podman has. Whoever has no Podman skips."""
    return import_into(str(system_program("podman")))


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
