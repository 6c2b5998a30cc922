"""SQLite: the default store. One file, no server, safe for several processes at once."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import unquote

from gnomon.errors import ConfigError
from gnomon.storage._bells import Bell
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import INDEXES, READ_BYTES, Found, Group, Row, Rows, Span
from gnomon.storage._sqlite_file import connected, connected_for_reading, translated
from gnomon.storage._sqlite_locks import locks_beside
from gnomon.storage._sqlite_readers import Readers
from gnomon.storage._sqlite_schema import found_version, migrated
from gnomon.storage._sqlite_writer import Writer
from gnomon.storage._steady import PATIENCE_S
from gnomon.storage._url import split_settings

__all__ = ["SQLiteStorage"]

_LOOK_S = 0.05
"""How often a waiting reader looks whether another process has written."""

_T = TypeVar("_T")


class SQLiteStorage(RecordStorage):
    """`SQLiteStorage("sqlite:///gnomon.db")`: three slashes and a path, four for one from the root.

    `synchronous` is "full", so that what was acknowledged survives a power cut; with
    "normal" it survives the end of the process only. `client` takes a connection of
    yours, made with `check_same_thread=False` and used by this store alone.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: sqlite3.Connection | None = None,
        synchronous: Literal["full", "normal"] = "full",
        patience_s: float = PATIENCE_S,
    ) -> None:
        if (url is None) == (client is None):
            raise ConfigError("an SQLite store needs a URL or a connection", hint="sqlite:///gnomon.db")
        if client is not None:
            tables = SQLiteTables(None, client, synchronous)
        else:
            path, synchronous = _read_url(url or "", synchronous)
            tables = SQLiteTables(path, None, synchronous)
        super().__init__(tables, patience_s=patience_s)


def _read_url(url: str, synchronous: Literal["full", "normal"]) -> tuple[Path, Literal["full", "normal"]]:
    plain, settings = split_settings(url, ("synchronous",))
    scheme, _, rest = plain.partition("://")
    name = unquote(rest.partition("?")[0].removeprefix("/"))
    if scheme.lower() != "sqlite" or not rest.startswith("/") or not name:
        raise ConfigError(
            f"{plain!r} names no file", hint="write sqlite:///gnomon.db, or four slashes: sqlite:////…"
        )
    if "?" in rest:
        raise ConfigError(f"{plain!r} has settings that are not known", hint="known: synchronous")
    if name == ":memory:":
        raise ConfigError("an SQLite store is a file", hint="for one in memory write memory://")
    chosen = settings.get("synchronous", synchronous)
    if chosen not in ("full", "normal"):
        raise ConfigError(f"synchronous is 'full' or 'normal'; {chosen!r} was given")
    return Path(os.path.realpath(os.path.expanduser(name))), chosen


