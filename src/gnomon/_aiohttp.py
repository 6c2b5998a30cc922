"""The HTTP client in use. This is the only file that imports it.

There is one pool of connections for each running event loop, shared by all who
are on that loop. It ends with the last of them, or with its loop: a second
`asyncio.run` gets a pool of its own.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from contextvars import Context, ContextVar
from functools import cache, lru_cache
from io import BytesIO
from ipaddress import ip_address
from os import strerror
from ssl import SSLContext, SSLError, create_default_context
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary, WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from gnomon._transport import STALE_S, Incoming, Limits, Outgoing
from gnomon.errors import (
    BadReply,
    ConfigError,
    ConnectTimeout,
    FirstByteTimeout,
    ProviderError,
    StreamCut,
    Unreachable,
)

__all__ = ["AiohttpTransport"]

_KEEP_ALIVE_S = 15.0
_LONG_BODY = 1024 * 1024
_CLOSED = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_NO_LIMIT = aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None)


class AiohttpTransport:
    """`Transport` on aiohttp."""

    async def open(self, call: Outgoing) -> Incoming:
        pool = _pool(call.ca, is_pinned=bool(call.addresses))
        session = await pool.session_for(self)
        stage = _Stage(call.limits, addresses=call.addresses)
        reply = await _requested(session, call, stage)
        if reply is None:
            stage = _Stage(call.limits, only_new=True)
            reply = await _requested(session, call, stage)
        if isinstance(reply, ProviderError):
            # Not from inside of `except`: the client's own errors hold the headers, and so the key.
            raise reply
        assert reply is not None  # a new connection is never stale
        return _AiohttpIncoming(reply)

    async def close(self) -> None:
        for pool in tuple(_pools.get(asyncio.get_running_loop(), {}).values()):
            await pool.leave(self)


async def _requested(
    session: aiohttp.ClientSession, call: Outgoing, stage: _Stage
) -> aiohttp.ClientResponse | ProviderError | None:
    """The reply, or why there is none; `None` where the connection was stale."""
    token = _stage.set(stage)
    try:
        async with stage.patience:
            return await session.request(
                call.method,
                call.url,
                data=_in_pieces(call.body),
                headers=call.headers,
                allow_redirects=False,
                proxy=call.proxy or (None if call.addresses else _environment_proxy(call.url)),
            )
    except Exception as error:  # noqa: BLE001 - each becomes one of ours
        return None if stage.was_stale(error) else _why_not_opened(error, call, stage)
    finally:
        _stage.reset(token)


def _in_pieces(body: bytes) -> bytes | BytesIO | None:
    """A long body, with images say, goes out piece by piece, and others have their turn in between."""
    return BytesIO(body) if len(body) > _LONG_BODY else body or None


class _AiohttpIncoming:
    """`Incoming` on aiohttp."""

    __slots__ = ("_read", "_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers  # asked for by names of any case
        self._response = response
        self._read = response.content.readany

    async def read(self) -> bytes:
        try:
            return await self._read()
        except (aiohttp.ClientError, OSError) as error:
            raise StreamCut(f"the connection broke in the middle of the answer: {_reason(error)}") from error

    def is_at_end(self) -> bool:
        return self._response.content.at_eof()

    def abort(self, error: Exception | None = None) -> None:
        if error is not None:
            self._response.content.set_exception(error)
        self._response.close()


# --- the two limits on the way to a reply ---------------------------------------


class _Stage:
    """One timer for the first byte; where a connection has to be made first, it counts for that alone."""

    __slots__ = ("_asked_at", "_limits", "addresses", "connecting", "is_new", "only_new", "patience")

    def __init__(self, limits: Limits, *, only_new: bool = False, addresses: tuple[str, ...] = ()) -> None:
        self.patience = asyncio.timeout(limits.first_byte_s)
        self.only_new = only_new
        self.addresses = addresses
        self._limits = limits
        self._asked_at = asyncio.get_running_loop().time()
        self.connecting = False
        self.is_new = False  # the connection, as against one that was kept

    def was_stale(self, error: Exception) -> bool:
        """Whether a kept connection had been closed before the request came, as far as one can tell.

        A server may close what it said it would keep; llama.cpp does after every stream. That shows
        at once. Later, the server has worked on the request, and to ask again would be paid twice.
        """
        at_once = asyncio.get_running_loop().time() - self._asked_at < STALE_S
        return at_once and not self.is_new and isinstance(error, _CLOSED)

    def connect(self) -> None:
        self.connecting = self.is_new = True
        self._restart(self._limits.connect_s)

    def connected(self) -> None:
        self.connecting = False
        self._restart(self._limits.first_byte_s)

    def _restart(self, seconds: float) -> None:
        if not self.patience.expired():
            self.patience.reschedule(asyncio.get_running_loop().time() + seconds)


_stage: ContextVar[_Stage] = ContextVar("gnomon_http_stage")


class _Connector(aiohttp.TCPConnector):
    """Says when a request has to wait for a new connection, and makes one where a kept one was stale."""

    async def _get(self, key: Any, traces: Any) -> Any:
        return None if _stage.get().only_new else await super()._get(key, traces)

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:
        stage = _stage.get()
        stage.connect()
        connection = await super()._create_connection(req, traces, timeout)
        stage.connected()
        return connection


class _Pinned(AbstractResolver):
    """Looks nothing up: a name is where the caller has found and checked it to be."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in _stage.get().addresses
        ]

    async def close(self) -> None:
        pass


