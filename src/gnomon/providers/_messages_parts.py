"""Parts of a message as blocks of Anthropic's Messages API."""

from __future__ import annotations

import re
from typing import TypeAlias

import msgspec

from gnomon.errors import BadRequest
from gnomon.providers._media import Media, base64_text, checked_size, media_bytes, media_type
from gnomon.providers._messages import CALL_META, CITATIONS_META, SERVICE_KIND
from gnomon.providers._notes import Notes
from gnomon.types.messages import File, Image, Text, ToolCall, UnknownPart

__all__ = [
    "Block",
    "CallIds",
    "Remarks",
    "audio_refused",
    "file_block",
    "image_block",
    "is_blank",
    "is_service",
    "service_block",
    "text_block",
    "tool_name",
    "tool_use_block",
]

Block: TypeAlias = dict[str, object]

# https://platform.claude.com/docs/en/build-with-claude/vision: 10 MB an image, 32 MB a request, as base64.
_IMAGE_BYTES = 7_500_000
_FILE_BYTES = 24_000_000
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
_LONGEST_TITLE = 500


class Remarks(Notes):
    """What was moved, rewritten or left out on the way, each said once."""

    def __init__(self) -> None:
        super().__init__("anthropic")

    def add(self, code: str, message: str, *, key: str = "") -> None:
        super().add(code, message, key=key or message)


# --- text, calls --------------------------------------------------------------------


def is_blank(text: str) -> bool:
    """Whether the vendor would refuse it: a text block must have something in it that can be seen."""
    return not text or text.isspace()


def text_block(part: Text) -> Block:
    citations = part.meta.get(CITATIONS_META)
    if isinstance(citations, str):
        return {"type": "text", "text": part.text, "citations": msgspec.Raw(citations.encode())}
    return {"type": "text", "text": part.text}


def tool_use_block(call: ToolCall, call_id: str) -> Block:
    more = call.meta.get(CALL_META)
    extra = _object(more) if isinstance(more, str) else {}
    block = {"type": "tool_use", "id": call_id, "name": tool_name(call.name), "input": _input(call.arguments)}
    return {**extra, **block}


def _input(arguments: str) -> object:
    """The argument text as it is; what is no object is shown to the model inside of one."""
    if not arguments.strip():
        return {}
    try:
        _object(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # The vendor's own advice: platform.claude.com/docs/…/fine-grained-tool-streaming
        return {"INVALID_JSON": arguments}
    return msgspec.Raw(arguments.encode())


_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def service_block(part: UnknownPart) -> Block | None:
    """A block of the vendor's own, as it came; `None` for what is not of this vendor."""
    text = part.data.get("json")
    if not part.kind.startswith(SERVICE_KIND) or not isinstance(text, str):
        return None
    try:
        return {**_object(text), "type": part.kind.removeprefix(SERVICE_KIND)}
    except msgspec.DecodeError:
        return None


def is_service(block: Block) -> bool:
    return block["type"] not in _OURS


_OURS = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "image", "document"},
)


def tool_name(name: str) -> str:
    """A name that the vendor takes; models make up others, and they must not spoil the conversation."""
    return _NOT_IN_NAMES.sub("_", name)[:128] or "_"


_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class CallIds:
    """The ids of calls as the vendor takes them: of a few characters, and each used once.

    The same conversation always gets the same ids, also when it has grown.
    """

    def __init__(self) -> None:
        self._used: dict[str, int] = {}
        self._now: dict[str, str] = {}

    def of_call(self, given: str) -> str:
        wanted = _NOT_IN_NAMES.sub("_", given) or "call"
        found = wanted
        while found in self._used:
            self._used[wanted] += 1
            found = f"{wanted}_{self._used[wanted]}"
        self._used[found] = 1
        self._now[given] = found
        return found

    def of_result(self, given: str) -> str | None:
        """The id of the latest call that was given this one; `None` without such a call."""
        return self._now.get(given)


# --- images and files ---------------------------------------------------------------


def image_block(part: Image | File) -> Block:
    return {"type": "image", "source": _image_source(part)}


def _image_source(part: Image | File) -> Block:
    if media_bytes(part) is None:
        return {"type": "url", "url": part.url}
    kind = _kind(part)
    if kind not in _IMAGES:
        raise _refused(f"takes no image of the kind {kind or 'unknown'}", "send it as PNG, JPEG, GIF or WebP")
    checked_size(part, _IMAGE_BYTES, "anthropic")
    return {"type": "base64", "media_type": kind, "data": base64_text(part)}


def file_block(part: File) -> Block:
    if _kind(part).startswith("image/"):
        return image_block(part)
    block: Block = {"type": "document", "source": _document_source(part)}
    if part.name and not is_blank(part.name):
        block["title"] = part.name[:_LONGEST_TITLE]
    return block


def _document_source(part: File) -> Block:
    data, kind = media_bytes(part), _kind(part)
    if data is None:
        if kind not in ("", _PDF):
            raise _refused(f"reads no {kind} from an address", "give the file's bytes as data")
        return {"type": "url", "url": part.url}
    checked_size(part, _FILE_BYTES, "anthropic")
    if kind == _PDF:
        return {"type": "base64", "media_type": _PDF, "data": base64_text(part)}
    return {"type": "text", "media_type": "text/plain", "data": _plain_text(data, kind)}


def _plain_text(data: bytes, kind: str) -> str:
    """Whatever is text can be read: programs, tables, notes."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        what = kind or "file of an unknown kind"
        raise _refused(f"reads PDF and plain text, and no {what}", "send its text, or a PDF of it")
    return text


def _kind(part: Media) -> str:
    kind = (media_type(part) or "").partition(";")[0].strip().lower()
    return "image/jpeg" if kind == "image/jpg" else kind


def audio_refused() -> BadRequest:
    return _refused("takes no audio", "send what was said as text, or ask a model that listens")


def _refused(what: str, hint: str) -> BadRequest:
    return BadRequest(f"anthropic {what}", vendor="anthropic", hint=hint)
