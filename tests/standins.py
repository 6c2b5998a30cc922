"""A small server on this machine that stands in for a service: it takes what is documented, and nothing else.

What it cannot take it answers with 400 and keeps the reason; leaving the block then fails, so that no
test has to remember to look. It serves a bounded number of requests, each in a bounded time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

__all__ = ["Asked", "Reply", "StandIn", "filled", "json_reply", "unit_vector"]

_MOST_REQUESTS = 2_000
_MOST_BYTES = 64 * 1024 * 1024
_SECONDS = 20.0


class Asked(NamedTuple):
    """One request, as it came; `path` holds the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    """What is sent back, piece by piece."""

    pieces: Sequence[bytes]
    status: int = 200
    kind: str = "application/json; charset=utf-8"
    headers: Mapping[str, str] = {}


def json_reply(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    return Reply([msgspec.json.encode(value)], status, headers=headers or {})


class StandIn:
    """The part that every service's stand-in shares: the connection, and the book of what was asked."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.wrong: list[str] = []
        """Why requests were not taken; a test that sends them on purpose clears it."""
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    # --- what a service says for itself

    def check(self, asked: Asked) -> None:
        """AssertionError when the service's documentation does not have this request."""
        raise NotImplementedError

    def answer(self, asked: Asked) -> Reply:
        """What the service sends back to a request that it takes."""
        raise NotImplementedError

    def refusal(self, reason: str) -> Reply:
        """How the service says that it does not take a request."""
        raise NotImplementedError

    # --- the server

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the stand-in is only there inside its block")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**16)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None
        if kind is None and self.wrong:
            raise AssertionError("\n".join(self.wrong))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            async with asyncio.timeout(_SECONDS):
                await self._exchange(reader, writer)
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone, or never finished
        finally:
            self._connections.discard(task)
            writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await _read(reader)
        if len(self.asked) >= _MOST_REQUESTS:
            return
        self.asked.append(asked)
        for piece in _written(self._reply_to(asked)):
            writer.write(piece)
            await writer.drain()

    def _reply_to(self, asked: Asked) -> Reply:
        try:
            self.check(asked)
        except AssertionError as error:
            self.wrong.append(str(error))
            return self.refusal(str(error))
        return self.answer(asked)


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.rstrip("\r\n").split("\r\n")
    method, path, _ = first.split(" ", 2)
    pairs = [line.partition(":") for line in lines]
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Asked(method, path, headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() != "chunked":
        size = int(headers.get("content-length", "0"))
        return await reader.readexactly(size) if size <= _MOST_BYTES else b""
    body = b""
    while (size := int((await reader.readline()).partition(b";")[0], 16)) and len(body) < _MOST_BYTES:
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return body


def _written(reply: Reply) -> list[bytes]:
    """The reply in chunks: what a client reads must not depend on knowing its length."""
    headers = {
        "content-type": reply.kind,
        **reply.headers,
        "transfer-encoding": "chunked",
        "connection": "close",
    }
    lines = [f"HTTP/1.1 {reply.status} stand-in", *(f"{name}: {value}" for name, value in headers.items())]
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    pieces = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in reply.pieces if piece]
    return [head, *pieces, b"0\r\n\r\n"]


# --- what services make up --------------------------------------------------------


_EXAMPLES: Mapping[str, Any] = {
    "string": "x",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "null": None,
}


def filled(schema: Mapping[str, Any]) -> Any:
    """A value that fits a plain schema."""
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type", "object")
    if kind != "object":
        return _EXAMPLES[kind if isinstance(kind, str) else kind[0]]
    return {name: filled(inner) for name, inner in schema.get("properties", {}).items()}


def unit_vector(said: str, size: int) -> list[float]:
    """Of length 1, and the same for the same text."""
    numbers = [byte - 127.5 for byte in hashlib.shake_256(said.encode()).digest(size)]
    length = sum(value * value for value in numbers) ** 0.5
    return [value / length for value in numbers]
