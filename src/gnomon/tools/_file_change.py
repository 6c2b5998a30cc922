"""A file that is read and then written as one step: what somebody else did to it meanwhile is not lost."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Generator
from contextlib import contextmanager

from gnomon._beneath import Stamp, stamp_of
from gnomon.contracts.tool import ToolContext
from gnomon.errors import InvalidArguments, InvalidInput, ToolFailed
from gnomon.tools._file_text import Charset
from gnomon.tools._files import Files, reason, shown

__all__ = ["LARGEST", "FileChange", "changing", "check_text", "encoded"]

LARGEST = 16 << 20
"""In bytes. A file up to this size is taken into memory whole, to be compared and changed."""

_PIECE = 1 << 20
_TURNS = tuple(threading.Lock() for _ in range(64))
"""Calls of this program that change the same file take turns; others are noticed by the stamp."""


class FileChange:
    """A file as it was found, and the way to put another in its place."""

    def __init__(self, files: Files, path: str, place: str, context: ToolContext) -> None:
        self.path = path
        self.place = place
        self._files = files
        self._context = context
        self._stamp: Stamp | None = None
        self.data: bytes | None = None
        """What it held, up to `LARGEST`; `None` where there was none."""
        self._read()

    @property
    def size(self) -> int:
        return self._stamp.size if self._stamp is not None else 0

    @property
    def is_whole(self) -> bool:
        """Whether all of it was read."""
        return self.data is None or len(self.data) == self.size

    def absent(self) -> ToolFailed:
        return self._files.absent(self.path, self.place)

    def put(self, data: bytes) -> None:
        """The whole file, or nothing: also where it has become another since it was read."""
        if self._context.cancelled:
            raise ToolFailed(f"{shown(self.path)} was not written: nobody waits for it any more")
        try:
            self._files.beneath.write(
                self.place,
                data,
                links=False,
                unless_changed=self._stamp,
                is_new=self._stamp is None,
                is_lasting=True,
            )
        except InvalidInput as error:
            raise ToolFailed(f"{error.message}. Nothing was written") from None

    def _read(self) -> None:
        try:
            file = self._files.beneath.open(self.place, os.O_RDONLY, links=False)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise ToolFailed(f"{shown(self.path)} cannot be opened: {reason(error)}") from None
        except InvalidInput as error:
            raise ToolFailed(error.message) from None
        try:
            facts = os.fstat(file)
            if stat.S_ISDIR(facts.st_mode):
                raise ToolFailed(f"{shown(self.path)} is a folder: name a file in it")
            self._stamp = stamp_of(facts)
            self.data = _head(file, min(facts.st_size, LARGEST))
        except OSError as error:
            raise ToolFailed(f"{shown(self.path)} cannot be read: {reason(error)}") from None
        finally:
            os.close(file)


@contextmanager
def changing(files: Files, path: str, context: ToolContext) -> Generator[FileChange]:
    """The file of this path, which no other call of this program changes meanwhile."""
    if path.endswith(("/", "/.")):
        raise InvalidArguments(f"path: {shown(path)} is the name of a folder")
    place = files.to_write(path)
    with _TURNS[hash((files.beneath.path, place)) % len(_TURNS)]:
        yield FileChange(files, path, place, context)


def check_text(name: str, text: str) -> None:
    """Whether an argument is one that can be written at all."""
    if len(text) > LARGEST:
        raise InvalidArguments(f"{name}: it has {len(text):,} characters, and up to {LARGEST:,} are taken")
    if half := Charset("utf-8").lacks(text):
        at = text.index(half)
        line = text.count("\n", 0, at) + 1
        raise InvalidArguments(f"{name}: line {line:,} has half a character in it ({half!r})")


def encoded(charset: Charset, text: str) -> bytes:
    data = charset.bytes_of(text)
    if len(data) > LARGEST:
        raise ToolFailed(f"it would have {len(data):,} bytes, and up to {LARGEST:,} are written")
    return data


def _head(file: int, size: int) -> bytes:
    pieces: list[bytes] = []
    while size > 0 and (piece := os.read(file, min(_PIECE, size))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)
