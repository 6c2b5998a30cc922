"""PostgreSQL: one database for many machines. Appends of many sessions share a commit."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from gnomon.errors import ConfigError
from gnomon.storage._bells import Bell
from gnomon.storage._postgres_appends import Append, Appends, Log
from gnomon.storage._postgres_bells import Ringing
from gnomon.storage._postgres_errors import NO_TABLES
from gnomon.storage._postgres_link import Connection, Link, Settings
from gnomon.storage._postgres_locks import AdvisoryLocks, lock_key
from gnomon.storage._postgres_migrations import migrated
from gnomon.storage._postgres_tables import CUT_GROUPS, PIECE_BYTES, Statements, values
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import Found, Group, Row, Rows, Span
from gnomon.storage._steady import PATIENCE_S
from gnomon.storage._url import shown, split_settings

__all__ = ["PostgresStorage"]

TIMEOUT_S = 5.0
"""How long the server may take for one answer, before its connection is taken for lost."""

_MIGRATION_S = 300.0

_SLOWEST_BYTES_S = 2_000_000
_ROW_S = 0.02
"""What is large gets more time: as much as a slow line needs."""

_LARGEST = 2**63 - 1
_LONGEST_SCHEMA_BYTES = 63
_FEWEST_CONNECTIONS = 4
_SETTINGS = ("schema", "statement_cache_size")
_PORT = re.compile(r"[^:]*(:[0-9]{1,5})?")


class PostgresStorage(RecordStorage):
    """`PostgresStorage("postgresql://user:password@host/database")`, in a schema of its own.

    The URL is asyncpg's, with several hosts if you like. `schema` and `statement_cache_size`
    may also stand in its query. `connections` is how many the process opens at most, beside one
    that listens while somebody watches and one that holds locks; `timeout_s` is for one answer.
    `client` takes a pool of yours with at least four connections; it is not closed with the store.

    What was acknowledged is on the server's disk: where `synchronous_commit` is off, it is set
    to on for our connections, and a pool that has it off is refused. Its other values stay,
    since they all wait for the disk. A standby, or a read-only server, counts as one that is away.

    Behind PgBouncer in transaction mode, `statement_cache_size=0` is needed unless it keeps
    prepared statements itself. Readers that watch then look once a second, since LISTEN does not
    work there, and `holding` must not be used: its locks belong to a session with the server.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: asyncpg.Pool | None = None,
        schema: str | None = None,
        statement_cache_size: int | None = None,
        connections: int = 10,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
    ) -> None:
        if (url is None) == (client is None):
            raise ConfigError("a PostgreSQL store needs a URL or a pool, and not both")
        if timeout_s <= 0 or connections < 1:
            raise ConfigError(f"timeout_s and connections are above 0; {timeout_s}, {connections} was given")
        dsn, given = _read_url(url) if url is not None else (None, {})
        cached = (
            given.get("statement_cache_size", 100) if statement_cache_size is None else statement_cache_size
        )
        settings = Settings(
            where=shown(dsn) if dsn is not None else "on a pool of yours",
            dsn=dsn,
            connections=connections,
            statement_cache_size=_checked_size(cached),
            timeout_s=timeout_s,
        )
        link = Link(settings, _checked_pool(client) if client is not None else None)
        tables = PostgresTables(link, _checked_schema(schema or given.get("schema", "gnomon")), patience_s)
        super().__init__(tables, patience_s=patience_s)


