"""One answer of the web: its address checked, its redirects followed as far as may be, its size bounded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Literal, NamedTuple, TypeAlias

from gnomon._threads import run_in_thread
from gnomon._transport import Incoming, Limits, Outgoing, Transport
from gnomon.errors import ConfigError, ProviderError, ToolDenied, ToolFailed
from gnomon.tools._addresses import Network, why_not_public
from gnomon.tools._hosts import HostRule
from gnomon.tools._inflating import ENCODINGS, Inflating
from gnomon.tools._urls import Target, followed

__all__ = ["MOST_REDIRECTS", "Fetched", "Fetching", "Follow", "Resolver", "system_addresses"]

Follow: TypeAlias = Literal["host", "allowed"]
"""How far a redirect is followed by itself: within the host, or to every host that is allowed."""

Resolver: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Gives the addresses of a name, as texts."""

MOST_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_ADDRESSES = 8
_HEADERS: Mapping[str, str] = {
    "accept": "text/html, text/plain, application/json, text/*;q=0.9, */*;q=0.5",
    "accept-encoding": "gzip, deflate",
    "user-agent": "gnomon",
}


class Fetched(NamedTuple):
    """What came, and from where. `elsewhere` is where a redirect leads that was not followed."""

    target: Target
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    is_cut: bool = False
    elsewhere: Target | None = None


class Fetching(NamedTuple):
    """What may be fetched, and how."""

    rules: tuple[HostRule, ...]
    private: tuple[Network, ...]
    follow: Follow
    max_bytes: int
    limits: Limits
    ca: str | None
    resolve: Resolver
    is_read: Callable[[Mapping[str, str]], bool]
    """Whether anybody wants the body, by the headers of the answer."""

    async def get(self, target: Target) -> Fetched:
        """The answer. `ToolDenied` where it may not be asked for, `ToolFailed` where there is none."""
        from gnomon._aiohttp import AiohttpTransport  # slow to import: at the first call

        transport = AiohttpTransport()
        try:
            return await self._followed(transport, target)
        finally:
            await transport.close()

    async def _followed(self, transport: Transport, target: Target) -> Fetched:
        for _ in range(MOST_REDIRECTS + 1):
            incoming = await self._answer(transport, target)
            try:
                location = incoming.headers.get("location") if incoming.status in _REDIRECTS else None
                if location is None:
                    return await self._whole(target, incoming)
            finally:
                incoming.abort()
            next_target = self._next(target, location)
            if next_target.host != target.host and self.follow != "allowed":
                return Fetched(target, incoming.status, incoming.headers, elsewhere=next_target)
            target = next_target
        raise ToolFailed(f"there were more than {MOST_REDIRECTS} redirects, the last to {target.shown}")

    def check_host(self, target: Target) -> None:
        """By name and port, before anything is looked up: a question to a name server is one as well."""
        if any(rule.allows(target) for rule in self.rules):
            return
        if any(rule._replace(port=target.port).allows(target) for rule in self.rules):
            raise ToolDenied(f"port {target.port} of {target.host!r} may not be asked")
        raise ToolDenied(
            f"the host {target.host!r} may not be asked",
            hint=f"whoever runs this agent can allow it: HTTPGet(hosts=[{target.host!r}])",
        )

    def _next(self, target: Target, location: str) -> Target:
        try:
            found = followed(target, location)
        except ValueError as error:
            raise ToolFailed(f"{target.shown} leads to an address that cannot be used: {error}") from None
        if target.scheme == "https" and found.scheme == "http":
            raise ToolDenied(f"{target.shown} leads from https to http, which is not followed")
        try:
            self.check_host(found)
        except ToolDenied as error:
            raise ToolDenied(f"{target.shown} leads elsewhere, and {error.message}") from None
        return found

    # --- the connection

    async def _answer(self, transport: Transport, target: Target) -> Incoming:
        self.check_host(target)
        call = Outgoing(
            method="GET",
            url=target.url,
            headers=_HEADERS,
            body=b"",
            limits=self.limits,
            proxy=None,
            ca=self.ca,
            addresses=await self._addresses(target),
        )
        try:
            return await transport.open(call)
        except ProviderError as error:
            raise ToolFailed(error.summary) from None
        except ConfigError as error:
            raise ToolFailed(str(error)) from error

    async def _addresses(self, target: Target) -> tuple[str, ...]:
        """Where to connect: looked up once, and every one of them checked."""
        literal = target.address
        found = [str(literal)] if literal is not None else await self._looked_up(target.host)
        for text in found:
            if why := self._why_not(text):
                raise ToolDenied(
                    f"{target.host!r} was not asked: {text} is {why}",
                    hint=f"whoever runs this agent can allow it: HTTPGet(allow_private=[{text!r}])",
                )
        return tuple(dict.fromkeys(found))[:_MOST_ADDRESSES]

    def _why_not(self, text: str) -> str:
        try:
            return why_not_public(ip_address(text), self.private)
        except ValueError:
            return "no address"

    async def _looked_up(self, host: str) -> Sequence[str]:
        try:
            found = await self.resolve(host)
        except (OSError, UnicodeError) as error:
            raise ToolFailed(f"no address is known for {host!r}: {_reason(error)}") from None
        if not found:
            raise ToolFailed(f"no address is known for {host!r}")
        return found

    # --- the body

    async def _whole(self, target: Target, incoming: Incoming) -> Fetched:
        headers = incoming.headers
        if not self.is_read(headers):
            return Fetched(target, incoming.status, headers)
        inflating = _inflating(target, headers.get("content-encoding", ""))
        body, read = bytearray(), 0
        # What is sent counts as well as what it is made into: an empty piece can be sent for ever.
        while len(body) <= self.max_bytes and read <= self.max_bytes:
            try:
                piece = await incoming.read()
            except ProviderError as error:
                raise ToolFailed(f"{target.shown}: {error.summary}") from None
            if not piece:
                break
            read += len(piece)
            most = self.max_bytes + 1 - len(body)
            body += piece if inflating is None else _inflated(target, inflating, piece, most)
        is_cut = len(body) > self.max_bytes or read > self.max_bytes
        return Fetched(target, incoming.status, headers, bytes(body[: self.max_bytes]), is_cut)


def _inflating(target: Target, encoding: str) -> Inflating | None:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in ENCODINGS:
        raise ToolFailed(f"{target.shown} is compressed as nobody asked for: {encoding[:40]!r}")
    return Inflating()


def _inflated(target: Target, inflating: Inflating, piece: bytes, most: int) -> bytes:
    try:
        return inflating.feed(piece, most)
    except ValueError as error:
        raise ToolFailed(f"{target.shown} cannot be read: {error}") from None


async def system_addresses(host: str) -> Sequence[str]:
    """What the system knows of a name, in the order in which it is to be tried."""
    import socket

    look_up = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    found = await run_in_thread(look_up, name="http_get")
    return [str(entry[4][0]) for entry in found]


def _reason(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return " ".join(str(said or error).split())[:200].lower()
