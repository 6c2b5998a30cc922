"""The tables of an SQLite store, and the numbered steps by which they came to be."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from gnomon.errors import Damaged
from gnomon.storage._rows import FIRST_INDEXES, SCHEMA

__all__ = ["MIGRATIONS", "found_version", "migrated"]

_APPLICATION = 0x676E6F6D
"""Marks a file as ours, so that another program's is not written into."""


def _table(kind: str, indexes: tuple[str, ...]) -> list[str]:
    """A table of rows: beside the body, a part and a sort key for each index."""
    pairs = "".join(f", {index}_part TEXT, {index}_sort TEXT" for index in indexes)
    columns = f"tenant TEXT NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL, body BLOB NOT NULL{pairs}"
    return [
        f"CREATE TABLE {kind} ({columns}, PRIMARY KEY (tenant, id))",
        *(
            f"CREATE INDEX {kind}_by_{index} ON {kind} (tenant, {index}_part, {index}_sort) "
            f"WHERE {index}_part IS NOT NULL"
            for index in indexes
        ),
    ]


def _first() -> tuple[str, ...]:
    tables = [statement for kind, names in FIRST_INDEXES.items() for statement in _table(kind, names)]
    # By their last number, so that the end of a log is read from the key alone.
    events = (
        "CREATE TABLE events (tenant TEXT NOT NULL, session TEXT NOT NULL, first INTEGER NOT NULL, "
        "last INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (tenant, session, last))"
    )
    return (*tables, events, f"PRAGMA application_id = {_APPLICATION}")


MIGRATIONS: tuple[tuple[str, ...], ...] = (_first(),)
"""Step n brings a file from version n to n + 1; a step that was released is never changed."""


def found_version(connection: sqlite3.Connection, path: Path | str) -> int:
    # The mark is read last: another process may make the tables between two of these, all at once.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != _APPLICATION and (tables or version or application):
        raise Damaged(f"{path} is the database of another program", hint="name another file")
    return int(version)


def migrated(connection: sqlite3.Connection, path: Path | str) -> None:
    """The steps that are missing, in one transaction with whoever called this first."""
    version = found_version(connection, path)
    for step in MIGRATIONS[version:SCHEMA]:
        for statement in step:
            connection.execute(statement)
    if version < SCHEMA:
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
