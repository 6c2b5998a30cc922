"""Entries of the ledger as bytes, and back; what is large is set aside as a blob.

Version 1 is the entry as JSON. Version 2 is an entry without its large texts and
bytes, and a list of where each belongs: `{"event": …, "blobs": [{"path": …}]}`.
The places are listed, not marked, since any mark could also be somebody's text.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from typing import Literal, TypeAlias, cast

import msgspec

from gnomon.errors import Damaged, InvalidInput
from gnomon.types.codec import decode_event, encode_event
from gnomon.types.events import Event, MessageReceived
from gnomon.types.messages import Message, Text
from gnomon.types.records import LedgerEvent

__all__ = [
    "ASIDE_BYTES",
    "PLAIN",
    "Packed",
    "blobs_named",
    "packed",
    "skimmed_message",
    "skimmed_received",
    "unpacked",
]

ASIDE_BYTES = 16_384
"""A text or media of more than this is kept once, by its hash."""

PLAIN, WITH_BLOBS = 1, 2

_Key: TypeAlias = str | int


class _Aside(msgspec.Struct, frozen=True):
    """A value that is kept elsewhere: where it belongs, its hash, and what it is."""

    path: tuple[_Key, ...]
    digest: str
    form: Literal["text", "bytes"]


class _Envelope(msgspec.Struct, frozen=True):
    event: object
    blobs: tuple[_Aside, ...]


class Packed(msgspec.Struct, frozen=True):
    """What to store: first the blobs, then the payload that names them."""

    payload: bytes
    version: int
    blobs: tuple[bytes, ...] = ()


def packed(entry: Event) -> Packed:
    try:
        return _packed(entry)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"a {type(entry).__name__} cannot be stored: {error}") from None


def _packed(entry: Event) -> Packed:
    payload = encode_event(entry)
    if len(payload) <= ASIDE_BYTES:
        return Packed(payload, PLAIN)
    plain: object = msgspec.to_builtins(entry, builtin_types=(bytes,))
    found: list[tuple[_Aside, bytes]] = []
    small = _without_large(plain, (), found)
    if not found:
        return Packed(payload, PLAIN)
    envelope = _Envelope(small, tuple(aside for aside, _ in found))
    return Packed(msgspec.json.encode(envelope), WITH_BLOBS, tuple(content for _, content in found))


def blobs_named(event: LedgerEvent) -> tuple[str, ...]:
    """The hashes of the blobs without which the event cannot be read."""
    return tuple(aside.digest for aside in _envelope(event).blobs) if event.version == WITH_BLOBS else ()


def unpacked(event: LedgerEvent, blobs: Mapping[str, bytes]) -> Event:
    """The entry in a stored event; `blobs` has what `blobs_named` asks for."""
    if event.version != WITH_BLOBS:
        return _decoded(event, event.payload)
    envelope = _envelope(event)
    for aside in envelope.blobs:
        if aside.digest not in blobs:
            raise _damaged(event, f"its blob {aside.digest[:12]}… is missing")
        _put_back(event, envelope.event, aside, blobs[aside.digest])
    return _decoded(event, msgspec.json.encode(envelope.event))


class _Said(msgspec.Struct, frozen=True):
    message: Message


class _Skimmed(msgspec.Struct, frozen=True):
    """Of a completed message, what a model is shown again."""

    response: _Said


_skim = msgspec.json.Decoder(_Skimmed).decode
_received = msgspec.json.Decoder(MessageReceived).decode


def skimmed_message(event: LedgerEvent) -> Message | None:
    """The message in an event that completes one, if it makes no calls.

    `None` where only the whole way of reading can tell.
    """
    try:
        message = _skim(event.payload).response.message
    except (msgspec.DecodeError, UnicodeError):
        return None
    return message if _is_plain(event, message) else None


def skimmed_received(event: LedgerEvent) -> MessageReceived | None:
    """The same of an event that is a message from outside."""
    try:
        received = _received(event.payload)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return received if _is_plain(event, received.message) else None


def _is_plain(event: LedgerEvent, message: Message) -> bool:
    """Whether it is read whole already: nothing is kept elsewhere, and nothing of an older reader carried."""
    if event.version != PLAIN:
        return False
    content = message.content
    if len(content) == 1 and content[0].__class__ is Text:  # as most are, and there are many
        return True
    return b'"unknown"' not in event.payload and not message.tool_calls


def _decoded(event: LedgerEvent, payload: bytes) -> Event:
    try:
        return decode_event(payload)
    except InvalidInput as error:  # the input is ours: it was stored
        raise _damaged(event, error.message) from error


def _without_large(value: object, path: tuple[_Key, ...], found: list[tuple[_Aside, bytes]]) -> object:
    if isinstance(value, dict):
        items = cast("dict[str, object]", value).items()
        return {key: _without_large(inner, (*path, key), found) for key, inner in items}
    if isinstance(value, list | tuple):
        inners = enumerate(cast("list[object]", value))
        return [_without_large(inner, (*path, at), found) for at, inner in inners]
    content = _large(value)
    if content is None:
        return value
    form = "text" if isinstance(value, str) else "bytes"
    found.append((_Aside(path, sha256(content).hexdigest(), form), content))
    return None


def _large(value: object) -> bytes | None:
    if isinstance(value, str):
        value = value.encode() if len(value) * 4 > ASIDE_BYTES else b""
    return value if isinstance(value, bytes) and len(value) > ASIDE_BYTES else None


def _envelope(event: LedgerEvent) -> _Envelope:
    try:
        return msgspec.json.decode(event.payload, type=_Envelope)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise _damaged(event, str(error)) from error


def _put_back(event: LedgerEvent, plain: object, aside: _Aside, content: bytes) -> None:
    try:
        value = content.decode() if aside.form == "text" else b64encode(content).decode()
        for key in aside.path[:-1]:
            plain = cast("dict[_Key, object]", plain)[key]
        cast("dict[_Key, object]", plain)[aside.path[-1]] = value
    except UnicodeError as error:
        raise _damaged(event, f"its blob {aside.digest[:12]}… is no text") from error
    except (LookupError, TypeError) as error:
        raise _damaged(event, f"there is no place {aside.path} for its blob") from error


def _damaged(event: LedgerEvent, why: str) -> Damaged:
    return Damaged(f"event {event.seq} of session {event.session_id!r} cannot be read: {why}")
