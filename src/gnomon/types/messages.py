"""What is said: parts, messages, and the tools a model is told of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from typing import Literal, Self, TypeAlias, TypeVar, cast, get_args

import msgspec

from gnomon.errors import InvalidInput
from gnomon.types._media import read_attachment

__all__ = [
    "Audio",
    "Content",
    "File",
    "Image",
    "Message",
    "Meta",
    "Part",
    "Role",
    "Text",
    "Thinking",
    "ToolCall",
    "ToolDef",
    "ToolResult",
    "ToolStatus",
    "UnknownPart",
    "as_parts",
    "attachment",
]

Meta: TypeAlias = dict[str, object]
"""Vendor data that must be sent back. Keep as text what must return byte for byte."""

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
ToolStatus: TypeAlias = Literal[
    "ok", "error", "denied", "cancelled", "timeout", "truncated", "interrupted", "unknown"
]


class Text(msgspec.Struct, frozen=True, tag="text", omit_defaults=True):
    text: str
    meta: Meta = {}


class _Media(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something given by address or by value: exactly one of the two."""

    url: str | None = None
    data: bytes | None = None
    media_type: str | None = None

    def __post_init__(self) -> None:
        if (self.url is None) == (self.data is None):
            raise ValueError(f"{type(self).__name__} takes either a url or data, exactly one of them")


class Image(_Media, frozen=True, tag="image", omit_defaults=True):
    meta: Meta = {}

    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Image:
        data, media_type = read_attachment(path, what="an image")
        _expect_kind(path, media_type, "image")
        return cls(data=data, media_type=media_type)


class Audio(_Media, frozen=True, tag="audio", omit_defaults=True):
    meta: Meta = {}

    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> Audio:
        data, media_type = read_attachment(path, what="audio")
        _expect_kind(path, media_type, "audio")
        return cls(data=data, media_type=media_type)


class File(_Media, frozen=True, tag="file", omit_defaults=True):
    name: str | None = None
    meta: Meta = {}

    @classmethod
    def from_path(cls, path: str | PathLike[str]) -> File:
        from os import fsencode
        from os.path import basename

        data, media_type = read_attachment(path, what="a file")
        name = fsencode(basename(path)).decode(errors="replace")  # a name on disk need not be UTF-8
        return cls(data=data, media_type=media_type or "application/octet-stream", name=name)


