"""Events and messages as JSON bytes, and back, across versions.

What an older reader does not know is carried, never refused: an event as
`Unknown`, a part as `UnknownPart`. When such a thing later reaches a reader
that does know it, it becomes itself again.
"""

from __future__ import annotations

from types import UnionType
from typing import cast

import msgspec

from gnomon.errors import GnomonError, InvalidInput, scrub
from gnomon.types.events import Error, Event, Unknown
from gnomon.types.messages import Message, Meta, Part, UnknownPart

__all__ = ["decode_event", "decode_message", "encode_event", "encode_message", "error_event"]

_encoder = msgspec.json.Encoder()
_events = msgspec.json.Decoder(Event)
_messages = msgspec.json.Decoder(Message)


def encode_event(event: Event) -> bytes:
    """One line of the wire, without its line end."""
    return _encoder.encode(event)


def encode_message(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_event(line: bytes | str) -> Event:
    """The event on a line. A kind or a field from a newer peer never fails."""
    try:
        event = _events.decode(line)
    except msgspec.ValidationError:
        return _carried(_plain_object(line, "an event"))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"not an event: {error}") from error
    # A kind that an older peer carried for us may be one that we know.
    return _carried({"type": event.kind, **event.data}) if isinstance(event, Unknown) else event


def decode_message(data: bytes | str) -> Message:
    try:
        return _messages.decode(data)
    except msgspec.ValidationError as error:
        message = _converted(_with_carried_parts(_plain_object(data, "a message")), Message)
        if not isinstance(message, Message):
            raise InvalidInput(f"not a message: {error}") from error
        return message
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidInput(f"not a message: {error}") from error


def error_event(error: BaseException) -> Error:
    """An exception as the event that stands for it on a wire."""
    if isinstance(error, GnomonError):
        return Error(error.code, str(error), error.retryable, error.hint)
    return Error("internal", scrub(f"{type(error).__name__}: {error}"))


def _plain_object(data: bytes | str, what: str) -> Meta:
    plain: object = msgspec.json.decode(data)
    if not isinstance(plain, dict):
        raise InvalidInput(f"not {what}: a JSON object is needed, {type(plain).__name__} was found")
    return cast(Meta, plain)


def _carried(plain: Meta) -> Event:
    kind = plain.get("type")
    if not isinstance(kind, str):
        raise InvalidInput("not an event: it has no 'type'")
    # With its unknown parts wrapped, the event itself may well be a known one.
    known = cast("Event | None", _converted(_with_carried_parts(plain), Event))
    return known or Unknown(kind, {name: value for name, value in plain.items() if name != "type"})


def _converted(plain: object, kind: type | UnionType) -> object | None:
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError:
        return None


def _with_carried_parts(node: object) -> object:
    """A copy in which each unreadable part, wherever parts may stand, is an `UnknownPart`."""
    if isinstance(node, list):
        return [_with_carried_parts(item) for item in cast("list[object]", node)]
    if not isinstance(node, dict):
        return node
    copy = {name: _with_carried_parts(value) for name, value in cast(Meta, node).items()}
    content = copy.get("content")
    if isinstance(content, list):
        copy["content"] = [_readable_part(part) for part in cast("list[object]", content)]
    if "part" in copy:
        copy["part"] = _readable_part(copy["part"])
    return copy


def _readable_part(plain: object) -> object:
    if _converted(plain, Part) is not None or not isinstance(plain, dict):
        return plain
    fields = dict(cast(Meta, plain))
    return msgspec.to_builtins(UnknownPart(str(fields.pop("type", "")), fields))
