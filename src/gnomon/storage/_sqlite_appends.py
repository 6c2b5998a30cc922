"""Appends to the logs of an SQLite file: one by one, or all of a batch by one statement each."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

__all__ = ["Append", "appended"]

_TAIL = "SELECT last FROM events WHERE tenant = ?1 AND session = ?2 ORDER BY last DESC LIMIT 1"

# One that does not follow the tail has no number, which the table refuses and OR IGNORE leaves out. (An
# INSERT … SELECT of the table it writes into costs twice as much: its answer is first put aside.)
_APPEND = (
    "INSERT OR IGNORE INTO events (tenant, session, first, last, body) "  # noqa: S608 - a text of ours
    f"VALUES (?1, ?2, CASE coalesce(({_TAIL}), 0) WHEN ?3 - 1 THEN ?3 END, ?4, ?5)"
)


class Append(msgspec.Struct, frozen=True, gc=False):
    """A group for the end of a log, and the statement of a row that is written if the group is."""

    group: tuple[str, str, int, int, bytes]
    statement: str = ""
    row: Sequence[object] = ()

    def __call__(self, connection: sqlite3.Connection) -> bool:
        if not connection.execute(_APPEND, self.group).rowcount:
            return False
        if self.statement:
            connection.execute(self.statement, self.row)
        return True


def appended(connection: sqlite3.Connection, appends: Sequence[Append]) -> bool:
    """Do them all; `False` when one does not follow its log's tail, and then some are half done."""
    groups = [append.group for append in appends]
    if connection.executemany(_APPEND, groups).rowcount != len(groups):
        return False
    rows: dict[str, list[Sequence[object]]] = {}
    for append in appends:
        if append.statement:
            rows.setdefault(append.statement, []).append(append.row)
    for statement, values in rows.items():
        connection.executemany(statement, values)
    return True
