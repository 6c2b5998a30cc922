"""Limits that Redis keeps: a few keys each, and one script that looks and takes in one go, by its clock."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha1
from typing import Protocol, TypeAlias, cast

from redis import exceptions as told
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from gnomon.errors import AccessDenied, StorageError, Unavailable
from gnomon.hooks._limits_url import place_of
from gnomon.hooks._shared import LEASE_S, PATIENCE_S, Need

__all__ = ["RedisLimits"]

TIMEOUT_S = 5.0
CONNECTIONS = 16

_QUOTING = " with args beginning with"
"""What follows may be a password: a server that has no AUTH says what it was given."""

Word: TypeAlias = str | float | int


class _Client(Protocol):
    """As much of the driver as is used here; what is sent is sent once."""

    async def execute_command(self, *words: Word) -> object: ...

    async def aclose(self) -> None: ...


class RedisLimits:
    """`RedisLimits("redis://localhost:6379/0?prefix=gnomon")`."""

    def __init__(self, url: str) -> None:
        self._place = place_of(url, "prefix")
        pool = BlockingConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            self._place.url,
            retry=Retry(NoBackoff(), 0),
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            max_connections=CONNECTIONS,
            timeout=TIMEOUT_S,
        )
        self._client = cast(_Client, Redis.from_pool(pool))

    async def take(self, key: str, ticket: str, need: Need) -> float:
        most = -1 if need.concurrent is None else need.concurrent
        costs = (need.request_s, need.request_room_s, need.token_s, need.token_room_s)
        wait_us = await self._run(_TAKE, key, ticket, *costs, most, PATIENCE_S, LEASE_S)
        return cast(int, wait_us) / 1e6

    async def leave(self, key: str, ticket: str, request_s: float, token_s: float) -> None:
        await self._run(_LEAVE, key, ticket, request_s, token_s)

    async def shut(self, key: str, seconds: float) -> None:
        await self._run(_SHUT, key, seconds)

    async def renew(self, key: str, tickets: tuple[str, ...]) -> None:
        await self._run(_RENEW, key, LEASE_S, *tickets)

    async def close(self) -> None:
        await self._client.aclose()

    # --- inside

    async def _run(self, script: _Script, key: str, *words: Word) -> object:
        keys = [f"{self._place.name}:rate:{{{key}}}:{part}" for part in _PARTS]
        given = (len(keys), *keys, *words)
        try:
            try:
                return await self._client.execute_command("EVALSHA", script.digest, *given)
            except told.NoScriptError:  # a server that was started anew; nothing was run
                return await self._client.execute_command("EVAL", script.source, *given)
        except (told.RedisError, OSError, ValueError) as error:
            raise self._explained(error) from (None if _QUOTING in str(error) else error)

    def _explained(self, error: Exception) -> StorageError:
        text = f"{str(error).partition(_QUOTING)[0].rstrip(',')} [{type(error).__name__}]"
        where = f"the shared rate limit at {self._place.where}"
        if isinstance(error, told.AuthenticationError | told.NoPermissionError):
            hint = "check the user and the password in the URL; it needs scripts, hashes and sorted sets"
            return AccessDenied(f"{where} does not let us in: {text}", hint=hint)
        is_refused = isinstance(error, told.ResponseError) and not _is_passing(text)
        return (StorageError if is_refused else Unavailable)(f"{where} cannot be asked: {text}")


def _is_passing(text: str) -> bool:
    """What a server says that is busy, full, or not the one that writes now."""
    words: Sequence[str] = ("BUSY", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "OOM", "READONLY")
    return any(word in text.upper() for word in (*words, "READ ONLY", "TRYAGAIN"))


class _Script:
    """A script and the name under which Redis remembers it."""

    def __init__(self, body: str) -> None:
        self.source = _NOW + body
        self.digest = sha1(self.source.encode(), usedforsecurity=False).hexdigest()


# The keys: when each limit is whole again; who waits, by place; until when each of them is believed
# to be there; who is inside, and until when.
_PARTS = ("state", "line", "alive", "inside")

_NOW = r"""
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local function put(name, value) redis.call('HSET', KEYS[1], name, string.format('%.6f', value)) end
local function get(name) return tonumber(redis.call('HGET', KEYS[1], name) or '0') end
local function keep()
  local last = math.max(now, get('requests'), get('tokens'), get('shut'))
  for _, key in ipairs(KEYS) do redis.call('EXPIRE', key, math.ceil(last - now) + 120) end
end
"""

_TAKE = _Script(r"""
local ticket, most = ARGV[1], tonumber(ARGV[6])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now)) do
  redis.call('ZREM', KEYS[2], gone)
  redis.call('ZREM', KEYS[3], gone)
end
redis.call('ZREMRANGEBYSCORE', KEYS[4], '-inf', now)
local requests, tokens = get('requests'), get('tokens')
local ready = math.max(requests - tonumber(ARGV[3]), tokens - tonumber(ARGV[5]), get('shut'))
local first = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
local is_first = not first or first == ticket
local is_full = most >= 0 and redis.call('ZCARD', KEYS[4]) >= most
if is_first and not is_full and ready <= now + 0.000001 then
  put('requests', math.max(requests, now) + tonumber(ARGV[2]))
  put('tokens', math.max(tokens, now) + tonumber(ARGV[4]))
  redis.call('ZREM', KEYS[2], ticket)
  redis.call('ZREM', KEYS[3], ticket)
  if most >= 0 then redis.call('ZADD', KEYS[4], now + tonumber(ARGV[8]), ticket) end
  keep()
  return 0
end
if not redis.call('ZSCORE', KEYS[2], ticket) then
  redis.call('ZADD', KEYS[2], redis.call('HINCRBY', KEYS[1], 'places', 1), ticket)
end
redis.call('ZADD', KEYS[3], now + tonumber(ARGV[7]), ticket)
keep()
if not is_first or is_full then return -1 end
return math.ceil((ready - now) * 1000000)
""")

_LEAVE = _Script(r"""
local function add(name, seconds)
  local whole = get(name)
  if seconds > 0 then whole = math.max(whole, now) end
  if seconds ~= 0 then put(name, whole + seconds) end
end
add('requests', tonumber(ARGV[2]))
add('tokens', tonumber(ARGV[3]))
for at = 2, 4 do redis.call('ZREM', KEYS[at], ARGV[1]) end
keep()
""")

_SHUT = _Script(r"""
put('shut', math.max(get('shut'), now + tonumber(ARGV[1])))
keep()
""")

_RENEW = _Script(r"""
for at = 2, #ARGV do redis.call('ZADD', KEYS[4], 'XX', now + tonumber(ARGV[1]), ARGV[at]) end
keep()
""")
