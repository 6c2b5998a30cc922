"""`read_file`: the lines of a text file, or a picture."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gnomon._beneath import stamp_of
from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.tools._file_lines import LONGEST_LINE, Lines, read_lines
from gnomon.tools._file_text import SAMPLE_BYTES, charset_of
from gnomon.tools._files import Files, reason, shown
from gnomon.tools._places import placed
from gnomon.tools.function import TouchingTool
from gnomon.types._media import media_type_of
from gnomon.types.messages import Image, Part, Text, ToolResult

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["read_file"]

_MOST_LINES = 2_000
_MOST_CHARS = 50_000
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_LARGEST_PICTURE = 5_000_000
"""In bytes. More than that the services that models run at do not take."""


@placed("read_file")
def read_file(workspace: Workspace) -> Tool:
    """Read a file of the workspace: lines of text, or a picture."""
    files = Files(workspace, "read_file")

    def read(path: str, offset: int = 1, limit: int = _MOST_LINES, *, ctx: ToolContext) -> ToolResult:
        """Read a text file, or look at a picture (PNG, JPEG, GIF, WebP).

        Each line comes with its number and a tab before it, which are not part of the file. A long file is
        read in parts: the last line of the result then says how to go on.

        path: the file, relative to the workspace
        offset: the line to begin with, counted from 1
        limit: how many lines at most
        """
        if offset < 1 or limit < 1:
            raise InvalidArguments(f"{'offset' if offset < 1 else 'limit'}: it is at least 1")
        with files.opened(path) as file:
            try:
                parts = _parts(file, path, offset, min(limit, _MOST_LINES), ctx)
            except OSError as error:
                raise ToolFailed(f"{shown(path)} cannot be read: {reason(error)}") from None
        return ToolResult("", "read_file", parts)

    return TouchingTool(
        read, touches=files.reads, name="read_file", read_only=True, max_output_chars=_MOST_CHARS * 2
    )


def _parts(file: int, path: str, offset: int, limit: int, ctx: ToolContext) -> tuple[Part, ...]:
    size = stamp_of(os.fstat(file)).size
    sample = os.pread(file, SAMPLE_BYTES, 0)
    kind = media_type_of(sample[:16])
    if kind in _PICTURES:
        return _picture(file, path, kind, size)
    charset = charset_of(sample, is_whole=len(sample) == size)
    if charset is None:
        named = f" ({kind})" if kind else ""
        raise ToolFailed(f"{shown(path)} is no text: {size:,} bytes of something else{named}")
    found = read_lines(
        file,
        charset,
        first=offset,
        most=limit,
        most_chars=_MOST_CHARS,
        is_cancelled=lambda: ctx.cancelled,
    )
    if not found.shown:
        if not found.counted:
            return (Text(f"{shown(path)} is empty: it has no lines."),)
        has = "1 line" if found.counted == 1 else f"{found.counted:,} lines"
        raise InvalidArguments(f"offset: {shown(path)} has {has}, and none at {offset:,}")
    return (Text("\n".join([*_numbered(found), *_notes(found, charset.shown)])),)


def _numbered(found: Lines) -> list[str]:
    return [
        f"{number}\t{line}{_cut(length)}"
        for number, (line, length) in enumerate(zip(found.shown, found.lengths, strict=True), found.first)
    ]


def _cut(length: int) -> str:
    left = length - LONGEST_LINE
    return f"… [{left:,} more characters in this line]" if left > 0 else ""


def _notes(found: Lines, charset: str) -> list[str]:
    """What is worth knowing of the file beside its lines."""
    notes: list[str] = []
    last = found.first + len(found.shown) - 1
    if found.counted > last or not found.is_counted:
        total = f" of {found.counted:,}" if found.is_counted else ", and there are more"
        notes.append(f"[lines {found.first:,} to {last:,}{total}: go on with offset={last + 1}]")
    if charset:
        notes.append(f"[its charset is taken for {charset}]")
    if found.has_crlf:
        notes.append("[its lines end with CRLF]")
    return notes


def _picture(file: int, path: str, kind: str, size: int) -> tuple[Part, ...]:
    if size > _LARGEST_PICTURE:
        raise ToolFailed(
            f"{shown(path)} is a picture of {size:,} bytes; up to {_LARGEST_PICTURE:,} can be shown"
        )
    pieces: list[bytes] = []
    while piece := os.read(file, _LARGEST_PICTURE + 1):
        pieces.append(piece)
        if sum(map(len, pieces)) > _LARGEST_PICTURE:  # it grows while it is read
            raise ToolFailed(f"{shown(path)} is a picture that changes while it is read")
    data = b"".join(pieces)
    return (
        Text(f"{shown(path)} is a picture ({kind}) of {len(data):,} bytes."),
        Image(data=data, media_type=kind),
    )
