"""Whether bytes are a picture, as far as that can be seen without drawing it.

A picture goes to a model and stays in the history: one that the vendor cannot read, or will not, would fail
every request from then on.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

__all__ = ["kind_of"]

_LONGEST_SIDE = 8000
"""Pixels; what has more is refused by those who take pictures."""

_PNG = b"\x89PNG\r\n\x1a\n"
_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_DATA = 0xDA


def kind_of(data: bytes) -> str:
    """Its media type; empty when it is no picture, a torn one, or one that is too large."""
    for media_type, (mark, size_of) in _KINDS.items():
        if data.startswith(mark):
            try:
                width, height = size_of(data)
            except (struct.error, IndexError, ValueError):
                return ""
            return media_type if 0 < width <= _LONGEST_SIDE and 0 < height <= _LONGEST_SIDE else ""
    return ""


def _png(data: bytes) -> tuple[int, int]:
    chunks = list(_png_chunks(data))
    names = [name for name, _ in chunks]
    if names[0] != b"IHDR" or names[-1] != b"IEND" or b"IDAT" not in names:
        raise ValueError
    width, height = struct.unpack_from(">II", chunks[0][1])
    return width, height


def _png_chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = len(_PNG)
    while at < len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        (check,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(name + body) != check:
            raise ValueError
        yield name, body
        at += 12 + length


def _jpeg(data: bytes) -> tuple[int, int]:
    if b"\xff\xd9" not in data[-64:]:
        raise ValueError
    at, size = 2, (0, 0)
    while data[at] == 0xFF:
        marker, length = data[at + 1], struct.unpack_from(">H", data, at + 2)[0]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack_from(">HH", data, at + 5)
            size = width, height
        if marker == _JPEG_DATA:
            return size
        at += 2 + length
    raise ValueError


def _gif(data: bytes) -> tuple[int, int]:
    if not data.endswith(b";"):
        raise ValueError
    width, height = struct.unpack_from("<HH", data, 6)
    return width, height


def _webp(data: bytes) -> tuple[int, int]:
    (length,) = struct.unpack_from("<I", data, 4)
    if data[8:12] != b"WEBP" or length + 8 > len(data):
        raise ValueError
    match data[12:16]:
        case b"VP8X":
            width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
        case b"VP8L":
            (bits,) = struct.unpack_from("<I", data, 21)
            width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            width, height = (side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))
        case _:
            raise ValueError
    return width, height


_KINDS: dict[str, tuple[bytes, Callable[[bytes], tuple[int, int]]]] = {
    "image/png": (_PNG, _png),
    "image/jpeg": (b"\xff\xd8\xff", _jpeg),
    "image/gif": (b"GIF8", _gif),
    "image/webp": (b"RIFF", _webp),
}
