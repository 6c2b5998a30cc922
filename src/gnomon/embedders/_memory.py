"""What was embedded last, in memory: bounded by entries and by bytes, the longest unused goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from threading import Lock

__all__ = ["RecentVectors"]

_ENTRY_BYTES = 200
"""What an entry costs beside its key and its vector, about."""


class RecentVectors:
    """Vectors as bytes, by key. May be used from several threads."""

    def __init__(self, most_entries: int, most_bytes: int) -> None:
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self._vectors: OrderedDict[bytes, bytes] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def get(self, keys: Iterable[bytes]) -> dict[bytes, bytes]:
        """Those that are there; each counts as used now."""
        with self._lock:
            found = {key: self._vectors[key] for key in keys if key in self._vectors}
            for key in found:
                self._vectors.move_to_end(key)
        return found

    def put(self, vectors: Mapping[bytes, bytes]) -> None:
        with self._lock:
            for key, vector in vectors.items():
                self._drop(key)
                self._vectors[key] = vector
                self._bytes += _cost(key, vector)
            while len(self._vectors) > self._most_entries or self._bytes > self._most_bytes:
                self._drop(next(iter(self._vectors)))

    def _drop(self, key: bytes) -> None:
        vector = self._vectors.pop(key, None)
        if vector is not None:
            self._bytes -= _cost(key, vector)


def _cost(key: bytes, vector: bytes) -> int:
    return len(key) + len(vector) + _ENTRY_BYTES
