"""`edit_file`: a piece of a text file, replaced by another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gnomon.contracts.tool import Tool, ToolContext
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.tools._edit_match import MOST_REPLACED, MOST_TOLD, Found, find
from gnomon.tools._edit_near import nearest
from gnomon.tools._file_change import LARGEST, FileChange, changing, check_text, encoded
from gnomon.tools._file_diff import Change, applied, difference
from gnomon.tools._file_text import Charset, text_of
from gnomon.tools._files import shown, to_change
from gnomon.tools._places import placed
from gnomon.tools.function import TouchingTool
from gnomon.types.messages import Text, ToolResult

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["edit_file"]

_TAKEN = "indentation, blanks at the ends of lines or quotes"
_LONG_ENOUGH = 8
"""In characters. That a shorter text is there already says nothing."""


@placed("edit_file")
def edit_file(workspace: Workspace) -> Tool:
    """Replace a piece of a file of the workspace, and show the difference."""
    files = to_change(workspace, "edit_file")

    def edit(path: str, old: str, new: str, replace_all: bool = False, *, ctx: ToolContext) -> ToolResult:
        """Replace a piece of a text file, and see what that changed.

        Give the old text as it stands in the file, without line numbers, and with as many lines around it as
        make it the only such place. Where it is not there to the letter, one place is taken that differs
        in indentation, blanks at the ends of lines, quotes or dashes alone, and the result says so. Line ends
        and charset stay.

        path: the file, relative to the workspace
        old: the text to be replaced; empty only to fill a file that is empty or not there yet
        new: what takes its place
        replace_all: replace every place where the old text stands
        """
        check_text("old", old)
        check_text("new", new)
        if old == new:
            raise InvalidArguments("old and new are the same text: nothing would change")
        with changing(files, path, ctx) as file:
            text = _edit(file, old, new, replace_all) if old else _fill(file, new)
            return ToolResult("", "edit_file", (Text(text),), meta={"path": file.place})

    # What it did stands in the file: whoever is told that a call may have been lost can look.
    return TouchingTool(edit, touches=files.changes, name="edit_file", on_unknown="tell")


def _fill(file: FileChange, new: str) -> str:
    text, charset = _read(file) if file.data is not None else ("", Charset("utf-8"))
    if text:
        raise InvalidArguments(
            f"old: it is empty, and {shown(file.path)} is not: give the text to be replaced"
        )
    _check_charset(file, charset, new)
    file.put(encoded(charset, new.removeprefix("\ufeff") if charset.mark else new))
    was = "was made" if file.data is None else "was empty, and is filled"
    return "\n".join(filter(None, (f"{shown(file.path)} {was}.", difference("", [Change(0, 0, new)]))))


def _edit(file: FileChange, old: str, new: str, every: bool) -> str:
    if file.data is None:
        raise file.absent()
    text, charset = _read(file)
    if not text:
        raise ToolFailed(f"{shown(file.path)} is empty: leave old empty to fill it")
    _check_charset(file, charset, new)
    found = find(text, old, new, every=every)
    if found is None:
        raise ToolFailed(_not_found(file, text, old, new))
    _check_count(file, text, found, every)
    after = _after(file, text, found)
    file.put(encoded(charset, after))
    return "\n".join((_told(file, text, found), difference(text, found.changes)))


def _read(file: FileChange) -> tuple[str, Charset]:
    if not file.is_whole:
        raise ToolFailed(f"{shown(file.path)} has {file.size:,} bytes, and up to {LARGEST:,} can be edited")
    found = text_of(file.data or b"")
    if found is None:
        raise ToolFailed(f"{shown(file.path)} is no text: {file.size:,} bytes of something else")
    return found


def _check_charset(file: FileChange, charset: Charset, new: str) -> None:
    if letter := charset.lacks(new):
        raise ToolFailed(
            f"new: {shown(file.path)} is in {charset.shown}, which has no {letter!r}. Nothing was written"
        )


def _check_count(file: FileChange, text: str, found: Found, every: bool) -> None:
    """One place, or several of the very same text where every one is meant: all else would be a guess."""
    if found.total == 1 or (every and found.is_sure and found.total <= MOST_REPLACED):
        return
    where, lines = shown(file.path), _lines_told(text, found)
    if not found.is_sure:
        raise ToolFailed(
            f"old: it is not in {where} to the letter, and {found.how} it stands at {lines}. "
            "Give it exactly, with more lines around the one you mean"
        )
    more = "Give more lines around the one you mean, or replace_all"
    if every:
        more = f"Up to {MOST_REPLACED:,} places are replaced at once"
    raise ToolFailed(f"old: it stands {found.total:,} times in {where}: {lines}. {more}")


def _after(file: FileChange, text: str, found: Found) -> str:
    """The new text, if it is one, and not too long."""
    grown = sum(len(each.text) - (each.end - each.start) for each in found.changes)
    if len(text) + grown > LARGEST:
        raise ToolFailed(f"it would have {len(text) + grown:,} characters, and up to {LARGEST:,} are written")
    after = applied(text, found.changes)
    if after == text:
        line = _lines_told(text, found)
        raise ToolFailed(f"{shown(file.path)} says that already, {found.how}: {line}. Nothing was written")
    return after


# --- what is told -----------------------------------------------------------------


def _told(file: FileChange, text: str, found: Found) -> str:
    count = "at " if found.total == 1 else f"in {found.total:,} places: "
    how = f"\n[what is old was not there to the letter: it was found {found.how}]" if found.how else ""
    return f"{shown(file.path)} was changed {count}{_lines_told(text, found)}.{how}"


def _not_found(file: FileChange, text: str, old: str, new: str) -> str:
    said = [f"old: {shown(file.path)} does not have it, nor anything that differs in {_TAKEN} alone."]
    if len(new.strip()) >= _LONG_ENOUGH and new in text:
        said.append(f"It has what is new, at {_lines(text, [text.index(new)])}: perhaps it is done already.")
    near = nearest(text, old)
    said.append(f"Most like it is:\n{near}" if near else "Nothing in it is like it: read it first.")
    return " ".join(said)


def _lines_told(text: str, found: Found) -> str:
    return _lines(text, found.starts[:MOST_TOLD], and_more=found.total > MOST_TOLD)


def _lines(text: str, places: Sequence[int], *, and_more: bool = False) -> str:
    """The numbers of the lines where these places are, which are in order."""
    numbers: dict[str, None] = {}
    line, at = 1, 0
    for place in places:
        line += text.count("\n", at, place)
        at = place
        numbers[f"{line:,}"] = None
    *first, last = [*numbers, "more"] if and_more else numbers
    return f"lines {', '.join(first)} and {last}" if first else f"line {last}"
