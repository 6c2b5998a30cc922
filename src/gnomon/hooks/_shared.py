"""A limit that several processes keep together, by counts on a server."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from importlib import import_module
from math import inf
from typing import Literal, Protocol, TypeAlias, cast
from uuid import uuid4

import msgspec

from gnomon.errors import ConfigError, MissingExtra, StorageError, Unavailable
from gnomon.hooks._gate import Gate
from gnomon.hooks._limits import Limits, waited_too_long

__all__ = ["Need", "OnLost", "SharedGate", "SharedLimits", "Store", "store_at"]

log = logging.getLogger("gnomon.hooks.rate_limit")

OnLost: TypeAlias = Literal["local", "raise"]

POLL_S = 0.1
"""How often it is asked whether others are through; whoever is first knows how long it takes."""
LONGEST_POLL_S = 1.0
"""But others may have given tokens back."""
PATIENCE_S = 5.0
"""Whoever waits and has not asked for so long is taken for dead."""
LEASE_S = 30.0
"""Whoever is inside says so three times as often, and else its place is free again."""
AWAY_S = 5.0
"""For so long a server that was lost is not asked again."""

_STORES = {
    "redis": ("gnomon.hooks._redis_limits", "RedisLimits", "redis"),
    "rediss": ("gnomon.hooks._redis_limits", "RedisLimits", "redis"),
    "postgres": ("gnomon.hooks._postgres_limits", "PostgresLimits", "postgres"),
    "postgresql": ("gnomon.hooks._postgres_limits", "PostgresLimits", "postgres"),
}


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """What a step takes, in seconds until it is back, and how far from whole the limits may be for that."""

    request_s: float
    request_room_s: float
    token_s: float
    token_room_s: float
    concurrent: int | None


class Store(Protocol):
    """Counts on a server, by its clock. A server that is away is `Unavailable`."""

    async def take(self, key: str, ticket: str, need: Need) -> float:
        """0 when it was taken; else how long it takes at least, and below 0 when others are first."""
        ...

    async def leave(self, key: str, ticket: str, request_s: float, token_s: float) -> None:
        """Go out, or out of the line; what is below zero is given back."""
        ...

    async def shut(self, key: str, seconds: float) -> None: ...

    async def renew(self, key: str, tickets: tuple[str, ...]) -> None:
        """These are still inside."""
        ...

    async def close(self) -> None: ...


def store_at(url: str) -> Store:
    """The server that a URL names; nothing is opened yet."""
    scheme = url.partition("://")[0].lower()
    if scheme not in _STORES:
        hint = "write redis://host:6379/0 or postgresql://host/database"
        raise ConfigError("`shared` of RateLimitHook is the URL of a Redis or a PostgreSQL", hint=hint)
    module, name, extra = _STORES[scheme]
    try:
        made = getattr(import_module(module), name)
    except ModuleNotFoundError as error:
        hint = f"install it: pip install 'gnomon[{extra}]'"
        raise MissingExtra(f"a shared rate limit at {scheme}:// needs {error.name}", hint=hint) from error
    try:
        return cast(Store, made(url))
    except ValueError:  # what the driver says may hold the password
        raise ConfigError(
            "the URL of the shared rate limit cannot be read", hint="a port is a number"
        ) from None


class SharedLimits:
    """The server, as one event loop sees it."""

    def __init__(self, store: Store, on_lost: OnLost) -> None:
        self.store = store
        self._on_lost = on_lost
        self._away_until = 0.0
        self._is_lost = False

    @property
    def is_away(self) -> bool:
        return asyncio.get_running_loop().time() < self._away_until

    def lost(self, error: Unavailable) -> None:
        """Go on without it for a while, or raise."""
        if self._on_lost == "raise":
            raise error
        self._away_until = asyncio.get_running_loop().time() + AWAY_S
        if not self._is_lost:
            self._is_lost = True
            log.warning(
                "each process limits by itself until the server of the shared limit is back: %s", error
            )

    def found(self) -> None:
        if self._is_lost:
            self._is_lost = False
            log.info("the server of the shared rate limit is back")


class SharedGate:
    """One key on the server. In this process it is first come, first served; among processes as well."""

    def __init__(self, key: str, limits: Limits, shared: SharedLimits, spare: Gate) -> None:
        self._key = key
        self._limits = limits
        self._shared = shared
        self._spare = spare
        self._line = asyncio.Lock()
        self._users = 0
        self._inside: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._users and self._spare.is_idle

    def enter_at_once(self, tokens: float) -> bool:
        return False  # the server has to be asked

    async def enter(self, tokens: float, max_wait_s: float | None = None) -> str:
        self._users += 1
        try:
            return await self._enter(tokens, max_wait_s)
        except BaseException:
            self._users -= 1
            raise

    async def leave(self, taken: str, tokens: float, used: float) -> None:
        self._users -= 1
        if not taken:
            self._spare.leave(taken, tokens, used)
            return
        await self._out(taken)
        try:
            await self._shared.store.leave(self._key, taken, 0.0, (used - tokens) * self._limits.token_s)
        except Unavailable as error:  # the step is done, and its answer is not to be lost
            with suppress(Unavailable):
                self._shared.lost(error)

    async def shut_for(self, seconds: float) -> None:
        await self._spare.shut_for(seconds)
        try:
            await self._shared.store.shut(self._key, seconds)
        except Unavailable as error:
            with suppress(Unavailable):
                self._shared.lost(error)

    # --- the way in

    async def _enter(self, tokens: float, max_wait_s: float | None) -> str:
        if self._shared.is_away:
            return await self._spare.enter(tokens, max_wait_s)
        clock = asyncio.get_running_loop().time
        began, longest = clock(), inf if max_wait_s is None else max_wait_s
        try:
            await self._come_first(began, max_wait_s)
            try:
                ticket = await self._wait_for_turn(tokens, began, began + longest)
            finally:
                self._line.release()
        except Unavailable as error:
            self._shared.lost(error)
            left_s = None if max_wait_s is None else max(began + longest - clock(), 0.0)
            return await self._spare.enter(tokens, left_s)
        self._shared.found()
        return ticket

    async def _come_first(self, began: float, max_wait_s: float | None) -> None:
        """Of this process, only who is first asks the server."""
        patience = asyncio.timeout(max_wait_s)
        try:
            async with patience:
                await self._line.acquire()
        except TimeoutError:
            waited_s = asyncio.get_running_loop().time() - began
            raise waited_too_long(self._key, self._limits, waited_s, 0.0) from None

    async def _wait_for_turn(self, tokens: float, began: float, deadline: float) -> str:
        clock = asyncio.get_running_loop().time
        ticket, need = uuid4().hex, self._need(tokens)
        asking: asyncio.Future[float] | None = None
        try:
            while True:
                # One that is cancelled in the middle may have taken: whoever steps back must know.
                asking = asyncio.ensure_future(self._shared.store.take(self._key, ticket, need))
                wait_s = await asyncio.shield(asking)
                if not wait_s:
                    break
                if (now := clock()) >= deadline:
                    raise waited_too_long(self._key, self._limits, now - began, wait_s)
                poll_s = POLL_S if wait_s < 0 else min(wait_s, LONGEST_POLL_S)
                await asyncio.sleep(min(poll_s, deadline - now))
        except BaseException:
            await self._step_back(ticket, need, asking)
            raise
        self._in(ticket)
        return ticket

    async def _step_back(self, ticket: str, need: Need, asking: asyncio.Future[float] | None) -> None:
        """Out of the line; what was taken is given back. What the server is not told it forgets by itself."""
        with suppress(StorageError):
            has_taken = asking is not None and await asking == 0
            request_s, token_s = (need.request_s, need.token_s) if has_taken else (0.0, 0.0)
            await self._shared.store.leave(self._key, ticket, -request_s, -token_s)

    def _need(self, tokens: float) -> Need:
        limits = self._limits
        token_s = tokens * limits.token_s
        return Need(
            request_s=limits.request_s,
            request_room_s=limits.room_s(limits.request_s),
            token_s=token_s,
            token_room_s=limits.room_s(token_s),
            concurrent=limits.concurrent,
        )

    # --- a place inside is kept only as long as somebody says that it is taken

    def _in(self, ticket: str) -> None:
        if self._limits.concurrent is None:
            return
        self._inside.add(ticket)
        if self._renewing is None:
            self._renewing = asyncio.get_running_loop().create_task(self._renew())

    async def _out(self, ticket: str) -> None:
        self._inside.discard(ticket)
        if self._renewing is not None and not self._inside:
            renewing, self._renewing = self._renewing, None
            renewing.cancel()
            await asyncio.wait([renewing])

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 3)
            with suppress(StorageError):  # it is tried again soon enough
                await self._shared.store.renew(self._key, tuple(self._inside))
