"""What an HTTP client must offer: two methods, and the reply that the first one gives.

A faster client is one more file with a class that has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

__all__ = ["STALE_S", "Incoming", "Limits", "Outgoing", "Transport"]


STALE_S = 1.0
"""How soon a kept connection shows that it had been closed; a client may ask once more within that time."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds for each stage of an exchange; each has an error of its own."""

    connect_s: float = 10.0
    first_byte_s: float = 300.0
    idle_s: float = 120.0
    total_s: float = 3600.0


class Outgoing(msgspec.Struct, frozen=True, kw_only=True):
    """What goes out. It shows itself without headers and proxy: they hold secrets."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    limits: Limits
    proxy: str | None
    ca: str | None
    addresses: tuple[str, ...] = ()
    """Where to connect to, looked up and checked by the caller.

    Where they are given, the name is not looked up again, no proxy of the environment is used, the connection
    is new and not kept, and the body of the answer comes as it was sent: it may be compressed.
    """

    def __repr__(self) -> str:
        return f"<Outgoing {self.method}, {len(self.body)} bytes>"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("method", self.method)]


class Incoming(Protocol):
    """A reply whose headers have come. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """What has arrived since, at least one byte; nothing at the end."""
        ...

    def is_at_end(self) -> bool:
        """Whether the end has come and all was read."""
        ...

    def abort(self, error: Exception | None = None) -> None:
        """Close the connection at once; whoever waits for bytes gets the error."""
        ...


class Transport(Protocol):
    """An HTTP client: the two methods that the rest is built on.

    `open` raises `ConnectTimeout`, `FirstByteTimeout`, `Unreachable`, `BadReply`, `StreamCut`, or a
    `ConfigError` for a certificate file; `Incoming.read` raises `StreamCut`; nothing else.
    """

    async def open(self, call: Outgoing) -> Incoming: ...
    async def close(self) -> None: ...