class Thinking(msgspec.Struct, frozen=True, tag="thinking", omit_defaults=True):
    """What the model thought. `provider` and `model` made it; only they get it back unchanged."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    provider: str | None = None
    model: str | None = None
    meta: Meta = {}


class ToolCall(msgspec.Struct, frozen=True, tag="tool_call", omit_defaults=True):
    """A call the model asks for. `arguments` is the JSON text exactly as it came.

    A `truncated` call was cut off by a limit: it is shown, never run, never repaired.
    """

    id: str
    name: str
    arguments: str = "{}"
    index: int = 0
    truncated: bool = False
    meta: Meta = {}

    def parsed(self) -> object:
        """The arguments as plain Python values; raises `msgspec.DecodeError` when they are not JSON."""
        return cast(object, msgspec.json.decode(self.arguments))


class ToolResult(msgspec.Struct, frozen=True, tag="tool_result", omit_defaults=True):
    """What became of a call. Every call has exactly one."""

    call_id: str
    name: str = ""
    content: tuple[Part, ...] = ()
    status: ToolStatus = "ok"
    meta: Meta = {}

    def __post_init__(self) -> None:
        _settle_content(self)

    @classmethod
    def of(cls, call: ToolCall, *content: Content, status: ToolStatus = "ok") -> ToolResult:
        return cls(call_id=call.id, name=call.name, content=as_parts(content), status=status)

    @property
    def text(self) -> str:
        return _text(self.content)

    @property
    def images(self) -> tuple[Image, ...]:
        return _only(self.content, Image)


class UnknownPart(msgspec.Struct, frozen=True, tag="unknown", omit_defaults=True):
    """A kind of part that only a newer Gnomon knows: carried, not drawn, not sent to a model."""

    kind: str
    data: Meta = {}


Part: TypeAlias = Text | Image | Audio | File | Thinking | ToolCall | ToolResult | UnknownPart
Content: TypeAlias = str | Part
"""What the short constructors take: a string stands for a `Text`."""

_PARTS: frozenset[type] = frozenset(get_args(Part))
_P = TypeVar("_P", bound=Part)


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Role
    content: tuple[Part, ...] = ()
    name: str | None = None
    meta: Meta = {}

    def __post_init__(self) -> None:
        _settle_content(self)

    @classmethod
    def system(cls, *content: Content) -> Self:
        return cls("system", as_parts(content))

    @classmethod
    def user(cls, *content: Content, name: str | None = None) -> Self:
        return cls("user", as_parts(content), name)

    @classmethod
    def assistant(cls, *content: Content) -> Self:
        return cls("assistant", as_parts(content))

    @classmethod
    def tool(cls, *results: ToolResult) -> Self:
        for result in cast("tuple[object, ...]", results):
            if type(result) is not ToolResult:
                raise TypeError(f"a tool message holds ToolResults, not {type(result).__name__}")
        return cls("tool", results)

    @property
    def text(self) -> str:
        return _text(self.content)

    @property
    def images(self) -> tuple[Image, ...]:
        return _only(self.content, Image)

    @property
    def audio(self) -> tuple[Audio, ...]:
        return _only(self.content, Audio)

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.content if isinstance(part, Thinking))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return _only(self.content, ToolCall)

    @property
    def tool_results(self) -> tuple[ToolResult, ...]:
        return _only(self.content, ToolResult)


class ToolDef(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What a model is told of a tool. `schema` is the JSON Schema of its arguments."""

    name: str
    description: str = ""
    schema: Meta = {}
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


def attachment(path: str | PathLike[str]) -> Image | Audio | File:
    """A file as the part that its content makes it."""
    file = File.from_path(path)
    kind = (file.media_type or "").partition("/")[0]
    if kind == "image":
        return Image(data=file.data, media_type=file.media_type)
    return Audio(data=file.data, media_type=file.media_type) if kind == "audio" else file


def as_parts(content: Iterable[Content]) -> tuple[Part, ...]:
    """Parts as they are, strings as `Text`."""
    parts: list[Part] = []
    for item in cast("Iterable[object]", content):
        if isinstance(item, str):
            parts.append(Text(item))
        elif isinstance(item, Part):
            parts.append(item)
        else:
            raise TypeError(f"content is text or parts such as Image, not {type(item).__name__}")
    return tuple(parts)


def _settle_content(holder: Message | ToolResult) -> None:
    """People write a list or a bare string; what is kept is always a tuple of parts."""
    content = holder.content
    if type(content) is not tuple or not _PARTS.issuperset(map(type, content)):
        msgspec.structs.force_setattr(holder, "content", as_parts(_listed(content)))


def _listed(content: object) -> Iterable[Content]:
    if isinstance(content, str | Part):
        return (content,)
    if isinstance(content, Iterable) and not isinstance(content, Mapping | bytes):
        return cast("Iterable[Content]", content)
    kind = type(cast(object, content)).__name__
    raise TypeError(f"content is text or a list of parts, not {kind}")


def _text(parts: tuple[Part, ...]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))


def _only(parts: tuple[Part, ...], kind: type[_P]) -> tuple[_P, ...]:
    return tuple(part for part in parts if isinstance(part, kind))


def _expect_kind(path: str | PathLike[str], media_type: str | None, kind: str) -> None:
    if media_type is None or not media_type.startswith(kind + "/"):
        found = media_type or "of no known kind"
        raise InvalidInput(f"{str(path)!r} is {found}, not {kind}", hint="attach it as a File instead")
