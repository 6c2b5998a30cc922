"""What may be stored: names without control characters, times in UTC, values that JSON holds.

Checked before anything is sent, so that every back end refuses the same, in the same words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeVar, cast

import msgspec

from gnomon.errors import Damaged, InvalidInput

__all__ = ["LONGEST_NAME_BYTES", "checked_name", "checked_time", "decoded", "encoded"]

LONGEST_NAME_BYTES = 512
"""Of an id or a key: some databases hold no longer ones."""

_DEEPEST = 200
_INTEGERS = range(-(2**63), 2**64)

_S = TypeVar("_S", bound=msgspec.Struct)
_encoder = msgspec.json.Encoder()
_decoders: dict[type[msgspec.Struct], Callable[[bytes], object]] = {}


def checked_name(what: str, name: object, *, empty: bool = False) -> str:
    """An id or a key that every back end can hold."""
    if not isinstance(name, str):
        raise InvalidInput(f"{what} must be text, {type(name).__name__} was given")
    if not name and not empty:
        raise InvalidInput(f"{what} must not be empty")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} holds half a character, which cannot be stored") from None
    if size > LONGEST_NAME_BYTES:
        raise InvalidInput(f"{what} has {size} bytes; at most {LONGEST_NAME_BYTES} can be stored")
    if "\x00" in name:
        raise InvalidInput(f"{what} holds a NUL character, which cannot be stored")
    return name


def checked_time(what: str, time: datetime) -> datetime:
    """The same moment in UTC."""
    if not isinstance(time, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - structs do not check
        raise InvalidInput(f"{what} must be a time, {type(time).__name__} was given")
    if time.tzinfo is None:
        raise InvalidInput(f"{what} has no time zone", hint="use gnomon.types.records.utc_now()")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{what} is no moment that UTC can name") from None


def encoded(what: str, record: msgspec.Struct, *open_fields: str) -> bytes:
    """The record as JSON; the fields whose type is open are looked through first."""
    for field in open_fields:
        _check(f"{what}.{field}", cast(object, getattr(record, field)), 0)
    try:
        return _encoder.encode(record)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be stored: {error}") from None


def decoded(kind: type[_S], body: bytes, where: str) -> _S:
    decoder = _decoders.get(kind) or _decoders.setdefault(kind, msgspec.json.Decoder(kind).decode)
    try:
        return cast(_S, decoder(body))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Damaged(f"{where}: a stored {kind.__name__} cannot be read: {error}") from error


def _check(what: str, value: object, depth: int) -> None:
    """JSON would turn some values into others in silence: bytes into text, NaN into null."""
    if depth > _DEEPEST:
        raise InvalidInput(f"{what[:100]}… is nested more than {_DEEPEST} levels deep")
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        _check_text(what, value)
    elif isinstance(value, int):
        if value not in _INTEGERS:
            raise InvalidInput(f"{what} is an integer of more than 64 bits")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{what} is {value}, which JSON cannot hold")
    elif isinstance(value, Mapping):
        for key, inner in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise InvalidInput(f"{what} has the key {key!r}: keys must be text")
            _check_text(f"a key of {what}", key)
            _check(f"{what}[{key!r}]", inner, depth + 1)
    elif isinstance(value, list | tuple):
        for at, inner in enumerate(cast("Sequence[object]", value)):
            _check(f"{what}[{at}]", inner, depth + 1)
    else:
        raise InvalidInput(f"{what} is of type {type(value).__name__}, which JSON cannot hold")


def _check_text(what: str, text: str) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidInput(f"{what} holds half a character, which cannot be stored") from None
