"""The connection to MongoDB: made at the first question, bounded in time, its errors put into our words.

The driver repeats nothing by itself, since the layer above does; a client that
was given may be set up otherwise, which does no harm: MongoDB takes the driver's
own repetition of a write for what it is and does not do it twice.
"""

from __future__ import annotations

import asyncio
import re
import warnings
from collections.abc import Coroutine
from contextlib import suppress
from datetime import UTC
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote_plus, urlsplit

import pymongo
from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    CursorNotFound,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidName,
    InvalidOperation,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
)
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.write_concern import WriteConcern

from gnomon.errors import AccessDenied, ConfigError, GnomonError, StorageError, StorageFull
from gnomon.storage._rows import Lost
from gnomon.storage._url import shown, split_settings

__all__ = ["Doc", "Link"]

Doc: TypeAlias = dict[str, Any]
_T = TypeVar("_T")

_CREDENTIALS_HINT = "percent-encode user and password (urllib.parse.quote_plus)"

_CLOSE_S = 2.0
_GRACE_S = 0.5
_DUPLICATE_KEY = 11000
_ATLAS = 8000  # its front door has one number for everything
_DENIED = frozenset({11, 13, 18, 31, 214, 334, 371, 391})
"""No such user or role, wrong password, not allowed, not from here, no such way to log in, no writes."""
_FULL = frozenset({14031})
_AWAY = frozenset(
    {6, 7, 89, 202, 230, 407, 450, 9001, 91331}  # the network between the servers
    | {91, 189, 216, 10058, 10107, 11600, 11602, 13388, 13435, 13436}  # going down, or not the primary now
    | {24, 46, 50, 112, 133, 134, 239, 246, 262, 365, 402, 433, 449, 462, 11601}  # busy, or out of time
    | {48, 117, 276, 285, 453, 12586, 12587, 10045600}  # another changes the same collection just now
    | {43, 175, 237}  # a list that was being read is gone
)
"""The numbers are those of error_codes.yml in MongoDB's source."""
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,40}")


class Link:
    """One database: writes are durable on a majority, reads are of what a majority has, from the primary."""

    def __init__(
        self,
        url: str | None,
        client: AsyncMongoClient[Doc] | None,
        database: str,
        prefix: str,
        timeout_s: float,
    ) -> None:
        self._is_ours = client is None
        self._is_closed = False
        self._timeout_s = timeout_s
        if url is not None and client is None:
            client, database, prefix, self.where = _opened(url, database, prefix)
        elif client is not None and url is None and database:
            self.where = f"mongodb://{_hosts(client)}/{database}"
        else:
            hint = "MongoStorage(url), or MongoStorage(client=…, database=…)"
            raise ConfigError(
                "a MongoDB store is opened by a URL, or by a client and a database's name", hint=hint
            )
        self._client = client
        self._prefix = _checked_prefix(prefix)
        try:
            self._database = client.get_database(
                database,
                read_preference=ReadPreference.PRIMARY,
                read_concern=ReadConcern("majority"),
                write_concern=WriteConcern("majority", j=True),
            )
        except InvalidName as error:
            raise ConfigError(f"{database!r} cannot be the name of a database: {error}") from None

    def collection(self, name: str) -> AsyncCollection[Doc]:
        return self._database[self._prefix + name]

    async def ask(self, question: Coroutine[Any, Any, _T], timeout_s: float | None = None) -> _T:
        """What the server answers, in time; what goes wrong comes as one of our errors.

        That a document is there already comes as the driver says it: its writer expects it.
        """
        answer = asyncio.ensure_future(self._answered(question, timeout_s or self._timeout_s))
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            await _ended(answer)
            raise

    async def _answered(self, question: Coroutine[Any, Any, _T], timeout_s: float) -> _T:
        if self._is_closed:
            question.close()
            raise self._closed()
        try:
            with pymongo.timeout(timeout_s):
                return await question
        except DuplicateKeyError:
            raise
        except PyMongoError as error:
            if isinstance(error, BulkWriteError) and _only_duplicates(error):
                raise
            raise self._explained(error) from error
        except OSError as error:
            raise Lost(_first_line(error)) from error
        except RuntimeError as error:
            if "event loop" not in str(error):
                raise
            hint = "open one store in each event loop"
            raise StorageError(
                f"mongo store {self.where} belongs to another event loop", hint=hint
            ) from error

    async def now_s(self) -> int:
        """The server's time, in seconds: the clocks of those who use it may differ by any amount."""
        plain: CodecOptions[Doc] = CodecOptions()  # a client that was given may have times of its own kind
        answer = await self.ask(self._database.command("hello", codec_options=plain))
        return int(answer["localTime"].replace(tzinfo=UTC).timestamp())

    async def close(self) -> None:
        self._is_closed = True
        if self._is_ours:
            # It says goodbye to the server, which may not be listening any more.
            with suppress(PyMongoError, OSError), pymongo.timeout(_CLOSE_S):
                await self._client.close()

    def _closed(self) -> StorageError:
        return StorageError(f"mongo store {self.where} is closed", hint="open it anew")

    def _explained(self, error: PyMongoError) -> GnomonError | Lost:
        said = _first_line(error)
        if self._is_closed or isinstance(error, InvalidOperation):
            return self._closed() if self._is_closed else StorageError(f"mongo store {self.where}: {said}")
        if _is_away(error):
            return Lost(said)
        if isinstance(error, ConfigurationError):
            return ConfigError(f"mongo store {self.where} cannot be used: {said}")
        codes = _codes(error)
        if codes & _FULL or (_ATLAS in codes and "quota" in said):
            hint = "make room, or raise its limit; nothing was stored"
            return StorageFull(f"mongo store {self.where} is full: {said}", hint=hint)
        if codes & _DENIED or _ATLAS in codes:
            hint = (
                "check user, password and authSource in the URL; it needs the role readWrite on this database"
            )
            return AccessDenied(f"mongo store {self.where} does not let us: {said}", hint=hint)
        return StorageError(f"mongo store {self.where} refused: {said}")


