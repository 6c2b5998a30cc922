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

__all__ = [
    "LARGEST_NUMBER",
    "LONGEST_NAME_BYTES",
    "checked_name",
    "checked_number",
    "checked_time",
    "decoded",
    "encoded",
]

LONGEST_NAME_BYTES = 512
"""Of an id or a key: some databases hold no longer ones."""

LARGEST_NUMBER = 2**53 - 1
"""Of a seq or a revision: some databases count in floating point."""

_DEEPEST = 200
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
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
        size = len(name) if name.isascii() else len(name.encode())
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} holds half a character, which cannot be stored") from None
    if size > LONGEST_NAME_BYTES:
        raise InvalidInput(f"{what} has {size} bytes; at most {LONGEST_NAME_BYTES} can be stored")
    if "\x00" in name:
        raise InvalidInput(f"{what} holds a NUL character, which cannot be stored")
    return name


def checked_number(what: str, number: object, *, least: int = 0) -> int:
    """A count that every back end can hold, and compare."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidInput(f"{what} must be a whole number, {type(number).__name__} was given")
    if not least <= number <= LARGEST_NUMBER:
        raise InvalidInput(f"{what} must be from {least} to {LARGEST_NUMBER}; {number} was given")
    return number


def checked_time(what: str, time: datetime) -> datetime:
    """The same moment in UTC."""
    if not isinstance(time, datetime):  # pyright: ignore[reportUnnecessaryIsInstance] - structs do not check
        raise InvalidInput(f"{what} must be a time, {type(time).__name__} was given")
    if time.tzinfo is UTC:
        return time
    if time.tzinfo is None:
        raise InvalidInput(f"{what} has no time zone", hint="use gnomon.types.records.utc_now()")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{what} is no moment that UTC can name") from None


def encoded(what: str, record: msgspec.Struct, *open_fields: str) -> bytes:
    """The record as JSON.

    It is read again before it goes: structs do not check, and one row that cannot be
    read would spoil every list it stands in. What comes back the same has lost nothing;
    else the fields whose type is open are looked through for the reason, if there is one.
    """
    try:
        body = _encoder.encode(record)
        if _decoder(type(record))(body) == record and _is_plain(body):
            return body
    except (TypeError, ValueError, RecursionError) as error:  # msgspec's own are ValueErrors
        _look_through(what, record, open_fields)
        raise InvalidInput(f"{what} cannot be stored: {error}") from None
    _look_through(what, record, open_fields)
    return body


def _is_plain(body: bytes) -> bool:
    """Whether it is too short to be nested too deeply, and has no number that may be too long."""
    return len(body) <= 2 * _DEEPEST and _LONG_NUMBER not in body.translate(_AS_ZEROS)


def _look_through(what: str, record: msgspec.Struct, open_fields: tuple[str, ...]) -> None:
    for field in open_fields:
        flaw = _flaw(cast(object, getattr(record, field)))
        if flaw is not None:
            raise InvalidInput(f"{what}.{field}{_shortened(flaw)}")


def decoded(kind: type[_S], body: bytes, where: str) -> _S:
    try:
        return cast(_S, _decoder(kind)(body))
    except (msgspec.DecodeError, UnicodeError) as error:
        raise Damaged(f"{where}: a stored {kind.__name__} cannot be read: {error}") from error


def _decoder(kind: type[msgspec.Struct]) -> Callable[[bytes], object]:
    return _decoders.get(kind) or _decoders.setdefault(kind, msgspec.json.Decoder(kind).decode)


def _shortened(flaw: str) -> str:
    return flaw if len(flaw) <= 300 else f"{flaw[:150]}…{flaw[-140:]}"


def _flaw(value: object, depth: int = 0) -> str | None:
    """What JSON cannot hold, or would turn into something else in silence: bytes into text, NaN into null.

    The end of a sentence, which begins with where it stands; `None` when all is well.
    """
    kind = type(value)
    if kind is str:
        return _text_flaw(cast(str, value))
    if value is None or kind is bool:
        return None
    if kind is int:
        return None if value in _INTEGERS else " is an integer of more than 64 bits"
    if kind is float:
        return None if math.isfinite(cast(float, value)) else f" is {value}, which JSON cannot hold"
    if depth > _DEEPEST:
        return f" … is nested more than {_DEEPEST} levels deep"
    if isinstance(value, Mapping):
        return _mapping_flaw(cast("Mapping[object, object]", value), depth)
    if isinstance(value, list | tuple):
        flaws = ((at, _flaw(inner, depth + 1)) for at, inner in enumerate(cast("Sequence[object]", value)))
        return next((f"[{at}]{flaw}" for at, flaw in flaws if flaw is not None), None)
    return f" is of type {kind.__name__}, which JSON cannot hold"


def _mapping_flaw(value: Mapping[object, object], depth: int) -> str | None:
    for key, inner in value.items():
        if not isinstance(key, str):
            return f" has the key {key!r}: keys must be text"
        flaw = _text_flaw(key) or _flaw(inner, depth + 1)
        if flaw is not None:
            return f"[{key!r}]{flaw}"
    return None


def _text_flaw(text: str) -> str | None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return " holds half a character, which cannot be stored"
    return None
