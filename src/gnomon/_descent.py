"""How a path is followed from a folder that is held open, so that it cannot lead out of it.

Where the kernel has openat2 it does so itself. Elsewhere, and for links that name a place inside by its whole
path, each name is opened by hand relative to the one before; a link is read and its names are followed.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from types import TracebackType
from typing import Literal, Self, TypeAlias

__all__ = ["Descent", "Missing", "Refused", "hand_down", "inside", "openat2"]

Missing: TypeAlias = Literal["fail", "make", "allow"]
"""What becomes of folders on the way that are not there."""

_PATH_ONLY = getattr(os, "O_PATH", 0)
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | (_PATH_ONLY or os.O_RDONLY)
_MOST_LINKS = 40
_DEEPEST = 200
"""How many folders are held open at a time: there is one descriptor for each, and a process has few."""

_OPENAT2 = 437
"""The number is the same on every machine that is named here."""
_MACHINES = frozenset({"x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x", "loongarch64"})
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_ATTEMPTS = 8
_RESTLESS = "a link on its way changed all the time"
_SWAPPED = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)


class Refused(Exception):
    """A path that is not followed; the text says why, of 'it'."""


# --- by the kernel ----------------------------------------------------------


def openat2(folder: int, path: str, flags: int, mode: int, *, links: bool) -> int | None:
    """A descriptor; `None` where the kernel cannot say, so that the way has to be gone by hand."""
    call = _system_call()
    if call is None:
        return None
    resolve = _BENEATH | _NO_MAGIC_LINKS | (0 if links else _NO_LINKS)
    name, how = os.fsencode(path), (flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, resolve)
    while True:
        found, code = call(folder, name, how)
        if found >= 0:
            return found
        if code != errno.EINTR:
            break
    # EXDEV: it leads out, or by a whole path inside. EAGAIN: something was renamed meanwhile. ELOOP: links.
    # EPERM and ENOSYS: a filter or an old kernel.
    by_hand = (errno.EXDEV, errno.EAGAIN, errno.ELOOP, errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
    if code in by_hand:
        return None
    raise OSError(code, os.strerror(code), path)


_Call: TypeAlias = Callable[[int, bytes, tuple[int, int, int]], tuple[int, int]]
"""A folder, a path in it, and how to open it → a descriptor or -1, and the number of the error."""


@cache
def _system_call() -> _Call | None:
    if not sys.platform.startswith("linux") or os.uname().machine not in _MACHINES:
        return None
    import ctypes
    import struct

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    number, size = ctypes.c_long(_OPENAT2), ctypes.c_size_t(24)

    def call(folder: int, path: bytes, how: tuple[int, int, int]) -> tuple[int, int]:
        asked = struct.pack("QQQ", *how)
        found: int = syscall(number, ctypes.c_int(folder), ctypes.c_char_p(path), asked, size)
        return found, ctypes.get_errno() if found < 0 else 0

    return call


# --- by hand ----------------------------------------------------------------


class Descent:
    """A way down from a folder. After `go`, `last` is the name to open in `parent`; it was no link then.

    `names` are the folders on the way, as they are called, without links. A way up is gone by the folders
    that are held, never by '..', which would be somewhere else when a folder has been moved meanwhile.
    """

    def __init__(self, top: int, root: str, *, links: bool = True, missing: Missing = "fail") -> None:
        self._top = top
        self._root = root
        self._links = links
        self._missing = missing
        self._held: list[int] = []
        self._links_seen = 0
        self.names: list[str] = []
        self.last = "."

    @property
    def parent(self) -> int:
        return self._held[-1] if self._held else self._top

    @property
    def canonical(self) -> str:
        return "/".join((*self.names, *(() if self.last == "." else (self.last,)))) or "."

    def go(self, path: str) -> None:
        self.last = "."
        self._links_seen = 0
        to_do = _names(path)
        while to_do:
            name = to_do.pop()
            if name == "..":
                self._up()
            elif to_do:
                self._down(name, to_do)
            elif (target := self._link(name)) is not None:
                self._follow(target, to_do)
            else:
                self.last = name
                return

    def open(self, path: str, flags: int, mode: int) -> int:
        """What the path leads to, never by a link that was put there meanwhile."""
        for attempt in range(_ATTEMPTS):
            self._back_to_top()
            self.go(path)
            try:
                found = os.open(self.last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.parent)
            except OSError as error:
                if error.errno in _SWAPPED and attempt < _ATTEMPTS - 1 and self._link(self.last) is not None:
                    continue
                raise
            if not (flags & _PATH_ONLY and stat.S_ISLNK(os.fstat(found).st_mode)):
                return found
            os.close(found)
        raise Refused(_RESTLESS)

    def _up(self) -> None:
        if not self.names:
            raise Refused("it leads out of its folder")
        if len(self._held) < len(self.names):  # there is nothing here, so nothing can be above it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self.names.pop()
        os.close(self._held.pop())

    def _down(self, name: str, to_do: list[str]) -> None:
        if len(self.names) >= _DEEPEST:
            raise Refused(f"it lies more than {_DEEPEST} folders deep")
        if len(self._held) == len(self.names):
            try:
                folder = self._folder_or_link(name)
            except OSError as error:
                if self._missing != "allow" or error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
            else:
                if isinstance(folder, str):
                    self._follow(folder, to_do)
                    return
                self._held.append(folder)
        self.names.append(name)

    def _folder_or_link(self, name: str) -> int | str:
        """A descriptor, or where the link leads."""
        for _ in range(_ATTEMPTS):
            try:
                return self._folder(name)
            except OSError as error:
                if error.errno not in _SWAPPED:
                    raise
                if (target := self._link(name)) is not None:
                    return target
                if not self._changes(name):
                    raise
        raise Refused(_RESTLESS)

    def _changes(self, name: str) -> bool:
        """Whether it is a folder or a link by now, though it was neither a moment ago."""
        with suppress(FileNotFoundError):
            kind = os.stat(name, dir_fd=self.parent, follow_symlinks=False).st_mode
            return stat.S_ISDIR(kind) or stat.S_ISLNK(kind)
        return False

    def _folder(self, name: str) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=self.parent)
        except FileNotFoundError:
            if self._missing != "make":
                raise
        try:
            os.mkdir(name, dir_fd=self.parent)
        except FileExistsError:  # somebody else made it, or something else
            return os.open(name, _FOLDER, dir_fd=self.parent)
        hand_down(self.parent, name)
        return os.open(name, _FOLDER, dir_fd=self.parent)

    def _link(self, name: str) -> str | None:
        """Where it leads, if it is a link."""
        if len(self._held) < len(self.names):
            return None
        try:
            return os.readlink(name, dir_fd=self.parent)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            raise

    def _follow(self, target: str, to_do: list[str]) -> None:
        self._links_seen += 1
        if not self._links:
            raise Refused("there is a link on its way, where none may be")
        if self._links_seen > _MOST_LINKS:
            raise Refused("its links lead round in circles, or too far")
        if target.startswith("/"):
            target = inside(target, (self._root,))
            self._back_to_top()
        to_do.extend(_names(target))

    def _back_to_top(self) -> None:
        while self._held:
            os.close(self._held.pop())
        self.names.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._back_to_top()


def hand_down(parent: int, name: str) -> None:
    """Give a folder that root has just made to whom the one above it belongs, so that they can use it."""
    if os.geteuid() != 0:
        return
    above = os.fstat(parent)
    if above.st_uid == 0:
        return
    with suppress(OSError):
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            # One that was put in its place is given to nobody: there would be something in it.
            if os.fstat(made).st_uid == 0 and not os.listdir(made):
                os.fchown(made, above.st_uid, above.st_gid)
        finally:
            os.close(made)


def _names(path: str) -> list[str]:
    """Its names, the last one first, without those that lead nowhere."""
    return [name for name in path.split("/")[::-1] if name not in ("", ".")]


def inside(path: str, roots: Sequence[str]) -> str:
    """A whole path as one relative to the folder that has these names."""
    for root in roots:
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return path[len(root) :].lstrip("/") or "."
    raise Refused("it leads out of its folder")
