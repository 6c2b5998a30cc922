"""What this machine offers: key variables, local servers, sandboxes, drivers. Looked at, never used."""

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

__all__ = [
    "Driver",
    "Key",
    "Program",
    "Server",
    "Versions",
    "drivers",
    "keys",
    "programs",
    "servers",
    "versions",
]

_PROBE_TIMEOUT_S = 0.2
_VERSION_TIMEOUT_S = 3.0
_MOST_BYTES = 4096
_DEPENDENCIES = ("msgspec", "aiohttp", "click", "rich", "prompt_toolkit")

# Variable → the provider that reads it, under its name in the registry.
_KEYS = {
    "OPENAI_API_KEY": "openai",
    "ANTHROPIC_API_KEY": "anthropic",
    "GEMINI_API_KEY": "gemini",
    "GOOGLE_API_KEY": "gemini",
    "MISTRAL_API_KEY": "mistral",
    "AZURE_OPENAI_API_KEY": "azure",
    "GROQ_API_KEY": "groq",
    "TOGETHER_API_KEY": "together",
    "DEEPSEEK_API_KEY": "deepseek",
    "OPENROUTER_API_KEY": "openrouter",
    "FIREWORKS_API_KEY": "fireworks",
    "PERPLEXITY_API_KEY": "perplexity",
    "XAI_API_KEY": "xai",
    "CEREBRAS_API_KEY": "cerebras",
}
_OLLAMA_PORT = 11434
_HERE = (None, "localhost", "0.0.0.0")  # noqa: S104 - compared with, not bound to
_PORTS = {"llama.cpp": 8080, "LM Studio": 1234, "vLLM": 8000}
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


class Server(msgspec.Struct, frozen=True):
    """A port on which a model server usually listens. `None`: it is elsewhere, and was not asked."""

    usual_name: str
    port: int | None
    answers: bool | None


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
        for variable, provider in _KEYS.items()
    ]


async def servers(env: Mapping[str, str]) -> list[Server]:
    """Who answers on the usual ports of this machine; all are asked at once."""
    ports: dict[str, tuple[str, int | None]] = {"Ollama": _ollama(env.get("OLLAMA_HOST", ""))}
    ports |= {name: ("127.0.0.1", port) for name, port in _PORTS.items()}
    answers = await asyncio.gather(*(_answers(host, port) for host, port in ports.values()))
    return [
        Server(name, port, answer) for (name, (_, port)), answer in zip(ports.items(), answers, strict=True)
    ]


async def programs() -> list[Program]:
    found = await asyncio.gather(*(_program_version(name) for name in _PROGRAMS))
    known = registry.names("sandboxes")
    return [
        Program(name, text, sandbox in known)
        for (name, sandbox), text in zip(_PROGRAMS.items(), found, strict=True)
    ]


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


def _ollama(setting: str) -> tuple[str, int | None]:
    """Host and port OLLAMA_HOST names, if that is this machine. It may hold a password; it is not shown."""
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    if not setting.strip():
        return "127.0.0.1", _OLLAMA_PORT
    with suppress(ValueError):
        parts = urlsplit(setting if "://" in setting else f"//{setting}")
        host = "127.0.0.1" if parts.hostname in _HERE else parts.hostname or ""
        if ip_address(host).is_loopback:
            return host, parts.port or _OLLAMA_PORT
    return "", None


async def _answers(host: str, port: int | None) -> bool | None:
    if port is None:
        return None
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT_S):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


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
            async with asyncio.timeout(_PROBE_TIMEOUT_S):
                await process.wait()
    return said.decode(errors="replace")
