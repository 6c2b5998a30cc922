"""`write_file`: a file of the workspace, made or replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from gnomon.contracts.tool import Tool, ToolContext
from gnomon.tools._file_change import FileChange, changing, check_text, encoded
from gnomon.tools._file_diff import Change, common_end, common_start, difference
from gnomon.tools._file_text import SAMPLE_BYTES, Charset, charset_of, has_crlf, lines_in, text_of
from gnomon.tools._files import shown, to_change
from gnomon.tools._places import placed
from gnomon.tools.function import TouchingTool
from gnomon.types.messages import Text, ToolResult

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["write_file"]

_UTF8 = Charset("utf-8")


@placed("write_file")
def write_file(workspace: Workspace) -> Tool:
    """Make a file of the workspace, or replace it: whole or not at all."""
    files = to_change(workspace, "write_file")

    def write(path: str, content: str, *, ctx: ToolContext) -> ToolResult:
        """Make a file, or replace all of the one that is there. Folders on its way are made.

        A file that was there keeps its mode and its charset, and CRLF as its line ends. A new one is UTF-8.

        path: the file, relative to the workspace
        content: all that it is to hold
        """
        check_text("content", content)
        with changing(files, path, ctx) as file:
            return ToolResult("", "write_file", (Text(_write(file, content)),), meta={"path": file.place})

    return TouchingTool(write, touches=files.changes, name="write_file", destructive=True, idempotent=True)


class _Before(NamedTuple):
    """What a file was that is replaced."""

    text: str | None
    """What it said; `None` where that is not known."""

    charset: Charset
    has_crlf: bool
    told: str


def _write(file: FileChange, content: str) -> str:
    before = _before(file)
    written, charset, notes = _fitting(content, before)
    data = encoded(charset, written)
    size = f"{_lines(written)}, {len(data):,} bytes"
    if before is None:
        file.put(data)
        return f"{shown(file.path)} was made: {size}."
    if data == file.data and file.is_whole:
        return f"{shown(file.path)} held exactly this already: {size}. Nothing was written."
    file.put(data)
    parts = [f"{shown(file.path)} was replaced: {size}; it had {before.told}.", *notes]
    if before.text is not None:
        parts.append(_difference(before.text, written))
    return "\n".join(filter(None, parts))


def _before(file: FileChange) -> _Before | None:
    if file.data is None:
        return None
    size = f"{file.size:,} bytes"
    if not file.is_whole:
        charset = charset_of(file.data[:SAMPLE_BYTES], is_whole=False) or _UTF8
        begin = file.data[:SAMPLE_BYTES].decode(charset.codec, "replace")
        return _Before(None, charset, has_crlf(begin), size)
    found = text_of(file.data)
    if found is None:
        return _Before(None, _UTF8, False, f"{size} that were no text")
    return _Before(*found, has_crlf(found[0]), f"{_lines(found[0])}, {size}")


def _fitting(content: str, before: _Before | None) -> tuple[str, Charset, list[str]]:
    """The text as that file would have it, in its charset, and what is worth knowing of that."""
    if before is None:
        return content, _UTF8, []
    notes: list[str] = []
    charset = before.charset
    if charset.mark:
        content = content.removeprefix("\ufeff")
    if letter := charset.lacks(content):
        notes.append(f"[it was in {charset.shown}, which has no {letter!r}: now it is in UTF-8]")
        charset = _UTF8
    elif charset.shown:
        notes.append(f"[its charset is {charset.shown}, as it was]")
    if before.has_crlf and "\n" in content and "\r" not in content:
        content = content.replace("\n", "\r\n")
        notes.append("[its lines end with CRLF, as they did]")
    return content, charset, notes


def _difference(before: str, after: str) -> str:
    head = common_start(before, after)
    tail = common_end(before[head:], after[head:])
    return difference(before, [Change(head, len(before) - tail, after[head : len(after) - tail])])


def _lines(text: str) -> str:
    count = lines_in(text)
    return "1 line" if count == 1 else f"{count:,} lines"
