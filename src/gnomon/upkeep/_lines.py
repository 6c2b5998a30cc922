"""The lines of an archive: how they are written and read, bounded in length, beside the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from hashlib import sha256
from typing import BinaryIO, NamedTuple, TypeVar

import msgspec

from gnomon._threads import run_in_thread
from gnomon.errors import InvalidInput
from gnomon.types.records import AuditLog, Checkpoint, LedgerEvent, MemoryRecord, SessionRecord, Trace
from gnomon.upkeep._reading import Blob

__all__ = ["FORMAT", "VERSION", "Begin", "Entry", "LineWriter", "Seal", "Tenant", "lines_of"]

FORMAT = "gnomon-archive"
VERSION = 1

LONGEST_LINE_BYTES = 150_000_000
"""A blob of the largest size that a store takes, in base64, and room for the rest."""

_WRITE_BYTES, _READ_BYTES = 1_000_000, 250_000
"""A pipe may be slow: what has come is not held for long."""


class _Header(msgspec.Struct, frozen=True):
    format: str
    version: int


class Tenant(msgspec.Struct, frozen=True):
    """What follows is this tenant's."""

    name: str


class Begin(msgspec.Struct, frozen=True):
    """What follows belongs to this session, to none (""), or is the tenant's memory (null)."""

    session_id: str | None


class Seal(msgspec.Struct, frozen=True):
    """The end of what belongs together, and its hash."""

    hash: str


class _End(msgspec.Struct, frozen=True):
    """The last line: how many were before it, and the SHA-256 of their bytes."""

    lines: int
    sha256: str


class _Line(msgspec.Struct, frozen=True):
    kind: str
    record: msgspec.Raw


Entry = (
    Tenant | Begin | Seal | Blob | SessionRecord | Checkpoint | LedgerEvent | AuditLog | Trace | MemoryRecord
)

_KINDS: dict[str, type[msgspec.Struct]] = {
    "tenant": Tenant,
    "begin": Begin,
    "seal": Seal,
    "blob": Blob,
    "session": SessionRecord,
    "checkpoint": Checkpoint,
    "event": LedgerEvent,
    "audit": AuditLog,
    "trace": Trace,
    "memory": MemoryRecord,
    "end": _End,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_UNREADABLE = (msgspec.DecodeError, UnicodeError, RecursionError)

_encode = msgspec.json.Encoder().encode
_S = TypeVar("_S", bound=msgspec.Struct)


# --- writing ----------------------------------------------------------------------


class LineWriter:
    """Writes lines in large pieces; what was not finished has no last line, and is known by that."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = sha256()
        self._lines = 0
        self._held = bytearray()
        self.bytes = 0

    async def begin(self) -> None:
        await self._write(_encode(_Header(FORMAT, VERSION)))

    async def add(self, entry: Entry) -> None:
        await self._write(_encode(_Line(_NAMES[type(entry)], msgspec.Raw(_encode(entry)))))

    async def finish(self) -> None:
        end = _End(self._lines, self._hash.hexdigest())
        await self._write(_encode(_Line("end", msgspec.Raw(_encode(end)))))
        await self._flush()
        await run_in_thread(self._file.flush, name="archive")

    async def _write(self, line: bytes) -> None:
        line += b"\n"
        self._hash.update(line)
        self._lines += 1
        self.bytes += len(line)
        self._held += line
        if len(self._held) >= _WRITE_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        piece, self._held = bytes(self._held), bytearray()
        await run_in_thread(lambda: _write_all(self._file, piece), name="archive")


def _write_all(file: BinaryIO, piece: bytes) -> None:
    """A pipe without a buffer may take a part of it only."""
    left = memoryview(piece)
    while left:
        left = left[file.write(left) or 0 :]


# --- reading ----------------------------------------------------------------------


class Numbered(NamedTuple):
    number: int
    entry: Entry


async def lines_of(file: BinaryIO) -> AsyncGenerator[Numbered, None]:
    """The entries of an archive with their line numbers; `InvalidInput` where it is damaged or cut off."""
    check = sha256()
    number = 0
    end: _End | None = None
    while lines := await run_in_thread(lambda: _some_lines(file), name="archive"):
        for line in lines:
            number += 1
            if end is not None:
                raise InvalidInput(f"line {number}: there is something after the last line")
            entry = _read_first(line) if number == 1 else _read_line(number, line)
            if isinstance(entry, _End):
                end = entry
                _check_end(end, number, check.hexdigest())
            elif not isinstance(entry, _Header):
                yield Numbered(number, entry)
            check.update(line)
    if end is None:
        hint = "it was cut off: export again, or fetch the whole file"
        raise InvalidInput(f"the archive ends after line {number} without its last line", hint=hint)


def _some_lines(file: BinaryIO) -> list[bytes]:
    """The next lines, not too many of them; none at the end."""
    lines: list[bytes] = []
    size = 0
    while size < _READ_BYTES and (line := file.readline(LONGEST_LINE_BYTES + 1)):
        lines.append(line)
        size += len(line)
    return lines


def _read_first(line: bytes) -> _Header:
    try:
        header = msgspec.json.decode(line[:1_000], type=_Header)
    except _UNREADABLE:
        header = None
    if header is None or header.format != FORMAT:
        raise InvalidInput("this is no archive of gnomon", hint="gnomon db export makes one")
    if header.version > VERSION:
        message = f"the archive has version {header.version}, newer than the {VERSION} this gnomon knows"
        raise InvalidInput(message, hint="upgrade gnomon; nothing was imported")
    return header


def _read_line(number: int, line: bytes) -> Entry | _End:
    if len(line) > LONGEST_LINE_BYTES:
        raise InvalidInput(f"line {number} is longer than {LONGEST_LINE_BYTES:,} bytes")
    if not line.endswith(b"\n"):
        raise InvalidInput(f"line {number} is cut off", hint="export again, or fetch the whole file")
    try:
        told = msgspec.json.decode(line, type=_Line)
        if told.kind not in _KINDS:
            raise InvalidInput(f"line {number}: {told.kind[:40]!r} is no kind of record")
        return _decoded(told.record, _KINDS[told.kind])
    except _UNREADABLE as error:
        raise InvalidInput(f"line {number} is damaged: {error}") from error


def _decoded(record: msgspec.Raw, kind: type[_S]) -> Entry | _End:
    return msgspec.json.decode(record, type=kind)  # pyright: ignore[reportReturnType] - one of the table's


def _check_end(end: _End, number: int, found: str) -> None:
    if end.lines != number - 1:
        raise InvalidInput(f"line {number}: {end.lines} lines should be before it")
    if end.sha256 != found:
        raise InvalidInput(f"the archive is damaged somewhere in its {number} lines: its hash is another one")
