"""A folder that is held open, and files that are reached through it alone."""

from __future__ import annotations

import os
import stat
import sys
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Literal, NamedTuple, Self

from gnomon._descent import Descent, Missing, Refused, inside, openat2
from gnomon.errors import InvalidInput

__all__ = ["Beneath", "Stamp", "stamp_of"]

_PATH_ONLY = getattr(os, "O_PATH", 0)
_WAITS_FOR_NOBODY = os.O_NONBLOCK | os.O_NOCTTY
_PIECE = 1 << 20


_LONGEST = 4095
"""In bytes. What is longer no system call takes, and by hand it would take long."""


class Stamp(NamedTuple):
    """What is another when a file has been changed or replaced."""

    device: int
    number: int
    size: int
    modified_ns: int
    changed_ns: int


def stamp_of(facts: os.stat_result) -> Stamp:
    return Stamp(facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


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
        self.names = (self.path, os.path.abspath(given))
        """What whole paths in it may begin with."""
        self._lock = threading.Lock()
        self._users = 0
        self._is_closed = False
        self._finalizer = weakref.finalize(self, os.close, self._fd)

    def open(self, path: str, flags: int, mode: int = 0o644, *, links: bool = True) -> int:
        """A descriptor of a regular file or a folder. What is not there raises `FileNotFoundError`.

        `links=False` refuses every link on the way, also one that stays inside.
        """
        with _refusing(path), self._held() as top:
            name = self._relative(path)
            if flags & _PATH_ONLY:
                return self._opened(top, name, flags, mode, links)
            if _PATH_ONLY:  # what it is, before opening it can have an effect
                with suppress(FileNotFoundError):
                    os.close(_plain(self._opened(top, name, _PATH_ONLY, 0, links)))
            return _plain(self._opened(top, name, flags | _WAITS_FOR_NOBODY, mode, links))

    def canonical(self, path: str) -> str:
        """The path relative to the folder, with links resolved as far as there is anything."""
        with _explaining(path), self._descent(missing="allow") as way:
            way.go(self._relative(path))
            return way.canonical

    def stamp(self, path: str) -> Stamp | None:
        """What changes when the file does; `None` where there is none."""
        with _explaining(path):
            try:
                found = self.open(path, _PATH_ONLY or os.O_RDONLY)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                return stamp_of(os.fstat(found))
            finally:
                os.close(found)

    def read(self, path: str, *, limit_bytes: int, links: bool = True) -> bytes | None:
        """What the file holds; `None` where there is none."""
        with _explaining(path):
            try:
                found = self.open(path, os.O_RDONLY, links=links)
            except (FileNotFoundError, NotADirectoryError):
                return None
            try:
                return _all_of(found, limit_bytes)
            finally:
                os.close(found)

    def write(
        self,
        path: str,
        data: bytes,
        *,
        mode: int | None = None,
        links: bool = True,
        unless_changed: Stamp | None = None,
        is_new: bool = False,
        is_lasting: bool = False,
    ) -> None:
        """Put the file there whole, or leave what was there as it was. Folders are made; the mode is kept.

        With `unless_changed` a file that is another than the one of that stamp is left as it is, and with
        `is_new` any file. With `is_lasting` the new one is on the disk when this returns, also if the machine
        stops then.
        """
        with _explaining(path), self._descent(links=links, missing="make") as way:
            way.go(self._relative(path))
            if way.last == "." or path.endswith(("/", "/.")):
                raise Refused("it is a folder")
            expected = "none" if is_new else unless_changed
            _Draft(way.parent, way.last, mode, expected).put(data, is_lasting=is_lasting)

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
        """Let go of the folder, as soon as nobody is in it any more. May be called twice."""
        with self._lock:
            self._is_closed = True
            if not self._users:
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
        return inside(path, self.names) if path.startswith("/") else path

    @contextmanager
    def _held(self) -> Generator[int]:
        """The folder, which stays open meanwhile: the number of a closed one may soon be another's."""
        with self._lock:
            if self._is_closed:
                raise Refused("the folder that it lies in has been closed")
            self._users += 1
        try:
            yield self._fd
        finally:
            with self._lock:
                self._users -= 1
                if self._is_closed and not self._users:
                    self._finalizer()

    @contextmanager
    def _descent(self, *, links: bool = True, missing: Missing = "fail") -> Generator[Descent]:
        with self._held() as top, Descent(top, self.path, links=links, missing=missing) as way:
            yield way

    def _opened(self, top: int, name: str, flags: int, mode: int, links: bool) -> int:
        found = openat2(top, name, flags, mode, links=links)
        if found is not None:
            return found
        with Descent(top, self.path, links=links) as way:
            return way.open(name, flags, mode)

    def _entries(self, folder: str) -> list[str]:
        """What is in a folder, sorted as whole paths are; folders end with '/'."""
        try:
            found = self.open(folder, os.O_RDONLY | os.O_DIRECTORY, links=False)
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


def _all_of(file: int, limit_bytes: int) -> bytes:
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


class _Draft:
    """What takes the place of a file when it is whole, in a folder that is held open."""

    def __init__(
        self, folder: int, name: str, mode: int | None, expected: Stamp | Literal["none"] | None
    ) -> None:
        self._folder = folder
        self._name = name
        self._expected = expected
        self._before = self._there()
        if self._before is not None and not os.access(name, os.W_OK, dir_fd=folder):
            raise Refused("it is write-protected")
        self._others: bytes | None = None
        if mode is None and self._before is not None:
            self._others = _list_of(folder, name)
            mode = stat.S_IMODE(self._before.st_mode) & 0o777
        self._mode = mode

    def put(self, data: bytes, *, is_lasting: bool) -> None:
        draft = f".gnomon-{os.urandom(8).hex()}.tmp"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(draft, flags, 0o666 if self._mode is None else 0o600, dir_fd=self._folder)
            try:
                _write(file, data)
                self._keep(file)
                if is_lasting:
                    os.fsync(file)
            finally:
                os.close(file)
            self._there()
            os.replace(draft, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(draft, dir_fd=self._folder)
            raise
        if is_lasting:
            self._settle()

    def _there(self) -> os.stat_result | None:
        """The file that is there, if it is one that may be replaced."""
        try:
            facts = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            if isinstance(self._expected, Stamp):
                raise Refused("it was removed meanwhile") from None
            return None
        if self._expected == "none":
            raise Refused("it was made meanwhile")
        if stat.S_ISDIR(facts.st_mode):
            raise Refused("it is a folder")
        if not stat.S_ISREG(facts.st_mode):
            raise Refused("it is not a regular file")
        if self._expected is not None and stamp_of(facts) != self._expected:
            raise Refused("it was changed meanwhile")
        return facts

    def _keep(self, file: int) -> None:
        """The owner and the group, as far as that is allowed, and what they and others may do.

        What root makes belongs to whom the folder does, so that they can use it. What a group might do
        counts for no other group than that.
        """
        owner, mode, others = self._before, self._mode, self._others
        if owner is None and os.geteuid() == 0:
            owner = os.fstat(self._folder)
        if owner is not None and not _is_of(file, owner):
            with suppress(OSError):
                os.fchown(file, -1, owner.st_gid)
            with suppress(OSError):
                os.fchown(file, owner.st_uid, -1)
            if mode is not None and os.fstat(file).st_gid != owner.st_gid:
                mode, others = _for_any_group(mode), None
        if mode is not None:
            if self._before is not None:
                _put_list(file, None)  # a folder may have one for whatever is made in it
            os.fchmod(file, mode)
            if others is not None and not _put_list(file, others):
                os.fchmod(file, _for_any_group(mode))

    def _settle(self) -> None:
        """The new name too, where folders can be told so."""
        with suppress(OSError):
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _is_of(file: int, owner: os.stat_result) -> bool:
    facts = os.fstat(file)
    return (facts.st_uid, facts.st_gid) == (owner.st_uid, owner.st_gid)


def _for_any_group(mode: int) -> int:
    return mode & (0o707 | (mode & 0o007) << 3)


_LIST = "system.posix_acl_access"
"""What single users and groups may do. Where there is such a list, the mode has its bounds in place of what
the file's own group may do, so that one without the other would allow more than before."""


def _list_of(folder: int, name: str) -> bytes | None:
    if sys.platform != "linux":
        return None
    try:
        return os.getxattr(f"/proc/self/fd/{folder}/{name}", _LIST, follow_symlinks=False)
    except OSError:  # there is none, or there are no such lists here
        return None


def _put_list(file: int, others: bytes | None) -> bool:
    if sys.platform == "linux":
        with suppress(OSError):
            if others is None:
                os.removexattr(file, _LIST)
            else:
                os.setxattr(file, _LIST, others)
            return True
    return False


def _write(file: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(file, left) :]


# --- what to say ------------------------------------------------------------


def _checked(path: str) -> str:
    if not path or "\0" in path:
        raise Refused("it is empty" if not path else "it has a NUL in it")
    if len(os.fsencode(path)) > _LONGEST:
        raise Refused("it is too long")
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
