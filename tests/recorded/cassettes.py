"""Every exchange that the recordings hold: what was asked, and what the service answered.

Cassettes are vcrpy's: YAML, packed. Addresses and headers were taken out of most of them
before they were published, so that it is the answer that tells which service it came from.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import yaml

__all__ = ["Exchange", "Wire", "exchanges_in", "is_beta", "sort_of", "stream_wire"]

Wire: TypeAlias = Literal["responses", "chat", "messages"]

_REDACTED = "**REDACTED**"
_CASSETTES = "*/tests/cassettes/*.yaml.gz"
_FIXTURES = ("*/tests/lib/streaming/fixtures/*.txt", "*/tests/fixtures/*/*.sse")
_MESSAGES = "https://api.anthropic.com/v1/messages?beta=true"


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer. `url` is `None` where it was taken out."""

    source: str
    cassette: str
    number: int
    method: str
    url: str | None
    asked: bytes
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def name(self) -> str:
        return f"{self.source}/{self.cassette}#{self.number}"

    @property
    def question(self) -> dict[str, Any]:
        """The request, where it is JSON; nothing, where it is not."""
        return _object(self.asked)

    @property
    def answer(self) -> dict[str, Any]:
        return _object(self.body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


# --- reading ------------------------------------------------------------------


def exchanges_in(archive: Path, source: str) -> Iterator[Exchange]:
    with tarfile.open(archive) as files:
        for member in files:
            if fnmatch(member.name, _CASSETTES):
                yield from _in_cassette(_content(files, member), source, _stem(member, ".yaml.gz"))
            elif any(fnmatch(member.name, pattern) for pattern in _FIXTURES):
                yield _fixture(_content(files, member), source, _stem(member, ""))


def _content(files: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = files.extractfile(member)
    assert content is not None, f"{member.name} is no file"
    return content.read()


def _stem(member: tarfile.TarInfo, ending: str) -> str:
    return member.name.rpartition("/")[2].removesuffix(ending)


def _in_cassette(packed: bytes, source: str, cassette: str) -> Iterator[Exchange]:
    said = yaml.load(gzip.decompress(packed), Loader=yaml.CSafeLoader)
    pairs = zip(said["requests"], said["responses"], strict=True)
    for number, (request, response) in enumerate(pairs):
        yield Exchange(
            source=source,
            cassette=cassette,
            number=number,
            method=request["method"],
            url=None if request["uri"] == _REDACTED else request["uri"],
            asked=_bytes(request["body"]),
            status=response["status"]["code"],
            headers=_headers(response["headers"]),
            body=_bytes(response["body"]["string"]),
        )


def _bytes(body: str | bytes | None) -> bytes:
    return body.encode() if isinstance(body, str) else body or b""


def _headers(recorded: Mapping[str, list[str] | str]) -> dict[str, str]:
    """Those that were left in."""
    flat = {
        name.lower(): value if isinstance(value, str) else ", ".join(value)
        for name, value in recorded.items()
    }
    return {name: value for name, value in flat.items() if _REDACTED not in value}


def _fixture(body: bytes, source: str, name: str) -> Exchange:
    """An answer that the vendor's own library is tested with.

    As text files, most have lost the empty line after their last event; a service sends it.
    """
    return Exchange(
        source=source,
        cassette=name,
        number=0,
        method="POST",
        url=_MESSAGES,
        asked=b'{"stream": true}',
        status=200,
        headers={"content-type": "text/event-stream; charset=utf-8"},
        body=body.rstrip(b"\n") + b"\n\n",
    )


# --- what is what -------------------------------------------------------------


def stream_wire(exchange: Exchange) -> Wire | None:
    """Which API an answer that is a stream of events came from."""
    if exchange.status != 200 or not exchange.body.startswith((b"event:", b"data:", b":")):
        return None
    for kind in _kinds(exchange.body):
        if kind == "chat.completion.chunk":
            return "chat"
        if kind == "message_start":
            return "messages"
        if kind == "response.created":
            return "responses"
    return None


def _kinds(body: bytes) -> Iterator[object]:
    for line in body.splitlines():
        if line.startswith(b"data:"):
            event = _object(line[5:])
            yield event.get("type") or event.get("object")


_WHOLE = {"response": "responses", "chat.completion": "chat", "message": "messages"}
_FILES = (b"%PDF-", b"RIFF", b"\x89PNG")


def sort_of(exchange: Exchange) -> str:
    """What an exchange is, in words; `unknown` would be one that nobody has looked at."""
    if exchange.status >= 400:
        return f"error {exchange.status}"
    if wire := stream_wire(exchange):
        return f"stream of {wire}"
    if exchange.method == "GET" and exchange.body.startswith(_FILES):
        return "other: a file fetched for a request"
    answer = exchange.answer
    if wire := _WHOLE.get(str(answer.get("object") or answer.get("type"))):
        return f"whole answer of {wire}"
    if answer.get("object") == "list" and "embedding" in answer["data"][0]:
        return "other: embeddings"
    if "batch_ingest_config" in answer or exchange.status == 202:
        return "other: the recorder's own tracing"
    return "unknown"


def is_beta(exchange: Exchange) -> bool:
    """Whether the request went to what the vendor calls its beta."""
    return exchange.url is None or "beta=true" in exchange.url
