"""What was measured once is not measured again: a history grows at its end, and the rest is the same.

A list is taken in runs of a few objects. A run is known by the identities of its objects, and
holds them as long as it is kept: so no other object can get the `id` of one of them. That
costs the same however long they are. Messages and tools are frozen; whoever changes what is
inside of one, the dictionary of a schema, has to make a new one for it to be counted anew.

Bounded in two generations: what is asked for again moves to the young one, and when that is
full, it becomes the old one and the old one goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from gnomon.counters._measure import NOTHING, Columns

__all__ = ["Kept"]

_T = TypeVar("_T")
_Key: TypeAlias = tuple[int, ...]

_RUN = 64
_GROWTH = 3
"""By how many objects the end may have grown for the part of it that is known to be looked for."""

_MOST = 1_024
_MOST_BYTES = 32_000_000
_WEIGHT_A_BYTE = 2
"""Of English, about, and more of anything else."""


class _Run(NamedTuple, Generic[_T]):
    columns: Columns
    objects: Sequence[_T]


class Kept(Generic[_T]):
    """A bounded memory of measures. Threads may use it at once: at worst, two measure the same."""

    def __init__(
        self, measure: Callable[[Sequence[_T]], Columns], *, most: int = _MOST, most_bytes: int = _MOST_BYTES
    ) -> None:
        self._measure = measure
        self._most = most
        self._most_bytes = most_bytes
        self._young: dict[_Key, _Run[_T]] = {}
        self._old: dict[_Key, _Run[_T]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def total(self, objects: Sequence[_T]) -> Columns:
        """The columns of all of them, added up."""
        total = NOTHING
        for at in range(0, len(objects), _RUN):
            last = at + _RUN + _GROWTH > len(objects)
            total = total.plus(self._run(objects[at : at + _RUN], _GROWTH if last else 0))
        return total

    def _run(self, objects: Sequence[_T], growth: int) -> Columns:
        key = tuple(map(id, objects))
        found = self._young.get(key)
        if found is not None:
            return found.columns
        columns = self._grown(key, objects, growth)
        self._keep(key, _Run(columns, tuple(objects)))
        return columns

    def _grown(self, key: _Key, objects: Sequence[_T], growth: int) -> Columns:
        """From the longest part that is known, and a measure of the rest."""
        for cut in range(len(key), max(0, len(key) - growth - 1), -1):
            known = self._young.get(key[:cut]) or self._old.get(key[:cut])
            if known is not None:
                rest = objects[cut:]
                return known.columns.plus(self._measure(rest)) if rest else known.columns
        return self._measure(objects)

    def _keep(self, key: _Key, run: _Run[_T]) -> None:
        if len(self._young) >= self._most or self._bytes > self._most_bytes:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[key] = run
        self._bytes += run.columns.held + (run.columns.ascii + run.columns.other) // _WEIGHT_A_BYTE
