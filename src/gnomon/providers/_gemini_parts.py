"""Parts of a message as parts of Google's Gemini API."""

from __future__ import annotations

import re
from typing import TypeAlias, cast

import msgspec

from gnomon.errors import BadRequest
from gnomon.providers._gemini import PART_KIND, SOURCES
from gnomon.providers._media import Media, base64_text, checked_size, media_bytes, media_type
from gnomon.providers._notes import Notes
from gnomon.types.messages import Audio, Image, ToolCall, UnknownPart

__all__ = [
    "Block",
    "Remarks",
    "call_part",
    "fits_in_result",
    "is_source",
    "media_part",
    "own_part",
    "tool_name",
]

Block: TypeAlias = dict[str, object]

# https://ai.google.dev/gemini-api/docs/file-input-methods: 100 MB a request, as base64; 50 MB a PDF.
_INLINE_BYTES = 75_000_000
_PDF_BYTES = 50_000_000
_PDF = "application/pdf"
# https://ai.google.dev/gemini-api/docs/image-understanding#supported-formats
_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif", "image/bmp"})
# https://ai.google.dev/gemini-api/docs/function-calling, multimodal function responses
_IN_RESULTS = frozenset({"image/png", "image/jpeg", "image/webp", _PDF, "text/plain"})
_TEXTS = frozenset({"text/plain", "text/html", "text/css", "text/csv", "text/xml", "text/markdown"})
_OTHER_NAMES = {"image/jpg": "image/jpeg", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav"}


class Remarks(Notes):
    """What was moved, rewritten or left out on the way, each said once."""

    def __init__(self) -> None:
        super().__init__("gemini")

    def add(self, code: str, message: str, *, key: str = "") -> None:
        super().add(code, message, key=key or message)


# --- calls, and parts of the vendor's own ------------------------------------------------


def call_part(call: ToolCall) -> tuple[Block, bool]:
    """The part, and whether its arguments were rewritten."""
    args, rewritten = _args(call.arguments)
    return {"functionCall": {"id": call.id, "name": tool_name(call.name), "args": args}}, rewritten


def _args(arguments: str) -> tuple[object, bool]:
    """The argument text as it is; what is no object is shown to the model inside of one."""
    if not arguments.strip():
        return {}, False
    try:
        _object(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {"INVALID_JSON": arguments}, True
    return msgspec.Raw(arguments.encode()), False


_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def tool_name(name: str) -> str:
    """A name that the vendor takes; models make up others, and they must not spoil the conversation."""
    made = _NOT_IN_NAMES.sub("_", name)[:128]
    return made if _FIRST_IN_NAMES.match(made) else f"_{made}"[:128]


_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_.:-]")
_FIRST_IN_NAMES = re.compile(r"[a-zA-Z_]")


def own_part(part: UnknownPart, model: str) -> tuple[Block, bool] | None:
    """A part of the vendor's own as it came, and whether a signature of another model was left out.

    `None` for what is no part of this vendor.
    """
    text = part.data.get("json")
    if not part.kind.startswith(PART_KIND) or not isinstance(text, str):
        return None
    try:
        fields: Block = dict(_object(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    foreign = part.data.get("model") != model and "thoughtSignature" in fields
    if foreign:
        del fields["thoughtSignature"]
    return fields, foreign


def is_source(part: UnknownPart) -> bool:
    """Whether it is what was said of an answer, and not a part of it."""
    return part.kind.removeprefix(PART_KIND) in SOURCES


# --- images, audio, files ----------------------------------------------------------------


def media_part(part: Media) -> Block:
    """By value or by address; `BadRequest` for what the vendor is known to refuse."""
    kind = _kind(part)
    data = media_bytes(part)
    if data is None:
        file: Block = {"fileUri": part.url}
        return {"fileData": {**file, "mimeType": kind} if kind else file}
    kind = _checked_kind(part, kind, data)
    checked_size(part, _PDF_BYTES if kind == _PDF else _INLINE_BYTES, "gemini")
    return {"inlineData": {"mimeType": kind, "data": base64_text(part)}}


def fits_in_result(block: Block) -> bool:
    """Whether the media may stand inside the result of a function."""
    held = cast("Block | None", block.get("inlineData") or block.get("fileData"))
    return held is not None and held.get("mimeType") in _IN_RESULTS


def _checked_kind(part: Media, kind: str, data: bytes) -> str:
    main = kind.partition("/")[0]
    if isinstance(part, Audio):
        return kind if main == "audio" else _refused(f"takes no audio of the kind {kind or 'unknown'}")
    if isinstance(part, Image) or main == "image":
        return kind if kind in _IMAGES else _refused(f"takes no image of the kind {kind or 'unknown'}")
    if kind == _PDF or main in ("audio", "video") or kind in _TEXTS:
        return kind
    return _plain_text(data, kind)


def _plain_text(data: bytes, kind: str) -> str:
    """Whatever is text can be read: programs, tables, notes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        _refused(f"reads PDF and plain text, and no {kind or 'file of an unknown kind'}")
    return "text/plain"


def _kind(part: Media) -> str:
    kind = (media_type(part) or "").partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(kind, kind)


def _refused(what: str) -> str:
    hints = "send an image as PNG, JPEG or WebP, audio as WAV or MP3, a document as PDF or text"
    raise BadRequest(f"gemini {what}", vendor="gemini", hint=hints)
