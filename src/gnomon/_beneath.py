"""A folder that is held open, and files that are reached through it alone."""

from __future__ import annotations

import os
import stat
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from gnomon._descent import Descent, Missing, Refused, inside, openat2
from gnomon.errors import InvalidInput

__all__ = ["Beneath"]

_PATH_ONLY = getattr(os, "O_PATH", 0)
_WAITS_FOR_NOBODY = os.O_NONBLOCK | os.O_NOCTTY
_PIECE = 1 << 20


class Beneath:
    """A folder, held open: nothing that is reached through it lies outside, whatever is renamed or linked
    meanwhile.

    A path is relative to the folder, or a whole one that lies in it. One that leads out is refused with
    `InvalidInput`, as is anything that is no regular file: a pipe or a device is never opened, since that may
    wait for ever or have effects. A hard link cannot be told from the file that it is one of.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        given = os.fspath(folder)
        with _explaining(given):
            self.path: str = os.path.realpath(_checked(given))
            flags = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | (_PATH_ONLY or os.O_RDONLY)
            self._fd = os.open(self.path, flags)
        self._names = (self.path, os.path.abspath(given))
        self._finalizer = weakref.finalize(self, os.close, self._fd)

    def open(self, path: str, flags: int, mode: int = 0o644, *, links: bool = True) -> int:
        """A descriptor of a regular file or a folder. What is not there raises `FileNotFoundError`.

        `links=False` refuses every link on the way, also one that stays inside.
        """
        with _refusing(path):
            name = self._relative(path)
            if flags & _PATH_ONLY:
                return self._opened(name, flags, mode, links)
            if _PATH_ONLY:  # what it is, before opening it can have an effect
                with suppress(FileNotFoundError):
                    os.close(_plain(self._opened(name, _PATH_ONLY, 0, links)))
            return _plain(self._opened(name, flags | _WAITS_FOR_NOBODY, mode, links))

    def canonical(self, path: str) -> str:
        """The path relative to the folder, with links resolved as far as there is anything."""
        with _explaining(path), self._descent(missing="allow") as way:
            way.go(self._relative(path))
            return way.canonical

    def read(self, path: str, *, limit_bytes: int, links: bool = True) -> bytes | None:
        """What the file holds; `None` where there is none."""
        with _explaining(path):
            try:
                found = self.open(path, os.O_RDONLY, links=links)
            except (FileNotFoundError, NotADirectoryError):
                return None
            with os.fdopen(found, "rb", closefd=True, buffering=0) as file:
                return _all_of(file.fileno(), path, limit_bytes)

    def write(self, path: str, data: bytes, *, mode: int | None = None, links: bool = True) -> None:
        """Put the file there whole, or leave what was there as it was. Folders are made; the mode is kept."""
        with _explaining(path), self._descent(links=links, missing="make") as way:
            way.go(self._relative(path))
            if way.last == ".":
                raise Refused("it is a folder")
            _replace(way.parent, way.last, data, mode)

    def files(self, *, limit: int) -> list[str]:
        """The paths of regular files, sorted; links are not followed."""
        found: list[str] = []
        to_do = ["./"]
        while to_do and len(found) < limit:
            path = to_do.pop()
            if path.endswith("/"):
                to_do.extend(reversed(self._entries(path)))
            else:
                found.append(path)
        return found

    def close(self) -> None:
        self._finalizer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Beneath({self.path!r})"

    # --- how ----------------------------------------------------------------

    def _relative(self, path: str) -> str:
        _checked(path)
        return inside(path, self._names) if path.startswith("/") else path

    @property
    def _top(self) -> int:
        if not self._finalizer.alive:  # its number may be another file's by now
            raise Refused("the folder that it lies in has been closed")
        return self._fd

    def _descent(self, *, links: bool = True, missing: Missing = "fail") -> Descent:
        return Descent(self._top, self.path, links=links, missing=missing)

    def _opened(self, name: str, flags: int, mode: int, links: bool) -> int:
        found = openat2(self._top, name, flags, mode, links=links)
        if found is not None:
            return found
        with self._descent(links=links) as way:
            return way.open(name, flags, mode)

    def _entries(self, folder: str) -> list[str]:
        """What is in a folder, sorted as whole paths are; folders end with '/'."""
        try:
            found = self.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except (OSError, InvalidInput):  # gone, locked, or too deep for any path to reach
            return []
        try:
            with os.scandir(found) as entries:
                return sorted(filter(None, (_listed(folder, entry) for entry in entries)))
        finally:
            os.close(found)


def _listed(folder: str, entry: os.DirEntry[str]) -> str:
    path = entry.name if folder == "./" else folder + entry.name
    with suppress(OSError):
        if entry.is_dir(follow_symlinks=False):
            return path + "/"
        if entry.is_file(follow_symlinks=False):
            return path
    return ""


def _plain(found: int) -> int:
    """The same, if it is a regular file or a folder."""
    kind = os.fstat(found).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
        return found
    os.close(found)
    raise Refused("it is not a regular file")


def _all_of(file: int, path: str, limit_bytes: int) -> bytes:
    facts = os.fstat(file)
    if not stat.S_ISREG(facts.st_mode):
        raise Refused("it is a folder")
    size, pieces = 0, list[bytes]()
    too_large = facts.st_size > limit_bytes
    while not too_large and (piece := os.read(file, min(_PIECE, limit_bytes + 1 - size))):
        pieces.append(piece)
        size += len(piece)
        too_large = size > limit_bytes  # it may grow while it is read
    if too_large:
        raise Refused(f"it is larger than {limit_bytes:,} bytes")
    return b"".join(pieces)


# --- writing ----------------------------------------------------------------


def _replace(folder: int, name: str, data: bytes, mode: int | None) -> None:
    before = _facts(folder, name)
    if before is not None and not os.access(name, os.W_OK, dir_fd=folder):
        raise Refused("it is write-protected")
    if mode is None and before is not None:
        mode = stat.S_IMODE(before.st_mode) & 0o777
    draft = f".gnomon-{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        file = os.open(draft, flags, 0o666 if mode is None else 0o600, dir_fd=folder)
        try:
            _write(file, data)
            _keep(file, before, mode)
        finally:
            os.close(file)
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft, dir_fd=folder)
        raise


def _facts(folder: int, name: str) -> os.stat_result | None:
    try:
        facts = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(facts.st_mode):
        raise Refused("it is a folder")
    if not stat.S_ISREG(facts.st_mode):
        raise Refused("it is not a regular file")
    return facts


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


def _keep(file: int, before: os.stat_result | None, mode: int | None) -> None:
    """The owner, as far as that is allowed, and the mode of the file that was there."""
    if before is not None and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        with suppress(OSError):
            os.fchown(file, before.st_uid, before.st_gid)
    if mode is not None:
        os.fchmod(file, mode)


# --- what to say ------------------------------------------------------------


def _checked(path: str) -> str:
    if not path or "\0" in path:
        raise Refused("it is empty" if not path else "it has a NUL in it")
    return path


@contextmanager
def _refusing(path: str) -> Generator[None]:
    """What is refused says of which path; what the system says goes through."""
    try:
        yield
    except Refused as error:
        raise InvalidInput(f"{_shown(path)} cannot be used: {error}") from None
    except UnicodeEncodeError:
        raise InvalidInput(f"{_shown(path)} cannot be used: it is no name that a file can have") from None


@contextmanager
def _explaining(path: str) -> Generator[None]:
    """The same, and what the system says is put into words."""
    with _refusing(path):
        try:
            yield
        except OSError as error:
            raise Refused((error.strerror or "it failed").lower()) from None


def _shown(path: str) -> str:
    return repr(path if len(path) <= 200 else f"{path[:150]}…{path[-40:]}")
