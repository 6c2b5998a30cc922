"""What an answer costs on every other wire: the frames are those of the fixtures, many times over.

For each wire the limits of `wire.py` hold as well: a chunk, one request, a long history, live streams. The
floors are a raw socket and the HTTP client by hand, with a typed decode of just the text.
"""

from __future__ import annotations

import asyncio
import gc
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import floors
import msgspec
from measure import Row, Samples, compared, in_turns_on_this_loop, say

from gnomon import Message, Provider, Request, TextDelta

CHUNKS = 2_000
ROUNDS, QUICK_ROUNDS = 9, 5
STREAMS, LIVE_CHUNKS, STEP_MS, LIVE_ROUNDS = 500, 40, 50, 5
QUESTION = "How are you?"
WIRES = Path(__file__).parents[1] / "tests" / "wire"


class _Part(msgspec.Struct):
    text: str | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] = []


class _Candidate(msgspec.Struct):
    content: _Content | None = None


class _GeminiChunk(msgspec.Struct):
    candidates: list[_Candidate] = []


class _OllamaMessage(msgspec.Struct):
    content: str = ""


class _OllamaLine(msgspec.Struct):
    message: _OllamaMessage


class _ResponseEvent(msgspec.Struct):
    type: str
    delta: str | None = None


_read_gemini = msgspec.json.Decoder(_GeminiChunk).decode
_read_ollama = msgspec.json.Decoder(_OllamaLine).decode
_read_response = msgspec.json.Decoder(_ResponseEvent).decode


def _gemini_text(data: bytes) -> str | None:
    content = _read_gemini(data).candidates[0].content
    return content.parts[0].text if content else None


def _ollama_text(data: bytes) -> str | None:
    return _read_ollama(data).message.content


def _response_text(data: bytes) -> str | None:
    event = _read_response(data)
    return event.delta if event.type == "response.output_text.delta" else None


def _chat_text(data: bytes) -> str | None:
    if data == b"[DONE]":
        return None
    choices = floors.decode(data).choices
    return choices[0].delta.content if choices else None


Said = Sequence[tuple[str, str]]


def _chat_body(model: str, said: Said) -> bytes:
    messages = [{"role": role, "content": text} for role, text in said]
    return floors.encode({"model": model, "messages": messages, "stream": True})


def _response_body(model: str, said: Said) -> bytes:
    items = [{"role": role, "content": text} for role, text in said]
    return floors.encode({"model": model, "input": items, "stream": True, "store": False})


def _gemini_body(model: str, said: Said) -> bytes:
    contents = [
        {"role": "model" if role == "assistant" else "user", "parts": [{"text": text}]} for role, text in said
    ]
    return floors.encode({"contents": contents})


def _gemini(url: str) -> Provider:
    from gnomon.providers.gemini import GeminiProvider

    return GeminiProvider(key="bench-key", base_url=url)


def _mistral(url: str) -> Provider:
    from gnomon.providers.mistral import MistralProvider

    return MistralProvider(key="bench-key", base_url=url)


def _ollama(url: str) -> Provider:
    from gnomon.providers.ollama import OllamaProvider

    return OllamaProvider(base_url=url)


def _azure(url: str) -> Provider:
    from gnomon.providers.azure import AzureProvider

    return AzureProvider(key="bench-key", endpoint=url)


def _azure_chat(url: str) -> Provider:
    from gnomon.providers.azure import AzureProvider

    return AzureProvider(key="bench-key", endpoint=url, api_version="2025-01-01-preview")


class Vendor(NamedTuple):
    """One wire: what is asked where, and how the text stands in the answer."""

    make: Callable[[str], Provider]
    path: str
    body: Callable[[str, Said], bytes]
    text: Callable[[bytes], str | None]
    piece: bytes
    """What an event of the fixture looks like that brings a piece of text and nothing else."""


