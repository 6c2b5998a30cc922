"""What was answered last: bounded by entries, bytes and age, the longest unused goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

__all__ = ["Kept"]

_ENTRY_BYTES = 300
"""What an entry costs beside its key and its text, about."""


class _Entry(NamedTuple):
    lines: bytes
    until: float


class Kept:
    """Recordings by key. May be used from several threads."""

    def __init__(self, *, entries: int, size_bytes: int, ttl_s: float, clock: Callable[[], float]) -> None:
        self._most_entries = entries
        self._most_bytes = size_bytes
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def get(self, key: bytes) -> bytes | None:
        """What is there and not too old; it counts as used now."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._clock() >= entry.until:
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return entry.lines

    def put(self, key: bytes, lines: bytes) -> bool:
        """Whether there is room for it at all; for what is too large, nothing else goes."""
        with self._lock:
            self._drop(key)
            if _cost(key, lines) > self._most_bytes:
                return False
            self._entries[key] = _Entry(lines, self._clock() + self._ttl_s)
            self._bytes += _cost(key, lines)
            while len(self._entries) > self._most_entries or self._bytes > self._most_bytes:
                self._drop(next(iter(self._entries)))
            return True

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    def _drop(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= _cost(key, entry.lines)


def _cost(key: bytes, lines: bytes) -> int:
    return len(key) + len(lines) + _ENTRY_BYTES
