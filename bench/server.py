"""A model server that costs nothing to think: what `wire.py` talks to, in a process of its own.

    python bench/server.py        prints its port, serves Chat Completions on loopback until it is ended

The model's name says what is answered: `text-2000` is that many pieces of text at once, `paced-40-50`
forty pieces fifty milliseconds apart, each carrying the time it was sent, `args-500` one tool call
whose arguments come in that many pieces, `loop-10` a call of `add` until ten results are there. A path
that begins with the name of another wire is answered as that one answers.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from functools import cache

import vendors
from vendors import chunked

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"x-request-id: req_bench\r\ntransfer-encoding: chunked\r\n\r\n"
)
_FRAME = (
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"bench",'
    '"system_fingerprint":"fp_1","choices":[{"index":0,"delta":%s,"logprobs":null,"finish_reason":%s}],"usage":null}\n\n'
)
_USAGE = (
    'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1760000000,"model":"bench",'
    '"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":%d,"total_tokens":%d}}\n\n'
)


def event(delta: str, reason: str = "null") -> bytes:
    return (_FRAME % (delta, reason)).encode()


def text_event(text: str) -> bytes:
    return event('{"content":"' + text + '"}')


def last_events(count: int, reason: str) -> bytes:
    return event("{}", f'"{reason}"') + (_USAGE % (count, count + 9)).encode() + b"data: [DONE]\n\n"


@cache
def whole(kind: str, count: int) -> bytes:
    """A whole answer, each event a chunk of its own, as a service sends it."""
    call = '{"tool_calls":[{"index":0,%s"function":{%s"arguments":"%s"}}]}'
    if kind == "call":
        said = call % (f'"id":"call_{count}","type":"function",', '"name":"add",', '{\\"a\\":1,\\"b\\":2}')
        pieces = [event(said), last_events(9, "tool_calls")]
    elif kind == "args":
        pieces = [event(call % ('"id":"call_1","type":"function",', '"name":"write",', '{\\"text\\":\\"'))]
        pieces += [event(call % ("", "", "piece "))] * (count - 2)
        pieces += [event(call % ("", "", '\\"}')), last_events(count, "tool_calls")]
    else:
        pieces = [event('{"role":"assistant","content":""}'), *([text_event("word ")] * count)]
        pieces.append(last_events(count, "stop"))
    return HEAD + b"".join(map(chunked, pieces)) + b"0\r\n\r\n"


Paced = tuple[bytes, Callable[[str], bytes], bytes]
"""How a slow answer begins, each of its pieces, and its end."""


def _chat_paced(count: int) -> Paced:
    opening = HEAD + chunked(event('{"role":"assistant","content":""}'))
    closing = chunked(last_events(count, "stop")) + b"0\r\n\r\n"
    return opening, lambda text: chunked(text_event(text)), closing


def _vendor_paced(name: str) -> Callable[[int], Paced]:
    made = vendors.frames(name)
    return lambda count: (made.head + made.opening, made.stamped, made.closing)


PACED = {name: _vendor_paced(name) for name in vendors.VENDORS}


class Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = re.search(rb"(?i)content-length: *(\d+)", self.buffer[:end])
        size = end + 4 + (int(length[1]) if length else 0)
        if len(self.buffer) < size:
            return
        place = re.match(rb"POST /(\w+)/", self.buffer[:size])
        asked = re.search(rb'(?:"model": *"|/models/)([a-z]+)-(\d+)(?:-(\d+))?', self.buffer[:size])
        assert asked is not None, self.buffer[:size]
        assert place is not None
        vendor, kind, count = place[1].decode(), asked[1].decode(), int(asked[2])
        if kind == "loop":
            results = self.buffer.count(b'"role":"tool"', end, size)
            kind, count = ("call", results + 1) if results < count else ("text", 1)
        del self.buffer[:size]
        if kind == "paced":
            self.pace(count, int(asked[3]) / 1000, PACED.get(vendor, _chat_paced))
        elif vendor in vendors.VENDORS:
            self.transport.write(vendors.whole(vendor, count))
        else:
            self.transport.write(whole(kind, count))

    def pace(self, count: int, step_s: float, made: Callable[[int], Paced]) -> None:
        loop = asyncio.get_running_loop()
        opening, piece, closing = made(count)
        self.transport.write(opening)
        begin = loop.time() + step_s * ((id(self) >> 4) % 97) / 97  # not all at the same moment

        def tick(number: int) -> None:
            if self.transport.is_closing():
                return
            if number < count:
                self.transport.write(piece(str(time.monotonic_ns())))
                loop.call_at(begin + step_s * (number + 1), tick, number + 1)
            else:
                self.transport.write(closing)

        loop.call_at(begin, tick, 0)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
