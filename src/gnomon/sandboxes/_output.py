"""What a command writes, as much of it as is kept: the beginning and the end, when it is too much."""

from __future__ import annotations

from collections import deque
from typing import Literal, TypeAlias

__all__ = ["Kept", "StreamName"]

StreamName: TypeAlias = Literal["stdout", "stderr"]

_PIECE = 65_536
_NOTE = 64
"""Room for the line that says what was left out."""


class Kept:
    """Both streams within one limit. What comes is in order; what goes is the middle."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._room = limit // 2
        """How much more is kept for good."""
        self._head: dict[StreamName, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
        self._tail: deque[tuple[StreamName, bytearray]] = deque()
        self._in_tail = 0
        self._lost: dict[StreamName, int] = {"stdout": 0, "stderr": 0}
        self._shown = 0

    @property
    def truncated(self) -> bool:
        return any(self._lost.values())

    def add(self, stream: StreamName, data: bytes | memoryview) -> None:
        if self._room:
            now = data[: self._room]
            self._head[stream] += now
            self._room -= len(now)
            data = data[len(now) :]
        if data:
            self._add_to_tail(stream, data)

    def to_show(self, data: bytes) -> bytes:
        """As much of it as a reader is still shown."""
        rest = self._limit - self._shown
        shown = data if len(data) <= rest else data[:rest]
        self._shown += len(shown)
        return shown

    def _add_to_tail(self, stream: StreamName, data: bytes | memoryview) -> None:
        if self._tail and self._tail[-1][0] == stream and len(self._tail[-1][1]) < _PIECE:
            self._tail[-1][1].extend(data)
        else:
            self._tail.append((stream, bytearray(data)))
        self._in_tail += len(data)
        most = self._limit - self._limit // 2
        while self._in_tail > most:
            self._drop(self._in_tail - most)

    def _drop(self, surplus: int) -> None:
        stream, oldest = self._tail[0]
        if len(oldest) <= surplus:
            self._tail.popleft()
            gone = len(oldest)
        else:
            del oldest[:surplus]
            gone = surplus
        self._in_tail -= gone
        self._lost[stream] += gone

    def of(self, stream: StreamName) -> bytes:
        """All that is kept of a stream, with a line where something was left out."""
        head = bytes(self._head[stream])
        tail = b"".join(bytes(data) for name, data in self._tail if name == stream)
        lost = self._lost[stream]
        if not lost:
            return head + tail
        if len(tail) < _NOTE:
            return head + tail
        note = f"\n[… {lost + _NOTE} bytes left out …]\n".encode()
        return head + note + tail[_NOTE:]
