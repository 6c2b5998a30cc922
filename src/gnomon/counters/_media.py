"""What images, audio and files come to: never nothing, and never an error. A header may lie."""

from __future__ import annotations

import re
from base64 import b64decode

from gnomon.counters._pixels import pixel_size
from gnomon.counters._text import UNIT, weigh
from gnomon.counters._vendors import image_tokens
from gnomon.types.messages import Audio, File, Image

__all__ = ["audio_tokens", "file_tokens", "image_part_tokens"]

_TOKENS_A_SECOND = 32
_BYTES_A_SECOND = 16_000  # of MP3 at 128 kbit/s, where no header tells
_MOST_BYTES_A_SECOND = 192_000 * 8 * 4  # of sound that anybody records; a header that says more lies
_UNSEEN_AUDIO = 32 * 30  # half a minute, of what is not here
_PDF_PAGE = 1_500  # the vendors say 1,500 to 3,000 for text and picture together
_UNSEEN_FILE = 1_500
_BYTES_A_TOKEN = 4

_PAGE = re.compile(rb"/Type\s*/Page\b")
_HEADER_CHARACTERS = 90_000


def image_part_tokens(part: Image, model: str) -> int:
    data = part.data if part.data is not None else _inside(part.url or "")
    size = pixel_size(data) if data else None
    return max(1, image_tokens(model, size, low=part.meta.get("detail") == "low"))


def _inside(url: str) -> bytes | None:
    """The beginning of what a `data:` URL holds, which is enough for a header."""
    head, _, body = url[:_HEADER_CHARACTERS].partition(",")
    if not head.lower().startswith("data:") or not head.lower().endswith(";base64"):
        return None
    try:
        return b64decode(body[: len(body) // 4 * 4])
    except ValueError:
        return None


def audio_tokens(part: Audio) -> int:
    """By how long it plays."""
    data = part.data
    if data is None:
        return _UNSEEN_AUDIO
    rate = int.from_bytes(data[28:32], "little") if data[:4] == b"RIFF" and data[8:12] == b"WAVE" else 0
    rate = rate if rate <= _MOST_BYTES_A_SECOND else 0
    return max(1, len(data) * _TOKENS_A_SECOND // max(rate, _BYTES_A_SECOND))


def file_tokens(part: File) -> int:
    """Text by its characters, a PDF by its pages, anything else by its bytes."""
    data = part.data
    if data is None:
        return _UNSEEN_FILE
    if data.startswith(b"%PDF"):
        return _PDF_PAGE * max(1, len(_PAGE.findall(data)))
    try:
        return max(1, weigh(data.decode()) // UNIT)
    except UnicodeDecodeError:
        return max(1, len(data) // _BYTES_A_TOKEN)
