"""A store in Redis 6.2 or newer: rows are hashes, indexes sorted sets, logs streams; a write is one script.

    RedisStorage("redis://localhost:6379/0?prefix=gnomon")

A row, its indexes and everything else of a tenant but its logs share a hash slot; a log
has one of its own. Keys hold the tenant with its length before it, so that no two run together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, TypeAlias, cast
from urllib.parse import urlsplit

import msgspec
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from gnomon.errors import ConfigError, Damaged
from gnomon.storage._bells import Bell
from gnomon.storage._records import RecordStorage
from gnomon.storage._redis_bells import Ear
from gnomon.storage._redis_checks import Reply, Trust
from gnomon.storage._redis_scripts import APPEND, CUT, DELETE, FIND, GET, MIGRATE, READ, WRITE, Script
from gnomon.storage._redis_wire import Pool, Wire
from gnomon.storage._rows import READ_BYTES, Found, Group, Row, Rows, Span
from gnomon.storage._steady import PATIENCE_S
from gnomon.storage._url import shown, split_settings

__all__ = ["MIGRATIONS", "RedisStorage"]

Durability: TypeAlias = Literal["full", "relaxed"]

MIGRATIONS: tuple[str, ...] = ("-- rows, indexes and logs come with their first key",)
"""What a script does to the keys that are there, to bring them to the next schema; one for each.

Redis takes nothing back: a step that fails half-way is run again from its start, and must bear that.
"""

TIMEOUT_S = 5.0
CONNECTIONS = 32

_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_SETTINGS = ("prefix", "durability")
_LASTING = "what was acknowledged is on the server's disk (appendfsync always)"
_FLEETING = "what was acknowledged may be gone after a crash (durability=relaxed)"
_LARGE_BYTES = 1_000_000

_places = msgspec.msgpack.Encoder().encode


class RedisStorage(RecordStorage):
    """A store in a Redis that writes to disk before it answers; it is asked whether it does.

    With `durability="relaxed"` it need not, and what was acknowledged may be gone after a crash.
    `client` is used instead of a URL, and not closed; what it is set to repeat is not repeated.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Redis | None = None,
        prefix: str | None = None,
        durability: Durability | None = None,
        timeout_s: float = TIMEOUT_S,
        connections: int = CONNECTIONS,
        patience_s: float = PATIENCE_S,
    ) -> None:
        if (url is None) == (client is None):
            raise ConfigError("a redis store needs a URL or a client, and not both")
        if timeout_s <= 0 or connections < 1:
            raise ConfigError(f"timeout_s and connections are above 0; {timeout_s}, {connections} was given")
        address, settings = split_settings(url, _SETTINGS) if url is not None else ("", {})
        pool, where = (
            _pool_of(client) if client is not None else (_pool_at(address, timeout_s), shown(address))
        )
        is_relaxed = _is_relaxed(durability or settings.get("durability", "full"))
        trust = Trust(where, is_relaxed=is_relaxed)
        wire = Wire(pool, trust, timeout_s=timeout_s, connections=connections, is_ours=client is None)
        tables = RedisTables(wire, where, _checked_prefix(prefix or settings.get("prefix", "gnomon")))
        tables.durability = _FLEETING if is_relaxed else _LASTING
        super().__init__(tables, patience_s=patience_s)


