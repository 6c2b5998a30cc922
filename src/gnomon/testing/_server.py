"""A server on this machine that answers as it is told, also badly.

HTTP/1.1 written by hand, so that every byte, and the moment it leaves, is ours to choose. It runs on
the loop of the check, counts its connections, and remembers what it was asked.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from types import TracebackType
from typing import Literal, Self, TypeAlias

import msgspec

__all__ = [
    "Close",
    "Drip",
    "FaultServer",
    "Pause",
    "ReceivedRequest",
    "ServerReply",
    "Reset",
    "Send",
    "Stall",
    "Step",
]

_HEAD_LIMIT = 2**20
_BUFFER_BYTES = 2**16

# A piece is a piece for the reader too when he has had his turns before the next one leaves.
_TURNS = 4


class ReceivedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider has sent."""

    method: str
    path: str
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes = b""


# --- what is answered -----------------------------------------------------------


class Send(msgspec.Struct, frozen=True):
    """Bytes that leave in one piece."""

    data: bytes


class Pause(msgspec.Struct, frozen=True):
    """Say nothing for a while."""

    seconds: float


class Stall(msgspec.Struct, frozen=True):
    """Say nothing any more, and keep the connection open."""


class Drip(msgspec.Struct, frozen=True):
    """The same few bytes again and again, for as long as anybody listens."""

    data: bytes
    every_s: float = 0.01


class Close(msgspec.Struct, frozen=True):
    """Close the connection, as if this were all."""


class Reset(msgspec.Struct, frozen=True):
    """Break the connection."""


Step: TypeAlias = Send | Pause | Stall | Drip | Close | Reset


class ServerReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply: a head, and a body that leaves step by step, or in one piece when no steps are given.

    `chunked` and `length` leave the connection open for the next request, `close` ends the body
    with the connection, and in a `raw` reply the steps are every byte that is sent.
    """

    status: int = 200
    reason: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    steps: tuple[Step, ...] | None = None
    framing: Literal["chunked", "length", "close", "raw"] = "chunked"

    def head(self) -> bytes:
        if self.framing == "raw":
            return b""
        framing = {
            "chunked": "transfer-encoding: chunked",
            "length": f"content-length: {len(self.body)}",
            "close": "connection: close",
        }[self.framing]
        lines = [
            f"HTTP/1.1 {self.status} {self.reason}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        return "\r\n".join([*lines, framing, "\r\n"]).encode()

    def framed(self, data: bytes) -> bytes:
        return b"%x\r\n%b\r\n" % (len(data), data) if self.framing == "chunked" and data else data

    @property
    def last(self) -> bytes:
        return b"0\r\n\r\n" if self.framing == "chunked" else b""


# --- who answers ----------------------------------------------------------------


class FaultServer:
    """Answers each request with the reply that `answer` gives for it.

        async with FaultServer(lambda request: ServerReply(status=503)) as server:
            provider = AcmeProvider(base_url=server.url)

    What goes wrong in `answer` stands in `problems`: the provider is not to blame for it.
    """

    def __init__(self, answer: Callable[[ReceivedRequest], ServerReply]) -> None:
        self._answer = answer
        self._talks: set[_Talk] = set()
        self._changed = asyncio.Event()
        self.requests: list[ReceivedRequest] = []
        self.problems: list[str] = []
        self.opened = 0
        self.sent_bytes = 0

    @property
    def alive(self) -> int:
        """How many connections are open."""
        return len(self._talks)

    @property
    def closed(self) -> int:
        return self.opened - self.alive

    @property
    def url(self) -> str:
        host, port = self.address
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = listener.getsockname()
        self._server = await asyncio.start_server(self._talk, sock=listener, limit=_HEAD_LIMIT)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        talks = [talk.task for talk in self._talks]
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await self._server.wait_closed()

    async def until_alone(self, within_s: float = 1.0) -> bool:
        """Wait until every connection is closed; whether that came in time."""
        return await self._until(lambda: not self._talks, within_s)

    async def until_asked(self, times: int, within_s: float = 1.0) -> bool:
        """Wait until so many requests have come; whether that was in time."""
        return await self._until(lambda: len(self.requests) >= times, within_s)

    async def _until(self, reached: Callable[[], bool], within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s):
                while not reached():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def reply_to(self, request: ReceivedRequest) -> ServerReply:
        self.requests.append(request)
        self._changed.set()
        try:
            return self._answer(request)
        except Exception as error:  # noqa: BLE001 - a check of what was sent may fail in any way
            self.problems.append(f"{type(error).__name__}: {error}")
            return ServerReply(status=500, reason="No Such ServerReply", framing="length")

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock = writer.get_extra_info("socket")
        # A piece must not wait until the one before has been received, and the system must
        # not take megabytes on behalf of a reader who rests.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        talk = _Talk(self, reader, writer)
        self._talks.add(talk)
        self.opened += 1
        try:
            await talk.run()
        except (OSError, EOFError, asyncio.CancelledError):
            pass  # whoever asked has gone, or we are closing
        finally:
            writer.transport.abort()
            self._talks.discard(talk)
            self._changed.set()


class _Talk:
    """One connection."""

    def __init__(
        self, server: FaultServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.task = task
        self._server = server
        self._reader = reader
        self._writer = writer
        self._written = self._counted = 0

    async def run(self) -> None:
        while (request := await self._request()) is not None:
            reply = self._server.reply_to(request)
            if not await self._play(reply):
                return

    # what is asked

    async def _request(self) -> ReceivedRequest | None:
        try:
            head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = [line.partition(":") for line in lines if line]
        headers = {name.lower(): value.strip() for name, _, value in pairs}
        return ReceivedRequest(method=method, path=path, headers=headers, body=await self._body(headers))

    async def _body(self, headers: dict[str, str]) -> bytes:
        if headers.get("expect") == "100-continue":
            self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding") != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", 0)))
        chunks: list[bytes] = []
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            chunks.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")
        return b"".join(chunks)

    # what is answered

    async def _play(self, reply: ServerReply) -> bool:
        """Whether the connection can take another request."""
        if reply.steps is None:  # as a service at its best: all at once
            self._write(reply.head() + reply.framed(reply.body) + reply.last)
            await self._drain()
            return reply.framing in ("chunked", "length")
        self._write(reply.head())
        for step in reply.steps:
            if not await self._step(reply, step):
                return False
        self._write(reply.last)
        await self._drain()
        return reply.framing in ("chunked", "length")

    async def _step(self, reply: ServerReply, step: Step) -> bool:
        """Whether to go on."""
        match step:
            case Send():
                await self._send(reply.framed(step.data))
            case Pause():
                await asyncio.sleep(step.seconds)
            case Drip():
                while not self._reader.at_eof():
                    await self._send(reply.framed(step.data))
                    await asyncio.sleep(step.every_s)
                return False
            case Stall():
                await self._drain()
                await self._reader.read(1)  # nothing more is asked: this is the end of the connection
                return False
            case Close():
                await self._drain()
                self._writer.close()
                await self._writer.wait_closed()
                return False
            case Reset():
                await self._drain()
                self._break()
                return False
        return True

    def _break(self) -> None:
        """Without lingering, closing a connection breaks it."""
        self._writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        self._writer.transport.abort()

    async def _send(self, data: bytes) -> None:
        self._write(data)
        await self._drain()

    def _write(self, data: bytes) -> None:
        self._writer.write(data)
        self._written += len(data)
        self._count()

    async def _drain(self) -> None:
        await self._writer.drain()
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        self._count()

    def _count(self) -> None:
        """Tell the server how many bytes the system has taken."""
        taken = self._written - self._writer.transport.get_write_buffer_size()
        self._server.sent_bytes += taken - self._counted
        self._counted = taken
