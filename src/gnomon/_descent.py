"""How a path is followed from a folder that is held open, so that it cannot lead out of it.

Where the kernel has openat2 it does so itself. Elsewhere, and for links that name a place inside by its whole
path, each name is opened by hand relative to the one before; a link is read and its names are followed.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self, TypeAlias

__all__ = ["Descent", "Missing", "Refused", "inside", "openat2"]

Missing: TypeAlias = Literal["fail", "make", "allow"]
"""What becomes of folders on the way that are not there."""

_PATH_ONLY = getattr(os, "O_PATH", 0)
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | (_PATH_ONLY or os.O_RDONLY)
_MOST_LINKS = 40

_OPENAT2 = 437
"""The number is the same on every machine that is named here."""
_MACHINES = frozenset({"x86_64", "i686", "aarch64", "armv7l", "riscv64", "ppc64le", "s390x", "loongarch64"})
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
_SWAPPED = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)


class Refused(Exception):
    """A path that is not followed; the text says why, of 'it'."""


# --- by the kernel ----------------------------------------------------------


def openat2(folder: int, path: str, flags: int, mode: int, *, links: bool) -> int | None:
    """A descriptor; `None` where the kernel cannot say, so that the way has to be gone by hand."""
    if not sys.platform.startswith("linux") or os.uname().machine not in _MACHINES:
        return None
    import ctypes
    import struct

    resolve = _BENEATH | _NO_MAGIC_LINKS | (0 if links else _NO_LINKS)
    how = struct.pack("QQQ", flags | os.O_CLOEXEC, mode if flags & os.O_CREAT else 0, resolve)
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    number, size = ctypes.c_long(_OPENAT2), ctypes.c_size_t(len(how))
    while True:
        found: int = call(number, ctypes.c_int(folder), ctypes.c_char_p(os.fsencode(path)), how, size)
        if found >= 0:
            return found
        if (code := ctypes.get_errno()) != errno.EINTR:
            break
    # EXDEV: it leads out, or by a whole path inside. EAGAIN: something was renamed meanwhile. ELOOP: links.
    # EPERM and ENOSYS: a filter or an old kernel.
    by_hand = (errno.EXDEV, errno.EAGAIN, errno.ELOOP, errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG)
    if code in by_hand:
        return None
    raise OSError(code, os.strerror(code), path)


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
        to_do = path.split("/")[::-1]
        while to_do:
            name = to_do.pop()
            if name in ("", "."):
                continue
            if name == "..":
                self._up()
            elif any(left not in ("", ".") for left in to_do):
                self._down(name, to_do)
            elif (target := self._link(name)) is not None:
                self._follow(target, to_do)
            else:
                self.last = name
                return

    def open(self, path: str, flags: int, mode: int) -> int:
        """What the path leads to, never by a link that was put there meanwhile."""
        for attempt in range(8):
            self._back_to_top()
            self.go(path)
            try:
                found = os.open(self.last, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self.parent)
            except OSError as error:
                if error.errno in _SWAPPED and attempt < 7 and self._link(self.last) is not None:
                    continue
                raise
            if not (flags & _PATH_ONLY and stat.S_ISLNK(os.fstat(found).st_mode)):
                return found
            os.close(found)
        raise Refused("a link on its way changed all the time")

    def _up(self) -> None:
        if not self.names:
            raise Refused("it leads out of its folder")
        if len(self._held) < len(self.names):  # there is nothing here, so nothing can be above it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self.names.pop()
        os.close(self._held.pop())

    def _down(self, name: str, to_do: list[str]) -> None:
        if len(self._held) < len(self.names):
            self.names.append(name)
            return
        try:
            self._held.append(self._folder(name))
        except OSError as error:
            if error.errno in _SWAPPED and (target := self._link(name)) is not None:
                self._follow(target, to_do)
                return
            if self._missing != "allow" or error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
        self.names.append(name)

    def _folder(self, name: str) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=self.parent)
        except FileNotFoundError:
            if self._missing != "make":
                raise
        with suppress(FileExistsError):  # somebody else made it, or something else
            os.mkdir(name, dir_fd=self.parent)
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
        to_do.extend(target.split("/")[::-1])

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


def inside(path: str, roots: Sequence[str]) -> str:
    """A whole path as one relative to the folder that has these names."""
    for root in roots:
        if path == root or path.startswith(root.rstrip("/") + "/"):
            return path[len(root) :].lstrip("/") or "."
    raise Refused("it leads out of its folder")
