"""HTTP/1.1 for the reference provider: a connection is kept when its reply was read to the end."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncGenerator, Awaitable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from gnomon.errors import (
    ConnectTimeout,
    FirstByteTimeout,
    IdleTimeout,
    Overloaded,
    ProviderTimeout,
    StreamCut,
    TotalTimeout,
)

T = TypeVar("T")
PIECE = 2**16


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    connect_s: float = 10.0
    first_byte_s: float = 60.0
    idle_s: float = 60.0
    total_s: float = 600.0


class Pool:
    """The connections to one place that nobody uses."""

    def __init__(self, base_url: str, vendor: str, limits: Limits) -> None:
        place = urlsplit(base_url)
        self.host, self.port, self.path = place.hostname or "", place.port or 80, place.path
        self.vendor, self.limits = vendor, limits
        self.idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []

    async def take(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        while self.idle:
            reader, writer = self.idle.pop()
            if not reader.at_eof():
                return reader, writer
            await put_away(writer)
        return await asyncio.open_connection(self.host, self.port)

    async def close(self) -> None:
        while self.idle:
            await put_away(self.idle.pop()[1])


async def put_away(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    await asyncio.sleep(0)


class Exchange:
    """One request and its reply."""

    replies: type[Reply]

    def __init__(self, pool: Pool, path: str, headers: dict[str, str], body: bytes) -> None:
        self.pool = pool
        self.deadline = time.monotonic() + pool.limits.total_s
        lines = [
            f"POST {pool.path}{path} HTTP/1.1",
            f"host: {pool.host}:{pool.port}",
            "accept-encoding: gzip",
        ]
        lines += [f"content-length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
        self.message = "\r\n".join([*lines, "\r\n"]).encode() + body
        self.connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.reply: Reply | None = None

    async def ask(self) -> Reply:
        limits = self.pool.limits
        try:
            self.connection = await self.within(self.pool.take(), limits.connect_s, ConnectTimeout)
        except OSError as error:
            where = f"{self.pool.host}:{self.pool.port}"
            hint = "is the service running, and is the address right?"
            message = f"no connection to {where}: {error.strerror or type(error).__name__}"
            raise Overloaded(message, vendor=self.pool.vendor, hint=hint) from error
        self.connection[1].write(self.message)
        head = await self.read(
            self.connection[0].readuntil(b"\r\n\r\n"), limits.first_byte_s, FirstByteTimeout
        )
        self.reply = self.replies(self, head)
        return self.reply

    async def read(self, reading: Awaitable[T], limit_s: float, error: type[ProviderTimeout]) -> T:
        try:
            return await self.within(reading, limit_s, error)
        except (OSError, EOFError) as broken:
            raise StreamCut(f"the connection ended: {broken}", vendor=self.pool.vendor) from broken

    async def within(self, waiting: Awaitable[T], limit_s: float, error: type[ProviderTimeout]) -> T:
        left = self.deadline - time.monotonic()
        kind, limit_s = (error, limit_s) if limit_s < left else (TotalTimeout, left)
        try:
            async with asyncio.timeout(limit_s):
                return await waiting
        except TimeoutError as late:
            raise kind(f"nothing within {limit_s:.2f} s", vendor=self.pool.vendor) from late

    async def release(self) -> None:
        """Give the connection back, if the rest of the reply comes at once."""
        assert self.reply is not None
        try:
            async with asyncio.timeout(0.1):
                await self.reply.rest()
        except (TimeoutError, StreamCut, ProviderTimeout):
            return
        if self.connection and self.reply.keeps:
            self.pool.idle.append(self.connection)
            self.connection = None

    async def close(self) -> None:
        if self.reply is not None:
            await self.reply.body.aclose()
        if self.connection is not None:
            await put_away(self.connection[1])
            self.connection = None


class Reply:
    """A head, and a body to be read piece by piece."""

    readers: type[EventReader]

    def __init__(self, exchange: Exchange, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        _, status, self.reason = first.split(" ", 2)
        pairs = [line.partition(":") for line in lines if line]
        self.status = int(status)
        self.headers = {name.lower(): value.strip() for name, _, value in pairs}
        self.request_id = self.headers.get("x-request-id")
        self.keeps = self.headers.get("connection") != "close"
        self.exchange = exchange
        packed = self.headers.get("content-encoding") == "gzip"
        self.unpack = zlib.decompressobj(31).decompress if packed else bytes
        self.body = self.pieces()

    @property
    def retry_after(self) -> float | None:
        if "retry-after-ms" in self.headers:
            return float(self.headers["retry-after-ms"]) / 1000
        after = self.headers.get("retry-after", "")
        try:
            return float(after)
        except ValueError:
            pass
        return (parsedate_to_datetime(after) - datetime.now(UTC)).total_seconds() if after else None

    async def rest(self) -> bytes:
        return b"".join([piece async for piece in self.body])

    async def events(self) -> AsyncGenerator[bytes, None]:
        reader = self.readers()
        async for piece in self.body:
            for event in reader.feed(piece):
                yield event

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        if self.headers.get("transfer-encoding") == "chunked":
            while left := await self.chunk_size():
                while left:
                    piece = await self.some(left)
                    left -= len(piece)
                    yield self.unpack(piece)
                await self.line()
            await self.line()
        elif "content-length" in self.headers:
            left = int(self.headers["content-length"])
            while left:
                piece = await self.some(left)
                left -= len(piece)
                yield self.unpack(piece)
        else:
            while piece := await self.some(PIECE, may_end=True):
                yield self.unpack(piece)

    async def chunk_size(self) -> int:
        return int(await self.line(), 16)

    async def line(self) -> bytes:
        return await self.waited(self.reader.readuntil(b"\r\n"))

    async def some(self, most: int, *, may_end: bool = False) -> bytes:
        piece = await self.waited(self.reader.read(min(most, PIECE)))
        if not piece and not may_end:
            raise StreamCut("the connection ended in the middle", vendor=self.exchange.pool.vendor)
        return piece

    @property
    def reader(self) -> asyncio.StreamReader:
        assert self.exchange.connection is not None
        return self.exchange.connection[0]

    async def waited(self, reading: Awaitable[bytes]) -> bytes:
        return await self.exchange.read(reading, self.exchange.pool.limits.idle_s, IdleTimeout)


class EventReader:
    """Bytes → the data of server-sent events."""

    def __init__(self) -> None:
        self.after_cr = False
        self.start: bytes | None = b""
        self.rest: list[bytes] = []
        self.data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        if self.start is not None:
            piece = self.start + piece
            self.start = piece if len(piece) < 3 else None
            if self.start is not None:
                return []
            piece = piece.removeprefix(b"\xef\xbb\xbf")
        if self.after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
        self.after_cr = piece.endswith(b"\r")
        piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in piece:
            self.rest.append(piece)
            return []
        *lines, last = b"".join([*self.rest, piece]).split(b"\n")
        self.rest = [last]
        found = [self.take(line) for line in lines]
        return [event for event in found if event is not None]

    def take(self, line: bytes) -> bytes | None:
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self.data.append(value.removeprefix(b" "))
            return None
        event, self.data = self.data, []
        return b"\n".join(event) if event else None


Exchange.replies = Reply
Reply.readers = EventReader