async def _ended(answer: asyncio.Future[Any]) -> None:
    """A question whose asker has been cancelled comes to its end, unless that takes too long.

    The driver closes a connection on which it is disturbed, and loses one that is just being made.
    """
    try:
        await asyncio.wait({answer}, timeout=_GRACE_S)
    finally:
        if answer.cancel():
            await asyncio.wait({answer})
        if not answer.cancelled():
            answer.exception()  # nobody is there to hear of it


def _only_duplicates(error: BulkWriteError) -> bool:
    """Whether all that went wrong is that some of the documents were there already."""
    return not error.details.get("writeConcernErrors") and _codes(error) == {_DUPLICATE_KEY}


def _is_away(error: PyMongoError) -> bool:
    """Whether to ask again: the server is away, changing or busy, and may have done it or not."""
    if isinstance(error, ConnectionFailure | ExecutionTimeout | WriteConcernError | CursorNotFound):
        return True
    if isinstance(error, BulkWriteError) and error.details.get("writeConcernErrors"):
        return True
    return error.timeout or error.has_error_label("RetryableWriteError") or bool(_codes(error) & _AWAY)


def _codes(error: PyMongoError) -> set[int]:
    if isinstance(error, BulkWriteError):
        return {int(each.get("code", 0)) for each in error.details.get("writeErrors", ())}
    code = error.code if isinstance(error, OperationFailure) else None
    return set() if code is None else {code}


def _first_line(error: BaseException) -> str:
    """What happened, without the driver's picture of all servers."""
    said = next(iter(str(error).splitlines()), "") or type(error).__name__
    return (
        said.partition(", full error:")[0].partition(", Timeout:")[0].partition(" (configured timeouts:")[0]
    )


def _opened(url: str, database: str, prefix: str) -> tuple[AsyncMongoClient[Doc], str, str, str]:
    """A client for the URL, which has not connected yet; and the names in it."""
    where, parts = shown(url), urlsplit(url)
    if "@" in (
        parts.path.lstrip("/") or parts.query
    ):  # then what seems to be the host is a part of the password
        raise ConfigError("the URL of the MongoDB store cannot be read", hint=_CREDENTIALS_HINT)
    driver_url, settings = split_settings(url, ("prefix",))
    named = unquote_plus(parts.path.lstrip("/"))
    if named and database and named != database:
        raise ConfigError(f"the URL {where} names the database {named!r}, and {database!r} was given as well")
    if not (named or database):
        raise ConfigError(f"the URL {where} names no database", hint="write mongodb://host/database")
    return _client(driver_url, where), named or database, settings.get("prefix", prefix), where


def _client(url: str, where: str) -> AsyncMongoClient[Doc]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # so the driver says that it does not know an option
            return AsyncMongoClient(url, retryWrites=False, retryReads=False)
    except (PyMongoError, ValueError, TypeError, UserWarning) as error:
        # It may quote a part of the password, where that was not encoded.
        hint = _CREDENTIALS_HINT if "@" in urlsplit(url).netloc else None
        why = "" if hint and isinstance(error, PyMongoError | ValueError) else f": {_first_line(error)}"
        raise ConfigError(f"the MongoDB store {where} cannot be opened{why}", hint=hint) from None


def _hosts(client: AsyncMongoClient[Doc]) -> str:
    servers = sorted(client.topology_description.server_descriptions())
    return ",".join(f"{host}:{port}" if port else host for host, port in servers)


def _checked_prefix(prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(f"the prefix {prefix!r} cannot begin the name of a collection", hint="like gnomon_")
    return prefix
