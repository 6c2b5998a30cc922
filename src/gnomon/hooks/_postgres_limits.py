"""Limits that PostgreSQL keeps: a row each, and one function that looks and takes in one go, by its clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import asyncpg  # pyright: ignore[reportMissingTypeStubs]

from gnomon.errors import AccessDenied, ConfigError, StorageError, Unavailable
from gnomon.hooks._limits_url import place_of
from gnomon.hooks._shared import LEASE_S, PATIENCE_S, Need

__all__ = ["PostgresLimits"]

TIMEOUT_S = 5.0
CONNECTIONS = 4
_CLOSE_S = 2.0
_CREATE_S = 30.0
_LOCK = 7_246_001_834_511_207
"""Whoever creates the tables holds it: `IF NOT EXISTS` does not help against another who does the same."""

_create_pool = cast("Callable[..., Any]", asyncpg.create_pool)  # pyright: ignore[reportUnknownMemberType]
_FOREIGN = (asyncpg.PostgresError, asyncpg.InterfaceError, OSError)


class PostgresLimits:
    """`PostgresLimits("postgresql://user:password@host/database?schema=gnomon")`.

    The tables `rate_limits` and `rate_tickets` are made in the schema when they are not there.
    """

    def __init__(self, url: str) -> None:
        self._place = place_of(url, "schema")
        if set(self._place.name) & set(".:-"):
            raise ConfigError(f"schema of the shared rate limit is a plain name, not {self._place.name!r}")
        self._pool: Any = None
        self._opening = asyncio.Lock()

    async def take(self, key: str, ticket: str, need: Need) -> float:
        costs = (need.request_s, need.request_room_s, need.token_s, need.token_room_s)
        given = (key, ticket, *costs, need.concurrent, PATIENCE_S, LEASE_S)
        return float(await self._call("rate_take_1($1, $2, $3, $4, $5, $6, $7, $8, $9)", *given))

    async def leave(self, key: str, ticket: str, request_s: float, token_s: float) -> None:
        await self._call("rate_leave_1($1, $2, $3, $4)", key, ticket, request_s, token_s)

    async def shut(self, key: str, seconds: float) -> None:
        await self._call("rate_shut_1($1, $2)", key, seconds)

    async def renew(self, key: str, tickets: tuple[str, ...]) -> None:
        await self._call("rate_renew_1($1, $2, $3)", key, list(tickets), LEASE_S)

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            with suppress(*_FOREIGN, TimeoutError):
                async with asyncio.timeout(_CLOSE_S):
                    await pool.close()  # it ends them all when it is interrupted
            await asyncio.sleep(0)  # a socket is closed one step after its connection

    # --- inside

    async def _call(self, function: str, *values: object) -> Any:
        try:
            async with self._opening:
                pool = self._pool = self._pool or await self._opened()
            return await pool.fetchval(f"SELECT {self._place.name}.{function}", *values)
        except (*_FOREIGN, TimeoutError) as error:
            raise self._explained(error) from error

    async def _opened(self) -> Any:
        pool = await _create_pool(
            dsn=self._place.url,
            min_size=0,
            max_size=CONNECTIONS,
            timeout=TIMEOUT_S,
            command_timeout=TIMEOUT_S,
            statement_cache_size=0,  # so that it works behind PgBouncer too
            server_settings=_SETTINGS,
        )
        try:
            await self._prepare(pool)
        except BaseException:
            await pool.close()
            raise
        return pool

    async def _prepare(self, pool: Any) -> None:
        """Make what is not there, one process after another; then forget what was not used for a day."""
        schema = self._place.name
        async with pool.acquire() as connection, connection.transaction():
            if await connection.fetchval("SELECT to_regproc($1) IS NULL", f"{schema}.rate_renew_1"):
                await connection.execute("SET LOCAL synchronous_commit = on")
                await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK, timeout=_CREATE_S)
                if await connection.fetchval("SELECT to_regnamespace($1) IS NULL", schema):
                    await connection.execute(f"CREATE SCHEMA {schema}")
                await connection.execute(_CREATE.replace("{schema}", schema), timeout=_CREATE_S)
        await pool.execute(_FORGET.replace("{schema}", schema))
        await pool.execute(_FORGET_TICKETS.replace("{schema}", schema))

    def _explained(self, error: BaseException) -> StorageError:
        where = f"the shared rate limit at {self._place.where}"
        text = f"{str(error) or 'no answer in time'} [{type(error).__name__}]"
        code = str(getattr(error, "sqlstate", None) or "")
        if code.startswith("28") or code in ("42501", "3D000"):
            hint = (
                "check user, password and database in the URL, and that tables may be created in the schema"
            )
            return AccessDenied(f"{where} does not let us in: {text}", hint=hint)
        is_refused = isinstance(error, asyncpg.PostgresError) and code[:2] not in _PASSING
        return (StorageError if is_refused else Unavailable)(f"{where} cannot be asked: {text}")


_PASSING = ("08", "25", "40", "53", "55", "57")
"""No connection, a standby, undone for another's sake, no room, locked, shut down: it may pass."""

# What a crash of the database may forget is the last half second of counts.
_SETTINGS = {
    "application_name": "gnomon",
    "synchronous_commit": "off",
    "default_transaction_isolation": "read committed",
}

