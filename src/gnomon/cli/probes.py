"""What this machine offers: key variables, a local model, sandboxes, drivers. Looked at, never used."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import msgspec

import gnomon
from gnomon import registry
from gnomon.cli.choice import KEYS
from gnomon.sandboxes._levels import LevelFound, container_level, process_levels

__all__ = [
    "Driver",
    "Key",
    "LevelFound",
    "Local",
    "Program",
    "Versions",
    "drivers",
    "keys",
    "levels",
    "local",
    "programs",
    "versions",
]

_END_TIMEOUT_S = 0.2
_VERSION_TIMEOUT_S = 3.0
_MOST_BYTES = 4096
_DEPENDENCIES = ("msgspec", "aiohttp", "click", "rich", "prompt_toolkit")

_PROGRAMS = {"bwrap": "process", "podman": "container", "docker": "container"}
_DRIVERS = {
    "asyncpg": "postgres",
    "redis": "redis",
    "pymongo": "mongo",
    "aiobotocore": "dynamo",
}


class Versions(msgspec.Struct, frozen=True):
    gnomon: str
    python: str
    platform: str
    dependencies: dict[str, str | None]


class Key(msgspec.Struct, frozen=True):
    """A variable that may hold a key. Whether it is set, and no part of what it holds."""

    variable: str
    set: bool
    provider: str
    provider_available: bool


class Local(msgspec.Struct, frozen=True):
    """The small model that can be installed: the version of its engine, and whether its weights are there."""

    engine: str | None
    weights: bool


class Program(msgspec.Struct, frozen=True):
    name: str
    version: str | None
    sandbox_available: bool


class Driver(msgspec.Struct, frozen=True):
    name: str
    version: str | None
    storage: str
    storage_available: bool


def versions() -> Versions:
    import platform

    found = {name: _installed(name) for name in _DEPENDENCIES}
    return Versions(gnomon.__version__, sys.version.split()[0], platform.platform(), found)


def keys(env: Mapping[str, str]) -> list[Key]:
    known = registry.names("providers")
    return [
        Key(variable, bool(env.get(variable, "").strip()), provider, provider in known)
        for variable, provider in KEYS.items()
    ]


def local() -> Local:
    from gnomon.providers._local_weights import bundled_path

    return Local(_importable("xllamacpp"), bundled_path() is not None)


async def programs() -> list[Program]:
    found = await asyncio.gather(*(_program_version(name) for name in _PROGRAMS))
    known = registry.names("sandboxes")
    return [
        Program(name, text, sandbox in known)
        for (name, sandbox), text in zip(_PROGRAMS.items(), found, strict=True)
    ]


async def levels() -> list[LevelFound]:
    """The levels of isolation, the strongest first. Whether they hold is found out by trying."""
    container, others = await asyncio.gather(
        asyncio.to_thread(container_level), asyncio.to_thread(process_levels)
    )
    return [container, *others]


def drivers() -> list[Driver]:
    known = registry.names("storage")
    found = [Driver(name, _importable(name), storage, storage in known) for name, storage in _DRIVERS.items()]
    return [Driver("sqlite3", _sqlite_version(), "sqlite", "sqlite" in known), *found]


def _installed(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _importable(module: str) -> str | None:
    """The version of a module that could be imported; importing some of them takes a second."""
    try:
        found = find_spec(module) is not None
    except (ImportError, ValueError):
        return None
    return (_installed(module) or "version unknown") if found else None


def _sqlite_version() -> str | None:
    try:
        import sqlite3
    except ImportError:  # some builds of Python leave it out
        return None
    return sqlite3.sqlite_version


async def _program_version(name: str) -> str | None:
    path = shutil.which(name)
    if path is None:
        return None
    try:
        said = await _first_words(path)
    except (OSError, TimeoutError):
        return "found, but it does not say its version"
    number = re.search(r"\d+(\.\d+)+", said)
    return number[0] if number else "version unknown"


async def _first_words(path: str) -> str:
    """What a program says to `--version`."""
    process = await asyncio.create_subprocess_exec(
        path,
        "--version",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": os.environ.get("PATH", os.defpath)},  # it needs no key of ours
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_VERSION_TIMEOUT_S):
            said = await process.stdout.read(_MOST_BYTES)
    finally:
        # With all it started: a child of a wrapper script would hold the pipe open.
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_TIMEOUT_S):
                await process.wait()
    return said.decode(errors="replace")
