"""Where the programs of the servers are, and what to do where they are not."""

from __future__ import annotations

import importlib.util
import os
import platform
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from .install import npm_folder, redis_folder
from .packages import PACKAGES, found

__all__ = ["Missing", "expect_linux", "missing", "package_file", "program", "system_program"]

Missing = pytest.skip.Exception
"""What is raised for a program that is not there, where that is not a failure."""


def program(name: str) -> Path:
    """A program that `install.py` fetches."""
    expect_linux()
    if name == "redis-server":
        path = redis_folder() / name
    else:
        path = npm_folder() / "node_modules" / f"@{name}" / "linux-x64" / name
    if not path.is_file():
        missing(f"{name} is not at {path}: `make servers` fetches it")
    return path


def package_file(package: str, *parts: str) -> Path:
    """A file in an installed Python package, which is not imported."""
    expect_linux()
    spec = importlib.util.find_spec(package)
    path = Path(spec.origin).parent.joinpath(*parts) if spec and spec.origin else None
    if path is None or not path.exists():
        missing(f"the Python package {package} is not installed: `make test` installs it")
    return path


def system_program(name: str) -> Path:
    """A program that `packages.py` has the system install."""
    path = found(name)
    if path is None:
        missing(f"{name} is not installed: `make servers` installs {PACKAGES[name]}, where it may")
    return Path(path)


def expect_linux() -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        missing(f"the servers are programs for Linux on x86-64, and this is {sys.platform}")


def missing(reason: str) -> NoReturn:
    """What a test that needs it comes to."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