class RedisTables(Rows):
    name = "redis"
    is_of_one_loop = True
    poll_s = 2.0

    def __init__(self, wire: Wire, where: str, prefix: str) -> None:
        super().__init__(where)
        self._prefix = prefix
        self._wire = wire
        self._ear = Ear(wire, self.bells)

    # --- rows

    async def write(self, tenant: str, row: Row, expect: int | None) -> bool:
        places = {f"{index}:{place.part}": place.sort for index, place in row.places.items()}
        done = await self._wire.run(
            WRITE,
            self._row_key(tenant, row.kind, row.id),
            "" if expect is None else expect,
            row.revision,
            row.body,
            _places(places),
            self._index_key(tenant, row.kind),
            row.id,
            size=len(row.body),
        )
        return done == 1

    async def get(self, tenant: str, kind: str, id: str) -> Found | None:
        key = self._row_key(tenant, kind, id)
        revision, body = cast("list[Reply]", await self._wire.run(GET, key, _LARGE_BYTES))
        if isinstance(body, int):
            reply = await self._wire.ask("HMGET", key, "revision", "body", size=body)
            revision, body = cast("list[Reply]", reply)
        if revision is None:
            return None
        return Found(id, int(cast(bytes, revision)), cast(bytes, body))

    async def find(self, tenant: str, span: Span) -> list[Found]:
        found: list[Found] = []
        low = b"[%b\x01" % span.above.encode() if span.above else b"-"
        high = b"(%b" % span.below.encode() if span.below else b"+"
        while True:
            last, rows = await self._found(tenant, span, low, high, span.limit - len(found))
            found += rows
            if not last or len(found) == span.limit:
                return found
            low, high = (low, b"(" + last) if span.descending else (b"(" + last, high)

    async def delete(self, tenant: str, kind: str, id: str, expect: int | None = None) -> bool:
        key = self._row_key(tenant, kind, id)
        revision = "" if expect is None else expect
        return await self._wire.run(DELETE, key, revision, self._index_key(tenant, kind), id) == 1

    # --- logs

    async def append(self, tenant: str, session_id: str, group: Group) -> bool:
        done = await self._wire.run(
            APPEND,
            self._log_key(tenant, session_id),
            f"{group.first - 1}-0",
            f"{group.last}-0",
            group.first,
            group.body,
            self._ear.token,
            size=len(group.body),
        )
        return done == 1

    async def read(self, tenant: str, session_id: str, after_seq: int, limit: int) -> list[Group]:
        key = self._log_key(tenant, session_id)
        flat = cast("list[bytes]", await self._wire.run(READ, key, f"{after_seq + 1}-0", limit, READ_BYTES))
        entries = zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        return [Group(int(first), int(id.partition(b"-")[0]), body) for id, first, body in entries]

    async def cut(self, tenant: str, session_id: str, through: int | None) -> int:
        bounds = ("+", "") if through is None else (f"{through}-0", f"{through + 1}-0")
        return cast(int, await self._wire.run(CUT, self._log_key(tenant, session_id), *bounds))

    def listening(self, tenant: str, session_id: str) -> AbstractAsyncContextManager[Bell]:
        return self._ear.listening(self._log_key(tenant, session_id), (tenant, session_id))

    # --- the store as a whole

    async def version(self) -> int:
        found = await self._wire.ask("GET", self._schema_key)
        try:
            return int(cast(bytes, found or b"0"))
        except ValueError:
            message = f"redis store {self.where}: the key {self._schema_key} holds no version of ours"
            raise Damaged(message, hint="another program uses it; choose another prefix") from None

    async def migrate(self) -> None:
        for number, step in enumerate(MIGRATIONS, 1):
            await self._wire.run(Script(MIGRATE % step), self._schema_key, number)

    async def close(self) -> None:
        await self._ear.close()
        await self._wire.close()

    # --- inside

    async def _found(
        self, tenant: str, span: Span, low: bytes, high: bytes, limit: int
    ) -> tuple[bytes, list[Found]]:
        """Some rows of the stretch, and the member after which it goes on, if it does."""
        index = self._index_key(tenant, span.kind, f"{span.index}:{span.part}")
        words = (low, high, int(span.descending), limit, self._row_key(tenant, span.kind), int(span.bodies))
        reply = cast("list[bytes]", await self._wire.run(FIND, index, *words, READ_BYTES))
        rows = zip(reply[1::3], reply[2::3], reply[3::3], strict=True)
        return reply[0], [_found(*row) for row in rows]

    @property
    def _schema_key(self) -> str:
        return f"{self._prefix}:schema"

    def _row_key(self, tenant: str, kind: str, id: str = "") -> str:
        return f"{self._prefix}:{{{_sized(tenant)}}}:row:{kind}:{id}"

    def _index_key(self, tenant: str, kind: str, place: str = "") -> str:
        return f"{self._prefix}:{{{_sized(tenant)}}}:index:{kind}:{place}"

    def _log_key(self, tenant: str, session_id: str) -> str:
        return f"{self._prefix}:{{{_sized(tenant)}:{session_id}}}:log"


def _sized(name: str) -> str:
    """A name that ends where its length says, whatever is in it. What it begins with, a digit, keeps the
    hash tag that it stands in from being empty."""
    return f"{len(name)}:{name}"


def _found(member: bytes, revision: bytes, body: bytes) -> Found:
    sort, _, id = member.decode().partition("\x00")
    return Found(id, int(revision), body, sort)


# --- what was given ------------------------------------------------------------


def _pool_at(url: str, timeout_s: float) -> Pool:
    parts = urlsplit(url)
    if parts.scheme not in ("redis", "rediss"):
        raise ConfigError("the URL of a redis store begins with redis:// or rediss://")
    if not re.fullmatch(r"/?\d*", parts.path):
        hint = "write redis://host:6379/0; prefix=… keeps several stores apart in one database"
        raise ConfigError(f"a Redis database is a number, {parts.path[1:]!r} was given", hint=hint)
    try:
        pool = ConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            url,
            protocol=2,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=None,  # the wire has its own limits
            socket_connect_timeout=timeout_s,
            max_connections=1_000_000,
        )
        pool.make_connection()  # connects nothing, but refuses settings that it does not know
    except TypeError as error:  # it names the argument, and no value
        setting = str(error).rpartition(" ")[2]
        raise ConfigError(f"the URL of redis store {shown(url)} has an unknown setting {setting}") from None
    except (ValueError, RedisError) as error:
        raise ConfigError(f"the URL of redis store {shown(url)} cannot be used: {error}") from None
    return cast(Pool, pool)


def _pool_of(client: Redis) -> tuple[Pool, str]:
    pool = cast(object, getattr(client, "connection_pool", None))
    if not isinstance(pool, ConnectionPool):
        kind = type(client).__name__
        raise ConfigError(f"client must be a redis.asyncio.Redis, {kind} was given", hint="or give a URL")
    if pool.get_encoder().decode_responses:
        raise ConfigError("the client turns replies into text", hint="make it with decode_responses=False")
    given = cast("Mapping[str, object]", pool.connection_kwargs)
    server = given.get("path") or f"{given.get('host', 'localhost')}:{given.get('port', 6379)}"
    return cast(Pool, pool), f"{server}/{given.get('db', 0)}"


def _checked_prefix(prefix: str) -> str:
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(f"prefix is 1 to 64 of A-Z a-z 0-9 _ . : -; {prefix!r} was given")
    return prefix


def _is_relaxed(durability: str) -> bool:
    if durability not in ("full", "relaxed"):
        raise ConfigError(f"durability is full or relaxed; {durability!r} was given")
    return durability == "relaxed"