class PostgresTables(Rows):
    """A table a kind of rows, and one for the groups of all logs; each call is one transaction."""

    name = "postgres"
    is_of_one_loop = True

    def __init__(self, link: Link, schema: str, patience_s: float) -> None:
        super().__init__(link.settings.where)
        self._link = link
        self._schema = schema
        self._sql = Statements(schema)
        self._appends = Appends(self._append_all)
        self._ringing = Ringing(link, self.bells, schema)
        self._locks = self.locks = AdvisoryLocks(link, schema, patience_s)

    # --- rows

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        if not _fits(row.revision, expect or 0):
            return False  # no row has such a revision
        given = [tenant, *values(row), *([expect] if expect else [])]
        return await self._changes(self._sql.write(row.kind, expect), given, len(row.body))

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        if kind == "blobs":
            return await self._get_in_pieces(tenant, kind, id)
        found = await self._fetch(self._sql.get(kind), tenant, id)
        return Found(*found[0]) if found else None

    async def find(self, tenant: str, span: Span) -> list[Found]:
        bounds = [bound for bound in (span.above, span.below) if bound]
        time_s = self._link.timeout_s + (span.limit * _ROW_S if span.bodies else 0)
        query = self._sql.find(span)
        return [
            Found(*row)
            for row in await self._fetch(query, tenant, span.part, span.limit, *bounds, time_s=time_s)
        ]

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        if not _fits(expect or 0):
            return False
        given = [tenant, id] if expect is None else [tenant, id, expect]
        return await self._changes(self._sql.delete(kind, expect), given)

    # --- logs

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        if not _fits(group.last):
            return False  # no log is that long
        return await self._appends.add((tenant, session_id), group)

    async def append_and_write(self, tenant: str, session_id: str, group: Group, row: Row) -> bool:
        if not _fits(group.last, row.revision):
            return False
        query = self._sql.append_and_write[row.kind]
        given = (tenant, session_id, group.first, group.last, group.body, *values(row))
        time_s = self._time_for(len(group.body) + len(row.body))
        found = await self._fetch(query, *given, time_s=time_s)
        if found[0][0]:
            self._ringing.tell([(tenant, session_id)])
        return bool(found[0][0])

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        after_seq = min(after_seq, _LARGEST - 1)
        found = await self._fetch(self._sql.read, tenant, session_id, after_seq, limit)
        return [Group(*row) for row in found]

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        query = self._sql.cut(through)
        given = (tenant, session_id) if through is None else (tenant, session_id, min(through, _LARGEST))
        removed = 0
        while True:
            events, groups = (await self._fetch(query, *given))[0]
            removed += events
            # An append that was under way is seen only by the next look; without a bound, it goes too.
            if not groups or (through is not None and groups < CUT_GROUPS):
                return removed

    # --- the schema

    async def version(self) -> int:
        found = int(await self._link.run(self._found_version))
        self.durability = self._link.durability
        return found

    async def migrate(self) -> None:
        lock = lock_key(self._schema, "migrate")
        await self._link.run(lambda connection: migrated(connection, self._sql, lock, _MIGRATION_S))

    async def close(self) -> None:
        await asyncio.gather(self._appends.close(), self._ringing.close(), self._locks.close())
        await self._link.close()

    def listening(self, tenant: str, session_id: str) -> AbstractAsyncContextManager[Bell]:
        return self._ringing.listening((tenant, session_id))

    # --- inside

    async def _append_all(self, batch: Sequence[Append]) -> set[Log]:
        tenants, sessions = zip(*(append.log for append in batch), strict=True)
        groups = [append.group for append in batch]
        bodies = [group.body for group in groups]
        size = sum(map(len, bodies))
        given = (
            tenants,
            sessions,
            [group.first for group in groups],
            [group.last for group in groups],
            bodies,
        )
        found = await self._fetch(self._sql.append, *given, time_s=self._time_for(size))
        took = {(tenant, session_id) for tenant, session_id in found}
        self._ringing.tell(took)
        return took

    async def _get_in_pieces(self, tenant: str, kind: str, id: str) -> Found | None:
        """A large body, from its start again when it was written anew in between."""
        query = self._sql.get_piece(kind)
        pieces: list[bytes] = []
        revision, at = 0, 0
        while True:
            found = await self._fetch(query, tenant, id, at + 1)
            if not found:
                return None
            now, size, piece = found[0]
            if pieces and now != revision:
                pieces, at = [], 0
                continue
            pieces.append(piece)
            revision, at = now, at + PIECE_BYTES
            if at >= size:
                return Found(id, revision, b"".join(pieces))

    async def _fetch(self, query: str, *given: object, time_s: float | None = None) -> list[tuple[Any, ...]]:
        timeout_s = time_s or self._link.timeout_s
        return await self._link.run(lambda connection: connection.fetch(query, *given, timeout=timeout_s))

    async def _changes(self, query: str, given: Sequence[object], size: int = 0) -> bool:
        """Whether the statement has changed a row."""
        timeout_s = self._time_for(size)
        tag = await self._link.run(lambda connection: connection.execute(query, *given, timeout=timeout_s))
        return not tag.endswith(" 0")

    def _time_for(self, size: int) -> float:
        return self._link.timeout_s + size / _SLOWEST_BYTES_S

    async def _found_version(self, connection: Connection) -> int:
        try:
            return await connection.fetchval(self._sql.version, timeout=self._link.timeout_s)
        except asyncpg.PostgresError as error:
            if getattr(error, "sqlstate", "") in NO_TABLES:
                return 0
            raise


def _fits(*numbers: int) -> bool:
    return all(-_LARGEST <= number <= _LARGEST for number in numbers)


def _read_url(url: str) -> tuple[str, dict[str, str]]:
    """The address for the driver, and our settings."""
    dsn, settings = split_settings(url, _SETTINGS)
    parts = urlsplit(dsn)
    if parts.scheme not in ("postgresql", "postgres"):
        raise ConfigError("the URL of a PostgreSQL store begins with postgresql://")
    hosts = parts.netloc.rpartition("@")[2].split(",")
    if parts.netloc.count("@") > 1 or not all(_PORT.fullmatch(host.rpartition("]")[2]) for host in hosts):
        hint = "a port is a number; in a password write %40 for @ and %3A for :"
        raise ConfigError("the host in the URL of the PostgreSQL store cannot be read", hint=hint)
    return dsn, settings


def _checked_schema(schema: str) -> str:
    size = len(schema.encode(errors="replace"))
    if not 0 < size <= _LONGEST_SCHEMA_BYTES or "\x00" in schema or schema.startswith("pg_"):
        hint = f"a name of at most {_LONGEST_SCHEMA_BYTES} bytes that does not begin with pg_"
        raise ConfigError(f"{schema!r} cannot be the name of a schema", hint=hint)
    return schema


def _checked_size(size: int | str) -> int:
    try:
        number = int(size)
    except ValueError:
        number = -1
    if number < 0:
        raise ConfigError(f"statement_cache_size is a number from 0 on; {size!r} was given")
    return number


def _checked_pool(client: asyncpg.Pool) -> asyncpg.Pool:
    if not isinstance(client, asyncpg.Pool):  # pyright: ignore[reportUnnecessaryIsInstance] - callers may err
        raise ConfigError(f"client is a pool of asyncpg; {type(client).__name__} was given")
    if client.get_max_size() < _FEWEST_CONNECTIONS:
        found = f"the pool has at most {client.get_max_size()} connections"
        hint = f"make it with max_size={_FEWEST_CONNECTIONS} or more: one listens, one holds locks"
        raise ConfigError(f"{found}, which is too few", hint=hint)
    return client
