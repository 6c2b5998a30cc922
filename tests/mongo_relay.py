"""Stands between a client and a server of MongoDB's wire, and makes go wrong what a test asks for.

    async with Relay(server.port) as relay:
        relay.spoil("update", Relay.LOSE_ANSWER)    # the next update is done, and nobody hears of it

What is spoiled is the next command of that name, in the order in which it was asked for. In place of a
fault there may be a document, which is the answer; or a function that is called before the command goes on.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import ClassVar, TypeAlias

import bson

_OP_MSG = 2013

Meanwhile: TypeAlias = Callable[[], Awaitable[object]]
Fault: TypeAlias = "str | Mapping[str, object] | Meanwhile"


class Relay:
    CUT: ClassVar[str] = "the connection breaks before the server has heard of it"
    LOSE_ANSWER: ClassVar[str] = "the server does it, and the connection breaks"
    NOT_REPLICATED: ClassVar[str] = "the server does it, and there is no majority that has it"

    def __init__(self, port: int) -> None:
        self._port = port
        self._faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        self.heard: Counter[str] = Counter()
        """How often each command came, as `update` and as `update gnomon_logs`."""
        self.said: dict[str, dict[str, object]] = {}
        """The last of each, without the documents that were sent along."""

    def spoil(self, command: str, *faults: Fault) -> None:
        """`update`, or `update gnomon_logs`, for a collection."""
        self._faults[command].extend(faults)

    def url(self, database: str, credentials: str = "") -> str:
        return f"mongodb://{credentials}127.0.0.1:{self.port}/{database}"

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        self._serving: set[asyncio.Task[None]] = set()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        if self._serving:
            await asyncio.wait(self._serving)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            with suppress(OSError, EOFError, asyncio.CancelledError):
                await self._relay(reader, writer)
        finally:
            self._serving.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            while True:
                message = await _message(reader)
                fault = self._fault(message)
                if fault == self.CUT:
                    return
                if callable(fault):
                    await fault()
                if isinstance(fault, Mapping):
                    writer.write(_answer(message, fault))
                    continue
                to_server.write(message)
                answer = await _message(from_server)
                if fault == self.LOSE_ANSWER:
                    return
                writer.write(_not_replicated(message, answer) if fault == self.NOT_REPLICATED else answer)
        finally:
            to_server.close()
            with suppress(OSError):
                await to_server.wait_closed()

    def _fault(self, message: bytes) -> Fault | None:
        if struct.unpack_from("<i", message, 12)[0] != _OP_MSG:
            return None
        body = _body(message)
        command, collection = next(iter(body.items()))
        names = (f"{command} {collection}", command)
        self.heard.update(names)
        self.said.update(dict.fromkeys(names, body))
        return next((self._faults[name].popleft() for name in names if self._faults.get(name)), None)


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(16)
    return head + await reader.readexactly(struct.unpack_from("<i", head)[0] - 16)


def _body(message: bytes) -> dict[str, object]:
    """The first document of a message: the driver sends it before any others."""
    (size,) = struct.unpack_from("<i", message, 21)
    return bson.decode(message[21 : 21 + size])


def _answer(message: bytes, document: Mapping[str, object]) -> bytes:
    body = struct.pack("<iB", 0, 0) + bson.encode(document)
    (request,) = struct.unpack_from("<i", message, 4)
    return struct.pack("<iiii", 16 + len(body), 0, request, _OP_MSG) + body


def _not_replicated(message: bytes, answer: bytes) -> bytes:
    why = {"code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": "Not enough data-bearing nodes"}
    return _answer(message, {**_body(answer), "writeConcernError": why})
