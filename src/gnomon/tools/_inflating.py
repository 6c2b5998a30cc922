"""Compressed bytes as they were, piece by piece, and never more of them than may be."""

from __future__ import annotations

import zlib

__all__ = ["ENCODINGS", "Inflating"]

ENCODINGS = ("gzip", "x-gzip", "deflate")

_EITHER = 32 + zlib.MAX_WBITS
"""A head of gzip or of zlib; it says itself which."""

_GZIP = b"\x1f\x8b"


class Inflating:
    """A body in `gzip` or `deflate`."""

    def __init__(self) -> None:
        self._inflater = zlib.decompressobj(_EITHER)
        self._has_begun = False

    def feed(self, piece: bytes, most: int) -> bytes:
        """What the piece holds, at most so many bytes of it; a `ValueError` when it is damaged."""
        found = b""
        while piece and len(found) < most:
            found += self._inflated(piece, most - len(found))
            piece = self._inflater.unused_data
            if self._inflater.eof and piece:
                if not piece.startswith(_GZIP):  # some servers fill up with what means nothing
                    break
                self._inflater = zlib.decompressobj(_EITHER)
        return found

    def _inflated(self, piece: bytes, most: int) -> bytes:
        try:
            found = self._inflater.decompress(self._inflater.unconsumed_tail + piece, most)
        except zlib.error as error:
            if self._has_begun:
                raise ValueError(f"its compression is damaged: {error}") from error
            # What servers call deflate has a head, or has none.
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
            self._has_begun = True
            return self._inflated(piece, most)
        self._has_begun = True
        return found
