"""The least Python that does the same job, to stand beside: a raw socket, and the HTTP client by hand.

Both send a Chat Completions request and give the text of each piece, decoded into typed structs.
Nothing is checked, no error is told apart, nothing has a time limit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import aiohttp
import msgspec


class Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    index: int = 0
    id: str | None = None
    function: Function | None = None


class Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(msgspec.Struct):
    delta: Delta
    finish_reason: str | None = None


class Chunk(msgspec.Struct):
    choices: list[Choice]


class Piece(msgspec.Struct, gc=False):
    text: str


CHAT = "/v1/chat/completions"

decode = msgspec.json.Decoder(Chunk).decode
encode = msgspec.json.Encoder().encode


def body(model: str, messages: Sequence[dict[str, str]]) -> bytes:
    return encode(
        {"model": model, "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
    )


async def texts(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[Piece, None]:
    rest = b""
    async for data in pieces:
        *events, rest = (rest + data).split(b"\n\n")
        for event in events:
            payload = event[6:]
            if payload == b"[DONE]":
                continue
            for choice in decode(payload).choices:
                if choice.delta.content:
                    yield Piece(choice.delta.content)
                elif choice.delta.tool_calls:
                    for call in choice.delta.tool_calls:
                        if call.function and call.function.arguments:
                            yield Piece(call.function.arguments)


async def tool_loop(
    client: Raw | Aiohttp, model: str, question: str, tools: Sequence[object], run: Callable[..., object]
) -> int:
    """Ask, run what is called, ask again; the number of calls. One call at a time is all it knows."""
    said: list[dict[str, object]] = [{"role": "user", "content": question}]
    done = 0
    while True:
        asked = {"model": model, "messages": said, "tools": tools, "stream": True}
        call = await _called(client.ask(encode({**asked, "stream_options": {"include_usage": True}})))
        if call is None:
            return done
        result = run(**msgspec.json.decode(call["function"]["arguments"]))
        said.append({"role": "assistant", "tool_calls": [call]})
        said.append({"role": "tool", "tool_call_id": call["id"], "content": str(result)})
        done += 1


async def _called(pieces: AsyncGenerator[bytes, None]) -> dict[str, Any] | None:
    rest, call_id, name, arguments = b"", None, None, ""
    async for data in pieces:
        *events, rest = (rest + data).split(b"\n\n")
        for event in events:
            if event[6:] == b"[DONE]":
                continue
            for choice in decode(event[6:]).choices:
                for piece in choice.delta.tool_calls or ():
                    call_id = piece.id or call_id
                    if piece.function is not None:
                        name = piece.function.name or name
                        arguments += piece.function.arguments or ""
    if call_id is None:
        return None
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


class _Connection(asyncio.Protocol):
    """HTTP/1.1 by hand: chunked bodies, one request at a time, used again."""

    def __init__(self) -> None:
        self.buffer = b""
        self.pieces: deque[bytes] = deque()
        self.waiter: asyncio.Future[None] | None = None
        self.in_head = True
        self.done = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def start(self, request: bytes) -> None:
        self.in_head, self.done = True, False
        self.transport.write(request)

    def data_received(self, data: bytes) -> None:
        buffer, at = self.buffer + data if self.buffer else data, 0
        while at < len(buffer):
            if self.in_head:
                end = buffer.find(b"\r\n\r\n", at)
                if end < 0:
                    break
                at, self.in_head = end + 4, False
                continue
            end = buffer.find(b"\r\n", at)
            if end < 0:
                break
            size = int(buffer[at:end], 16)
            if size == 0:
                self.done, at = True, end + 4
                break
            if len(buffer) < end + 2 + size + 2:
                break
            self.pieces.append(buffer[end + 2 : end + 2 + size])
            at = end + 2 + size + 2
        self.buffer = buffer[at:]
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def read(self) -> bytes | None:
        while not self.pieces:
            if self.done:
                return None
            self.waiter = asyncio.get_running_loop().create_future()
            await self.waiter
        if len(self.pieces) == 1:
            return self.pieces.popleft()
        joined = b"".join(self.pieces)
        self.pieces.clear()
        return joined


class Raw:
    """asyncio's own sockets."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._free: list[_Connection] = []

    async def ask(self, request: bytes, path: str = CHAT) -> AsyncGenerator[bytes, None]:
        connection = self._free.pop() if self._free else await self._connected()
        head = (
            f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{self._port}\r\n"
            "authorization: Bearer sk\r\ncontent-type: application/json\r\naccept: application/json\r\n"
            f"content-length: {len(request)}\r\n\r\n"
        )
        connection.start(head.encode() + request)
        while (piece := await connection.read()) is not None:
            yield piece
        self._free.append(connection)

    async def _connected(self) -> _Connection:
        _, connection = await asyncio.get_running_loop().create_connection(
            _Connection, "127.0.0.1", self._port
        )
        return connection

    async def close(self) -> None:
        for connection in self._free:
            connection.transport.close()


class Aiohttp:
    """The HTTP client that Gnomon uses, by hand."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._headers = {"authorization": "Bearer sk", "content-type": "application/json"}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )

    async def ask(self, request: bytes, path: str = CHAT) -> AsyncGenerator[bytes, None]:
        async with self._session.post(self._url + path, data=request, headers=self._headers) as response:
            async for data in response.content.iter_any():
                yield data

    async def close(self) -> None:
        await self._session.close()
