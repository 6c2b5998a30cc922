"""The folders of a sandbox on the host: its workspace, settings it shows, what is private to a command."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from gnomon.errors import ConfigError, InvalidInput, SandboxError
from gnomon.sandboxes import _view
from gnomon.sandboxes._bubblewrap import HOME, USER, Room
from gnomon.sandboxes._owners import in_a_name, is_left
from gnomon.sandboxes._removing import remove

__all__ = ["Rooms", "checked_workspace", "own_folder", "remove_own"]

_PREFIX = "gnomon-sandbox-"
_OTHER_PLACE = "/var/tmp"  # noqa: S108 - a folder of its own in it


class Rooms:
    """Made when the sandbox is made; removed when it is closed, or by the next one if this was killed."""

    def __init__(
        self, workspace: str | os.PathLike[str] | None, read: Sequence[str], write: Sequence[str]
    ) -> None:
        given = None if workspace is None else checked_workspace(workspace)
        readable, writable = _paths(read, "read"), _paths(write, "write")
        self._own = own_folder(apart_from=[*([given] if given else []), *writable], is_shown=given is None)
        self._gone = weakref.finalize(self, remove_own, str(self._own), os.getpid())
        with _room():
            self.workspace = given or self._make("workspace")
            etc = self._make("etc")
            folders = _view.make_etc(Path(etc), user=USER, group=USER, home=HOME)
        self.uid, self.gid = _owner(self.workspace)
        links, system = _view.system_links()
        python = _view.interpreters()
        if self.uid >= 0:
            python = list(_view.reachable(python, self.uid, [self.gid]))
            os.chown(self._own, self.uid, self.gid)
        writable = _outermost([self.workspace, *writable])
        shown = [path for path in (*system, *python, *readable) if not _lies_in_any(path, writable)]
        self.room = Room(links, shown, etc, folders, writable)

    @property
    def readable(self) -> list[str]:
        """What may be read where there is no root of its own, only rules about the host's."""
        loader = [
            "/etc/ld.so.cache",
            "/etc/ld.so.conf",
            "/etc/ld.so.conf.d",
            "/etc/nsswitch.conf",
            "/etc/localtime",
        ]
        facts = ["/proc/cpuinfo", "/proc/meminfo", "/proc/filesystems", "/proc/version", "/proc/stat"]
        tops = [path for _, path in self.room.links]
        return [
            *self.room.folders,
            *tops,
            *self.room.etc_folders,
            *loader,
            "/etc/mime.types",
            "/etc/os-release",
            *facts,
        ]

    def private(self) -> str:
        """An empty folder for one command."""
        made = tempfile.mkdtemp(prefix="tmp-", dir=self._own)
        if self.uid >= 0:
            os.chown(made, self.uid, self.gid)
        return made

    def is_forgotten(self, private: str) -> bool:
        """It goes at once where nothing is left in it."""
        with suppress(OSError):
            os.rmdir(private)
        return not os.path.isdir(private)

    def remove(self) -> None:
        self._gone()

    def _make(self, name: str) -> str:
        made = self._own / name
        made.mkdir()
        return str(made)


def remove_own(folder: str, owner: int) -> None:
    if os.getpid() == owner:  # a fork has a copy of the sandbox, and not its folders
        remove(folder)


def own_folder(*, apart_from: Sequence[str] = (), is_shown: bool = True) -> Path:
    """A new one of this process; what is left of others goes.

    It lies in none of these folders: who may write there could put something else in its place. One that no
    command is shown may lie elsewhere for that.
    """
    with _room():
        usual = os.path.realpath(tempfile.gettempdir())
    places = (usual,) if is_shown else (usual, _OTHER_PLACE)
    place = next((each for each in places if not _lies_in_any(each, apart_from)), None)
    if place is None:
        raise ConfigError(
            f"a command may write to {usual}, where its sandbox keeps what it must not change",
            hint="name a smaller folder, or set TMPDIR to another place",
        )
    _sweep(place)
    with _room():
        return Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{in_a_name()}-", dir=place))


@contextmanager
def _room() -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise SandboxError(f"there is no room for a sandbox: {error.strerror}", hint="see TMPDIR") from None


def checked_workspace(given: str | os.PathLike[str]) -> str:
    path = _real(given, "the workspace")
    if not os.path.isdir(path):
        raise InvalidInput(f"the workspace {os.fspath(given)!r} is no folder", hint="make it first")
    if path == "/":
        raise ConfigError(
            "the workspace of a sandbox cannot be the whole machine", hint="name a folder in it"
        )
    return path


def _outermost(paths: Sequence[str]) -> list[str]:
    """Each once, and none that lies in another."""
    each = list(dict.fromkeys(paths))
    return [path for path in each if not _lies_in_any(path, [other for other in each if other != path])]


def _lies_in_any(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _real(path: object, what: str) -> str:
    if isinstance(path, os.PathLike):
        path = os.fspath(cast("os.PathLike[str]", path))
    if not isinstance(path, str) or not path or "\0" in path:
        raise InvalidInput(f"{what} is the path of a folder as a text, not {path!r}")
    return os.path.realpath(path)


def _paths(given: object, what: str) -> list[str]:
    """One text is a sequence of texts too, of one letter each."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence):
        raise InvalidInput(f"{what} is a list of paths, not {given!r}")
    return [_there(path) for path in cast("Sequence[str]", given)]


def _there(path: str) -> str:
    found = _real(path, "what a sandbox shows")
    if not os.path.exists(found):
        raise InvalidInput(f"{path!r} cannot be shown in a sandbox: it is not there")
    return found


def _owner(workspace: str) -> tuple[int, int]:
    """As whom a command runs where this is root: as whoever has the workspace. -1 is as this process."""
    if os.geteuid() != 0:
        return -1, -1
    found = os.stat(workspace)
    return (found.st_uid, found.st_gid) if found.st_uid != 0 else (-1, -1)


def _sweep(folder: str) -> None:
    """What is left of programs that were killed."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_ours = entry.name.startswith(_PREFIX) and is_left(entry.name.removeprefix(_PREFIX))
            if is_ours and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                remove(entry.path)
