"""A stretch of an index, read from its entries and then from the rows themselves.

An entry only says where to look; what a row says of its own place counts. A
transaction is not seen at once by who reads many items, so a row that moves
within a part keeps its earlier entry until it is written again: a reader finds
it by either, and puts it where it now stands.
"""

from __future__ import annotations

from collections.abc import Mapping

from gnomon.storage._dynamo_items import StoredRow, cut, is_cut, span_bounds, unpacked_places
from gnomon.storage._rows import Found, Span

__all__ = ["Stretch"]

_MOST_AT_ONCE = 1_000
_NOT_FEWER = 25


class Stretch:
    """What has been read of a stretch."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._found: dict[str, Found] = {}
        self._edge = ""
        self._has_ended = False

    @property
    def bounds(self) -> tuple[str, str]:
        return span_bounds(self._span.above, self._span.below)

    @property
    def is_empty(self) -> bool:
        low, high = self.bounds
        return bool(low and high) and low > high

    @property
    def missing(self) -> int:
        """How many entries to read next; those after the first may be of rows that have moved."""
        wanted = self._span.limit - len(self._sure())
        return min(_MOST_AT_ONCE, max(wanted, _NOT_FEWER) if self._edge else wanted)

    @property
    def is_done(self) -> bool:
        return self._has_ended or len(self._sure()) >= self._span.limit

    def take(self, rows: Mapping[str, StoredRow]) -> None:
        for id, row in rows.items():
            for at in unpacked_places(row)[0]:
                if (at.index, at.part) == (self._span.index, self._span.part) and self._holds(at.sort):
                    self._found[at.sort] = Found(id, row.revision, row.body, at.sort)

    def reach(self, edge: str, *, is_end: bool) -> None:
        """All entries up to this key have been read."""
        self._edge, self._has_ended = edge or self._edge, is_end

    def rows(self) -> list[Found]:
        order = sorted(self._sure(), reverse=self._span.descending)
        return [self._found[sort] for sort in order[: self._span.limit]]

    def _sure(self) -> list[str]:
        """The places before which nothing can be found any more."""
        return [sort for sort in self._found if self._has_ended or self._is_before_edge(sort)]

    def _is_before_edge(self, sort: str) -> bool:
        if is_cut(self._edge):  # among those that begin alike, a lower one may still come
            low, high = (
                (cut(self._edge), cut(sort)) if self._span.descending else (cut(sort), cut(self._edge))
            )
            return low < high
        return sort >= self._edge if self._span.descending else sort <= self._edge

    def _holds(self, sort: str) -> bool:
        above, below = self._span.above, self._span.below
        return (not above or sort > above) and (not below or sort < below)