def _why_not_opened(error: Exception, call: Outgoing, stage: _Stage) -> ProviderError:
    where = _place(call.url)
    limits: Limits = call.limits
    if isinstance(error, aiohttp.ServerTimeoutError | TimeoutError):
        if stage.connecting:
            return ConnectTimeout(f"no connection to {where} within {limits.connect_s:g} s")
        return FirstByteTimeout(f"{where} did not begin to answer within {limits.first_byte_s:g} s")
    if isinstance(error, aiohttp.ClientSSLError | aiohttp.ServerFingerprintMismatch):
        return _no_trust(error, where)
    if isinstance(error, aiohttp.ClientProxyConnectionError | aiohttp.ClientHttpProxyError):
        return Unreachable(
            f"the proxy on the way to {where} failed: {_reason(error)}", hint="check the proxy"
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return Unreachable(
            f"cannot reach {where}: {_reason(error)}", hint="is it running, and is the address right?"
        )
    if isinstance(error, aiohttp.ClientResponseError | ValueError):
        return BadReply(f"{where} did not answer in HTTP: {_reason(error)}")
    if isinstance(error, ProviderError):
        return error
    return StreamCut(f"the connection to {where} ended before an answer began: {_reason(error)}")


def _no_trust(error: Exception, where: str) -> Unreachable:
    return Unreachable(
        f"the connection to {where} is not secure: {_reason(error)}",
        hint="is the address right? name the certificate authority of your network with ca=…",
        retryable=False,
    )


def _place(url: str) -> str:
    """Host and port; the rest of an address may hold secrets."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.hostname}:{port}"


def _reason(error: BaseException) -> str:
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    said: object = getattr(inner, "verify_message", None) or getattr(inner, "message", None)
    if said is None and isinstance(inner, SSLError):
        said = (inner.reason or "").replace("_", " ").lower() or None  # its number is no system's
    number = getattr(inner, "errno", None)
    if said is None and isinstance(number, int) and number > 0:
        said = strerror(number).lower()  # the words of the loop repeat the address
    return " ".join(str(said or inner or type(inner).__name__).split())[:300]


# --- pools ------------------------------------------------------------------


class _Pool:
    """The connections of one event loop. A pinned pool keeps none, and looks no name up."""

    def __init__(self, ca: str | None, is_pinned: bool) -> None:
        self._ca = ca
        self._is_pinned = is_pinned
        self._users: WeakSet[AiohttpTransport] = WeakSet()
        self._session: aiohttp.ClientSession | None = None
        self._end: AsyncGenerator[None, None] | None = None

    async def session_for(self, user: AiohttpTransport) -> aiohttp.ClientSession:
        self._users.add(user)
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(
                connector=self._connector(),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=_NO_LIMIT,
                auto_decompress=not self._is_pinned,
            )
            await self._end_with_the_loop(self._session)
        return self._session

    def _connector(self) -> _Connector:
        if self._is_pinned:
            return _Connector(
                limit=0, ssl=_trust(self._ca), resolver=_Pinned(), use_dns_cache=False, force_close=True
            )
        return _Connector(limit=0, ssl=_trust(self._ca), keepalive_timeout=_KEEP_ALIVE_S)

    async def leave(self, user: AiohttpTransport) -> None:
        self._users.discard(user)
        if not self._users and self._end is not None:
            end, self._end, self._session = self._end, None, None
            await end.aclose()

    async def _end_with_the_loop(self, session: aiohttp.ClientSession) -> None:
        """A loop that is shut down closes its open generators, and so this one, and so the pool."""
        self._end = self._open_until_closed(session)
        # Not in the context of whoever happens to ask first: it belongs to the loop.
        await Context().run(self._end.__anext__)

    async def _open_until_closed(self, session: aiohttp.ClientSession) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._session is session:
                self._session = self._end = None  # they hold the loop, which could not be forgotten
            await session.close()


_pools: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str | None, bool], _Pool]] = (
    WeakKeyDictionary()
)


def _pool(ca: str | None, *, is_pinned: bool) -> _Pool:
    pools = _pools.setdefault(asyncio.get_running_loop(), {})
    pool = pools.get((ca, is_pinned))
    if pool is None:
        pool = pools[ca, is_pinned] = _Pool(ca, is_pinned)
    return pool


@cache
def _trust(ca: str | None) -> SSLContext:
    """One for the process: to make one takes tens of milliseconds."""
    try:
        return create_default_context(cafile=ca)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the certificate file {ca!r} cannot be used: {error}") from error


# --- proxies ----------------------------------------------------------------


@lru_cache(maxsize=256)
def _environment_proxy(url: str) -> str | None:
    """What HTTPS_PROXY, HTTP_PROXY and NO_PROXY say; a server on this machine is never behind one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if _is_here(host):
        return None
    proxies = getproxies()
    found = proxies.get(parts.scheme) or proxies.get("all")
    with suppress(OSError):  # it may look the host up
        return None if found is None or proxy_bypass(host) else found
    return found


def _is_here(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
