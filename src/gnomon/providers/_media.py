"""Images, audio and files as vendors take them: base64, data URLs, media types and size limits."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import TypeAlias
from urllib.parse import unquote_to_bytes, urlsplit

from gnomon.errors import BadRequest
from gnomon.types._media import media_type_of
from gnomon.types.messages import Audio, File, Image

__all__ = ["Media", "base64_text", "checked_size", "data_url", "media_bytes", "media_type"]

Media: TypeAlias = Image | Audio | File


def media_bytes(part: Media) -> bytes | None:
    """The bytes that were given, also inside a `data:` URL; `None` for a part by address."""
    if part.url is None or part.url[:5].lower() != "data:":
        return part.data
    head, comma, body = part.url.partition(",")
    if not comma:
        raise BadRequest("a data: URL without a comma holds no data", hint="give the bytes as data instead")
    raw = unquote_to_bytes(body)
    try:
        return b64decode(raw) if head.lower().endswith(";base64") else raw
    except ValueError as error:
        raise BadRequest(f"a data: URL cannot be read: {error}") from error


def media_type(part: Media) -> str | None:
    """As given, else what the bytes are, else what the name or the address ends with."""
    if part.media_type:
        return part.media_type
    name = (part.name or "") if isinstance(part, File) else ""
    if part.url is None:
        return media_type_of(part.data or b"", name)
    if part.url[:5].lower() == "data:":
        return part.url[5:].partition(",")[0].partition(";")[0].lower() or None
    return media_type_of(b"", name or _path_of(part.url))


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:  # it is no address; the vendor says so, if it is sent
        return ""


def base64_text(part: Media) -> str:
    """The bytes of a part that was given by value, as base64."""
    data = media_bytes(part)
    if data is None:
        raise ValueError("a part that was given by address has no bytes here")
    return b64encode(data).decode("ascii")


def data_url(part: Media) -> str:
    """A part that was given by value, as one `data:` URL."""
    if part.url is not None and part.url[:5].lower() == "data:":
        return part.url
    return f"data:{media_type(part) or 'application/octet-stream'};base64,{base64_text(part)}"


def checked_size(part: Media, limit_bytes: int, vendor: str) -> None:
    """`BadRequest` for what the vendor is known to refuse for its size; an address is not judged."""
    data = media_bytes(part)
    if data is None or len(data) <= limit_bytes:
        return
    what = type(part).__name__.lower()
    raise BadRequest(
        f"the {what} has {_megabytes(len(data))} MB and {vendor} takes {_megabytes(limit_bytes)} MB at most",
        vendor=vendor,
        hint=f"send a smaller {what}, or its address instead of its bytes",
    )


def _megabytes(size: int) -> str:
    return f"{size / 1_000_000:.1f}".removesuffix(".0")