class SQLiteTables(Rows):
    name = "sqlite"

    def __init__(self, path: Path | None, client: sqlite3.Connection | None, synchronous: str) -> None:
        super().__init__(str(path) if path is not None else "on a connection of yours")
        self._path = path
        self._synchronous = synchronous
        self._may_create = False
        self._client = client
        self._writer = Writer(self._connect)
        self._readers = Readers(self._connect_for_reading) if path is not None else None
        self.locks = locks_beside(path) if path is not None else None
        self._looking: asyncio.Task[None] | None = None

    # --- rows

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        places = [row.places.get(index) for index in INDEXES[row.kind]]
        values = [field for place in places for field in (place or (None, None))]
        return await self._written(_Write(tenant, row, expect, values))

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        query = f"SELECT id, revision, body FROM {kind} WHERE tenant = ? AND id = ?"  # noqa: S608 - a kind of ours
        found = await self._read(lambda connection: connection.execute(query, (tenant, id)).fetchone())
        return None if found is None else Found(*found)

    async def find(self, tenant: str, span: Span) -> list[Found]:
        query, values = _found_by(tenant, span)
        rows = await self._read(lambda connection: connection.execute(query, values).fetchall())
        return [Found(*row) for row in rows]

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        query = f"DELETE FROM {kind} WHERE tenant = ? AND id = ?"  # noqa: S608 - a kind of ours
        values: tuple[object, ...] = (tenant, id)
        if expect is not None:
            query, values = f"{query} AND revision = ?", (*values, expect)
        return await self._written(lambda connection: connection.execute(query, values).rowcount > 0)

    # --- logs

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        values = (
            tenant,
            session_id,
            group.first,
            group.last,
            group.body,
            tenant,
            session_id,
            group.first - 1,
        )
        return await self._written(lambda connection: connection.execute(_APPEND, values).rowcount > 0)

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        values = (tenant, session_id, tenant, session_id, after_seq + 1, after_seq, limit)
        return await self._read(lambda connection: _groups(connection, values))

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        where = "WHERE tenant = ? AND session = ? AND last <= ?"
        values = (tenant, session_id, through if through is not None else 2**63 - 1)

        def work(connection: sqlite3.Connection) -> int:
            counted = connection.execute(f"SELECT total(last - first + 1) FROM events {where}", values)  # noqa: S608
            (removed,) = counted.fetchone()
            connection.execute(f"DELETE FROM events {where}", values)  # noqa: S608
            return int(removed)

        return await self._written(work)

    # --- the file

    async def version(self) -> int:
        if self._path is not None and not self._path.exists() and not self._path.is_symlink():
            if not self._path.parent.is_dir():
                raise ConfigError(f"the folder {self._path.parent} does not exist", hint="create it first")
            return 0
        return await self._read(lambda connection: found_version(connection, self.where))

    async def migrate(self) -> None:
        self._may_create = True
        await self._written(lambda connection: migrated(connection, self.where))

    async def close(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait({self._looking})
            self._looking = None
        stops = [self._writer.stop] + ([self._readers.stop] if self._readers is not None else [])
        for stop in stops:
            await asyncio.get_running_loop().run_in_executor(None, stop)

    def listening(self, tenant: str, session_id: str) -> AbstractAsyncContextManager[Bell]:
        return self._listening(tenant, session_id)

    @asynccontextmanager
    async def _listening(self, tenant: str, session_id: str) -> AsyncGenerator[Bell, None]:
        async with self.bells.listening((tenant, session_id)) as bell:
            if self._looking is None or self._looking.done():
                self._looking = asyncio.ensure_future(self._look())
            yield bell

    async def _look(self) -> None:
        """While somebody waits: ring when the log of the file has changed, whoever changed it."""
        before = self._stamp()
        while len(self.bells):
            await asyncio.sleep(_LOOK_S)
            now = self._stamp()
            if now != before:
                before = now
                self.bells.ring_all()

    def _stamp(self) -> tuple[int, int]:
        try:
            found = os.stat(f"{self._path}-wal")
        except OSError:
            return (0, 0)
        return (found.st_mtime_ns, found.st_size)

    # --- where it is done

    async def _written(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with translated(self.where):
            return await self._writer.submit(work)

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with translated(self.where):
            place: Writer | Readers = self._readers if self._readers is not None else self._writer
            reading: Awaitable[_T] = place.submit(work)
            return await reading

    def _connect(self) -> sqlite3.Connection:
        if self._path is None:
            if self._client is None:
                raise ConfigError("the connection of this store is gone")
            return self._client
        return connected(self._path, create=self._may_create, synchronous=self._synchronous)

    def _connect_for_reading(self) -> sqlite3.Connection:
        assert self._path is not None
        return connected_for_reading(self._path)


# --- the statements -----------------------------------------------------------

_TAIL = "SELECT last FROM events WHERE tenant = ? AND session = ? ORDER BY first DESC LIMIT 1"
_APPEND = (
    "INSERT INTO events (tenant, session, first, last, body) SELECT ?, ?, ?, ?, ? "
    f"WHERE coalesce(({_TAIL}), 0) = ?"
)
_READ = (
    "SELECT first, last, body FROM events WHERE tenant = ? AND session = ? AND first >= coalesce(("
    "SELECT first FROM events WHERE tenant = ? AND session = ? AND first <= ? ORDER BY first DESC LIMIT 1"
    "), 0) AND last > ? ORDER BY first LIMIT ?"
)


def _statements(kind: str) -> tuple[str, str, str]:
    """Insert where there is none, replace one of a revision, put whatever is there."""
    columns = [name for index in INDEXES[kind] for name in (f"{index}_part", f"{index}_sort")]
    names = ", ".join(["tenant", "id", "revision", "body", *columns])
    marks = ", ".join("?" * (4 + len(columns)))
    insert = f"INSERT INTO {kind} ({names}) VALUES ({marks}) ON CONFLICT (tenant, id)"  # noqa: S608
    changed = ", ".join(f"{name} = excluded.{name}" for name in ["revision", "body", *columns])
    put = f"{insert} DO UPDATE SET {changed}"
    sets = ", ".join(f"{name} = ?" for name in ["revision", "body", *columns])
    replace = f"UPDATE {kind} SET {sets} WHERE tenant = ? AND id = ? AND revision = ?"  # noqa: S608
    return f"{insert} DO NOTHING", replace, put


_WRITES = {kind: _statements(kind) for kind in INDEXES}


class _Write:
    """One row to be written, in the writer's thread."""

    def __init__(self, tenant: str, row: Row, expect: int | None, places: list[str | None]) -> None:
        insert, replace, put = _WRITES[row.kind]
        self._statement = put if expect is None else replace if expect else insert
        kept = (row.revision, row.body, *places)
        self._values = (*kept, tenant, row.id, expect) if expect else (tenant, row.id, *kept)

    def __call__(self, connection: sqlite3.Connection) -> bool:
        return connection.execute(self._statement, self._values).rowcount > 0


def _found_by(tenant: str, span: Span) -> tuple[str, list[object]]:
    part, sort = f"{span.index}_part", f"{span.index}_sort"
    body = "body" if span.bodies else "x''"
    where, values = [f"tenant = ? AND {part} = ?"], [tenant, span.part]
    for bound, sign in ((span.above, ">"), (span.below, "<")):
        if bound:
            where.append(f"{sort} {sign} ?")
            values.append(bound)
    order = "DESC" if span.descending else "ASC"
    query = (
        f"SELECT id, revision, {body}, {sort} FROM {span.kind} WHERE {' AND '.join(where)} "  # noqa: S608
        f"ORDER BY {sort} {order} LIMIT ?"
    )
    return query, [*values, span.limit]


def _groups(connection: sqlite3.Connection, values: tuple[object, ...]) -> list[Group]:
    groups: list[Group] = []
    size = 0
    for first, last, body in connection.execute(_READ, values):
        groups.append(Group(first, last, body))
        size += len(body)
        if size >= READ_BYTES:
            break
    return groups
