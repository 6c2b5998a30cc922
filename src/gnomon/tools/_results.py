"""What a function returned, as what a model gets to see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from os import PathLike, fspath
from typing import Any, TypeAlias, cast

import msgspec

from gnomon.errors import ToolFailed
from gnomon.types._media import media_type_of
from gnomon.types.messages import Audio, Content, File, Image, Part, Text, ToolResult, as_parts

__all__ = ["content_of", "result_of"]

_Bytes: TypeAlias = bytes | bytearray | memoryview


def result_of(name: str, value: object, call_id: str) -> ToolResult:
    """The result of a call. One that was made by hand goes out under the name and id of the call."""
    if isinstance(value, ToolResult):
        return msgspec.structs.replace(value, call_id=call_id, name=name)
    return ToolResult(call_id, name, content_of(name, value))


def content_of(name: str, value: object) -> tuple[Part, ...]:
    """Parts as they are, bytes as the picture, sound or file they are, all else as text."""
    if value is None:
        return (Text("done"),)
    if isinstance(value, str | Part | bytes | bytearray | memoryview):
        return as_parts((_piece(cast("Content | _Bytes", value)),))
    if isinstance(value, PathLike):
        return (Text(_path(cast("PathLike[Any]", value))),)
    if _is_content(value):
        return as_parts(_piece(item) for item in cast("Iterable[Content | _Bytes]", value))
    return (Text(_json(name, value)),)


def _is_content(value: object) -> bool:
    """Whether a list is content rather than data: text alone could be either, and reads as data."""
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    if not all(isinstance(item, str | Part | bytes | bytearray | memoryview) for item in items):
        return False
    return not all(isinstance(item, str) for item in items)


def _piece(value: Content | _Bytes) -> Content:
    if not isinstance(value, bytes | bytearray | memoryview):
        return value
    content = bytes(value)
    if not content:
        return "0 bytes"
    media_type = media_type_of(content) or _plain_kind(content)
    if media_type.startswith("image/"):
        return Image(data=content, media_type=media_type)
    if media_type.startswith("audio/"):
        return Audio(data=content, media_type=media_type)
    return File(data=content, media_type=media_type)


def _plain_kind(content: bytes) -> str:
    try:
        content.decode()
    except UnicodeDecodeError:
        return "application/octet-stream"
    return "application/octet-stream" if b"\0" in content else "text/plain"


# --- all else, as JSON ------------------------------------------------------


def _json(name: str, value: object) -> str:
    try:
        return _encoded(value)
    except _NotFinite:
        raise ToolFailed(
            f"{name} returned a number that JSON does not have: NaN, or an infinite one"
        ) from None
    except RecursionError as error:
        raise ToolFailed(
            f"{name} returned {_kind(value)} that holds itself, or is nested too deep"
        ) from error
    except (TypeError, ValueError) as error:
        raise ToolFailed(f"{name} returned {_kind(value)}, which cannot be shown to a model") from error


class _NotFinite(Exception):
    pass


def _encoded(value: object) -> str:
    try:
        text = msgspec.json.encode(value, enc_hook=_builtins).decode()
    except UnicodeEncodeError:  # half a character, as in a file's name that is not UTF-8
        import json

        return json.dumps(msgspec.to_builtins(value, enc_hook=_builtins, str_keys=True), allow_nan=False)
    # What is not finite is written as null, which is another answer.
    if "null" in text and not _is_finite(msgspec.to_builtins(value, enc_hook=_builtins)):
        raise _NotFinite
    return text


def _builtins(value: object) -> object:
    """What msgspec does not know: a pydantic model, or a path."""
    serializer = getattr(type(value), "__pydantic_serializer__", None)
    if serializer is not None:
        return cast(object, serializer.to_python(value, mode="json"))
    if isinstance(value, PathLike):
        return _path(cast("PathLike[Any]", value))
    raise TypeError(f"{_kind(value)} is nothing that JSON can say")


def _is_finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        value = list(cast("dict[object, object]", value).values())
    return not isinstance(value, list | tuple) or all(map(_is_finite, cast("Sequence[object]", value)))


def _path(value: PathLike[Any]) -> str:
    path: str | bytes = fspath(value)
    return path if isinstance(path, str) else path.decode(errors="backslashreplace")


def _kind(value: object) -> str:
    return type(value).__name__