VENDORS = {
    "gemini": Vendor(
        _gemini,
        "/v1beta/models/{model}:streamGenerateContent?alt=sse",
        _gemini_body,
        _gemini_text,
        rb'(?s)^(?!.*finishReason).*"text"',
    ),
    "mistral": Vendor(
        _mistral,
        "/chat/completions",
        _chat_body,
        _chat_text,
        rb'"delta":\{"content":"[^"]+"\},"finish_reason":null',
    ),
    "ollama": Vendor(_ollama, "/api/chat", _chat_body, _ollama_text, rb'"done":false'),
    "azure": Vendor(_azure, "/openai/v1/responses", _response_body, _response_text, rb'output_text\.delta"'),
    "azure_chat": Vendor(
        _azure_chat,
        "/openai/deployments/{model}/chat/completions?api-version=2025-01-01-preview",
        _chat_body,
        _chat_text,
        rb'"delta":\{"content":"[^"]+"\},"finish_reason":null',
    ),
}


class Frames(NamedTuple):
    """A fixture's answer, taken apart; each event a chunk of its own, as a service sends it."""

    head: bytes
    opening: bytes
    piece: bytes
    """The first event that brings text."""
    text: str
    closing: bytes

    def stamped(self, text: str) -> bytes:
        """The same piece with another text."""
        return chunked(self.piece.replace(floors.encode(self.text), floors.encode(text), 1))


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(body), body)


@cache
def frames(name: str) -> Frames:
    head, _, body = (WIRES / name / "text.http").read_bytes().partition(b"\n\n")
    label = re.search(rb"(?i)content-type: *([^\n]+)", head)
    assert label is not None
    end = b"\n" if b"ndjson" in label[1] else b"\n\n"
    events = [event + end for event in body.split(end) if event.strip()]
    places = [at for at, event in enumerate(events) if re.search(VENDORS[name].piece, event)]
    first = events[places[0]]
    text = VENDORS[name].text(first[first.find(b"{") :].strip())
    assert text
    return Frames(
        b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n" % label[1],
        b"".join(map(chunked, events[: places[0]])),
        first,
        text,
        b"".join(map(chunked, events[places[-1] + 1 :])) + b"0\r\n\r\n",
    )


@cache
def whole(name: str, count: int) -> bytes:
    """The fixture's answer with its first piece of text that many times in place of its pieces."""
    made = frames(name)
    return made.head + made.opening + chunked(made.piece) * count + made.closing


# --- measuring --------------------------------------------------------------------


