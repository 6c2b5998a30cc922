"""Vectors as services write them, and as they are kept."""

from __future__ import annotations

import sys
from array import array
from binascii import Error, a2b_base64
from collections.abc import Iterable, Sequence

from gnomon.types.documents import Vector

__all__ = ["from_base64", "from_bytes", "rounded", "to_bytes"]

_BIG = sys.byteorder == "big"


def rounded(numbers: Iterable[float]) -> Vector:
    """As the model has computed them, in 32 bits: digits and base64 then give the same vector."""
    return tuple(array("f", numbers))


def from_base64(text: str) -> Vector:
    """Numbers of 32 bits, the low byte first."""
    try:
        return tuple(_numbers("f", a2b_base64(text, strict_mode=True)))
    except Error as error:
        raise ValueError(f"it is no base64: {error}") from None


def to_bytes(vector: Sequence[float]) -> bytes:
    """In 32 bits a number where that loses nothing, else in 64; the first byte says which."""
    for kind in ("f", "d"):
        numbers = array(kind, vector)
        if kind == "d" or tuple(numbers) == tuple(vector):
            if _BIG:
                numbers.byteswap()
            return kind.encode() + numbers.tobytes()
    raise AssertionError("64 bits lose nothing")


def from_bytes(data: bytes) -> Vector:
    """What `to_bytes` made; `ValueError` for anything else."""
    kind = data[:1].decode("latin-1")
    if kind not in ("f", "d"):
        raise ValueError("the bytes of a vector begin with the size of its numbers")
    return tuple(_numbers(kind, data[1:]))


def _numbers(kind: str, data: bytes) -> array[float]:
    numbers: array[float] = array(kind)
    numbers.frombytes(data)  # ValueError when the last number is cut
    if _BIG:
        numbers.byteswap()
    return numbers