_FORGET = """
DELETE FROM {schema}.rate_limits WHERE key IN (
  SELECT key FROM {schema}.rate_limits
  WHERE greatest(requests_whole, tokens_whole, shut_until) < extract(epoch FROM clock_timestamp()) - 86400
  FOR UPDATE SKIP LOCKED)
"""

_FORGET_TICKETS = """
DELETE FROM {schema}.rate_tickets WHERE (key, id) IN (
  SELECT key, id FROM {schema}.rate_tickets WHERE until < extract(epoch FROM clock_timestamp()) - 86400
  FOR UPDATE SKIP LOCKED)
"""

_CREATE = """
CREATE TABLE IF NOT EXISTS {schema}.rate_limits (
  key text PRIMARY KEY, requests_whole float8 NOT NULL, tokens_whole float8 NOT NULL,
  shut_until float8 NOT NULL, places bigint NOT NULL);

CREATE TABLE IF NOT EXISTS {schema}.rate_tickets (
  key text NOT NULL, id text NOT NULL, place bigint NOT NULL, is_inside boolean NOT NULL,
  until float8 NOT NULL, PRIMARY KEY (key, id));

CREATE OR REPLACE FUNCTION {schema}.rate_state_1(which text) RETURNS {schema}.rate_limits
LANGUAGE plpgsql AS $$
DECLARE state {schema}.rate_limits;
BEGIN
  LOOP
    SELECT * INTO state FROM {schema}.rate_limits WHERE key = which FOR UPDATE;
    IF FOUND THEN RETURN state; END IF;
    INSERT INTO {schema}.rate_limits VALUES (which, 0, 0, 0, 0) ON CONFLICT DO NOTHING;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION {schema}.rate_take_1(
  which text, ticket text, request_s float8, request_room_s float8, token_s float8, token_room_s float8,
  concurrent integer, patience_s float8, lease_s float8) RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
  state {schema}.rate_limits := {schema}.rate_state_1(which);
  now_s float8 := extract(epoch FROM clock_timestamp());
  ready float8 := greatest(
    state.requests_whole - request_room_s, state.tokens_whole - token_room_s, state.shut_until);
  first text;
  is_full boolean := false;
BEGIN
  DELETE FROM {schema}.rate_tickets WHERE key = which AND until <= now_s;
  SELECT id INTO first FROM {schema}.rate_tickets WHERE key = which AND NOT is_inside ORDER BY place LIMIT 1;
  IF concurrent IS NOT NULL THEN
    is_full := (SELECT count(*) FROM {schema}.rate_tickets WHERE key = which AND is_inside) >= concurrent;
  END IF;
  IF coalesce(first, ticket) = ticket AND NOT is_full AND ready <= now_s + 0.000001 THEN
    UPDATE {schema}.rate_limits SET requests_whole = greatest(requests_whole, now_s) + request_s,
      tokens_whole = greatest(tokens_whole, now_s) + token_s WHERE key = which;
    DELETE FROM {schema}.rate_tickets WHERE key = which AND id = ticket;
    IF concurrent IS NOT NULL THEN
      INSERT INTO {schema}.rate_tickets VALUES (which, ticket, 0, true, now_s + lease_s);
    END IF;
    RETURN 0;
  END IF;
  UPDATE {schema}.rate_limits SET places = places + 1 WHERE key = which;
  INSERT INTO {schema}.rate_tickets VALUES (which, ticket, state.places, false, now_s + patience_s)
    ON CONFLICT (key, id) DO UPDATE SET until = now_s + patience_s;
  RETURN CASE WHEN coalesce(first, ticket) <> ticket OR is_full THEN -1 ELSE ready - now_s END;
END $$;

CREATE OR REPLACE FUNCTION {schema}.rate_leave_1(
  which text, ticket text, request_s float8, token_s float8) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  state {schema}.rate_limits := {schema}.rate_state_1(which);
  now_s float8 := extract(epoch FROM clock_timestamp());
BEGIN
  UPDATE {schema}.rate_limits SET
    requests_whole = CASE WHEN request_s > 0 THEN greatest(requests_whole, now_s) ELSE requests_whole END
      + request_s,
    tokens_whole = CASE WHEN token_s > 0 THEN greatest(tokens_whole, now_s) ELSE tokens_whole END + token_s
    WHERE key = which;
  DELETE FROM {schema}.rate_tickets WHERE key = which AND id = ticket;
END $$;

CREATE OR REPLACE FUNCTION {schema}.rate_shut_1(which text, seconds float8) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE state {schema}.rate_limits := {schema}.rate_state_1(which);
BEGIN
  UPDATE {schema}.rate_limits SET
    shut_until = greatest(shut_until, extract(epoch FROM clock_timestamp()) + seconds) WHERE key = which;
END $$;

CREATE OR REPLACE FUNCTION {schema}.rate_renew_1(which text, tickets text[], lease_s float8) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE state {schema}.rate_limits := {schema}.rate_state_1(which);
BEGIN
  UPDATE {schema}.rate_tickets SET until = extract(epoch FROM clock_timestamp()) + lease_s
    WHERE key = which AND id = ANY (tickets) AND is_inside;
END $$;
"""
