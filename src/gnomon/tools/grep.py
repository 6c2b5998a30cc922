"""`grep`: the lines of files that a regular expression finds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from gnomon.contracts.tool import Tool, ToolContext, Touches
from gnomon.errors import InvalidArguments, ToolFailed
from gnomon.tools._files import Files, shown
from gnomon.tools._grepping import Asked, Grepping
from gnomon.tools._line_results import MOST_CHARS
from gnomon.tools._places import placed
from gnomon.tools._searches import (
    Span,
    bracketed,
    counted,
    folder_to_search,
    in_thread,
    pattern_below,
    touched_below,
)
from gnomon.tools._walk import Walk
from gnomon.tools.function import TouchingTool

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["grep"]

_TIME_S = 20.0
_MOST_CONTEXT = 10
_LONGEST_PATTERN = 10_000
_POSIX = re.compile(
    r"\[:\^?(alpha|digit|alnum|upper|lower|space|blank|punct|xdigit|word|cntrl|print|graph):\]"
)
"""Classes that other expressions have, and that would be taken for something else here."""


@placed("grep")
def grep(workspace: Workspace) -> Tool:
    """Find lines in the files of the workspace by a regular expression."""
    files = Files(workspace, "grep")

    async def search(
        pattern: str,
        path: str = ".",
        glob: str | None = None,
        ignore_case: bool = False,
        literal: bool = False,
        context: int = 0,
        files_only: bool = False,
        ignored: bool = False,
        *,
        call: ToolContext,
    ) -> str:
        """Find the lines that a regular expression fits somewhere, in a file or in all files of a folder.

        The path of each file is followed by its lines with their numbers: "12: text" fits, "11- text" stands
        near one that does. Files come in the order of their paths. Long lines are cut around what was found.
        Links are not followed, files that hold no text or look like secrets are not searched.

        pattern: a regular expression of Python; each line is compared by itself
        path: the file, or the folder to look in, relative to the workspace
        glob: only files whose paths fit, counted from path: *.py is any of that name at any depth,
            src/**/*.{js,ts} says where
        ignore_case: take capital and small letters for the same
        literal: the pattern is plain text
        context: how many lines to show before and after each, up to 10
        files_only: only tell the files, and how many of their lines fit
        ignored: also search what is otherwise left out: what .gitignore names, .git, node_modules, virtual
            environments and caches. A folder that path or glob names in full is never left out
        """
        _check(pattern, context, literal)
        asked = Asked(pattern, literal, ignore_case, min(context, _MOST_CONTEXT), files_only)
        span = Span(_TIME_S)
        return await in_thread(partial(_found, files, asked, path, glob, ignored, span), span, call, "grep")

    def touched(arguments: Mapping[str, object]) -> Touches:
        text = arguments.get("glob")
        return touched_below(
            files, str(arguments.get("path", ".")), None if text is None else _at_any_depth(str(text)), "glob"
        )

    return TouchingTool(search, touches=touched, name="grep", read_only=True, max_output_chars=MOST_CHARS * 2)


def _check(pattern: str, context: int, literal: bool) -> None:
    if context < 0:
        raise InvalidArguments("context: it is at least 0")
    if not pattern:
        raise InvalidArguments("pattern: it is empty")
    if len(pattern) > _LONGEST_PATTERN:
        raise InvalidArguments(f"pattern: it is longer than {_LONGEST_PATTERN:,} characters")
    if "\n" in pattern or "\r" in pattern:
        raise InvalidArguments("pattern: there is a line break in it, and each line is compared by itself")
    posix = None if literal else _POSIX.search(pattern)
    if posix is not None:
        raise InvalidArguments(
            f"pattern: {posix[0]} at character {posix.start() + 1} is not known here: "
            "write \\s, \\d, \\w or [A-Za-z]"
        )


def _at_any_depth(glob: str) -> str:
    """A name alone is one at any depth, as in .gitignore; what ends in a slash is all that is in there."""
    if glob.startswith("!"):
        raise InvalidArguments(
            f"glob: {shown(glob)} cannot be used: it says what to search, not what to leave out"
        )
    glob = glob if "/" in glob else f"**/{glob}"
    return f"{glob}**" if glob.endswith("/") else glob


def _found(files: Files, asked: Asked, path: str, glob: str | None, ignored: bool, span: Span) -> str:
    grepping, walk = Grepping(files, asked, span), None
    if files.is_file(files.place(path)):
        with files.opened(path):  # it says so where it may not, or cannot, be read
            grepping.run([files.place(path)])
    else:
        place = folder_to_search(files, path)
        pattern = None if glob is None else pattern_below(files, place, _at_any_depth(glob), "glob")
        walk = Walk(files, place, span, pattern=pattern, ignored=ignored)
        grepping.run(entry.place for entry in walk if entry.kind == "file")
    ending = grepping.ending or (walk.ending if walk else "")
    if grepping.is_broken_off and not grepping.lines:
        raise ToolFailed(ending)
    notes = [*([ending] if ending else []), *grepping.notes(), *(walk.notes() if walk else [])]
    return "\n".join([*(grepping.lines or [_nothing(grepping, asked, path)]), *map(bracketed, notes)])


def _nothing(grepping: Grepping, asked: Asked, path: str) -> str:
    told = f"Nothing found in {shown(path)}: {counted(grepping.searched, 'file')} searched."
    if asked.is_literal:
        return told
    if re.search(r"\\[|(){}+?]", asked.pattern):
        return f"{told} With a backslash before it, | or ( is taken as it stands: write it without."
    if re.search(r"\\[nr]", asked.pattern):
        return f"{told} Each line is compared by itself, without the line break at its end."
    return told
