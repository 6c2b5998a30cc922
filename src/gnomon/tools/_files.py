"""The files of a workspace, as tools reach them: every path of every file tool goes through here."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from posixpath import normpath
from typing import TYPE_CHECKING

from gnomon._beneath import Beneath
from gnomon._descent import inside
from gnomon.contracts.tool import Touches
from gnomon.errors import ConfigError, InvalidArguments, InvalidInput, ToolDenied, ToolFailed
from gnomon.tools._path_patterns import PathPattern
from gnomon.tools._secret_files import secret_by_name, steers_git

if TYPE_CHECKING:
    from gnomon.tools.workspace import Workspace

__all__ = ["Files", "is_draft", "plainly", "reason", "shown", "to_change"]

_NO_FILES = ("/proc/", "/sys/", "/dev/")
_MOST_COMPARED = 10_000
_ONLY_LOOKING = getattr(os, "O_PATH", os.O_RDONLY)


class Files:
    """What a file tool may touch, by the path that a model gives.

    A path is relative to the folder, or a whole one in it. It is resolved first, links and all, and what it
    leads to is judged by its real name as well as by the one that was given. Then it is opened by that real
    name and by no link, so that what is opened is what was judged, whatever is swapped meanwhile.
    """

    def __init__(self, workspace: Workspace, needed_by: str) -> None:
        self.beneath: Beneath = workspace.files(needed_by)
        self._above = self.beneath.path.split("/")
        self._named = [_pattern(secret) for secret in workspace.secrets]

    # --- what a path leads to -------------------------------------------------

    def place(self, path: str) -> str:
        """The real path, relative to the folder; '.' is the folder itself."""
        try:
            found = self.beneath.canonical(path)
        except InvalidInput as error:
            raise InvalidArguments(f"path: {error.message}") from None
        if os.path.join(self.beneath.path, found).startswith(_NO_FILES):
            raise ToolDenied(
                f"{shown(path)} is not read or written: it is a matter of the system, and no file"
            )
        return found

    def to_read(self, path: str) -> str:
        """The real path of what may be read."""
        found = self.place(path)
        if self.is_secret(found) or self.is_secret(self._as_given(path)):
            raise ToolDenied(f"{shown(path)} is not read: by its name it holds secrets. {_ASK}")
        return found

    def to_write(self, path: str) -> str:
        """The real path of what may be written, whether it is there or not."""
        found = self.place(path)
        for name in (found, self._as_given(path)):
            if self.is_secret(name):
                raise ToolDenied(f"{shown(path)} is not written: by its name it holds secrets. {_ASK}")
            if steers_git(name) and not self._is_named(name):
                raise ToolDenied(f"{shown(path)} is not written: it steers a version control. {_ASK}")
        return found

    def is_secret(self, place: str) -> bool:
        """Whether what has this real path is kept from models."""
        return secret_by_name(place, self._above) and not self._is_named(place)

    def is_of_system(self, place: str) -> bool:
        """Whether it is, or lies in, what is shown as a file and is none: where all of a machine is open."""
        return f"{os.path.join(self.beneath.path, place)}/".startswith(_NO_FILES)

    def is_file(self, place: str) -> bool:
        """Whether there is a file by this real path, and no folder."""
        try:
            found = self.beneath.open(place, _ONLY_LOOKING, links=False)
        except (OSError, InvalidInput):
            return False
        try:
            return stat.S_ISREG(os.fstat(found).st_mode)
        finally:
            os.close(found)

    def _is_named(self, place: str) -> bool:
        return any(pattern.fits(place) for pattern in self._named)

    def _as_given(self, path: str) -> str:
        return normpath(inside(path, self.beneath.names) if path.startswith("/") else path)

    # --- opening it -----------------------------------------------------------

    @contextmanager
    def opened(self, path: str) -> Generator[int]:
        """A descriptor of the file, to be read."""
        place = self.to_read(path)
        file = self._open(path, place, os.O_RDONLY)
        try:
            if stat.S_ISDIR(os.fstat(file).st_mode):
                raise ToolFailed(f"{shown(path)} is a folder: list_dir shows what is in it")
            yield file
        finally:
            os.close(file)

    @contextmanager
    def entered(self, path: str) -> Generator[int]:
        """A descriptor of the folder, to be listed."""
        folder = self._open(path, self.place(path), os.O_RDONLY)
        try:
            if not stat.S_ISDIR(os.fstat(folder).st_mode):
                raise ToolFailed(f"{shown(path)} is a file: read_file shows what is in it")
            yield folder
        finally:
            os.close(folder)

    def _open(self, path: str, place: str, flags: int) -> int:
        try:
            return self.beneath.open(place, flags, links=False)
        except (FileNotFoundError, NotADirectoryError):
            raise self.absent(path, place) from None
        except OSError as error:
            raise ToolFailed(f"{shown(path)} cannot be opened: {reason(error)}") from None
        except InvalidInput as error:
            raise ToolFailed(error.message) from None

    def absent(self, path: str, place: str) -> ToolFailed:
        """What is told of a file that is not there."""
        return ToolFailed(f"there is no {shown(path)}{self._near(place)}")

    def _near(self, place: str) -> str:
        """What else is there that may have been meant, in the last folder on the way that is there."""
        names = place.split("/")
        for depth in range(len(names) - 1, -1, -1):
            there = self._names_in("/".join(names[:depth]) or ".")
            if there is not None:
                near = get_close_matches(names[depth], there, 3)
                found = ", ".join(shown("/".join((*names[:depth], name))) for name in near)
                return f". There is {found}" if found else ""
        return ""

    def _names_in(self, folder: str) -> list[str] | None:
        try:
            with self.entered(folder) as opened, os.scandir(opened) as entries:
                return [entry.name for entry in islice(entries, _MOST_COMPARED)]
        except (OSError, ToolFailed):
            return None

    # --- what a call touches --------------------------------------------------

    def reads(self, arguments: Mapping[str, object]) -> Touches:
        return Touches(reads=(self.place(str(arguments.get("path", "."))),))

    def changes(self, arguments: Mapping[str, object]) -> Touches:
        """Of a file that is shown as well: a difference has some of what was there."""
        place = self.place(str(arguments["path"]))
        return Touches(reads=(place,), writes=(place,))


_ASK = "Whoever runs this agent may allow it by name."


def to_change(workspace: Workspace, tool: str) -> Files:
    """The files, for a tool that changes some."""
    if workspace.read_only:
        raise ConfigError(
            f"tool {tool!r} changes files, and the workspace is read-only",
            hint="leave the tool out, or make the workspace without read_only",
        )
    return Files(workspace, tool)


def shown(path: str) -> str:
    """A path as it is said: in a line, and without what moves a cursor."""
    return repr(path if len(path) <= 200 else f"{path[:150]}…{path[-40:]}")


def plainly(name: str) -> str:
    """A name in a list: it cannot look like two lines, or like what it is not."""
    if name.isprintable():
        return name
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name)


def is_draft(name: str) -> bool:
    """Whether it is what a file is written to before it takes its place; a kill may leave one behind."""
    return name.startswith(".gnomon-") and name.endswith(".tmp")


def reason(error: OSError) -> str:
    return (error.strerror or "it failed").lower()


def _pattern(secret: str) -> PathPattern:
    try:
        return PathPattern(secret)
    except ValueError as error:
        raise ConfigError(f"secrets of the workspace: {secret!r} cannot be used: {error}") from None
