"""Files of a folder that somebody else wrote: nothing outside it is reached, nothing is without end."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

from gnomon._trust import decoded, one_line
from gnomon.errors import InvalidInput

__all__ = ["DEEPEST", "MOST_FILES", "files_in", "read_inside"]

DEEPEST = 4
MOST_FILES = 100
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_inside(folder: str, path: str, *, limit_bytes: int) -> str:
    """The text of a file below the folder. No link is followed on the way, wherever it leads."""
    parts = _parts(path)
    try:
        with _opened(folder, parts) as handle:
            content = _read_regular(handle, path, limit_bytes)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{_named(path)} cannot be read: {_reason(error)}") from None
    return decoded(one_line(path, most=200), content)


def _named(path: str) -> str:
    return f"the file {one_line(path, most=200)!r}"


def _parts(path: str) -> list[str]:
    parts = path.replace("\\", "/").split("/")
    parts = [part for part in parts if part not in ("", ".")]
    if not parts or path.startswith(("/", "\\")) or ".." in parts:
        hint = "name it as it stands in the folder, such as references/forms.md"
        raise InvalidInput(f"{_named(path)} is not one of the folder", hint=hint)
    return parts


@contextmanager
def _opened(folder: str, parts: list[str]) -> Generator[int]:
    """Step by step, each from the folder before it: what is replaced in between leads nowhere else."""
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        for at, part in enumerate(parts):
            is_last = at == len(parts) - 1
            inner = os.open(part, _FLAGS | (0 if is_last else os.O_DIRECTORY), dir_fd=handle)
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def _read_regular(handle: int, path: str, limit_bytes: int) -> bytes:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise InvalidInput(f"{_named(path)} is a folder, a pipe or a device")
    with open(handle, "rb", closefd=False) as file:
        content = file.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise InvalidInput(f"{_named(path)} is too large: more than {limit_bytes} bytes")
    return content


def _reason(error: OSError | ValueError) -> str:
    import errno

    if isinstance(error, OSError) and error.errno in (errno.ELOOP, errno.EMLINK):
        return "it is a link, or behind one"
    return (error.strerror if isinstance(error, OSError) else None) or "its name is not usable"


def files_in(folder: str, *, but: str) -> list[str]:
    """The paths of the files below the folder, `but` that one; not hidden ones, links, or very many."""
    found: list[str] = []
    left = [""]
    while left and len(found) < MOST_FILES:
        below = left.pop(0)
        for entry in _entries(os.path.join(folder, below)):
            path = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False) and path.count(os.sep) < DEEPEST - 1:
                left.append(path)
            elif entry.is_file(follow_symlinks=False) and path != but:
                found.append(path)
    return sorted(found)[:MOST_FILES]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            shown = [entry for entry in entries if entry.name.isprintable() and entry.name[0] != "."]
    except OSError:
        return []
    return sorted(shown, key=lambda entry: entry.name)[: 10 * MOST_FILES]
