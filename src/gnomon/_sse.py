"""Bytes → server-sent events, and bytes → lines of JSON.

The readers are fed with whatever has arrived and give back what is complete.
They hold to the standard of event streams: bytes may be split anywhere, lines
end with LF, CRLF or CR, a comment is no event, several `data` lines are one
text, one space after the colon is not part of the value, a byte order mark at
the beginning is passed over, and an event that the end of the bytes has cut off
is no event. What they give is the data of each event: services name the kind of
an event in the data as well.
"""

from __future__ import annotations

import re

__all__ = ["LineReader", "SSEReader"]

_BOM = b"\xef\xbb\xbf"
_NAMED = re.compile(rb"(?:\A|\n\n)event: [^\n]*\ndata: ([^\n]*)")


class _LineEnds:
    """Makes every line end an LF; a CRLF may be split between two pieces."""

    __slots__ = ("_after_cr", "_beginning")

    def __init__(self) -> None:
        self._after_cr = False
        self._beginning: bytes | None = b""

    def plain(self, piece: bytes) -> bytes:
        if self._beginning is not None:
            piece = self._without_mark(piece)
        if self._after_cr and piece:
            self._after_cr = False
            if piece[0] == 10:
                piece = piece[1:]
        if b"\r" in piece:
            self._after_cr = piece[-1] == 13
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return piece

    def _without_mark(self, piece: bytes) -> bytes:
        """The first bytes are held until it is plain whether they are a byte order mark."""
        piece = (self._beginning or b"") + piece
        if len(piece) < len(_BOM) and _BOM.startswith(piece):
            self._beginning = piece
            return b""
        self._beginning = None
        return piece.removeprefix(_BOM)


class SSEReader:
    """Feed it pieces of an event stream; it gives the data of each event that they complete."""

    __slots__ = ("_ends", "_rest")

    def __init__(self) -> None:
        self._ends = _LineEnds()
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        piece = self._ends.plain(piece)
        rest = self._rest
        if rest:
            # A long line comes in many pieces: only the new one is looked through.
            start = max(len(rest) - 1, 0)
            rest += piece
            if rest.find(b"\n\n", start) < 0:
                return []
            piece = bytes(rest)
            rest.clear()
        end = piece.rfind(b"\n\n")
        if end < 0:
            rest += piece
            return []
        if end + 2 < len(piece):
            rest += piece[end + 2 :]
        return _events(piece[:end])


def _events(text: bytes) -> list[bytes]:
    """The data of whole events, of which the last has lost its blank line."""
    if text.startswith(b"data: "):
        found = text[6:].split(b"\n\ndata: ")
        # Every line end lies between two events: each is one `data: ` line, as very many are.
        if text.count(b"\n") == 2 * (len(found) - 1):
            return found if b"" not in found else [data for data in found if data]
    elif text.startswith(b"event: "):
        found = _NAMED.findall(text)
        # And here each is a name and one line of data, with nothing else between them.
        if text.count(b"\n") == 3 * len(found) - 2 and b"" not in found:
            return found
    return [data for block in text.split(b"\n\n") if (data := _data(block))]


def _data(block: bytes) -> bytes:
    """The data of one event; none, where it has no data."""
    head, mark, data = block.partition(b"\ndata: ")
    if mark and b"\n" not in data and b"\n" not in head and head.startswith(b"event:"):
        return data
    values: list[bytes] = []
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        if field == b"data":
            values.append(value.removeprefix(b" "))
    return b"\n".join(values)


class LineReader:
    """Feed it pieces of newline-delimited JSON; it gives each line that they complete."""

    __slots__ = ("_ends", "_rest")

    def __init__(self) -> None:
        self._ends = _LineEnds()
        self._rest = bytearray()

    def feed(self, piece: bytes) -> list[bytes]:
        piece = self._ends.plain(piece)
        rest = self._rest
        if b"\n" not in piece:
            rest += piece
            return []
        if rest:
            piece = bytes(rest) + piece
            rest.clear()
        lines = piece.split(b"\n")
        rest += lines.pop()
        return [line for line in lines if line.strip()]

    def end(self) -> list[bytes]:
        """The last line: in this format it needs no line end."""
        last = bytes(self._rest).strip()
        self._rest.clear()
        return [last] if last else []
