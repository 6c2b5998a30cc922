"""How large an image is, by the first bytes of its file. What cannot be read is `None`, never an error."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["Size", "pixel_size"]

Size: TypeAlias = tuple[int, int]

_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})
"""JPEG's markers that begin a frame, and say its height and width."""

_SEGMENTS_READ = 500


def pixel_size(data: bytes) -> Size | None:
    """Width and height of a PNG, JPEG, GIF or WebP."""
    size: Size | None = None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and len(data) >= 24:
        size = _big(data[16:20]), _big(data[20:24])
    elif data.startswith((b"GIF87a", b"GIF89a")) and len(data) >= 10:
        size = _little(data[6:8]), _little(data[8:10])
    elif data.startswith(b"RIFF") and data[8:12] == b"WEBP" and len(data) >= 30:
        size = _webp(data)
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg(data)
    return size if size and size[0] > 0 and size[1] > 0 else None


def _webp(data: bytes) -> Size | None:
    match data[12:16]:
        case b"VP8X":
            return _little(data[24:27]) + 1, _little(data[27:30]) + 1
        case b"VP8L":
            bits = _little(data[21:25])
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return _little(data[26:28]) & 0x3FFF, _little(data[28:30]) & 0x3FFF
        case _:
            return None


def _jpeg(data: bytes) -> Size | None:
    at = 2
    for _ in range(_SEGMENTS_READ):
        at = data.find(b"\xff", at)
        if at < 0 or at + 9 > len(data):
            return None
        marker = data[at + 1]
        if marker in _FRAMES:
            return _big(data[at + 7 : at + 9]), _big(data[at + 5 : at + 7])
        alone = marker in (0x00, 0x01, 0xFF) or 0xD0 <= marker <= 0xD9
        at += (1 if marker == 0xFF else 2) if alone else 2 + _big(data[at + 2 : at + 4])
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
