"""What PostgreSQL and its driver report, in Gnomon's words."""

from __future__ import annotations

import ssl
from collections.abc import Mapping

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from gnomon.errors import (
    AccessDenied,
    ConfigError,
    Damaged,
    GnomonError,
    InvalidInput,
    StorageError,
    StorageFull,
    WrongSchema,
    scrub,
)
from gnomon.storage._rows import Lost

__all__ = ["FOREIGN", "NO_TABLES", "explained", "is_undone", "leaves_connection"]

FOREIGN = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,  # and with it timeouts and certificates
    EOFError,
    ValueError,  # of a setting in the URL
)
"""What comes out of the driver."""

NO_TABLES = frozenset({"42P01", "3F000"})
"""The table, or the schema it stands in, is not there."""

_LOST = ("08", "40", "53", "57")
"""Classes of codes that pass: the connection, an undone transaction, too many connections, a shutdown."""

_LOST_CODES = frozenset(
    {
        "55P03",  # somebody else holds a lock for too long
        "25P02",  # the transaction had failed before
        "25P03",  # it was idle for too long
    }
)

_UNDONE = frozenset({"40001", "40P01"})
"""The transaction was undone for the sake of another one, and may be repeated as it was."""

_TELLING: Mapping[str, tuple[type[GnomonError], str]] = {
    "28": (AccessDenied, "check the user and the password in the URL, and the server's pg_hba.conf"),
    "42501": (AccessDenied, "grant the user its rights on the schema and its tables, or choose another user"),
    "3D000": (StorageError, "create it with CREATE DATABASE, encoding UTF8, or name another in the URL"),
    "42P01": (WrongSchema, "call migrate() on the store, or run: gnomon db migrate"),
    "3F000": (WrongSchema, "call migrate() on the store, or run: gnomon db migrate"),
    "42703": (WrongSchema, "the tables are not as migrate() has made them"),
    "26000": (ConfigError, "a pooler stands before the server: add statement_cache_size=0 to the URL"),
    "42P05": (ConfigError, "a pooler stands before the server: add statement_cache_size=0 to the URL"),
    "42P07": (
        StorageError,
        "another program's tables stand in this schema: name one with schema=… in the URL",
    ),
    "42704": (ConfigError, "the URL has a setting that the server does not know"),
    "53100": (StorageFull, "make room on the server's disk"),
    "53200": (StorageFull, "the server has no memory left"),
    "54": (InvalidInput, "it is larger than the database can hold"),
    "22": (InvalidInput, "the database cannot hold this value"),
    "XX001": (Damaged, "restore the database from a copy"),
    "XX002": (Damaged, "rebuild the index with REINDEX, and look for the cause"),
}
"""Codes, or the classes they begin with, that somebody has to act on, and how."""


def explained(error: BaseException, where: str) -> Exception:
    """One of the foreign errors, as those above the store know it."""
    if isinstance(error, asyncpg.PostgresError):
        return _from_server(error, where)
    if isinstance(error, asyncpg.DataError):
        return InvalidInput(f"{where}: {_said(error)}")
    if isinstance(error, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return _from_driver(error, where)
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "name the authority with sslrootcert=… in the URL, or choose another sslmode"
        return StorageError(f"{where}: the server's certificate does not hold: {error.reason}", hint=hint)
    if isinstance(error, TimeoutError):
        return Lost("no answer in time")
    if isinstance(error, ValueError):
        return ConfigError(f"{where}: {_said(error)}", hint="see the settings of a PostgreSQL URL")
    return Lost(scrub(str(error)) or type(error).__name__)


def is_undone(error: BaseException) -> bool:
    """Whether the server has taken the transaction back, so that it may be sent again."""
    return isinstance(error, asyncpg.PostgresError) and _code(error) in _UNDONE


def leaves_connection(error: BaseException) -> bool:
    """Whether the connection can be used again: the server has answered in full, or was not asked."""
    if isinstance(error, asyncpg.PostgresError):
        return not _code(error).startswith(("08", "57P"))
    return isinstance(error, asyncpg.DataError | GnomonError)


def _from_server(error: asyncpg.PostgresError, where: str) -> Exception:
    code, said = _code(error), _said(error)
    if code == "25006":
        return Lost(f"the server is read-only, perhaps a standby: {said}")
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return Lost(said)  # somebody has migrated: asked anew, it is planned anew
    found = _TELLING.get(code) or _TELLING.get(code[:2])
    if found is not None:
        kind, hint = found
        return kind(f"{where}: {said}", hint=hint)
    if code.startswith(_LOST) or code in _LOST_CODES:
        return Lost(said)
    return StorageError(f"{where}: PostgreSQL refused with {code}: {said}")


def _from_driver(error: Exception, where: str) -> Exception:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return Lost("only a standby or a read-only server answers")
    if isinstance(error, asyncpg.ClientConfigurationError):
        return ConfigError(f"{where}: {_said(error)}", hint="see the settings of a PostgreSQL URL")
    if isinstance(error, asyncpg.UnsupportedClientFeatureError | asyncpg.UnsupportedServerFeatureError):
        return StorageError(f"{where}: {_said(error)}")
    # The rest says that a connection, or the pool it came from, was closed under us.
    return Lost(_said(error))


def _code(error: asyncpg.PostgresError) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _said(error: BaseException) -> str:
    """The first line: what follows it may quote the row."""
    return scrub(str(error.args[0] if error.args else type(error).__name__)).splitlines()[0]