class Asker:
    """The three ways to ask one vendor; each gives the number of pieces that it saw."""

    def __init__(self, name: str, port: int) -> None:
        self.vendor = VENDORS[name]
        self.provider = self.vendor.make(f"http://127.0.0.1:{port}/{name}")
        self._place = f"/{name}" + self.vendor.path
        self.raw = floors.Raw(port)
        self.client = floors.Aiohttp(port)

    async def ours(self, model: str, messages: tuple[Message, ...]) -> int:
        seen = 0
        async with self.provider.stream(Request(messages=messages, model=model)) as stream:
            async for event in stream:
                seen += type(event) is TextDelta
        return seen

    async def by_hand(self, floor: floors.Raw | floors.Aiohttp, model: str, said: Said) -> int:
        pieces = floor.ask(self.vendor.body(model, said), self._place.format(model=model))
        seen = 0
        async for _ in self._texts(pieces):
            seen += 1
        return seen

    async def _texts(self, pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[floors.Piece, None]:
        end, text_of, rest = b"\n" if self.vendor.text is _ollama_text else b"\n\n", self.vendor.text, b""
        async for data in pieces:
            *events, rest = (rest + data).split(end)
            for event in events:
                if event and (text := text_of(event[event.find(b"{") :] if b"{" in event else b"[DONE]")):
                    yield floors.Piece(text)

    async def close(self) -> None:
        await self.provider.close()
        await self.raw.close()
        await self.client.close()


def rows(port: int, *, quick: bool) -> list[Row]:
    rounds = QUICK_ROUNDS if quick else ROUNDS
    say(f"vendors: {rounds} rounds for each of {', '.join(VENDORS)}")
    return [row for name in VENDORS for row in asyncio.run(_measured(name, port, rounds))]


async def _measured(name: str, port: int, rounds: int) -> list[Row]:
    asker = Asker(name, port)
    try:
        return [
            await _per_chunk(name, asker, rounds),
            await _per_request(name, asker, rounds),
            *await _history(name, asker, rounds),
            *([] if rounds == QUICK_ROUNDS else [await _live(name, asker)]),
        ]
    finally:
        await asker.close()


ASKED = ((("user", QUESTION),), (Message.user(QUESTION),))


async def _agreed(asker: Asker, model: str) -> None:
    """The floor and we see the same number of pieces."""
    said, messages = ASKED
    ours, floor = await asker.ours(model, messages), await asker.by_hand(asker.raw, model, said)
    assert ours == floor > 0, (ours, floor)


def _times(count: int, ask: Callable[[], Awaitable[int]]) -> Callable[[], Awaitable[None]]:
    async def job() -> None:
        for _ in range(count):
            await ask()

    return job


async def _per_chunk(name: str, asker: Asker, rounds: int) -> Row:
    model, (said, messages) = f"text-{CHUNKS}", ASKED
    await _agreed(asker, model)
    took = await in_turns_on_this_loop(
        {
            "raw": _times(5, lambda: asker.by_hand(asker.raw, model, said)),
            "ours": _times(5, lambda: asker.ours(model, messages)),
        },
        rounds,
    )
    each = {key: [seconds / (5 * CHUNKS) for seconds in values] for key, values in took.items()}
    return compared(f"{name}: a chunk of {CHUNKS:,} / a raw socket", each["ours"], each["raw"], limit=2.2)


async def _per_request(name: str, asker: Asker, rounds: int) -> Row:
    said, messages = ASKED
    took = await in_turns_on_this_loop(
        {
            "client": _times(300, lambda: asker.by_hand(asker.client, "text-1", said)),
            "ours": _times(300, lambda: asker.ours("text-1", messages)),
        },
        rounds,
    )
    each = {key: [seconds / 300 for seconds in values] for key, values in took.items()}
    return compared(f"{name}: one request / aiohttp by hand", each["ours"], each["client"], limit=1.5)


async def _history(name: str, asker: Asker, rounds: int) -> list[Row]:
    took: Samples = {"client": [], "ours": [], "5,000": []}
    for number in range(-1, rounds):
        for key in reversed(took) if number % 2 else took:
            seconds = await _with_history(asker, key)
            if number >= 0:
                took[key].append(seconds)
    return [
        compared(f"{name}: 1,000 new messages / aiohttp by hand", took["ours"], took["client"], limit=3),
        compared(f"{name}: 5,000 new messages / 1,000", took["5,000"], took["ours"], limit=5.5),
    ]


async def _with_history(asker: Asker, key: str) -> float:
    count, times = (5_000, 2) if key == "5,000" else (1_000, 10)
    said = [("assistant" if at % 2 else "user", f"message {at} " * 5) for at in range(count)] + [
        ("user", QUESTION)
    ]
    if key == "client":
        asks = [lambda: asker.by_hand(asker.client, "text-1", said)] * times
    else:
        made = [tuple(Message(role, text) for role, text in said) for _ in range(times)]  # type: ignore[arg-type]
        asks = [lambda messages=messages: asker.ours("text-1", messages) for messages in made]
    gc.collect()
    start = time.process_time()
    for ask in asks:
        await ask()
    return (time.process_time() - start) / times


async def _live(name: str, asker: Asker) -> Row:
    """Many streams at once; a chunk carries nothing but its turn."""
    model, (said, messages) = f"paced-{LIVE_CHUNKS}-{STEP_MS}", ASKED
    jobs = {
        "ours": lambda: asker.ours(model, messages),
        "client": lambda: asker.by_hand(asker.client, model, said),
    }
    took: Samples = {"ours": [], "client": []}
    for number in range(-1, LIVE_ROUNDS):
        for key in reversed(jobs) if number % 2 else jobs:
            start = time.process_time()
            seen = await asyncio.gather(*(jobs[key]() for _ in range(STREAMS)))
            assert min(seen) >= LIVE_CHUNKS, min(seen)
            if number >= 0:
                took[key].append((time.process_time() - start) / (STREAMS * LIVE_CHUNKS))
    what = f"{name}: a chunk of {STREAMS} live streams / aiohttp by hand"
    return compared(what, took["ours"], took["client"], limit=1.5)
