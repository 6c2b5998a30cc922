"""SQLite: the default store. One file, no server, safe for several processes at once."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Literal, TypeVar
from urllib.parse import unquote

from gnomon.errors import ConfigError, StorageError
from gnomon.storage._bells import Bell
from gnomon.storage._records import RecordStorage
from gnomon.storage._rows import INDEXES, READ_BYTES, Found, Group, Row, Rows, Span
from gnomon.storage._sqlite_appends import Append
from gnomon.storage._sqlite_file import (
    BUSY_S,
    SQLITE_ERRORS,
    connected,
    connected_for_reading,
    is_there,
    meaning,
)
from gnomon.storage._sqlite_locks import locks_beside
from gnomon.storage._sqlite_readers import Readers
from gnomon.storage._sqlite_schema import found_version, migrated
from gnomon.storage._sqlite_standing import Standing, check_not_inherited, opened_here
from gnomon.storage._sqlite_writer import Work, Writer
from gnomon.storage._steady import PATIENCE_S
from gnomon.storage._url import split_settings

__all__ = ["SQLiteStorage", "row_values"]

_DURABILITY = {
    "off": "what was acknowledged may be lost, and the file damaged, by a power cut (synchronous=off)",
    "full": "what was acknowledged survives a power cut (synchronous=full)",
    "normal": "what was acknowledged survives the end of the process, not a power cut (synchronous=normal)",
}

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
            tables = SQLiteTables(None, client, synchronous, patience_s)
        else:
            path, synchronous = _read_url(url or "", synchronous)
            tables = SQLiteTables(path, None, synchronous, patience_s)
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
    if "\0" in name:
        raise ConfigError(f"{plain!r} names a file with a NUL character, which no system allows")
    if name == ":memory:":
        raise ConfigError("an SQLite store is a file", hint="for one in memory write memory://")
    chosen = settings.get("synchronous", synchronous)
    if chosen not in ("full", "normal"):
        raise ConfigError(f"synchronous is 'full' or 'normal'; {chosen!r} was given")
    return Path(os.path.realpath(os.path.expanduser(name))), chosen


class SQLiteTables(Rows):
    name = "sqlite"

    def __init__(
        self, path: Path | None, client: sqlite3.Connection | None, synchronous: str, patience_s: float
    ) -> None:
        super().__init__(str(path) if path is not None else "on a connection of yours")
        self._path = path
        self._synchronous = synchronous
        self.durability = _DURABILITY[synchronous]
        self._may_create = False
        self._client = client
        self._busy_s = min(BUSY_S, patience_s)
        self._process = os.getpid()
        self._standing: Standing | None = None
        self._writer = Writer(self._connect, self._check_standing, self._disconnect)
        self._read_standing: Standing | None = None
        self._readers = (
            Readers(self._connect_for_reading, self._check_read_standing) if path is not None else None
        )
        self.locks = locks_beside(path) if path is not None else None
        self._looking: asyncio.Task[None] | None = None

    # --- rows

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        return await self._written(_write(tenant, row, expect))

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
        values = (tenant, session_id, group.first, group.last, group.body)
        return await self._written(Append(values))

    async def append_and_write(self, tenant: str, session_id: str, group: Group, row: Row) -> bool:
        values = (tenant, session_id, group.first, group.last, group.body)
        return await self._written(Append(values, *row_values(tenant, row)))

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        return await self._read(lambda connection: _groups(connection, tenant, session_id, after_seq, limit))

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
        if self._path is not None and not is_there(self._path):
            return 0
        return await self._read(lambda connection: found_version(connection, self.where))

    async def migrate(self) -> None:
        self._may_create = True
        await self._written(lambda connection: migrated(connection, self.where))

    async def close(self) -> None:
        if self._looking is not None:
            await _ended(self._looking)
            self._looking = None
        stops = [self._writer.stop] + ([self._readers.stop] if self._readers is not None else [])
        if self._process != os.getpid():
            return  # the threads and the file are the parent's
        for stop in stops:
            await asyncio.get_running_loop().run_in_executor(None, stop)
        if self._path is not None:
            opened_here(self._path, id(self), False)

    def listening(self, tenant: str, session_id: str) -> AbstractAsyncContextManager[Bell]:
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        return self.bells.listening((tenant, session_id))

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
        self._check_process()
        try:
            return await self._writer.submit(work)
        except SQLITE_ERRORS as error:
            raise meaning(error, self.where) from error

    async def _read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        self._check_process()
        place: Writer | Readers = self._readers if self._readers is not None else self._writer
        reading: Awaitable[_T] = place.submit(work)
        try:
            return await reading
        except SQLITE_ERRORS as error:
            raise meaning(error, self.where) from error

    def _connect(self) -> sqlite3.Connection:
        if self._path is None:
            if self._client is None:
                raise ConfigError("the connection of this store is gone")
            self._client.row_factory = None  # rows are read by their places
            self.durability = _durability_of(self._client)
            return self._client
        self._announce(self._path)
        connection = connected(
            self._path, create=self._may_create, synchronous=self._synchronous, busy_s=self._busy_s
        )
        self._standing = Standing(self._path)
        return connection

    def _disconnect(self, connection: sqlite3.Connection) -> None:
        if connection is not self._client:  # that one is closed by who made it
            connection.close()

    def _connect_for_reading(self) -> sqlite3.Connection:
        assert self._path is not None
        self._announce(self._path)
        self._read_standing = self._read_standing or Standing(self._path)
        return connected_for_reading(self._path, busy_s=self._busy_s)

    def _announce(self, path: Path) -> None:
        check_not_inherited(path)
        opened_here(path, id(self), True)

    def _check_standing(self) -> None:
        if self._standing is not None:
            self._standing.check()

    def _check_read_standing(self) -> None:
        if self._read_standing is not None:
            self._read_standing.check_file()

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            message = f"{self.where} was opened by process {self._process}, of which this is a fork"
            raise StorageError(
                message, hint="open the store after the fork alone, or start processes by 'spawn'"
            )


def _durability_of(client: sqlite3.Connection) -> str:
    """As the connection is set, whoever has set it."""
    if not client.execute("PRAGMA database_list").fetchone()[2]:
        return "everything is gone when the connection is closed"
    (level,) = client.execute("PRAGMA synchronous").fetchone()
    return _DURABILITY[("off", "normal", "full", "full")[level]]


async def _ended(task: asyncio.Task[None]) -> None:
    """End a task that may be of another event loop, which may be over."""
    if task.get_loop() is asyncio.get_running_loop():
        task.cancel()
        await asyncio.wait({task})
        return
    with suppress(RuntimeError):
        task.get_loop().call_soon_threadsafe(task.cancel)


# --- the statements -----------------------------------------------------------

_READ = (
    "SELECT first, last, body FROM events WHERE tenant = ? AND session = ? AND last > ? ORDER BY last LIMIT ?"
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


_NOWHERE = (None, None)
_WRITES = {kind: _statements(kind) for kind in INDEXES}


def row_values(tenant: str, row: Row, expect: int | None = None) -> tuple[str, tuple[object, ...]]:
    """The statement that writes a row, and what goes into it."""
    insert, replace, put = _WRITES[row.kind]
    kept: list[object] = [row.revision, row.body]
    for index in INDEXES[row.kind]:
        kept += row.places.get(index, _NOWHERE)
    if expect:
        return replace, (*kept, tenant, row.id, expect)
    return put if expect is None else insert, (tenant, row.id, *kept)


def _write(tenant: str, row: Row, expect: int | None) -> Work[bool]:
    statement, values = row_values(tenant, row, expect)
    return lambda connection: connection.execute(statement, values).rowcount > 0


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


def _groups(
    connection: sqlite3.Connection, tenant: str, session_id: str, after_seq: int, limit: int
) -> list[Group]:
    """No more of them than hold as many events as were asked for: a log is read in pages of events."""
    rows: list[tuple[int, int, bytes]] = []
    size, end = 0, None
    for row in connection.execute(_READ, (tenant, session_id, after_seq, limit)):
        rows.append(row)
        size += len(row[2])
        if end is None:
            end = max(row[0] - 1, after_seq) + limit
        if row[1] >= end or size >= READ_BYTES:
            break
    return [Group(*row) for row in rows]
