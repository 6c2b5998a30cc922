"""The tables of a PostgreSQL store: the numbered steps by which they came to be."""

from __future__ import annotations

from collections.abc import Callable

from gnomon.storage._postgres_link import Connection
from gnomon.storage._postgres_tables import Statements
from gnomon.storage._rows import FIRST_INDEXES, SCHEMA

__all__ = ["MIGRATIONS", "migrated"]

_TEXT = 'text COLLATE "C"'
"""Keys compare by their bytes, whatever language the database is set to."""


def _table(schema: str, kind: str, indexes: tuple[str, ...]) -> list[str]:
    """A table of rows: beside the body, a part and a sort key for each index."""
    pairs = "".join(f", {index}_part {_TEXT}, {index}_sort {_TEXT}" for index in indexes)
    columns = f"tenant {_TEXT} NOT NULL, id {_TEXT} NOT NULL, revision bigint NOT NULL, body bytea NOT NULL"
    return [
        f"CREATE TABLE {schema}.{kind} ({columns}{pairs}, PRIMARY KEY (tenant, id))",
        *(
            f"CREATE INDEX {kind}_by_{index} ON {schema}.{kind} (tenant, {index}_part, {index}_sort) "
            f"WHERE {index}_part IS NOT NULL"
            for index in indexes
        ),
    ]


def _first(schema: str) -> list[str]:
    tables = [statement for kind, names in FIRST_INDEXES.items() for statement in _table(schema, kind, names)]
    events = (
        f"CREATE TABLE {schema}.events (tenant {_TEXT} NOT NULL, session {_TEXT} NOT NULL, "
        "first bigint NOT NULL, last bigint NOT NULL, body bytea NOT NULL, "
        "PRIMARY KEY (tenant, session, first))"
    )
    # Not compressed: pieces can be read from the middle, and appending costs the server less.
    plain = [f"ALTER TABLE {schema}.{table} ALTER body SET STORAGE EXTERNAL" for table in ("events", "blobs")]
    version = f"CREATE TABLE {schema}.migrations (version integer PRIMARY KEY, done_at timestamptz NOT NULL)"
    return [*tables, events, *plain, version]


MIGRATIONS: tuple[Callable[[str], list[str]], ...] = (_first,)
"""Step n brings a schema from version n to n + 1; a step that was released is never changed."""


async def migrated(connection: Connection, sql: Statements, lock: int, timeout_s: float) -> None:
    """Do the steps that are missing, in one transaction, one process after another."""
    async with connection.transaction(isolation="read_committed"):
        await connection.execute("SET LOCAL idle_in_transaction_session_timeout = '60s'")
        # `IF NOT EXISTS` does not help against another who creates the same at the same time.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", lock, timeout=timeout_s)
        for number in range(await _found(connection, sql), SCHEMA):
            for statement in MIGRATIONS[number](sql.schema):
                await connection.execute(statement, timeout=timeout_s)
            await connection.execute(sql.migrated, number + 1)


async def _found(connection: Connection, sql: Statements) -> int:
    """The version that is there; the schema is made where there is none."""
    # A schema that somebody has prepared may be used by who could not have created it.
    if await connection.fetchval("SELECT to_regnamespace($1) IS NULL", sql.schema):
        await connection.execute(f"CREATE SCHEMA {sql.schema}")
    if await connection.fetchval("SELECT to_regclass($1) IS NULL", f"{sql.schema}.migrations"):
        return 0
    return int(await connection.fetchval(sql.version))
