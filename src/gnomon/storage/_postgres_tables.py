"""What is asked of the tables of a PostgreSQL store: one statement a call, each a transaction of its own."""

# ruff: noqa: S608 - the schema is quoted, and the names of kinds and indexes are ours

from __future__ import annotations

from gnomon.storage._rows import INDEXES, READ_BYTES, Row, Span

__all__ = ["CUT_GROUPS", "PIECE_BYTES", "Statements", "values"]

PIECE_BYTES = 4_000_000
"""A blob is read in pieces of this size, so that each comes within the time of one answer."""

CUT_GROUPS = 2_000
"""So many groups go at once when a log is cut: a long one must not take longer than an answer may."""


class Statements:
    """The SQL for one schema; each text is made once, so that the server can keep its plan."""

    def __init__(self, schema: str) -> None:
        self.schema = '"' + schema.replace('"', '""') + '"'
        self._writes = {kind: self._write(kind) for kind in INDEXES}
        self._finds: dict[tuple[str, str, bool, bool, bool, bool], str] = {}
        self.append = self._append()
        self.append_and_write = {kind: self._append_and_write(kind) for kind in INDEXES}
        self.read = self._read()
        self.version = f"SELECT coalesce(max(version), 0) FROM {self.schema}.migrations"
        self.migrated = f"INSERT INTO {self.schema}.migrations (version, done_at) VALUES ($1, now())"

    def write(self, kind: str, expect: int | None) -> str:
        """Takes the tenant, `values(row)` and, for an update, the expected revision."""
        insert, update, upsert = self._writes[kind]
        return upsert if expect is None else update if expect else insert

    def get(self, kind: str) -> str:
        return f"SELECT id, revision, body FROM {self.schema}.{kind} WHERE tenant = $1 AND id = $2"

    def get_piece(self, kind: str) -> str:
        """Takes the tenant, the id, and the byte to begin with, counted from 1."""
        return (
            f"SELECT revision, octet_length(body), substring(body FROM $3 FOR {PIECE_BYTES}) "
            f"FROM {self.schema}.{kind} WHERE tenant = $1 AND id = $2"
        )

    def delete(self, kind: str, expect: int | None) -> str:
        query = f"DELETE FROM {self.schema}.{kind} WHERE tenant = $1 AND id = $2"
        return query if expect is None else f"{query} AND revision = $3"

    def find(self, span: Span) -> str:
        """Takes the tenant, the part, the limit and the bounds that there are."""
        key = (span.kind, span.index, bool(span.above), bool(span.below), span.descending, span.bodies)
        found = self._finds.get(key)
        if found is None:
            found = self._finds[key] = self._find(span)
        return found

    def cut(self, through: int | None) -> str:
        """The first groups of a log: how many events went, and how many groups."""
        log = f"{self.schema}.events WHERE tenant = $1 AND session = $2"
        bound = "" if through is None else " AND first <= $3 AND last <= $3"
        return (
            f"WITH gone AS (DELETE FROM {log} AND first <= (SELECT max(first) FROM "
            f"(SELECT first FROM {log}{bound} ORDER BY first LIMIT {CUT_GROUPS}) AS oldest) "
            "RETURNING last - first + 1 AS events) "
            "SELECT coalesce(sum(events), 0)::bigint, count(*) FROM gone"
        )

    # --- inside

    def _write(self, kind: str) -> tuple[str, str, str]:
        table, columns = f"{self.schema}.{kind}", _columns(kind)
        numbers = [f"${at}" for at in range(1, len(columns) + 1)]
        insert = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join(numbers)}) ON CONFLICT "
        changes = [f"{column} = ${at}" for at, column in enumerate(columns[2:], 3)]
        update = f"UPDATE {table} SET {', '.join(changes)} WHERE tenant = $1 AND id = $2"
        return (
            f"{insert}DO NOTHING",
            f"{update} AND revision = ${len(columns) + 1}",
            f"{insert}(tenant, id) DO UPDATE SET {_replaced(columns)}",
        )

    def _append(self) -> str:
        """Many groups of as many logs, in one transaction; gives the logs that took theirs.

        Of two writers that see the same tail, both insert the same `first`: the key
        lets one of them through. The row of the tail is held until the end, so that
        it cannot be cut away in between and leave a log that begins in its middle.
        """
        return (
            f"INSERT INTO {self.schema}.events (tenant, session, first, last, body) "
            "SELECT tenant, session, first, last, body "
            "FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) "
            "AS given (tenant, session, first, last, body) "
            f"WHERE {self._is_next('given.tenant', 'given.session', 'given.first')} "
            "ON CONFLICT DO NOTHING RETURNING tenant, session"
        )

    def _append_and_write(self, kind: str) -> str:
        """One group, and a row that is written only if the group was."""
        columns = _columns(kind)
        numbers = [f"${at}" for at in range(6, len(columns) + 5)]
        typed = [
            f"{number}::{_TYPES.get(name, 'text')}" for number, name in zip(numbers, columns[1:], strict=True)
        ]
        return (
            f"WITH appended AS (INSERT INTO {self.schema}.events (tenant, session, first, last, body) "
            "SELECT $1::text, $2::text, $3::bigint, $4::bigint, $5::bytea "
            f"WHERE {self._is_next('$1::text', '$2::text', '$3::bigint')} "
            "ON CONFLICT DO NOTHING RETURNING 1), "
            f"written AS (INSERT INTO {self.schema}.{kind} ({', '.join(columns)}) "
            f"SELECT $1::text, {', '.join(typed)} FROM appended "
            f"ON CONFLICT (tenant, id) DO UPDATE SET {_replaced(columns)}) "
            "SELECT count(*) FROM appended"
        )

    def _is_next(self, tenant: str, session: str, first: str) -> str:
        return (
            f"{first} - 1 = coalesce((SELECT tail.last FROM {self.schema}.events AS tail "
            f"WHERE tail.tenant = {tenant} AND tail.session = {session} "
            "ORDER BY tail.first DESC LIMIT 1 FOR KEY SHARE), 0)"
        )

    def _read(self) -> str:
        """Takes the tenant, the session, the number to begin after, and the limit."""
        log = f"FROM {self.schema}.events WHERE tenant = $1 AND session = $2"
        return (
            "SELECT first, last, body FROM (SELECT first, last, body, "
            "sum(octet_length(body)) OVER (ORDER BY first ROWS UNBOUNDED PRECEDING) - octet_length(body) "
            f"AS bytes_before FROM (SELECT first, last, body {log} AND last > $3 AND first >= "
            # The group that holds the next event: the index finds it without the groups before.
            f"coalesce((SELECT first {log} AND first <= $3 + 1 ORDER BY first DESC LIMIT 1), 0) "
            "ORDER BY first LIMIT $4) AS next) AS counted "
            f"WHERE bytes_before < {READ_BYTES} ORDER BY first"
        )

    def _find(self, span: Span) -> str:
        part, sort = f"{span.index}_part", f"{span.index}_sort"
        bounds = ([f"{sort} > "] if span.above else []) + ([f"{sort} < "] if span.below else [])
        where = "".join(f" AND {bound}${at}" for at, bound in enumerate(bounds, 4))
        body = "body" if span.bodies else "''::bytea"
        return (
            f"SELECT id, revision, {body}, {sort} FROM {self.schema}.{span.kind} "
            f"WHERE tenant = $1 AND {part} = $2{where} "
            f"ORDER BY {sort} {'DESC' if span.descending else 'ASC'} LIMIT $3"
        )


def values(row: Row) -> list[object]:
    """The row in the order of its columns, without the tenant."""
    places = [row.places.get(index) for index in INDEXES[row.kind]]
    return [row.id, row.revision, row.body, *(field for place in places for field in place or (None, None))]


_TYPES = {"revision": "bigint", "body": "bytea"}


def _columns(kind: str) -> list[str]:
    pairs = [f"{index}_{half}" for index in INDEXES[kind] for half in ("part", "sort")]
    return ["tenant", "id", "revision", "body", *pairs]


def _replaced(columns: list[str]) -> str:
    return ", ".join(f"{column} = excluded.{column}" for column in columns[2:])
