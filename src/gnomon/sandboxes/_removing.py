"""Removing a folder that a command could do with as it liked."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress

__all__ = ["remove"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: str) -> None:
    """All of it: what is locked, and what lies deeper than a path, a stack or a list of open folders can be.

    A folder below is emptied by moving those in it up to the top, so that no way is ever longer than one
    name. What cannot be removed stays; nothing is raised.
    """
    with suppress(OSError):
        with _opened(folder) as top:
            moved = _Moved(top)
            waiting = moved.out_of(top)
            while waiting:
                name = waiting.pop()
                with suppress(OSError):
                    with _opened(name, top) as below:
                        waiting += moved.out_of(below)
                    os.rmdir(name, dir_fd=top)
        os.rmdir(folder)


class _Moved:
    """The folders that were moved to the top: under names that nobody has there."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._prefix = os.urandom(8).hex()
        self._number = 0

    def out_of(self, place: int) -> list[str]:
        """Removes what is no folder; gives the names that the others have at the top."""
        moved: list[str] = []
        for name, is_folder in _entries(place):
            with suppress(OSError):
                if is_folder:
                    moved.append(self._up(place, name))
                else:
                    os.unlink(name, dir_fd=place)
        return moved

    def _up(self, place: int, name: str) -> str:
        _unlock(name, place)  # its way up is written into it
        self._number += 1
        new = f"{self._prefix}-{self._number}"
        os.rename(name, new, src_dir_fd=place, dst_dir_fd=self._top)
        return new


@contextmanager
def _opened(name: str, place: int | None = None) -> Generator[int]:
    _unlock(name, place)
    opened = os.open(name, _FOLDER, dir_fd=place)
    try:
        yield opened
    finally:
        os.close(opened)


def _unlock(name: str, place: int | None) -> None:
    """A command may have taken away our leave to look into it, and may have put a link in its place."""
    with suppress(OSError):
        if os.chmod not in os.supports_follow_symlinks:  # Linux, which has this way instead
            held = os.open(name, _FOLDER | os.O_PATH, dir_fd=place)
            try:
                os.chmod(f"/proc/self/fd/{held}", stat.S_IRWXU)
            finally:
                os.close(held)
        else:
            os.chmod(name, stat.S_IRWXU, dir_fd=place, follow_symlinks=False)


def _entries(place: int) -> list[tuple[str, bool]]:
    with os.scandir(place) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
