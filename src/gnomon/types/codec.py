"""Events and messages as JSON bytes, and back, across versions.

What an older reader does not know is carried, never refused: an event as
`Unknown`, a part as `UnknownPart`. When such a thing later reaches a reader
that does know it, it becomes itself again.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import UnionType
from typing import Any, cast, get_args

import msgspec

from gnomon import errors
from gnomon.errors import GnomonError, InvalidInput, ProviderError, scrub
from gnomon.types.events import Error, Event, StreamEvent
from gnomon.types.messages import Message, Meta, Part

__all__ = [
    "decode_event",
    "decode_message",
    "encodable",
    "encode_event",
    "encode_message",
    "error_event",
    "exception_of",
]

# Not JSON, not UTF-8, or nested so deeply that only an attack explains it.
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)

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
    if line.__class__ is bytes and b'"unknown"' not in cast(bytes, line):
        try:
            return _events.decode(line)
        except (*_UNREADABLE, msgspec.ValidationError):
            pass  # the long way says what is wrong, or carries it
    return cast(Event, _decoded(line, _events, _readable_event, "an event"))


def decode_message(data: bytes | str) -> Message:
    return cast(Message, _decoded(data, _messages, _readable_message, "a message"))


def error_event(error: BaseException) -> Error:
    """An exception as the event that stands for it on a wire."""
    if isinstance(error, GnomonError):
        hint = None if error.hint is None else encodable(error.hint)
        return Error(error.code, encodable(error.summary), error.retryable, hint)
    return Error("internal", encodable(scrub(f"{type(error).__name__}: {error}")))


def exception_of(told: Error) -> GnomonError:
    """The exception that such an event stands for: of its class, with what was told of it."""
    text = f"internal error: {told.message}" if told.code == "internal" else told.message
    error = _by_code().get(told.code, GnomonError)(text, hint=told.hint)
    error.code, error.retryable = told.code, told.retryable
    return error


@cache
def _by_code() -> dict[str, type[GnomonError]]:
    """The classes that are made of a text and a hint; what a service said besides is in the text."""
    found = [cast(object, getattr(errors, name)) for name in errors.__all__]
    kinds = [kind for kind in found if isinstance(kind, type) and issubclass(kind, GnomonError)]
    plain = (GnomonError.__init__, ProviderError.__init__)
    return {kind.code: kind for kind in kinds if kind.__init__ in plain}


def encodable(text: str) -> str:
    """The text, with half characters written out: those of a name that is not UTF-8, or of a cut emoji."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def _decoded(
    data: bytes | str, decoder: msgspec.json.Decoder[Any], readable: Callable[[Meta], object], what: str
) -> object:
    """The value in the data: straight, or piece by piece when it holds what is not known here."""
    try:
        if not _holds_something_carried(data):
            with suppress(msgspec.ValidationError):
                return cast(object, decoder.decode(data))
        plain: object = msgspec.json.decode(data)
        if not isinstance(plain, dict):
            raise InvalidInput(f"not {what}: a JSON object is needed, {type(plain).__name__} was found")
        return msgspec.convert(readable(cast(Meta, plain)), decoder.type)
    except _UNREADABLE as error:
        raise InvalidInput(f"not {what}: {error}") from error


def _holds_something_carried(data: bytes | str) -> bool:
    """Whether an older peer may have wrapped something that is known here."""
    return '"unknown"' in data if isinstance(data, str) else b'"unknown"' in data


# What follows gives plain data back in which everything can be read, touching only
# the places where parts and events stand: a `meta` bag may look like one of them.


def _readable_event(plain: Meta, kinds: UnionType = Event) -> Meta:
    kind, fields = _unwrapped(plain, _EVENT_KINDS)
    if not isinstance(kind, str):
        raise InvalidInput("not an event: it has no 'type'")
    candidate: Meta = {**{name: _readable_field(name, fields[name]) for name in fields}, "type": kind}
    if _is(candidate, kinds):
        return candidate
    return {"type": "unknown", "kind": kind, "data": fields}


def _readable_field(name: str, value: object) -> object:
    if name == "content" and isinstance(value, list):
        return [_readable_part(part) for part in cast("list[object]", value)]
    if name == "head" and isinstance(value, list):
        return [_readable_field("message", message) for message in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    plain = cast(Meta, value)
    match name:
        case "part" | "result":
            return _readable_part(plain)
        case "message" | "summary":
            return _readable_message(plain)
        case "response" if "message" in plain:
            return {**plain, "message": _readable_field("message", plain["message"])}
        case "event" if isinstance(plain.get("type"), str):
            return _readable_event(plain, StreamEvent)
        case _:
            return plain


def _readable_message(plain: Meta) -> Meta:
    return {**plain, "content": _readable_field("content", plain["content"])} if "content" in plain else plain


def _readable_part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    kind, fields = _unwrapped(cast(Meta, part), _PART_KINDS)
    candidate: Meta = {**fields, "type": kind}
    if kind == "tool_result" and "content" in fields:
        candidate["content"] = _readable_field("content", fields["content"])
    if _is(candidate, Part):
        return candidate
    return {"type": "unknown", "kind": str(kind or ""), "data": fields}


def _unwrapped(plain: Meta, known: frozenset[str]) -> tuple[object, Meta]:
    """The kind and the fields; of something carried, its own when the kind is known here."""
    fields = dict(plain)
    kind, inner, data = fields.pop("type", None), plain.get("kind"), plain.get("data", {})
    if kind == "unknown" and isinstance(inner, str) and inner in known and isinstance(data, dict):
        return inner, cast(Meta, data)
    return kind, fields


def _is(plain: object, kind: UnionType) -> bool:
    try:
        msgspec.convert(plain, kind)
    except msgspec.ValidationError:
        return False
    return True


def _kinds(union: UnionType) -> frozenset[str]:
    return frozenset(struct.__struct_config__.tag for struct in get_args(union)) - {"unknown"}


_EVENT_KINDS = _kinds(Event)
_PART_KINDS = _kinds(Part)
