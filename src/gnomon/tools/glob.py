"""`glob`: files and folders by their names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnomon.contracts.tool import Tool, ToolContext, Touches
from gnomon.errors import InvalidInput
from gnomon.tools._files import Files, plainly, shown
from gnomon.tools._places import placed
from gnomon.tools._searches import Span, bracketed, folder_to_search, in_thread, pattern_below, touched_below
from gnomon.tools._walk import Entry, Walk
from gnomon.tools.function import TouchingTool

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["glob"]

_TIME_S = 20.0
_MOST_SHOWN = 500
_MOST_CHARS = 40_000


@placed("glob")
def glob(workspace: Workspace) -> Tool:
    """Find files and folders of the workspace by their names."""
    files = Files(workspace, "glob")

    async def found(pattern: str, path: str = ".", ignored: bool = False, *, call: ToolContext) -> str:
        """Find files and folders by name, sorted by path.

        In a pattern * is any text within a name, ? one character, ** any number of folders, {a,b} one of
        several, [abc] one of these characters: **/*.py, src/{api,web}/**/test_*. Folders are shown with a
        slash. Links are shown with where they lead, and not followed. What is hidden by a dot is found too.

        pattern: counted from path: *.md is in that folder alone, **/*.md anywhere below it
        path: the folder to look in, relative to the workspace
        ignored: also what is otherwise left out: what .gitignore names, .git, node_modules, virtual
            environments and caches. A folder that the pattern names in full is never left out
        """
        span = Span(_TIME_S)
        return await in_thread(lambda: _found(files, pattern, path, ignored, span), span, call, "glob")

    def touched(arguments: Mapping[str, object]) -> Touches:
        return touched_below(files, str(arguments.get("path", ".")), str(arguments["pattern"]), "pattern")

    return TouchingTool(found, touches=touched, name="glob", read_only=True, max_output_chars=_MOST_CHARS * 2)


def _found(files: Files, text: str, path: str, ignored: bool, span: Span) -> str:
    place = folder_to_search(files, path)
    pattern = pattern_below(files, place, text, "pattern")
    walk = Walk(files, place, span, pattern=pattern, ignored=ignored)
    lines, left, room = list[str](), 0, _MOST_CHARS
    for entry in walk:
        if len(lines) < _MOST_SHOWN and room > 0:
            lines.append(_told(files, entry))
            room -= len(lines[-1]) + 1
        else:
            left += 1
    notes = [walk.ending] if walk.ending else []
    if left:
        notes.append(f"and {'many' if notes else f'{left:,}'} more: a pattern that says more leads to them")
    if not lines:
        lines.append(f"Nothing fits {shown(text)} in {shown(path)}.{_meant(text)}")
    return "\n".join([*lines, *map(bracketed, [*notes, *walk.notes()])])


def _told(files: Files, entry: Entry) -> str:
    name = plainly(entry.place)
    if entry.kind == "folder":
        return f"{name}/"
    if entry.kind == "other":
        return f"{name}  (no regular file)"
    return f"{name}{_target(files, entry.place)}" if entry.kind == "link" else name


def _target(files: Files, place: str) -> str:
    """Where a link leads, unless it is gone meanwhile."""
    folder, _, name = place.rpartition("/")
    try:
        parent = files.beneath.open(folder or ".", os.O_RDONLY | os.O_DIRECTORY, links=False)
        try:
            return f" -> {plainly(os.readlink(name, dir_fd=parent))}"
        finally:
            os.close(parent)
    except (OSError, InvalidInput):
        return ""


def _meant(text: str) -> str:
    """What was perhaps meant, where nothing was found."""
    return "" if "/" in text else f" **/{plainly(text)} looks in the folders below it too."
