"""SQLite: the file as SQL, as its own shell would dump it."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from urllib.parse import quote

__all__ = ["address", "kept", "restore", "shape"]

_NUMBERS = ("application_id", "user_version")


def address(place: str) -> str:
    return f"sqlite:///{quote(place)}"


async def kept(place: str) -> str:
    with closing(sqlite3.connect(place)) as connection:
        numbers = [(name, connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in _NUMBERS]
        lines = [f"PRAGMA {name} = {number};" for name, number in numbers] + list(connection.iterdump())
    return re.sub(r"[\x01-\x09]", _spelt_out, "\n".join(lines) + "\n")


async def restore(text: str, place: str) -> None:
    with closing(sqlite3.connect(place)) as connection:
        connection.executescript(text)


def shape(text: str) -> list[str]:
    return sorted(line for line in text.split("\n") if line.startswith("CREATE "))


def _spelt_out(control: re.Match[str]) -> str:
    """A control character, which only stands in quotes."""
    return f"'||char({ord(control[0])})||'"
