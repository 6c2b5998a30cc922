"""`list_dir`: what is in a folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from gnomon.contracts.tool import Tool
from gnomon.errors import ToolFailed
from gnomon.tools._files import Files, is_draft, plainly, reason, shown
from gnomon.tools._places import placed
from gnomon.tools.function import TouchingTool

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["list_dir"]

_MOST_SHOWN = 500
_MOST_READ = 50_000
"""What comes after so many is not sorted in, and not counted either."""


@placed("list_dir")
def list_dir(workspace: Workspace) -> Tool:
    """List what is in a folder of the workspace."""
    files = Files(workspace, "list_dir")

    def listed(path: str = ".") -> str:
        """List a folder: its folders with a slash, its files with their sizes, and where links lead.

        path: the folder, relative to the workspace
        """
        with files.entered(path) as folder:
            try:
                found, there_is_more = _read(folder)
                lines = list(_lines(folder, found))
            except OSError as error:
                raise ToolFailed(f"{shown(path)} cannot be listed: {reason(error)}") from None
        if not lines:
            return f"{shown(path)} is empty."
        left = len(found) - len(lines)
        if left or there_is_more:
            what = "many more" if there_is_more else f"{left:,} more"
            lines.append(f"[and {what}: glob finds those of some name]")
        return "\n".join(lines)

    return TouchingTool(listed, touches=files.reads, name="list_dir", read_only=True)


def _read(folder: int) -> tuple[list[os.DirEntry[str]], bool]:
    """The entries by name, and whether there are more."""
    with os.scandir(folder) as entries:
        found = [entry for entry in islice(entries, _MOST_READ) if not is_draft(entry.name)]
        there_is_more = next(entries, None) is not None
    return sorted(found, key=lambda entry: entry.name), there_is_more


def _lines(folder: int, entries: list[os.DirEntry[str]]) -> Iterator[str]:
    for entry in entries[:_MOST_SHOWN]:
        yield plainly(entry.name) + _told(folder, entry.name)


def _told(folder: int, name: str) -> str:
    """What it is. What is gone meanwhile, or may not be asked, is only named."""
    with suppress(OSError):
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(facts.st_mode):
            return "/"
        if stat.S_ISLNK(facts.st_mode):
            return f" -> {plainly(os.readlink(name, dir_fd=folder))}"
        if not stat.S_ISREG(facts.st_mode):
            return "  (no regular file)"
        return f"  {facts.st_size:,} bytes"
    return ""
